"""The `zoo` command, through `main([...])`."""

import io
import json
import os
import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image

import zoo
from zoo import cli, training
from zoo.cli.arguments import split_flags, typed
from zoo.cli.table import align, write_table
from zoo.errors import OptionError, UserError
from zoo.inputs.names import is_text, listed
from zoo.training import recipes
from zoo.training.config import placing
from zoo.training.console import log, speaking, writing
from zoo.training.models import KINDS, make_model, stand_in

CONFIG = """\
# A small one
model: {name: vit_mu_patch8_32}
optim: {lr: 1e-3}
run: {epochs: 3, global_batch: 64}
"""


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one recipe, which is the working folder; `train` only notes its arguments."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / "configs" / "image_classify").mkdir(parents=True)
    (tmp_path / "recipes" / "image_classify.py").write_text("def main(config): ...\n")
    (tmp_path / "configs" / "image_classify" / "vit.yaml").write_text(CONFIG)
    monkeypatch.setattr(recipes, "folders", lambda: (tmp_path / "recipes", tmp_path / "configs"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `zoo.training.train` and `evaluate` were called with."""
    found: list[Any] = []

    def train(recipe: str, overrides: dict[str, Any], main: Any = None) -> None:
        found.append((recipe, overrides, main))

    def evaluate(run: str, overrides: dict[str, Any]) -> dict[str, float]:
        found.append((run, overrides))
        return {"loss": 0.25, "accuracy": 0.98765}

    monkeypatch.setattr(training, "train", train, raising=False)
    monkeypatch.setattr(training, "evaluate", evaluate, raising=False)
    return found


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What a command prints, on stdout for code 0 and on stderr alone for 2."""
    assert cli.main(list(words)) == code
    out, err = capsys.readouterr()
    assert (out if code == 2 else err) == ""
    return err if code == 2 else out


def cells(text: str) -> list[list[str]]:
    return [re.split(r"  +", line.strip()) for line in text.splitlines()]


# words


def test_flags_may_stand_anywhere():
    words = ["train", "--optim.lr", "-1", "x", "--data.train=a=b", "--model.x=", "--debug"]
    rest, flags = split_flags(words)
    assert rest == ["train", "x", "--debug"]
    assert flags == {"optim.lr": "-1", "data.train": "a=b", "model.x": ""}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["trian"], "zoo has no command 'trian'; did you mean 'train'?"),
        (
            ["xyz"],
            "zoo has no command 'xyz'; there are train, resume, evaluate, predict, list, show, copy",
        ),
        (
            ["--vers"],
            "zoo has no option --vers; the sections are data, optim, run, distill, ema, select, hw, model",
        ),
        (["train"], "zoo train takes a RECIPE; got none: `zoo list recipes` names them"),
        (["train", "x", "--optim.lr"], "--optim.lr takes a value; got none: give --optim.lr VALUE"),
        (
            ["train", "x", "--optim.lr", "--data.train", "y"],
            "--optim.lr takes a value; got none: give --optim.lr VALUE",
        ),
        (
            ["train", "x", "--optim.lr", "1", "--optim.lr=2"],
            "--optim.lr is given twice, '1' and '2'; keep one",
        ),
        (["train", "x", "--lr", "1"], "zoo train has no option --lr; did you mean '--optim.lr'?"),
        (
            ["train", "x", "--batch_size=3"],
            "zoo train has no option --batch_size; did you mean '--run.global_batch'?",
        ),
        (["train", "x", "y"], "zoo train has no place for 'y'; see zoo train --help"),
        (
            ["train", "vit.yaml"],
            "vit.yaml is no file; give a name from `zoo list recipes` or a YAML file's path",
        ),
        (["show", "vti"], "no recipe 'vti'; `zoo list recipes` names them"),
        (
            ["show", "image_classify/vti"],
            "no recipe 'image_classify/vti'; did you mean 'image_classify/vit'?",
        ),
        (
            ["show", "image_classify/vit", "--optim.lr", "fast"],
            "optim.lr takes a number above 0; got 'fast' (--optim.lr)",
        ),
        (
            ["show", "image_classify/vit", "--optim.lrr", "1"],
            "there is no key 'optim.lrr' (--optim.lrr); did you mean 'optim.lr'?",
        ),
        (["list", "model"], "zoo list has no 'model'; did you mean 'models'?"),
        (
            ["list", "xyz"],
            "zoo list has no 'xyz'; give models, recipes, runs, plugins or nothing for all",
        ),
        (["list", "--optim.lr", "1"], "zoo list takes no keys of a config; got --optim.lr"),
        (
            ["predict", "a", "--data.on_bad", "x"],
            "zoo predict takes no keys of a config; got --data.on_bad; did you mean --on-bad?",
        ),
    ],
)
def test_one_sentence_for_a_mistake(
    house: Path, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
):
    assert said(capsys, *words, code=2) == sentence + "\n"


def test_debug_shows_tracebacks(house: Path):
    for words in (["--debug", "show", "x"], ["show", "x", "--debug"]):
        with pytest.raises(UserError, match="no recipe 'x'"):
            cli.main(words)


