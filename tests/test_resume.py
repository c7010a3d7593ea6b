"""A run that was stopped and resumed ends as one that was not, to the bit."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from test_recipes import data, miniature  # noqa: F401  # a fixture

import zoo
from zoo import cli, training
from zoo.errors import UserError
from zoo.training import recipes, resuming, saving

RECIPE = "image_classify/vit_tiny_scratch"
SAME = ("epochs", "steps", "weights", "val", "test", "interrupted", "failed", "baselines")
EVERYTHING = {  # that is drawn at random, or has a state of its own
    "data.augment": "strong",
    "data.mix": "both",
    "model.drop_path": 0.2,
    "ema.decay": 0.9,
    "optim.unfreeze": 0.5,
    "optim.layer_decay": 0.8,
}
KILLED = """
import os, signal, sys
from zoo import training
from zoo.training.task import Task

step = Task.training_step

def killed(task, batch, index):
    if task.global_step == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return step(task, batch, index)

Task.training_step = killed
training.train(sys.argv[1])
"""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """train (2 x 10) and test (2 x 3) pictures of noise, one class lighter."""
    from PIL import Image

    root, noise = tmp_path_factory.mktemp("pictures"), torch.Generator().manual_seed(0)
    for split, count in (("train", 10), ("test", 3)):
        for name, light in (("dark", 80), ("light", 140)):
            (root / split / name).mkdir(parents=True)
            for i in range(count):
                values = (torch.randn(32, 32, 3, generator=noise) * 50 + light).clamp(0, 255)
                Image.fromarray(values.byte().numpy()).save(root / split / name / f"{i}.png")
    return root


@pytest.fixture(scope="module")
def options(pictures):
    """4 epochs of 2 optimizer steps, with 4 pictures to choose by."""
    return {
        "data.train": str(pictures / "train"),
        "data.test": str(pictures / "test"),
        "data.val": 0.2,
        "model.name": "vit_mu_patch8_32",
        "optim.lr": 3e-3,
        "run.epochs": 4,
        "run.global_batch": 8,
        "run.log_every": 1,
        "hw.accelerator": "cpu",
        "hw.precision": "fp32",
        "hw.workers": 0,
        **EVERYTHING,
    }


@pytest.fixture(scope="module")
def whole(options, tmp_path_factory):
    """The run that was not stopped."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    training.train(RECIPE, {**options, "run.dir": folder})
    return folder


def stop_at(monkeypatch, step, what=signal.SIGINT, hook="training_step"):
    """Ctrl-C in a step, once."""
    before, asked = getattr(training.Task, hook), []

    def stopped(task, batch, index):
        if task.global_step == step and not asked:
            asked.append(signal.raise_signal(what))
        return before(task, batch, index)

    monkeypatch.setattr(training.Task, hook, stopped)


def stopped_run(options, folder, monkeypatch, step=5, **given):
    """A run that Ctrl-C ended in the step after `step`."""
    with monkeypatch.context() as patch:
        stop_at(patch, step, **given)
        with pytest.raises(SystemExit) as exit:
            training.train(RECIPE, {**options, "run.dir": folder})
    assert exit.value.code == 130
    return folder


def read(file):
    return json.loads(Path(file).read_text())


