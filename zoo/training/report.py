"""What is left of a run for people: figures and a page."""

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import font_manager
from matplotlib.figure import Figure
from torch import Tensor

from zoo.training.config import Config, SelectConfig
from zoo.training.metrics import WORDS

NUMBERED_CLASSES = 20  # a confusion figure with more has no numbers in its cells
LONGEST_COUNT = 100_000  # what has more digits than a cell is wide
LONGEST_NAME = 40  # characters of a class name in a figure
BLUE, ORANGE, GREY = "tab:blue", "tab:orange", "0.75"
CURVES, CONFUSION = "learning_curves.png", "confusion.png"


def in_figure(name: str) -> str:
    """A class name as one short line that can be drawn: line breaks and stray bytes escaped."""
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"


def in_page(text: str) -> str:
    """Text as one line of Markdown that shows it as it is, in a table's cell too."""
    return re.sub(r"([\\`*<>|$\[\]])", r"\\\1", " ".join(text.split()))


def characters(file: str) -> set[int]:
    """Those that a font can draw; none of one that cannot be read, or drawn at any size."""
    try:
        font = font_manager.get_font(file)
    except (OSError, RuntimeError, ValueError):
        return set()
    return {*font.get_charmap()} if font.scalable else set()


def families(names: Sequence[str]) -> list[str] | None:
    """The usual font, and where it has not all characters an installed one that has the others;
    None where there is none."""
    usual = font_manager.FontProperties()
    missing = {ord(c) for c in "".join(names)} - characters(font_manager.findfont(usual))
    if not missing:
        return [usual.get_name()]
    files = {font.name: font.fname for font in font_manager.fontManager.ttflist
             if font.style == "normal" and not font.name.startswith("Last Resort")}  # fmt: skip
    found = (name for name in sorted(files) if missing <= characters(files[name]))
    other = next(found, None)  # that of last resort has frames for all
    return None if other is None else [usual.get_name(), other]


