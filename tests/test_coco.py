"""COCO's own layout of files, and pictures of any size with their boxes."""

import json

import numpy as np
import pytest
import torch
from PIL import ExifTags, Image
from test_boxes import TINY, coco_of, config_of, splits_of, squares
from torchvision.models.detection.transform import GeneralizedRCNNTransform

import zoo
from zoo import data, training
from zoo.inputs import Boxed, PrepareBoxes, Preprocess
from zoo.inputs.boxes import boxes as reading
from zoo.inputs.prepare import Prepare
from zoo.inputs.vary_scene import VaryBoxes


def official(root, splits, kinds=("cat", "dog"), below="", suffix="2017"):
    """COCO's own layout -> {split: {file: (label, box)}}."""
    known = {}
    (root / "annotations").mkdir(parents=True)
    for split, count in splits.items():
        name = f"{split}{suffix}"
        known[split] = squares(root / "made" / split, count, kinds=kinds)
        (root / below).mkdir(exist_ok=True)
        (root / "made" / split / "images").rename(root / below / name)
        (root / "made" / split).rmdir()
        whole = coco_of(root, known[split], count)
        for one in whole["annotations"]:  # ids with gaps, as COCO's own are
            one["category_id"] = 1 if one["category_id"] == 5 else 90
        whole["categories"] = [{"id": i, "name": n} for i, n in zip((90, 1, 13), ("dog", "cat", "stop sign"), strict=True)]  # fmt: skip
        write(root, name, whole)
    (root / "made").rmdir()
    return known


def file_of(root, name):
    return root / "annotations" / f"instances_{name}.json"


def write(root, name, whole):
    file_of(root, name).write_text(json.dumps(whole))


def changed(root, name, change):
    """The file with a change to what it holds."""
    whole = json.loads(file_of(root, name).read_text())
    change(whole)
    write(root, name, whole)


def check(rows, labels, told):
    """Rows hold what was told of each picture."""
    for item in rows.items:
        label, box = told.get(item.picture.name, (None, None))
        wanted = [] if label is None else [[*box, labels.index(label)]]
        assert item.boxes.tolist() == wanted


@pytest.mark.parametrize("suffix", ["2017", "2014", "", "_mine", "-v2"])
@pytest.mark.parametrize("below", ["", "images"])
def test_the_folder_of_coco_has_its_splits(tmp_path, suffix, below):
    known = official(tmp_path, {"train": 6, "val": 3}, suffix=suffix, below=below)
    found = splits_of(tmp_path, val=0.1)
    assert found.labels == ("cat", "dog")  # none has a box of a stop sign
    assert (len(found.train), len(found.val), found.test) == (6, 3, None)
    check(found.train, found.labels, known["train"])
    check(found.val, found.labels, known["val"])
    assert any(f"train: 6 pictures with 5 boxes in {tmp_path}" in note for note in found.notes)


def test_a_file_of_coco_finds_its_pictures_in_the_folder_beside(tmp_path):
    known = official(tmp_path, {"train": 6, "val": 3})
    file, other = file_of(tmp_path, "train2017"), file_of(tmp_path, "val2017")
    found = splits_of(file, val=0.34)
    assert (len(found.train), len(found.val)) == (4, 2)
    note = f"instances_val2017.json beside {file} is not used; give {tmp_path}"
    assert note in found.notes
    both = splits_of(file, val=str(other))
    assert not any("is not used" in note for note in both.notes)
    assert both.fingerprint == splits_of(tmp_path).fingerprint
    check(both.val, both.labels, known["val"])
    alone = data.held_out(config_of("", test=str(tmp_path)), ("cat", "dog"), "boxes")
    assert len(alone.test) == 3  # its val, since it has no test
    moved = tmp_path.rename(tmp_path.parent / f"{tmp_path.name}_moved")
    assert splits_of(moved).fingerprint == both.fingerprint


def test_a_file_is_found_from_where_it_lies_and_by_another_first_name(tmp_path, monkeypatch):
    known = official(tmp_path, {"train": 4})
    file = file_of(tmp_path, "train2017")
    monkeypatch.chdir(file.parent)
    check(splits_of(file.name).train, ("cat", "dog"), known["train"])
    other = file.rename(file.with_name("person_keypoints_train2017.json"))
    check(splits_of(other).train, ("cat", "dog"), known["train"])
    monkeypatch.chdir(tmp_path)
    other.rename(file)
    check(splits_of(".").train, ("cat", "dog"), known["train"])


