"""Folders that transformers wrote, by their config.json: the same answers, and given back as its own."""

import json
import os

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
import transformers as hf
from peers import TEXT, distance, noisy, pixels

import zoo
from zoo.errors import OptionError, UserError

VIT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8)
MLP, WIDE = {"intermediate_size": 64}, {"intermediate_size": 128}
SWIN = dict(embed_dim=16, depths=[2, 2], num_heads=[1, 2], window_size=4, image_size=64)
BIASES = {**VIT, **WIDE, "use_relative_position_bias": True}
GATED = {"use_gated_mlp": True, "hidden_act": "silu"}
DINOV3 = {**VIT, **WIDE, "num_register_tokens": 4}
SMALL = dict(decoder_num_hidden_layers=1, decoder_hidden_size=16, decoder_intermediate_size=32,
             decoder_num_attention_heads=2)  # fmt: skip
LABELS = {"id2label": {0: "ant", 1: "bee", 2: "cat"}}


def both(name, tower, **more):
    """A config of pictures and texts."""
    config = getattr(hf, f"{name}Config")
    return config(text_config=TEXT, vision_config={**VIT, **tower}, **more)


# The name of ours, their config and class, and the class that it is given back as.
THEIRS = {
    "vit": ("vit_mu_patch8_32", lambda: hf.ViTConfig(**VIT, **MLP), "ViTModel", None),
    "vit, labels": ("vit_mu_patch8_32", lambda: hf.ViTConfig(**VIT, **MLP, **LABELS), "ViTForImageClassification", None),
    "deit": ("deit_mu_distilled_patch8_32", lambda: hf.DeiTConfig(**VIT, **WIDE), "DeiTModel", None),
    "deit, labels": ("deit_mu_distilled_patch8_32", lambda: hf.DeiTConfig(**VIT, **WIDE, **LABELS), "DeiTForImageClassification", None),
    "deit, two heads": ("deit_mu_distilled_patch8_32", lambda: hf.DeiTConfig(**VIT, **WIDE, **LABELS), "DeiTForImageClassificationWithTeacher", None),
    "mae": ("vit_mu_patch8_32.mae", lambda: hf.ViTMAEConfig(**VIT, **MLP, mask_ratio=0.0), "ViTMAEModel", None),
    "mae, decoder": ("vit_mu_patch8_32.mae", lambda: hf.ViTMAEConfig(**VIT, **MLP, **SMALL, mask_ratio=0.0), "ViTMAEForPreTraining", "ViTMAEModel"),
    "dinov2": ("vit_mu_patch8_dinov2", lambda: hf.Dinov2Config(**VIT), "Dinov2Model", None),
    "dinov2, labels": ("vit_mu_patch8_dinov2", lambda: hf.Dinov2Config(**VIT, **LABELS), "Dinov2ForImageClassification", None),
    "dinov2, registers": ("vit_mu_patch8_reg4_dinov2", lambda: hf.Dinov2WithRegistersConfig(**VIT), "Dinov2WithRegistersModel", None),
    "dinov2, registers, labels": ("vit_mu_patch8_reg4_dinov2", lambda: hf.Dinov2WithRegistersConfig(**VIT, **LABELS), "Dinov2WithRegistersForImageClassification", None),
    "dinov2 giant": ("vit_mu_giant_patch8_dinov2", lambda: hf.Dinov2Config(**VIT, use_swiglu_ffn=True), "Dinov2Model", None),
    "dinov2 giant, labels": ("vit_mu_giant_patch8_dinov2", lambda: hf.Dinov2Config(**VIT, use_swiglu_ffn=True, **LABELS), "Dinov2ForImageClassification", None),
    "dinov2 giant, registers": ("vit_mu_giant_patch8_reg4_dinov2", lambda: hf.Dinov2WithRegistersConfig(**VIT, use_swiglu_ffn=True), "Dinov2WithRegistersModel", None),
    "dinov3": ("vit_mu_patch8_dinov3_qkvb", lambda: hf.DINOv3ViTConfig(**DINOV3), "DINOv3ViTModel", None),
    "dinov3 plus": ("vit_mu_plus_patch8_dinov3_qkvb", lambda: hf.DINOv3ViTConfig(**DINOV3, **GATED), "DINOv3ViTModel", None),
    "dinov3, no biases": ("vit_mu_patch8_dinov3", lambda: hf.DINOv3ViTConfig(**DINOV3, query_bias=False, value_bias=False), "DINOv3ViTModel", None),
    "beit": ("beit_mu_patch8_32", lambda: hf.BeitConfig(**BIASES), "BeitModel", None),
    "beit, labels": ("beit_mu_patch8_32", lambda: hf.BeitConfig(**BIASES, **LABELS), "BeitForImageClassification", None),
    "siglip": ("vit_mu_patch8_siglip_32", lambda: hf.SiglipVisionConfig(**VIT, **MLP), "SiglipVisionModel", None),
    "siglip, exact gelu": ("vit_mu_patch8_siglip_32", lambda: hf.SiglipVisionConfig(**VIT, **MLP, hidden_act="gelu"), "SiglipVisionModel", None),
    "siglip, whole": ("vit_mu_patch8_siglip_32", lambda: both("Siglip", MLP), "SiglipModel", "SiglipVisionModel"),
    "siglip, labels": ("vit_mu_patch8_siglip_32", lambda: both("Siglip", MLP, **LABELS), "SiglipForImageClassification", None),
    "clip": ("vit_mu_patch8_clip_quickgelu_32", lambda: hf.CLIPVisionConfig(**VIT, **WIDE), "CLIPVisionModel", None),
    "clip, projection": ("vit_mu_patch8_clip_quickgelu_32", lambda: hf.CLIPVisionConfig(**VIT, **WIDE, projection_dim=16), "CLIPVisionModelWithProjection", None),
    "clip, whole": ("vit_mu_patch8_clip_quickgelu_32", lambda: both("CLIP", WIDE, projection_dim=16), "CLIPModel", "CLIPVisionModelWithProjection"),
    "clip, whole, exact gelu": ("vit_mu_patch8_clip_32", lambda: both("CLIP", {**WIDE, "hidden_act": "gelu"}, projection_dim=16), "CLIPModel", "CLIPVisionModelWithProjection"),
    "clip, labels": ("vit_mu_patch8_clip_quickgelu_32", lambda: both("CLIP", WIDE, **LABELS), "CLIPForImageClassification", None),
    "swin": ("swin_mu_patch4_window4_64", lambda: hf.SwinConfig(**SWIN), "SwinModel", None),
    "swin, labels": ("swin_mu_patch4_window4_64", lambda: hf.SwinConfig(**SWIN, **LABELS), "SwinForImageClassification", None),
    "swinv2": ("swinv2_mu_window4_64", lambda: hf.Swinv2Config(**SWIN), "Swinv2Model", None),
    "swinv2, labels": ("swinv2_mu_window4_64", lambda: hf.Swinv2Config(**SWIN, **LABELS), "Swinv2ForImageClassification", None),
    "swinv2, trained smaller": ("swinv2_mu_window8to16_32to64", lambda: hf.Swinv2Config(**{**SWIN, "window_size": 16}, pretrained_window_sizes=[8, 4]), "Swinv2Model", None),
}  # fmt: skip


