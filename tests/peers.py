"""Tiny random members of other libraries, and how each is compared with ours."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy
import timm.layers
import timm.models
import timm.models.beit
import timm.models.eva
import timm.models.naflexvit
import torch
import torchvision
import transformers as hf
from safetensors.torch import load_file, save_file
from timm.models.deit import VisionTransformerDistilled
from timm.models.swin_transformer import SwinTransformer
from timm.models.vision_transformer import VisionTransformer

SPECIAL = dict(bos_token_id=0, eos_token_id=0, pad_token_id=0)


def vit(make=VisionTransformer, **options):
    return make(**{**dict(
        img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=2, mlp_ratio=2, num_classes=7),
        **options})  # fmt: skip


TINY = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
            image_size=32, patch_size=8, num_labels=7)  # fmt: skip


def vit_hf(**options):
    return hf.ViTForImageClassification(hf.ViTConfig(**{**TINY, **options}))


def deit_hf():
    return hf.DeiTForImageClassificationWithTeacher(
        hf.DeiTConfig(**{**TINY, "intermediate_size": 128})
    )


def mae_hf():
    return hf.ViTMAEForPreTraining(hf.ViTMAEConfig(
        **TINY, mask_ratio=0.0, decoder_num_hidden_layers=1, decoder_hidden_size=16,
        decoder_intermediate_size=32, decoder_num_attention_heads=2))  # fmt: skip


def dinov2_hf(kind, **options):
    config = getattr(hf, f"{kind}Config")
    sizes = {k: v for k, v in TINY.items() if k != "intermediate_size"}
    return getattr(hf, f"{kind}Model")(config(**sizes, **options))


def vit_torchvision():
    return torchvision.models.VisionTransformer(32, 8, 2, 2, 32, 64, num_classes=7)


def swin_hf():
    return hf.SwinForImageClassification(hf.SwinConfig(
        image_size=64, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[1, 2], window_size=4,
        num_labels=7))  # fmt: skip


def swin_torchvision():
    return torchvision.models.SwinTransformer([4, 4], 16, [2, 2], [1, 2], [4, 4], num_classes=7)


def swin(**options):
    return SwinTransformer(**{**dict(
        img_size=64, patch_size=4, window_size=4, embed_dim=16, depths=(2, 2), num_heads=(1, 2),
        num_classes=7), **options})  # fmt: skip


def bert():
    return hf.BertModel(hf.BertConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=128, max_position_embeddings=48))  # fmt: skip


def gpt():
    return hf.GPT2Model(hf.GPT2Config(
        vocab_size=64, n_positions=48, n_embd=32, n_layer=2, n_head=2, **SPECIAL))  # fmt: skip


def llama():
    return hf.LlamaModel(hf.LlamaConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=48, rms_norm_eps=1e-5, **SPECIAL))  # fmt: skip


def ast():
    return hf.ASTForAudioClassification(hf.ASTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
        num_labels=10, max_length=64, num_mel_bins=32))  # fmt: skip


def noisy(model, seed=0):
    """The model in eval, every parameter normal with deviation 0.2: nothing is zero or one by chance."""
    generator = torch.Generator().manual_seed(seed)
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.2, generator=generator)
    return model.eval()


def distance(ours, theirs) -> float:
    """Norm of the difference over the norm."""
    return float((ours - theirs).norm() / theirs.norm())


def ids(batch=3, length=11):
    return torch.randint(1, 64, (batch, length), generator=torch.Generator().manual_seed(3))


def right(batch=3, length=11):
    """(B, T) bool: padding on the right of all texts but the first."""
    return torch.arange(length) < torch.tensor([length, 7, 4])[:, None]


def pixels(channels=3, height=32, width=32):
    return torch.randn(2, channels, height, width, generator=torch.Generator().manual_seed(1))


def text_features(model, peer) -> tuple[Any, Any]:
    """Hidden states of the real tokens of padded texts."""
    keep = right()
    theirs = peer(ids(), attention_mask=keep.long()).last_hidden_state
    return model.features(ids(), keep=keep).x[keep], theirs[keep]


def on_disk(peer) -> dict[str, torch.Tensor]:
    """What transformers writes: the names of version 4."""
    with TemporaryDirectory() as folder:
        peer.save_pretrained(folder)
        return load_file(f"{folder}/model.safetensors")


def from_disk(peer, state) -> None:
    """transformers reads a folder of those names, and has what it had."""
    with TemporaryDirectory() as folder:
        peer.config.save_pretrained(folder)
        tensors = {key: tensor.contiguous() for key, tensor in state.items()}
        save_file(tensors, Path(folder) / "model.safetensors", {"format": "pt"})
        again, info = type(peer).from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()), info
    assert all(torch.equal(again.state_dict()[k], t) for k, t in peer.state_dict().items())


def swin_old(peer) -> dict[str, torch.Tensor]:
    """A timm Swin as Microsoft and timm <= 0.6 wrote it: merges close a stage, and buffers are kept."""
    state = {}
    for key, tensor in peer.state_dict().items():
        if ".downsample." in key:
            _, stage, rest = key.split(".", 2)
            key = f"layers.{int(stage) - 1}.{rest}"
        state[key.replace("head.fc.", "head.")] = tensor
    for key, tensor in peer.named_buffers():
        if not key.endswith(".k_bias"):
            state[key] = tensor
    return state


def timm_filter(module: str, **options):
    """timm reads older or foreign names by its own filter, and has what it had."""

    def take(peer, state) -> None:
        state = {key: t for key, t in state.items() if not key.startswith("decoder_")}
        filtered = getattr(timm.models, module).checkpoint_filter_fn(state, peer, **options)
        before = {key: tensor.clone() for key, tensor in peer.state_dict().items()}
        noisy(peer, 1).load_state_dict(filtered)
        assert all(torch.allclose(peer.state_dict()[key], t) for key, t in before.items())

    return take


def also(replace=(), **shapes):
    """A peer's state under other names, with further random tensors."""

    def state(peer):
        generator = torch.Generator().manual_seed(5)
        theirs = {key: torch.randn(shape, generator=generator) for key, shape in shapes.items()}
        for key, tensor in peer.state_dict().items():
            for old, new in replace:
                key = key.replace(old, new)
            theirs[key] = tensor
        return theirs

    return state


