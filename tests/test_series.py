"""Series: tables in the order of time, windows that never look ahead, forecasts in the data's units."""

import json
from types import SimpleNamespace

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

import zoo
from zoo import cli, data, training
from zoo.errors import SampleError, UserError
from zoo.inputs import Prepare, PrepareSeries
from zoo.inputs.series import Window
from zoo.inputs.times import following

RECIPE = "series_forecast/small_scratch"
START = np.datetime64("2020-01-01T00", "h")


def write(file, hours=200, change=None):
    """Hours with a wave, a trend and a word; `change` alters the data frame."""
    steps = np.arange(hours)
    frame = pd.DataFrame({
        "date": [str(START + np.timedelta64(int(i), "h")).replace("T", " ") + ":00" for i in steps],
        "wave": np.sin(steps / 4).round(4), "value": (50 + steps / 10 + np.cos(steps)).round(4),
        "note": ["calm"] * hours,
    })  # fmt: skip
    frame = frame if change is None else change(frame)
    frame.to_csv(file, index=False)
    return frame


def config_of(file, **more):
    plain = {"train": str(file), "val": 0.2, "test": 0.2, "label": "value", "time": None, "columns": None, "past": 6,
             "ahead": 3, "season": 24, "until": None, "augment": "none"}  # fmt: skip
    return SimpleNamespace(**{**plain, **more})


# --- windows


def test_no_window_reaches_ahead_into_another_split(tmp_path):
    frame = write(tmp_path / "a.csv")
    splits = data.splits(config_of(tmp_path / "a.csv"), 0, "series")
    column = frame["value"].to_numpy()
    assert splits.labels == ("value+1", "value+2", "value+3") and splits.target == "numbers"
    for split, first, stop in (("train", 6, 128), ("val", 128, 160), ("test", 160, 200)):
        rows = splits.rows()[split]
        assert len(rows) == len(rows.items) == len(rows.targets) == stop - first - 2
        for i in (0, 1, len(rows) - 1):
            window = rows.items[i]
            assert window.columns == ("wave", "value")
            at = first + i  # the row of the first target
            assert window.values[:, 1].tolist() == column[at - 6 : at].tolist()
            assert rows.targets[i] == tuple(column[at : at + 3])
        assert first + len(rows) - 1 + 3 == stop  # the last target is the split's last row
        assert np.shares_memory(rows.items[0].values, rows.items[1].values)  # views
    with pytest.raises(IndexError):
        rows.items[len(rows)]
    spread = rows.spreads()[2]
    assert spread.mean == pytest.approx(np.mean([t[2] for t in rows.targets]))
    mean, deviation = splits.scale[0]
    assert (mean, deviation) == pytest.approx((column[:128].mean(), column[:128].std()))
    assert "'value' is forecast from the columns wave, value" in splits.notes
    told = next(note for note in splits.notes if "train: 120 windows" in note)
    assert told.endswith("targets from 2020-01-01 06:00 to 2020-01-06 07:00")
    assert "columns without numbers are left out: note" in splits.notes


def test_splits_begin_at_dates_and_data_end_at_one(tmp_path):
    write(tmp_path / "a.csv", 24 * 10)
    given = {"val": "2020-01-05", "test": "2020-01-07 12:00", "until": "2020-01-09"}
    splits = data.splits(config_of(tmp_path / "a.csv", **given), 0, "series")
    assert [len(r) for r in splits.rows().values()] == [96 - 6 - 2, 60 - 2, 36 - 2]
    assert "48 rows from 2020-01-09 on are left out" in splits.notes
    again = data.splits(config_of(tmp_path / "a.csv", **given), 0, "series")
    assert again.fingerprint == splits.fingerprint
    other = data.splits(config_of(tmp_path / "a.csv", **given, past=7), 0, "series")
    assert other.fingerprint != splits.fingerprint


def test_rows_are_sorted_by_time(tmp_path):
    write(tmp_path / "a.csv")
    write(tmp_path / "b.csv", change=lambda f: f[::-1])
    one, two = (data.splits(config_of(tmp_path / n), 0, "series") for n in ("a.csv", "b.csv"))
    assert one.fingerprint == two.fingerprint and "rows are sorted by 'date'" in two.notes