def assert_same(one, other):
    """Losses, rates and metrics of each step, weights, the optimizer, and the result."""
    assert (one / "metrics.csv").read_text() == (other / "metrics.csv").read_text()
    for name in ("best", "last"):
        a, b = (saving.read_checkpoint(f / f"checkpoints/{name}.ckpt") for f in (one, other))
        for key in ("state_dict", "current_model_state", "averaging_state"):
            assert a.get(key, {}).keys() == b.get(key, {}).keys()
            assert all(torch.equal(v, b[key][k]) for k, v in a.get(key, {}).items())
        moments = [s["optimizer_states"][0]["state"] for s in (a, b)]
        assert all(torch.equal(v["exp_avg_sq"], moments[1][k]["exp_avg_sq"])
                   for k, v in moments[0].items())  # fmt: skip
        assert a["epoch"] == b["epoch"] and a["global_step"] == b["global_step"]
    assert {k: read(one / "result.json").get(k) for k in SAME} == {
        k: read(other / "result.json").get(k) for k in SAME
    }
    a, b = (zoo.load(folder / "model").state_dict() for folder in (one, other))
    assert all(torch.equal(v, b[k]) for k, v in a.items())
    files = [{p.relative_to(f) for f in [folder] for p in f.rglob("*") if "tfevents" not in p.name}
             for folder in (one, other)]  # fmt: skip
    assert files[0] == files[1]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_that_was_stopped_in_an_epoch_ends_as_if_it_had_not_been(
    options, whole, tmp_path, monkeypatch, capfd, workers
):
    given = {**options, "hw.workers": workers}
    run = stopped_run(given, tmp_path / "run", monkeypatch)
    assert f"to go on: zoo resume {run}" in capfd.readouterr().out
    assert saving.read_checkpoint(run / "checkpoints/last.ckpt")["global_step"] == 4
    assert not (run / "checkpoints/stopped.ckpt").exists()
    command = (run / "command.txt").read_text()
    result = training.resume(run)
    said = capfd.readouterr().out
    assert "going on after epoch 2 of 4, step 4; what was done of epoch 3 is done again" in said
    assert_same(run, whole)
    assert result.folder == run and result.metrics["test"] == read(whole / "result.json")["test"]
    assert (run / "command.txt").read_text() == command
    assert command.strip() in (run / "report.md").read_text()
    log = (run / "log.txt").read_text()
    assert "interrupted after step 6" in log and "epoch 4/4  step 8/8" in log


