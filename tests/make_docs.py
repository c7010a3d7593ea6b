"""Writes docs/parity.md and docs/lines.md from what is there; `make docs` runs it, tests check that they are current."""

import ast
import importlib.metadata
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from peers import CASES, distance, noisy

import zoo

ROOT = Path(__file__).parents[1]
MODEL_SIDE = ("registry.py", "model.py", "checkpoint.py", "convert.py", "tokens.py", "shapes.py",
              "errors.py", "__init__.py", "families", "adapters", "heads", "nn", "ops")  # fmt: skip


def code_lines(path: Path) -> int:
    """Lines that are neither blank, comment nor docstring."""
    text = path.read_text()
    doc: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for item in body if isinstance(body, list) else ():
            string = isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)
            if string and isinstance(item.value.value, str):
                doc |= set(range(item.lineno, (item.end_lineno or item.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(i not in doc and bool(line.strip()) and line.strip()[0] != "#" for i, line in lines)


def total(where: Path) -> int:
    files = [where] if where.is_file() else sorted(where.rglob("*.py"))
    return sum(code_lines(path) for path in files)


def lines() -> str:
    """docs/lines.md."""
    rows = {name: total(ROOT / "zoo" / name) for name in MODEL_SIDE}
    families = {p.stem: code_lines(p) for p in sorted((ROOT / "zoo" / "families").glob("*.py"))}
    families = {k: n for k, n in families.items() if k not in ("__init__", "family")}
    page = [
        "# Code lines", "",
        "Lines that are neither blank, comment nor docstring. Written by `make docs`; a test checks it.", "",
        "The model side: everything from a name to an answer.", "", "| part | code lines |", "|---|---:|",
        *(f"| `zoo/{name}` | {n} |" for name, n in rows.items()),
        f"| **together** | **{sum(rows.values())}** |", "",
        "What one more family costs:", "", "| family | code lines |", "|---|---:|",
        *(f"| `{name}` | {n} |" for name, n in families.items()), "",
    ]  # fmt: skip
    return "\n".join(page)


def parity() -> str:
    """docs/parity.md."""
    page = [
        "# Parity", "",
        "A tiny random member of the peer goes through the production rules into ours; both answer the same inputs.",
        "The figure is the norm of the difference over the norm, fp32 on CPU; the bound is 1e-5. Text is padded.",
        "Then our state goes back: every tensor bit for bit, and the peer loads it strictly. Written by `make docs`.", "",
        "| family | layout | features | answer | back, bit for bit |", "|---|---|---:|---:|---|",
    ]  # fmt: skip
    for case in CASES:
        peer = noisy(case.peer())
        model = zoo.create(case.name, **dict(case.options)).eval()
        zoo.load_state(model, peer.state_dict(), layout=case.layout)
        with torch.no_grad():
            features = f"{distance(*case.features(model, peer)):.0e}"
            answer = "-" if case.answer is None else f"{distance(*case.answer(model, peer)):.0e}"
        back, theirs = model.state_for(case.layout), peer.state_dict()
        same = back.keys() == theirs.keys() and all(
            torch.equal(back[k], t) for k, t in theirs.items()
        )
        page.append(
            f"| {case.name} | {case.layout} | {features} | {answer} | {'yes' if same else 'NO'} |"
        )
    versions = (f"{n} {importlib.metadata.version(n)}" for n in ("torch", "timm", "transformers"))
    return "\n".join([*page, "", f"Measured with {', '.join(versions)}.", ""])


def main() -> None:
    (ROOT / "docs" / "lines.md").write_text(lines())
    (ROOT / "docs" / "parity.md").write_text(parity())


if __name__ == "__main__":
    main()
