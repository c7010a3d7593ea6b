"""The house keeps its own rules: layers, lengths, arrows, imports, and a README that runs."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import soundfile
from make_docs import code_lines
from PIL import Image

import zoo

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "zoo").rglob("*.py"))
HEAVY = ["lightning", "datasets", "timm", "torchvision", "torchaudio", "transformers", "sklearn",
         "matplotlib", "rich", "torchmetrics", "jsonargparse", "PIL", "yaml", "pandas"]  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_file_is_longer_than_a_reader_can_hold(path):
    assert code_lines(path) <= 250


def test_import_zoo_is_light():
    check = f"import sys, zoo; zoo.create; print([m for m in {HEAVY} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def tensor_functions():
    """Public functions and forwards of the model side that take or give Tensors."""
    for path in FILES:
        if path.relative_to(ROOT / "zoo").parts[0] not in ("ops", "nn", "adapters", "heads"):
            continue
        tree = ast.parse(path.read_text())
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        for node in (n for owner in (tree, *classes) for n in owner.body):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                annotations = [ast.unparse(a.annotation) for a in node.args.args if a.annotation]
                gives = ast.unparse(node.returns) if node.returns else ""
                if re.search(r"\b(Tensor|Tokens)\b", " ".join([*annotations, gives])):
                    yield pytest.param(node, id=f"{path.stem}.{node.name}")


@pytest.mark.parametrize("node", list(tensor_functions()))
def test_every_tensor_function_opens_with_its_arrow(node):
    lines = (ast.get_docstring(node) or "").splitlines()
    assert lines and "->" in "".join(lines[:2]), f"{node.name} says no shapes"


def test_one_attention_class_and_no_modules_in_families():
    names = {
        path: [n.name for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ClassDef)]
        for path in FILES
    }
    assert [n for found in names.values() for n in found if n.endswith("Attention")] == [
        "Attention"
    ]
    for path in (ROOT / "zoo" / "families").glob("*.py"):
        assert "nn.Module" not in path.read_text()


def test_only_attend_calls_the_fused_kernel():
    callers = [p.name for p in FILES if "scaled_dot_product_attention(" in p.read_text()]
    assert callers == ["attend.py"]


def test_no_pickle_and_no_asserts_for_users():
    for path in FILES:
        tree = ast.parse(path.read_text())
        assert not any(isinstance(node, ast.Assert) for node in ast.walk(tree)), path
        assert not re.search(
            r"weights_only\s*=\s*False|pickle\.load|\beval\(|\bexec\(",
            path.read_text().replace(".eval(", ""),
        ), path


def readme_blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", (ROOT / "README.md").read_text(), re.S)


def test_readme_python_runs(tmp_path, monkeypatch):
    """The snippets share one session, in a folder with the picture that they name."""
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (40, 30), "orange").save("cat.jpg")
    zoo.create("vit_mu_patch8_32", ["cat", "dog"]).save("runs/mine/model")  # what training leaves
    zoo.create("vit_tiny_patch16_224", 3).save("downloads/vit", layout="timm")
    session: dict = {}
    blocks = readme_blocks("python")
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), session)


def test_readme_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    lines = [line.split() for block in readme_blocks("sh") for line in block.splitlines()]
    targets = [words[1] for words in lines if words[:1] == ["make"]]
    assert targets == ["demo", "test"]  # `make slow` runs the demo itself, in a fresh clone
    assert all(f"\n{target}:" in makefile for target in targets)


def test_readme_commands_run(tmp_path, monkeypatch, capsys):
    """Every `zoo` line, in order, on pictures of the same names; training on a smaller model."""
    from zoo.cli import main

    monkeypatch.chdir(tmp_path)
    for folder, ending in (("pictures", "png"), ("held_out", "png")):
        for label, colour in (("cat", 20), ("dog", 200)):
            (tmp_path / folder / label).mkdir(parents=True)
            for i in range(8):
                picture = Image.new("RGB", (40, 30), (colour, i, len(folder)))
                picture.save(tmp_path / folder / label / f"{i}.{ending}")
    (tmp_path / "new").mkdir()
    Image.new("RGB", (40, 30), (200, 1, 1)).save(tmp_path / "new" / "a.jpg")
    for part in ("images", "masks", "instances"):
        (tmp_path / "cells" / part).mkdir(parents=True)
    for i in range(8):
        mask = np.zeros((40, 30), np.uint8)
        mask[: 5 + i] = 1
        for part in ("masks", "instances"):
            Image.fromarray(mask).save(tmp_path / "cells" / part / f"{i}.png")
        Image.fromarray(200 * mask).save(tmp_path / "cells" / "images" / f"{i}.png")
    words = [
        f"{w} and {v},{label}"
        for label, w in (("ham", "hello"), ("spam", "win"))
        for v in "abcdefgh"
    ]
    (tmp_path / "messages.csv").write_text("\n".join(["text,label", *words]) + "\n")
    for label, pitch in (("low", 200), ("high", 1500)):
        (tmp_path / "sounds" / label).mkdir(parents=True)
        for i in range(8):
            tone = 0.3 * np.sin(2 * np.pi * (pitch + i) * np.arange(4000) / 8000)
            soundfile.write(tmp_path / "sounds" / label / f"{i}.wav", tone, 8000)
    hours = np.arange("2024-01-01", "2024-02-10", dtype="datetime64[h]")
    rows = [f"{t},{np.sin(i / 4):.4f}" for i, t in enumerate(hours)]
    (tmp_path / "load.csv").write_text("\n".join(["date,load", *rows]) + "\n")
    lines = [line.split("#")[0].split() for b in readme_blocks("sh") for line in b.splitlines()]
    lines = [words[1:] for words in lines if words[:1] == ["zoo"]]
    assert {words[0] for words in lines} >= {"train", "evaluate", "predict", "list", "show", "copy"}
    parts = ["--model.adapter.dim", "32", "--model.backbone.dim", "32"]
    labels = ["cat", "dog"]
    for folder, name in (("vit", "vit_mu_patch8_32"), ("swin", "swin_mu_patch4_window4_64")):
        zoo.create(name, classes=5).save(tmp_path / folder, layout="timm")
    zoo.create("vit_mu_patch8_32", classes=labels).save(tmp_path / "runs" / "large" / "model")
    load = ["--model.load", "vit"]
    small = {
        "image_classify": ["--model.name", "vit_mu_patch8_32"],
        "image_classify/vit_base_finetune": load,
        "image_classify/vit_base_lora": load,
        "image_classify/vit_small_probe": [*load, "--model.size", "32"],
        "image_classify/swin_tiny_finetune": ["--model.load", "swin"],
        "image_distill": ["--model.name", "deit_mu_distilled_patch8_32"],
        "image_segment": ["--model.adapter.dim", "8", "--model.adapter.heads", "[1, 1, 1]"],
        "image_detect": [
            "--model.adapter.dim",
            "8",
            "--model.adapter.heads",
            "[1, 1, 1]",
            "--data.crop",
            "40",
        ],
        "text_classify": parts,
        "audio_classify": parts,
        "series_forecast": parts,
    }
    for words in lines:
        more = ["--run.epochs", "1", "--run.global_batch", "4"] if words[0] == "train" else []
        more += small.get(words[1]) or small[words[1].split("/")[0]] if more else []
        assert main([*words, *more]) == 0, words
    assert "dog" in capsys.readouterr().out


def test_nothing_tracked_names_this_machine():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    leak = re.compile(r"/(work|root|home|Users)/[A-Za-z._-]+/")
    for name in tracked.stdout.splitlines():
        path = ROOT / name
        if (
            path.suffix in {".py", ".md", ".yaml", ".toml", ""}
            and path.is_file()
            and name != "tests/test_house.py"
        ):
            assert not leak.search(path.read_text(errors="replace")), name


def test_the_lowest_versions_are_those_that_pyproject_allows():
    from packaging.version import Version

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    allowed = {}
    for line in project["dependencies"]:
        name, bound = re.match(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", line).groups()
        allowed[name] = Version(bound)
    pins = re.findall(r"^([\w-]+)==([\d.]+)$", (ROOT / "tests" / "lowest.txt").read_text(), re.M)
    assert {name: Version(v) for name, v in pins} == allowed