def answers(theirs, x):
    """-> (tokens after the last norm or None, pooled vector or logits or None)."""
    tower = theirs.vision_model if type(theirs) in (hf.SiglipModel, hf.CLIPModel) else theirs
    tower = tower.vit if isinstance(tower, hf.ViTMAEForPreTraining) else tower
    mae = isinstance(tower, hf.ViTMAEModel)
    noise = {"noise": torch.arange(16.0).expand(len(x), -1)} if mae else {}
    if mae:  # what it masks is no fact of the weights
        tower.config.mask_ratio = 0.0
    out = tower(x, **noise)
    tokens = getattr(out, "last_hidden_state", None)
    if type(theirs) is hf.CLIPModel:
        return tower.post_layernorm(tokens), theirs.visual_projection(out.pooler_output)
    if "CLIPVision" in type(theirs).__name__:  # its tokens are those before the last norm
        norm = (tower if hasattr(tower, "post_layernorm") else tower.vision_model).post_layernorm
        pooled = out.get("image_embeds", out.get("pooler_output"))
        return norm(tokens), pooled
    for key in ("logits", "pooler_output"):
        if key in out:
            return tokens, out[key]
    return tokens, None


def equal(ours, theirs, x):
    """Tokens and, where ours has a head, its answer."""
    tokens, answer = answers(theirs, x)
    if tokens is not None:
        assert distance(ours.features(x).x, tokens) <= 1e-5
    if ours.head is not None:
        assert distance(ours(x), answer) <= 1e-5
    assert tokens is not None or ours.head is not None


