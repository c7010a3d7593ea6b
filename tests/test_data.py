"""Folders become checked splits; splits become the batches that they should, in every epoch."""

import itertools
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import lightning
import numpy as np
import pytest
import torch
from PIL import Image

from zoo import data
from zoo.data import Splits, check, digits, loader
from zoo.data.layout import files_below, is_hidden, is_kind
from zoo.data.sampling import EvalSampler, TrainSampler, permutation, stream_seed
from zoo.data.splits import draw
from zoo.errors import UserError
from zoo.inputs import Preprocess, decode_image
from zoo.inputs.augmentation import Mix

FOLDERS = Path(__file__).parents[2] / "shared" / "cases" / "folders"
IMAGES = FOLDERS.parent / "images"
needs_shared = pytest.mark.skipif(
    not FOLDERS.exists(),
    reason="the shared test files (public bug reports as pictures and folders) are no part of this "
    f"repository; looked for them in {FOLDERS}, beside the checkout",
)


def write(root: Path, *counts: str) -> Path:
    """`write(root, "train/cat 3", "val/cat 1")`: so many pictures each, all different."""
    for entry in counts:
        name, _, count = entry.rpartition(" ")
        (root / name).mkdir(parents=True, exist_ok=True)
        for i in range(int(count)):
            values = np.random.default_rng(stream_seed(name, i)).integers(0, 256, (6, 6, 3))
            Image.fromarray(values.astype(np.uint8)).save(root / name / f"{i}.png")
    return root


def read(train: Path, seed: int = 0, **options: object) -> Splits:
    given = {"train": str(train), "val": 0.25, "test": None, "on_bad": "raise"} | options
    return data.class_folders(SimpleNamespace(**given), seed)


def files(rows: data.Rows | None) -> list[str]:
    assert rows is not None
    return [rows.name(i) for i in range(len(rows))]


def noted(splits: Splits, *parts: str) -> bool:
    return any(all(part in note for part in parts) for note in splits.notes)


# ---------------------------------------------------------------- the shared cases


@needs_shared
def test_labels_come_from_train():
    splits = read(FOLDERS / "val_lacks_class")
    assert splits.labels == ("ant", "bee", "cat")
    assert splits.val is not None
    assert splits.val.counts() == (3, 0, 3)
    named = zip(splits.val.targets, files(splits.val), strict=True)
    assert {target for target, name in named if name.startswith("cat/")} == {2}
    assert noted(splits, "val has no picture of bee")


@needs_shared
def test_numeric_names_sort_by_number():
    assert read(FOLDERS / "numeric_names").labels == ("2", "10", "100")


@needs_shared
def test_odd_names_come_through():
    labels = read(FOLDERS / "odd_names").labels
    assert labels == ("Ant", "a.b", "ant", "golden retriever", "été — mer")


@needs_shared
def test_hidden_folders_and_other_files_are_left_out():
    splits = read(FOLDERS / "hidden_dirs")
    assert splits.labels == ("a", "b")
    assert all(".ipynb" not in name for rows in splits.rows().values() for name in files(rows))
    assert noted(splits, "no picture in class folders", "empty_class")
    assert noted(splits, "hidden or made by a machine", "Thumbs.db")


@needs_shared
def test_one_class_is_refused():
    with pytest.raises(UserError, match=r"folders of two classes or more; .* holds one, 'only'"):
        read(FOLDERS / "one_class")


@needs_shared
@pytest.mark.parametrize("below", ["", "train"])
def test_split_names_never_become_classes(below: str):
    with pytest.raises(UserError, match="holds 4 pictures but no class folders: move each"):
        read(FOLDERS / "splits_no_labels" / below)


@needs_shared
@pytest.mark.parametrize("name", ["truncated.jpg", "zero_bytes.jpg", "html_named.jpg"])
def test_a_shared_bad_picture(tmp_path: Path, name: str):
    write(tmp_path, "cat 4", "dog 4")
    shutil.copy(IMAGES / name, tmp_path / "cat" / name)
    with pytest.raises(UserError, match=f"1 of 9 cannot be read .*{name}"):
        read(tmp_path)
    splits = read(tmp_path, on_bad="skip")
    assert len(splits.skipped) == 1
    assert name in splits.skipped[0]
    assert all(name not in file for rows in splits.rows().values() for file in files(rows))


