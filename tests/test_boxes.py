"""A box for each thing: the head, its loss and metrics, pictures with boxes, predictions."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.models.detection import FCOS
from torchvision.models.detection.fcos import FCOSHead

import zoo
from zoo import cli, data, training
from zoo.data.box_cells import objects_in
from zoo.heads import Detect
from zoo.heads.detect import cells_of
from zoo.inputs import Boxed, PrepareBoxes
from zoo.inputs.boxes import boxes_of
from zoo.inputs.vary_scene import VaryBoxes
from zoo.training.metrics import BoxesMetrics


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
    options = {"channels": 32, "depth": 1, **more, **head}
    return zoo.Model(first, body, Detect(dim=32, classes=3, **options))


def pixels(*sides, batch=2):
    return torch.randn(batch, 3, *sides, generator=torch.Generator().manual_seed(3))


def target_of(*boxes, pictures=2):
    """Boxes of x0, y0, x1, y1 and class for the first picture; the last has none."""
    target = torch.full((pictures, max(len(boxes), 1), 5), -1.0)
    for i, box in enumerate(boxes):
        target[0, i] = torch.tensor(box, dtype=torch.float32)
    return target


TWO = target_of((3, 4, 20, 25, 1), (18, 2, 30, 30, 2))


@pytest.mark.parametrize("kind, strides", [("swin", (4, 8)), ("vit", (2, 4, 8, 16))])
def test_points_are_the_middles_of_each_levels_cells_and_every_weight_learns(kind, strides):
    model = model_of(kind)
    answer = model(pixels(32, 48))
    assert answer.counts == tuple(32 * 48 // s**2 for s in strides) and answer.size == (32, 48)
    count = sum(answer.counts)
    assert answer.logits.shape == (2, count, 3) and answer.sides.shape == (2, count, 4)
    for s, cells in zip(strides, answer.cells.split(answer.counts), strict=True):
        assert cells[0].tolist() == [0, 0, s, s] and cells[-1].tolist() == [48 - s, 32 - s, 48, 32]
    assert (answer.sides > 0).float().mean() > 0.99  # none is dead behind its ReLU
    total, found = model.head.loss(answer, {"target": TWO})["loss"]
    assert found > 0 and total > 0
    total.backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("kind", ["swin", "vit"])
def test_a_picture_of_any_size_is_answered_alone_as_in_a_batch(kind):
    model = model_of(kind).eval()
    with torch.no_grad():
        for sides in ((30, 44), (33, 50), (5, 7), (1, 40)):
            both, alone = model(pixels(*sides)), model(pixels(*sides)[1:])
            torch.testing.assert_close(both.logits[1:], alone.logits, rtol=1e-5, atol=1e-5)
            for one in model.head.found(both):
                x0, y0, x1, y1 = one["boxes"].unbind(-1)
                assert (x1 > x0).all() and (y1 > y0).all()
                assert (x0 >= 0).all() and (x1 <= sides[1]).all() and (y1 <= sides[0]).all()
                assert (one["scores"].diff() <= 0).all() and len(one["boxes"]) <= 100


def test_a_whole_model_is_traced_as_one_graph_and_saved(tmp_path):
    model, x = model_of("swin").eval(), pixels(32, 48)
    torch._dynamo.reset()
    with torch.no_grad():
        traced = torch.compile(model, backend="eager", fullgraph=True)(x)
        torch.testing.assert_close(traced.sides, model(x).sides, rtol=1e-5, atol=1e-5)
        model.save(tmp_path / "m")
        again = zoo.load(tmp_path / "m").eval()
        assert torch.equal(again(x).logits, model(x).logits)


def test_the_head_says_what_it_takes():
    with pytest.raises(zoo.OptionError, match="widths of stages of which the last is dim"):
        Detect(dim=32, classes=2, widths=(16, 64))
    with pytest.raises(zoo.OptionError, match="channels in 32 groups, a multiple of 32; got 40"):
        Detect(dim=32, classes=2, channels=40)
    model = model_of("swin")
    with pytest.raises(zoo.OptionError, match=r"no label smoothing.* give --optim.smoothing 0"):
        model.head.loss(model(pixels(32, 32)), {"target": TWO}, smoothing=0.1)
    tokens = model.backbone(model.adapter(pixels(32, 32)))
    with pytest.raises(zoo.ShapeError, match="Detect takes a picture's maps of 2 stages; got 1"):
        model.head(tokens)


def test_the_loss_is_that_of_torchvision_times_the_points_that_hold_a_thing():
    model = model_of("swin")
    head, answer = model.head, model(pixels(32, 32))
    total, count = head.loss(answer, {"target": TWO})["loss"]
    body = torch.nn.Module()
    body.out_channels = 32
    peer = FCOS(body, 3, head=FCOSHead(32, 1, 3, 1))
    targets = [{"boxes": TWO[0, :, :4], "labels": TWO[0, :, 4].long()},
               {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)}]  # fmt: skip
    told = dict(zip(("cls_logits", "bbox_regression", "bbox_ctrness"), answer[:3], strict=True))
    means = peer.compute_loss(targets, told, [answer.cells] * 2, list(answer.counts))
    torch.testing.assert_close(total / count, sum(means.values()))


def test_micro_batches_add_up_to_the_batch():
    """Also where a picture of the batch has no box, and one has many."""
    model = model_of("swin")
    x, target = pixels(32, 32, batch=4), torch.cat((TWO, TWO.flip(0)))
    target[3, 1] = -1
    whole = model.head.loss(model(x), {"target": target})["loss"]
    whole[0].backward()
    wanted = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    parts = [model.head.loss(model(x[i : i + 1]), {"target": target[i : i + 1]})["loss"]
             for i in range(4)]  # fmt: skip
    assert sum(count for _, count in parts) == whole[1] > 0 and parts[1][1] == 0
    sum(total for total, _ in parts).backward()
    torch.testing.assert_close(sum(total for total, _ in parts), whole[0])
    torch.testing.assert_close([p.grad for p in model.parameters()], wanted, rtol=1e-4, atol=1e-5)


def answer_of(head, boxes, size=(32, 32)):
    """What a head would say if it had found exactly these boxes."""
    cells = cells_of(torch.zeros(1, 1, 8, 8), 4.0, 4.0)
    middle = (cells[:, :2] + cells[:, 2:]) / 2
    logits, sides = torch.full((1, 64, 3), -9.0), torch.zeros(1, 64, 4)
    for x0, y0, x1, y1, kind in boxes:
        i = int(((middle - torch.tensor([(x0 + x1) / 2, (y0 + y1) / 2])) ** 2).sum(-1).argmin())
        x, y = middle[i]
        logits[0, i, kind] = 9.0
        sides[0, i] = torch.stack((x - x0, y - y0, x1 - x, y1 - y)) / 4
    return zoo.heads.Points(logits, sides, torch.full((1, 64, 1), 9.0), cells, (64,), size)


def test_found_boxes_are_in_pixels_and_the_metric_is_cocos():
    head = model_of("swin").head
    answer = answer_of(head, [(2, 3, 14, 15, 0), (16, 16, 30, 28, 2)])
    found = head.found(answer)[0]
    assert sorted(found["boxes"].round().tolist()) == [[2, 3, 14, 15], [16, 16, 30, 28]]
    assert sorted(found["labels"].tolist()) == [0, 2]
    metrics = BoxesMetrics(3)
    true = target_of((2, 3, 14, 15, 0), (16, 16, 30, 28, 2), pictures=1)
    metrics.update([found], true, torch.tensor(2.0), torch.tensor(4))
    assert metrics.compute() == {"loss": 0.5, "ap": 1.0, "ap50": 1.0}
    wrong = target_of((2, 3, 14, 15, 0), (16, 16, 30, 28, 1), pictures=1)  # one class is wrong
    metrics.update([found], wrong, torch.tensor(0.0), torch.tensor(0))
    values = metrics.compute()
    assert values == {"loss": 0.0, "ap": 0.5, "ap50": 0.5}
    shifted = target_of((2, 3, 14, 11, 0), pictures=1)  # an overlap of 2/3: 4 of 10 thresholds
    metrics.update(
        head.found(answer_of(head, [(2, 3, 14, 15, 0)])),
        shifted,
        torch.tensor(0.0),
        torch.tensor(0),
    )
    values = metrics.compute()
    assert values["ap"] == pytest.approx(0.4, abs=1e-3) and values["ap50"] == 1


def test_measuring_says_what_to_install(monkeypatch):
    monkeypatch.setattr("zoo.training.metrics.find_spec", lambda name: None)
    with pytest.raises(zoo.UserError, match=r"pycocotools, which is not installed: pip install"):
        BoxesMetrics(2)


# Pictures with boxes.


def squares(root, count=6, side=40, kinds=("cat",)):
    """Pictures with a bright square on dark noise each, but the last -> {file: (label, box)}."""
    noise, told = np.random.default_rng(len(root.name)), {}
    (root / "images").mkdir(parents=True, exist_ok=True)
    for i in range(count):
        h, w = side + 3 * i, side
        picture = 40 + noise.normal(0, 15, (h, w, 3))
        left, top = noise.integers(0, side // 2, 2).tolist()
        size, kind = side // 2, i % len(kinds)
        if i < count - 1:
            picture[top : top + size, left : left + size, kind % 3] += 160
            told[f"p{i}.png"] = (kinds[kind], [left, top, left + size, top + size])
        Image.fromarray(picture.clip(0, 255).astype(np.uint8)).save(root / "images" / f"p{i}.png")
    return told


def write_instances(root, count=6, **more):
    told = squares(root, count, **more)
    (root / "instances").mkdir()
    for file in (root / "images").iterdir():
        w, h = Image.open(file).size
        ids = np.zeros((h, w), np.uint16)
        if file.name in told:
            x0, y0, x1, y1 = told[file.name][1]
            ids[y0:y1, x0:x1] = 7
        Image.fromarray(ids).save(root / "instances" / file.name)
    return told


def coco_of(root, told, count):
    names = sorted({label for label, _ in told.values()})
    images = [{"id": 100 + i, "file_name": f"p{i}.png"} for i in range(count)]
    marks = [
        {"id": n, "image_id": 100 + int(file[1:-4]), "category_id": 5 + names.index(label),
         "bbox": [x0, y0, x1 - x0, y1 - y0], "iscrowd": 0}
        for n, (file, (label, (x0, y0, x1, y1))) in enumerate(told.items())
    ]  # fmt: skip
    kinds = [{"id": 5 + i, "name": name} for i, name in enumerate(names)]
    return {"images": images, "annotations": marks, "categories": kinds}


def write_coco(root, count=6, name="annotations.json", **more):
    told = squares(root, count, **more)
    (root / name).write_text(json.dumps(coco_of(root, told, count)))
    return told


def config_of(train, **more):
    fields = dict(train=str(train), val=None, test=None, input=None, label=None, group=None, split="auto",
                  time=None, on_bad="raise", shorter=None, longer=None)  # fmt: skip
    return SimpleNamespace(**{**fields, **more})


def splits_of(train, **more):
    return data.splits(config_of(train, **more), 0, "boxes")


def check(rows, labels, told):
    """Rows hold what was told of each picture."""
    for item in rows.items:
        label, box = told.get(item.picture.name, (None, None))
        assert item.boxes.dtype == np.float32 and item.boxes.shape == (int(label is not None), 5)
        assert label is None or item.boxes[0].tolist() == [*box, labels.index(label)]


def test_folders_of_instances(tmp_path):
    told = {file: ("object", box) for file, (_, box) in write_instances(tmp_path).items()}
    found = splits_of(tmp_path, val=0.34)
    assert found.labels == ("object",) and found.target == "boxes"
    assert (len(found.train), len(found.val)) == (4, 2)
    check(found.train, found.labels, told)
    check(found.val, found.labels, told)
    assert "of them with none" in " ".join(found.notes)


def test_boxes_are_those_of_each_number():
    ids = np.zeros((5, 8), int)
    ids[1:3, 2:5], ids[4, 7], ids[0, 0] = 9, 3, 300
    assert boxes_of(ids).tolist() == [[7, 4, 8, 5], [2, 1, 5, 3], [0, 0, 1, 1]]
    assert boxes_of(0 * ids).shape == (0, 4)


def test_folders_of_cocos_files(tmp_path):
    for split, count in (("train", 6), ("val", 3)):
        told = write_coco(tmp_path / split, count, kinds=("cat", "dog"))
        found = splits_of(tmp_path / split)
        assert found.labels == ("cat", "dog")
        check(found.train, found.labels, told)
    found = splits_of(tmp_path)
    assert [len(rows) for rows in found.rows().values()] == [6, 3] and len(found.fingerprint) == 64
    again = splits_of(tmp_path / "train" / "annotations.json", val=str(tmp_path / "val"))
    assert again.fingerprint == found.fingerprint
    alone = data.held_out(config_of("", test=str(tmp_path / "val")), ("cat", "dog"), "boxes")
    assert alone.train is None and len(alone.test) == 3
    with pytest.raises(zoo.UserError, match=r"train's classes \(cat\); 1 pictures .*: dog\)"):
        data.held_out(config_of("", test=str(tmp_path / "val")), ("cat",), "boxes")


@pytest.mark.parametrize("kind", ["boxes", "scene", "unlabelled"])
def test_a_share_of_pictures_is_told_in_pictures_and_stratified_by_nothing(tmp_path, kind):
    write_instances(tmp_path, 6)
    (tmp_path / "instances").rename(tmp_path / ("masks" if kind == "scene" else "instances"))
    root = tmp_path / "images" if kind == "unlabelled" else tmp_path
    found = data.splits(config_of(root, val=0.34, ignore=255), 0, kind)
    assert "val is 2 of the 6 pictures of train (0.34), drawn with seed 0" in found.notes


def test_a_share_of_one_picture_is_refused_in_words_of_pictures(tmp_path):
    write_instances(tmp_path, 2)
    for part in ("images", "instances"):
        (tmp_path / part / "p1.png").unlink()
    says = "0.34 of 1 pictures leaves one side empty: add pictures, or give a source of its own"
    with pytest.raises(zoo.UserError, match=says):
        splits_of(tmp_path, val=0.34)


def test_a_changed_box_changes_the_fingerprint(tmp_path):
    told = write_coco(tmp_path, 4)
    before = splits_of(tmp_path).fingerprint
    whole = coco_of(tmp_path, told, 4)
    whole["annotations"][0]["bbox"][2] -= 1
    (tmp_path / "annotations.json").write_text(json.dumps(whole))
    assert splits_of(tmp_path).fingerprint != before


def test_crowds_and_pictures_without_an_entry_are_left_out_and_said(tmp_path):
    told = write_coco(tmp_path, 4)
    whole = coco_of(tmp_path, told, 4)
    whole["annotations"][0]["iscrowd"] = 1
    del whole["images"][3]
    (tmp_path / "annotations.json").write_text(json.dumps(whole))
    found = splits_of(tmp_path)
    notes = " ".join(found.notes)
    assert "left out 1 boxes of crowds" in notes and "1 pictures that it does not name" in notes
    assert [len(item.boxes) for item in found.train.items] == [0, 1, 1]


BAD = {
    "area": ({"bbox": [3, 3, 0, 5]}, r"p1.png: box 1, 3, 3, 3, 8 \(x0, y0, x1, y1\), has no area"),
    "outside": ({"bbox": [30, 3, 20, 5]}, r"p1.png: box 1, 30, 3, 50, 8 .*within the picture's 40 x 43"),
    "category": ({"category_id": 9}, r"annotation 1 has the category 9, which .* does not name"),
    "numbers": ({"bbox": [1, 2, "x"]}, r"annotation 1 has the bbox \[1, 2, 'x'\], no x, y, width"),
    "label": ({"category_id": 6}, r"box 1, .* \(x0, y0, x1, y1\), has no label"),
    "image": ({"image_id": 7}, r"1 are of none \(annotation 1 of picture 7\)"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_what_does_not_fit_is_one_sentence_or_left_out(tmp_path, what):
    told = write_coco(tmp_path, 4)
    whole, (change, words) = coco_of(tmp_path, told, 4), BAD[what]
    whole["annotations"][1] |= change
    whole["categories"].append({"id": 6, "name": " "})
    (tmp_path / "annotations.json").write_text(json.dumps(whole))
    with pytest.raises(zoo.UserError, match=words) as error:
        splits_of(tmp_path)
    assert "\n" not in str(error.value)
    found = splits_of(tmp_path, on_bad="skip")
    assert len(found.train) == (4 if what == "image" else 3)
    assert any("left out 1" in note for note in found.notes)


def test_a_box_that_rounding_put_outside_is_cut(tmp_path):
    told = write_coco(tmp_path, 3)
    whole = coco_of(tmp_path, told, 3)
    whole["annotations"][0]["bbox"] = [30.2, 4.0, 10.3, 9.0]
    (tmp_path / "annotations.json").write_text(json.dumps(whole))
    assert splits_of(tmp_path).train.items[0].boxes[0].tolist() == [np.float32(30.2), 4, 40, 13, 0]


def test_pictures_of_another_size_than_their_boxes_were_drawn_in_are_refused(tmp_path):
    told = write_coco(tmp_path, 3)
    whole = coco_of(tmp_path, told, 3)
    for i, one in enumerate(whole["images"]):
        one |= {"width": 40, "height": 40 + 3 * i}
    file = tmp_path / "annotations.json"
    file.write_text(json.dumps(whole))
    assert len(splits_of(tmp_path).train) == 3
    whole["images"][2] |= {"width": 46, "height": 40}  # as a camera holds a picture on its side
    file.write_text(json.dumps(whole))
    with pytest.raises(zoo.UserError, match=r"p2.png: its boxes were drawn in 46 x 40 pixels, the"):
        splits_of(tmp_path)


def test_cocos_file_may_lie_among_the_pictures(tmp_path):
    for split in ("train", "valid"):
        told = squares(tmp_path / split, 4)
        for file in (tmp_path / split / "images").iterdir():
            file.rename(tmp_path / split / file.name)
        (tmp_path / split / "images").rmdir()
        whole = json.dumps(coco_of(tmp_path, told, 4))
        (tmp_path / split / "_annotations.coco.json").write_text(whole)
    found = splits_of(tmp_path)
    assert (len(found.train), len(found.val)) == (4, 4)
    check(found.val, found.labels, told)
    whole = json.loads(whole)
    whole["images"][1]["id"] = 100
    (tmp_path / "valid" / "_annotations.coco.json").write_text(json.dumps(whole))
    with pytest.raises(zoo.UserError, match=r"an id of their own; .* has 4 pictures of 3 ids"):
        splits_of(tmp_path)


def test_folders_say_what_they_take(tmp_path):
    write_instances(tmp_path / "a", 3)
    write_coco(tmp_path / "b", 3)
    (tmp_path / "b" / "instances").mkdir()
    for root in ("b", "c"):
        (tmp_path / root).mkdir(exist_ok=True)
        with pytest.raises(zoo.UserError, match="images with instances, or with one file of COCO"):
            splits_of(tmp_path / root)
    for file in (tmp_path / "a" / "instances").iterdir():
        Image.fromarray(0 * np.array(Image.open(file))).save(file)
    with pytest.raises(zoo.UserError, match=r"takes pictures with boxes; those of .* have none"):
        splits_of(tmp_path / "a")
    (tmp_path / "a" / "instances" / "p1.png").unlink()
    with pytest.raises(zoo.UserError, match=r"one picture of numbers .*have none \(p1\)"):
        splits_of(tmp_path / "a")


FORMS = {
    "a row a box": lambda told, n: (
        "csv",
        "\n".join(["image,xmin,ymin,xmax,ymax,label"]
                  + [f"images/{f},{','.join(map(str, box))},{label}" for f, (label, box) in told.items()]
                  + [f"images/p{n - 1}.png,,,,,"]),
    ),
    "a row a picture": lambda told, n: (
        "jsonl",
        "\n".join(json.dumps({"image": f"images/p{i}.png", "objects": cell_of(told, i)}) for i in range(n)),
    ),
    "JSON in cells": lambda told, n: (
        "csv",
        "\n".join(["image\tboxes"] + [f"images/p{i}.png\t{json.dumps(cell_of(told, i))}" for i in range(n)]).replace('"', '""').replace("\t[", '\t"[').replace("]\n", ']"\n').replace("\t", ",") + '"',
    ),
}  # fmt: skip


def cell_of(told, i):
    label, box = told.get(f"p{i}.png", (None, None))
    return [] if label is None else [{"label": label, "box": box}]


@pytest.mark.parametrize("form", FORMS)
def test_tables(tmp_path, form):
    told = squares(tmp_path, 6, kinds=("cat", "dog"))
    ending, text = FORMS[form](told, 6)
    file = tmp_path / f"all.{ending}"
    file.write_text(text + "\n")
    found = splits_of(file, val=0.34)
    assert found.labels == ("cat", "dog") and (len(found.train), len(found.val)) == (4, 2)
    check(found.train, found.labels, told)
    check(found.val, found.labels, told)


def test_two_boxes_of_one_picture_in_two_rows(tmp_path):
    squares(tmp_path, 3)
    rows = ["file,x0,y0,x1,y1,label", "images/p0.png,1,2,9,8,b", "images/p1.png,1,1,5,5,a"]
    rows += ["images/p0.png,3,3,20.5,19,a"]
    (tmp_path / "all.csv").write_text("\n".join(rows) + "\n")
    first, second = splits_of(tmp_path / "all.csv").train.items
    assert first.boxes.tolist() == [[1, 2, 9, 8, 1], [3, 3, 20.5, 19, 0]]
    assert second.boxes.tolist() == [[1, 1, 5, 5, 0]]
    (tmp_path / "all.csv").write_text("\n".join(rows).replace("20.5", "x") + "\n")
    with pytest.raises(zoo.UserError, match=r"row 3 has the corners 3, 3, x, 19, no four numbers"):
        splits_of(tmp_path / "all.csv")
    (tmp_path / "all.csv").write_text("image,where\nimages/p0.png,1\n")
    with pytest.raises(
        zoo.UserError, match=r"a column of boxes, .* a row for each box, with four columns"
    ):
        splits_of(tmp_path / "all.csv")


def as_shares(told, i, side=40):
    label, (x0, y0, x1, y1) = told[f"p{i}.png"]
    return label, [x0 / side, y0 / (side + 3 * i), x1 / side, y1 / (side + 3 * i)]


@pytest.mark.parametrize("form", ["corners", "centre", "cell", "sides", "coco"])
@pytest.mark.parametrize("on_bad", ["raise", "skip"])
def test_boxes_that_are_shares_of_the_picture_are_refused(tmp_path, form, on_bad):
    told = squares(tmp_path, 5)
    each = [(f"images/p{i}.png", *as_shares(told, i)) for i in range(4)]
    file = tmp_path / ("all.csv" if form in ("corners", "centre") else "all.jsonl")
    sides = lambda b: [b[0], b[1], b[2] - b[0], b[3] - b[1]]  # noqa: E731
    centre = lambda b: [(b[0] + b[2]) / 2, (b[1] + b[3]) / 2, *sides(b)[2:]]  # noqa: E731
    rows = [
        f"{f},{','.join(map(str, b if form == 'corners' else centre(b)))},{label}"
        for f, label, b in each
    ]
    if form in ("cell", "sides"):
        key, of = ("box", list) if form == "cell" else ("bbox", centre)
        rows = [json.dumps({"image": f, "boxes": [{"label": n, key: of(b)}]}) for f, n, b in each]
        file.write_text("\n".join(rows) + "\n")
    elif form == "coco":
        whole = coco_of(tmp_path, told, 5)
        for mark, (_, _, box) in zip(whole["annotations"], each, strict=True):
            mark["bbox"] = sides(box)
        file = tmp_path / "annotations.json"
        file.write_text(json.dumps(whole))
    else:
        file.write_text("\n".join(["image,xmin,ymin,xmax,ymax,label", *rows]) + "\n")
    says = (
        "boxes are pixels; all 4 of train in .* lie within 0 and 1, shares of the picture: multiply"
    )
    with pytest.raises(zoo.UserError, match=says) as error:
        splits_of(file, on_bad=on_bad)
    assert "\n" not in str(error.value)


def test_a_small_box_among_others_is_no_share_and_columns_of_corners_are_told(tmp_path):
    squares(tmp_path, 3)
    rows = ["image,XMin,YMin,XMax,YMax,label", "images/p0.png,0,0,1,1,a", "images/p1.png,0,0,9,9,b"]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    found = splits_of(tmp_path / "t.csv")
    assert [len(item.boxes) for item in found.train.items] == [1, 1]
    told = "x0, y0, x1, y1 of boxes are the columns 'XMin', 'YMin', 'XMax', 'YMax', by name"
    assert told in found.notes
    Image.new("L", (1, 1)).save(tmp_path / "dot.png")
    (tmp_path / "t.csv").write_text("\n".join(["image,x0,y0,x1,y1,label", "dot.png,0,0,1,1,a"]))
    assert len(splits_of(tmp_path / "t.csv").train) == 1


A_ROW_A_BOX = {
    "x,y,width,height": lambda x, y, w, h: f"{x},{y},{w},{h}",
    "Left,Top,Width,Height": lambda x, y, w, h: f"{x},{y},{w},{h}",
    "x,y,w,h": lambda x, y, w, h: f"{x},{y},{w},{h}",
    "bbox": lambda x, y, w, h: f'"[{x}, {y}, {w}, {h}]"',
    "BBox": lambda x, y, w, h: f'"({x}.0, {y}, {w}, {h})"',
    "width,height,bbox": lambda x, y, w, h: f"40,43,[{x}. {y}. {w}. {h}.]",
}


@pytest.mark.parametrize("flags", [{}, {"label": "label"}])
@pytest.mark.parametrize("columns", A_ROW_A_BOX)
def test_a_corner_and_sides_in_a_row_for_each_box(tmp_path, columns, flags):
    told, written = squares(tmp_path, 5, kinds=("cat", "dog")), A_ROW_A_BOX[columns]
    rows = [f"images/{f},{label},{written(x0, y0, x1 - x0, y1 - y0)}"
            for f, (label, (x0, y0, x1, y1)) in told.items()]  # fmt: skip
    file = tmp_path / "t.csv"
    empty = "images/p4.png," + "," * len(columns.split(","))
    file.write_text("\n".join([f"image,label,{columns}", *rows, empty]) + "\n")
    found = splits_of(file, **flags)
    assert found.labels == ("cat", "dog") and len(found.train) == 5
    check(found.train, found.labels, told)
    note = next(note for note in found.notes if note.startswith("x, y, width, height of boxes"))
    assert columns.split(",")[-1] in note and "upper left corner" in note


def test_lists_of_four_numbers_are_a_box_each(tmp_path):
    told = squares(tmp_path, 4)
    rows = [{"image": f"images/{f}", "label": label, "bbox": [x0, y0, x1 - x0, y1 - y0]}
            for f, (label, (x0, y0, x1, y1)) in told.items()]  # fmt: skip
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    for flags in ({}, {"label": "bbox"}):
        found = splits_of(tmp_path / "t.jsonl", **flags)
        check(found.train, found.labels, told)
    rows[1]["bbox"] = [1, 2, 3]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    with pytest.raises(
        zoo.UserError, match="row 2 has the corner and sides 1, 2, 3, no four numbers"
    ):
        splits_of(tmp_path / "t.jsonl")


def test_cells_that_hold_no_boxes_are_one_sentence_that_names_what_works(tmp_path):
    squares(tmp_path, 6)
    for cell in ('"[3, 4, 9, 9]"', '"[[3, 4, 9, 9]]"', "cat"):
        rows = [f"images/p{i}.png,{cell},cat" for i in range(6)]
        (tmp_path / "t.csv").write_text("\n".join(["image,boxes,label", *rows]) + "\n")
        with pytest.raises(zoo.UserError) as error:
            splits_of(tmp_path / "t.csv", label="boxes")
        said = str(error.value)
        assert said.count('[{"label": NAME, "box": [x0, y0, x1, y1]}, ...]') == 1
        assert "x, y, width, height" in said and "6 of 6 cells of 'boxes' in" in said
        assert "\n" not in said and len(said) < 800
    rows[0] = 'images/p0.png,"[{""label"": ""cat"", ""box"": [3, 4, 9, 9]}]",cat'
    (tmp_path / "t.csv").write_text("\n".join(["image,boxes,label", *rows]) + "\n")
    found = splits_of(tmp_path / "t.csv", label="boxes", on_bad="skip")
    assert len(found.train) == 1 and any("left out 5" in note for note in found.notes)


def test_a_label_without_corners_is_said_to_be_no_box(tmp_path):
    squares(tmp_path, 3)
    rows = ["image,x0,y0,x1,y1,label", "images/p0.png,1,2,9,8,a", "images/p1.png,nan,nan,nan,nan,b"]
    (tmp_path / "t.csv").write_text("\n".join([*rows, "images/p2.png,,,,,"]) + "\n")
    found = splits_of(tmp_path / "t.csv")
    assert found.labels == ("a",) and [len(item.boxes) for item in found.train.items] == [1, 0, 0]
    assert "1 rows have a label and no corners, so no box (row 2)" in found.notes


def test_cells_of_many_kinds():
    wanted = (("cat", "dog"), [[1, 2, 4, 6], [0, 0, 5, 5]])
    for cell in (
        [{"label": "cat", "box": [1, 2, 4, 6]}, {"category": "dog", "bbox": [0, 0, 5, 5]}],
        {"category": ["cat", "dog"], "bbox": [[1, 2, 3, 4], [0, 0, 5, 5]], "id": [1, 2]},
    ):
        for one in (cell, json.dumps(cell)):
            told = objects_in(one)
            assert (told.labels, told.boxes.tolist()) == wanted and not told.reason
    for cell in (None, "", [], {"category": [], "bbox": []}):
        assert objects_in(cell).boxes.shape == (0, 4) and not objects_in(cell).reason
    for cell in ("{", 3, [{"label": "cat"}], [{"box": [1, 2, 3, 4]}], [[1, 2, 3, 4]],
                 {"category": ["a"], "bbox": []}, {"kind": ["a"]}, [{"label": "a", "box": [1, 2, 3, float("nan")]}]):  # fmt: skip
        assert objects_in(cell).reason.startswith("its cell holds ")


def test_numbered_classes_of_datasets_have_their_names(tmp_path):
    import datasets

    told = squares(tmp_path, 4)
    names = datasets.ClassLabel(names=["bird", "cat"])
    kind = {
        "bbox": datasets.List(datasets.List(datasets.Value("float32"))),
        "category": datasets.List(names),
    }
    cells = [
        {"bbox": [[x0, y0, x1 - x0, y1 - y0]], "category": [1]}
        for _, (x0, y0, x1, y1) in told.values()
    ]
    rows = {"image": [str(tmp_path / "images" / f) for f in told], "objects": cells}
    features = datasets.Features({"image": datasets.Value("string"), "objects": kind})
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(str(tmp_path / "saved"))
    found = splits_of(tmp_path / "saved")
    assert found.labels == ("cat",)
    check(found.train, found.labels, told)


# Preparing and varying.


@pytest.mark.parametrize("strength", ["none", "light", "strong"])
def test_picture_and_boxes_move_together(strength):
    """A box lies around what is bright, however both are varied."""
    picture = np.zeros((50, 70, 3), np.uint8)
    picture[10:40, 5:30] = 250
    boxes = np.array([[5, 10, 30, 40, 1], [50, 1, 51, 2, 2]], np.float32)
    vary = VaryBoxes(
        PrepareBoxes((32, 32), mean=(0.0,), std=(1.0,)), strength, flip=True, turn=True
    )
    seen, lost = set(), 0
    for seed in range(40):
        torch.manual_seed(seed)
        x, target = vary(Boxed(Image.fromarray(picture), boxes))
        assert x.shape == (3, 32, 32) and target.dtype == torch.float32
        target = target[target[:, 4] == 1]
        rows, columns = (x.mean(0) > 0.5 * x.max()).nonzero().unbind(-1)
        lost += len(target) == 0
        if len(target):
            around = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            assert (target[0, :4] - torch.tensor(around)).abs().max() < 1.1, seed
            seen.add(tuple(target[0].tolist()))
    assert len(seen) > 10 and lost < 20


def test_a_box_of_which_little_is_left_is_none():
    picture = Image.new("RGB", (64, 32))
    vary = VaryBoxes(PrepareBoxes((32, 32)), "none", True, True)
    boxes = np.array([[0, 0, 64, 32, 0]], np.float32)
    torch.manual_seed(0)
    _, target = vary(Boxed(picture, boxes))
    assert target.tolist() == [[0, 0, 32, 32, 0]]  # half of it is in the piece
    far = np.array([[0, 0, 4, 4, 0], [60, 0, 64, 4, 1]], np.float32)
    kept = [vary(Boxed(picture, far))[1][:, 4].tolist() for _ in range(8)]
    assert all(len(one) <= 1 for one in kept)
    assert vary(Boxed(picture, far[:0]))[1].shape == (0, 5)


def test_batches_are_filled_up_with_nothing():
    prepare = PrepareBoxes((8, 8))
    picture = Image.new("RGB", (8, 8))
    samples = [prepare.finish(Boxed(picture, np.full((n, 5), n, np.float32))) for n in (1, 0, 2)]
    batch = prepare.batch(samples)
    assert batch["pixels"].shape == (3, 3, 8, 8) and batch["target"].shape == (3, 2, 5)
    assert batch["target"][:, :, 4].tolist() == [[1, -1], [-1, -1], [2, 2]]
    assert prepare.batch(samples[1:2])["target"].shape == (1, 0, 5)


# Runs and predictions.

TINY = {
    "model.adapter.dim": 16, "model.adapter.depths": [1, 1], "model.adapter.heads": [1, 2],
    "model.adapter.window": [4, 4], "model.head.channels": 32, "model.head.depth": 1,
    "data.crop": 40, "run.global_batch": 4, "hw.accelerator": "cpu", "hw.precision": "fp32",
}  # fmt: skip
KINDS = ("red", "green")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("boxes")
    for split, count in (("train", 16), ("val", 4), ("test", 4)):
        write_coco(root / "data" / split, count, side=40, kinds=KINDS)
    flags = {**TINY, "data.train": str(root / "data"), "run.dir": str(root / "run"), "run.epochs": 40,
             "optim.lr": 5e-3, "data.augment": "none"}  # fmt: skip
    return root, training.train("image_detect/custom", flags)


def test_a_small_swin_learns_squares(run):
    root, result = run
    assert result.metrics["test"]["ap50"] > 0.9 and result.metrics["test"]["ap"] > 0.5
    assert training.evaluate(result.folder) == result.metrics["test"]
    report = (result.folder / "report.md").read_text()
    assert "16 pictures with 15 boxes" in report and "learning_curves.png" in report
    again = training.evaluate(result.folder, root / "data" / "val")
    assert again["ap"] == pytest.approx(result.metrics["val"]["ap"], abs=1e-6)


def test_predictions_are_named_boxes(run):
    root, result = run
    model = zoo.load(result.folder / "model")
    files = sorted((root / "data/test/images").iterdir())
    several, alone = model.predict(files), model.predict(files[1])
    assert alone["boxes"] == several[1]["boxes"] and alone["file"] == str(files[1])
    told = {f.picture.name: f.boxes for f in splits_of(root / "data" / "test").train.items}
    for file, answer in zip(files[:-1], several, strict=False):
        best, true = answer["boxes"][0], told[file.name][0]
        assert best["label"] in KINDS and best["score"] > 0.3
        assert np.abs(np.array(best["box"]) - true[:4]).max() < 6
    model.head.fcos.head.classification_head.cls_logits.bias.data.fill_(torch.nan)
    with pytest.raises(zoo.UserError, match="a model of finite weights"):
        model.predict(files[0])


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("image,boxes,Boxes", "one column of boxes; .* has boxes, Boxes: say which with --data.label"),
        ("image,x0,y0,x1,y1,label,Label", "one column of labels; .* has label, Label: say which"),
        ("image,x0,y0,x1,y1,X0,label", "one column for each side of a box; .* has x0, .*, X0: rename"),
        ("image,x0,y0,x1,y1,xmin,ymin,xmax,ymax,label", "side of a box; .*, ymax: rename those"),
        ("image,x,y,w,h,width,height,label", "side of a box; .* has x, y, w, width, h, height: rename"),
        ("image,x0,y0,x1,y1,x2,y2,label", "one column for each side of a box; .*, y2: rename"),
    ],
)  # fmt: skip
def test_columns_of_boxes_that_may_be_two_are_a_doubt(tmp_path, header, says):
    row = ",".join("p.png" if name == "image" else "1" for name in header.split(","))
    (tmp_path / "t.csv").write_text(f"{header}\n{row}\n{row}\n")
    with pytest.raises(zoo.UserError, match=says):
        splits_of(tmp_path / "t.csv", val=None)


def test_zoo_predict_writes_boxes(run, tmp_path, monkeypatch, capsys):
    root, result = run
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.png").write_bytes(b"")
    Image.new("RGB", (40, 40)).save("black.png")
    words = [
        "predict",
        str(result.folder),
        str(root / "data/test/images"),
        "black.png",
        "empty.png",
    ]
    assert cli.main([*words, "--format", "jsonl"]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 6 and "error" in rows[5]
    assert rows[0]["boxes"][0].keys() == {"label", "score", "box"} and rows[0]["file"].endswith(
        "p0.png"
    )
    assert cli.main([*words, "--out", "found.csv"]) == 1
    lines = (tmp_path / "found.csv").read_text().splitlines()
    assert lines[0] == "file,label,score,x0,y0,x1,y1,error"
    assert len(lines) == 1 + sum(max(1, len(row.get("boxes", ()))) for row in rows)
    assert sum(line.startswith("black.png,,") for line in lines) == (not rows[4]["boxes"])
    assert cli.main(words) == 1
    assert capsys.readouterr().out.splitlines()[0].split()[:4] == ["file", "label", "score", "x0"]


def test_zoo_predict_draws_boxes(run, tmp_path, monkeypatch, capsys):
    root, result = run
    monkeypatch.chdir(tmp_path)
    file = root / "data/test/images/p0.png"
    assert (
        cli.main(["predict", str(result.folder), str(file), "--drawn", "seen", "--format", "jsonl"])
        == 0
    )
    box = json.loads(capsys.readouterr().out)["boxes"][0]["box"]
    before, after = (
        np.array(Image.open(f).convert("RGB")).astype(int) for f in (file, "seen/p0.png")
    )
    changed = np.abs(before - after).any(-1)
    assert before.shape == after.shape and 0 < changed.mean() < 0.8
    x0, y0, x1, y1 = (round(side) for side in box)
    assert changed[y0 : y1 + 1, x0 : x1 + 1].any()
    held = file.read_bytes()
    assert cli.main(["predict", str(result.folder), str(file), "--drawn", str(file.parent)]) == 2
    assert "--drawn takes a new or an empty folder; " in capsys.readouterr().err
    assert file.read_bytes() == held
    zoo.create("vit_mu_patch8_32", classes=2).save("other")
    assert cli.main(["predict", "other", str(file), "--drawn", "seen"]) == 2
    assert (
        "--drawn takes a model that tells boxes; this one is of pictures" in capsys.readouterr().err
    )


def rows_a_box(root):
    """A table of a row for each box: three of p0, one of p1, one of p2 without a box."""
    rows = [("p0", "1,1,9,9", "a", "x"), ("p1", "2,2,9,9", "b", "y"), ("p0", "3,3,9,9", "b", "x"),
            ("p2", ",,,", "", "y"), ("p0", "5,5,8,7", "a", "x")]  # fmt: skip
    lines = [f"{root}/{p}.png,{four},{label},{slide}" for p, four, label, slide in rows]
    return "\n".join(["image,x0,y0,x1,y1,label,slide", *lines]) + "\n"


def test_a_picture_of_several_rows_is_answered_once(run, tmp_path, monkeypatch, capsys):
    root, result = run
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(rows_a_box(root / "data/test/images"))
    words = ["predict", str(result.folder), "t.csv", "--format"]
    assert cli.main([*words, "jsonl"]) == 0
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["image"][-6:] for row in rows] == ["p0.png", "p1.png", "p2.png"]
    assert [{*row} for row in rows] == [{"image", "slide", "boxes"}] * 3
    assert (
        "t.csv: 5 rows are of 3 pictures, each answered once; left out x0, y0, x1, y1, label, which "
        "differ\n"
    ) in err
    model = zoo.load(result.folder / "model")
    assert rows[1]["boxes"] == model.predict(rows[1]["image"])["boxes"]
    assert cli.main([*words, "csv"]) == 0
    head = capsys.readouterr().out.splitlines()[0]
    assert head == "image,slide,label,score,x0,y0,x1,y1"


def test_rows_of_bytes_are_of_one_picture_where_they_are_equal(run, tmp_path, monkeypatch, capsys):
    """Whatever name stands beside them; and a table of a row for each picture says nothing."""
    import datasets

    root, result = run
    monkeypatch.chdir(tmp_path)
    data = [(root / f"data/test/images/p{i}.png").read_bytes() for i in (0, 1, 0)]
    cells = [{"bytes": one, "path": "same.png"} for one in data]
    rows = {"image": cells, "x0": [1, 2, 3], "n": [4, 5, 4]}
    datasets.Dataset.from_dict(rows).to_parquet("t.parquet")
    datasets.Dataset.from_dict(rows).select([0, 1]).to_parquet("once.parquet")
    for name, more in (("t.parquet", {"n"}), ("once.parquet", {"n", "given_x0"})):
        assert cli.main(["predict", str(result.folder), name, "--format", "jsonl"]) == 0
        out, err = capsys.readouterr()
        found = [json.loads(line) for line in out.splitlines()]
        assert [row["n"] for row in found] == [4, 5]
        assert all(row.keys() == {"boxes", *more} for row in found)
        assert ("each answered once" in err) == (name == "t.parquet")


def test_zoo_predict_tells_boxes_of_a_least_score(run, tmp_path, monkeypatch, capsys):
    root, result = run
    monkeypatch.chdir(tmp_path)
    words = ["predict", str(result.folder), str(root / "data/test/images"), "--format", "jsonl"]

    def scores(*more):
        assert cli.main([*words, *more]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return [one["score"] for row in rows for one in row["boxes"]]

    default, surest = scores(), scores("--least-score", "0.3")
    assert surest == [one for one in default if one > 0.3] and 0 < len(surest) < len(default)
    assert min(default) > 0.05 > min(scores("--least-score", "0.01"))
    assert scores("--least-score", "1") == []
    scores("--least-score", "1", "--drawn", "seen")
    before, after = (
        np.array(Image.open(f)) for f in (root / "data/test/images/p0.png", "seen/p0.png")
    )
    assert (before == after).all()  # nothing is drawn that is not told
    for given, says in (
        ("1.5", "--least-score takes a score from 0 to 1; got 1.5"),
        ("nan", "--least-score takes a score from 0 to 1; got nan"),
        ("much", "argument --least-score: invalid float value: 'much'"),
    ):
        assert cli.main([*words, "--least-score", given]) == 2
        assert says in capsys.readouterr().err
    zoo.create("vit_mu_patch8_32", classes=2).save("other")
    assert cli.main(["predict", "other", str(root), "--least-score", "0.3"]) == 2
    said = capsys.readouterr().err
    assert "--least-score takes a model that tells boxes; this one is of pictures" in said


def test_a_run_can_be_loaded_and_goes_on_with_its_head(run, tmp_path):
    root, result = run
    flags = {
        "data.train": str(root / "data"), "run.dir": str(tmp_path / "run"), "run.epochs": 1,
        "model.load": str(result.folder / "model"), "optim.lr": 1e-9, "run.global_batch": 4,
        "model.head.channels": 32, "data.crop": 40, "hw.precision": "fp32", "hw.accelerator": "cpu",
    }  # fmt: skip
    again = training.train("image_detect/swin_tiny_finetune", flags)
    assert again.metrics["test"]["ap"] == pytest.approx(result.metrics["test"]["ap"], abs=0.02)


@pytest.mark.parametrize("name", ["vit_mu_patch8_32", "swin_mu_patch4_window4_64"])
def test_a_model_by_its_name_gets_the_head(run, tmp_path, name):
    root, _ = run
    flags = {"data.train": str(root / "data"), "run.dir": str(tmp_path / "run"), "run.epochs": 1,
             "model.name": name, "model.head.channels": 32, "run.global_batch": 4,
             "data.crop": 32, "data.augment": "strong"}  # fmt: skip
    result = training.train("image_detect/custom", flags)
    model = zoo.load(result.folder / "model")
    assert isinstance(model.head, Detect) and model.record.preprocess.size == (32, 32)
    assert "boxes" in model.predict(root / "data/test/images/p1.png")


def test_pictures_without_any_box_are_learned_too(tmp_path):
    """A step without a box is one of the losses of nothing, not a division by zero."""
    for split, kept in (("train", 1), ("val", 0)):
        root = tmp_path / "few" / split
        whole = coco_of(root, squares(root, 6), 6)
        whole["annotations"] = whole["annotations"][:kept]
        (root / "annotations.json").write_text(json.dumps(whole))
    flags = {**TINY, "data.train": str(root.parent), "run.dir": str(tmp_path / "run"),
             "run.epochs": 1, "run.global_batch": 2}  # fmt: skip
    result = training.train("image_detect/custom", flags)
    assert np.isfinite(result.metrics["val"]["loss"]) and result.metrics["val"]["ap"] == -1
    assert any(
        "val has no boxes: its ap is -1" in n
        for n in json.loads((result.folder / "data.json").read_text())["notes"]
    )