def test_ctrl_c_ends_with_one_line(
    house: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def train(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train", train, raising=False)
    assert cli.main(["train", "image_classify/vit", "--data.train", "x"]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")
    with pytest.raises(KeyboardInterrupt):
        cli.main(["train", "image_classify/vit", "--data.train", "x", "--debug"])


INTERRUPTED = """\
import sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == "torch":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from zoo.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("words", [["list", "models"], ["predict", "x", "y"], ["evaluate", "x"]])
def test_ctrl_c_during_imports_ends_with_one_line(words: list[str]):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *words], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_wrong_words_wait_for_no_torch():
    code = "import sys; from zoo import cli; cli.main(['trian']); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_terminal_is_told_what_the_first_seconds_are_for():
    words = [sys.executable, "-m", "zoo.cli", "evaluate", "nowhere"]
    piped = subprocess.run(words, capture_output=True, text=True)
    reader, terminal = os.openpty()
    done = subprocess.run(words, stderr=terminal, stdout=subprocess.PIPE, text=True)
    os.close(terminal)
    said = os.read(reader, 4096).decode()
    os.close(reader)
    assert done.returncode == piped.returncode == 2 and done.stdout == piped.stdout == ""
    assert said.splitlines() == ["loading torch ...", *piped.stderr.splitlines()]


def test_a_closed_pipe_is_no_error(house: Path):
    words = [sys.executable, "-m", "zoo.cli", "list", "models"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout and process.stderr
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


def test_listing_waits_for_no_heavy_import(house: Path):
    heavy = ["lightning", "torchvision", "torchmetrics", "timm", "matplotlib", "sklearn", "rich"]
    code = (
        "import sys; from zoo import cli; cli.main(['list']); print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "zoo.cli" in done.stderr.split()
    assert not set(heavy) & set(done.stderr.split())


def test_help_and_version(capsys: pytest.CaptureFixture[str]):
    for words in (["--help"], []):
        if words:
            with pytest.raises(SystemExit, match="0"):
                cli.main(words)
        else:
            assert cli.main(words) == 0
        text = capsys.readouterr().out
        assert all(command in text for command in cli.COMMANDS)
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"zoo {zoo.__version__}\n"


def test_module_runs_as_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["zoo", "xyz"])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_module("zoo.cli", run_name="__main__")
    assert capsys.readouterr().err.startswith("zoo has no command 'xyz'")


# train, evaluate


def test_train_passes_flags(house: Path, calls: list[Any], capsys: pytest.CaptureFixture[str]):
    said(
        capsys, "train", "--data.train", "2024", "image_classify/vit",
        "--model.drop_path=1e-1", "--model.head", "null", "--model.note", "a: [",
    )  # fmt: skip
    flags = {"data.train": "2024", "model.drop_path": 0.1, "model.head": None, "model.note": "a: ["}
    assert calls == [("image_classify/vit", flags, None)]


def test_train_help_shows_every_key(house: Path, capsys: pytest.CaptureFixture[str]):
    text = said(capsys, "train", "image_classify/vit", "--help", "--run.seed", "5")
    rows = {row[0]: row[1:] for row in cells(text)}
    for key in training.schema.KEYS.values():
        if key.of("image_classify/vit"):
            assert rows[f"--{key.name}"][::2] == [key.short, key.help]
        else:
            assert f"--{key.name}" not in rows
    assert rows["--optim.lr"][1] == "0.001"
    assert rows["--run.seed"][1] == "5"
    assert rows["--data.train"][1] == "must be given"
    assert rows["--model.name"][0] == "vit_mu_patch8_32"
    assert rows["--model.depth"] == ["2", "How many blocks a token passes"]
    assert rows["--model.block.mlp.dropout"] == ["0.0", "Zeroed share of the hidden values"]
    assert rows["--model.head.target"][0] == "from the data"
    assert all(row[-1] for key, row in rows.items() if key.startswith("--model.") and "kind" not in key)  # fmt: skip
    assert "--model.adapter.kind, in a recipe of parts: Patches, Spec" in text
    groups = re.split(r"\n\n", text)
    assert all(len(group.splitlines()) <= 24 for group in groups)  # each fits on a screen
    text = said(capsys, "train", "-h")
    assert {row[0]: row[1:] for row in cells(text)}["--optim.lr"][1] == "must be given"


def test_evaluate(house: Path, calls: list[Any], capsys: pytest.CaptureFixture[str]):
    (house / "runs" / "x").mkdir(parents=True)
    (house / "runs" / "x" / "config.yaml").write_text(CONFIG)
    text = said(capsys, "evaluate", "runs/x", "--data.test", "pictures")
    assert cells(text) == [["metric", "value"], ["loss", "0.2500"], ["accuracy", "0.9877"]]
    said(capsys, "evaluate", "runs/x", "--data.label", "kind")
    assert calls == [("runs/x", {"data.test": "pictures"}), ("runs/x", {"data.label": "kind"})]


def test_scripts_have_the_same_command_line(
    house: Path, calls: list[Any], capsys: pytest.CaptureFixture[str]
):
    def run(config: Any) -> None:
        """One label per picture."""

    words = ["--config", "image_classify/vit", "--data.train=x", "--model.depth", "2"]
    assert cli.script(run, words) == 0
    assert calls == [("image_classify/vit", {"data.train": "x", "model.depth": 2}, run)]
    assert cli.script(run, ["--config", "x.yaml", "--lr", "1"]) == 2
    assert "has no option --lr; did you mean '--optim.lr'?" in capsys.readouterr().err
    assert cli.script(run, []) == 2
    assert "one of the arguments --config --resume is required" in capsys.readouterr().err


# list, show, copy


def test_list_models(capsys: pytest.CaptureFixture[str]):
    text = said(capsys, "list", "models", "vit_mu*")
    names = zoo.list_models("vit_mu*")
    assert cells(text) == [["model", "takes"], *([name, "pictures"] for name in names)]
    kinds = dict(cells(said(capsys, "list", "models"))[1:])
    some = [kinds[name] for name in ("bert_mu", "ast_mu", "swin3d_mu")]
    assert some == ["texts", "sounds", "videos"]
    assert said(capsys, "list", "models", "xyz*") == "no models like 'xyz*'\n"


def test_list_all(house: Path, capsys: pytest.CaptureFixture[str]):
    models, found, runs, plugins = said(capsys, "list").split("\n\n")
    assert [row[0] for row in cells(models)] == ["model", *zoo.list_models()]
    assert "vit_mu_patch8_32" in said(capsys, "list", "vit_mu*")
    assert cells(found) == [["recipe", "about"], ["image_classify/vit", "A small one"]]
    assert runs == "no runs"
    assert plugins.startswith(("no plugins", "plugin"))


def test_list_runs(house: Path, capsys: pytest.CaptureFixture[str]):
    results = {
        "image_classify/vit/2": json.dumps({"val": {"accuracy": 0.5}, "test": {"accuracy": 0.25}}),
        "image_classify/vit/1": json.dumps({"interrupted": True, "val": None, "test": None}),
        "image_classify/vit/4": "{",
        "image_classify/vit/5": "[]",
        "mine/3": None,
        "mine": json.dumps({"failed": "it broke", "val": {"accuracy": 0.5}, "test": None}),
        "a/b/c/d": json.dumps({}),
    }
    for name, result in results.items():
        run = house / "runs" / name
        run.mkdir(parents=True, exist_ok=True)
        (run / "config.yaml").touch()
        if result is None:
            (run / "checkpoints").mkdir()
        else:
            (run / "result.json").write_text(result)
    (house / "runs" / "image_classify" / "empty").mkdir()
    (house / "runs" / "image_classify" / "config.yaml").touch()  # no run by itself
    assert cells(said(capsys, "list", "runs")) == [
        ["run", "result"],
        ["runs/image_classify/vit/1", "interrupted"],
        ["runs/image_classify/vit/2", "val accuracy 0.5000", "test accuracy 0.2500"],
        ["runs/mine/3", "not finished"],
        ["runs/image_classify/vit/4", "result.json is broken"],
        ["runs/image_classify/vit/5", "result.json is broken"],
        ["runs/a/b/c/d"],
        ["runs/mine", "failed", "val accuracy 0.5000"],
    ]
    assert len(cells(said(capsys, "list", "runs", "mine/*"))) == 2


def test_show_gives_origins(house: Path, capsys: pytest.CaptureFixture[str]):
    flags = ["--hw.preset", "cpu", "--optim.betas", "[0.5, 0.6]"]
    text = said(capsys, "show", "image_classify/vit", *flags)
    rows = {row[0]: row[1:] for row in cells(text)}
    path = "configs/image_classify/vit.yaml"
    assert rows["recipe"] == ["image_classify/vit", path]
    assert rows["data.train"] == ["must be given"]
    assert rows["optim.lr"] == ["0.001", f"recipe {path}:3"]
    assert rows["optim.betas"] == ["[0.5, 0.6]", "flag --optim.betas"]
    assert rows["hw.devices"] == ["1", "preset hw.preset cpu (--hw.preset)"]
    assert rows["hw.precision"] == ["auto", "default"]
    assert rows["model.name"] == ["vit_mu_patch8_32", f"recipe {path}:2"]
    keys = training.schema.KEYS.values()
    assert rows.keys() >= {key.name for key in keys if key.of("image_classify/vit")}


def test_copy(house: Path, capsys: pytest.CaptureFixture[str]):
    lines = said(capsys, "copy", "image_classify/vit", "mine").splitlines()
    assert lines[:2] == ["mine/image_classify.py", "mine/vit.yaml"]
    assert lines[2].endswith("zoo train mine/vit.yaml")
    assert lines[3].endswith("python mine/image_classify.py --config mine/vit.yaml")
    assert "mine/image_classify.py exists" in said(
        capsys, "copy", "image_classify/vit", "mine", code=2
    )


# predict


class Fake:
    """Names a picture after its colour, and counts how it is asked."""

    asked: list[Any]
    record = SimpleNamespace(preprocess=SimpleNamespace(kind="picture"))

    def predict(self, source: list[str], on_bad: str) -> list[dict[str, Any]]:
        self.asked.append(source)
        return [self.one(file, on_bad) for file in source]

    def one(self, file: str, on_bad: str) -> dict[str, Any]:
        try:
            red = zoo.inputs.decode_image(file).getpixel((0, 0))[0] / 255
        except zoo.inputs.PictureError as error:
            if on_bad == "raise":
                raise
            return {"file": file, "error": error.reason}
        label = "red" if red > 0.5 else "black"
        return {"file": file, "label": label, "probability": 0.75, "probabilities": {label: 0.75}}


@pytest.fixture
def fake(house: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Three pictures and two other files in ./pictures, and a model for all of them in ./run."""
    (house / "pictures" / "deep").mkdir(parents=True)
    for name, colour in {"b.png": "red", "a.JPG": "black", "deep/c.png": "red"}.items():
        Image.new("RGB", (4, 4), colour).save(house / "pictures" / name)
    for name in ("notes.txt", ".hidden.png"):
        (house / "pictures" / name).write_text("no picture")
    for name in (".thumbnails/a.png", "deep/.cache/b.png"):
        hidden = house / "pictures" / name
        hidden.parent.mkdir()
        hidden.write_bytes((house / "pictures" / "b.png").read_bytes())
    (house / "run" / "model").mkdir(parents=True)
    model = Fake()
    model.asked = []
    loaded: list[Path] = []
    monkeypatch.setattr(zoo, "load", lambda folder: (loaded.append(folder), model)[1])
    monkeypatch.setattr(Fake, "loaded", loaded, raising=False)
    monkeypatch.setattr(Fake, "house", house, raising=False)
    return model


def test_predict_folders_patterns_and_files(fake: Any, capsys: pytest.CaptureFixture[str]):
    text = said(capsys, "predict", "run", "pictures", "pictures/*.png", "pictures/a.JPG")
    assert cells(text) == [
        ["file", "label", "probability"],
        ["pictures/a.JPG", "black", "0.7500"],
        ["pictures/b.png", "red", "0.7500"],
        ["pictures/deep/c.png", "red", "0.7500"],
        ["pictures/b.png", "red", "0.7500"],
        ["pictures/a.JPG", "black", "0.7500"],
    ]
    assert len(fake.asked) == 1  # all at once
    assert fake.loaded == [Path("run/model")]
    said(capsys, "predict", "run/model", "pictures/a.JPG")
    assert fake.loaded[1] == Path("run/model")


def test_predict_reports_bad_files_and_goes_on(
    house: Path, fake: Any, capsys: pytest.CaptureFixture[str]
):
    (house / "bad.png").write_text("no picture")
    files = ["pictures/a.JPG", "bad.png", "absent.png", "pictures/b.png"]
    rows = cells(said(capsys, "predict", "run", *files, code=1))
    assert rows[0] == ["file", "label", "probability", "error"]
    assert [row[0] for row in rows[1:]] == files
    assert [row[1] for row in rows[1::3]] == ["black", "red"]
    assert all(len(row) == 2 and len(row[1]) > 3 for row in rows[2:4])
    text = said(capsys, "predict", "run", *files, "--on-bad", "raise", code=2)
    assert "bad.png" in text and len(text.splitlines()) == 1


def test_predict_formats(house: Path, fake: Any, capsys: pytest.CaptureFixture[str]):
    words = ["predict", "run", "pictures/a.JPG", "absent.png"]
    rows = [
        json.loads(line) for line in said(capsys, *words, "--format", "jsonl", code=1).splitlines()
    ]
    assert rows[0] == {
        "file": "pictures/a.JPG",
        "label": "black",
        "probability": 0.75,
        "probabilities": {"black": 0.75},
    }
    assert rows[1].keys() == {"file", "error"}
    text = said(capsys, *words, "--format", "csv", code=1)
    assert text.splitlines()[:2] == [
        "file,label,probability,probability_black,error",
        "pictures/a.JPG,black,0.75,0.75,",
    ]
    assert said(capsys, *words, "--out", "answers.csv", code=1) == ""
    assert (house / "answers.csv").read_text() == text
    lines = said(capsys, *words, "--format", "jsonl", code=1)
    for name in ("answers.json", "answers.JSONL"):
        said(capsys, *words, "--out", name, code=1)
        assert (house / name).read_text() == lines
    said(capsys, *words, "--out", "answers.log", "--format", "csv", code=1)
    assert (house / "answers.log").read_text() == text
    said(capsys, *words, "--out", "answers.txt", code=1)
    assert (house / "answers.txt").read_text() == said(capsys, *words, code=1)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["run"],
            "zoo predict takes pictures; got none: give FILE, or - for lines of text from stdin",
        ),
        (["run", "run"], "zoo predict takes pictures; run holds none"),
        (["run", "x/*.png"], "zoo predict takes pictures; x/*.png holds none"),
        (
            ["run", "pictures", "--out", "no/x.csv"],
            "--out no/x.csv cannot be written: No such file or directory",
        ),
        (
            ["run", "pictures", "--out", "pictures/deep/.cache/../x.csv/"],
            "--out pictures/deep/.cache/../x.csv cannot be written: Is a directory",
        ),
        (
            ["run", "pictures", "--out", "x.xlsx"],
            "--out takes a file that ends in .jsonl, .json, .csv, .txt; got x.xlsx: give --format",
        ),
        (
            ["run", "pictures", "--out", "x.json", "--format", "csv"],
            "--out x.json ends as jsonl; got --format csv: keep one",
        ),
    ],
)
def test_predict_refuses(
    fake: Any, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
):
    (fake.house / "pictures" / "deep" / "x.csv").mkdir()
    assert said(capsys, "predict", *words, code=2) == sentence + "\n"
    assert fake.asked == []  # it is said before the work
    assert not list(fake.house.glob("x.*"))