# ---------------------------------------------------------------- layouts


def test_class_folders_alone(tmp_path: Path):
    write(tmp_path, "dog 8", "cat/deep/er 4", "cat 4")
    splits = read(tmp_path)
    assert splits.labels == ("cat", "dog")
    assert splits.train is not None
    assert splits.train.counts() == (6, 6)
    assert splits.val is not None
    assert splits.val.counts() == (2, 2)
    assert splits.test is None
    assert not {*files(splits.train)} & {*files(splits.val)}
    assert noted(splits, " pictures of train (0.25), stratified, drawn with seed 0")
    assert noted(splits, "train: 12 pictures of 2 classes")


@pytest.mark.parametrize("val", ["val", "valid", "Validation"])
def test_split_folders_go_before_shares(tmp_path: Path, val: str):
    write(tmp_path, "train/cat 4", "train/dog 4", f"{val}/cat 1", f"{val}/dog 2", "test/dog 3")
    splits = read(tmp_path, test=0.5)
    assert [len(rows) for rows in splits.rows().values()] == [8, 3, 3]
    assert splits.test is not None
    assert splits.test.targets == (1, 1, 1)
    assert noted(splits, "test has no picture of cat")


def test_a_path_goes_before_a_split_folder(tmp_path: Path):
    write(
        tmp_path, "all/train/cat 4", "all/train/dog 4", "all/val/cat 1", "own/dog 2", "held/cat 3"
    )
    splits = read(tmp_path / "all", val=str(tmp_path / "own"), test=tmp_path / "held")
    assert splits.val is not None
    assert splits.val.targets == (1, 1)
    assert splits.test is not None
    assert splits.test.targets == (0, 0, 0)


def test_train_folder_itself_points_at_its_neighbours(tmp_path: Path):
    write(tmp_path, "train/cat 4", "train/dog 4", "val/cat 2")
    splits = read(tmp_path / "train")
    assert len(splits.train or ()) == 6
    assert noted(splits, "val beside", "is not used; give")


def test_unlabelled_test_pictures_are_noted(tmp_path: Path):
    write(tmp_path, "train/cat 4", "train/dog 4", "test 3")
    splits = read(tmp_path)
    assert splits.test is None
    assert noted(splits, "test is not used, since it has no class folders")


def test_a_vehicle_called_train(tmp_path: Path):
    splits = read(write(tmp_path, "bus 4", "car 4", "train 4"))
    assert splits.labels == ("bus", "car", "train")
    assert noted(splits, "train is taken for a class, not a split")


def test_folders_beside_splits_are_noted(tmp_path: Path):
    splits = read(write(tmp_path, "train/cat 4", "train/dog 4", "val/cat 1", "unlabelled 9"))
    assert splits.labels == ("cat", "dog")
    assert noted(splits, "left out unlabelled, which is no split")


def test_linked_folders_are_followed_once(tmp_path: Path):
    write(tmp_path, "real/cat 4", "set/dog 4")
    (tmp_path / "set" / "cat").symlink_to(tmp_path / "real" / "cat")
    (tmp_path / "set" / "cat" / "loop").symlink_to(tmp_path / "set" / "cat")
    splits = read(tmp_path / "set")
    assert sum(map(len, splits.rows().values())) == 8


MACHINE = (
    "@eaDir", "__MACOSX", ".ipynb_checkpoints", "lost+found", "System Volume Information",
    "$RECYCLE.BIN",
)  # fmt: skip


@pytest.mark.parametrize("name", MACHINE)
@pytest.mark.parametrize("layout", ["", "train/"])
def test_machine_made_folders_are_never_classes(tmp_path: Path, name: str, layout: str):
    write(tmp_path, f"{layout}cat 4", f"{layout}dog 4", f"{name}/cat 2", f"{layout}{name} 2")
    write(tmp_path, f"{layout}cat/{name}/deep 2")
    for folder in (tmp_path, tmp_path / layout / "cat"):
        (folder / "Thumbs.db").touch()
    (folder / "._0.png").touch()
    splits = read(tmp_path)
    assert splits.labels == ("cat", "dog")
    assert sum(map(len, splits.rows().values())) == 8
    assert noted(splits, "hidden or made by a machine", name, "Thumbs.db", f"cat/{name}")
    assert not noted(splits, "not pictures by their ending")


