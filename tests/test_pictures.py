"""Pictures are read as the checkpoint says: as timm and transformers prepare the same photographs."""

import json
import os
from dataclasses import replace

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import timm
import torch
import torchvision
import transformers as hf
from PIL import Image
from safetensors.torch import save_file
from sklearn.datasets import load_sample_images
from timm.data import create_transform, resolve_data_config

import zoo
from zoo import facts
from zoo.errors import OptionError, UserError
from zoo.inputs import Preprocess

CHINA, FLOWER = (Image.fromarray(array) for array in load_sample_images().images)
PHOTOGRAPHS = [
    CHINA,
    FLOWER,
    CHINA.resize((301, 467)),
    FLOWER.resize((333, 91)),
    CHINA.resize((100, 97)),
]
TAGGED = ["vit_base_patch16_224.augreg2_in21k_ft_in1k", "vit_base_patch16_384.augreg_in21k_ft_in1k",
          "vit_base_patch16_siglip_224.webli", "vit_large_patch14_clip_336.openai",
          "eva02_large_patch14_448.mim_m38m_ft_in22k_in1k", "swin_base_patch4_window12_384.ms_in22k_ft_in1k",
          "swinv2_base_window12to16_192to256.ms_in22k_ft_in1k", "deit3_base_patch16_384.fb_in1k",
          "beit_large_patch16_512.in22k_ft_in22k_in1k", "vit_base_patch14_dinov2.lvd142m",
          "vit_small_patch16_dinov3_qkvb.lvd1689m", "vit_base_patch16_224.mae"]  # fmt: skip


def near(ours: Preprocess, theirs, exact: bool):
    """Exact where nothing is cut off: a cut is made before the resize here, after it there, which
    rounds some values to the next grey level, and one in a thousand further."""
    std = torch.tensor(ours.std)[:, None, None]
    for photograph in PHOTOGRAPHS:
        levels = ((ours(photograph) - theirs(photograph)) * std * 255).abs()
        if exact:
            assert float(levels.max()) < 1e-3
        assert float(levels.mean()) < 0.2 and float((levels > 2.5).float().mean()) < 1e-3


@pytest.mark.parametrize("name", TAGGED)
def test_a_tag_of_timm_is_prepared_as_timm_does(name):
    config = resolve_data_config(pretrained_cfg=timm.get_pretrained_cfg(name).to_dict())
    ours = Preprocess(**facts.known_to_timm(name))
    assert ours.size == tuple(config["input_size"][1:])
    near(ours, create_transform(**config), exact="eva02" in name)