def test_a_slip_in_a_models_name_finds_what_may_be_one(
    house: Path, capsys: pytest.CaptureFixture[str]
):
    """A folder or a file of weights, and no other file that is called alike."""
    Path("mymodle.txt").touch()
    assert "did you mean" not in said(capsys, "predict", "mymodel.tx", "b.csv", code=2)
    Path("mymodel.pt").touch()
    assert "did you mean 'mymodel.pt'?" in said(capsys, "predict", "mymodel.tx", "b.csv", code=2)
    Path("mymodel.pt").unlink()
    Path("mymodels").mkdir()
    assert "did you mean 'mymodels'?" in said(capsys, "predict", "mymodel.tx", "b.csv", code=2)


def test_predict_with_a_real_model(house: Path, capsys: pytest.CaptureFixture[str]):
    zoo.create("vit_mu_patch8_32", classes=["cat", "dog"]).save(house / "saved")
    Image.new("RGB", (40, 30), "red").save(house / "a.png")
    (house / "bad.png").write_text("no picture")
    rows = cells(said(capsys, "predict", "saved", "a.png", "bad.png", code=1))
    assert rows[1][0] == "a.png" and rows[1][1] in ("cat", "dog")
    assert rows[2][0] == "bad.png" and len(rows[2]) == 2
    assert "nowhere" in said(capsys, "predict", "nowhere", "a.png", code=2)


