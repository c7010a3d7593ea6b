"""A class for each pixel: the head, its loss and metrics, pairs of pictures and masks, predictions."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image, features
from torchmetrics.classification import MulticlassJaccardIndex

import zoo
from zoo import cli, data, training
from zoo.heads import Segment
from zoo.inputs import Pair, PrepareScene
from zoo.inputs.scene import IGNORED, colour, decode_mask
from zoo.inputs.vary_scene import VaryScene
from zoo.training.metrics import MaskMetrics


def model_of(kind, **head):
    torch.manual_seed(0)
    if kind == "swin":
        first = zoo.adapters.SwinPatches(
            dim=16, depths=(1, 1), heads=(1, 2), window=(4, 4), size=32
        )
        body, more = zoo.Backbone(stages=first.stages), {"widths": (16, 32)}
    else:
        first = zoo.adapters.Patches(dim=32, size=32, patch=8, fill=True)
        body, more = zoo.Backbone(dim=32, depth=1, heads=2), {}
    return zoo.Model(first, body, Segment(dim=32, classes=3, channels=16, **more, **head))


def pixels(*sides, batch=2):
    return torch.randn(batch, 3, *sides, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("kind", ["swin", "vit"])
def test_the_answer_has_the_pictures_own_sides_and_every_weight_a_gradient(kind):
    model = model_of(kind)
    for sides in ((32, 32), (33, 50), (5, 7), (1, 40)):
        answer = model(pixels(*sides))
        assert answer.shape == (2, 3, *sides) and answer.isfinite().all()
    answer.square().mean().backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("kind", ["swin", "vit"])
def test_a_picture_is_answered_alone_as_in_a_batch_and_after_any_other(kind):
    model = model_of(kind).eval()
    with torch.no_grad():
        both, other = model(pixels(30, 44)), model(pixels(52, 20))
        alone = model(pixels(30, 44)[1:])
        assert torch.equal(other, model(pixels(52, 20)))
    torch.testing.assert_close(both[1:], alone, rtol=1e-5, atol=1e-5)


def test_segment_reads_the_stages_and_says_what_it_lacks(tmp_path):
    model = model_of("swin").eval()
    with torch.no_grad():
        tokens = model.backbone(model.adapter(pixels(32, 32)), stages=True)
        assert torch.equal(model.head(tokens), model(pixels(32, 32)))
        with pytest.raises(zoo.ShapeError, match="maps of 2 stages; got 1"):
            model.head(tokens.replace(stages=()))
        model.save(tmp_path / "m")
        assert torch.equal(zoo.load(tmp_path / "m").eval()(pixels(32, 32)), model(pixels(32, 32)))
    with pytest.raises(zoo.OptionError, match="widths of stages of which the last is dim"):
        Segment(dim=32, classes=2, widths=(16, 64))


def test_inspected_equals_not_inspected_with_maps():
    model = model_of("swin").eval()
    with torch.no_grad():
        answer, details = model(pixels(32, 32), details=("states",))
        assert torch.equal(answer, model(pixels(32, 32))) and len(details.states) == 3


@pytest.mark.parametrize("kind", ["swin", "vit"])
def test_a_whole_model_is_traced_as_one_graph(kind):
    model, x = model_of(kind).eval(), pixels(32, 48)
    torch._dynamo.reset()
    with torch.no_grad():
        traced = torch.compile(model, backend="eager", fullgraph=True)(x)
        torch.testing.assert_close(traced, model(x), rtol=1e-5, atol=1e-5)


def target_of(*sides):
    return torch.randint(3, (2, *sides), generator=torch.Generator().manual_seed(4))


def test_the_loss_is_a_sum_over_pixels_that_count():
    head, answer, target = model_of("vit").head, pixels(6, 8), target_of(6, 8)
    total, count = head.loss(answer, {"target": target})["loss"]
    assert count == 96
    torch.testing.assert_close(total / count, torch.nn.functional.cross_entropy(answer, target))
    part = target.clone()
    part[:, 3:] = IGNORED
    total, count = head.loss(answer, {"target": part}, smoothing=0.1)["loss"]
    wanted = torch.nn.functional.cross_entropy(answer[:, :, :3], target[:, :3], label_smoothing=0.1)
    assert count == 48
    torch.testing.assert_close(total / count, wanted)


def test_the_dice_loss_is_of_each_picture_and_blind_to_what_does_not_count():
    head, target = model_of("vit", dice=0.5).head, target_of(6, 8)
    right = 50.0 * torch.nn.functional.one_hot(target, 3).movedim(-1, 1)
    total, count = head.loss(right, {"target": target})["loss"]
    assert float(total / count) < 1e-5
    total, count = head.loss(
        torch.zeros(1, 3, 2, 3), {"target": torch.tensor([[[0, 0, 0], [0, 1, IGNORED]]])}
    )["loss"]
    share = 1 / 3  # of each class in each of five pixels
    overlaps = [(2 * share * n + 1) / (5 * share + n + 1) for n in (4, 1, 0)]
    wanted = 0.5 * np.log(3) + 0.5 * (1 - np.mean(overlaps))
    assert float(total / count) == pytest.approx(wanted, rel=1e-5)
    junk = torch.zeros(1, 3, 2, 3)
    junk[..., 1, 2] = torch.tensor([9.0, -9, 3])
    again, _ = head.loss(junk, {"target": torch.tensor([[[0, 0, 0], [0, 1, IGNORED]]])})["loss"]
    torch.testing.assert_close(total, again)


def test_mean_iou_is_that_of_torchmetrics_over_all_pixels_of_all_pictures():
    metrics = MaskMetrics(3)
    peer = MulticlassJaccardIndex(3, average="macro", ignore_index=IGNORED, validate_args=False)
    seen = []
    for seed, sides in enumerate(((6, 8), (3, 5), (9, 2))):
        answer = torch.randn(1, 3, *sides, generator=torch.Generator().manual_seed(seed))
        target = target_of(*sides)[:1]
        target[:, 0, 0] = IGNORED
        metrics.update(answer, target, torch.tensor(2.0), torch.tensor(4))
        peer.update(answer, target)
        seen += (answer.argmax(1) == target)[target != IGNORED].tolist()
    values = metrics.compute()
    assert values["mean_iou"] == pytest.approx(float(peer.compute()), abs=1e-6)
    assert values["pixel_accuracy"] == pytest.approx(np.mean(seen), abs=1e-6)
    assert values["loss"] == 0.5 and int(metrics.confusion.sum()) == len(seen)


# Pairs of pictures and masks.


def write(root, count=6, side=40, values=(0, 1), mode="L"):
    """Pictures of a bright square on dark noise, and masks of it."""
    noise = np.random.default_rng(len(root.name))  # of the name alone: paths differ by machine
    for part in ("images", "masks"):
        (root / part).mkdir(parents=True, exist_ok=True)
    for i in range(count):
        h, w = side + 3 * i, side
        mask, (top, left) = np.full((h, w), values[0], np.uint8), noise.integers(0, side // 2, 2)
        mask[top : top + side // 2, left : left + side // 2] = values[-1]
        picture = np.where(mask == values[-1], 200, 40)[..., None] + noise.normal(0, 15, (h, w, 3))
        Image.fromarray(picture.clip(0, 255).astype(np.uint8)).save(root / "images" / f"p{i}.png")
        made = Image.fromarray(mask)
        if mode == "P":
            made.putpalette([*range(256)] * 3)
        made.save(root / "masks" / f"p{i}.png")
    return root


def config_of(train, **more):
    fields = dict(train=str(train), val=None, test=None, input=None, label=None, group=None, split="auto",
                  time=None, on_bad="raise", ignore=255)  # fmt: skip
    return SimpleNamespace(**{**fields, **more})


def splits_of(train, **more):
    return data.splits(config_of(train, **more), 0, "scene")


@pytest.mark.parametrize("mode", ["L", "P"])
@pytest.mark.parametrize("values", [(0, 1), (0, 255), (3, 7)])
def test_each_value_of_trains_masks_is_a_class(tmp_path, mode, values):
    found = splits_of(write(tmp_path, values=values, mode=mode), val=0.34)
    assert found.labels == tuple(map(str, values)) and found.target == "mask"
    assert (len(found.train), len(found.val)) == (4, 2)
    assert found.train.counts() == (4, 4)
    prepare = PrepareScene((32, 32), values=values)
    loaded = prepare.load(found.train.items[0])
    assert set(np.unique(loaded.classes)) == {0, 1}


def test_a_value_may_be_left_out_of_loss_and_classes(tmp_path):
    write(tmp_path)
    mask = np.array(Image.open(tmp_path / "masks/p1.png"))
    mask[:4] = 255
    Image.fromarray(mask).save(tmp_path / "masks/p1.png")
    found = splits_of(tmp_path)
    assert found.labels == ("0", "1") and any(
        "pixels of 255 do not count" in n for n in found.notes
    )
    loaded = PrepareScene((32, 32), ignore=255).load(found.train.items[1])
    assert (loaded.classes[:4] == IGNORED).all() and (loaded.classes[4:] >= 0).all()
    assert splits_of(tmp_path, ignore=None).labels == ("0", "1", "255")


def test_train_val_and_test_folders_and_held_out_data(tmp_path):
    for split, count in (("train", 4), ("val", 2), ("test", 3)):
        write(tmp_path / split, count)
    found = splits_of(tmp_path, val=0.1)
    assert [len(rows) for rows in found.rows().values()] == [4, 2, 3]
    assert found.train.name(0) == "images/p0.png" and len(found.fingerprint) == 64
    alone = data.held_out(config_of(tmp_path, test=str(tmp_path / "test")), found.labels, "scene")
    assert alone.train is None and len(alone.test) == 3 and alone.labels == found.labels


def test_a_table_with_columns_of_pictures_and_masks(tmp_path):
    write(tmp_path, 6)
    rows = [f"images/p{i}.png,masks/p{i}.png,{'ab'[i % 2]}" for i in range(6)]
    (tmp_path / "all.csv").write_text("\n".join(["image,mask,slide", *rows]) + "\n")
    found = splits_of(tmp_path / "all.csv", val=0.5, group="slide")
    assert (len(found.train), len(found.val)) == (3, 3)
    order = {*found.train.items.order}
    assert order in ({0, 2, 4}, {1, 3, 5})
    pair = found.train.items[0]
    assert pair.picture.name == pair.mask.name
    (tmp_path / "all.csv").write_text("\n".join(["image,where,slide", *rows]) + "\n")
    with pytest.raises(
        zoo.UserError, match=r"takes a column of masks; .* give --data.label COLUMN"
    ):
        splits_of(tmp_path / "all.csv")
    assert len(splits_of(tmp_path / "all.csv", label="where").train) == 6


def spoil(root, what):
    mask = np.array(Image.open(root / "train/masks/p1.png"))
    if what == "size":
        Image.fromarray(mask[:-1]).save(root / "train/masks/p1.png")
    elif what == "none":
        (root / "train/masks/p1.png").unlink()
    elif what == "colours":
        Image.fromarray(np.stack((mask, mask, 0 * mask), -1)).save(root / "train/masks/p1.png")
    elif what == "jpeg":
        Image.fromarray(mask).save(root / "train/masks/p1.png", format="JPEG")
    elif what == "value":
        mask[0, 0] = 9
        Image.fromarray(mask).save(root / "val/masks/p1.png")
    elif what == "one":
        for i in range(3):
            Image.fromarray(0 * np.array(Image.open(root / f"train/masks/p{i}.png"))).save(
                root / f"train/masks/p{i}.png"
            )
    elif what == "twice":
        Image.fromarray(mask).save(root / "train/masks/p1.bmp")
    elif what == "folder":
        (root / "train/masks").rename(root / "train/mask")


@pytest.mark.parametrize(
    "what, told",
    [
        ("size", r"1 of 5 do not \(.*p1.png: the mask is 40 x 42 pixels, the picture 40 x 43\)"),
        ("none", r"one mask of the same name for each picture; 1 of 3 .* have none \(p1\)"),
        ("colours", r"a mask holds one whole number for each pixel, this one has colours"),
        ("jpeg", r"a mask must be exact, which JPEG is not: save it as PNG"),
        ("value", r"masks of train's values \(0, 1\); 1 in .*val hold others \(.*p1.png: 9\)"),
        ("one", r"data.train takes masks of 2 to 256 classes; those of .* have 0"),
        ("twice", r"p1.bmp, .*p1.png have the same: keep one of each"),
        ("folder", r"images and masks folders of files of the same names; .* has images, mask"),
    ],
)
def test_what_does_not_fit_is_one_sentence(tmp_path, what, told):
    write(tmp_path / "train", 3)
    write(tmp_path / "val", 2)
    spoil(tmp_path, what)
    with pytest.raises(zoo.UserError, match=told) as error:
        splits_of(tmp_path)
    assert "\n" not in str(error.value)


def rename(folder, change):
    for file in sorted(folder.iterdir(), reverse=True):
        file.rename(file.with_name(change(file.stem) + file.suffix))


@pytest.mark.parametrize(
    ("image", "mask"),
    [
        ("{}", "{}_mask"), ("{}", "mask_{}"), ("{}", "{}.seg"), ("img_{}", "mask_{}"),
        ("a0{}", "a0{}_mask"), ("{}_image", "{}_label"), ("{}", "GT-{}-seg"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("part", ["masks", "instances"])
def test_masks_whose_names_all_begin_or_end_alike_are_matched_and_that_is_said(
    tmp_path, image, mask, part
):
    from zoo.data.pairs import pairs_in

    write(tmp_path, 12)
    stems = [file.stem for file in sorted((tmp_path / "images").iterdir())]
    rename(tmp_path / "images", image.format)
    rename(tmp_path / "masks", mask.format)
    (tmp_path / "masks").rename(tmp_path / part)
    notes = []
    pairs = pairs_in(tmp_path, "data.train", notes, part).pairs
    for picture, told in pairs:
        stem = next(s for s in stems if picture.stem == image.format(s))
        assert told.stem == mask.format(stem)
    assert len(pairs) == 12 and f"{part} are those of the pictures by their names" in notes[0]
    if part == "masks":
        assert len(splits_of(tmp_path, val=None).train) == 12


@pytest.mark.parametrize(
    ("image", "mask", "lost"),
    [
        ("{}", "{}_mask", True),  # a mask is missing
        ("{}", "1{}", False),  # may be those of other pictures
        ("scan1_{}", "scan2_{}", False),
        ("dog_{}", "cat_{}", False),
    ],
)
def test_masks_of_names_that_may_be_others_are_one_sentence_with_what_is_there(
    tmp_path, image, mask, lost
):
    write(tmp_path, 6)
    rename(tmp_path / "images", image.format)
    rename(tmp_path / "masks", mask.format)
    if lost:
        next((tmp_path / "masks").iterdir()).unlink()
    says = f"6 of 6 in .* have none .*; masks holds {mask[:1].strip('{')}.* besides: rename them"
    with pytest.raises(zoo.UserError, match=says) as error:
        splits_of(tmp_path)
    assert "\n" not in str(error.value)


def test_bad_pairs_can_be_left_out(tmp_path):
    write(tmp_path / "train", 3)
    write(tmp_path / "val", 2)
    spoil(tmp_path, "size")
    found = splits_of(tmp_path, on_bad="skip")
    assert len(found.train) == 2 and len(found.skipped) == 1
    assert [p.picture.name for p in found.train.items] == ["p0.png", "p2.png"]


def test_a_mask_that_a_model_does_not_know_is_told_when_it_is_read(tmp_path):
    write(tmp_path, 1)
    pair = Pair(tmp_path / "images/p0.png", tmp_path / "masks/p0.png")
    with pytest.raises(zoo.UserError, match=r"\(0, 5\); the mask .*p0.png holds 1: correct it"):
        PrepareScene((32, 32), values=(0, 5)).load(pair)


def test_mask_columns_that_differ_by_case_are_a_doubt(tmp_path):
    write(tmp_path, 4)
    rows = [f"images/p{i}.png,masks/p{i}.png,masks/p0.png" for i in range(4)]
    (tmp_path / "t.csv").write_text("\n".join(["image,mask,Mask", *rows]))
    with pytest.raises(zoo.UserError, match=r"one column of masks; .* has mask, Mask: say which"):
        splits_of(tmp_path / "t.csv", val=None)
    assert len(splits_of(tmp_path / "t.csv", val=None, label="mask").train) == 4


def test_masks_of_many_kinds_are_read_alike(tmp_path):
    values = np.arange(12, dtype=np.uint8).reshape(3, 4)
    Image.fromarray(values).convert("RGB").save(tmp_path / "grey.png")
    Image.fromarray(values.astype(np.uint16)).save(tmp_path / "wide.png")
    palette = Image.fromarray(values)
    palette.putpalette([part for v in range(256) for part in colour(v)])
    palette.save(tmp_path / "palette.png")
    for name in ("grey", "wide", "palette"):
        assert (decode_mask(tmp_path / f"{name}.png") == values).all()
    assert len({colour(v) for v in range(256)}) == 256 and colour(0) == (0, 0, 0)


@pytest.mark.parametrize("mode", ["L", "P", "1", "I;16"])
@pytest.mark.parametrize("suffix", ["png", "webp", "tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_mask_is_turned_as_its_picture(tmp_path, orientation, suffix, mode):
    values = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 0]], np.uint8)  # another in each of 8 ways
    picture, mask = Image.fromarray(values * 255), Image.fromarray(values)
    if mode == "P":
        mask.putpalette([*range(256)] * 3)
    elif mode == "I;16":
        mask = Image.fromarray(values.astype(np.uint16))
    elif mode == "1":
        mask = Image.fromarray(values.astype(bool))
    if suffix == "webp":
        picture, mask = picture.convert("RGB"), Image.fromarray(values).convert("RGB")
    tag = Image.Exif()
    tag[0x0112] = orientation
    paths = tmp_path / f"p.{suffix}", tmp_path / f"m.{suffix}"
    for made, path in zip((picture, mask), paths, strict=True):
        made.save(path, exif=tag, **({"lossless": True} if suffix == "webp" else {}))
    loaded = PrepareScene((3, 3)).load(Pair(*paths))
    assert (loaded.classes == np.asarray(loaded.picture)[..., 0] // 255).all()
    assert (loaded.classes == values).all() == (orientation == 1)
    with Image.open(paths[1]) as opened:  # a picture given open is turned, too
        assert (decode_mask(opened) == loaded.classes).all()


def packed(form, **options):
    file = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 2, (64, 64), dtype=np.uint8)
    mask = Image.fromarray(noise)
    if options.get("save_all"):
        options["append_images"] = [mask.rotate(90).convert("RGB")]
    (mask.convert("RGB") if form in ("WEBP", "AVIF") else mask).save(file, form, **options)
    return file.getvalue(), noise


LOSSY = {
    "JPEG": dict(quality=100), "lossy WebP": dict(quality=100), "lossy WebP, tagged": dict(exif=Image.Exif().tobytes()),
    "lossy WebP, moving": dict(save_all=True), "TIFF with jpeg compression": dict(compression="jpeg"),
    "lossy JPEG 2000": dict(irreversible=True), "lossy JPEG 2000, bare": dict(irreversible=True, no_jp2=True),
    "AVIF": dict(quality=100),
}  # fmt: skip
FORMS = {"lossy WebP": "WEBP", "TIFF with jpeg compression": "TIFF", "lossy JPEG 2000": "JPEG2000"}


@pytest.mark.parametrize("kind", LOSSY)
def test_a_mask_of_any_lossy_kind_is_refused(kind):
    said = kind.partition(",")[0]
    if not features.check({"AVIF": "avif", "lossy JPEG 2000": "jpg_2000"}.get(said, "jpg")):
        pytest.skip("this build of Pillow lacks it")
    content, _ = packed(FORMS.get(said, said), **LOSSY[kind])
    with pytest.raises(zoo.UserError, match=f"must be exact, which {said} is not: save it as PNG"):
        decode_mask(content)


@pytest.mark.parametrize(
    ("form", "options"),
    [("WEBP", {"lossless": True}), ("WEBP", {"lossless": True, "exif": Image.Exif().tobytes()}),
     ("WEBP", {"lossless": True, "save_all": True}), ("JPEG2000", {}), ("JPEG2000", {"no_jp2": True}),
     ("TIFF", {"compression": "tiff_lzw"}), ("TIFF", {"compression": "tiff_adobe_deflate"}),
     ("GIF", {}), ("BMP", {}), ("PPM", {})],
)  # fmt: skip
def test_a_mask_of_an_exact_kind_is_taken(form, options):
    if form == "JPEG2000" and not features.check("jpg_2000"):
        pytest.skip("this build of Pillow lacks it")
    content, values = packed(form, **options)
    assert (decode_mask(content) == values).all()


def test_what_the_pictures_of_masks_were_is_noted(tmp_path):
    write(tmp_path, 4)
    tag = Image.Exif()
    tag[0x0112] = 3
    Image.open(tmp_path / "images/p1.png").save(tmp_path / "images/p1.png", exif=tag)
    clear = Image.open(tmp_path / "images/p2.png")
    clear.putalpha(9)
    clear.save(tmp_path / "images/p2.png")
    told = "of 4 pictures 1 are turned upright (EXIF), 1 have transparent pixels"
    assert any(note.startswith(told) for note in splits_of(tmp_path).notes)


@pytest.mark.parametrize("strength", ["none", "light", "strong"])
def test_picture_and_mask_move_together(tmp_path, strength):
    """Where a picture is bright its mask is 1, however both are varied."""
    mask = np.zeros((50, 70), np.uint8)
    mask[10:40, 5:30] = 1
    Image.fromarray(np.stack([250 * mask + 3] * 3, -1)).save(tmp_path / "a.png")
    Image.fromarray(mask).save(tmp_path / "m.png")
    prepare = PrepareScene((32, 32), mean=(0.0,), std=(1.0,))
    loaded = prepare.load(Pair(tmp_path / "a.png", tmp_path / "m.png"))
    vary = VaryScene(prepare, strength, flip=True, turn=True)
    seen = []
    for seed in range(30):
        torch.manual_seed(seed)
        x, target = vary(loaded)
        assert x.shape == (3, 32, 32) and target.shape == (32, 32)
        counted = target >= 0
        bright = x.mean(0) > 0.5 * x.max()
        if (target == 1).any() and (target == 0).any():
            agree = (bright == (target == 1))[counted].float().mean()
            assert agree > 0.9, seed  # but for edges, where pixels are mixed
        seen.append(int((target == 1).sum()))
    assert len({*seen}) > 5
    assert (torch.tensor(seen) > 0).any()


def test_beside_a_small_picture_nothing_counts():
    prepare = PrepareScene((32, 32), mean=(0.5,), std=(0.5,))
    from zoo.inputs.scene import Masked

    loaded = Masked(Image.new("RGB", (10, 20), "white"), np.ones((20, 10), np.int16))
    x, target = VaryScene(prepare, "none", True, True)(loaded)
    assert int((target == 1).sum()) == 200 and int((target == IGNORED).sum()) == 32 * 32 - 200
    assert x[:, target == IGNORED].abs().max() < 0.01


# Runs and predictions.

TINY = {
    "model.adapter.dim": 16, "model.adapter.depths": [1, 1], "model.adapter.heads": [1, 2],
    "model.adapter.window": [4, 4], "model.head.channels": 16, "data.crop": 32,
    "run.global_batch": 4, "hw.accelerator": "cpu", "hw.precision": "fp32",
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("segment")
    for split, count in (("train", 12), ("val", 3), ("test", 3)):
        write(root / "data" / split, count, values=(0, 255))
    flags = {**TINY, "data.train": str(root / "data"), "run.dir": str(root / "run"), "run.epochs": 40,
             "optim.lr": 5e-3, "data.augment": "none"}  # fmt: skip
    return root, training.train("image_segment/custom", flags)


def test_a_small_swin_learns_squares(run):
    root, result = run
    assert result.metrics["test"]["mean_iou"] > 0.9
    assert training.evaluate(result.folder) == result.metrics["test"]
    told = json.loads((result.folder / "result.json").read_text())
    assert told["samples_per_second"] < 10_000  # pictures, not pixels
    assert "12 pictures with masks" in (result.folder / "report.md").read_text()
    again = training.evaluate(result.folder, root / "data" / "val")
    assert again["mean_iou"] == pytest.approx(result.metrics["val"]["mean_iou"], abs=1e-6)


def test_predictions_are_masks_of_the_pictures_own_size_and_values(run):
    root, result = run
    model = zoo.load(result.folder / "model")
    files = sorted((root / "data/test/images").iterdir())
    alone = model.predict(files[2])
    several = model.predict(files)
    assert alone["shares"] == several[2]["shares"] and alone["file"] == str(files[2])
    for file, answer in zip(files, several, strict=True):
        mask = np.array(answer["mask"])
        truth = np.array(Image.open(root / "data/test/masks" / file.name))
        assert mask.shape == truth.shape and {*np.unique(mask)} <= {0, 255}
        assert (mask == truth).mean() > 0.9
        assert answer["shares"]["255"] == pytest.approx((mask == 255).mean())


def test_zoo_predict_writes_masks(run, tmp_path, monkeypatch, capsys):
    root, result = run
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.png").write_bytes(b"")
    folder = str(root / "data/test/images")
    assert cli.main(["predict", str(result.folder), folder, "empty.png", "--format", "jsonl"]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 4 and "error" in rows[3] and rows[0]["mask"] == "predicted_masks/p0.png"
    assert np.array(Image.open("predicted_masks/p0.png")).shape == (40, 40)
    assert sum(rows[0]["shares"].values()) == pytest.approx(1)
    other = str(root / "data/val/images")
    assert cli.main(["predict", str(result.folder), folder, other, "--masks", "out"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].split()[:2] == ["file", "mask"] and "out/p0_2.png" in told[4]
    assert len(list((tmp_path / "out").iterdir())) == 6


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A model of random weights, and two pictures with masks, in the working folder."""
    monkeypatch.chdir(tmp_path)
    model = model_of("vit")
    record = zoo.model.Record(
        labels=("0", "1", "2"), preprocess=PrepareScene((32, 32), values=(0, 1, 2))
    )
    zoo.Model(model.adapter, model.backbone, model.head, record).save("model")
    write(tmp_path, 2)
    return model