def test_a_folder_of_machine_made_things_only(tmp_path: Path):
    with pytest.raises(UserError, match="holds no class folders"):
        read(write(tmp_path, "__MACOSX/cat 2", "@eaDir 2"))


def test_a_folder_that_may_not_be_read_is_no_empty_one(tmp_path: Path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", path)

    (tmp_path / "cat").mkdir()
    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(PermissionError, match="cat"):
        files_below(tmp_path / "cat", [])


def test_what_is_a_picture_and_what_is_hidden(tmp_path: Path):
    root = tmp_path / ".cache"
    names = ("a.png", "a.JPG", ".a.png", "a.txt", "png")
    assert [name for name in names if is_kind(root / name, "picture")] == ["a.png", "a.JPG"]
    for name in ("cat/.x/a.png", "@eaDir/a.png", "cat/THUMBS.DB", "__MACOSX/cat/a.png"):
        assert is_hidden(root / name, root), name
    assert not is_hidden(root / "cat" / "a.png", root)


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ("heel", "heel ", "since blanks around a name do not count"),
        ("\u00e9t\u00e9", "e\u0301te\u0301", "since their names look alike and differ only in how"),
        ("\u00e9t\u00e9", " e\u0301te\u0301", "writes the characters, and blanks around a name do"),
    ],
)
def test_why_two_folders_are_one_class(tmp_path: Path, one: str, other: str, why: str):
    splits = read(write(tmp_path, "boot 4", f"{one} 2", f"{other} 2"))
    assert len(splits.labels) == 2
    assert noted(splits, f"two folders are class '{one}'", why)


not_utf_8 = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux lets a test write names that are not UTF-8"
)


@not_utf_8
@pytest.mark.parametrize("given", ["", "caf\udce9"])
def test_a_class_name_that_is_no_text_is_refused(tmp_path: Path, given: str):
    write(tmp_path, "cafe/dog 2", "cafe/cat 2", "dog 2")
    (tmp_path / "cafe").rename(tmp_path / "caf\udce9")
    with pytest.raises(UserError, match=r"UTF-8.*caf\\udce9 is (not|none): rename it") as caught:
        read(tmp_path / given)
    assert str(caught.value).encode()


@not_utf_8
def test_a_file_name_that_is_no_text_is_a_bad_picture(tmp_path: Path):
    write(tmp_path, "cat 4", "dog 4")
    for name in ("caf\udce9.png", "caf\udce9.txt"):
        shutil.copy(tmp_path / "cat" / "0.png", tmp_path / "cat" / name)
    with pytest.raises(UserError, match=r"1 of 9 cannot .*caf\\udce9\.png: its path is not UTF-8"):
        read(tmp_path)
    splits = read(tmp_path, on_bad="skip")
    assert splits.skipped == (f"{tmp_path}/cat/caf\\udce9.png: its path is not UTF-8: rename it",)
    assert noted(splits, "not pictures by their ending: 1 (cat/caf\\udce9.txt)")
    assert "".join(splits.notes).encode()


def test_a_long_check_says_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    write(tmp_path, "cat 4", "dog 4")
    read(tmp_path)
    assert caplog.messages == []
    clock = itertools.count(step=2)
    monkeypatch.setattr(check, "monotonic", lambda: next(clock))  # two seconds per look at it
    read(tmp_path)
    assert caplog.messages == ["checked 3 of 8 pictures", "checked 6 of 8 pictures"]
    assert {record.name for record in caplog.records} == {"zoo"}