# tables


def test_align():
    assert align([["a", 1], ["long", ""]]) == "a     1\nlong\n"


STEERING = "a\x1b[31m\x9b1m\u202eb\u2066\n\u2028c\u200d"


def test_nothing_in_a_cell_steers_the_terminal(monkeypatch: pytest.MonkeyPatch):
    escaped = r"a\x1b[31m\x9b1m\u202eb\u2066\n\u2028c" + "\u200d"  # a joiner is part of a text
    assert align([[STEERING, "é"]]) == f"{escaped}  é\n"
    screen = io.StringIO()
    screen.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "80")
    write_table(["x"], [[STEERING]])
    assert escaped in screen.getvalue()


def test_tables_on_a_terminal(monkeypatch: pytest.MonkeyPatch):
    screen = io.StringIO()
    screen.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "60")
    write_table(["key", "value"], [["a[b]", "[red]"], ["c", None]])
    text = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())
    assert cells(text) == [["key", "value"], ["a[b]", "[red]"], ["c", "None"]]


# flags of the model


BACKBONE = ["--model.backbone.dim=16", "--model.backbone.depth=1", "--model.backbone.heads=2"]
PATCHES = ["--model.adapter.dim=16", "--model.adapter.size=16", "--model.adapter.patch=4"]


@pytest.mark.parametrize("what", ["show", "train"])
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--model.head", "null"], r"takes a model with a head; got model.head null"),
        (["--model.head", "5"], r"takes a model with a head; got model.head 5"),
        (["--model.classes", "7"], r"takes its classes from the data; got model.classes 7"),
        (["--model.head.classes", "7"], r"takes its classes from the data; got model.head.classes"),
        (["--model.name", "5"], r"takes the name of a model; got '5'"),
        (["--model.name", "[a]"], r"takes the name of a model; got '\[a\]'"),
        (["--model.name", "vti"], r"takes the name of a model; got 'vti'"),
        (["--model.load", "5"], r"takes a folder .* 5 does not exist"),
        (["--model.drop_path", "abc"], r"drop_path .* got 'abc' \(--model.drop_path\)"),
        (["--model.name", "bert_mu"], r"takes a model for pictures; bert_mu has no preprocessing"),
        (["--model.name", "ast_mu"], r"takes a model for pictures; ast_mu has no preprocessing"),
        (["--model.head.target", "labels"], r"target of its data, label; got Classify with target lab"),
        ([*BACKBONE, "--model.adapter", "5"], r"model.adapter takes options of its own"),
        ([*BACKBONE, "--model.foo", "5"], r"has no section 'foo'; it takes adapter, backbone"),
        ([*BACKBONE, *PATCHES, "--model.head.kind", "Several"], r"with dim, classes and target, Classify; got Several"),
        ([*BACKBONE, "--model.adapter.kind", "Subwords"], r"Subwords .*\(--model.adapter.kind\)"),
        (
            [*BACKBONE, "--model.adapter.kind", "Subwords", "--model.adapter.dim=16",
             "--model.adapter.vocabulary=9"],
            r"takes an adapter of pictures, Patches or SwinPatches; got Subwords",
        ),
    ],
)  # fmt: skip
def test_a_model_that_cannot_be_trained_is_refused_with_its_flag(
    house: Path, capsys: pytest.CaptureFixture[str], what: str, words: list[str], sentence: str
):
    """`show` answers as `train` does, whose script stops at the model here."""
    script = "from zoo import training\n\ndef main(config): training.build(config, ['a', 'b'])\n"
    (house / "recipes" / "image_classify.py").write_text(script)
    text = said(capsys, what, "image_classify/vit", "--data.train=x", *words, code=2)
    assert re.search(sentence, text) and len(text.splitlines()) == 1
    flags = "".join(rf"|{re.escape(word.partition('=')[0])}" for word in words if "--" in word)
    assert "load" in words[0] or re.search(rf"\((?:{flags[1:]})\)\n$", text)