def with_class_row(peer):
    """timm's DINOv2 with registers as Meta has it: the class token's position is no part of the token."""
    state = also([("reg_token", "register_tokens")], mask_token=(1, 32))(peer)
    row = torch.randn(1, 1, 32, generator=torch.Generator().manual_seed(6))
    state["cls_token"], state["pos_embed"] = (
        state["cls_token"] - row,
        torch.cat((row, state["pos_embed"]), 1),
    )
    return state


@dataclass(frozen=True)
class Case:
    """One family in one layout."""

    name: str
    layout: str
    peer: Callable[[], Any]
    features: Callable[[Any, Any], tuple[Any, Any]]
    answer: Callable[[Any, Any], tuple[Any, Any]] | None = None
    options: tuple[tuple[str, Any], ...] = ()
    state: Callable[[Any], dict[str, torch.Tensor]] = lambda peer: peer.state_dict()
    take: Callable[[Any, Any], Any] = lambda peer, state: peer.load_state_dict(state)

    @property
    def id(self) -> str:
        return f"{self.name} {self.layout}"


def inside(peer, name, *inputs):
    """What a module within the peer answers."""
    seen = []
    hook = peer.get_submodule(name).register_forward_hook(lambda m, i, out: seen.append(out))
    peer(*inputs)
    hook.remove()
    return seen[0]


def deit3():
    return vit(mlp_ratio=4, init_values=0.1, no_embed_class=True)


def dinov2(giant, reg):
    more = dict(reg_tokens=4, no_embed_class=True) if reg else {}
    if giant:
        more |= dict(mlp_layer=timm.layers.SwiGLUPacked, act_layer=torch.nn.SiLU, mlp_ratio=5.5)
    return vit(**{"mlp_ratio": 4, "init_values": 0.1, "num_classes": 0, **more})


def naflex(**options):
    return timm.models.naflexvit.NaFlexVit(**{**dict(
        patch_size=2, embed_dim=32, depth=2, num_heads=2, reg_tokens=4, init_values=0.1,
        global_pool="avg", fc_norm=True, num_classes=7), **options})  # fmt: skip


NAFLEX_VIT = dict(patch_size=8, mlp_ratio=2, class_token=True, reg_tokens=0, init_values=None,
                  global_pool="token", fc_norm=False, pos_embed_grid_size=(4, 4))  # fmt: skip


def siglip(**options):
    return vit(**{"class_token": False, "global_pool": "map", **options})


TEXT = dict(vocab_size=20, max_position_embeddings=8, hidden_size=32, num_hidden_layers=1,
            num_attention_heads=2, intermediate_size=64)  # fmt: skip


def siglip_hf():
    return hf.SiglipModel(hf.SiglipConfig(text_config=TEXT, vision_config=TINY))


def clip_whole_hf(act):
    tower = {**TINY, "intermediate_size": 128, "hidden_act": act}
    return hf.CLIPModel(hf.CLIPConfig(text_config=TEXT, vision_config=tower, projection_dim=16))


QUICK = {"clip": torch.nn.GELU, "clip_quickgelu": timm.layers.QuickGELU}
HF_ACTS = {"clip": "gelu", "clip_quickgelu": "quick_gelu"}


TANH = partial(torch.nn.GELU, approximate="tanh")


def clip(act):
    return vit(mlp_ratio=4, num_classes=16, pre_norm=True, act_layer=act,
               norm_layer=partial(torch.nn.LayerNorm, eps=1e-5))  # fmt: skip


def clip_hf(act):
    return hf.CLIPVisionModelWithProjection(hf.CLIPVisionConfig(
        **{**TINY, "intermediate_size": 128}, projection_dim=16, hidden_act=act))  # fmt: skip