@pytest.mark.parametrize(
    "times",
    [
        [f"{2000 + i // 12}-{i % 12 + 1:02}" for i in range(60)],
        [f"{i % 28 + 1:02}.{i // 28 + 1:02}.2020" for i in range(28)],
        [str(1900 + i) for i in range(60)],
        [str(i / 10) for i in range(60)],
    ],
    ids=["months", "day first", "years", "numbers"],
)
def test_times_of_many_kinds(tmp_path, times):
    write(tmp_path / "a.csv", len(times), lambda f: f.assign(date=times))
    splits = data.splits(config_of(tmp_path / "a.csv", past=3, ahead=2), 0, "series")
    assert splits.train is not None and len(splits.train) > 0


def cut(frame, row, **cells):
    frame = frame.astype(object)
    for name, cell in cells.items():
        frame.loc[row, name] = cell
    return frame


@pytest.mark.parametrize(
    ("change", "given", "says"),
    [
        (lambda f: f.drop(index=[5, 6]), {}, r"has 1 of another length than 1 hour \(from 2020-01-01 04:00 \(row 5\) to 2020-01-01 07:00 \(row 6\)\): fill"),
        (lambda f: cut(f, 7, date="2020-01-01 06:00"), {}, r"has 1 again \(2020-01-01 06:00 \(row 7\) and row 8\): delete"),
        (lambda f: pd.concat([f, f]), {}, r"has 200 again .*: if it holds several series, give each a table of its own, else delete one"),
        (lambda f: pd.concat([f, f.iloc[:40]]), {}, r"has 40 again .*: if it holds several series, give"),
        (lambda f: cut(f, 7, date="soon"), {}, r"'date' of a.csv has none in 1 \(row 8: 'soon'\)"),
        (lambda f: cut(f, 7, date=""), {}, r"a date in each row.*row 8: ''"),
        (lambda f: cut(f, 7, value=""), {}, r"'value' of a.csv has none in 1 \(row 8: ''\): fill"),
        (lambda f: cut(f, 7, value="1,5"), {}, r"'value' .* 1 \(row 8: '1,5'\): write 1.5, not 1,5, or cut"),
        (lambda f: cut(f, 7, wave="inf"), {}, r"'wave' of a.csv has none in 1 \(row 8: 'inf'\)"),
        (None, {"label": "note"}, r"'note' of a.csv has none in 200"),
        (None, {"label": "vlaue"}, r"data.label takes a column of .*got 'vlaue'; did you mean 'value'"),
        (None, {"label": None}, r"the numbers to forecast; .*give --data.label COLUMN"),
        (lambda f: f.rename(columns={"date": "x"}).assign(y=f["date"]), {}, r"takes a column of dates; .*give --data.time"),
        (None, {"until": "2019-01-01"}, r"data.until takes a date that leaves rows; 2019-01-01 leaves none"),
        (None, {"past": 190}, r"at least data.ahead 3 rows in \w+, behind data.past 190"),
        (None, {"val": "soon"}, r"data.val takes a date such as 2017-07-01, or a share of the rows; got 'soon'"),
        (None, {"test": "2019-01-01"}, r"data.test takes a share, or a date.* got 2019-01-01 for 200 rows from 2020"),
        (None, {"until": "x"}, r"data.until takes a date such as 2017-07-01; got 'x'"),
    ],
)  # fmt: skip
def test_one_sentence_for_a_bad_series(tmp_path, change, given, says):
    write(tmp_path / "a.csv", change=change)
    with pytest.raises(UserError, match=says) as caught:
        data.splits(config_of(tmp_path / "a.csv", **given), 0, "series")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "cells",
    [
        ["2020-01-30", "2020-01-31", "2020-02-01"],
        ["20200130", "20200131", "20200201"],
        ["30/01/2020", "31/01/2020", "01/02/2020"],
    ],
)
def test_a_column_of_dates_is_known_by_what_it_holds(tmp_path, cells):
    rows = "".join(f"{cell},{i}\n" for i, cell in enumerate(cells))
    (tmp_path / "t.csv").write_text(f"when,load\n{rows}")
    given = {"label": "load", "past": 1, "ahead": 1, "val": None, "test": None}
    if cells[0].isdigit():
        given["time"] = "when"  # numbers may be anything
    splits = data.splits(config_of(tmp_path / "t.csv", **given), 0, "series")
    assert any("targets from 2020-01-31" in note for note in splits.notes)


