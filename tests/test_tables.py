"""Tables of samples: what is recognised, what is asked for, how rows are divided."""

import gc
import io
import json
import os
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from zoo import data
from zoo.data.check import Seen, cores, look_all
from zoo.data.columns import holds
from zoo.data.splits import draw_groups
from zoo.data.table import is_table, read_tables
from zoo.errors import UserError

WORDS = "the quick brown fox jumps over a lazy dog".split()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))


def config(train, **more):
    given = {"train": str(train), "val": 0.25, "test": None, "input": None, "label": None,
             "group": None, "split": "auto", "time": None, "task": None, "on_bad": "raise"}  # fmt: skip
    return SimpleNamespace(**{**given, **more})


def write(path, columns, rows, separator=","):
    lines = [separator.join(columns), *(separator.join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def texts(path, count=20, **columns):
    """A table of `count` texts of classes a and b, and further columns."""
    rows = [
        (f"{WORDS[i % 9]} {WORDS[i % 7]}", "ab"[i % 2], *(make(i) for make in columns.values()))
        for i in range(count)
    ]
    return write(path, ["text", "label", *columns], rows)


def read(source, kind="text", **more):
    return data.splits(config(source, **more), 0, kind)


def refused(source, kind="text", **more):
    with pytest.raises(UserError) as error:
        read(source, kind, **more)
    return str(error.value)


# reading


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "json", "parquet"])
def test_every_format_gives_the_same_rows(tmp_path, ending):
    import pandas

    rows = [{"text": f"text {i}", "label": "ab"[i % 2]} for i in range(8)]
    file = tmp_path / f"table.{ending}"
    if ending == "parquet":
        pandas.DataFrame(rows).to_parquet(file)
    elif ending in ("csv", "tsv"):
        write(file, rows[0], [r.values() for r in rows], "\t" if ending == "tsv" else ",")
    else:
        lines = [json.dumps(row) for row in rows]
        file.write_text("\n".join(lines) if ending == "jsonl" else f"[{', '.join(lines)}]")
    splits = read(file)
    assert splits.labels == ("a", "b") and len(splits.train) == 6 and len(splits.val) == 2
    assert {*splits.train.items, *splits.val.items} == {row["text"] for row in rows}


def test_cells_are_text_as_they_are_written(tmp_path):
    rows = [("007", "1"), ("NA", "2"), ("", "1"), ("null", "2"), ("3.10", "1"), ("nan", "2")]
    file = write(tmp_path / "t.csv", ["text", "label"], rows)
    table = read_tables(file, "data.train")["train"]
    assert table["text"][:] == [text for text, _ in rows]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_a_table_that_was_written_anew_at_the_same_moment_is_read_anew(tmp_path, ending):
    """As after `git checkout` and `rsync -t`; of the same length too."""
    file = tmp_path / f"t.{ending}"
    for text in ("good", "baad"):
        file.write_text(f'{{"text": "{text}"}}\n' if ending == "jsonl" else f"text\n{text}\n")
        os.utime(file, (1.5e9, 1.5e9))
        assert read_tables(file, "data")["train"][:] == {"text": [text]}


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    file = tmp_path / "t.csv"
    file.write_bytes(b"\xef\xbb\xbftext,label\na,x\nb,y\nc,x\nd,y\n")
    assert read(file, val=0.5).labels == ("x", "y")


def test_a_folder_of_split_files_and_a_saved_dataset(tmp_path):
    import datasets

    texts(tmp_path / "train.csv")
    texts(tmp_path / "test.csv", 6)
    splits = read(tmp_path)
    assert {name: len(rows) for name, rows in splits.rows().items()} == {
        "train": 15, "val": 5, "test": 6,
    }  # fmt: skip
    rows = {"sentence": ["a", "b", "c", "d"], "target": [3, 7, 3, 7]}
    made = datasets.Dataset.from_dict(rows)
    saved = tmp_path / "saved"
    datasets.DatasetDict({"train": made, "validation": made}).save_to_disk(str(saved))
    splits = read(saved)
    assert splits.labels == ("3", "7") and len(splits.val) == 4
    assert any("val are also in train" in note for note in splits.notes)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("metadata.csv", "metadata.jsonl"),
        ("val/metadata.csv", "val/metadata.jsonl"),
        ("val/metadata.csv", "valid/metadata.csv"),
        ("val.csv", "val/metadata.csv"),
        ("val.csv", "dev.csv"),
    ],
)
def test_two_tables_of_a_split_are_a_doubt(tmp_path, one, other):
    for name in (one, other, "train.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        text = '{"file_name": "a.png", "label": "a"}' if "json" in name else "file_name,label\na,a"
        (tmp_path / name).write_text(f"{text}\n")
    split = "val" if "val" in one else "train"
    with pytest.raises(UserError, match=rf"takes one {split} table; .* has two, .* and .*: keep"):
        read_tables(tmp_path, "data")


def test_a_second_split_of_a_name_is_left_out_and_told(tmp_path, caplog):
    import datasets

    parts = {n: datasets.Dataset.from_dict({"text": [n]}) for n in ("train", "validation", "dev")}
    datasets.DatasetDict(parts).save_to_disk(str(tmp_path))
    assert read_tables(tmp_path, "data")["val"]["text"][:] == ["validation"]
    assert "left out the split dev, another one of val" in caplog.text


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("t.csv", "text,label\n", "takes a table with rows"),
        ("t.csv", "", "is empty (0 bytes)"),
        ("t.jsonl", "\n", "takes a table with rows"),
        ("t.parquet", "no parquet", "cannot be read"),
        ("t.jsonl", "{broken", "cannot be read"),
        ("t.csv", 'text,label\n"a,b\n', "cannot be read"),
        ("t.xyz", "text", "is none of these"),
    ],
)
def test_a_broken_table_is_one_sentence(tmp_path, name, content, sentence):
    (tmp_path / name).write_text(content)
    said = refused(tmp_path / name)
    assert sentence in said and name in said and "\n" not in said


@pytest.mark.parametrize("fault", ["a file", "full", "known to be full"])
def test_a_cache_that_cannot_be_written_is_not_the_tables_fault(tmp_path, monkeypatch, fault):
    import datasets

    file = write(tmp_path / "t.csv", ["text"], [["a"]])
    cache = tmp_path / "no folder"
    cache.write_text("")
    if fault == "a file":
        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache)
    else:
        full = OSError(28, "No space left on device")
        full = full if fault == "full" else OSError("Not enough disk space. Needed: 2 GB")

        def load(*names, **options):
            """As a table that is written to a full disk."""
            try:
                raise full
            except OSError as error:
                raise datasets.exceptions.DatasetGenerationError("An error occurred") from error

        monkeypatch.setattr(datasets, "load_dataset", load)
    with pytest.raises(UserError) as error:
        read_tables(file, "data.train")
    says = {"a file": f"{cache} cannot be written: File exists: make room there",
            "full": "cannot be written: No space left on device: make room there",
            "known to be full": "cannot be written: Not enough disk space. Needed"}  # fmt: skip
    assert says[fault] in str(
        error.value
    ) and "or name another folder with HF_DATASETS_CACHE" in str(error.value)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_texts_that_were_read_as_times_are_told(tmp_path, ending):
    file = tmp_path / f"t.{ending}"
    times = [f"2020-01-0{i} 10:00:00" for i in range(1, 5)]
    if ending == "jsonl":
        rows = [json.dumps({"text": t, "label": "ab"[i % 2]}) for i, t in enumerate(times)]
        file.write_text("\n".join(rows))
    else:
        pd.DataFrame({"text": pd.to_datetime(times), "label": [*"abab"]}).to_parquet(file)
    said = refused(file)
    assert "none of it texts (text was read as times: in a CSV cells stay texts): give" in said
    said = refused(file, input="text")
    assert (
        f"--data.input takes a column of texts; 'text' of {file} was read as times: write" in said
    )