def test_names_with_a_folder_lie_below_the_root(tmp_path):
    official(tmp_path, {"train": 4, "val": 3})
    (tmp_path / "train2017").rename(tmp_path / "pictures")
    changed(tmp_path, "train2017", lambda whole: [
        one.update(file_name=f"pictures/{one['file_name']}") for one in whole["images"]
    ])  # fmt: skip
    found = splits_of(tmp_path)
    assert {item.picture.parent for item in found.train.items} == {tmp_path / "pictures"}
    assert not any("does not name" in note for note in found.notes)  # val's are not train's


def test_names_may_be_anywhere(tmp_path):
    official(tmp_path / "a", {"train": 4})
    (tmp_path / "a" / "train2017").rename(tmp_path / "far")
    changed(tmp_path / "a", "train2017", lambda whole: [
        one.update(file_name=str(tmp_path / "far" / one["file_name"])) for one in whole["images"]
    ])  # fmt: skip
    found = splits_of(tmp_path / "a")
    assert found.train.name(0) == str(tmp_path / "far" / "p0.png")


def test_which_of_two_files_is_a_doubt_that_names_the_flag(tmp_path):
    official(tmp_path, {"train": 4, "val": 3})
    for split in ("train", "val"):
        file_of(tmp_path, f"{split}2014").write_text(file_of(tmp_path, f"{split}2017").read_text())
    says = r"data.train takes one file of COCO's for train; .* has instances_train2014.json, "
    with pytest.raises(zoo.UserError, match=rf"{says}.*: say which with --data.train FILE"):
        splits_of(tmp_path)
    file_of(tmp_path, "train2014").unlink()
    with pytest.raises(
        zoo.UserError, match=r"file of COCO's for val; .*: say which with --data.val"
    ):
        splits_of(tmp_path)
    found = splits_of(tmp_path, val=str(file_of(tmp_path, "val2017")))
    assert (len(found.train), len(found.val)) == (4, 3)
    with pytest.raises(zoo.UserError, match=r"data.test takes one .*: say which with --data.test"):
        data.held_out(config_of("", test=str(tmp_path)), ("cat", "dog"), "boxes")


def test_what_of_the_folder_is_no_split_is_said(tmp_path):
    official(tmp_path, {"train": 4, "val": 3})
    (tmp_path / "test2017").mkdir()
    whole = file_of(tmp_path, "val2017").read_text()
    file_of(tmp_path, "minival2014").write_text(whole)
    (tmp_path / "annotations" / "captions_train2017.json").write_text("{}")
    notes = " ".join(splits_of(tmp_path).notes)
    assert "left out instances_minival2014.json, whose name begins as that of no split" in notes
    assert f"{tmp_path}: left out test2017, of which annotations tells no boxes" in notes
    file_of(tmp_path, "train2017").unlink()
    says = (
        r"data.train takes a folder with annotations/instances_train\*.json; .* has instances_mini"
    )
    with pytest.raises(zoo.UserError, match=rf"{says}.*: give one of them, --data.train FILE"):
        splits_of(tmp_path)
    file_of(tmp_path, "train2017").write_text('{"images": []}')
    says = (
        "with lists of images, annotations, categories; .*instances_train2017.json cannot be read"
    )
    with pytest.raises(zoo.UserError, match=says):
        splits_of(tmp_path)
    file_of(tmp_path, "train2017").write_text('{"images": [], "annotations": [], "categories": []}')
    with pytest.raises(zoo.UserError, match=r"instances_train2017.json names no pictures"):
        splits_of(tmp_path)


def test_crowds_are_left_out_and_said_and_outlines_are_not_kept(tmp_path):
    official(tmp_path, {"train": 4})
    outline = {"segmentation": {"counts": [3], "size": [40, 40]}, "iscrowd": 1}
    changed(tmp_path, "train2017", lambda whole: whole["annotations"][0].update(outline))
    found = splits_of(tmp_path)
    assert [len(item.boxes) for item in found.train.items] == [0, 1, 1, 0]
    assert any("left out 1 boxes of crowds" in note for note in found.notes)