def test_another_kind_by_a_flag_leaves_out_what_the_file_says_of_the_first():
    flags = {"data.train": "x", "model.adapter.kind": "SwinPatches", "model.adapter.dim": 24}
    found = training.resolve("image_classify/custom", flags)
    assert found.config.model == {
        "adapter": {"kind": "SwinPatches", "size": 32, "dim": 24},
        "backbone": {"kind": "Backbone"},
        "head": {"pool": "mean"},
    }
    (note,) = found.notes
    assert re.sub(r" \(\S+:\d+\)", "", note) == (
        "left out, not for the kind that a flag names: model.adapter.patch, "
        "model.adapter.position, model.adapter.class_token, model.backbone.dim, "
        "model.backbone.depth, model.backbone.heads"
    )
    with torch.device("meta"):
        assert len(make_model(found.config.model, ["a", "b"]).backbone.stages) == 4
    same = training.resolve("image_classify/custom", flags | {"model.adapter.kind": "Patches"})
    assert same.notes == () and same.config.model["adapter"]["position"] == "sincos"
    resolved = training.resolve("image_classify/custom", flags | {"model.adapter.position": "none"})
    with pytest.raises(UserError, match="SwinPatches has no option 'position'"):
        make_model(resolved.config.model, ["a", "b"])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, r"width 128 and 3 heads.*: give --model\.adapter\.dim 96, or --model\.adapter\.heads one"),
        ({"dim": 20}, r"width 20 and 3 heads, 3 kv_heads: give --model\.adapter\.dim 96, or"),
        ({"dim": 200}, r"width 200 and 3 heads, 3 kv_heads: give --model\.adapter\.dim 192, or"),
        ({"dim": 32, "heads": [5, 5, 5, 5]}, r"width 32 and 5 heads.* \(--model\.adapter\.heads\)$"),
        ({"kind": "Tubes"}, r"takes an adapter of pictures, Patches or SwinPatches; got Tubes"),
        ({"kind": "Frames"}, r"takes an adapter of pictures, Patches or SwinPatches; got Frames"),
    ],
)  # fmt: skip
def test_an_option_that_does_not_fit_another_kind_is_named(given: dict[str, Any], sentence: str):
    """Stages are shaped by the adapter's options, whatever part meets them."""
    flags = {f"model.adapter.{key}": v for key, v in {"kind": "SwinPatches", **given}.items()}
    resolved = training.resolve("image_classify/custom", {"data.train": "x", **flags})
    sections: Any = resolved.config.model
    with pytest.raises(UserError, match=sentence) as caught, torch.device("meta"):
        with placing(resolved.origins):
            make_model(sections, ["a", "b"])
    if told := re.search(r"give --model\.adapter\.dim (\d+)", str(caught.value)):
        adapter = {**sections["adapter"], "dim": int(told[1])}
        with torch.device("meta"):
            make_model({**sections, "adapter": adapter}, ["a", "b"])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"experts": 4}, r"bias True.*: give --model\.backbone\.mlp\.bias false"),
        ({"grouping": {"kind": "windows", "size": [1, 8]}},
         r"windows has no option 'size'; it takes window, shift, pad, moves \(.*\.grouping\.size\)"),
        ({"grouping": {"kind": "windows", "window": 8}},
         r"windows takes window as a list of .*; got 8 \(--model\.backbone\.grouping\.window\)"),
        ({"block.attn.position": {"kind": "rope", "bse": 1}}, "rope has no option 'bse'; .*'base'"),
    ],
)  # fmt: skip
def test_what_a_part_lacks_is_said_with_the_flag_that_helps(given: dict[str, Any], sentence: str):
    flags = {"data.train": "x"} | {f"model.backbone.{key}": v for key, v in given.items()}
    resolved = training.resolve("text_classify/custom", flags)
    prepare = stand_in("text")
    with pytest.raises(UserError, match=sentence) as caught, placing(resolved.origins):
        make_model(resolved.config.model, ["a", "b"], kind="text", prepare=prepare)
    if told := re.search(r"give --model\.backbone\.(\S+) false", str(caught.value)):
        flags[f"model.backbone.{told[1]}"] = False
        sections: Any = training.resolve("text_classify/custom", flags).config.model
        assert make_model(sections, ["a", "b"], kind="text", prepare=prepare)