def test_a_date_that_may_be_two_is_refused(tmp_path):
    rows = "".join(f"0{i}/02/2020,{i}\n" for i in range(1, 8))
    (tmp_path / "t.csv").write_text(f"date,load\n{rows}")
    with pytest.raises(UserError, match=r"which is the month; .*row 1: '01/02/2020'.*year-month"):
        data.splits(config_of(tmp_path / "t.csv", label="load", past=1, ahead=1), 0, "series")


def test_baselines_are_what_they_say(tmp_path):
    write(tmp_path / "a.csv")
    config = config_of(tmp_path / "a.csv", season=2)
    splits = data.splits(config, 0, "series")
    column = splits.test.items.values[:, 1]
    truth = np.array([splits.test.targets[i] for i in range(len(splits.test))])
    last = np.array([[column[160 + i - 1]] * 3 for i in range(len(truth))])
    back = np.array(
        [[column[160 + i + h - b] for h, b in enumerate((2, 2, 4))] for i in range(len(truth))]
    )
    known = splits.baselines["test"]
    assert list(known) == ["the last value again", "the value 2 rows before"]
    for answer, values in zip((last, back), known.values(), strict=True):
        mse = mean_squared_error(truth, answer)
        wanted = {"loss": mse / splits.scale[0][1] ** 2, "mse": mse, "r2": r2_score(truth, answer),
                  "mae": mean_absolute_error(truth, answer)}  # fmt: skip
        assert values == pytest.approx(wanted, abs=1e-6)
    assert splits.baselines.keys() == {"val", "test"}


# --- inputs


def prepare_of(**more):
    plain = {"columns": ("a", "b"), "past": 3, "mean": (1.0, 10.0), "std": (2.0, 5.0),
             "target": "b", "ahead": 2, "time": "day"}  # fmt: skip
    return PrepareSeries(**{**plain, **more})


def test_a_series_from_an_array_a_frame_or_a_table():
    rows = np.arange(10.0).reshape(5, 2)
    prepare = prepare_of()
    wanted = torch.tensor((rows[-3:] - [1, 10]) / [2, 5]).float()
    frame = pd.DataFrame(
        {"b": rows[:, 1], "a": rows[:, 0], "day": pd.date_range("2020", periods=5)}
    )
    table = datasets.Dataset.from_pandas(frame)
    text = datasets.Dataset.from_dict({n: [str(v) for v in frame[n]] for n in frame})
    sources = rows, rows.tolist(), torch.tensor(rows), frame, frame[::-1], table, text
    for source in sources:
        assert torch.equal(prepare(source), wanted)
    assert torch.equal(prepare(frame.drop(columns="day")), wanted)  # as it stands
    batch = prepare.batch([wanted, wanted])
    assert batch["frames"].shape == (2, 3, 2) and not batch["frames"][:, -1].any()
    start, unit = prepare.measure([wanted])
    spread = rows[-3:, 1].std() + 0.05 * 5
    assert (start.item(), unit.item()) == pytest.approx((9.0, spread), abs=1e-6)
    back = batch["frames"][0, :, 1].double() * unit + start
    assert back[0].tolist() == pytest.approx(rows[-3:, 1], abs=1e-5)
    absolute = prepare_of(relative=False)
    assert absolute.measure([wanted]) is None
    assert torch.equal(absolute.batch([wanted])["frames"][0], wanted)
    assert Prepare.from_dict(json.loads(json.dumps(prepare.to_dict()))) == prepare
    noisy = prepare.augment(SimpleNamespace(augment="strong"))(prepare.load(rows))
    assert torch.equal(noisy[-1], wanted[-1]) and not torch.equal(noisy, wanted)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (np.zeros((2, 2)), "at least 3 rows of 2 columns; got 2 x 2"),
        (np.zeros((4, 3)), "at least 3 rows of 2 columns; got 4 x 3"),
        ([[1, 2], [3, None], [5, 6], [7, 8]], "got nan in 'b', 3 rows before the end"),
        ("table.csv", "an array of numbers, a table or a data frame; got str: read it first"),
        (pd.DataFrame({"a": [1.0] * 4}), "with the columns a, b; this one lacks b"),
        (pd.DataFrame({"a": [1] * 4, "b": [1, 2, "x", 4]}), "'b' of the table has none in 1 .row 3: 'x'"),
        (
            pd.DataFrame({"a": [1] * 4, "b": [1] * 4, "day": ["2020-01-01", "2020-01-02", "2020-01-04", "2020-01-05"]}),
            r"the table has 1 of another length than 1 day \(from 2020-01-02 00:00 \(row 2\)",
        ),
        (Window(("b", "c"), np.zeros((3, 2))), "takes the columns a, b; got b, c"),
    ],
)  # fmt: skip
def test_one_sentence_for_a_bad_window(source, says):
    with pytest.raises(UserError, match=says):
        prepare_of()(source)