@pytest.mark.parametrize("mode", ["center", "squash", "border"])
@pytest.mark.parametrize("sides", [(64, 64), (64, 48)])
@pytest.mark.parametrize("crop", [1.0, 0.875])
def test_a_config_of_timm_is_prepared_as_timm_does(mode, sides, crop):
    config = {"input_size": [3, *sides], "crop_mode": mode, "crop_pct": crop, "interpolation": "bilinear",
              "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.25, 0.3]}  # fmt: skip
    theirs = create_transform(**resolve_data_config(pretrained_cfg=config))
    ours = Preprocess(**facts.of_timm(config))
    near(ours, theirs, exact=mode != "center" and crop == 1)
    assert facts.of_timm({**config, **facts.timm_facts(ours)}) == facts.of_timm(config)


def test_names_with_a_tag_bring_their_facts(tmp_path):
    """For a bare file; the name alone has those of its family."""
    model = zoo.create("vit_tiny_patch16_224", classes=2, depth=1)
    with torch.device("meta"):
        whole = zoo.create("vit_tiny_patch16_224", classes=2)
    state = {k: torch.zeros(t.shape) for k, t in whole.state_for("timm").items()}
    assert model.record.preprocess.crop == 1.0
    save_file(state, tmp_path / "w.safetensors")
    tag = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"
    found = zoo.load(tmp_path / "w.safetensors", name=tag).record
    known = timm.get_pretrained_cfg(tag)
    assert found.preprocess.crop == known.crop_pct == 0.9 and found.preprocess.mean == known.mean
    assert zoo.load(tmp_path / "w.safetensors", name=tag, size=96).record.preprocess.size == (
        96,
        96,
    )
    with pytest.raises(
        OptionError, match=r"takes the tags of timm; 'augreg9' is none: .*augreg_in21k"
    ):
        zoo.load(tmp_path / "w.safetensors", name="vit_tiny_patch16_224.augreg9")


PROCESSORS = {
    "ViT": (dict(resample=2), True),
    "Siglip": (dict(size={"height": 48, "width": 32}), True),
    "Bit": (dict(size={"shortest_edge": 256}, crop_size={"height": 224, "width": 224}), False),
    "CLIP": ({}, False),
    "DeiT": ({}, True),  # an even rest of 32
    "Beit": (dict(size={"height": 37, "width": 37}, do_center_crop=True, crop_size={"height": 32, "width": 32}), False),
    "ViT, not normalised": (dict(do_normalize=False), True),
    "ViT, -1 to 1": (dict(rescale_factor=1 / 127.5, image_mean=[1.0] * 3, image_std=[1.0] * 3), True),
}  # fmt: skip


@pytest.mark.parametrize("kind", PROCESSORS)
@pytest.mark.parametrize("backend", ["pil", "torchvision"])
@pytest.mark.parametrize("where", ["alone", "together"])
def test_a_processor_of_transformers_is_obeyed(tmp_path, kind, backend, where):
    """Exact where it resizes with Pillow; torchvision rounds some values otherwise."""
    options, exact = PROCESSORS[kind]
    theirs = getattr(hf, kind.partition(",")[0] + "ImageProcessor")(**options)
    theirs.save_pretrained(tmp_path)
    if where == "together":
        file = tmp_path / "preprocessor_config.json"
        both = {"image_processor": json.loads(file.read_text()), "processor_class": "CLIPProcessor"}
        file.rename(tmp_path / "processor_config.json").write_text(json.dumps(both))
    else:
        theirs = hf.AutoImageProcessor.from_pretrained(tmp_path, backend=backend)
        assert type(theirs).__name__.endswith("Pil") == (backend == "pil")
    ours = Preprocess(**facts.of_transformers(tmp_path))
    near(ours, lambda p: torch.as_tensor(theirs(p, return_tensors="pt")["pixel_values"][0]),
         exact and backend == "pil" and where == "alone")  # fmt: skip


@pytest.mark.parametrize("mode", ["crop_early", "squash"])
def test_a_processor_is_given_back(tmp_path, mode):
    ours = Preprocess(
        size=(96, 96), crop=0.85, mode=mode, mean=(0.4,), std=(0.3,), interpolation="bilinear"
    )
    told = facts.processor(ours)
    assert told is not None
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(told))
    theirs = hf.AutoImageProcessor.from_pretrained(tmp_path, backend="pil")
    near(ours, lambda p: torch.as_tensor(theirs(p)["pixel_values"][0]), exact=False)
    again = Preprocess(**facts.of_transformers(tmp_path))
    assert (again.size, again.mode, again.mean) == (ours.size, mode, ours.mean)
    assert int(96 / again.crop) == int(96 / ours.crop) == 112
    assert facts.processor(Preprocess(size=(96, 96), mode="pad")) is None


@pytest.mark.parametrize("kept", range(1, 200, 7))
def test_the_crop_makes_the_size_before_the_cut(kept):
    for resized in range(kept, 3 * kept, 5):
        assert int(kept / facts.share(kept, resized)) == resized


@pytest.mark.parametrize("option", [{"do_resize": False}, {"do_pad": True}])
def test_a_processor_that_does_otherwise_is_refused(tmp_path, option):
    told = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, **option}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(told))
    with pytest.raises(UserError, match="takes a picture processor that resizes and does not pad"):
        facts.of_transformers(tmp_path)


