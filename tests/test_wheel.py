"""What is installed works away from the checkout: recipes and configs travel inside the wheel."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[1]


def run(*words, cwd, env=None, **kwargs):
    done = subprocess.run(
        [str(w) for w in words], cwd=cwd, env=env, capture_output=True, text=True, **kwargs
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pictures(folder: Path) -> Path:
    for i in range(12):
        for label, colour in (("red", (200, 20, 20)), ("blue", (20, 20, 200))):
            (folder / label).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (32, 32), tuple(c + i for c in colour)).save(
                folder / label / f"{i}.png"
            )
    return folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, cwd=ROOT)
    return next(out.glob("*.whl"))


SMALL = ["--model.name", "vit_mu_patch8_32", "--run.epochs", "1", "--hw.workers", "0"]


def test_an_installed_wheel_lists_and_trains(wheel, tmp_path):
    target, away = tmp_path / "target", tmp_path / "away"
    away.mkdir()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target]
    run(*pip, wheel, cwd=away)
    env = {**os.environ, "PYTHONPATH": str(target)}
    where = run(sys.executable, "-c", "import zoo; print(zoo.__file__)", cwd=away, env=env)
    assert Path(where.strip()).is_relative_to(target)
    zoo = [sys.executable, "-m", "zoo.cli"]
    assert "image_classify/vit_tiny_scratch" in run(*zoo, "list", "recipes", cwd=away, env=env)
    data = pictures(away / "pictures")
    run(*zoo, "train", "image_classify/vit_tiny_scratch", "--data.train", data, "--run.dir", "run",
        *SMALL, cwd=away, env=env)  # fmt: skip
    out = run(*zoo, "predict", "run", data / "red" / "0.png", cwd=away, env=env)
    assert "red" in out or "blue" in out


@pytest.mark.slow
def test_a_wheel_in_an_empty_environment(wheel, tmp_path):
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    run(tmp_path / "venv" / "bin" / "pip", "install", "--quiet", wheel, cwd=tmp_path)
    zoo = tmp_path / "venv" / "bin" / "zoo"
    assert "image_classify/vit_tiny_scratch" in run(zoo, "list", cwd=tmp_path)
    data = pictures(tmp_path / "pictures")
    run(zoo, "train", "image_classify/vit_tiny_scratch", "--data.train", data, "--run.dir", "run",
        *SMALL, cwd=tmp_path)  # fmt: skip
    assert (tmp_path / "run" / "model" / "model.safetensors").exists()


@pytest.mark.slow
def test_a_fresh_clone_runs_the_demo(tmp_path):
    run("git", "clone", "--quiet", ROOT, tmp_path / "clone", cwd=tmp_path)
    out = run("make", "demo", cwd=tmp_path / "clone")
    assert "accuracy" in out
    assert (tmp_path / "clone" / "runs" / "demo" / "report.md").exists()