def written(folder, case):
    """transformers' folder of a model with random weights, the model, and pictures for it."""
    name, config, kind, _ = THEIRS[case]
    torch.manual_seed(0)
    theirs = noisy(getattr(hf, kind)(config()))
    theirs.save_pretrained(folder)
    size = 64 if "swin" in name else 32
    return theirs, pixels(3, size, size)


@torch.no_grad()
@pytest.mark.parametrize("case", THEIRS)
def test_a_folder_answers_as_its_own_and_is_given_back(tmp_path, case):
    name, _, kind, back = THEIRS[case]
    theirs, x = written(tmp_path / "theirs", case)
    ours = zoo.load(tmp_path / "theirs").eval()
    assert ours.record.name == name
    equal(ours, theirs, x)
    assert ours.record.labels == (
        ("ant", "bee", "cat") if hasattr(theirs, "classifier") or "two heads" in case else None
    )
    ours.save(tmp_path / "ours", layout="hf")
    config = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert config["architectures"] == [back or kind]
    again, info = getattr(hf, back or kind).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not any(info.values()), info
    equal(ours, again.eval(), x)
    auto = hf.AutoConfig.from_pretrained(tmp_path / "ours")
    assert auto.model_type == again.config.model_type
    if kind.endswith("Model"):
        alone = hf.AutoModel.from_pretrained(tmp_path / "ours").eval()
        if type(alone) is type(again):
            equal(ours, alone, x)
    equal(zoo.load(tmp_path / "ours").eval(), again, x)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["Siglip", "CLIP"])
def test_a_tower_that_says_nothing_is_the_usual_one(tmp_path, kind):
    """In configs of the Hub a tower says only what is unusual."""
    case = {"Siglip": "siglip, whole", "CLIP": "clip, whole"}[kind]
    theirs, x = written(tmp_path, case)
    file = tmp_path / "config.json"
    config = json.loads(file.read_text())
    usual = getattr(hf, f"{kind}VisionConfig")().to_dict()
    tower = {k: v for k, v in config["vision_config"].items() if usual.get(k) != v}
    assert "hidden_act" not in tower and "num_channels" not in tower
    file.write_text(json.dumps({**config, "vision_config": tower}))
    equal(zoo.load(tmp_path).eval(), theirs, x)
    tall = zoo.hf.columns({"model_type": kind.lower(), "vision_config": {}}, tmp_path)[1]
    assert {k: tall[k] for k in ("dim", "depth", "heads", "hidden", "size")} == dict(
        dim=768, depth=12, heads=12, hidden=3072, size=224
    )
    assert tall["patch"] == usual["patch_size"]


NAMED = {
    "vit_base_patch16_siglip_224": lambda: hf.SiglipConfig(),
    "vit_so400m_patch14_siglip_384": lambda: hf.SiglipVisionConfig(
        hidden_size=1152, num_hidden_layers=27, num_attention_heads=16, intermediate_size=4304, patch_size=14, image_size=384),
    "vit_base_patch32_clip_quickgelu_224": lambda: hf.CLIPConfig(),
    "vit_large_patch14_clip_224": lambda: hf.CLIPVisionConfig(**LARGE, patch_size=14, hidden_act="gelu"),
    "beit_base_patch16_224": lambda: hf.BeitConfig(use_relative_position_bias=True),
    "swin_tiny_patch4_window7_224": lambda: hf.SwinConfig(),
    "swinv2_tiny_window8_256": lambda: hf.Swinv2Config(window_size=8, image_size=256),
    "swinv2_base_window16_256": lambda: hf.Swinv2Config(**BASE, window_size=16, image_size=256),
    "swinv2_base_window12to16_192to256": lambda: hf.Swinv2Config(
        **BASE, window_size=16, image_size=256, pretrained_window_sizes=[12, 12, 12, 6]),
    "vit_base_patch16_224": lambda: hf.ViTConfig(),
    "deit_base_distilled_patch16_224": lambda: hf.DeiTConfig(),
    "vit_base_patch16_224.mae": lambda: hf.ViTMAEConfig(),
    "vit_giant_patch14_dinov2": lambda: hf.Dinov2Config(
        hidden_size=1536, num_hidden_layers=40, num_attention_heads=24, use_swiglu_ffn=True, patch_size=14, image_size=518),
    "vit_base_patch14_reg4_dinov2": lambda: hf.Dinov2WithRegistersConfig(patch_size=14, image_size=518),
    "vit_large_patch16_dinov3_qkvb": lambda: hf.DINOv3ViTConfig(**LARGE, num_register_tokens=4),
}  # fmt: skip
LARGE = dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
BASE = dict(embed_dim=128, depths=[2, 2, 18, 2], num_heads=[4, 8, 16, 32])