@pytest.mark.parametrize("ending", ["jsonl", "json"])
def test_half_a_character_stops_no_other_row(tmp_path, caplog, ending):
    cells = [
        r"bad \ud83d x",
        r"\uDC4D",
        r"whole \ud83d\ude00",
        r"\\ud83d",
        r"\u00e9\ud83d\ud83d\ude00",
    ]
    rows = [f'{{"text": "{cell}", "label": "a"}}' for cell in cells]
    file = tmp_path / f"t.{ending}"
    file.write_text("\n".join(rows) if ending == "jsonl" else f"[{', '.join(rows)}]")
    table = read_tables(file, "data")["train"]
    wanted = ["bad \ufffd x", "\ufffd", "whole \U0001f600", "\\ud83d", "\u00e9\ufffd\U0001f600"]
    assert table["text"][:] == wanted
    lines = "line 1, line 2, line 5" if ending == "jsonl" else "line 1"
    assert f"{file}: halves of characters" in caplog.text and f"U+FFFD ({lines})" in caplog.text


def test_a_missing_table(tmp_path):
    assert "does not exist" in refused(tmp_path / "gone.csv")
    assert not is_table(tmp_path) and is_table("hf:someone/something") and is_table("x.TSV")


def test_a_hub_name_without_network_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    said = refused("hf:nobody/nothing_of_that_name")
    assert "hf:nobody/nothing_of_that_name cannot be read" in said and "\n" not in said


def test_a_configuration_and_splits_of_the_hub(monkeypatch, caplog):
    import datasets

    asked = []
    made = datasets.Dataset.from_dict({"text": list("abcd"), "label": [0, 1, 0, 1]})

    def load(*words):
        asked.append(words)
        return datasets.DatasetDict(
            {"train": made, "validation": made, "unsupervised": made, "extra": made}
        )

    monkeypatch.setattr("datasets.load_dataset", load)
    splits = read("hf:someone/some_set:a-part")
    assert asked == [("someone/some_set", "a-part")]
    assert {name: len(rows) for name, rows in splits.rows().items()} == {"train": 4, "val": 4}
    assert "hf:someone/some_set:a-part: left out the splits unsupervised, extra" in caplog.text
    assert len(read_tables("hf:someone/some_set", "data.train")) == 2
    assert asked[-1] == ("someone/some_set", None)
    monkeypatch.setattr(
        "datasets.load_dataset", lambda *words: datasets.DatasetDict({"extra": made})
    )
    assert "takes the splits train, val, test; hf:some_set has extra" in refused("hf:some_set")


def test_a_column_twice_is_refused(tmp_path):
    file = write(tmp_path / "t.csv", ["text", "label", "text"], [("a", "x", "b"), ("c", "y", "d")])
    said = refused(file)
    assert "has each column once" in said and "t.csv has text: rename columns" in said


@pytest.mark.parametrize(("ending", "separator"), [("csv", ","), ("tsv", "\t")])
def test_rows_that_a_quotation_mark_swallowed_are_noted(tmp_path, ending, separator):
    rows = [(f"text {i}", "ab"[i % 2]) for i in range(16)]
    rows[4] = ('"to be', "a")  # opens a cell, which goes on up to the next mark
    rows[8] = ('that is"', "a")
    splits = read(write(tmp_path / f"t.{ending}", ["text", "label"], rows, separator))
    assert sum(map(len, splits.rows().values())) == 12
    doubt = f"1 rows of t.{ending} hold lines that look like rows themselves (row 5)"
    assert any(doubt in note for note in splits.notes)
    rows[4], rows[8] = ('"one\ntwo, three\nfour"' if ending == "csv" else "four", "a"), ("x", "a")
    rows[6] = ('"with ""marks"""', "a")
    splits = read(write(tmp_path / f"u.{ending}", ["text", "label"], rows[:6], separator))
    whole = read(write(tmp_path / f"v.{ending}", ["text", "label"], rows[6:], separator))
    assert not any("look like rows" in note for note in whole.notes)
    assert any("look like rows" in note for note in splits.notes) == (ending == "csv")


def test_few_samples_are_in_memory_while_all_are_looked_at():
    class Sample:
        pass

    class Samples(list):
        most, lock = 0, threading.Lock()

        def __getitem__(self, i):
            sample = Sample()
            with self.lock:
                alive.add(sample)
                self.most = max(self.most, len(alive))
            return sample

        def __iter__(self):
            return map(self.__getitem__, range(len(self)))

    alive = weakref.WeakSet()
    samples = Samples(range(200))
    gc.disable()
    try:
        seen = look_all(samples, lambda sample: Seen(length=1), "texts")
    finally:
        gc.enable()
    assert len(seen) == 200 and samples.most <= 2 * cores()


# recognising


def test_columns_are_recognised_with_the_reason_and_overridable(tmp_path):
    rows = [(i, f"some words {i}", f"other words {i}", "xy"[i % 2], i % 2) for i in range(8)]
    file = write(tmp_path / "t.csv", ["id", "Message", "remark", "label_name", "label"], rows)
    splits = read(file)
    assert splits.labels == ("x", "y") and splits.train.items[0].startswith("some words")
    assert any("'label_name', by its name" in note for note in splits.notes)
    assert any("'Message', by its name" in note for note in splits.notes)
    splits = read(file, input="remark", label="label")
    assert splits.labels == ("0", "1") and splits.train.items[0].startswith("other words")


def test_doubt_names_the_flag(tmp_path):
    rows = [(f"a {i}", f"b {i}", "xy"[i % 2]) for i in range(8)]
    file = write(tmp_path / "t.csv", ["one", "two", "label"], rows)
    assert "give --data.input COLUMN" in refused(file)
    rows = [(f"a {i}", "xy"[i % 2], i) for i in range(8)]
    file = write(tmp_path / "u.csv", ["text", "kind", "id"], rows)
    assert "give --data.label COLUMN" in refused(file)
    assert "got 'knd'; did you mean 'kind'" in refused(file, label="knd")
    many = write(tmp_path / "v.csv", ["text", "label"], [(f"a {i}", i) for i in range(300)])
    assert "give --data.task label or numbers" in refused(many)
    assert read(many, task="numbers").target == "numbers"


@pytest.mark.parametrize(
    ("values", "rows", "doubt"),
    [
        (range(18, 77), 300, True),  # ages
        (range(18, 77), 3000, True),
        (range(50), 500, False),  # numbers of classes
        (range(1, 51), 500, False),
        (range(50), 100, True),
        (range(101), 5000, True),
        (range(1, 11), 12, False),  # marks
        ((1, 2, 5), 6, False),
        ((100, 250, 900, 1200), 5, True),  # prices, hardly one twice
        ((-1, 1), 2, False),
    ],
)
def test_whole_numbers_that_may_be_amounts_are_a_doubt(tmp_path, values, rows, doubt):
    """Clear cases go on, and say why."""
    cells = [(f"text {i}", values[i % len(values)]) for i in range(rows)]
    file = write(tmp_path / "t.csv", ["text", "label"], cells)
    if doubt:
        says = refused(file)
        assert (
            f"{len(values)} different ones from {values[0]} to {values[-1]} in {rows} rows" in says
        )
        assert says.endswith("may be both: give --data.task label or numbers")
        assert read(file, task="numbers", val=None).target == "numbers"
        return
    splits = read(file, val=None)
    why = f"since there are {len(values)} whole numbers, from {values[0]} to {values[-1]}"
    assert splits.target == "label" and f"task: one label each, {why} (--data.task)" in splits.notes


