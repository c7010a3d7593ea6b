"""Files of weights: every wrapping that is met in the wild, and nothing that would be run."""

import argparse
import hashlib
import http.server
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import zoo
from zoo.errors import UserError
from zoo.weights import find_weights, read_weights

STATE = {"a.weight": torch.arange(6.0).view(2, 3), "a.bias": torch.ones(2)}


def same(found):
    return found.keys() == STATE.keys() and all(torch.equal(found[k], STATE[k]) for k in STATE)


@pytest.mark.parametrize(
    ("wrapped", "says"),
    [
        (STATE, []),
        ({"model": STATE, "epoch": 3}, ["taken from 'model', beside epoch"]),
        ({"state_dict": {f"module.{k}": v for k, v in STATE.items()}}, ["taken from 'state_dict'", "without the prefix 'module.'"]),
        ({"model": {}, "model_ema": STATE, "lr": 0.1}, ["taken from 'model_ema', beside model, lr"]),
        ({"state_dict": {"model": STATE}}, ["taken from 'state_dict'", "taken from 'model'"]),
        ({f"_orig_mod.module.{k}": v for k, v in STATE.items()}, ["without the prefix '_orig_mod.'", "without the prefix 'module.'"]),
        ({f"module._orig_mod.{k}": v for k, v in STATE.items()}, ["without the prefix 'module.'", "without the prefix '_orig_mod.'"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("legacy", [False, True])
def test_wrappings_are_taken_off_and_said(tmp_path, wrapped, says, legacy):
    file = tmp_path / "w.pth"
    torch.save(wrapped, file, _use_new_zipfile_serialization=not legacy)
    found, notes = read_weights(file)
    assert same(found) and notes == says


def test_every_kind_of_file(tmp_path):
    save_file(STATE, tmp_path / "model.safetensors")
    np.savez(tmp_path / "w.npz", **{k: v.numpy() for k, v in STATE.items()})
    for name in ("model.safetensors", "w.npz"):
        assert same(read_weights(tmp_path / name)[0])
    assert find_weights(tmp_path) == tmp_path / "model.safetensors"


def shards(folder: Path, where=None):
    for i, (key, tensor) in enumerate(STATE.items()):
        save_file({key: tensor}, folder / f"model-{i}.safetensors")
    where = where or {key: f"model-{i}.safetensors" for i, key in enumerate(STATE)}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": where}))
    return index


def test_shards_are_one(tmp_path):
    index = shards(tmp_path)
    found, notes = read_weights(find_weights(tmp_path))
    assert find_weights(tmp_path) == index and same(found) and notes == ["from 2 files"]


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ({"a.weight": "model-0.safetensors"}, "None"),
        ({"a.weight": "model-0.safetensors", "a.bias": "model-9.safetensors"}, "model-9.safetensors, which is not there"),
        ({"a.weight": "model-0.safetensors", "a.bias": "model-1.safetensors", "b": "model-1.safetensors"}, "differ in b"),
        ({"a.weight": "../model-0.safetensors"}, "names files beside it"),
        (["x"], "no index of weights"),
    ],
)  # fmt: skip
def test_shards_that_do_not_fit_are_refused(tmp_path, where, says):
    index = shards(tmp_path, where)
    if says == "None":  # a file that no tensor needs is not read
        assert read_weights(index)[0].keys() == {"a.weight"}
        return
    with pytest.raises(UserError, match=says):
        read_weights(index)


class Harmful:
    """What a pickle would run."""

    def __reduce__(self):
        return (Path.touch, (Path("ran"),))


@pytest.mark.parametrize(
    "what", ["code", "objects", "raw pickle", "cut", "text", "list", "empty", "none"]
)
def test_nothing_is_run_and_nothing_half_read(tmp_path, monkeypatch, what):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "w.pth"
    if what == "code":
        torch.save({"model": STATE, "x": Harmful()}, file)
    elif what == "objects":
        torch.save({"model": STATE, "args": argparse.Namespace(lr=1)}, file)
    elif what == "raw pickle":
        file.write_bytes(pickle.dumps(Harmful()))
    elif what == "cut":
        torch.save(STATE, file)
        file.write_bytes(file.read_bytes()[:-200])
    elif what == "text":
        file.write_text("no weights")
    elif what == "list":
        torch.save([1, 2], file)
    elif what == "empty":
        file.touch()
    else:
        torch.save({"epoch": 3}, file)
    with pytest.raises(UserError) as caught:
        read_weights(file)
    said = str(caught.value)
    assert str(file) in said and "\n" not in said and not Path("ran").exists()
    if what == "objects":
        assert "argparse.Namespace, which would have to be run" in said


def test_what_flax_stacks_is_taken_apart(tmp_path):
    both = np.arange(12.0, dtype=np.float32).reshape(2, 2, 3)
    np.savez(tmp_path / "w.npz", **{"x/encoderblock/LayerNorm_0/scale": both, "x/cls": both[0]})
    found, _ = read_weights(tmp_path / "w.npz")
    assert found.keys() == {f"x/encoderblock_{i}/LayerNorm_0/scale" for i in (0, 1)} | {"x/cls"}
    for i in (0, 1):
        assert found[f"x/encoderblock_{i}/LayerNorm_0/scale"].tolist() == both[i].tolist()


def test_bfloat16_of_numpy_files(tmp_path):
    """Two bytes without a type, as numpy keeps those of ml_dtypes."""
    wanted = torch.tensor([1.0, -2.5, 3.25e30], dtype=torch.bfloat16)
    np.savez(tmp_path / "w.npz", a=wanted.view(torch.int16).numpy().view("V2"))
    assert torch.equal(read_weights(tmp_path / "w.npz")[0]["a"], wanted)


def test_objects_in_numpy_files_are_refused(tmp_path):
    np.savez(tmp_path / "w.npz", a=np.array([Harmful()], dtype=object))
    with pytest.raises(UserError, match=r"not a whole \.npz of numbers"):
        read_weights(tmp_path / "w.npz")


@pytest.mark.parametrize("name", ["absent", "absent.safetensors", "x.txt", "folder"])
def test_where_there_are_no_weights(tmp_path, name):
    (tmp_path / "x.txt").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="weights are a file that ends in"):
        find_weights(tmp_path / name)


HUB = """
import sys
from zoo.weights import fetch, read_weights, find_weights
folder = fetch(sys.argv[1])
print(sorted(read_weights(find_weights(folder))[0]), len(list(folder.glob("*config.json"))))
"""


class Hub(http.server.BaseHTTPRequestHandler):
    """The Hub's route of files: /owner/model/resolve/revision/file."""

    files: ClassVar[dict[str, bytes]] = {}
    asked: ClassVar[list[str]] = []

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body: bool):
        name = self.path.split("?")[0].rpartition("/resolve/")[2].partition("/")[2]
        data = self.files.get(name)
        if "/some/model/" not in self.path or data is None:
            missing = "RepoNotFound" if "/some/model/" not in self.path else "EntryNotFound"
            self.send_response(404)
            self.send_header("X-Error-Code", missing)
            self.send_header("X-Repo-Commit", "c" * 40)
            self.end_headers()
            return
        self.asked.append(name)
        self.send_response(200)
        self.send_header("X-Repo-Commit", "c" * 40)
        self.send_header("ETag", f'"{hashlib.sha1(data).hexdigest()}"')
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *args):
        pass