@pytest.mark.parametrize("wrong", [{"target": "c"}, {"past": 0}, {"std": (1.0,)}, {"std": (1, 0)}])
def test_values_that_do_not_fit_are_refused(wrong):
    with pytest.raises(UserError, match="PrepareSeries takes"):
        prepare_of(**wrong)


def test_a_forecast_moves_with_its_series():
    torch.manual_seed(0)
    prepare = prepare_of(past=8, ahead=2)
    model = zoo.Model(
        zoo.adapters.Frames(dim=16, **prepare.adapter()),
        zoo.Backbone(dim=16, depth=1, heads=2),
        zoo.heads.Classify(dim=16, classes=2, target="numbers", pool="last"),
        zoo.model.Record(labels=("b+1", "b+2"), scale=((10.0, 5.0),) * 2, preprocess=prepare),
    )
    rows = np.random.default_rng(0).normal(size=(8, 2))
    one, two = model.predict([rows, rows + 1000])
    for name in ("b+1", "b+2"):
        assert two["numbers"][name] - one["numbers"][name] == pytest.approx(1000, abs=1e-2)
    with pytest.raises(UserError, match="takes a column of a data frame"):
        model.predict(pd.DataFrame({"a": [1.0], "b": [2.0]}), column="b")


# --- from a table to a forecast


def test_a_trained_forecast(tmp_path, capsys):
    frame = write(tmp_path / "a.csv", 300)
    flags = {"data.train": str(tmp_path / "a.csv"), "data.label": "value", "data.past": 12, "data.ahead": 4,
             "data.val": "2020-01-09", "data.test": 0.2, "model.adapter.dim": 16, "model.backbone.dim": 16,
             "model.backbone.depth": 1, "run.epochs": 6, "optim.lr": 3e-3, "run.dir": str(tmp_path / "run"),
             "hw.accelerator": "cpu", "hw.precision": "fp32", "hw.workers": 0}  # fmt: skip
    result = training.train(RECIPE, flags)
    saved = json.loads((tmp_path / "run/result.json").read_text())
    known, figures = saved["baselines"]["test"]["the last value again"], result.metrics["test"]
    assert figures["loss"] < known["loss"] and figures.keys() == known.keys()
    page, said = (tmp_path / "run/report.md").read_text(), capsys.readouterr().out
    assert (
        "| test, the last value again | 57 |" in page and "test, the last value again: loss" in said
    )
    assert "The loss is in train's deviations, squared" in page
    assert training.evaluate(tmp_path / "run") == figures
    said = capsys.readouterr().out
    assert "test, the last value again: loss" in said and "data: 'value' is forecast from" in said
    write(tmp_path / "later.csv", 40)
    assert (
        cli.main(["evaluate", str(tmp_path / "run"), "--data.test", str(tmp_path / "later.csv")])
        == 0
    )
    later = training.evaluate(tmp_path / "run", tmp_path / "later.csv")
    other = lambda f: f.assign(more=1.0)[["date", "more", "value", "wave"]]  # noqa: E731
    write(tmp_path / "other.csv", 40, other)  # columns go by name
    assert training.evaluate(tmp_path / "run", tmp_path / "other.csv") == later

    model = zoo.load(tmp_path / "run")
    answer = model.predict(frame)
    assert answer.pop("times") == [f"2020-01-13 {hour}:00" for hour in (12, 13, 14, 15)]
    assert answer == model.predict([frame[["wave", "value"]].to_numpy()])[0]
    steps = np.arange(300, 304)
    error = np.array(list(answer["numbers"].values())) - (50 + steps / 10 + np.cos(steps))
    assert list(answer["numbers"]) == ["value+1", "value+2", "value+3", "value+4"]
    assert (
        np.square(error).mean() < 4
    )  # in the data's own units, where train is about 60 and this about 80
    capsys.readouterr()
    words = ["predict", str(tmp_path / "run"), str(tmp_path / "a.csv"), "--format", "jsonl"]
    assert cli.main(words) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown.pop("times")[0] == "2020-01-13 12:00"
    assert shown == {"file": str(tmp_path / "a.csv"), **answer}
    assert cli.main(words[:3]) == 0
    head, first = capsys.readouterr().out.splitlines()[:2]
    assert head.split() == ["file", "time", "number", "value"]
    assert first.split()[1:4] == ["2020-01-13", "12:00", "value+1"]
    (tmp_path / "short.csv").write_text("date,wave,value\n2020-01-01,1,2\n")
    assert cli.main([*words[:2], str(tmp_path / "short.csv")]) == 1
    assert "at least 12 rows" in capsys.readouterr().out