OPENAI = [("patch_embed.proj", "conv1"), ("pos_embed", "positional_embedding"), ("norm_pre", "ln_pre"),
          ("blocks.", "transformer.resblocks."), (".norm", ".ln_"), ("norm.", "ln_post."),
          ("qkv.", "in_proj_"), ("attn.proj", "attn.out_proj"), ("fc1", "c_fc"), ("fc2", "c_proj"),
          ("head.weight", "proj"), ("cls_token", "class_embedding")]  # fmt: skip


def openai(peer):
    """timm's CLIP tower as OpenAI wrote it, with a text tower beside it. Its head has no bias."""
    peer.head.bias.data.zero_()
    state = {f"visual.{key}": t for key, t in also(OPENAI)(peer).items() if key != "head.bias"}
    state["visual.proj"] = state["visual.proj"].T.contiguous()
    state["visual.class_embedding"] = state["visual.class_embedding"][0, 0]
    state["visual.positional_embedding"] = state["visual.positional_embedding"][0]
    more = {
        "transformer.resblocks.0.attn.in_proj_weight": (48, 16),
        "logit_scale": (),
        "ln_final.bias": (16,),
    }
    return {**state, **{key: torch.ones(shape) for key, shape in more.items()}}


def from_openai(peer, state):
    timm_filter("vision_transformer")(peer, {k: t for k, t in state.items() if "visual" in k})


SWINV2 = {"window4_64": dict(window_size=4), "window16_64": dict(window_size=16),
          "window8to16_32to64": dict(window_size=16, pretrained_window_sizes=(8, 4))}  # fmt: skip


def swin3d():
    return torchvision.models.video.SwinTransformer3d(
        [2, 4, 4], 16, [2, 2], [1, 2], [2, 4, 4], num_classes=7)  # fmt: skip


VIDEO = torch.randn(2, 3, 6, 32, 40, generator=torch.Generator().manual_seed(1))


def swinv2(**options):
    return timm.models.swin_transformer_v2.SwinTransformerV2(
        img_size=64, patch_size=4, embed_dim=16, depths=(2, 2), num_heads=(1, 2), num_classes=7,
        **{"pretrained_window_sizes": (0, 0), **options})  # fmt: skip


def swinv2_torchvision():
    swin = torchvision.models.swin_transformer
    return swin.SwinTransformer(
        [4, 4], 16, [2, 2], [1, 2], [4, 4], num_classes=7, block=swin.SwinTransformerBlockV2,
        downsample_layer=swin.PatchMergingV2)  # fmt: skip


def swinv2_hf(**options):
    return hf.Swinv2ForImageClassification(hf.Swinv2Config(
        image_size=64, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[1, 2], num_labels=7,
        **{"pretrained_window_sizes": (0, 0), **options}))  # fmt: skip


EVA02 = dict(mlp_ratio=4 * 2 / 3, swiglu_mlp=True, use_rot_pos_emb=True, ref_feat_shape=(16, 16))
LAYER = partial(torch.nn.LayerNorm, eps=1e-5)


def eva(**options):
    return vit(timm.models.eva.Eva, **options)


BAAI = [("q_proj.bias", "q_bias"), ("v_proj.bias", "v_bias"), ("fc1_g", "w1"), ("fc1_x", "w2"),
        ("fc1", "w12"), ("fc2", "w3"), ("mlp.norm", "mlp.ffn_ln")]  # fmt: skip


def baai(peer, **more):
    """timm's EVA-02 as its authors wrote it, with the turns of all places."""
    state, turns = (
        also(BAAI, **more)(peer),
        torch.arange(4)[:, None] / 4 * 16 / 10000 ** (torch.arange(0, 8, 2) / 8),
    )
    turns = turns.repeat_interleave(2, 1)
    both = torch.cat((turns[:, None].expand(4, 4, 8), turns[None].expand(4, 4, 8)), -1).reshape(
        16, 16
    )
    for at in ("", "blocks.0.attn.", "blocks.1.attn."):
        state |= {f"{at}rope.freqs_cos": both.cos(), f"{at}rope.freqs_sin": both.sin()}
    return state


def from_mim(peer, state, **options):
    """timm makes the norm of all tokens one of their mean."""
    more = {"qkv_fused": False, "scale_mlp": True} if "blocks.0.attn.q_proj.weight" in state else {}
    other = eva(**(options or EVA02), **more, num_classes=0)
    other.load_state_dict(timm.models.eva.checkpoint_filter_fn(state, other))
    assert torch.equal(other.fc_norm.weight, peer.norm.weight)


def dinov3(plus, qkvb):
    more = dict(swiglu_mlp=True, swiglu_align_to=8) if plus else {}
    return partial(
        eva, num_classes=0, mlp_ratio=4, qkv_bias=bool(qkvb), init_values=0.1, rope_type="dinov3",
        rope_temperature=100, rope_rotate_half=True, use_rot_pos_emb=True, use_abs_pos_emb=False,
        num_reg_tokens=4, use_fc_norm=False, norm_layer=LAYER, **more)  # fmt: skip


def dinov3_hf(plus):
    more = dict(use_gated_mlp=True, hidden_act="silu") if plus else {}
    return hf.DINOv3ViTModel(hf.DINOv3ViTConfig(
        **{**TINY, "intermediate_size": 128}, num_register_tokens=4, **more))  # fmt: skip