@pytest.mark.parametrize(
    ("labels", "task", "names"),
    [
        (["a", "b"], "label", ("a", "b")),
        (["1", "-1"], "label", ("-1", "1")),
        (["0.5", "2"], "numbers", ("label",)),
        (["a|b", "b", "c|a"], "labels", ("a", "b", "c")),
    ],
)
def test_what_labels_are_is_recognised(tmp_path, labels, task, names):
    rows = [(f"text {i}", labels[i % len(labels)]) for i in range(12)]
    splits = read(write(tmp_path / "t.csv", ["text", "label"], rows))
    assert (splits.target, splits.labels) == (task, names)
    first = splits.train.targets[0]
    assert isinstance(first, int) if task == "label" else len(first) == len(names)


def test_several_labels_become_columns_of_zero_and_one(tmp_path):
    rows = [("x", "b|a"), ("y", ""), ("z", "b"), ("w", "a | b")]
    splits = read(write(tmp_path / "t.csv", ["text", "label"], rows), val=0.25)
    targets = {**dict(zip(splits.train.items, splits.train.targets, strict=True)),
               **dict(zip(splits.val.items, splits.val.targets, strict=True))}  # fmt: skip
    assert targets == {"x": (1, 1), "y": (0, 0), "z": (0, 1), "w": (1, 1)}


def test_two_usual_names_are_a_doubt(tmp_path):
    rows = [(f"some {i}", f"other {i}", "xy"[i % 2], "uv"[i % 2]) for i in range(8)]
    file = write(tmp_path / "t.csv", ["text", "title", "label", "category"], rows)
    assert "one column of labels; " in (said := refused(file)) and "has label, category" in said
    assert said.endswith("say which with --data.label COLUMN")
    assert read(file, label="category").labels == ("u", "v")
    file = write(tmp_path / "u.csv", ["text", "review", "kind", "label"], rows)
    assert "has text, review: say which with --data.input COLUMN" in refused(file)
    assert read(file, input="review").train.items[0].startswith("other")
    file = write(tmp_path / "v.csv", ["text", "title", "label", "label_name"], rows)
    assert read(file).labels == ("u", "v")  # which says more than the number beside it


def saved(folder, rows, **features):
    """A saved dataset, some of whose columns are of a kind of their own."""
    import datasets

    kinds = {name: datasets.Value("string") for name in rows} | features
    made = datasets.Dataset.from_dict(rows, features=datasets.Features(kinds))
    made.save_to_disk(str(folder))
    return folder


def by_text(splits):
    """{text: its labels by name} over all splits."""
    found = {}
    for rows in splits.rows().values():
        for item, target in zip(rows.items, rows.targets, strict=True):
            many = isinstance(target, tuple)
            names = [n for n, has in zip(splits.labels, target, strict=True) if has] if many else 0
            found[item] = names if many else splits.labels[target]
    return found


def test_numbers_that_stand_for_names_are_those(tmp_path):
    from datasets import ClassLabel

    kind = ClassLabel(names=["world", "sport", "business"])
    rows = {"text": [f"t{i}" for i in range(9)], "label": [0, 1, 2] * 3}
    splits = read(saved(tmp_path / "s", rows, label=kind))
    assert splits.labels == ("business", "sport", "world")
    assert by_text(splits) == {f"t{i}": ("world", "sport", "business")[i % 3] for i in range(9)}
    hidden = {**rows, "label": [0, 1, 2] * 2 + [-1] * 3}  # as sets hide the labels of their test
    file = saved(tmp_path / "h", hidden, label=kind)
    assert "3 of" in (said := refused(file)) and "have none (row 7, row 8, row 9)" in said
    left = read(file, on_bad="skip")
    assert left.labels == ("business", "sport", "world") and len(by_text(left)) == 6
    held = data.held_out(config(None, test=str(tmp_path / "s")), splits.labels, "text").test
    assert [splits.labels[t] for t in held.targets] == ["world", "sport", "business"] * 3


