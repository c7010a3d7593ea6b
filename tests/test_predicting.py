"""`zoo predict` and `Model.predict` on texts and tables: a row in, the same row with its answer out."""

import csv
import io
import json
import math
import os
from pathlib import Path

import datasets
import pandas as pd
import pytest
import torch
from PIL import Image

import zoo
from zoo import cli
from zoo.cli import predicting
from zoo.cli.answers import as_text
from zoo.data import layout
from zoo.errors import UserError
from zoo.inputs import PrepareText
from zoo.inputs.text import train_tokenizer

ODD = Path(__file__).parents[2] / "shared" / "cases" / "text" / "odd_text.csv"


@pytest.fixture(scope="module")
def model():
    """A text model of random weights."""
    torch.manual_seed(0)
    prepare = PrepareText(train_tokenizer(["a cold day", "a warm night"], 300), 64)
    return zoo.Model(
        zoo.adapters.Subwords(dim=16, **prepare.adapter()),
        zoo.Backbone(dim=16, depth=1, heads=2),
        zoo.heads.Classify(dim=16, classes=2),
        zoo.model.Record(labels=("cold", "warm"), preprocess=prepare),
    )


@pytest.fixture
def saved(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model.save("model")
    return model


def shown(capsys, *words, code=0):
    """JSON lines, or the one sentence of an error."""
    more = [] if code == 2 else ["--format", "jsonl"]
    assert cli.main(["predict", "model", *words, *more]) == code
    out, err = capsys.readouterr()
    return err if code == 2 else [json.loads(line) for line in out.split("\n") if line]


def test_lines_of_a_file_and_of_stdin(saved, capsys, monkeypatch):
    lines = ["a cold day", "", "  ", "a\u2028b \x85 c"]
    Path("a.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = shown(capsys, "a.txt")
    assert [row["text"] for row in rows] == lines
    wanted = saved.predict(lines)
    assert [{**answer, "text": text} for answer, text in zip(wanted, lines, strict=True)] == rows
    for words in (["-"], []):
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
        assert shown(capsys, *words) == rows
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert "zoo predict takes texts; - holds none" in shown(capsys, "-", code=2)


def test_columns_of_a_table_are_kept(saved, capsys):
    rows = [("7", "a cold day", "x", "0"), ("08", 'a, "warm"\nnight', "", "1"), ("9", "", "z", "")]
    with Path("t.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("id", "message", "note", "label"), *rows])
    found = shown(capsys, "t.csv", "--input", "message")
    assert [
        tuple(row[n] for n in ("id", "message", "note", "given_label")) for row in found
    ] == rows
    assert [row["label"] for row in found] == [
        a["label"] for a in saved.predict([r[1] for r in rows])
    ]
    again = shown(capsys, "t.csv", "t.csv")  # recognised by its name
    assert again == found * 2
    assert cli.main(["predict", "model", "t.csv", "--out", "out.csv"]) == 0
    with Path("out.csv").open(newline="", encoding="utf-8") as file:
        out = list(csv.reader(file))
    names = ["id", "message", "note", "given_label", "label", "probability"]
    kinds = list(found[0]["probabilities"])
    assert out[0] == [*names, *(f"probability_{kind}" for kind in kinds)]
    assert [tuple(row[:4]) for row in out[1:]] == rows
    for row, one in zip(out[1:], found, strict=True):
        told = dict(zip(kinds, map(float, row[6:]), strict=True))
        assert told == pytest.approx(one["probabilities"], rel=1e-8)
    assert cli.main(["predict", "model", "t.csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4  # a line each, whatever the texts hold
    says = "input takes a column of t.csv; got 'mesage'; did you mean 'message'?"
    assert says in shown(capsys, "t.csv", "--input", "mesage", code=2)


def test_what_pandas_has_for_nothing_is_an_empty_text(saved):
    frame = pd.DataFrame({"text": pd.array(["a day", pd.NA], dtype="string")})
    assert saved.predict(frame, column="text") == saved.predict(["a day", ""])


def test_numbers_in_a_column_of_texts_are_texts(saved, capsys):
    Path("t.csv").write_text("id,text\n1,3.14\n2,\n")
    found = shown(capsys, "t.csv")
    assert [row["label"] for row in found] == [a["label"] for a in saved.predict(["3.14", ""])]


def test_numbers_in_tables_keep_their_digits():
    tiny = [{"file": "a", "numbers": {"flow": 1.25e-7}}, {"file": "b", "numbers": {"flow": 0.5}}]
    assert list(as_text(tiny, "csv")) == ["file,flow\na,1.25e-07\nb,0.5\n"]
    assert list(as_text(tiny, "table")) == ["file  flow\na     1.25e-07\nb     0.5000\n"]


def test_a_csv_of_many_classes_has_the_best_alone():
    answers = [
        {"label": "c0", "probability": 0.5, "probabilities": {f"c{i}": i for i in range(101)}}
    ]
    assert list(as_text(answers, "csv")) == ["label,probability\nc0,0.5\n"]


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "tsv"])
def test_a_bad_cell_is_told_in_its_row(saved, capsys, ending):
    frame = pd.DataFrame({"text": ["a day", None, "a night"], "n": [1, 2, 3]})
    if ending == "jsonl":
        lines = [
            '{"text": "a day", "n": 1}',
            '{"text": null, "n": 2}',
            '{"text": "a night", "n": 3}',
        ]
        Path("t.jsonl").write_text("\n".join(lines))
    elif ending == "parquet":
        frame.to_parquet("t.parquet")
    else:
        frame.to_csv("t.tsv", sep="\t", index=False)
    rows = shown(capsys, f"t.{ending}")
    assert [str(row["n"]) for row in rows] == ["1", "2", "3"]
    assert all(0 <= row["probability"] <= 1 for row in rows)  # a missing text is an empty one
    if ending == "parquet":
        pd.DataFrame({"text": [1, 2], "id": ["a", "b"]}).to_parquet("bad.parquet")
        rows = shown(capsys, "bad.parquet", "t.parquet", "--input", "text", code=1)
        assert [("error" in row) for row in rows] == [True, True, False, False, False]
        assert rows[0]["id"] == "a" and "got 1 (int)" in rows[0]["error"]
        said = shown(capsys, "bad.parquet", "--input", "text", "--on-bad", "raise", code=2)
        assert "a text model takes text; got 1 (int)" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["notes.md"], "zoo predict takes texts of a table (.csv, "),
        (["absent.txt"], "absent.txt cannot be read: No such file or directory"),
        (["absent.csv"], "absent.csv does not exist"),
    ],
)
def test_what_is_no_text_is_refused(saved, capsys, words, says):
    said = shown(capsys, *words, code=2)
    assert says in said and len(said.splitlines()) == 1