HOSTILE = {
    "NaN": ({"bbox": [1, 2, float("nan"), 4]}, "has the bbox .*, no x, y, width and height"),
    "infinite": ({"bbox": [1, 2, float("inf"), 4]}, "has the bbox .*, no x, y, width and height"),
    "negative": ({"bbox": [20, 20, -5, -5]}, "box 1, 20, 20, 15, 15 .* has no area"),
    "before": ({"bbox": [-20, 3, 10, 10]}, "box 1, -20, 3, -10, 13 .* is not within the picture's"),
    "behind": ({"bbox": [100, 3, 10, 10]}, "box 1, 100, 3, 110, 13 .* is not within the picture's"),
    "no area": ({"bbox": [3, 3, 10, 0]}, "box 1, 3, 3, 13, 3 .* has no area"),
    "text": ({"bbox": "1234"}, "has the bbox 1234, no x, y, width and height"),
    "none": ({"bbox": None}, "has the bbox None, no x, y"),
    "a list": ({"category_id": [1]}, r"has the category \[1\], which .* does not name"),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_a_box_that_is_none_is_one_sentence_or_its_picture_left_out(tmp_path, what):
    official(tmp_path, {"train": 4})
    change, words = HOSTILE[what]
    changed(tmp_path, "train2017", lambda whole: whole["annotations"][1].update(change))
    with pytest.raises(zoo.UserError, match=words) as error:
        splits_of(tmp_path)
    assert "\n" not in str(error.value) and "--data.on_bad skip" in str(error.value)
    found = splits_of(tmp_path, on_bad="skip")
    assert [item.picture.name for item in found.train.items] == ["p0.png", "p2.png", "p3.png"]


def test_two_names_of_one_category_are_a_doubt(tmp_path):
    official(tmp_path, {"train": 4})
    changed(tmp_path, "train2017", lambda whole: whole["categories"].append({"id": 1, "name": "b"}))
    with pytest.raises(
        zoo.UserError, match=r"one name for each category; .* has 13: stop sign, 1: b, 1: cat"
    ):
        splits_of(tmp_path)


@pytest.mark.parametrize("name", ["gone.png", "a\0b.png", "x" * 300 + ".png", None])
def test_a_file_that_is_missing_is_told(tmp_path, name):
    official(tmp_path, {"train": 4})
    changed(tmp_path, "train2017", lambda whole: whole["images"][0].update(file_name=name))
    with pytest.raises(zoo.UserError, match="1 of 4 do not") as error:
        splits_of(tmp_path)
    assert "\n" not in str(error.value)
    assert len(splits_of(tmp_path, on_bad="skip").train) == 3


def test_a_category_that_train_never_shows_is_told(tmp_path):
    official(tmp_path, {"train": 4, "val": 3})
    changed(tmp_path, "val2017", lambda whole: whole["annotations"][0].update(category_id=13))
    with pytest.raises(
        zoo.UserError, match=r"train's classes \(cat, dog\); 1 pictures .*stop sign"
    ):
        splits_of(tmp_path)


# A picture that its file turns.


def turned(file, size=(60, 40)):
    """A picture of 60 x 40 pixels in a file that holds it on its side, with a bright corner."""
    upright = np.zeros((size[1], size[0], 3), np.uint8)
    upright[:10, :20] = 250
    tags = Image.Exif()
    tags[ExifTags.Base.Orientation] = 6  # turn by a quarter with the clock to show it
    Image.fromarray(upright).transpose(Image.Transpose.ROTATE_90).save(file, exif=tags)
    assert Image.open(file).size == size[::-1]


def test_boxes_of_a_turned_picture_are_those_of_the_upright_one(tmp_path):
    official(tmp_path, {"train": 4})
    turned(tmp_path / "train2017" / "p0.png")

    def drawn(width, height):
        def change(whole):
            whole["images"][0].update(width=width, height=height)
            whole["annotations"][0]["bbox"] = [0, 0, 20, 10]

        return change

    changed(tmp_path, "train2017", drawn(60, 40))
    item = splits_of(tmp_path).train.items[0]
    prepare = PrepareBoxes((32, 32), mean=(0.0,), std=(1.0,))
    pixels, boxes = prepare.finish(prepare.load(item))
    assert pixels.shape == (3, 40, 60) and boxes[0, :4].tolist() == [0, 0, 20, 10]
    assert pixels[:, :10, :20].min() > 0.9 and pixels.mean() < 0.1
    changed(tmp_path, "train2017", drawn(40, 60))
    says = r"drawn in 40 x 60 pixels, the picture has 60 x 40 once it is turned upright \(EXIF\)"
    with pytest.raises(zoo.UserError, match=says):
        splits_of(tmp_path)


# Pictures of any size.


@pytest.mark.parametrize(
    "size", [(640, 480), (480, 640), (3000, 200), (5, 5), (1, 900), (801, 799)]
)
@pytest.mark.parametrize(("shorter", "longer"), [(80, 133), (64, 64), (800, 1333)])
def test_pictures_are_resized_as_torchvisions_detectors_do(size, shorter, longer):
    prepare = PrepareBoxes((32, 32), shorter=shorter, longer=longer)
    peer = GeneralizedRCNNTransform(shorter, longer, [0.0] * 3, [1.0] * 3)
    w, h = size
    boxes = torch.tensor([[0.0, 0.0, w, h], [w / 4, h / 3, w / 2, h / 2]])
    if min(size) > 1:  # theirs has no side of less than a pixel
        theirs, _ = peer.resize(torch.zeros(3, size[1], size[0]), None)
        ours = prepare.sides(size)
        assert max(abs(a - b) for a, b in zip(ours, theirs.shape[:0:-1], strict=True)) <= 1
    told = np.column_stack((boxes.numpy(), [0, 1])).astype(np.float32)
    pixels, moved = prepare.finish(Boxed(Image.new("RGB", size), told))
    h, w = pixels.shape[1:]
    assert max(h, w) <= longer and min(h, w) >= 1
    torch.testing.assert_close(moved[0], torch.tensor([0.0, 0, w, h, 0]), rtol=1e-5, atol=1e-3)
    found = {"boxes": moved[:, :4], "scores": torch.ones(2), "labels": torch.tensor([0, 1])}
    back = prepare.answer(found, None, size)["boxes"]
    given = torch.tensor([one["box"] for one in back])
    torch.testing.assert_close(given, boxes, rtol=1e-5, atol=1e-3)
    assert (given[:, 2] <= size[0]).all() and (given[:, 3] <= size[1]).all()


def test_without_a_shorter_side_pictures_only_become_smaller():
    prepare = PrepareBoxes((32, 32), longer=100)
    assert [prepare.sides(s) for s in ((50, 30), (100, 100), (400, 200))] == [
        (50, 30), (100, 100), (100, 50),
    ]  # fmt: skip
    assert PrepareBoxes((32, 32)).sides((6000, 4000)) == (6000, 4000)
    picture = Image.new("RGB", (50, 30))
    assert prepare.fit(picture) is picture
    again = Prepare.from_dict(json.loads(json.dumps(prepare.to_dict())))
    assert again == prepare
    old = {k: v for k, v in prepare.to_dict().items() if k not in ("shorter", "longer")}
    assert Prepare.from_dict(old) == PrepareBoxes((32, 32))  # as models were saved before


@pytest.mark.parametrize(
    ("sides", "says"),
    [
        ({"shorter": 800}, "data.longer of as many pixels or more; got 800 and null: give --data.longer 1333"),
        ({"shorter": 800, "longer": 600}, "got 800 and 600: give --data.longer 1333"),
        ({"longer": 0}, "Preprocess got longer 0; it takes a whole number of pixels, 1 to 16384"),
        ({"longer": 8.5}, "Preprocess got longer 8.5"),
    ],
)  # fmt: skip
def test_sides_that_fit_nothing(sides, says):
    with pytest.raises(zoo.UserError, match=says):
        PrepareBoxes((32, 32), **sides)


def test_sides_that_fit_nothing_are_said_before_anything_is_read():
    with pytest.raises(zoo.UserError, match=r"data.shorter takes a data.longer"):
        splits_of("nowhere", shorter=800)


@pytest.mark.parametrize("strength", ["none", "light"])
def test_pieces_are_drawn_from_the_resized_picture(strength):
    large = np.zeros((400, 600, 3), np.uint8)
    large[100:200, 150:300] = 250
    boxes = np.array([[150, 100, 300, 200, 1]], np.float32)
    prepare = PrepareBoxes((64, 64), mean=(0.0,), std=(1.0,), longer=60)
    vary = VaryBoxes(prepare, strength, flip=False, turn=False)
    for seed in range(10):
        torch.manual_seed(seed)
        x, target = vary(Boxed(Image.fromarray(large), boxes))
        rows, columns = (x.mean(0) > 0.5 * x.max()).nonzero().unbind(-1)
        around = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        assert (target[0, :4] - torch.tensor(around)).abs().max() < 1.6, seed
        assert (target[0, 2] - target[0, 0]) < 22  # a tenth of what it was, or a third more


def test_how_a_picture_is_read_is_that_of_the_config():
    config = config_of("", crop=48, shorter=80, longer=133)
    made = reading(config)(Preprocess((32, 32), mean=(0.1,) * 3))
    assert (made.size, made.shorter, made.longer) == ((48, 48), 80, 133)
    again = reading(config_of("", crop=None, shorter=None, longer=60))(made)
    assert (again.size, again.shorter, again.longer, again.mean) == ((48, 48), None, 60, (0.1,) * 3)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on COCO's own layout, whose pictures are seen at half their size."""
    root = tmp_path_factory.mktemp("large")
    (root / "coco").mkdir()
    known = official(root / "coco", {"train": 16, "val": 4}, kinds=("cat", "dog"))
    for split, told in known.items():
        for file in (root / "coco" / f"{split}2017").iterdir():
            picture = Image.open(file)
            picture.resize((4 * picture.width, 4 * picture.height)).save(file)
        changed(root / "coco", f"{split}2017", lambda whole: [
            one.update(bbox=[4 * side for side in one["bbox"]]) for one in whole["annotations"]
        ])  # fmt: skip
        known[split] = {f: (label, [4 * side for side in box]) for f, (label, box) in told.items()}
    flags = {**TINY, "data.train": str(root / "coco"), "run.dir": str(root / "run"), "run.epochs": 40,
             "optim.lr": 5e-3, "data.augment": "none", "data.shorter": 40, "data.longer": 90}  # fmt: skip
    return root, known, training.train("image_detect/custom", flags)


def test_what_is_found_is_told_in_the_pixels_of_the_file(run):
    root, known, result = run
    assert result.metrics["val"]["ap50"] > 0.7
    model = zoo.load(result.folder / "model")
    assert (model.record.preprocess.shorter, model.record.preprocess.longer) == (40, 90)
    for name, (label, box) in known["val"].items():
        file = root / "coco" / "val2017" / name
        assert model.record.preprocess(file).shape[2] == 40
        best = model.predict(file)["boxes"][0]
        assert best["label"] == label and np.abs(np.array(best["box"]) - box).max() < 24
    turned(root / "turned.png", (240, 160))
    for one in model.predict(root / "turned.png")["boxes"]:
        assert one["box"][2] <= 240 and one["box"][3] <= 160
    again = training.evaluate(result.folder, root / "coco")
    assert again["ap"] == pytest.approx(result.metrics["val"]["ap"], abs=1e-6)


def test_a_picture_of_24_megapixels_is_seen_at_the_size_of_the_recipe(run):
    _, _, result = run
    model = zoo.load(result.folder / "model")
    seen = []
    model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["pixels"].shape), with_kwargs=True
    )
    answer = model.predict(Image.new("RGB", (6000, 4000)))
    assert seen == [(1, 3, 40, 60)]
    assert all(one["box"][2] <= 6000 and one["box"][3] <= 4000 for one in answer["boxes"])


@pytest.mark.parametrize("recipe", ["custom", "swin_tiny_finetune"])
def test_the_recipes_keep_large_pictures_within_bounds(recipe):
    config = training.resolve(f"image_detect/{recipe}", {"data.train": "x"}).config
    assert (config.data.shorter, config.data.longer) == (None, 1600)