@pytest.mark.parametrize("name", NAMED)
def test_public_sizes_have_their_names_and_every_weight(tmp_path, name):
    """Beside poolers, mask tokens and heads, as many as theirs."""
    config = NAMED[name]()
    make = zoo.loading.Make(*zoo.hf.columns(config.to_dict(), tmp_path))
    assert make.listed == name
    with torch.device("meta"):
        ours = make.build({}, {"head": None})
        theirs = hf.AutoModel.from_config(getattr(config, "vision_config", config))
    left = ("pooler.", "head.", "embeddings.mask_token")
    count = sum(p.numel() for key, p in theirs.named_parameters() if not key.startswith(left))
    spare = 0
    if "reg4" in name:  # a class token's position, which timm's files have folded
        spare = config.hidden_size
    assert sum(p.numel() for p in ours.parameters()) == count - spare


@pytest.mark.parametrize(
    ("case", "change", "says"),
    [
        ("swin", {"layer_norm_eps": 1e-6}, "layer_norm_eps 1e-06"),
        ("swin", {"use_absolute_embeddings": True}, "use_absolute_embeddings True"),
        ("beit", {"use_shared_relative_position_bias": True}, "use_shared_relative_position_bias True"),
        ("beit", {"use_mean_pooling": False}, "use_mean_pooling False"),
        ("dinov3", {"rope_theta": 50.0}, "rope_theta 50.0"),
        ("dinov3", {"num_register_tokens": 2}, "num_register_tokens 2"),
        ("siglip", {"hidden_act": "relu"}, "hidden_act 'relu'"),
        ("clip", {"hidden_act": "relu"}, "hidden_act 'relu'"),
        ("deit", {"intermediate_size": 96}, "MLPs of 96 for a width of 32"),
        ("dinov2", {"mlp_ratio": 3}, "mlp_ratio 3"),
        ("clip, labels", {"vision_config": {**VIT, **WIDE, "num_attention_heads": 3}}, "heads"),
        ("dinov2", {"num_attention_heads": 5}, "heads"),
        ("swinv2", {"pretrained_window_sizes": [4, 8]}, "windows that a picture cuts"),
        ("vit", {"hidden_size": [32]}, r"numbers; .* has hidden_size \(32,\)"),
    ],
)  # fmt: skip
def test_what_would_answer_otherwise_is_refused(tmp_path, case, change, says):
    written(tmp_path, case)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(UserError, match=says) as caught:
        zoo.load(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("vit_mu_patch8_32", {"pool": "mean"}),
        ("vit_mu_patch8_dinov2", {"classes": 3}),
        ("vit_mu_patch8_siglip_32", {"classes": 3}),
        ("deit_mu_patch8_32", {}),
        ("vit_mu_patch8_32.mae", {"classes": 3}),
    ],
)
def test_what_no_class_of_theirs_reads_so_is_not_given_back(tmp_path, name, options):
    with pytest.raises(OptionError, match="save in transformers' layout takes"):
        zoo.create(name, **options).save(tmp_path / "x", layout="hf")
    assert not (tmp_path / "x").exists()


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("vit_mu_patch8_reg4_dinov2", {"class_row": True}),
        ("vit_mu_patch8_reg4_dinov2", {}),  # the class token's position is part of the token
        ("vit_mu_patch8_dinov3_qkvb", {}),
        ("beit_mu_patch8_32", {}),
        ("swinv2_mu_window8to16_32to64", {}),
        ("vit_mu_patch8_clip_32", {}),
    ],
)
def test_what_was_never_theirs_is_given(tmp_path, name, options):
    torch.manual_seed(0)
    ours = noisy(zoo.create(name, **options))
    ours.save(tmp_path / "x", layout="hf")
    config = json.loads((tmp_path / "x" / "config.json").read_text())
    kind = getattr(hf, config["architectures"][0])
    theirs, info = kind.from_pretrained(tmp_path / "x", output_loading_info=True)
    assert not any(info.values()), info
    equal(ours, theirs.eval(), pixels(3, 64, 64) if "swin" in name else pixels())