@pytest.mark.parametrize("past", [1, 2, 3])
def test_gradients_of_few_frames_are_finite_in_bf16(past):
    """torch's own padding of convolutions leaves their gradients unset there."""
    for _ in range(5):
        adapter = zoo.adapters.Frames(dim=32, channels=1, stem="conv", stride=4, position="sincos")
        waste = [torch.full((100_000,), torch.nan) for _ in range(3)]
        del waste  # memory that is not set will now be read as NaN
        with torch.autocast("cpu", dtype=torch.bfloat16):
            adapter(torch.randn(15, past, 1)).x.float().square().sum().backward()
        assert all(p.grad.isfinite().all() for p in adapter.parameters() if p.grad is not None)


def test_a_window_beyond_float32_is_refused():
    prepare = prepare_of()
    rows = np.ones((prepare.past, len(prepare.columns)))
    rows[0, 0] = 1e300
    with pytest.raises(SampleError, match="takes values near those of train; its values, prepared"):
        prepare(rows)


def test_complex_numbers_are_no_series():
    with pytest.raises(UserError, match="takes an array of numbers, a table or a data frame"):
        prepare_of()(np.ones((3, 2), dtype=complex))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda f: f.assign(value=5.0), "data.train takes numbers that differ.*value run from 5 to 5"),
        (lambda f: cut(f, 3, wave=1e308).pipe(cut, 4, wave=1e308), "data.train takes numbers that differ, within"),
        (lambda f: cut(f, 199, wave=1e300), r"data.test takes numbers near those of train.*wave run .* to 1e\+300"),
        (lambda f: f.assign(Date=f["date"]), "one column of times; it has date, Date: say which with --data.time"),
    ],
)  # fmt: skip
def test_numbers_that_no_model_could_learn_are_refused_before_training(tmp_path, change, says):
    write(tmp_path / "a.csv", change=change)
    with pytest.raises(UserError, match=says):
        data.splits(config_of(tmp_path / "a.csv"), 0, "series")


@pytest.mark.parametrize(
    ("moments", "wanted"),
    [
        (["2020-01-31T22", "2020-01-31T23", "2020-02-01T00"], ["2020-02-01T01", "2020-02-01T02"]),
        (["2019-12-31", "2020-01-31"], ["2020-02-29", "2020-03-31"]),
        (["2019-11-30", "2019-12-30"], ["2020-01-30", "2020-02-29"]),
        (["2019-01-01", "2020-01-01"], ["2021-01-01", "2022-01-01"]),
        (["2019-10-01", "2020-01-01"], ["2020-04-01", "2020-07-01"]),
        (["2020-02-28", "2020-02-29"], ["2020-03-01", "2020-03-02"]),
        (["2020-02-28"], []),
    ],
)
def test_times_go_on_as_they_went(moments, wanted):
    found = following(np.array(moments, "datetime64[ns]"), 2)
    assert found == list(np.array(wanted, "datetime64[ns]"))