def dinov3_fb(peer):
    """timm's DINOv3 as Meta wrote it: the bias of the keys, which is masked, is something else."""
    state = also([("reg_token", "storage_tokens"), ("gamma_", "ls"), ("fc1_g", "w1"), ("fc1_x", "w2"),
                  *([("fc2", "w3")] if hasattr(peer.blocks[0].mlp, "fc1_g") else [])], mask_token=(1, 32))(peer)  # fmt: skip
    state = {key + ".gamma" * key.endswith(("ls1", "ls2")): t for key, t in state.items()}
    for block in ("blocks.0.attn", "blocks.1.attn"):
        q, v = (state.pop(f"{block}.{n}_bias") for n in "qv")
        state[f"{block}.qkv.bias"] = torch.cat((q, torch.ones(32), v))
        state[f"{block}.qkv.bias_mask"] = torch.ones(96)
    state["rope_embed.periods"] = 100 ** (2 * torch.arange(4) / 8)
    return state


NPZ = {"jax": ("", 1, 2, 3, "Transformer/posembed_input/pos_embedding"),
       "big_vision": ("params/", 0, 1, 0, "pos_embedding")}  # fmt: skip


def npz(prefix, attn, norm, mlp, places, peer):
    """timm's ViT as Google wrote it."""
    state = peer.state_dict()
    theirs = {places: state["pos_embed"], "cls": state["cls_token"], "embedding/bias": state["patch_embed.proj.bias"],
              "embedding/kernel": state["patch_embed.proj.weight"].permute(2, 3, 1, 0),
              "head/kernel": state["head.weight"].T, "head/bias": state["head.bias"]}  # fmt: skip
    norms = {"norm": "Transformer/encoder_norm"}
    for i in range(2):
        there, heads = (
            f"Transformer/encoderblock_{i}",
            f"Transformer/encoderblock_{i}/MultiHeadDotProductAttention_{attn}",
        )
        norms |= {
            f"blocks.{i}.norm1": f"{there}/LayerNorm_0",
            f"blocks.{i}.norm2": f"{there}/LayerNorm_{norm}",
        }
        for k, name in enumerate(("query", "key", "value")):
            theirs[f"{heads}/{name}/kernel"] = (
                state[f"blocks.{i}.attn.qkv.weight"].chunk(3)[k].T.reshape(32, 2, 16)
            )
            theirs[f"{heads}/{name}/bias"] = (
                state[f"blocks.{i}.attn.qkv.bias"].chunk(3)[k].reshape(2, 16)
            )
        theirs[f"{heads}/out/kernel"] = state[f"blocks.{i}.attn.proj.weight"].T.reshape(2, 16, 32)
        theirs[f"{heads}/out/bias"] = state[f"blocks.{i}.attn.proj.bias"]
        for k in (0, 1):
            theirs[f"{there}/MlpBlock_{mlp}/Dense_{k}/kernel"] = state[
                f"blocks.{i}.mlp.fc{k + 1}.weight"
            ].T
            theirs[f"{there}/MlpBlock_{mlp}/Dense_{k}/bias"] = state[
                f"blocks.{i}.mlp.fc{k + 1}.bias"
            ]
    for ours, name in norms.items():
        theirs |= {f"{name}/scale": state[f"{ours}.weight"], f"{name}/bias": state[f"{ours}.bias"]}
    return {prefix + key: tensor.contiguous() for key, tensor in theirs.items()}


def siglip_npz(peer):
    """timm's SigLIP as big_vision wrote it, with a text tower beside it."""
    state = dict(peer.state_dict())
    more = {"cls_token": torch.ones(1), "head.weight": torch.ones(1, 1), "head.bias": torch.ones(1)}
    stand_in = SimpleNamespace(state_dict=lambda: {**state, **more})
    theirs = npz("params/img/", 0, 1, 0, "pos_embedding", stand_in)
    theirs = {
        key: t for key, t in theirs.items() if "/img/cls" not in key and "/img/head" not in key
    }
    there, pool = "params/img/MAPHead_0", "attn_pool"
    heads, k, v = f"{there}/MultiHeadDotProductAttention_0", *state[f"{pool}.kv.weight"].chunk(2)
    k_bias, v_bias = state[f"{pool}.kv.bias"].chunk(2)
    for name, weight, bias in (("query", state[f"{pool}.q.weight"], state[f"{pool}.q.bias"]),
                               ("key", k, k_bias), ("value", v, v_bias)):  # fmt: skip
        theirs[f"{heads}/{name}/kernel"] = weight.T.reshape(32, 2, 16)
        theirs[f"{heads}/{name}/bias"] = bias.reshape(2, 16)
    theirs[f"{heads}/out/kernel"] = state[f"{pool}.proj.weight"].T.reshape(2, 16, 32)
    theirs[f"{heads}/out/bias"] = state[f"{pool}.proj.bias"]
    for end, name in (("weight", "scale"), ("bias", "bias")):
        theirs[f"{there}/LayerNorm_0/{name}"] = state[f"{pool}.norm.{end}"]
    for i in (0, 1):
        theirs[f"{there}/MlpBlock_0/Dense_{i}/kernel"] = state[f"{pool}.mlp.fc{i + 1}.weight"].T
        theirs[f"{there}/MlpBlock_0/Dense_{i}/bias"] = state[f"{pool}.mlp.fc{i + 1}.bias"]
    theirs[f"{there}/probe"] = state[f"{pool}.latent"]
    text = {"Embed_0/embedding": (9, 16), "Encoder_0/encoderblock_0/LayerNorm_0/scale": (16,),
            "Encoder_0/encoderblock_0/MultiHeadDotProductAttention_0/out/bias": (16,),
            "Encoder_0/encoder_norm/bias": (16,), "head/kernel": (16, 32)}  # fmt: skip
    theirs |= {f"params/txt/{key}": torch.ones(shape) for key, shape in text.items()}
    theirs |= {"params/t": torch.ones(1), "params/b": torch.ones(1)}
    return {key: tensor.contiguous() for key, tensor in theirs.items()}