def test_blanks_around_a_name_do_not_count(tmp_path: Path):
    splits = read(write(tmp_path, "boot 4", "heel 2", "heel  2"))
    assert splits.labels == ("boot", "heel")
    assert splits.train is not None
    assert splits.train.counts() == (3, 3)
    assert noted(splits, "two folders are class 'heel'")


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("made", "given", "says"),
    [
        (("cats/cat 2", "cats/dog 2"), "cat", "there is no .*cat; did you mean 'cats'?"),
        (("a 1",), "a/0.png", "data.train takes a folder .*0.png is a file"),
        (("a 0",), "a", "a is empty"),
        (("a 3",), "a", "holds 3 pictures but no class folders"),
        (("a/cat 0", "a/dog 0"), "a", r"the folders in .* \(cat, dog\) hold no pictures$"),
        (("a/cat 3",), "a", "holds one, 'cat': add a folder for another class"),
        (("a/all/cat 3", "a/all/dog 3"), "a", "give .*all, which holds cat, dog"),
        (("a/val/cat 3", "a/test/cat 3"), "a", "with a train folder among them; .* only test, val"),
        (("a/train/x 1", "a/val/x 1", "a/valid/x 1"), "a", "has two, val and valid: keep one"),
        (("a/cat 3", "a/dog 3", "a/test 3"), "a", "mixes test with cat, dog: keep one kind"),
        (("a/train/x 3", "a/bus 3"), "a", "mixes train with bus"),
        (("a/train/x 3", "a/train/y 3", "a/val 2"), "a", "data.val takes .*no class folders"),
        (("a/train/x 2", "a/train/y 2", "a/val/z 2"), "a", r"\(x, y\); got 'z', which is none"),
        (("a/x 1", "a/y 1"), "a", "data.val takes a share of train, but no class .* to spare"),
        (("a/x 2", "a/   2"), "a", "named by their class; .* is blank"),
    ],
)
def test_one_sentence_for_a_bad_folder(tmp_path: Path, made: tuple, given: str, says: str):
    write(tmp_path, *made)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=says) as caught:
        read(tmp_path / given)
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_files_of_another_kind_are_named(tmp_path: Path):
    write(tmp_path, "cat 0", "dog 0")
    (tmp_path / "cat" / "one.heic").touch()
    with pytest.raises(UserError, match=r"hold no pictures, only \.heic files"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (1.5, "data.val takes a share of train above 0 and below 1, or a folder; got 1.5"),
        ("0", "above 0 and below 1"),
        (float("nan"), "above 0 and below 1"),
        ("nowhere", "data.val takes a folder .*; there is no nowhere"),
    ],
)
def test_impossible_val(tmp_path: Path, value: object, says: str):
    write(tmp_path, "cat 4", "dog 4")
    with pytest.raises(UserError, match=says):
        read(tmp_path, val=value)


def test_share_as_text(tmp_path: Path):
    write(tmp_path, "cat 4", "dog 4")
    assert read(tmp_path, val="0.25") == read(tmp_path, val=0.25)