def test_a_head_that_reads_a_class_token_that_is_not_there_names_the_flag(tmp_path):
    zoo.create("vit_mu_patch8_32", classes=["a", "b"], pool="mean", class_token=False).save(
        tmp_path
    )
    flags = {"data.train": "x", "model.load": str(tmp_path), "model.head.pool": "class"}
    resolved = training.resolve("image_classify/vit_small_probe", flags)
    with pytest.raises(UserError, match=r"class_token=False: give --model\.head\.pool mean"):
        make_model(resolved.config.model, ["x", "y"])
    flags["model.head.pool"] = "mean"
    sections: Any = training.resolve("image_classify/vit_small_probe", flags).config.model
    assert make_model(sections, ["x", "y"])


def test_windows_of_texts_say_what_to_give():
    """Their tokens are a row, which windows of one side divide."""
    base = {"data.train": "x", "model.backbone.grouping": "windows"}
    prepare = stand_in("text")
    for flags in (base, base | {"model.backbone.grouping.window": [8]}):
        sections: Any = training.resolve("text_classify/custom", flags).config.model
        model = make_model(sections, ["a", "b"], kind="text", prepare=prepare)
        if flags is base:
            with pytest.raises(UserError, match=r"got a row: give --model\.\S+\.window \[8\]"):
                model.predict(["a text"])
        else:
            assert model.predict(["a text", "another that is longer"])