@pytest.fixture
def hub():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.mark.parametrize("several", [False, True])
def test_a_model_of_the_hub_is_fetched_once_and_then_read_without_network(tmp_path, hub, several):
    index = shards(tmp_path)
    save_file(STATE, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text("{}")
    names = [p.name for p in tmp_path.glob("model*")] if several else ["model.safetensors"]
    names = [n for n in names if not several or n != "model.safetensors"]
    configs = ["config.json", "preprocessor_config.json"]
    (tmp_path / configs[1]).write_text("{}")
    Hub.files = {name: (tmp_path / name).read_bytes() for name in [*configs, *names]}
    assert not several or index.name in Hub.files

    def run(name, **more):
        online = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"}
        env = {**online, "HF_ENDPOINT": hub, "HF_HOME": str(tmp_path / "home"), **more}
        env |= {"HF_HUB_DISABLE_XET": "1", "PYTHONPATH": str(Path(zoo.__file__).parents[1])}
        words = [sys.executable, "-c", HUB, name]
        return subprocess.run(words, capture_output=True, text=True, env=env, timeout=120)

    done = run("some/model")
    assert done.stdout == "['a.bias', 'a.weight'] 2\n", done.stderr
    asked = len(Hub.asked)
    assert run("some/model", HF_HUB_OFFLINE="1").stdout == done.stdout and len(Hub.asked) == asked
    elsewhere = "(--model.load FOLDER or FILE takes what was downloaded elsewhere)"
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    for more in ({}, {"HF_HUB_OFFLINE": "1"}, nowhere):
        start = time.monotonic()
        *lines, last = run("some/other", **more).stderr.strip().splitlines()
        assert "load takes a folder, a file or a model of the Hub; some/other is none" in last
        assert last.endswith(elsewhere) == bool(more)
        assert not any("Retrying" in line for line in lines)
        assert time.monotonic() - start < 60  # 9 files, each tried for 23 s, would be more
    assert run("some/model", **nowhere).stdout == done.stdout  # what is here needs no network