def test_all_bad_pictures_are_listed_before_training(tmp_path: Path):
    write(tmp_path, "cat 6", "dog 6")
    for name in ("cat/1.png", "dog/2.png"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(UserError) as caught:
        read(tmp_path)
    message = str(caught.value)
    assert f"2 of 12 cannot be read ({tmp_path / 'cat/1.png'}: it is empty (0 bytes)" in message
    assert str(tmp_path / "dog/2.png") in message
    assert "--data.on_bad skip" in message
    splits = read(tmp_path, on_bad="skip")
    assert [s.split(":")[0] for s in splits.skipped] == [
        str(tmp_path / "cat/1.png"), str(tmp_path / "dog/2.png")
    ]  # fmt: skip
    assert noted(splits, "left out 2 unreadable pictures")
    assert sum(map(len, splits.rows().values())) == 10


@pytest.mark.parametrize("below", ["", "train"])
@pytest.mark.parametrize(
    ("names", "recipe"),
    [
        (("images", "masks"), "image_segment"),
        (("Images", "mask"), "image_segment"),
        (("img", "labels", "overlays"), "image_segment"),
        (("images", "instances"), "image_detect"),
    ],
)
def test_pictures_with_masks_are_no_two_classes(tmp_path: Path, names, recipe: str, below: str):
    write(tmp_path / below, *(f"{name} 3" for name in names))
    if below:
        write(tmp_path / "val", *(f"{name} 1" for name in names))
    says = f"holds {names[0]} and {names[1]}, which look like pictures with .*: give it to {recipe}, or rename"
    with pytest.raises(UserError, match=says):
        read(tmp_path)
    (tmp_path / below / names[0]).rename(tmp_path / below / "bare")
    if below:
        (tmp_path / "val" / names[0]).rename(tmp_path / "val" / "bare")
    assert "bare" in read(tmp_path).labels


def test_a_class_of_bad_pictures_only(tmp_path: Path):
    write(tmp_path, "cat 4", "dog 4", "eel 1")
    (tmp_path / "eel" / "0.png").write_bytes(b"no")
    with pytest.raises(UserError, match=r"all those of eel in .* are unreadable"):
        read(tmp_path, on_bad="skip")


# ---------------------------------------------------------------- division


def test_stratified_shares():
    targets = [0] * 196 + [1] * 4 + [2] * 2 + [3]
    for share in (0.01, 0.1, 0.5, 0.9, 0.99):
        drawn = draw(targets, share, 0, "val")
        assert drawn == sorted(set(drawn))
        counts, rest = Counter(targets[i] for i in drawn), Counter(targets)
        assert all(1 <= counts[t] <= rest[t] - 1 for t in (0, 1, 2))
        assert counts[3] == 0
        assert abs(counts[0] - 196 * share) <= 2
    even = [i % 10 for i in range(1440)]
    assert len(draw(even, 0.1, 0, "val")) == 144
    assert len(draw([i % 7 for i in range(7 * 14)], 0.1, 0, "val")) == 10  # not 7 x round(1.4)


def test_the_draw_depends_on_seed_and_split_and_not_on_other_classes():
    targets = [0] * 40 + [1] * 40
    drawn = draw(targets, 0.25, 0, "val")
    assert drawn == draw(targets, 0.25, 0, "val")
    assert drawn != draw(targets, 0.25, 1, "val")
    assert drawn != draw(targets, 0.25, 0, "test")
    assert [i for i in drawn if i < 40] == draw(targets[:40], 0.25, 0, "val")


def test_test_is_taken_from_the_whole_before_val(tmp_path: Path):
    write(tmp_path, "cat 20", "dog 20")
    splits = read(tmp_path, test=0.2, val=0.25)
    assert [len(rows) for rows in splits.rows().values()] == [24, 8, 8]
    names = [name for rows in splits.rows().values() for name in files(rows)]
    assert len(set(names)) == 40
    assert files(splits.test) == files(read(tmp_path, test=0.2, val=0.5).test)


def test_fingerprint(tmp_path: Path):
    one = write(tmp_path / "one", "cat 4", "dog 4")
    shutil.copytree(one, tmp_path / "two")
    first = read(one).fingerprint
    assert len(first) == 64
    assert read(tmp_path / "two").fingerprint == first
    assert read(one, seed=1).fingerprint != first  # other rows in val
    changed = {
        "renamed": lambda root: (root / "cat/0.png").rename(root / "cat/9.png"),
        "longer": lambda root: (root / "cat/0.png").open("ab").write(b"more"),
        "moved": lambda root: (root / "cat/0.png").rename(root / "dog/9.png"),
    }
    for name, change in changed.items():
        shutil.copytree(one, tmp_path / name)
        change(tmp_path / name)
        assert read(tmp_path / name).fingerprint != first, name


def test_the_same_picture_in_two_splits_is_noted(tmp_path: Path):
    write(tmp_path, "train/cat 4", "train/dog 4", "val/cat 2", "val/dog 2")
    shared = Image.open(tmp_path / "train/cat/3.png")
    shared.save(tmp_path / "val/cat/again.bmp")  # the same pixels in another file
    splits = read(tmp_path)
    assert noted(splits, "1 of 5 pictures of val are also in train", "cat/again.bmp = cat/3.png")
    shared.save(tmp_path / "train/dog/9.png")
    assert noted(read(tmp_path), "1 pictures of train are there under two classes", "dog/9.png")


def test_pictures_of_another_shape_are_no_duplicates(tmp_path: Path):
    write(tmp_path, "train/cat 4", "train/dog 4", "val/cat 2")
    Image.new("RGB", (2, 8)).save(tmp_path / "train/cat/wide.png")
    Image.new("RGB", (8, 2)).save(tmp_path / "val/cat/high.png")
    assert not noted(read(tmp_path), "pixel for pixel")


def test_evaluation_uses_the_labels_given(tmp_path: Path):
    write(tmp_path, "train/x 2", "test/dog 2", "test/cat 1")
    for path in (tmp_path, tmp_path / "test"):
        splits = data.held_out_folder(path, ("ant", "cat", "dog"))
        assert (splits.train, splits.val) == (None, None)
        assert splits.test is not None
        assert splits.test.counts() == (0, 1, 2)
    with pytest.raises(UserError, match=r"takes the 2 classes .*got 'cat'"):
        data.held_out_folder(tmp_path, ("ant", "dog"))


# ---------------------------------------------------------------- samplers


def test_permutations_are_functions_of_their_parts():
    assert permutation(50, 0, "order", 1) == permutation(50, 0, "order", 1)
    assert sorted(permutation(50, 3, "order", 1)) == list(range(50))
    orders = [permutation(50, seed, "order", epoch) for seed in range(3) for epoch in range(3)]
    assert len({tuple(order) for order in orders}) == 9  # (0, 1) is not (1, 0) either


@pytest.mark.parametrize("world", [1, 2, 3, 8])
@pytest.mark.parametrize("rows", [1, 2, 7, 24])
def test_shares_of_the_ranks(rows: int, world: int):
    evaluated = [row for rank in range(world) for row in EvalSampler(rows, rank, world)]
    assert sorted(evaluated) == list(range(rows))
    ranks = [TrainSampler(rows, 0, rank, world) for rank in range(world)]
    for sampler in ranks:
        sampler.set_epoch(3)
    shares = [list(sampler) for sampler in ranks]
    assert (
        {len(share) for share in shares}
        == {len(sampler) for sampler in ranks}
        == {-(-rows // world)}
    )
    together = [key for step in zip(*shares, strict=True) for key in step]
    assert together[:rows] == [(3, row) for row in permutation(rows, 0, "order", 3)]
    assert len(together) - rows < world


# ---------------------------------------------------------------- batches


@pytest.fixture(scope="module")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Splits:
    folder = tmp_path_factory.mktemp("pets")
    return read(write(folder, "cat 12", "dog 11"), test=0.2)


def images(splits: Splits, **options: object) -> data.Batches:
    given = {
        "augment": "light",
        "workers": "auto",
        "micro_batch": None,
        "global_batch": 4,
        "seed": 0,
        "mix": "none",
    }
    o = SimpleNamespace(**(given | options))
    config = SimpleNamespace(
        data=SimpleNamespace(augment=o.augment, flip=True, mix=o.mix),
        optim=SimpleNamespace(class_weights="none"),
        run=SimpleNamespace(seed=o.seed, global_batch=o.global_batch),
        hw=SimpleNamespace(workers=o.workers, micro_batch=o.micro_batch, accelerator="cpu"),
    )
    return data.Batches(splits, Preprocess((8, 10)), config)


def epoch(made: data.Batches, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    batches = made.train_dataloader()
    batches.sampler.set_epoch(number)  # type: ignore[attr-defined]
    seen = list(batches)
    return torch.cat([b["pixels"] for b in seen]), torch.cat([b["target"] for b in seen])


def test_no_row_is_dropped_and_batches_have_their_shape(pets: Splits):
    made = images(pets)
    assert pets.train is not None
    sizes = [len(batch["target"]) for batch in made.train_dataloader()]
    assert sizes == [4] * (len(pets.train) // 4) + [len(pets.train) % 4]
    batch = next(iter(made.train_dataloader()))
    assert batch["pixels"].shape == (4, 3, 8, 10)
    assert (batch["pixels"].dtype, batch["target"].dtype) == (torch.float32, torch.int64)
    assert images(pets, micro_batch=2).train_dataloader().batch_size == 2
    assert len(images(pets, global_batch=999).train_dataloader()) == 1


def test_evaluation_is_in_order_and_as_predicted(pets: Splits):
    made = images(pets, augment="strong")
    for rows, batches in ((pets.val, made.val_dataloader()), (pets.test, made.test_dataloader())):
        assert rows is not None
        seen = list(batches)
        assert torch.cat([b["target"] for b in seen]).tolist() == list(rows.targets)
        expected = torch.stack([made.prepare(path) for path in rows.items])
        assert torch.equal(torch.cat([b["pixels"] for b in seen]), expected)


@pytest.mark.parametrize("strength", ["light", "strong"])
def test_an_epoch_is_a_function_of_seed_and_number(pets: Splits, strength: str):
    whole = images(pets, augment=strength)
    zero, one = epoch(whole, 0), epoch(whole, 1)
    assert sorted(zero[1].tolist()) == sorted(one[1].tolist())
    pictures = whole.train_dataloader().dataset
    assert not torch.equal(pictures[0, 0][0], pictures[1, 0][0])
    torch.manual_seed(1)  # whatever happened before
    resumed = epoch(images(pets, augment=strength), 1)
    assert torch.equal(resumed[0], one[0])
    assert torch.equal(resumed[1], one[1])
    assert not torch.equal(epoch(images(pets, augment=strength, seed=1), 1)[0], one[0])


def test_worker_processes_change_nothing(pets: Splits, monkeypatch: pytest.MonkeyPatch):
    kept = epoch(images(pets, workers=0), 2)
    monkeypatch.setattr(loader, "IN_MEMORY", 0)
    read_each_time = images(pets, workers=2)
    assert read_each_time.train_dataloader().dataset.kept is None  # type: ignore[attr-defined]
    for _ in range(2):  # persistent workers get the epoch, too
        epoch(read_each_time, 0)
        assert torch.equal(epoch(read_each_time, 2)[0], kept[0])


@pytest.mark.parametrize("workers", [0, 1])
def test_loading_leaves_the_random_numbers_of_training_alone(pets: Splits, workers: int):
    made = images(pets, augment="strong", workers=workers)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    list(made.train_dataloader())
    assert torch.equal(torch.get_rng_state(), before)


def test_workers_by_default(pets: Splits, monkeypatch: pytest.MonkeyPatch):
    assert pets.train is not None
    assert images(pets).workers(pets.train) == 0
    assert images(pets, workers=3).workers(pets.train) == 3
    assert images(pets, workers=100).workers(pets.train) == len(pets.train)  # no idle ones
    monkeypatch.setattr(loader, "IN_MEMORY", 0)
    monkeypatch.setattr(loader, "cores", lambda: 16)
    assert images(pets).workers(pets.train) == 4


def test_pictures_in_memory_are_decoded_once(pets: Splits, monkeypatch: pytest.MonkeyPatch):
    opened: list[Path] = []

    def counting(source, *rest):
        opened.append(source)
        return decode_image(source, *rest)

    monkeypatch.setattr("zoo.inputs.image.decode_image", counting)
    made = images(pets)
    epoch(made, 0), epoch(made, 1)
    assert pets.train is not None
    assert sorted(opened) == sorted(pets.train.items)


def test_a_model_without_preprocessing_for_pictures(pets: Splits):
    config = images(pets).config
    with pytest.raises(UserError, match="takes a model that knows its preprocessing"):
        data.Batches(pets, None, config)


def test_missing_splits(pets: Splits):
    made = images(Splits(pets.labels, None, None, pets.test))
    assert made.val_dataloader() == []
    with pytest.raises(UserError, match=r"have test and no train: give --data\.train"):
        made.train_dataloader()


def test_a_picture_lost_after_the_check_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    splits = read(write(tmp_path, "cat 3", "dog 3"))
    monkeypatch.setattr(loader, "IN_MEMORY", 0)
    assert splits.train is not None
    splits.train.items[0].unlink()
    with pytest.raises(UserError, match=str(splits.train.items[0])):
        list(images(splits, workers=1).train_dataloader())


class Recorder(lightning.LightningModule):
    """Remembers what it was given and learns nothing."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.automatic_optimization = False
        self.seen: dict[int, list[torch.Tensor]] = {}

    def training_step(self, batch, index):
        self.seen.setdefault(self.current_epoch, []).append(batch["pixels"])

    def configure_optimizers(self):
        return torch.optim.SGD([self.weight], 0.1)


@pytest.mark.filterwarnings("ignore")  # of lightning, on few workers and many cores
def test_lightning_tells_the_epoch(pets: Splits):
    model, made = Recorder(), images(pets)
    lightning.Trainer(
        max_epochs=2, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    ).fit(model, train_dataloaders=made.train_dataloader())  # fmt: skip
    for number in (0, 1):
        assert torch.equal(torch.cat(model.seen[number]), epoch(images(pets), number)[0])


def test_importing_the_folders_brings_no_lightning():
    code = "import sys, zoo.data; sys.exit('lightning' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# ---------------------------------------------------------------- digits


def test_digits_are_written_once(tmp_path: Path):
    folder = digits.write_digits(tmp_path / "new" / "digits")
    assert [f.name for f in folder.parent.iterdir()] == ["digits"]
    splits = read(folder)
    assert splits.labels == tuple("0123456789")
    assert splits.test is not None
    assert [len(splits.train or ()) + len(splits.val or ()), len(splits.test)] == [1437, 360]
    assert min(splits.test.counts()) >= 35
    values = np.asarray(Image.open(splits.test.items[0]))
    assert (values.shape, values.dtype) == ((8, 8), np.uint8)
    assert max(np.asarray(Image.open(p)).max() for p in splits.test.items) == 255
    assert not noted(splits, "pixel for pixel")
    before = {f: f.stat().st_mtime_ns for f in folder.rglob("*")}
    assert digits.write_digits(folder) == folder
    assert {f: f.stat().st_mtime_ns for f in folder.rglob("*")} == before
    splits.test.items[0].unlink()
    with pytest.raises(UserError, match="is there and does not hold them all"):
        digits.write_digits(folder)


def test_digits_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "file").touch()
    for target in (tmp_path, tmp_path / "file" / "below"):
        with pytest.raises(SystemExit) as caught:
            digits.main([str(target)])
        assert caught.value.code == 2
        assert capsys.readouterr().err.startswith("digits are written to a")
    assert [f.name for f in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("mix", ["mixup", "cutmix", "both"])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_mixing_takes_any_batch_size_and_labels_sum_to_one(mix: str, size: int):
    torch.manual_seed(0)
    blend = Mix(mix, 4)
    pixels, target = torch.rand(size, 3, 8, 8), torch.arange(size) % 4
    for _ in range(10):
        mixed, shares = blend(pixels, target)
        assert mixed.shape == pixels.shape and shares.shape == (size, 4)
        torch.testing.assert_close(shares.sum(1), torch.ones(size))
        own = shares.gather(1, target[:, None])
        assert (own > 0).all() or mix != "mixup"


@pytest.mark.parametrize("mix", ["mixup", "cutmix", "both"])
def test_frames_are_mixed_as_pictures_of_one_channel_are(mix: str):
    blend, frames, target = Mix(mix, 4), torch.rand(3, 9, 8), torch.arange(3)
    answers = []
    for x in (frames, frames[:, None]):
        torch.manual_seed(0)
        answers.append(blend(x, target))
    (mixed, shares), (pictures, again) = answers
    assert torch.equal(mixed, pictures[:, 0]) and torch.equal(shares, again)
    assert not torch.equal(mixed, frames)


def test_a_mixed_epoch_is_a_function_of_seed_and_number(pets: Splits):
    one, two = (list(images(pets, mix="both").train_dataloader()) for _ in range(2))
    assert all(torch.equal(a[name], b[name]) for a, b in zip(one, two, strict=True) for name in a)
    assert one[0]["target"].shape[1] == 2
    held = list(images(pets, mix="both").test_dataloader())
    assert held[0]["target"].ndim == 1


@pytest.mark.parametrize(
    "names",
    [
        ("train_images", "test_images"),
        ("training_set", "test_set"),
        ("trn", "tst"),
        ("train2017", "val2017"),
        ("images_train", "images_val"),
        ("Train Data", "Test Data"),
        ("trainset", "testset"),
        ("train", "holdout"),
    ],
)
def test_folders_that_may_be_splits_are_a_doubt(tmp_path: Path, names: tuple[str, str]):
    for name in names:
        write(tmp_path, f"{name} 4")
    with pytest.raises(UserError, match="has folders that may be such") as error:
        read(tmp_path)
    assert all(name in str(error.value) for name in names)


def test_one_class_with_a_word_of_a_split_is_a_class(tmp_path: Path):
    for name in ("train station", "beach", "training ground"):
        write(tmp_path, f"{name} 4")
    assert read(tmp_path).labels == ("beach", "train station", "training ground")