@pytest.mark.parametrize(("step", "workers"), [(7, 2), (1, 0)])
def test_a_run_that_was_killed_does_too(options, whole, tmp_path, capfd, step, workers):
    """In the last epoch; and in the first, of which there is no checkpoint."""
    given = {**options, "hw.workers": workers, "run.dir": str(tmp_path / "run")}
    (tmp_path / "mine.yaml").write_text(training.resolve(RECIPE, given).config.to_yaml())
    (tmp_path / "killed.py").write_text(KILLED)
    path = str(Path(zoo.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "killed.py", "mine.yaml", str(step)], cwd=tmp_path, timeout=240,
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (tmp_path / "run/result.json").exists() and (tmp_path / "run/.running").exists()
    training.resume(tmp_path / "run")
    anew = "there is no checkpoint yet: it begins anew"
    assert (anew if step == 1 else "going on after epoch 3 of 4") in capfd.readouterr().out
    assert_same(tmp_path / "run", whole)


@pytest.mark.slow
def test_two_processes_go_on_as_one_does(options, tmp_path):
    """Each rank draws for itself; the signal comes to one of them."""
    path = str(Path(zoo.__file__).parents[1])
    space = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}

    def run(*words):
        return subprocess.run([sys.executable, *words], cwd=tmp_path, timeout=240, env=space,
                              capture_output=True, text=True)  # fmt: skip

    code = KILLED.replace(
        "os.kill(os.getpid(), signal.SIGKILL)", "signal.raise_signal(signal.SIGINT)"
    )
    code = code.replace("if ", "if os.environ.get('LOCAL_RANK') == '1' and ")
    (tmp_path / "stopped.py").write_text(code)
    for name in ("whole", "run"):
        given = {**options, "hw.devices": 2, "run.dir": str(tmp_path / name)}
        (tmp_path / f"{name}.yaml").write_text(training.resolve(RECIPE, given).config.to_yaml())
        done = run("stopped.py", f"{name}.yaml", "5" if name == "run" else "-1")
        assert done.returncode == (130 if name == "run" else 0), done.stderr
    done = run("-m", "zoo.cli", "resume", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("going on after epoch 2 of 4") == 1
    assert_same(tmp_path / "run", tmp_path / "whole")


def test_a_run_stopped_in_validation_has_the_epoch_behind_it(options, whole, tmp_path, monkeypatch):
    run = stopped_run(options, tmp_path / "run", monkeypatch, 4, hook="validation_step")
    assert saving.newest(run / "checkpoints").epochs == 2
    moved = tmp_path / "elsewhere"  # the best so far is known there too
    shutil.move(run, moved)
    training.resume(moved)
    assert_same(moved, whole)


@pytest.fixture(scope="module")
def once_stopped(options, tmp_path_factory):
    """A run that Ctrl-C ended, to be copied."""
    with pytest.MonkeyPatch.context() as patch:
        return stopped_run(options, tmp_path_factory.mktemp("stopped") / "run", patch)


def test_a_damaged_checkpoint_is_passed_over(options, whole, tmp_path, monkeypatch, capfd):
    run = stopped_run(options, tmp_path / "run", monkeypatch)
    last, best = (run / f"checkpoints/{name}.ckpt" for name in ("last", "best"))
    kept = last.read_bytes()
    last.write_bytes(kept[: len(kept) // 2])
    best.write_bytes(b"")
    with pytest.raises(UserError, match=r"takes a run with a checkpoint that can be read; .* none"):
        training.resume(run)
    best.write_bytes(kept)  # that of an epoch as any
    training.resume(run)
    said = capfd.readouterr().out
    assert "last.ckpt is no whole checkpoint and passed over" in said
    assert "going on after epoch 2 of 4" in said
    assert (run / "metrics.csv").read_text() == (whole / "metrics.csv").read_text()


def drop(*path):
    """Takes a key out of a checkpoint."""

    def taken(state):
        *above, last = path
        for key in above:
            state = state[key]
        del state[last]

    return taken


def put(value, *path):
    def changed(state):
        *above, last = path
        for key in above:
            state = state[key]
        state[last] = value

    return changed


DONE = ("callbacks", "Progress", "epochs_done")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (put("abc", *DONE), r"last.ckpt: callbacks.Progress.epochs_done is 'abc'"),
        (put(-5, *DONE), r"last.ckpt: callbacks.Progress.epochs_done is -5"),
        (drop("callbacks", "Progress"), r"last.ckpt: it has no 'Progress'"),
        (drop("state_dict"), r"last.ckpt: it has no state_dict"),
        (drop("optimizer_states"), r"last.ckpt: it has no optimizer_states"),
        (drop("state_dict", "model.head.out.bias"), r"last.ckpt: it has no 'model.head.out.bias'"),
        (put(torch.zeros(7), "state_dict", "model.head.out.bias"), r"head.out.bias is \(7,\), not"),
        (drop("optimizer_states", 0, "param_groups"), r"last.ckpt does not fit its run \(it has no "),
        (drop("callbacks", "Progress", "seconds"), r"last.ckpt does not fit its run \(it has no "),
        (put({}, "loops"), r"last.ckpt does not fit its run \("),
    ],
)  # fmt: skip
def test_a_checkpoint_that_reads_and_is_wrong_is_one_sentence(tmp_path, once_stopped, spoil, says):
    run = tmp_path / "run"
    shutil.copytree(once_stopped, run)
    (run / "checkpoints/best.ckpt").unlink()
    state = saving.read_checkpoint(last := run / "checkpoints/last.ckpt")
    spoil(state)
    torch.save(state, last)
    before = {p: p.stat().st_mtime_ns for p in (run / "checkpoints").iterdir()}
    with pytest.raises(UserError, match=f"checkpoint that can be read; .*{says}.*: train anew"):
        training.resume(run)
    assert before == {p: p.stat().st_mtime_ns for p in (run / "checkpoints").iterdir()}


class Evil:
    def __reduce__(self):
        return (os.mkdir, (os.environ["EVIL"],))


def test_no_object_is_unpickled(options, tmp_path, monkeypatch):
    run = stopped_run(options, tmp_path / "run", monkeypatch)
    monkeypatch.setenv("EVIL", str(tmp_path / "evil"))
    for file in (run / "checkpoints").iterdir():
        torch.save({"callbacks": {"Progress": Evil()}}, file)
    with pytest.raises(UserError, match="checkpoint that can be read"):
        training.resume(run)
    assert not (tmp_path / "evil").exists()


def test_a_finished_run_says_so_and_stays_as_it_is(whole, capfd):
    before = {p: p.stat().st_mtime_ns for p in whole.rglob("*")}
    result = training.resume(whole)
    assert f"{whole} is finished, with epoch 4: see its report.md" in capfd.readouterr().out
    assert result.metrics["val"] == read(whole / "result.json")["val"]
    assert before == {p: p.stat().st_mtime_ns for p in whole.rglob("*")}


def test_what_patience_had_ended_is_not_trained_further(options, tmp_path, monkeypatch):
    """Stopped between the last epoch and the report."""

    def ended(*args):
        raise KeyboardInterrupt

    given = {**options, "select.patience": 1, "optim.lr": 1e-12, "ema.decay": None,
             "run.dir": tmp_path / "run"}  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(training.Run, "finish", ended)
        with pytest.raises(SystemExit):
            training.train(RECIPE, given)
    training.resume(tmp_path / "run")
    figures = read(tmp_path / "run/result.json")
    assert figures["epochs"] == 2 and figures["weights"] == "epoch 1" and figures["test"]


def test_a_run_without_validation_is_resumed(options, pictures, tmp_path, monkeypatch):
    given = {**options, "data.val": None, "run.epochs": 2, "ema.decay": None}
    training.train(RECIPE, {**given, "run.dir": tmp_path / "whole"})
    run = stopped_run(given, tmp_path / "run", monkeypatch, 4)
    within = zoo.load(run / "model").state_dict()
    end = saving.read_checkpoint(run / "checkpoints/last.ckpt")
    assert end["global_step"] == 3  # the model so far has learned two steps more
    assert any(not torch.equal(end["state_dict"][f"model.{k}"], v) for k, v in within.items())
    training.resume(run)
    one, two = (zoo.load(f / "model").state_dict() for f in (tmp_path / "whole", run))
    assert all(torch.equal(v, two[k]) for k, v in one.items())


@pytest.mark.parametrize(
    ("now", "says"),
    [
        ({}, "as many rows of the same labels, of which some are other ones"),
        ({"labels": ["a", "c"], "counts": {"train": [5, 3], "val": [1, 1]}},
         "labels that are gone: b; labels that are new: c"),
        ({"counts": {"train": [4, 4], "val": [1, 1]}}, "train had 8 rows, now 8 (a: 5, now 4, b: 3, now 4)"),
        ({"rows": {"train": 8}, "counts": {"train": [5, 3]}}, "val had 2 rows, now 0"),
        ({"rows": {"train": 8, "test": 1, "val": 2}}, "test had 0 rows, now 1"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("numbers", [False, True])
def test_changed_data_are_told_as_far_as_their_facts_tell(now, says, numbers):
    then = {"labels": ["a", "b"], "rows": {"train": 8, "val": 2},
            "counts": {"train": [5, 3], "val": [1, 1]}}  # fmt: skip
    now = then | now
    if numbers:  # which have no counts
        then, now = ({k: v for k, v in facts.items() if k != "counts"} for facts in (then, now))
        says = "as many rows" if "(" in says else says
    assert resuming.changes(then, now).startswith(says)


def test_other_data_are_refused_and_nothing_is_lost(options, pictures, tmp_path, monkeypatch):
    from PIL import Image

    shutil.copytree(pictures / "train", tmp_path / "train")
    given = {**options, "data.train": str(tmp_path / "train")}
    run = stopped_run(given, tmp_path / "run", monkeypatch)
    before = sorted(run.rglob("*"))
    (tmp_path / "train/dark/0.png").rename(tmp_path / "0.png")
    for change, says in (
        (lambda: None, r"\(train had 16 rows, now 15 \(dark: 8, now 7\)\)"),
        (lambda: Image.new("RGB", (32, 32)).save(tmp_path / "train/dark/0.png"),
         r"\(as many rows of the same labels, of which some are other ones\)"),
    ):  # fmt: skip
        change()
        with pytest.raises(UserError, match=f"began with; they have changed since {says}: bring"):
            training.resume(run)
    (tmp_path / "0.png").rename(tmp_path / "train/dark/0.png")

    def broken(task, batch, index):
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:  # nor is anything by an error before the first step
        patch.setattr(training.Task, "training_step", broken)
        with pytest.raises(RuntimeError, match="out of memory"):
            training.resume(run)
    assert set(before) <= set(run.rglob("*"))
    assert training.resume(run).metrics["test"]


def test_a_folder_that_holds_a_run_says_how_to_go_on(options, whole, tmp_path, monkeypatch):
    run = stopped_run(options, tmp_path / "run", monkeypatch)
    given = {**options, "run.dir": run}
    goes_on = rf"`zoo resume {re.escape(str(run))}` goes on with it"
    with pytest.raises(UserError, match=rf"holds this run, not finished: {goes_on}, or give anoth"):
        training.train(RECIPE, given)
    differ = r"of other values \(optim.lr 0.003 there, 0.1 here\)"
    with pytest.raises(UserError, match=rf"{differ}: {goes_on} as it was, or give another"):
        training.train(RECIPE, {**given, "optim.lr": 0.1})
    with pytest.raises(UserError, match=r"which holds a finished run: give another --run.dir"):
        training.train(RECIPE, {**options, "run.dir": whole})


HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_run_that_is_still_trained_is_refused(options, tmp_path, monkeypatch):
    run = stopped_run(options, tmp_path / "run", monkeypatch)
    words = [sys.executable, "-c", HOLDER, str(run / resuming.RUNNING)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=r"a process still trains .*run: wait for its end"):
            training.resume(run)
        other.communicate("")
    assert training.resume(run).metrics["val"]


def test_a_script_must_begin_where_the_run_goes_on(options, tmp_path, monkeypatch):
    text = Path(zoo.__file__).parents[1].joinpath("recipes/image_classify.py").read_text()
    space: dict = {"__name__": "mine"}
    exec(text.replace(", ckpt_path=run.resumes", ""), space)
    run = stopped_run(options, tmp_path / "run", monkeypatch)
    with pytest.raises(UserError, match=r"takes a script with trainer.fit\(..., ckpt_path=run.res"):
        training.resume(run, space["main"])
    exec(text, space)
    assert training.resume(run, space["main"]).metrics["val"]


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(
        UserError,
        match=r"takes the folder of a run; got .*, (without a config.yaml|which does not exist)",
    ):
        training.resume(tmp_path)
    with pytest.raises(UserError, match="takes the path of a run; got 5"):
        training.resume(5)


@pytest.mark.parametrize("command", ["resume", "evaluate"])
def test_a_slip_in_the_name_of_a_run_is_said_before_lightning_is_loaded(tmp_path, command, capfd):
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "config.yaml").write_text("recipe: image_classify")
    told = "does not exist; did you mean 'first'?"
    code = (
        "import sys; from zoo.cli import main; "
        f"code = main([{command!r}, {str(tmp_path / 'frist')!r}]); "
        "sys.exit(9 if 'lightning' in sys.modules else code)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 2 and told in run.stderr
    with pytest.raises(UserError, match=r"folder of a run; got .*did you mean 'first'"):
        getattr(training, command)(tmp_path / "frist")


def test_evaluate_knows_the_nearest_of_its_keys(tmp_path):
    (tmp_path / "config.yaml").write_text("recipe: image_classify")
    with pytest.raises(UserError, match=r"got data.tset; did you mean 'data.test'\?"):
        training.evaluate(tmp_path, overrides={"data.tset": "x"})


def test_the_command_line(whole, capfd):
    assert cli.main(["resume", str(whole)]) == 0
    assert "is finished" in capfd.readouterr().out
    assert cli.main(["resume", str(whole), "--optim.lr", "1"]) == 2
    assert "zoo resume takes no keys of a config; got --optim.lr" in capfd.readouterr().err
    assert cli.script(print, ["--resume", str(whole)]) == 0
    assert "is finished" in capfd.readouterr().out
    assert cli.script(print, ["--resume", str(whole), "--optim.lr", "1"]) == 2
    assert "takes no keys of a config beside --resume" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", recipes.names())
def test_each_recipe_goes_on(name, data, tmp_path, monkeypatch):  # noqa: F811
    """What a task draws or keeps beside: hidden parts, features, updates, a teacher."""
    given = {**miniature(name, data, tmp_path / "whole"), "run.epochs": 2, "hw.threads": 1}
    training.train(name, given)
    step = training.Task.training_step

    def stopped(task, batch, index):
        if task.current_epoch == 1:
            raise KeyboardInterrupt
        return step(task, batch, index)

    with monkeypatch.context() as patch:
        patch.setattr(training.Task, "training_step", stopped)
        with pytest.raises(SystemExit):
            training.train(name, {**given, "run.dir": str(tmp_path / "run")})
    training.resume(tmp_path / "run")
    assert_same(tmp_path / "run", tmp_path / "whole")