@pytest.mark.skipif(
    not ODD.is_file(), reason="the shared test files are no part of this repository"
)
def test_odd_texts_have_one_finite_answer_each(saved, capsys):
    with ODD.open(newline="", encoding="utf-8-sig") as file:
        wanted = list(csv.DictReader(file))
    rows = shown(capsys, str(ODD))
    assert [row["id"] for row in rows] == [row["id"] for row in wanted]
    assert [row["kind"] for row in rows] == [row["kind"] for row in wanted]
    assert all(math.isfinite(row["probability"]) and "error" not in row for row in rows)
    assert [row["given_label"] for row in rows] == [row["label"] for row in wanted]


def test_a_data_frame_or_a_table_gives_a_list(model):
    texts = ["a cold day", "", "a warm night"]
    wanted = model.predict(texts)
    frame = pd.DataFrame({"id": [1, 2, 3], "text": ["a cold day", math.nan, "a warm night"]})
    assert model.predict(frame, column="text") == wanted
    table = datasets.Dataset.from_dict({"text": texts})
    assert model.predict(table, column="text") == wanted
    for missing in (None, math.nan):
        for given in (missing, ["a cold day", missing]):
            with pytest.raises(UserError, match=f"a text model takes text; got {missing}"):
                model.predict(given)
    told = model.predict(["a cold day", None], on_bad="report")
    assert told[1] == {"error": "a text model takes text; got None: give it as text"}
    assert told[0].keys() == wanted[0].keys()
    one = model.predict(texts[0])
    assert one["probability"] == pytest.approx(wanted[0]["probability"], abs=1e-6)
    assert one.keys() == {"label", "probability", "probabilities"}  # a text is no file's name
    with pytest.raises(UserError, match="got no column: give column=, one of id, text"):
        model.predict(frame)
    with pytest.raises(UserError, match="got 'txt'; did you mean 'text'"):
        model.predict(frame, column="txt")
    with pytest.raises(UserError, match="takes a column of a data frame or table; got list"):
        model.predict(texts, column="text")
    answers = model.predict(["a", 5, "b"], batch=1, on_bad="report")
    assert list(answers[1]) == ["error"] and "label" in answers[0] and "label" in answers[2]
    with pytest.raises(UserError, match="predict takes the on_bad raise, report; got 'skip'"):
        model.predict(texts, on_bad="skip")