def read_metrics(file: Path) -> dict[str, tuple[list[int], list[float]]]:
    """metrics.csv -> {name: (optimizer steps, values)}."""
    series: dict[str, tuple[list[int], list[float]]] = {}
    with file.open(newline="", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            for name, value in row.items():
                if value and name not in ("step", "epoch"):
                    steps, values = series.setdefault(name, ([], []))
                    steps.append(int(row["step"]) + 1)  # the logger counts from 0
                    values.append(float(value))
    return series


def draw_curves(file: Path, target: Path) -> None:
    """metrics.csv -> a picture of losses on the left, validation metrics on the right."""
    series = read_metrics(file)
    figure = Figure(figsize=(10, 4), layout="constrained")
    losses, scores = figure.subplots(1, 2)
    for name, label, colour in (
        ("train/loss", "train, each step", GREY),
        ("train/loss_epoch", "train, epoch", BLUE),
        ("val/loss", "validation", ORANGE),
    ):
        if name in series:
            losses.plot(*series[name], color=colour, label=label)
    for name, (steps, values) in series.items():
        if name.startswith("val/") and name != "val/loss":
            scores.plot(steps, values, label=name.removeprefix("val/"))
    for axes, title in ((losses, "loss"), (scores, "validation")):
        axes.set(title=title, xlabel="optimizer step")
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend()
    figure.savefig(target, dpi=120)


def draw_confusion(
    counts: Tensor, labels: tuple[str, ...], split: str, target: Path, what: str = "samples"
) -> str:
    """(targets, answers) counts -> a picture, shaded by the share of each row; many as shares.

    -> a note, where no font has the characters of the labels and the axes have their numbers.
    """
    share = counts / counts.sum(1, keepdim=True).clamp(min=1)
    side = 3 + 0.4 * min(len(labels), 40)
    figure = Figure(figsize=(side, side), layout="constrained")
    axes = figure.subplots()
    axes.imshow(share.numpy(), cmap="Blues", vmin=0, vmax=1)
    places, names, by = range(len(labels)), [in_figure(label) for label in labels], ""
    if (drawn := families(names)) is None:
        names, by = [str(place) for place in places], ", by its number in labels.json, from 0"
    axes.set_xticks(places, names, rotation=90, parse_math=False, fontfamily=drawn)
    axes.set_yticks(places, names, parse_math=False, fontfamily=drawn)
    axes.set(
        xlabel=f"answer{by}", ylabel=f"target{by}", title=f"{split}, {int(counts.sum())} {what}"
    )
    if len(labels) <= NUMBERED_CLASSES:
        for row in places:
            for column in places:
                if count := int(counts[row, column]):
                    colour = "white" if share[row, column] > 0.5 else "black"
                    text = str(count) if count < LONGEST_COUNT else f"{share[row, column]:.3f}"
                    axes.text(column, row, text, ha="center", va="center", color=colour)
    figure.savefig(target, dpi=120)
    said = "no installed font has all characters of the labels"
    return f"{said}: {target.name} shows each by its number in labels.json, from 0" if by else ""


def table_of_targets(data: dict[str, Any]) -> list[str]:
    """What data.json says of the targets: rows of each class, or how the numbers spread."""
    kind, what = ("numbers", "number") if "numbers" in data else ("counts", "class")
    lines = [f"| {what} | " + " | ".join(data[kind]) + " |", "|---" * (len(data[kind]) + 1) + "|"]
    for index, label in enumerate(data["labels"]):
        cells = [in_table(part[index]) for part in data[kind].values()]
        lines.append(f"| {in_page(label)} | {' | '.join(cells)} |")
    return lines


def in_table(fact: Any) -> str:
    """A count, or a spread as `mean ± deviation, least to most`."""
    if not isinstance(fact, dict):
        return str(fact)
    mean, deviation, least, most = (
        f"{fact[k]:.4g}" for k in ("mean", "deviation", "least", "most")
    )
    return f"{mean} ± {deviation}, {least} to {most}"


def remarks(config: Config, select: SelectConfig, target: str, chose: bool) -> list[str]:
    """How the figures of a run are meant; `chose` is whether its epoch was chosen on val.

    `select` is that of `metrics.chosen`, without None.
    """
    most, smoothing = WORDS[str(select.mode)], config.optim.smoothing
    lines = [f"The epoch is that of the {most} val {select.metric}; of equals the first is kept."]
    lines = lines if chose else []
    if target == "numbers":
        lines.append(
            "The loss is in train's deviations, squared; mse and mae are in the data's own units."
        )
        return lines
    weighs = target == "label" and config.optim.class_weights != "none"
    for what, used, many in (
        (f"Label smoothing ({smoothing})", smoothing, "counts"),
        (f"Class weights ({config.optim.class_weights})", weighs, "count"),
    ):
        if used:
            where = "in the training loss only, not in that of val and test"
            lines.append(f"{what} {many} {where}.")
    return lines


def write_page(
    folder: Path,
    result: dict[str, Any],
    data: dict[str, Any],
    command: str,
    remarks: Sequence[str] = (),
) -> None:
    """report.md: what ran, what came out, how it is meant, and where the figures are."""
    state = ", failed" if result["failed"] else ", interrupted" if result["interrupted"] else ""
    lines = [f"# {result['recipe']}{state}", "", "```", command, "```", ""]
    lines += [in_page(result["failed"]), ""] if result["failed"] else []
    metrics = {split: result[split] for split in ("val", "test") if result[split]}
    if metrics:
        names = list(next(iter(metrics.values())))
        lines += [
            "| split | samples | " + " | ".join(names) + " |",
            "|---" * (len(names) + 2) + "|",
        ]
        known = result.get("baselines", {})
        rows = [(split, split, values) for split, values in metrics.items()]
        rows += [(s, f"{s}, {b}", v) for s in metrics for b, v in known.get(s, {}).items()]
        for split, title, values in rows:
            cells = " | ".join(f"{values[name]:.4f}" for name in names)
            lines.append(f"| {in_page(title)} | {data['rows'][split]} | {cells} |")
        lines.append("")
    lines += [
        f"{result['epochs']} epochs, {result['steps']} optimizer steps, "
        f"{result['seconds']:.1f} s of training on {result['hardware']}; "
        f"`model/` holds the weights of {result['weights']}.",
        "",
    ]
    if told := result.get("stopped_early"):
        lines += [f"{in_page(told[0].upper() + told[1:])}.", ""]
    lines += [f"{in_page(remark)}\n" for remark in remarks]
    lines += [f"![{name}]({name})\n" for name in (CURVES, CONFUSION) if (folder / name).exists()]
    lines += table_of_targets(data)
    lines += ["", *(f"- {in_page(note)}" for note in data["notes"])]
    text = "\n".join(lines) + "\n"
    (folder / "report.md").write_text(text, encoding="utf-8", errors="backslashreplace")
