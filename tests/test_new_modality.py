"""The page about a modality from outside: its package is built, installed and used as it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from zoo.training import recipes

PAGE = Path(__file__).parents[1] / "docs" / "new-modality.md"
LINES = 40  # the whole package, blank lines apart


def blocks():
    """[(file name, content)] of the package, and the commands."""
    text = PAGE.read_text(encoding="utf-8")
    files = re.findall(r"`(stretches/\S+)`[^`]*?:\n\n```\w+\n(.*?)```", text, re.S)
    commands = re.search(r"```sh\n(.*?)```", text, re.S)
    assert commands is not None
    return files, commands[1].splitlines()


def test_the_package_is_short():
    files, _ = blocks()
    assert len(files) == 2
    assert sum(bool(line.strip()) for _, code in files for line in code.splitlines()) <= LINES


def test_it_is_built_installed_and_used(tmp_path):
    files, commands = blocks()
    for name, code in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(code)
    hours = np.arange("2024-01-01", "2024-01-13", dtype="datetime64[h]")
    waves = np.sin(np.arange(len(hours)) / 4)
    rows = [f"{t},{w:.4f},{-w:.4f}" for t, w in zip(hours, waves, strict=True)]
    (tmp_path / "series.csv").write_text("\n".join(["date,load,OT", *rows]) + "\n")
    site = tmp_path / "site"
    more = {
        "pip": ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(site)],
        "train": ["--data.past", "24", "--data.ahead", "4",
                  "--run.epochs", "1", "--hw.accelerator", "cpu"],
    }  # fmt: skip
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(site), str(recipes.PACKAGE.parent)]),
        "HF_DATASETS_CACHE": str(tmp_path / "cache"),
    }
    said = {}
    for command in commands:
        program, verb, *words = command.split()
        run = [sys.executable, "-m", "zoo.cli" if program == "zoo" else "pip", verb, *words]
        run += more.get(program if program == "pip" else verb, [])
        done = subprocess.run(
            run, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        said[verb] = done.stdout
    assert "Stretches" in said["list"] and "ok" in said["list"]
    assert "OT" in said["predict"]
    assert (tmp_path / "runs/stretches/model/config.json").read_text().count("Stretches") == 1
    with pytest.raises(subprocess.CalledProcessError):  # without the package it is no such part
        environment["PYTHONPATH"] = str(recipes.PACKAGE.parent)
        subprocess.run([sys.executable, "-m", "zoo.cli", "predict", "runs/stretches", "series.csv"],
                       cwd=tmp_path, env=environment, capture_output=True, check=True)  # fmt: skip