def asked(capsys, *words, code=0):
    """JSON lines of `zoo predict`, or the one sentence of an error."""
    assert cli.main(["predict", "model", *words, "--format", "jsonl"]) == code
    out, err = capsys.readouterr()
    return err if code == 2 else [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("name", ["images", "masks", "images/p0.png"])
def test_masks_never_replace_what_is_there(saved, capsys, name):
    before = {f: f.read_bytes() for part in ("images", "masks") for f in Path(part).iterdir()}
    said = asked(capsys, "images", "--masks", name, code=2)
    assert len(said.splitlines()) == 1 and "--masks takes a" in said and name in said
    assert all(f.read_bytes() == data for f, data in before.items())
    assert [r["mask"] for r in asked(capsys, "images")] == [
        "predicted_masks/p0.png", "predicted_masks/p1.png",
    ]  # fmt: skip
    said = "--masks takes a new or an empty folder; predicted_masks holds p0.png and 1 more: give"
    assert said in asked(capsys, "images", code=2)
    zoo.create("vit_mu_patch8_32", classes=2).save("model2")
    assert cli.main(["predict", "model2", "images", "--masks", "new"]) == 2
    assert "--masks takes a model that tells masks; this one is of p" in capsys.readouterr().err


def test_masks_of_a_table_are_named_by_file_or_row(saved, capsys):
    Path("t.csv").write_text("n,image\n1,images/gone.png\n2,images/p1.png\n3,images/p0.png\n")
    rows = asked(capsys, "t.csv", "--masks", "new", code=1)
    assert [row.get("mask") for row in rows] == [None, "new/p1.png", "new/p0.png"]
    data = [b"no picture", *(Path(f"images/p{i}.png").read_bytes() for i in (1, 0))]
    pd.DataFrame({"image": data}).to_parquet("t.parquet")
    rows = asked(capsys, "t.parquet", "t.parquet", "--masks", "rows", code=1)
    names = [row.get("mask") for row in rows]
    assert names[:3] == [None, "rows/row_2.png", "rows/row_3.png"]
    assert names[3:] == [None, "rows/row_2_2.png", "rows/row_3_2.png"]
    cells = [{"bytes": data[1], "path": "seen.jpg"}, {"bytes": data[2], "path": None}]
    pd.DataFrame({"image": cells}).to_parquet("d.parquet")
    rows = asked(capsys, "d.parquet", "--masks", "cells")
    assert [row["mask"] for row in rows] == ["cells/seen.png", "cells/row_2.png"]


def test_a_mask_is_whole_or_not_there(saved, capsys, monkeypatch):
    save, written = Image.Image.save, []

    def full(self, place, *args, **more):
        """The second one meets a full disk."""
        save(self, place, *args, **more)
        written.append(place)
        if len(written) > 1:
            Path(place).write_bytes(b"")
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", full)
    said = asked(capsys, "images", "--masks", "new", code=2)
    assert "--masks takes a folder that can be written; new/p1.png cannot: No space left" in said
    assert [f.name for f in Path("new").iterdir()] == ["p0.png"]
    assert np.array(Image.open("new/p0.png")).shape == (40, 40)


def test_a_run_can_be_loaded_and_goes_on_with_its_head(run, tmp_path):
    root, result = run
    flags = {
        "data.train": str(root / "data"), "run.dir": str(tmp_path / "run"), "run.epochs": 1,
        "model.load": str(result.folder / "model"), "optim.lr": 1e-9, "run.global_batch": 4,
        "model.head.channels": 16, "data.crop": 32, "hw.precision": "fp32", "hw.accelerator": "cpu",
    }  # fmt: skip
    again = training.train("image_segment/swin_tiny_finetune", flags)
    assert again.metrics["test"]["mean_iou"] == pytest.approx(
        result.metrics["test"]["mean_iou"], abs=1e-3
    )


@pytest.mark.parametrize("name", ["vit_mu_patch8_32", "swin_mu_patch4_window4_64"])
def test_a_model_by_its_name_gets_the_head(run, tmp_path, name):
    root, _ = run
    flags = {"data.train": str(root / "data"), "run.dir": str(tmp_path / "run"), "run.epochs": 1,
             "model.name": name, "model.head.channels": 16, "run.global_batch": 4,
             "data.crop": 32, "data.augment": "strong"}  # fmt: skip
    result = training.train("image_segment/custom", flags)
    model = zoo.load(result.folder / "model")
    assert isinstance(model.head, Segment) and model.record.preprocess.size == (32, 32)
    assert model.predict(root / "data/test/images/p1.png")["mask"].size == (40, 43)


def test_a_model_for_texts_is_refused(run, tmp_path):
    root, _ = run
    flags = {
        "data.train": str(root / "data"),
        "model.name": "bert_mu",
        "run.dir": str(tmp_path / "r"),
    }
    with pytest.raises(zoo.UserError, match="takes a model for pictures; bert_mu has no"):
        training.train("image_segment/custom", flags)