def test_times_that_are_numbers_go_on():
    assert following(np.array([1.0, 1.5]), 2) == [2.0, 2.5]


# --- a loaded forecast reads as it was made to


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A run on two columns, and the flags of another that loads its model."""
    folder = tmp_path_factory.mktemp("first")
    write(folder / "a.csv")
    flags = {"data.train": str(folder / "a.csv"), "data.val": 0.2, "run.epochs": 1, "optim.lr": 1e-9,
             "hw.accelerator": "cpu", "hw.precision": "fp32", "hw.workers": 0}  # fmt: skip
    made = {"data.label": "value", "data.past": 12, "data.ahead": 4, "model.adapter.dim": 16,
            "model.backbone.dim": 16, "model.backbone.depth": 1}  # fmt: skip
    training.train(RECIPE, {**flags, **made, "run.dir": str(folder / "run")})
    return {**flags, "model.load": str(folder / "run")}


def test_a_loaded_forecast_takes_what_is_not_given_from_the_model(first, tmp_path, capsys):
    write(tmp_path / "b.csv", change=lambda f: f.assign(more=1.0, value=1000 * f["value"]))
    given = {**first, "data.train": str(tmp_path / "b.csv"), "run.dir": str(tmp_path / "run")}
    training.train(RECIPE, given)
    said = capsys.readouterr().out
    assert (
        "reads as it was made to: data.past 12, data.ahead 4, data.label 'value', data.columns wave"
        in said
    )
    assert "'value' is forecast from the columns wave, value" in said
    assert "columns that are not asked for are left out: note, more" in said
    written = training.resolve(tmp_path / "run/config.yaml").config.data
    assert (written.past, written.ahead, written.label) == (12, 4, "value")
    assert written.columns == ("wave", "value")
    old, new = zoo.load(first["model.load"]).record, zoo.load(tmp_path / "run").record
    assert new.preprocess.mean[1] == pytest.approx(1000 * old.preprocess.mean[1])
    assert np.allclose(new.scale, 1000 * np.array(old.scale))  # as the baselines are measured
    training.evaluate(tmp_path / "run", tmp_path / "b.csv")
    assert "'value' is forecast from the columns wave, value" in capsys.readouterr().out


def test_a_loaded_forecast_of_another_column_or_farther_ahead(first, tmp_path):
    given = {**first, "data.label": "wave", "data.ahead": 6, "data.past": 8}
    training.train(RECIPE, {**given, "run.dir": str(tmp_path / "run")})
    model = zoo.load(tmp_path / "run")
    made = model.record.preprocess
    assert (made.target, made.ahead, made.past, made.columns) == ("wave", 6, 8, ("wave", "value"))
    answer = model.predict(pd.read_csv(first["data.train"]))
    assert len(answer["times"]) == len(answer["numbers"]) == 6
    assert max(map(abs, answer["numbers"].values())) < 5  # a wave, not a value of 50


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"data.past": 20}, r"data.past takes at most what the loaded model reads, 12; got 20.*\(--data.past"),
        ({"data.columns": "[value]"}, "data.columns takes as many as the loaded model sees, wave, value; got value"),
        ({"data.label": "note"}, "data.columns takes the one that is forecast, 'note'"),
        ({"data.columns": "[wave, hour]"}, "data.columns.*'hour'"),
    ],
)  # fmt: skip
def test_what_a_loaded_forecast_cannot_read_is_refused(first, tmp_path, given, says):
    with pytest.raises(UserError, match=says):
        training.train(RECIPE, {**first, **given, "run.dir": str(tmp_path / "run")})
    assert not (tmp_path / "run").exists()


# --- times as they are written


def stamped(tmp_path, times):
    """A table with these times."""
    file = tmp_path / "a.csv"
    write(file, len(times), lambda f: f.assign(date=times))
    return file


@pytest.mark.parametrize(
    ("times", "wanted"),
    [
        ([str(1577836800000 + 250 * i) for i in range(40)], ["1577836810000", "1577836810250"]),
        ([str(1577836800 + i / 4) for i in range(40)], ["1577836810", "1577836810.25"]),
        ([f"2020-01-01T00:00:{i / 4:06.3f}" for i in range(40)], ["2020-01-01 00:00:10", "2020-01-01 00:00:10.25"]),
        ([f"2020-01-01T{i % 24:02}:00+05:30" for i in range(23)], ["2020-01-01 23:00+05:30", "2020-01-02 00:00+05:30"]),
        ([f"2020-01-01 {i:02}:00:00 -0330" for i in range(23)], ["2020-01-01 23:00-03:30", "2020-01-02 00:00-03:30"]),
        ([f"2020-01-01T{i:02}:00Z" for i in range(23)], ["2020-01-01 23:00+00:00", "2020-01-02 00:00+00:00"]),
        ([f"2020-{i + 1:02}-01T00:00+05:30" for i in range(10)], ["2020-11-01 00:00+05:30", "2020-12-01 00:00+05:30"]),
        (["2020-10-25T01:00+02:00", "2020-10-25T02:00+02:00", "2020-10-25T02:00+01:00"],
         ["2020-10-25 02:00+00:00", "2020-10-25 03:00+00:00"]),
    ],
)  # fmt: skip
def test_times_are_shown_as_they_are_written(tmp_path, times, wanted):
    table = pd.read_csv(stamped(tmp_path, times), dtype={"date": str})
    prepare = PrepareSeries(("value",), 3, (0.0,), (1.0,), "value", 2, "date")
    assert prepare.beside(table)["times"] == wanted
    assert len(prepare(table)) == 3


def test_dates_of_a_config_are_in_the_zone_of_the_table(tmp_path):
    times = [f"2020-01-{d:02}T{h:02}:00+05:30" for d in range(1, 11) for h in range(24)]
    file = stamped(tmp_path, times)
    for test in ("2020-01-08", "2020-01-07T18:30Z"):
        splits = data.splits(config_of(file, val="2020-01-06", test=test), 0, "series")
        told = next(note for note in splits.notes if note.startswith("test:"))
        assert told.endswith("targets from 2020-01-08 00:00+05:30 to 2020-01-10 23:00+05:30")
        assert "times, and dates such as --data.test, are those of +05:30" in splits.notes


def test_times_of_a_day_alone_are_refused(tmp_path):
    file = stamped(tmp_path, [f"{i // 60:02}:{i % 60:02}" for i in range(200)])
    says = r"has times of a day alone in 200 \(row 1: '00:00'\): write the day before each"
    with pytest.raises(UserError, match=says):
        data.splits(config_of(file, time="date"), 0, "series")
    with pytest.raises(UserError, match=r"data.test takes a date such as 2017-07-01.*got '06:39'"):
        write(tmp_path / "b.csv")
        data.splits(config_of(tmp_path / "b.csv", test="06:39"), 0, "series")


def test_the_column_of_dates_is_found_where_its_first_cells_may_be_read_in_two_ways(tmp_path):
    def german(frame):
        frame["date"] = pd.to_datetime(frame["date"]).dt.strftime("%d.%m.%Y %H:%M")
        return frame.rename(columns={"date": "Zeitpunkt"})

    write(tmp_path / "a.csv", 400, german)
    splits = data.splits(config_of(tmp_path / "a.csv"), 0, "series")
    told = " ".join(splits.notes)
    assert "'Zeitpunkt', the only one of dates" in told
    assert "times are read so that 01.01.2020 00:00 is 2020-01-01" in told
    write(tmp_path / "b.csv", 200, german)  # up to the ninth of January, or September
    with pytest.raises(UserError, match=r"which is the month; 'Zeitpunkt' of b\.csv has row"):
        data.splits(config_of(tmp_path / "b.csv"), 0, "series")


def test_times_in_iso_are_read_as_they_are(tmp_path):
    write(tmp_path / "a.csv")
    splits = data.splits(config_of(tmp_path / "a.csv"), 0, "series")
    assert not any("are read so that" in note for note in splits.notes)