def test_what_a_recipe_says_of_a_model_that_a_flag_replaces_is_told():
    found = training.resolve(
        "image_classify/vit_small_probe", {"data.train": "x", "model.name": "a"}
    )
    assert found.config.model == {"name": "a"}
    assert found.notes == (
        "left out, with the recipe's own model: model.size, model.freeze, model.head.pool",
    )
    found = training.resolve("image_classify/custom", {"data.train": "x", "model.load": "a"})
    (note,) = found.notes
    assert note.startswith("left out, with the recipe's own model: model.adapter.kind, model.adap")
    assert note.endswith(" more") and len(note) < 300
    kept = {"data.train": "x", "model.load": "a", "model.freeze": "body"}
    found = training.resolve("image_classify/vit_small_probe", kept)  # of another, as it was meant
    assert found.notes == () and found.config.model["freeze"] == "body"


def test_values_of_another_type_in_a_file_are_refused_with_their_line(
    house: Path, capsys: pytest.CaptureFixture[str]
):
    for value in ("5", "[a]", "true"):
        (house / "mine.yaml").write_text(
            f"recipe: image_classify\nmodel:\n  name: {value}\noptim: {{lr: 1}}\n"
        )
        text = said(capsys, "show", "mine.yaml", code=2)
        assert "model.name takes the name of a model" in text and text.endswith("(mine.yaml:3)\n")


def test_show_has_the_models_own_options(house: Path, capsys: pytest.CaptureFixture[str]):
    words = ["show", "image_classify/vit", "--model.drop_path", "0.2", "--model.head.pool", "mean"]
    last = said(capsys, *words).splitlines()[-1]
    assert re.fullmatch(r"the model has \d+ more options: zoo show image_classify/vit --all", last)
    rows = [row for row in cells(said(capsys, *words, "--all")) if row[0].startswith("model.")]
    values = {row[0]: row[1:] for row in rows}
    assert len(values) == len(rows) > 30  # each once
    assert values["model.drop_path"] == ["0.2", "flag --model.drop_path"]
    assert values["model.head.pool"] == ["mean", "flag --model.head.pool"]
    assert values["model.backbone.drop_tokens"] == ["0.0", "default"]
    assert values["model.block.mlp.activation"] == ["gelu", "default"]
    assert not {"model.backbone.drop_path", "model.head.classes"} & values.keys()
    assert values["model.head.target"] == ["from the data"]
    assert int(last.split()[3]) == sum(row[-1] in ("default", "from the data") for row in rows)


@pytest.mark.parametrize(
    "name", [n for n in recipes.names() if "load: " not in recipes.find(n).read_text()]
)
def test_show_gives_options_as_flags_take_them(name: str, capsys: pytest.CaptureFixture[str]):
    """Each line's key is taken, as `train` would, with the value beside it."""
    rows = cells(said(capsys, "show", name, "--all"))
    lines = {row[0]: row[1] for row in rows if row[0].startswith("model.") and row[-1] == "default"}
    assert len(lines) > 15
    kind = KINDS[name.split("/")[0]]
    for key, value in lines.items():
        model = training.resolve(name, typed({"data.train": "x", key: value})).config.model
        with torch.device("meta"):
            make_model(model, ["a", "b"], kind=kind, prepare=stand_in(kind))
    data = {row[0] for row in rows if row[-1] == "from the data"}
    sequences = {"model.adapter.length", "model.adapter.size"}
    assert "model.head.target" in data and (
        kind in ("picture", "scene", "boxes", "unlabelled") or data & sequences
    )