TOLD = {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6], "resample": 2}
BRIEF = {  # what files leave to the class, or wrote in former years
    "a CLIP of one number": {**TOLD, "feature_extractor_type": "CLIPFeatureExtractor", "size": 32, "crop_size": 32},
    "a DeiT of numbers": {**TOLD, "feature_extractor_type": "DeiTFeatureExtractor", "size": 36, "crop_size": 32},
    "a ViT of one number": {**TOLD, "feature_extractor_type": "ViTFeatureExtractor", "size": 32},
    "a crop that goes without saying": {**TOLD, "image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 36}, "crop_size": {"height": 32, "width": 32}},
    "nothing but its class": {"image_processor_type": "BitImageProcessor"},
    "no mean, not normalised": {"image_processor_type": "ViTImageProcessor", "do_normalize": False},
    "one mean for all": {**TOLD, "image_processor_type": "ViTImageProcessor", "image_mean": 0.5, "image_std": 0.5},
    "not rescaled": {"image_processor_type": "ViTImageProcessor", "do_rescale": False, "image_mean": [25.0, 50.0, 76.0], "image_std": [100.0, 120.0, 150.0]},
    "a rectangle": {**TOLD, "image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 48}},
}  # fmt: skip


@pytest.mark.parametrize("kind", BRIEF)
def test_what_a_processor_does_without_saying_is_known(tmp_path, kind):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(BRIEF[kind]))
    name = str(BRIEF[kind].get("image_processor_type") or BRIEF[kind]["feature_extractor_type"])
    name = name.replace("FeatureExtractor", "ImageProcessor") + "Pil"
    theirs = getattr(hf, name).from_pretrained(tmp_path)
    ours = Preprocess(**facts.of_transformers(tmp_path))
    near(ours, lambda p: torch.as_tensor(theirs(p)["pixel_values"][0]), exact=False)


@pytest.mark.parametrize(
    ("told", "takes"),
    [
        ({"image_processor_type": "BitImageProcessor", "do_center_crop": False}, "all of one size"),
        ({"image_processor_type": "ConvNextImageProcessor", **TOLD, "size": 64, "crop_pct": 0.9}, "without crop_pct"),
        ({"image_processor_type": "OddImageProcessor"}, "whose file tells size, resample"),
        ({"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 40}, "crop_size": 64}, "no more than there is"),
        ({"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 72, "longest_edge": 80}}, "of a size in pixels"),
        ({"image_processor_type": "DeiTImageProcessor", "size": 64, "crop_size": {"height": 48, "width": 32}}, "the same share"),
    ],
)  # fmt: skip
def test_a_processor_that_cannot_be_followed_is_refused(tmp_path, told, takes):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(told))
    with pytest.raises(UserError, match=f"takes a picture processor .*{takes}.*: remove its file"):
        facts.of_transformers(tmp_path)


def test_a_folder_without_a_processor_says_nothing(tmp_path):
    assert facts.of_transformers(tmp_path) == {}


@pytest.mark.parametrize("text", ["[1]", '{"image_mean": [0.5', ""])
@pytest.mark.parametrize(
    "name", ["preprocessor_config.json", "processor_config.json", "config.json"]
)
def test_a_broken_file_of_facts_is_one_sentence(tmp_path, name, text):
    """And is not taken for none, which would read pictures as the family usually does."""
    zoo.create("vit_mu_patch8_32", 3).save(tmp_path / "h", layout="hf")
    (tmp_path / "h" / "preprocessor_config.json").unlink()
    (tmp_path / "h" / name).write_text(text)
    with pytest.raises(UserError) as error:
        zoo.load(tmp_path / "h", **({"name": "vit_mu_patch8_32"} if name == "config.json" else {}))
    assert str(tmp_path / "h" / name) in str(error.value)


def test_how_pictures_are_read_is_guessed_aloud(tmp_path, caplog):
    """In plain Python too, where nothing asks for more than warnings."""
    model = zoo.create("vit_mu_patch8_32", 3)
    torch.save(model.state_for("timm"), tmp_path / "bare.pth")
    guessed = "how pictures are read is guessed, as those of vit usually are: mean (0.5, 0.5, 0.5)"
    report = zoo.load(tmp_path / "bare.pth", name="vit_mu_patch8_32").record.report
    assert guessed in str(report) and [r.levelname for r in caplog.records] == ["WARNING"]
    assert guessed in caplog.text and "preprocessor_config.json beside it would say" in caplog.text
    caplog.clear()
    for layout in ("timm", "hf"):
        model.save(tmp_path / layout, layout=layout)
        assert "guessed" not in str(zoo.load(tmp_path / layout).record.report)
    (tmp_path / "preprocessor_config.json").write_text(
        (tmp_path / "hf" / "preprocessor_config.json").read_text()
    )
    assert "guessed" not in str(
        zoo.load(tmp_path / "bare.pth", name="vit_mu_patch8_32").record.report
    )
    assert not caplog.records


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ({"0": "a", "2": "c"}, "classes 1 have none"),
        ({"0": "a", "1": "b", "2": "a"}, "several are called a"),
        ({"0": "a", "1": "b", "2": "c"}, None),
        ({"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}, None),
    ],
)
def test_names_of_classes_that_are_left_out_are_told(tmp_path, names, says):
    zoo.create("vit_mu_patch8_32", 3).save(tmp_path / "h", layout="hf")
    file = tmp_path / "h" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "id2label": names}))
    record = zoo.load(tmp_path / "h").record
    assert (record.labels is None) == (names["0"] == "LABEL_0" or says is not None)
    assert (f"names of classes are left out: {says}" in str(record.report)) == (says is not None)
    assert "left out" not in str(record.report) or says is not None


@pytest.mark.parametrize(
    "name, layout", [("vit_mu_patch8_32", "hf"), ("vit_mu_patch8_clip_32", "openclip")]
)
def test_what_another_librarys_file_cannot_say_is_told(tmp_path, caplog, name, layout):
    classes = 64 if layout == "openclip" else 3
    model = zoo.create(name, classes)
    own = replace(model.record.preprocess, mode="pad", mean=0.485, background=(1, 2, 3))
    model.record = replace(model.record, preprocess=own)
    model.save(tmp_path / "h", layout=layout)
    assert "save leaves out how pictures are read" in caplog.text and "mean (0.485, " in caplog.text
    caplog.clear()
    zoo.create(name, classes).save(tmp_path / "i", layout=layout)
    assert not caplog.records


TORCHVISION = {
    "vit_base_patch16_224": "vit_b_16", "vit_base_patch32_224": "vit_b_32", "vit_large_patch16_224": "vit_l_16",
    "vit_large_patch32_224": "vit_l_32", "swin_tiny_patch4_window7_224": "swin_t",
    "swin_small_patch4_window7_224": "swin_s", "swin_base_patch4_window7_224": "swin_b",
    "swinv2_tiny_window8_256": "swin_v2_t", "swinv2_small_window8_256": "swin_v2_s", "swinv2_base_window8_256": "swin_v2_b",
}  # fmt: skip


@pytest.mark.parametrize("name", TORCHVISION)
def test_pictures_are_read_as_for_torchvisions_first_weights(name):
    weights = torchvision.models.get_model_weights(TORCHVISION[name])
    theirs, size = weights.IMAGENET1K_V1.transforms(), (int(name.rpartition("_")[2]),) * 2
    ours = Preprocess(size=size, **facts.of_torchvision(name, size))
    assert (theirs.crop_size, theirs.resize_size) == ([size[0]], [int(size[0] / ours.crop)])
    assert ours.interpolation == theirs.interpolation.value
    near(ours, lambda p: theirs(p.convert("RGB")), exact=False)


def test_weights_of_torchvision_are_read_as_torchvision_does(tmp_path):
    weights = torchvision.models.ViT_B_32_Weights.IMAGENET1K_V1
    peer = torchvision.models.vit_b_32(weights=None)
    torch.save(peer.state_dict(), tmp_path / "vit.pth")
    prepare = zoo.load(tmp_path / "vit.pth", name="vit_base_patch32_224").record.preprocess
    assert isinstance(prepare, Preprocess)
    near(prepare, lambda p: weights.transforms()(p.convert("RGB")), exact=False)