OPENCLIP_TEXT = {"text.transformer.resblocks.0.attn.in_proj_weight": (48, 16), "logit_scale": (),
                 "text.transformer.resblocks.0.mlp.c_fc.bias": (16,), "text.ln_final.bias": (16,),
                 "text.token_embedding.weight": (9, 16), "text.positional_embedding": (8, 16)}  # fmt: skip


def openclip(peer):
    """The picture tower as OpenAI wrote it, beside a text tower of its own."""
    pictures = {key: t for key, t in openai(peer).items() if "visual" in key}
    return {**pictures, **{key: torch.ones(shape) for key, shape in OPENCLIP_TEXT.items()}}


def trunk(peer):
    """timm's picture tower within an OpenCLIP, whose projection stands beside it without a bias."""
    state = {f"visual.trunk.{key}": t for key, t in peer.state_dict().items()}
    if "visual.trunk.head.weight" in state:
        peer.head.bias.data.zero_()
        state.pop("visual.trunk.head.bias")
        state["visual.head.proj.weight"] = state.pop("visual.trunk.head.weight")
    return {**state, **{key: torch.ones(shape) for key, shape in OPENCLIP_TEXT.items()}}


def npz_pre_logits(peer):
    """timm's body as Google wrote it with a head for ImageNet-21k, which reads a layer that timm has not."""
    more = {"head.weight": torch.ones(9, 16), "head.bias": torch.ones(9)}
    stand_in = SimpleNamespace(state_dict=lambda: {**peer.state_dict(), **more})
    theirs = npz(*NPZ["jax"], stand_in)
    return {**theirs, "pre_logits/kernel": torch.ones(32, 16), "pre_logits/bias": torch.ones(16)}


PRE_LOGITS = {"pre_logits.fc.weight": (16, 32), "pre_logits.fc.bias": (16,), "head.weight": (9, 16),
              "head.bias": (9,)}  # fmt: skip


def from_pre_logits(peer, state):
    """timm leaves the layer out; its body has no use for the head."""
    body = {key: t for key, t in state.items() if not key.startswith("head.")}
    timm_filter("vision_transformer")(peer, body)


def from_npz(peer, state):
    """timm reads the file, and has what it had."""
    before = {key: tensor.clone() for key, tensor in peer.state_dict().items()}
    with TemporaryDirectory() as folder:
        numpy.savez(f"{folder}/vit.npz", **{key: tensor.numpy() for key, tensor in state.items()})
        noisy(peer, 1).load_pretrained(f"{folder}/vit.npz")
    assert all(torch.equal(peer.state_dict()[key], tensor) for key, tensor in before.items())


def beit():
    return vit(timm.models.beit.Beit, mlp_ratio=4, use_abs_pos_emb=False, use_rel_pos_bias=True,
               init_values=0.1)  # fmt: skip


def beit_hf():
    return hf.BeitForImageClassification(hf.BeitConfig(
        **{**TINY, "intermediate_size": 128}, use_relative_position_bias=True))  # fmt: skip


def with_index(peer):
    """timm's BEiT as Microsoft wrote it: the index is kept."""
    index = {k: t for k, t in peer.named_buffers() if k.endswith("relative_position_index")}
    return {**peer.state_dict(), **index}


def other_load(peer, state):
    """The peer's own load_state_dict takes other names than it has, and has what it had."""
    before = {key: tensor.clone() for key, tensor in peer.state_dict().items()}
    noisy(peer, 1).load_state_dict(dict(state))
    assert all(torch.equal(peer.state_dict()[key], tensor) for key, tensor in before.items())


SORTS = [(giant, reg) for giant in ("", "_giant") for reg in ("", "_reg4")]
DINOV2 = {sort: partial(dinov2, *sort) for sort in SORTS}
DINOV2_HF = {(giant, reg): partial(
    dinov2_hf, "Dinov2WithRegisters" if reg else "Dinov2", use_swiglu_ffn=bool(giant))
    for giant, reg in SORTS}  # fmt: skip
