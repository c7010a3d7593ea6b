"""Writes docs/parity.md and docs/lines.md from what is there; `make docs` runs it, tests check that they are current."""

import ast
import importlib.metadata
import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from peers import CASES, distance, noisy

import zoo

ROOT = Path(__file__).parents[1]
MODEL_SIDE = ("loading.py", "resizing.py", "registry.py", "configs.py", "extend.py", "model.py", "checkpoint.py", "weights.py", "hf.py", "openclip.py", "facts.py", "giving.py", "matching.py", "convert.py", "tokens.py", "shapes.py",
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
        zoo.load_state(model, case.state(peer), layout=case.layout)
        with torch.no_grad():
            features = f"{distance(*case.features(model, peer)):.0e}"
            answer = "-" if case.answer is None else f"{distance(*case.answer(model, peer)):.0e}"
        back, theirs = model.state_for(case.layout), case.state(peer)
        same = back.keys() == theirs.keys() and all(
            torch.equal(back[k], t) for k, t in theirs.items()
        )
        page.append(
            f"| {case.name} | {case.layout} | {features} | {answer} | {'yes' if same else 'NO'} |"
        )
    versions = (f"{n} {importlib.metadata.version(n)}" for n in ("torch", "timm", "transformers"))
    return "\n".join([*page, "", f"Measured with {', '.join(versions)}.", ""])


WHAT = {
    "digits": "`make demo`: scikit-learn's handwritten digits, 20 % held out, stratified; test read once per seed",
    "vit-bf16": "ViT-B/16 forward, bf16, 224 px, batch 8: times as fast as timm",
    "packed-bf16": "ViT-B/16 forward by `zoo.fast.Packed`, bf16, 224 px, batch 8: times as fast as unpacked",
    "packed-fp32": "ViT-B/16 forward by `zoo.fast.Packed`, fp32, 224 px, batch 8: times as fast as unpacked",
    "vit-fp32": "ViT-B/16 forward, fp32, 224 px, batch 8: times as fast as timm",
    "swin-step-timm": "Swin-T, a training step, bf16 autocast, batch 8: times as fast as timm",
    "swin-step-torchvision": "Swin-T, a training step, bf16 autocast, batch 8: times as fast as torchvision",
    "swin-step-transformers": "Swin-T, a training step, bf16 autocast, batch 8: times as fast as transformers",
    "swin-packed-timm": "Swin-T forward by `zoo.fast.Packed`, bf16, 224 px, batch 8: times as fast as timm",
    "swin-timm": "Swin-T forward, bf16, 224 px, batch 8: times as fast as timm",
    "swin-packed-torchvision": "Swin-T forward by `zoo.fast.Packed`, bf16, 224 px, batch 8: times as fast as torchvision",
    "swin-torchvision": "Swin-T forward, bf16, 224 px, batch 8: times as fast as torchvision",
    "swin-packed-transformers": "Swin-T forward by `zoo.fast.Packed`, bf16, 224 px, batch 8: times as fast as transformers",
    "swin-transformers": "Swin-T forward, bf16, 224 px, batch 8: times as fast as transformers",
    "bert": "BERT-base forward, bf16, 8 x 128 tokens without padding: times as fast as transformers",
    "ast": "AST forward, bf16, batch 2: times as fast as transformers",
    "sms_spam": "Texts from scratch: SMS spam, `text_classify/small_scratch`, test read once per seed",
    "fsdd": "Sounds from scratch: spoken digits of speakers never heard, `audio_classify/small_scratch`",
    "esc10": "Sounds from scratch: ESC-10, five folds, `audio_classify/small_scratch`",
    "cifar-vit": "Small photographs from scratch: 5,000 of CIFAR-10, `image_classify/vit_tiny_scratch`",
    "cifar-swin": "Small photographs from scratch: 5,000 of CIFAR-10, `image_classify/swin_tiny_scratch`",
    "probe": "A Linear on a genuine ViT-S/14 (DINOv2) at 112 px: 5,000 of CIFAR-10, `image_classify/vit_small_probe`",
    "lora": "The same tuned by LoRA for two epochs, `image_classify/vit_base_lora`",
    "detect": "Boxes of nuclei from scratch: 85 pictures, `image_detect/custom`, test read once per seed",
    "nuclei": "Nuclei of cells from scratch: 85 pictures, `image_segment/custom`, test (15 pictures) read once per seed",
    "etth1": "Forecasting from scratch: ETTh1, 96 hours in, 24 out, `series_forecast/small_scratch`",
    "loader": "20,000 pictures, 3 epochs, 2 reading processes",
    "import": "`import zoo` beyond `import torch`",
}
FIGURES = {"ap": "box AP {:.4f}", "ap50": "at overlap 0.5 {:.4f}", "mean_iou": "mean IoU {:.4f}", "pixel_accuracy": "pixel accuracy {:.4f}", "accuracy": "accuracy {:.4f}", "macro_f1": "macro-F1 {:.4f}", "mse": "MSE {:.4f}",
           "waiting": "{:.1%} of the time waiting for data", "growth": "memory {:.2f}x from the second epoch on", "seconds": "training {:.0f} s", "ratio": "{:.3f}x",
           "low": "95 % interval from {:.3f}", "high": "to {:.3f}", "extra": "{:.2f} s"}  # fmt: skip


def results() -> str:
    """docs/results.md, from the newest rows of each bar in docs/bars.jsonl."""
    rows = [json.loads(line) for line in (ROOT / "docs" / "bars.jsonl").read_text().splitlines()]
    page = [
        "# Results", "",
        "Measured, with the command that anyone can run again. Means over seeds, with the range where there are",
        "several. Ratios are of neighbours in one process, in turn, the same weights on both sides. Written by",
        "`make docs` from `bars.jsonl`.", "",
    ]  # fmt: skip
    for bar, what in WHAT.items():
        mine = [r for r in rows if r["bar"] == bar]
        if not mine:
            continue
        newest = [r for r in mine if r["commit"] == mine[-1]["commit"]]
        told = []
        for figure, form in FIGURES.items():
            values = [r[figure] for r in newest if figure in r]
            if values:
                several = f" ({min(values):.4g} to {max(values):.4g})" if len(values) > 1 else ""
                told.append(form.format(sum(values) / len(values)) + several)
        last = newest[-1]
        page += [
            f"**{what}**: {', '.join(told)}.",
            f"`python tests/bars.py {bar}`; {len(newest)} seed{'s' * (len(newest) > 1)}, "
            f"{last['hardware']}, {last['date']}, commit `{last['commit']}`.",
            "",
        ]
    return "\n".join(page)


def main() -> None:
    (ROOT / "docs" / "results.md").write_text(results())
    (ROOT / "docs" / "lines.md").write_text(lines())
    (ROOT / "docs" / "parity.md").write_text(parity())


if __name__ == "__main__":
    main()
