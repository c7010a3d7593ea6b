"""Tables of samples: what is recognised, what is asked for, how rows are divided."""

import io
import json
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from zoo import data
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
             "group": None, "time": None, "task": None, "on_bad": "raise"}  # fmt: skip
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
    ("name", "content", "sentence"),
    [
        ("t.csv", "text,label\n", "takes a table with rows"),
        ("t.csv", "", "is empty (0 bytes)"),
        ("t.jsonl", "\n", "takes a table with rows"),
        ("t.parquet", "no parquet", "cannot be read"),
        ("t.jsonl", "{broken", "cannot be read"),
        ("t.csv", 'text,label\n"a,b\n', "cannot be read"),
        ("t.xyz", "text", "is no such file"),
    ],
)
def test_a_broken_table_is_one_sentence(tmp_path, name, content, sentence):
    (tmp_path / name).write_text(content)
    said = refused(tmp_path / name)
    assert sentence in said and name in said and "\n" not in said


def test_a_missing_table(tmp_path):
    assert "does not exist" in refused(tmp_path / "gone.csv")
    assert not is_table(tmp_path) and is_table("hf:someone/something") and is_table("x.TSV")


def test_a_hub_name_without_network_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    said = refused("hf:nobody/nothing_of_that_name")
    assert "hf:nobody/nothing_of_that_name cannot be read" in said and "\n" not in said


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
    file = write(tmp_path / "u.csv", ["text", "kind"], [(f"a {i}", "xy"[i % 2]) for i in range(8)])
    assert "give --data.label COLUMN" in refused(file)
    assert "got 'knd'; did you mean 'kind'" in refused(file, label="knd")
    many = write(tmp_path / "v.csv", ["text", "label"], [(f"a {i}", i) for i in range(300)])
    assert "give --data.task label or numbers" in refused(many)
    assert read(many, task="numbers").target == "numbers"


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


# what tables get wrong


def test_a_first_row_longer_than_the_header_is_refused(tmp_path):
    """pandas would take the first cell of each row for its name, and shift all others."""
    rows = [(f"text {i}", "ab"[i % 2], "u") for i in range(12)]
    said = refused(write(tmp_path / "t.csv", ["text", "label"], rows))
    assert "2 in the header and 3 in row 1" in said
    said = refused(write(tmp_path / "u.csv", ["text", "label", ""], rows))
    assert "a column without a name" in said


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
    assert any("test is what is from 2024-01-22 00:00 on, by day" in n for n in splits.notes)
    said = refused(file, time="day", val="2025-01-01")
    assert "leaves one side empty: dates run from 2024-01-01 00:00 to 2024-01-28 00:00" in said
    assert "takes a date such as" in refused(file, time="day", val="soon")
    assert "does not exist" in refused(file, val="2024-01-15")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"group": "g"}, "give --data.group a column of several groups"),
        ({"label": "own"}, "each row has a label of its own"),
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