EVAS = {"": {}, "_base": dict(qkv_fused=False, scale_mlp=True)}
MIM = partial(baai, mask_token=(1, 1, 32), **{"lm_head.weight": (9, 32), "lm_head.bias": (9,)})
PICTURES = pixels()
BOTH = (lambda m, p: (m.features(PICTURES).x, p.forward_features(PICTURES)),
        lambda m, p: (m(PICTURES), p(PICTURES)))  # fmt: skip
LARGE = pixels(3, 64, 64)
SEVEN = (("classes", 7),)
EPS12 = (("eps", 1e-12),)
HF: dict[str, Any] = {"hf": {}, "hf_v4": dict(state=on_disk, take=from_disk)}
HF_WHOLE = {"hf_whole": HF["hf"], "hf_whole_v4": HF["hf_v4"]}
HF_BODY = {"hf_body": HF["hf"], "hf_body_v4": HF["hf_v4"]}
FRAMES = torch.randn(2, 64, 32, generator=torch.Generator().manual_seed(1))
CASES = [
    Case("vit_mu_patch8_32", "timm", vit,
         lambda m, p: (m.features(PICTURES).x, p.forward_features(PICTURES)),
         lambda m, p: (m(PICTURES), p(PICTURES)), (("classes", 7),)),
    Case("swin_mu_patch4_window4_64", "timm", swin,
         lambda m, p: (m.features(LARGE).x, p.forward_features(LARGE).flatten(1, 2)),
         lambda m, p: (m(LARGE), p(LARGE)), (("classes", 7),)),
    *(Case("vit_mu_patch8_32", layout, vit_hf,
           lambda m, p: (m.features(PICTURES).x, p.vit(PICTURES).last_hidden_state),
           lambda m, p: (m(PICTURES), p(PICTURES).logits), SEVEN + EPS12, **how)
      for layout, how in HF.items()),
    Case("vit_mu_patch8_32", "torchvision", vit_torchvision,
         lambda m, p: (m.features(PICTURES).x, inside(p, "encoder", PICTURES)),
         lambda m, p: (m(PICTURES), p(PICTURES)), SEVEN),
    Case("deit_mu_patch8_32", "timm", lambda: vit(mlp_ratio=4), *BOTH, SEVEN),
    *(Case("deit_mu_patch8_32", layout, lambda: vit_hf(intermediate_size=128),
           lambda m, p: (m.features(PICTURES).x, p.vit(PICTURES).last_hidden_state),
           lambda m, p: (m(PICTURES), p(PICTURES).logits), SEVEN + EPS12, **how)
      for layout, how in HF.items()),
    Case("deit_mu_distilled_patch8_32", "timm", lambda: vit(VisionTransformerDistilled, mlp_ratio=4),
         *BOTH, SEVEN),
    *(Case("deit_mu_distilled_patch8_32", layout, deit_hf,
           lambda m, p: (m.features(PICTURES).x, p.deit(PICTURES).last_hidden_state),
           lambda m, p: (m(PICTURES), p(PICTURES).logits), SEVEN + EPS12, **how)
      for layout, how in HF.items()),
    Case("deit3_mu_patch8_32", "timm", deit3, *BOTH, SEVEN),
    Case("deit3_mu_patch8_32", "fb", deit3, *BOTH, SEVEN,
         also([("ls1.gamma", "gamma_1"), ("ls2.gamma", "gamma_2")]),
         timm_filter("vision_transformer", adapt_layer_scale=True)),
    Case("vit_mu_patch8_32.mae", "timm", lambda: vit(global_pool="avg", fc_norm=True),
         lambda m, p: (m.features(PICTURES).x, p.forward_features(PICTURES)),
         lambda m, p: (m(PICTURES), p(PICTURES)), SEVEN),
    Case("vit_mu_patch8_32.mae", "fb", lambda: vit(num_classes=0), BOTH[0], None, (),
         also(mask_token=(1, 1, 16), decoder_pos_embed=(1, 17, 16),
              **{"decoder_embed.weight": (16, 32), "decoder_blocks.3.norm1.bias": (16,)}),
         timm_filter("vision_transformer")),
    *(Case("vit_mu_patch8_32.mae", layout, mae_hf,
           lambda m, p: (m.features(PICTURES).x,
                         p.vit(PICTURES, noise=torch.arange(16.0).expand(2, -1)).last_hidden_state),
           None, EPS12, **how) for layout, how in HF_WHOLE.items()),
    *(Case(f"vit_mu{giant}_patch8{reg}_dinov2", "timm", peer, BOTH[0])
      for (giant, reg), peer in DINOV2.items()),
    *(Case(f"vit_mu{giant}_patch8{reg}_dinov2", "fb", peer, BOTH[0], None,
           (("class_row", True),) if reg else (),
           with_class_row if reg else also([("fc1", "w12"), ("fc2", "w3")] if giant else (), mask_token=(1, 32)),
           timm_filter("vision_transformer"))
      for (giant, reg), peer in DINOV2.items() if not (giant and reg)),
    *(Case(f"vit_mu{giant}_patch8{reg}_dinov2", layout, peer,
           lambda m, p: (m.features(PICTURES).x, p(PICTURES).last_hidden_state), None,
           (("class_row", True),) if reg else (), **how)
      for (giant, reg), peer in DINOV2_HF.items() for layout, how in HF.items()),
    Case("vit_mu_patch8_siglip_32", "timm", siglip, *BOTH, SEVEN),
    Case("vit_mu_patch8_siglip_32", "hf", lambda: hf.SiglipVisionModel(hf.SiglipVisionConfig(**TINY)),
         lambda m, p: (m.features(PICTURES).x, p(PICTURES).last_hidden_state),
         lambda m, p: (m(PICTURES), p(PICTURES).pooler_output), (("activation", "gelu_tanh"),)),
    Case("vit_mu_patch8_siglip_32", "hf_whole", siglip_hf,
         lambda m, p: (m.features(PICTURES).x, p.vision_model(PICTURES).last_hidden_state),
         lambda m, p: (m(PICTURES), p.vision_model(PICTURES).pooler_output), (("activation", "gelu_tanh"),)),
    Case("vit_mu_patch8_siglip_gap_32", "timm", partial(siglip, global_pool="avg", fc_norm=False), *BOTH, SEVEN),
    Case("vit_mu_patch8_siglip_32", "trunk", partial(siglip, num_classes=0), *BOTH, (), trunk,
         timm_filter("vision_transformer")),
    Case("vit_mu_patch8_siglip_32", "big_vision", partial(siglip, num_classes=0, act_layer=TANH),
         *BOTH, (("activation", "gelu_tanh"),), siglip_npz, from_npz),
    *(Case(f"vit_mu_patch8_{name}_32", layout, partial(clip, act), *BOTH, (), state, take)
      for name, act in QUICK.items()
      for layout, state, take in (("openclip", openclip, from_openai),
                                  ("trunk", trunk, timm_filter("vision_transformer")))),
    *(Case(f"vit_mu_patch8_{name}_32", "timm", partial(clip, act), *BOTH, (("bias", True),))
      for name, act in QUICK.items()),
    *(Case(f"vit_mu_patch8_{name}_32", "openai", partial(clip, act), BOTH[0], BOTH[1], (),
           openai, from_openai) for name, act in QUICK.items()),
    *(Case(f"vit_mu_patch8_{name}_32", "hf", partial(clip_hf, act),
           lambda m, p: (m.features(PICTURES).x,
                         p.vision_model.post_layernorm(p.vision_model(PICTURES).last_hidden_state)),
           lambda m, p: (m(PICTURES), p(PICTURES).image_embeds)) for name, act in HF_ACTS.items()),
    *(Case(f"vit_mu_patch8_{name}_32", "hf_whole", partial(clip_whole_hf, act),
           lambda m, p: (m.features(PICTURES).x,
                         p.vision_model.post_layernorm(p.vision_model(PICTURES).last_hidden_state)),
           lambda m, p: (m(PICTURES), p.visual_projection(p.vision_model(PICTURES).pooler_output)))
      for name, act in HF_ACTS.items()),
    *(Case(f"eva02_mu{base}_patch8_32", "timm", partial(eva, **EVA02, **more), *BOTH, SEVEN)
      for base, more in EVAS.items()),
    *(Case(f"eva02_mu{base}_patch8_32", "baai", partial(eva, **EVA02, **more), *BOTH, SEVEN, baai,
           timm_filter("eva"))
      for base, more in EVAS.items()),
    *(Case(f"eva02_mu{base}_patch8_32", "baai_mim",
           partial(eva, **EVA02, **more, num_classes=0, use_fc_norm=False), BOTH[0], None,
           (("head", None), ("backbone.norm", "layer")), MIM, from_mim)
      for base, more in EVAS.items()),
    *(Case(f"vit_mu{plus}_patch8_dinov3{qkvb}", "timm", dinov3(plus, qkvb), BOTH[0])
      for plus in ("", "_plus") for qkvb in ("", "_qkvb")),
    *(Case(f"vit_mu{plus}_patch8_dinov3_qkvb", "fb", dinov3(plus, "_qkvb"), BOTH[0], None, (),
           dinov3_fb, timm_filter("eva")) for plus in ("", "_plus")),
    *(Case(f"vit_mu{plus}_patch8_dinov3_qkvb", layout, partial(dinov3_hf, plus),
           lambda m, p: (m.features(PICTURES).x, p(PICTURES).last_hidden_state), **how)
      for plus in ("", "_plus") for layout, how in HF.items()),
    Case("vit_mu_patch8_32", "torchvision_old", vit_torchvision,
         lambda m, p: (m.features(PICTURES).x, inside(p, "encoder", PICTURES)), BOTH[1], SEVEN,
         also([("mlp.0", "mlp.linear_1"), ("mlp.3", "mlp.linear_2")]), other_load),
    *(Case("vit_mu_patch8_32", layout, lambda: hf.ViTModel(hf.ViTConfig(**TINY)),
           lambda m, p: (m.features(PICTURES).x, p(PICTURES).last_hidden_state), None,
           (*EPS12, ("head", None)), **how) for layout, how in HF_BODY.items()),
    *(Case("vit_mu_patch8_32", layout, partial(vit, num_classes=0), BOTH[0], None, (("head", None),), state, take)
      for layout, state, take in (("jax_pre_logits", npz_pre_logits, from_npz),
                                  ("timm_pre_logits", also(**PRE_LOGITS), from_pre_logits))),
    Case("vit_mu_patch8_32", "naflex", partial(naflex, **NAFLEX_VIT), *BOTH, (*SEVEN, ("position_prefix", False))),
    Case("naflexvit_mu_patch2_gap", "timm", naflex, *BOTH, SEVEN),
    Case("vit_mu_patch8_gap_32", "timm", partial(siglip, global_pool="avg", fc_norm=False), *BOTH, SEVEN),
    Case("eva_mu_patch8_32", "timm", eva, *BOTH, SEVEN),
    Case("eva_mu_patch8_32", "baai_mim", partial(eva, num_classes=0, use_fc_norm=False), BOTH[0], None,
         (("head", None), ("backbone.norm", "layer")),
         also(mask_token=(1, 1, 32), **{"lm_head.weight": (9, 32), "lm_head.bias": (9,)}),
         partial(from_mim, mlp_ratio=2)),
    Case("vit_mu_patch8_32", "jax", vit, *BOTH, SEVEN, partial(npz, *NPZ["jax"]), from_npz),
    Case("vit_mu_patch8_32", "big_vision", partial(vit, no_embed_class=True), *BOTH,
         (*SEVEN, ("position_prefix", False)), partial(npz, *NPZ["big_vision"]), from_npz),
    Case("beit_mu_patch8_32", "timm", beit, *BOTH, SEVEN),
    Case("beitv2_mu_patch8_32", "microsoft", beit, *BOTH, SEVEN, with_index, timm_filter("beit")),
    *(Case("beit_mu_patch8_32", layout, beit_hf,
           lambda m, p: (m.features(PICTURES).x, p.beit(PICTURES).last_hidden_state),
           lambda m, p: (m(PICTURES), p(PICTURES).logits), SEVEN + EPS12, **how)
      for layout, how in HF.items()),
    *(Case("swin_mu_patch4_window4_64", layout, swin_hf,
           lambda m, p: (m.features(LARGE).x, p.swin(LARGE).last_hidden_state),
           lambda m, p: (m(LARGE), p(LARGE).logits), SEVEN, **how) for layout, how in HF.items()),
    Case("swin_mu_patch4_window4_64", "torchvision", swin_torchvision,
         lambda m, p: (m.features(LARGE).x, inside(p, "norm", LARGE).flatten(1, 2)),
         lambda m, p: (m(LARGE), p(LARGE)), SEVEN),
    Case("swin_mu_patch4_window4_64", "timm_old", swin,
         lambda m, p: (m.features(LARGE).x, p.forward_features(LARGE).flatten(1, 2)),
         lambda m, p: (m(LARGE), p(LARGE)), SEVEN, swin_old, timm_filter("swin_transformer")),
    Case("swin3d_mu", "torchvision", swin3d,
         lambda m, p: (m.features(VIDEO).x, inside(p, "norm", VIDEO).flatten(1, 3)),
         lambda m, p: (m(VIDEO), p(VIDEO)), (("pad", "attend"),)),
    *(Case(f"swinv2_mu_{end}", "timm", partial(swinv2, **options),
           lambda m, p: (m.features(LARGE).x, p.forward_features(LARGE).flatten(1, 2)),
           lambda m, p: (m(LARGE), p(LARGE)), SEVEN) for end, options in SWINV2.items()),
    *(Case(f"swinv2_mu_{end}", "timm_old", partial(swinv2, **options),
           lambda m, p: (m.features(LARGE).x, p.forward_features(LARGE).flatten(1, 2)),
           lambda m, p: (m(LARGE), p(LARGE)), SEVEN, swin_old, timm_filter("swin_transformer_v2"))
      for end, options in SWINV2.items()),
    Case("swinv2_mu_window4_64", "torchvision", swinv2_torchvision,
         lambda m, p: (m.features(LARGE).x, inside(p, "norm", LARGE).flatten(1, 2)),
         lambda m, p: (m(LARGE), p(LARGE)), SEVEN),
    *(Case(f"swinv2_mu_{end}", "hf", partial(swinv2_hf, **options),
           lambda m, p: (m.features(LARGE).x, p.swinv2(LARGE).last_hidden_state),
           lambda m, p: (m(LARGE), p(LARGE).logits), SEVEN) for end, options in SWINV2.items()),
    Case("bert_mu", "hf", bert, text_features),
    Case("gpt2_mu", "hf", gpt, text_features),
    Case("llama_mu", "hf", llama, text_features),
    *(Case("ast_mu", layout, ast,
           lambda m, p: (m.features(FRAMES).x, p.audio_spectrogram_transformer(FRAMES).last_hidden_state),
           lambda m, p: (m(FRAMES), p(FRAMES).logits), **how) for layout, how in HF.items()),
]  # fmt: skip