def test_a_list_of_labels_is_several(tmp_path):
    from datasets import ClassLabel, List

    lists = [["b", "a"], [], ["b"], ["a"], None, ["a", "b"], ["b"], ["a"]]
    lines = [json.dumps({"text": f"t{i}", "label": some}) for i, some in enumerate(lists)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    splits = read(tmp_path / "t.jsonl")
    assert splits.target == "labels" and splits.labels == ("a", "b")
    assert by_text(splits) == {f"t{i}": sorted(some or []) for i, some in enumerate(lists)}
    alone = [["a"], ["b"]] * 4  # one each, and yet it is a list
    rows = {"text": [f"t{i}" for i in range(8)], "label": [[0], [1]] * 4}
    file = saved(tmp_path / "s", rows, label=List(ClassLabel(names=["a", "b"])))
    splits = read(file)
    assert splits.target == "labels"
    assert by_text(splits) == {f"t{i}": some for i, some in enumerate(alone)}
    held = data.held_out(config(None, test=str(file)), splits.labels, "text")
    assert held.target == "labels" and held.test.targets[:2] == ((1, 0), (0, 1))


@pytest.mark.parametrize(
    ("kind", "cells"),
    [("float64", [1, float("nan"), 2]), ("float64", [1, None, 2]), ("string", ["1", " ", "2"])],
)
def test_a_label_that_is_no_number_is_none(tmp_path, kind, cells):
    from datasets import Value

    rows = {"text": [f"t{i}" for i in range(12)], "label": [*cells] * 4}
    file = saved(tmp_path / "s", rows, label=Value(kind))
    assert "have none (row 2, row 5, row 8, row 11)" in refused(file)
    splits = read(file, on_bad="skip")
    assert splits.labels == ("1", "2")
    assert by_text(splits) == {f"t{i}": "1 2"[i % 3] for i in range(12) if i % 3 != 1}


@pytest.mark.parametrize("only", [0.1, 0.5, 1e6 + 0.1])
def test_numbers_that_are_all_one_are_refused(tmp_path, only):
    file = write(tmp_path / "t.csv", ["text", "label"], [(f"t{i}", only) for i in range(9)])
    said = refused(file)
    assert "takes numbers that differ, within reason; those of label run" in said
    rows = [(f"t{i}", only + (i % 2)) for i in range(9)]
    assert read(write(tmp_path / "u.csv", ["text", "label"], rows)).target == "numbers"


def test_what_a_column_holds():
    def column(*cells):
        class Table(dict):
            def __getitem__(self, key):
                return {"c": list(cells)}

        return holds(Table(), "c")

    assert column("a.png", "b/c.JPG") == "picture" and column("a.wav", "b.flac") == "sound"
    assert column("1", "2.5") == "number" and column("one", "2") == "text"
    assert column(None, "") == "" and column(b"\x89PNG") == "picture"
    assert column({"bytes": b"OggS", "path": "a.ogg"}) == "sound"


# dividing


def test_groups_stay_on_one_side(tmp_path):
    file = texts(tmp_path / "t.csv", 60, speaker=lambda i: f"s{i % 7}")
    splits = read(file, val=0.2, test=0.2, group="speaker")
    table = splits.train.items.table
    sides = [{table[i]["speaker"] for i in rows.items.order} for rows in splits.rows().values()]
    assert len(sides) == 3 and all(sides)
    assert not sides[0] & sides[1] and not sides[0] & sides[2] and not sides[1] & sides[2]
    assert "t.csv; got 'speker'; did you mean 'speaker'" in refused(file, group="speker")


def test_groups_are_one_whatever_blanks_are_around_them(tmp_path):
    names = ["x", "x ", " y", "y", "z", "  ", ""]
    file = texts(tmp_path / "t.csv", 28, who=lambda i: names[i % 7])
    splits = read(file, val=0.3, test=0.3, group="who")
    table = splits.train.items.table
    sides = [{table[i]["who"].strip() for i in r.items.order} for r in splits.rows().values()]
    assert not sides[0] & sides[1] and not sides[0] & sides[2] and not sides[1] & sides[2]
    assert "blanks around groups do not count: 8 have some" in splits.notes
    assert "8 rows have no who: they stay on one side together" in splits.notes
    other = str(texts(tmp_path / "o.csv", 8, who=lambda i: ["x  ", ""][i % 2]))
    said = refused(file, val=other, group="who")
    assert "val and train share (rows without a group), x: move them" in said
    plain = read(texts(tmp_path / "p.csv", 28, who=lambda i: f"s{i % 7}"), group="who")
    assert not any("groups" in note and "blanks" in note for note in plain.notes)


def test_pictures_without_labels_keep_groups_on_one_side(tmp_path):
    from PIL import Image

    for i in range(8):
        Image.new("RGB", (8, 8), (30 * i, 0, 0)).save(tmp_path / f"{i}.png")
    rows = [(f"{i}.png", f"s{i // 2}") for i in range(8)]
    train = write(tmp_path / "t.csv", ["image", "who"], rows[:5])
    other = write(tmp_path / "o.csv", ["image", "who"], rows[5:])
    said = refused(train, "unlabelled", val=str(other), group="who")
    assert "val and train share s2" in said


@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_drawn_groups_are_whole_and_never_all(share):
    groups = [i % 5 for i in range(100)]
    drawn = draw_groups(groups, share, 0, "val")
    names = {groups[i] for i in drawn}
    assert 1 <= len(names) <= 4 and len(drawn) == 20 * len(names)
    assert abs(len(drawn) - 100 * share) <= 20


def test_time_puts_train_before_val_before_test(tmp_path):
    order = np.random.default_rng(0).permutation(40)
    file = texts(
        tmp_path / "t.csv",
        40,
        day=lambda i: f"2024-{order[i] // 28 + 1:02d}-{order[i] % 28 + 1:02d}",
    )
    splits = read(file, val=0.2, test=0.2, time="day")
    days = [
        [rows.items.table[i]["day"] for i in rows.items.order] for rows in splits.rows().values()
    ]
    assert max(days[0]) < min(days[1]) and max(days[1]) < min(days[2])
    assert [len(d) for d in days] == [26, 6, 8]
    wrong = texts(tmp_path / "u.csv", 8, day=lambda i: "someday")
    assert "data.time takes a column of dates" in refused(wrong, time="day")


def moments(splits, column):
    return [
        [rows.items.table[i][column] for i in rows.items.order] for rows in splits.rows().values()
    ]


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_no_moment_is_on_two_sides(tmp_path, share):
    days = [f"2024-01-{1 + i // 7:02d}" for i in range(35)]  # seven rows of each day
    order = np.random.default_rng(0).permutation(35)
    file = texts(tmp_path / "t.csv", 35, day=lambda i: days[order[i]])
    train, val, test = moments(read(file, val=share, test=0.2, time="day"), "day")
    assert len(test) == 7 and len(val) % 7 == 0
    assert max(train) < min(val) and max(val) < min(test)
    same = texts(tmp_path / "u.csv", 12, day=lambda i: "2024-01-01")
    assert "leaves one side empty" in refused(same, time="day")


def test_a_table_that_is_not_after_train_or_shares_a_group_is_refused(tmp_path):
    def part(name, first, count=8):
        return texts(
            tmp_path / name,
            count,
            day=lambda i: f"2024-01-{first + i:02d}",
            who=lambda i: f"s{(first + i) // 2}",
        )

    train = part("t.csv", 1)
    for first, starts in ((5, "2024-01-05"), (8, "2024-01-08")):
        other = str(part("o.csv", first))
        said = refused(train, val=other, time="day")
        assert "takes a val that begins after train has ended" in said
        assert f"{starts} 00:00" in said and "is not after 2024-01-08 00:00" in said
    years = str(texts(tmp_path / "y.csv", 8, day=lambda i: 2025 + i))
    said = refused(train, val=years, time="day")
    assert "takes dates in each split, or numbers in each; 'day' has 2024-01-08" in said
    after = str(part("a.csv", 9))
    assert len(read(train, val=after, time="day").val) == 8
    said = refused(train, val=after, test=str(part("b.csv", 10)), time="day")
    assert "takes a test that begins after val has ended" in said
    for split in ("val", "test"):
        said = refused(train, **{"val": None, split: str(part("o.csv", 6))}, group="who")
        assert f"{split} and train share s3, s4: move them, or let --data.{split} be" in said
    assert len(read(train, val=str(part("c.csv", 10)), group="who").val) == 8
    assert "not both: drop --data.group or --data.time" in refused(train, group="who", time="day")


def test_dates_that_may_be_two_are_refused(tmp_path):
    def dated(*cells):
        return texts(tmp_path / "t.csv", len(cells), day=lambda i: cells[i])

    said = refused(dated("01/02/2020", "03/04/2020", "05/06/2020", "07/08/2020"), time="day")
    assert "row 1: '01/02/2020'" in said and "write year-month-day" in said
    for some in (
        ["2020-01-02", "2020-02-01", "2020-03-04", "2020-04-03"],
        ["13/02/2020", "01/03/2020", "02/03/2020", "03/03/2020"],
        ["02/13/2020", "03/01/2020", "03/02/2020", "03/03/2020"],
        ["13 Feb 2020", "1 Mar 2020", "2 Mar 2020", "3 Mar 2020"],
    ):
        train, val = moments(read(dated(*some), time="day"), "day")
        assert [*train, *val] == some and len(val) == 1
    month = [f"{i + 1:02d}/01/2020" for i in range(31)]  # those of train alone may be two
    train, val = moments(read(dated(*month), val=19 / 31, time="day"), "day")
    assert train == month[:12] and val == month[12:]


def test_rows_without_a_label_are_named_or_left_out(tmp_path):
    rows = [(f"text {i}", "" if i == 3 else "ab"[i % 2]) for i in range(12)]
    file = write(tmp_path / "t.csv", ["text", "label"], rows)
    assert "1 of" in (said := refused(file)) and "row 4" in said and "--data.on_bad skip" in said
    splits = read(file, on_bad="skip")
    assert sum(len(r) for r in splits.rows().values()) == 11 and splits.skipped == ("row 4",)


def test_other_tables_take_the_classes_and_columns_of_train(tmp_path):
    train = texts(tmp_path / "t.csv")
    other = write(tmp_path / "o.csv", ["text", "label"], [("x", "a"), ("y", "c")])
    assert "got 'c', which is none of them" in refused(train, test=str(other))
    lacks = write(tmp_path / "l.csv", ["words", "label"], [("x", "a"), ("y", "b")])
    assert "has no 'text'" in refused(train, test=str(lacks))
    held = data.held_out(config(train, test=str(train)), ("a", "b"), "text")
    assert held.train is None and len(held.test) == 20


def test_the_fingerprint_is_of_the_content(tmp_path):
    one, two = read(texts(tmp_path / "a.csv")), read(texts(tmp_path / "a.csv"))
    assert one.fingerprint == two.fingerprint
    text = (tmp_path / "a.csv").read_text().replace("fox", "fax", 1)
    (tmp_path / "a.csv").write_text(text)
    assert read(tmp_path / "a.csv").fingerprint != one.fingerprint


# pictures in tables


def picture(i):
    stream = io.BytesIO()
    Image.fromarray(np.full((6, 6, 3), 40 * (i % 6), np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def test_pictures_by_path_and_by_bytes(tmp_path):
    import pandas

    (tmp_path / "files").mkdir()
    for i in range(8):
        (tmp_path / "files" / f"{i}.png").write_bytes(picture(i))
    rows = [(f"files/{i}.png", "xy"[i % 2]) for i in range(8)]
    by_path = read(write(tmp_path / "t.csv", ["image", "label"], rows), "picture")
    assert by_path.train.items[0].is_file() and by_path.train.values[0] == 36
    frame = {"image": [picture(i) for i in range(8)], "label": ["xy"[i % 2] for i in range(8)]}
    pandas.DataFrame(frame).to_parquet(tmp_path / "t.parquet")
    by_bytes = read(tmp_path / "t.parquet", "picture")
    assert isinstance(by_bytes.train.items[0], bytes) and by_bytes.labels == ("x", "y")
    (tmp_path / "files" / "3.png").write_bytes(b"no picture")
    said = refused(tmp_path / "t.csv", "picture")
    assert "1 of 8 cannot be read" in said and "row 4" in said
    assert len(read(tmp_path / "t.csv", "picture", on_bad="skip").skipped) == 1
    write(tmp_path / "t.csv", ["image", "label"], [*rows[:3], ("", "x"), *rows[4:]])
    said = refused(tmp_path / "t.csv", "picture")
    assert "1 of 8 cannot be read (t.csv row 4: its cell is empty)" in said


# what tables get wrong


def test_a_first_row_longer_than_the_header_is_refused(tmp_path):
    """pandas would take the first cell of each row for its name, and shift all others."""
    rows = [(f"text {i}", "ab"[i % 2], "u") for i in range(12)]
    said = refused(write(tmp_path / "t.csv", ["text", "label"], rows))
    assert "2 in the header and 3 in row 1" in said
    said = refused(write(tmp_path / "u.csv", ["text", "label", ""], rows))
    assert "a column without a name" in said
    (tmp_path / "v.csv").write_text(" , \n , \n")
    assert "a column without a name" in refused(tmp_path / "v.csv")


@pytest.mark.parametrize(("ending", "mark"), [("csv", ","), ("csv", ";"), ("tsv", "\t")])
def test_rows_shorter_than_the_header_are_refused(tmp_path, ending, mark):
    file = tmp_path / f"t.{ending}"
    lines = ["id,label,text", '1,a,"two\nlines"', "  ", "", "2,b", "3,a,", ",,", "4"]
    file.write_text("\n".join(lines).replace(",", mark) + "\n")
    with pytest.raises(UserError) as error:
        read_tables(file, "data")
    says = f"2 of {file} have fewer than the header (row 2 has 2 of 3, row 5 has 1 of 3): add"
    assert says in str(error.value)
    file.write_text("\n".join([*lines[:4], *lines[5:7]]).replace(",", mark) + "\n")
    assert read_tables(file, "data")["train"]["text"][:] == ["two\nlines", "", ""]


@pytest.mark.parametrize("mark", [";", "\t"])
def test_semicolons_and_tabs_divide_a_csv_without_commas(tmp_path, mark):
    rows = [(f"text, {i}", "ab"[i % 2]) for i in range(12)]
    splits = read(write(tmp_path / "t.csv", ["text", "label"], rows, mark))
    assert splits.labels == ("a", "b") and "text, 0" in {*splits.train.items, *splits.val.items}


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_another_encoding_is_told(tmp_path, encoding):
    (tmp_path / "t.csv").write_bytes("text,label\ncafé,a\n".encode(encoding))
    assert "a table is UTF-8 text" in refused(tmp_path / "t.csv")


def test_a_column_is_what_most_of_its_cells_are(tmp_path):
    lines = [json.dumps({"words": f"text {i}" if i != 5 else 5, "label": i % 2}) for i in range(9)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    said = refused(tmp_path / "t.jsonl")
    assert "row 6" in said and "5 is no text" in said


def test_labels_that_are_no_names_are_refused(tmp_path):
    lines = [json.dumps({"text": f"text {i}", "label": {"k": "p"}}) for i in range(9)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    assert "labels that are text, numbers or lists of text; 'label' holds dict" in refused(
        tmp_path / "t.jsonl"
    )


def test_dates_say_where_val_and_test_begin(tmp_path):
    file = texts(tmp_path / "t.csv", 28, day=lambda i: f"2024-01-{i + 1:02d}")
    splits = read(file, time="day", val="2024-01-15", test="2024-01-22")
    assert [len(rows) for rows in splits.rows().values()] == [14, 7, 7]
    assert any("(2024-01-22), what is from 2024-01-22 00:00 on, by day" in n for n in splits.notes)
    said = refused(file, time="day", val="2025-01-01")
    assert "leaves one side empty: dates run from 2024-01-01 00:00 to 2024-01-28 00:00" in said
    assert "takes a date such as" in refused(file, time="day", val="soon")
    assert "does not exist" in refused(file, val="2024-01-15")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"group": "g"}, "give --data.group a column of several groups"),
        ({"label": "own"}, "each has a label of its own"),
        ({"group": "nope", "val": None}, "data.group takes a column of"),
        ({"time": "nope", "val": None}, "data.time takes a column of"),
    ],
)
def test_it_is_said_why_a_share_is_empty(tmp_path, more, says):
    file = texts(tmp_path / "t.csv", 20, g=lambda i: "one", own=lambda i: f"l{i}")
    assert says in refused(file, **more)


def test_absurd_numbers_are_refused_in_one_sentence(tmp_path):
    file = texts(tmp_path / "t.csv", 20, size=lambda i: "1e308" if i % 2 else "-1e308")
    said = refused(file, label="size", task="numbers")
    assert "takes numbers that differ, within reason" in said


# what stands for nothing, and what cannot be read


def test_words_for_nothing_are_missing_among_numbers_and_noted_among_words(tmp_path):
    rows = [(f"some words {i}", i % 2) for i in range(20)]
    odd = [*rows[:4], ("more words", "nan"), *rows[4:]]
    file = write(tmp_path / "t.csv", ["text", "label"], odd)
    says = "data takes a label for each row; 1 of"
    assert says in (said := refused(file)) and "(row 5: 'nan'): fill or delete them" in said
    splits = read(file, on_bad="skip")
    assert splits.target == "label" and splits.labels == ("0", "1") and len(splits.skipped) == 1
    words = [(text, "None" if i == 0 else "ab"[label]) for i, (text, label) in enumerate(rows * 2)]
    splits = read(write(tmp_path / "u.csv", ["text", "label"], words))
    assert splits.labels == ("None", "a", "b")
    assert any(note.startswith("None is taken for a class: empty the") for note in splits.notes)


def test_words_among_numbers_can_be_left_out(tmp_path):
    rows = [(f"some words {i}", i / 4) for i in range(20)] + [("more", "x"), ("even more", "inf")]
    file = write(tmp_path / "t.csv", ["text", "label"], rows)
    said = refused(file, task="numbers")
    assert "a number for each row; 2 of" in said and "(row 21: 'x', row 22: 'inf'): fill" in said
    splits = read(file, task="numbers", on_bad="skip")
    assert len(splits.train) + len(splits.val) == 20


def test_columns_that_differ_by_case_are_a_doubt(tmp_path):
    rows = [(f"some words {i}", "xy"[i % 2], "uv"[i % 2]) for i in range(8)]
    file = write(tmp_path / "t.csv", ["text", "Label", "label"], rows)
    assert "has Label, label: say which with --data.label COLUMN" in refused(file)
    assert read(file, label="Label").labels == ("x", "y")
    file = write(tmp_path / "u.csv", ["text", "Label_name", "label_name"], rows)  # sure, but twice
    assert "say which with --data.label COLUMN" in refused(file)


@pytest.mark.parametrize(
    ("tail", "says"),
    [
        (b"caf\xe9,a\n", "line 3002 is no UTF-8: save it as such"),
        (b"one,two,a\n", "row 3001 has 3 cells, the header 2: put quotation marks around a cell"),
        (b'"open,a\n', "a quotation mark opens a cell in row 3001 and none closes it: double it"),
    ],
)
def test_a_broken_csv_is_told_with_its_row(tmp_path, tail, says):
    file = tmp_path / "t.csv"
    file.write_bytes(b"text,label\n" + b"some words,a\nmore words,b\n" * 1500 + tail)
    assert says in (said := refused(file)) and "C error" not in said and "codec" not in said


def test_a_hub_name_that_is_none(tmp_path):
    assert refused("hf:").endswith("; hf: names none")


def test_a_class_that_train_lacks_says_what_to_do(tmp_path):
    file = texts(tmp_path / "t.csv")
    other = write(tmp_path / "v.csv", ["text", "label"], [("new words", "a"), ("more", "zebra")])
    said = refused(file, val=str(other))
    assert "got 'zebra', which is none of them: rename it, leave it out or add it to train" in said


def test_a_share_is_told_in_texts_and_a_class_that_it_lacks(tmp_path):
    rows = [(f"some words {i}", "rare" if i < 2 else "usual") for i in range(200)]
    notes = read(write(tmp_path / "t.csv", ["text", "label"], rows), test=0.2, val=0.1).notes
    assert any("test is 41 of the 200 texts of train (0.2), stratified" in note for note in notes)
    assert "val has no text of rare: its macro_f1 is that of the others" in notes


def test_numbers_of_a_split_far_from_train_are_refused(tmp_path):
    file = write(tmp_path / "t.csv", ["text", "label"], [(f"w {i}", i / 4) for i in range(9)])
    far = write(tmp_path / "v.csv", ["text", "label"], [("w", 1.5), ("x", 1e30)])
    said = refused(file, val=str(far))
    assert "data.val takes numbers near those of train, which are about 1;" in said


@pytest.mark.parametrize("task", [None, "numbers"])
def test_decimal_commas_are_read_as_such_between_semicolons(tmp_path, caplog, task):
    rows = [f"text {i};{'-' * (i % 2)}{i},{i:02};{i},5 kg;1,5" for i in range(1, 21)]
    (tmp_path / "t.csv").write_text(
        "\n".join(["text;label;weight;Preis", *rows, "last;7;;"]) + "\n"
    )
    splits = read(tmp_path / "t.csv", task=task)
    found = {k: v for r in splits.rows().values() for k, v in zip(r.items, r.targets, strict=True)}
    assert splits.target == "numbers" and found["text 3"] == (-3.03,) and found["last"] == (7.0,)
    assert "decimal commas were read as such in the columns label, Preis" in caplog.text
    table = splits.train.items.table
    assert (
        table[2]["weight"] == "3,5 kg" and table[2]["Preis"] == "1.5" and table[20]["Preis"] == ""
    )


@pytest.mark.parametrize("cells", [("1,51", "-2,25"), ("1.234,5", "7")])
@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_decimal_commas_elsewhere_are_told_how_to_write(tmp_path, cells, name):
    each = [(f"text {i}", cells[i % 2]) for i in range(20)]
    rows = [
        json.dumps({"text": t, "label": c}) if name[2:] == "jsonl" else f'{t},"{c}"'
        for t, c in each
    ]
    (tmp_path / name).write_text("\n".join([*["text,label"] * (name == "t.csv"), *rows]) + "\n")
    right = {"1,51": "1.51", "1.234,5": "1234.5"}[cells[0]]
    for task in (None, "numbers"):
        said = refused(tmp_path / name, task=task)
        assert f"write {right}, not {cells[0]}, or" in said and "\n" not in said
    assert len(read(tmp_path / name, task="label").labels) == 2


@pytest.mark.parametrize("form", ["table", "several", "folders", "boxes"])
def test_labels_that_differ_by_case_alone_are_noted(tmp_path, form):
    names = ("Ham", "ham", "spam", "HAM", "SPAM", "other")
    if form in ("table", "several"):
        mark = "|more" if form == "several" else ""
        rows = [(f"text {i}", names[i % 6] + mark) for i in range(24)]
        found = read(write(tmp_path / "t.csv", ["text", "label"], rows))
    elif form == "folders":
        for i, name in enumerate(names * 2):
            (tmp_path / name).mkdir(exist_ok=True)
            Image.new("RGB", (8, 8), (i, 0, 0)).save(tmp_path / name / f"{i}.png")
        found = read(tmp_path, "picture", val=0.3)
    else:
        for i in range(6):
            Image.new("RGB", (40, 40), (i, 0, 0)).save(tmp_path / f"{i}.png")
        rows = [(f"{i}.png", 1, 2, 30, 20 + i, name) for i, name in enumerate(names)]
        write(tmp_path / "t.csv", ["image", "x0", "y0", "x1", "y1", "label"], rows)
        found = read(tmp_path / "t.csv", "boxes", val=None, shorter=None, longer=None)
    assert len(found.labels) == 6 + (form == "several")
    (note,) = (note for note in found.notes if "differ by case alone" in note)
    assert (
        "'HAM' and 'Ham' and 'ham'" in note and "'SPAM' and 'spam'" in note and "other" not in note
    )


@pytest.mark.parametrize("kind", ["text", "unlabelled"])
def test_advice_that_is_followed_already_is_not_given(tmp_path, kind):
    for i in range(2):
        Image.new("RGB", (8, 8), (90 * i, 0, 0)).save(tmp_path / f"{i}.png")
    cell = (lambda i: f"{i % 2}.png") if kind == "unlabelled" else (lambda i: f"text {i % 2}")
    rows = [(cell(i), "ab"[i % 2], f"s{i}") for i in range(20)]
    file = write(
        tmp_path / "t.csv", ["image" if kind == "unlabelled" else "text", "label", "who"], rows
    )
    for group in (None, "who"):
        notes = [
            note for note in read(file, kind, group=group).notes if "are also in train" in note
        ]
        assert notes and all(("--data.group" in note) == (group is None) for note in notes)


@pytest.mark.parametrize(("ending", "mark"), [("csv", ","), ("csv", ";"), ("tsv", "\t")])
@pytest.mark.parametrize("header", ["review,stars,,", "review,, ,stars", ",review,stars"])
def test_columns_without_a_name_and_a_cell_are_left_out_and_told(
    tmp_path, caplog, ending, mark, header
):
    file = tmp_path / f"t.{ending}"
    names = [name.strip() for name in header.split(",")]

    def line(i, junk=""):
        cells = {"review": f"text {i}", "stars": "ab"[i % 2]}
        return ",".join(cells.get(name, junk) for name in names)

    lines = [header, *map(line, range(20))]
    file.write_text("\n".join(lines).replace(",", mark) + "\n")
    splits = read(file, label="stars")
    count = names.count("")
    assert (
        f"left out {count} columns without a name, which are empty or number the rows"
        in caplog.text
    )
    assert sorted(splits.train.items.table.column_names) == ["review", "stars"]
    assert splits.labels == ("a", "b") and len(splits.train) + len(splits.val) == 20
    assert by_text(splits)["text 3"] == "b"
    file.write_text("\n".join([*lines, line(20, "x")]).replace(",", mark) + "\n")
    assert "a column without a name" in refused(file, label="stars")
    if not header.endswith("stars"):
        file.write_text("\n".join([*lines, "text 20,a", "text 21"]).replace(",", mark) + "\n")
        assert f"1 of {file} have fewer than the header (row 22 has 1 of" in refused(
            file, label="stars"
        )


def test_labels_are_in_the_only_other_column(tmp_path):
    rows = [("xy"[i % 2], f"some words {i}") for i in range(8)]
    splits = read(write(tmp_path / "t.csv", ["sentiment", "message"], rows))
    assert splits.labels == ("x", "y") and splits.train.items[0].startswith("some words")
    assert any("'sentiment', the only other one (--data.label)" in n for n in splits.notes)
    words = write(tmp_path / "u.csv", ["one", "two"], rows)  # none of them usual
    assert "give --data.label COLUMN and --data.input COLUMN" in refused(words)


def test_texts_and_labels_are_two_columns(tmp_path):
    said = refused(texts(tmp_path / "t.csv"), input="label")
    assert said.startswith("data.input and data.label take two columns; both are 'label'")


SPLIT = ["train", "Training", "dev", "test"]


@pytest.mark.parametrize("kind", ["text", "picture", "scene", "boxes"])
def test_a_column_of_splits_is_followed(tmp_path, kind):
    for i in range(24):
        Image.new("RGB", (16, 16), (i * 9, 0, 0)).save(tmp_path / f"{i}.png")
        mask = Image.new("L", (16, 16), 0)
        mask.paste(1, (0, 0, 8, 8 + i % 3))
        mask.save(tmp_path / f"m{i}.png")
    told = {
        "text": ["text", "label"], "picture": ["image", "label"], "scene": ["image", "mask"],
        "boxes": ["image", "x0", "y0", "x1", "y1", "label"],
    }[kind]  # fmt: skip
    cells = {
        "text": lambda i: (f"text {i}", "ab"[i % 2]),
        "picture": lambda i: (f"{i}.png", "ab"[i % 2]),
        "scene": lambda i: (f"{i}.png", f"m{i}.png"),
        "boxes": lambda i: (f"{i}.png", 1, 2, 9, 9, "ab"[i % 2]),
    }[kind]
    rows = [(*cells(i), SPLIT[(i // 2) % 4]) for i in range(24)]
    more = {"shorter": None, "longer": None, "ignore": None, "share": None}
    file = write(tmp_path / "t.csv", [*told, "Split"], rows)
    splits = read(file, kind, **more)
    sides = {"train": {0, 1}, "val": {2}, "test": {3}}
    for split, part in splits.rows().items():
        items = getattr(part.items, "pictures", part.items)
        assert {(row // 2) % 4 for row in items.order} == sides[split]
        assert len(part) == 6 * len(sides[split])
    note = "the column 'Split' of t.csv says which split each row is in"
    told_so = [n for n in splits.notes if note.replace("t.csv", str(file)) in n]
    assert len(told_so) == 1 and ": 12 train, 6 val, 6 test (" in told_so[0]
    held = data.held_out(config(None, test=str(file), **more), splits.labels, kind).test
    items = getattr(held.items, "pictures", held.items)
    assert {(row // 2) % 4 for row in items.order} == {3}
    rows[5] = (*cells(5), "")  # not a column of splits any more
    splits = read(write(tmp_path / "u.csv", [*told, "Split"], rows), kind, **more)
    assert not any("says which split" in n for n in splits.notes) and splits.test is None


def test_a_column_of_splits_is_chosen_or_left_alone(tmp_path):
    rows = [(f"text {i}", "ab"[i % 2], ("train", "test")[i % 4 > 1], ("test", "train")[i % 3 > 0])
            for i in range(24)]  # fmt: skip
    file = write(tmp_path / "t.csv", ["text", "label", "split", "mine"], rows)
    assert {len(p) for p in read(file, val=None).rows().values()} == {12}
    splits = read(file, split="mine", val=None)
    assert {row % 3 for row in splits.test.items.order} == {0} and len(splits.train) == 16
    assert read(file, split="none", val=None).test is None
    assert "got 'mien'; did you mean 'mine'?" in refused(file, split="mien")
    assert "'label' of " in refused(file, split="label")
    said = refused(file, test=str(file))
    assert "a column of " in said and "drop one, or give --data.split none" in said
    other = write(tmp_path / "o.csv", ["text", "label"], [row[:2] for row in rows])
    assert len(read(file, split="none", test=str(other)).test) == 24
    held = data.held_out(config(None, test=str(other), split="mine"), ("a", "b"), "text").test
    assert len(held) == 24


def test_a_split_of_which_no_row_can_be_read_is_refused(tmp_path):
    for i in range(8):
        Image.new("RGB", (16, 16), (i * 9, 0, 0)).save(tmp_path / f"{i}.png")
    rows = [(f"{i}.png", "ab"[i % 2], ("train", "test")[i > 5]) for i in range(8)]
    file = write(tmp_path / "t.csv", ["image", "label", "split"], rows)
    for i in (6, 7):
        (tmp_path / f"{i}.png").write_text("no picture")
    said = refused(file, "picture", on_bad="skip")
    assert f"those of test in {file} are all left out" in said


def test_a_label_that_test_alone_has_is_no_class_of_train(tmp_path):
    rows = [(f"t {i}", "abc"[i % 3 if i > 11 else i % 2], "train" if i < 12 else "test")
            for i in range(24)]  # fmt: skip
    said = refused(write(tmp_path / "t.csv", ["text", "label", "split"], rows))
    assert "takes the 2 classes of the training data (a, b); got 'c'" in said


@pytest.mark.parametrize("cells", [[[1, 0, 1], [0, 1, 0]], [[0.1, 0.7], [0.9, 0.2]]])
def test_lists_that_say_of_each_label_whether_it_holds_are_refused(tmp_path, cells):
    rows = [{"text": f"t {i}", "label": cells[i % 2]} for i in range(8)]
    file = tmp_path / "t.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = refused(file)
    assert f"'label' has {len(cells[0])} numbers from 0 to 1 in each" in said and "names" in said


@pytest.mark.parametrize("label", ["a|a", "a"])
def test_one_label_that_each_row_has_is_nothing_to_learn(tmp_path, label):
    file = write(tmp_path / "t.csv", ["text", "label"], [(f"t {i}", label) for i in range(8)])
    assert "two classes or more; in" in refused(file, task="labels")
    rows = [(f"t {i}", "a" if i % 2 else "") for i in range(8)]
    assert read(write(tmp_path / "u.csv", ["text", "label"], rows), task="labels").labels == ("a",)


def test_labels_that_were_read_as_times_are_refused(tmp_path):
    rows = [{"text": f"t {i} x", "label": f"2020-01-0{1 + i % 2}"} for i in range(8)]
    file = tmp_path / "t.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "was read as times: write the table as a CSV" in refused(file)
    write(tmp_path / "t.csv", ["text", "label"], [row.values() for row in rows])
    assert read(tmp_path / "t.csv").labels == ("2020-01-01", "2020-01-02")


def test_labels_that_are_one_number_are_noted(tmp_path):
    rows = [(f"t {i}", ("1", "1.0", "2", "02")[i % 4]) for i in range(16)]
    splits = read(write(tmp_path / "t.csv", ["text", "label"], rows))
    (note,) = (n for n in splits.notes if "are the same number" in n)
    assert "'1' and '1.0'" in note and "'02' and '2'" in note and len(splits.labels) == 4


@pytest.mark.parametrize("other", ["a\u200b", "\ufeffa", "\u00a0a"])
def test_characters_that_nobody_sees_make_no_class(tmp_path, other):
    rows = [(f"t {i}", ("a", other, "b c", "b\u00a0c")[i % 4]) for i in range(16)]
    splits = read(write(tmp_path / "t.csv", ["text", "label"], rows))
    assert splits.labels == ("a", "b c")
    assert any("nor do characters that nobody sees: 8 of train" in n for n in splits.notes)
    assert "all are empty" in refused(
        write(tmp_path / "u.csv", ["text", "label"], [(f"t {i}", "\u200b") for i in range(8)])
    )


def test_the_index_of_a_data_frame_is_no_column(tmp_path, caplog):
    frame = pd.DataFrame({"text": [f"t {i}" for i in range(12)], "label": [*"ab"] * 6})
    frame.to_csv(tmp_path / "t.csv")
    splits = read(tmp_path / "t.csv")
    assert splits.train.items.table.column_names == ["text", "label"]
    assert "left out 1 columns without a name" in caplog.text
    frame.sample(frac=1, random_state=0).to_csv(tmp_path / "u.csv")
    assert len(read(tmp_path / "u.csv").train) == 9
    frame.set_index(frame.index // 2).to_csv(tmp_path / "v.csv")  # which repeats
    assert "a column without a name" in refused(tmp_path / "v.csv")


def test_blank_lines_in_front_are_no_header(tmp_path):
    file = texts(tmp_path / "t.csv")
    file.write_text("\n\r\n  \n" + file.read_text())
    assert len(read(file).train) == 15


@pytest.mark.parametrize("form", ["parquet", "saved", "dict"])
def test_tables_without_rows_say_so(tmp_path, form):
    import datasets

    table = datasets.Dataset.from_dict({"text": ["a"], "label": ["b"]}).select([])
    place = tmp_path / "t"
    if form == "parquet":
        place = tmp_path / "t.parquet"
        pd.DataFrame({"text": pd.Series(dtype=str), "label": pd.Series(dtype=str)}).to_parquet(
            place
        )
    elif form == "saved":
        table.save_to_disk(place)
    else:
        full = datasets.Dataset.from_dict({"text": ["a", "b"], "label": ["b", "c"]})
        datasets.DatasetDict({"train": full, "test": table}).save_to_disk(place)
    said = refused(place)
    assert "takes a table with rows;" in said and str(place) in said


def test_texts_that_are_numbers_are_texts(tmp_path):
    rows = [(i, f"{i}.5", "ab"[i % 2]) for i in range(8)]
    splits = read(write(tmp_path / "t.csv", ["id", "text", "label"], rows))
    assert splits.train.items[0] == f"{splits.train.items.order[0]}.5"


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_a_file_that_ends_within_a_row_says_where(tmp_path, ending):
    file = tmp_path / f"t.{ending}"
    lines = [json.dumps({"text": f"t {i}", "label": "ab"[i % 2]}) for i in range(6)]
    if ending == "csv":
        lines = ["text,label", *(f"t {i},{'ab'[i % 2]}" for i in range(5))]
    file.write_text("\n".join([*lines, '{"text": "cut' if ending == "jsonl" else '"cut']))
    said = refused(file)
    assert ("line 7 is no JSON" in said) if ending == "jsonl" else ("opens a cell in row 6" in said)


@pytest.mark.parametrize("kind", ["folder", "pipe", "none"])
def test_what_is_no_table_is_called_what_it_is(tmp_path, kind):
    place = tmp_path / "x.csv"
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    says = {"folder": "is a folder without such", "pipe": "is no regular file",
            "none": "does not exist"}  # fmt: skip
    assert says[kind] in refused(place)


@pytest.mark.parametrize("share", [1e-9, 0.99999])
def test_a_share_that_would_leave_a_side_empty_is_told(tmp_path, share):
    splits = read(texts(tmp_path / "t.csv", 60), val=share)
    assert any("as near as it gets with both sides filled" in n for n in splits.notes)
    splits = read(texts(tmp_path / "t.csv", 60), val=0.1)
    assert not any("as near as it gets" in n for n in splits.notes)


@pytest.mark.parametrize("cell", [b"", None])
def test_an_empty_picture_is_no_file_of_its_name(tmp_path, cell):
    Image.new("RGB", (8, 8)).save(tmp_path / "3.png")
    for i in range(8):
        Image.new("RGB", (8, 8), (i, 0, 0)).save(tmp_path / f"b{i}.png")
    rows = [
        {"image": {"bytes": (tmp_path / f"b{i}.png").read_bytes(), "path": f"{i}.png"},
         "label": "ab"[i % 2]} for i in range(8)
    ]  # fmt: skip
    rows[3]["image"]["bytes"] = cell
    pd.DataFrame(rows).to_parquet(tmp_path / "t.parquet")
    if cell is None:  # that is how a file is named
        assert len(read(tmp_path / "t.parquet", "picture").train) == 6
    else:
        said = refused(tmp_path / "t.parquet", "picture")
        assert "1 of 8 cannot be read" in said and "empty" in said


@pytest.mark.parametrize("kind", ["picture", "unlabelled", "boxes", "scene"])
def test_what_the_files_of_pictures_were_is_noted_for_tables_too(tmp_path, kind):
    for i in range(8):
        made = Image.new("RGBA", (16, 16), (i, 0, 0, 128 if i == 5 else 255))
        turned = Image.Exif()
        turned[0x112] = 3 if i in (2, 3) else 1
        made.save(tmp_path / f"{i}.png", exif=turned)
        mask = Image.new("L", (16, 16), 0)
        mask.paste(1, (0, 0, 8, 8))
        mask.save(tmp_path / f"m{i}.png")
    columns = {"boxes": ["image", "x0", "y0", "x1", "y1", "label"], "scene": ["image", "mask"]}
    rows = [
        {"boxes": (f"{i}.png", 1, 2, 9, 9, "ab"[i % 2]), "scene": (f"{i}.png", f"m{i}.png")}.get(
            kind, (f"{i}.png", "ab"[i % 2])
        )
        for i in range(8)
    ]
    file = write(tmp_path / "t.csv", columns.get(kind, ["image", "label"]), rows)
    splits = read(file, kind, shorter=None, longer=None, ignore=None)
    (note,) = (n for n in splits.notes if "turned upright" in n)
    assert note.startswith("of 8 pictures 2 are turned upright (EXIF), 1 have transparent pixels")


def test_the_same_text_with_other_blanks_around_it_is_noted(tmp_path):
    rows = [(f"{' ' * (i // 10)}same sentence {i % 10}", "ab"[i % 2]) for i in range(20)]
    splits = read(write(tmp_path / "t.csv", ["text", "label"], rows), val=0.5)
    assert any("are also in train" in note for note in splits.notes)