def test_pictures_of_a_table(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    zoo.create("vit_mu_patch8_32", classes=["cat", "dog"]).save("model")
    (tmp_path / "deep").mkdir()
    Image.new("RGB", (40, 30), "red").save("deep/a.png")
    Path("deep/t.csv").write_text("id,path\n1,a.png\n2,gone.png\n3,a.png\n")
    rows = shown(capsys, "deep/t.csv", code=1)
    assert [(row["id"], row["path"]) for row in rows] == [
        ("1", "a.png"),
        ("2", "gone.png"),
        ("3", "a.png"),
    ]
    assert "error" in rows[1] and rows[0]["label"] == rows[2]["label"]
    Path("deep/t.csv").write_text("path,id\na.png,1\n,2\na.png,3\n")
    rows = shown(capsys, "deep/t.csv", code=1)
    assert rows[1]["error"] == "row 2: its cell in the column 'path' is empty"
    data = Path("deep/a.png").read_bytes()
    pd.DataFrame({"id": [4], "image": [data]}).to_parquet("t.parquet")
    (row,) = shown(capsys, "t.parquet")
    assert row["id"] == 4 and "image" not in row and row["label"] == rows[0]["label"]


@pytest.mark.parametrize("kind", ["metadata", "split"])
def test_files_of_a_folders_table_lie_where_training_looks(tmp_path, capsys, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    zoo.create("vit_mu_patch8_32", classes=["cat", "dog"]).save("model")
    inner = tmp_path / "data" / ("train" if kind == "split" else "")
    inner.mkdir(parents=True)
    for place in (inner, tmp_path, tmp_path / "data"):  # the same name elsewhere is another picture
        Image.new("RGB", (40, 30), "red" if place == inner else "blue").save(place / "a.png")
    (inner / "metadata.csv").write_text("file_name,label_name\na.png,cat\n")
    (row,) = shown(capsys, "data")
    wanted = zoo.load("model").predict(inner / "a.png")
    assert row["probabilities"] == pytest.approx(wanted["probabilities"])


def test_rows_of_all_splits_are_answered(saved, capsys):
    Path("data").mkdir()
    for name, texts in (("train", ["a", "b"]), ("test", ["c"]), ("val", ["d"])):
        Path(f"data/{name}.csv").write_text("\n".join(["message", *texts]) + "\n")
    said = (
        "data: texts are in the column 'message', by its name (--input)\n"
        "data: texts of train (2), then of val (1), then of test (1)\n"
    )
    assert cli.main(["predict", "model", "data", "--format", "jsonl"]) == 0
    out, err = capsys.readouterr()
    assert err == said and [json.loads(x)["message"] for x in out.splitlines()] == [*"abdc"]
    parts = {s: datasets.Dataset.from_dict({"message": [s]}) for s in ("train", "test")}
    datasets.DatasetDict(parts).save_to_disk("kept")
    assert [row["message"] for row in shown(capsys, "kept")] == ["train", "test"]


def test_answers_are_written_as_they_come_and_rows_read_in_their_turn(saved, capsys, monkeypatch):
    """So a table may be larger than memory: nothing of it is held but a batch."""
    Path("big.csv").write_text("text,n\n" + "".join(f"a cold day,{i}\n" for i in range(500)))
    samples = iter(predicting.samples_in("big.csv", "text", predicting.Input()))
    read = []
    watched = (read.append(sample.row["n"]) or sample for sample in samples)
    texts = predicting.as_text(predicting.answer(saved, watched, "raise"), "jsonl")
    assert json.loads(next(texts))["n"] == "0" and len(read) == predicting.CHUNK
    assert len(list(texts)) == 499 and read == [str(n) for n in range(500)]


def test_out_is_whole_or_untouched(saved, capsys, monkeypatch):
    Path("t.csv").write_text("text\n" + "a cold day\n" * 200)
    Path("out.jsonl").write_text("what was there\n")
    answer, calls = type(saved).predict, []

    def failing(*args, **kwargs):
        calls.append(1)
        if len(calls) > 1:
            raise UserError("the second batch fails")
        return answer(*args, **kwargs)

    monkeypatch.setattr(type(saved), "predict", failing)
    for name in ("out.jsonl", "new.jsonl"):
        calls.clear()
        assert cli.main(["predict", "model", "t.csv", "--out", name]) == 2
    assert Path("out.jsonl").read_text() == "what was there\n"
    assert sorted(p.name for p in Path().iterdir()) == ["model", "out.jsonl", "t.csv"]
    monkeypatch.setattr(type(saved), "predict", answer)
    Path("link.jsonl").symlink_to("out.jsonl")
    assert cli.main(["predict", "model", "t.csv", "--out", "link.jsonl"]) == 0
    assert (
        Path("link.jsonl").is_symlink() and len(Path("out.jsonl").read_text().splitlines()) == 200
    )


def test_lines_and_files_that_cannot_be_read_stop_no_others(saved, capsys, monkeypatch):
    Path("a.txt").write_bytes(b"\xef\xbb\xbfa cold day\r\nb\xff\na warm night\n")
    rows = shown(capsys, "a.txt", "absent.txt", "absent.csv", "*.tx?", code=1)
    assert [row.get("error", "") for row in rows] == [
        "",
        "a text must be UTF-8; byte 1 of the line is not",
        "",
        "zoo predict takes texts; absent.txt cannot be read: No such file or directory",
        rows[4]["error"],
        "",
        rows[1]["error"],
        "",
    ]
    assert rows[0]["text"] == "a cold day" and rows[1]["text"] == "b\\xff"
    assert "absent.csv does not exist" in rows[4]["error"] and rows[4]["file"] == "absent.csv"
    assert "byte 1 of the line" in shown(capsys, "a.txt", "--on-bad", "raise", code=2)
    monkeypatch.setattr("sys.stdin", io.StringIO("\ufeffa cold day\n"))
    assert shown(capsys, "-")[0]["text"] == "a cold day"
    Path("texts").mkdir()
    Path("a.txt").rename("texts/a.txt")
    assert [row["text"] for row in shown(capsys, "texts", code=1)] == [r["text"] for r in rows[:3]]


@pytest.mark.parametrize("coding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_texts_of_another_encoding_are_no_lines(saved, capsys, monkeypatch, coding):
    data = "\ufeffa cold day\na warm night\n".encode(coding)
    Path("u.txt").write_bytes(data)
    Path("a.txt").write_text("a cold day\n")
    name = coding[:6].upper()
    says = f"zoo predict takes texts in UTF-8; u.txt is {name}: save it as such"
    assert says in shown(capsys, "u.txt", code=2)
    rows = shown(capsys, "a.txt", "u.txt", code=1)
    assert "label" in rows[0] and rows[1:] == [{"file": "u.txt", "error": says}]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert f"- is {name}: save it as such" in shown(capsys, "-", code=2)
    Path("texts").mkdir()
    Path("u.txt").rename("texts/u.txt")
    (row,) = shown(capsys, "texts", code=1)
    assert row["file"] == "texts/u.txt" and name in row["error"]


def test_a_folder_is_walked_as_in_training(saved, capsys):
    """Linked folders are followed, once; what cannot be read is told in its row."""
    Path("elsewhere").mkdir()
    Path("elsewhere/a.txt").write_text("a cold day\n")
    Path("texts/.cache").mkdir(parents=True)
    Path("texts/.cache/a.txt").write_text("hidden\n")
    Path("texts/linked").symlink_to("../elsewhere")
    Path("texts/loop").symlink_to("../texts")
    Path("texts/dangling.txt").symlink_to("nowhere.txt")
    os.mkfifo("texts/pipe.txt")
    rows = shown(capsys, "texts", code=1)
    assert [row.get("file", row.get("text")) for row in rows] == [
        "texts/dangling.txt", "a cold day", "texts/pipe.txt",
    ]  # fmt: skip
    assert [row["error"].rpartition(": ")[0] or row["error"] for row in rows if "error" in row] == [
        "zoo predict takes texts; texts/dangling.txt cannot be read",
        "zoo predict takes texts; texts/pipe.txt is no regular file",
    ]
    for name in ("texts/dangling.png", "elsewhere/b.png"):
        Path(name).symlink_to("nowhere.png")
    found, _ = layout.find_files(Path("."), "data.train")
    trained = {str(file) for files in found.values() for file in files}
    assert {*predicting.find_files(Path("texts"), "picture")} == {
        "texts/dangling.png", "texts/linked/b.png",
    } <= trained  # fmt: skip


def test_the_column_of_the_run_is_remembered(saved, capsys):
    Path("t.csv").write_text("note,said\nx,a cold day\n")
    Path("other.csv").write_text("text,note\na warm night,x\n")
    assert "has note, said: give --input COLUMN" in shown(capsys, "t.csv", code=2)
    Path("config.yaml").write_text("data: {input: said}\n")
    answers = saved.predict(["a cold day", "a warm night"])
    for row, answer in zip(shown(capsys, "t.csv", "other.csv"), answers, strict=True):
        assert row["label"] == answer["label"]
        assert row["probabilities"] == pytest.approx(answer["probabilities"])
    assert shown(capsys, "t.csv", "--input", "note")[0]["label"] == saved.predict(["x"])[0]["label"]


def test_out_is_no_file_that_is_read(saved, capsys):
    Path("t.csv").write_text("text\na cold day\n")
    Path("tables").mkdir()
    Path("tables/test.csv").write_text("text\na cold day\n")
    Path("link.csv").symlink_to("t.csv")
    for name in ("texts/deep/a.txt", "kept/train/metadata.csv"):
        Path(name).parent.mkdir(parents=True)
        Path(name).write_text("text,file_name\na cold day,x\n")
    for words, out in ((["t.csv"], "t.csv"), (["*.csv"], "./t.csv"), (["t.csv"], "link.csv"),
                       (["tables"], "tables/test.csv"), (["texts"], "texts/deep/a.txt"),
                       (["kept"], "kept/train/metadata.csv")):  # fmt: skip
        said = shown(capsys, *words, "--out", out, code=2)
        assert f"--out takes a file of its own; {Path(out)} is read by this command" in said
    assert Path("t.csv").read_text() == Path("tables/test.csv").read_text() == "text\na cold day\n"
    Path("texts/old.csv").write_text("is not read\n")
    assert cli.main(["predict", "model", "texts", "--out", "texts/old.csv"]) == 0


def test_a_bad_file_of_a_pattern_is_told_in_its_row(saved, capsys):
    Path("a.csv").write_text("text\na cold day\n")
    Path("b.csv").write_text("")
    rows = shown(capsys, "*.csv", code=1)
    assert "label" in rows[0] and rows[1]["file"] == "b.csv" and "empty" in rows[1]["error"]
    assert "b.csv is empty" in shown(capsys, "*.csv", "--on-bad", "raise", code=2)


def test_the_column_that_is_taken_is_said(saved, capsys):
    Path("t.csv").write_text("id,message\n1,a cold day\n")
    assert cli.main(["predict", "model", "t.csv"]) == 0
    said = "t.csv: texts are in the column 'message', by its name (--input)\n"
    assert capsys.readouterr().err == said


def test_closed_handles_are_no_traceback(saved, capsys, monkeypatch):
    Path("t.csv").write_text("text\na cold day\n")
    for name in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{name}", None)
    assert cli.main(["predict", "model", "t.csv"]) == 0
    assert cli.main(["predict", "model"]) == 2
    assert "stdin holds none" in capsys.readouterr().err


def test_an_answer_that_is_no_number_is_that_samples_own(model, monkeypatch):
    """One sample stops no other; the weights are blamed only where they are at fault."""
    forward = type(model).forward

    def broken(self, *inputs, **named):
        answer = forward(self, *inputs, **named)
        answer[1:] = math.nan
        return answer

    monkeypatch.setattr(type(model), "forward", broken)
    rows = model.predict(["a", "b"], on_bad="report")
    assert "label" in rows[0] and "the model's answer to it is no number" in rows[1]["error"]
    with pytest.raises(UserError, match="predict takes samples within reason; the model's answer"):
        model.predict(["a", "b"])