def test_show_fetches_nothing_from_the_hub(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("zoo.weights.fetch", lambda name: pytest.fail("it was fetched"))
    shown = said(capsys, "show", "image_segment/swin_tiny_finetune", "--all")
    assert "timm/swin_tiny_patch4_window7_224.ms_in1k" in shown
    zoo.create("swin_mu_patch4_window4_64").save(tmp_path / "swin")
    words = ["show", "image_segment/swin_tiny_finetune", "--all", "--model.load"]
    words += [str(tmp_path / "swin")]
    rows = {row[0]: row[1:] for row in cells(said(capsys, *words))}
    assert rows["model.head.dropout"] == ["0.0", "the loaded model"]


def test_show_reads_a_saved_model(house: Path, capsys: pytest.CaptureFixture[str]):
    zoo.create("vit_mu_patch8_32", classes=3).save(house / "saved")
    zoo.create("vit_mu_patch8_32", head=None).save(house / "headless")
    zoo.create("bert_mu", classes=2).save(house / "words")
    words = ["show", "image_classify/vit", "--model.load"]
    rows = {row[0]: row[1:] for row in cells(said(capsys, *words, "saved", "--all"))}
    assert rows["model.load"] == ["saved", "flag --model.load"]
    assert rows["model.head.pool"] == ["class", "the loaded model"]
    rows = {row[0]: row[1:] for row in cells(said(capsys, *words, "headless", "--all"))}
    assert rows["model.head.pool"] == ["class", "the loaded model"]  # a body gets one
    assert "bert_mu has no preprocessing for pictures" in said(capsys, *words, "words", code=2)
    for option in (["--model.size", "48"], ["--model.head.pool", "attention"]):
        with warnings.catch_warnings(action="error"):  # as torch gives for weights without values
            shown = said(capsys, *words, "saved", *option, "--all")
        assert {row[0]: row[1] for row in cells(shown)}[option[0][2:]] == option[1]


def test_what_nobody_foresaw_is_one_sentence_and_with_debug_a_traceback(monkeypatch, capsys):
    def fails(*_):
        raise RuntimeError("a wheel came off\nand rolled away")

    monkeypatch.setitem(cli.COMMANDS, "list", fails)
    assert cli.main(["list"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "RuntimeError: a wheel came off; the same" in said
    with pytest.raises(RuntimeError):
        cli.main(["list", "--debug"])


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            PermissionError(13, "Permission denied", "pictures/3"),
            "pictures/3 cannot be read or written: Permission denied; give what this user may read "
            "and write",
        ),
        (
            OSError(5, "Input/output error", Path("a.csv")),
            "a.csv cannot be read or written: Input/output error; the same with --debug shows where",
        ),
        (
            OSError(28, "No space left on device", "/tmp/scratch"),
            "a file cannot be written: No space left on device; make room, or write to another disk",
        ),
    ],
)
def test_what_the_system_refuses_is_one_sentence(monkeypatch, capsys, error, sentence):
    def fails(*_):
        raise error

    monkeypatch.setitem(cli.COMMANDS, "list", fails)
    assert said(capsys, "list", code=2) == sentence + "\n"
    with pytest.raises(OSError, match=error.strerror):
        cli.main(["list", "--debug"])


@pytest.mark.parametrize("flag", ["--data.train", "--data.val", "--data.test", "--run.dir"])
def test_empty_paths_are_no_paths(flag, capsys):
    assert cli.main(["show", "image_classify/vit_tiny_scratch", flag, ""]) == 2
    assert "got an empty word" in capsys.readouterr().err


def test_nothing_in_a_sentence_steers_the_terminal(monkeypatch, capsys, tmp_path):
    def fail(words):
        raise UserError("there is no a\x1b[31m\nb")

    monkeypatch.setattr(cli, "command", fail)
    assert cli.main(["list"]) == 2
    assert capsys.readouterr().err == "there is no a\\x1b[31m\\nb\n"
    assert listed(["a\nb", "\u202eabc"]) == "a\\nb, \\u202eabc" and is_text("a\nb")
    with speaking(), writing(tmp_path / "log.txt"):
        log.info("left out a\x1b[31mb")
    assert capsys.readouterr().out == "left out a\\x1b[31mb\n"
    assert (tmp_path / "log.txt").read_text().endswith("left out a\\x1b[31mb\n")


def test_predict_suggests_its_own_options(house: Path, capsys: pytest.CaptureFixture[str]):
    text = said(capsys, "predict", "m", "a.png", "--batch", "3", code=2)
    assert text.startswith("zoo predict has no option --batch") and "hw." not in text
    text = said(capsys, "predict", "m", "a.png", "--inptu", "x", code=2)
    assert text == "zoo predict has no option --inptu; did you mean '--input'?\n"


def test_too_much_memory_is_one_sentence(monkeypatch, capsys):
    says = "memory does not hold 4e+03 GB at once: make the model, its samples or batches smaller"

    def fail(words):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't "
                           "allocate memory: you tried to allocate 4000000000000 bytes.")  # fmt: skip

    monkeypatch.setattr(cli, "command", fail)
    assert cli.main(["list"]) == 2 and capsys.readouterr().err == says + "\n"
    monkeypatch.setattr("zoo.registry.build_part", fail)
    with pytest.raises(OptionError, match=r"memory does not hold 4e\+03 GB at once"):
        zoo.create("bert_mu")


def test_the_home_of_nobody_is_one_sentence(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (
        ["train", "image_classify/custom", "--data.train", "~nosuch/x"],
        ["evaluate", "~nosuch/x"],
        ["predict", "~nosuch/x", "a.png"],
        ["resume", "~nosuch/x"],
        ["copy", "image_classify/custom", "~nosuch/x/y"],
        ["train", "image_classify/custom", "--data.train", ".", "--run.dir", "~nosuch/x"],
    ):
        code = cli.main(words)
        err = capsys.readouterr().err.strip()
        assert (code, "\n" in err, "does not explain" in err) == (2, False, False), err
    assert not list(tmp_path.iterdir())


def test_the_help_of_parts_says_what_they_are_here(capsys):
    cli.main(["train", "text_classify/small_scratch", "--help"])
    said = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if "--" in line}
    assert "What is added" in said["--model.adapter.position"]
    assert "relation of places" in said["--model.backbone.position"]
    assert "Width inside" in said["--model.backbone.hidden"]
    assert "branch" in said["--model.backbone.dropout"] and "[q, k, v" in said["--model.lora.of"]


def test_an_option_of_the_backbone_is_known_without_its_section():
    with pytest.raises(OptionError, match=r"no section 'depth'; did you mean 'backbone.depth'"):
        make_model({"depth": 2, "backbone": {"dim": 8}}, ["a", "b"])
