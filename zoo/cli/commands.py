"""What the commands do; what only one of them needs is imported there."""

import argparse
import json
from collections.abc import Callable
from dataclasses import MISSING
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import zoo
from zoo.cli.arguments import LISTS, Flags, typed
from zoo.cli.table import write_table
from zoo.errors import UserError

Rows = tuple[list[str], list[list[Any]]]


def train(args: argparse.Namespace, flags: Flags) -> int:
    """`zoo train`."""
    if args.help:
        args.parser.print_help()
        show_keys(args.recipe, typed(flags))
        return 0
    if args.recipe is None:
        raise UserError("zoo train takes a RECIPE; got none: `zoo list recipes` names them")
    from zoo import training

    training.train(args.recipe, typed(flags))
    return 0


def evaluate(args: argparse.Namespace, flags: Flags) -> int:
    """`zoo evaluate`."""
    for key in flags:
        if key != "data.test":
            raise UserError(f"zoo evaluate takes --data.test PATH; got --{key}")
    from zoo import training

    figures = training.evaluate(args.run, flags.get("data.test"))
    rows = [[k, f"{v:.4f}" if isinstance(v, float) else v] for k, v in figures.items()]
    write_table(["metric", "value"], [r for r in rows if not isinstance(r[1], dict | list)])
    return 0


def list_models(pattern: str) -> tuple[list[str], list[list[Any]]]:
    """Names that `zoo.create` takes."""
    return ["model"], [[name] for name in zoo.list_models(pattern)]


def list_recipes(pattern: str) -> tuple[list[str], list[list[Any]]]:
    """Recipes with the first line of their YAML file."""
    from zoo.training import recipes

    names = [name for name in recipes.names() if fnmatch(name, pattern)]
    firsts = [recipes.find(name).read_text(encoding="utf-8").split("\n")[0] for name in names]
    notes = [first.lstrip("# ") if first.startswith("#") else "" for first in firsts]
    return ["recipe", "what"], [list(row) for row in zip(names, notes, strict=True)]


def list_runs(pattern: str) -> tuple[list[str], list[list[Any]]]:
    """Run folders below ./runs with their results, oldest first."""
    found = [
        p.parent for depth in ("*/*", "*/*/*") for p in Path("runs").glob(f"{depth}/config.yaml")
    ]
    rows = []
    for run in sorted(found, key=lambda p: (p.name, p)):
        if fnmatch(str(run), pattern) or fnmatch(str(run.relative_to("runs")), pattern):
            rows.append([str(run), run_note(run / "result.json")])
    return ["run", "result"], rows


def run_note(file: Path) -> str:
    """The figures of a result.json in one line."""
    try:
        result = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "not finished"
    except ValueError:
        return f"{file.name} is broken"
    figures = (
        {k: v for k, v in result.items() if isinstance(v, float)}
        if isinstance(result, dict)
        else {}
    )
    return "  ".join(f"{name} {value:.4g}" for name, value in figures.items())


def list_(args: argparse.Namespace, flags: Flags) -> int:
    """`zoo list`."""
    for what in [args.what] if args.what else LISTS:
        columns, rows = LISTS[what](args.pattern)
        if rows:
            write_table(columns, rows)
        else:
            print(f"no {what}" + ("" if args.pattern == "*" else f" like {args.pattern}"))
        if args.what is None:
            print()
    return 0


def show(args: argparse.Namespace, flags: Flags) -> int:
    """`zoo show`."""
    from zoo.training.config import collect
    from zoo.training.schema import wording

    draft = collect(args.recipe, typed(flags))
    rows = []
    for key, value in draft.values.items():
        layer, where = draft.origins[key]
        value = "must be given" if value is MISSING else wording(value)
        rows.append([key, value, "" if value == "must be given" else f"{layer} {where}".strip()])
    write_table(["key", "value", "from"], [["recipe", draft.name, str(draft.path)], *rows])
    return 0


def copy(args: argparse.Namespace, flags: Flags) -> int:
    """`zoo copy`."""
    from zoo.training import recipes

    code, values = recipes.copy(args.recipe, args.folder)
    print(f"{code}\n{values}")
    print(f"zoo train {values}           # your values, our script")
    print(f"python {code} --config {values}   # your values, your script")
    return 0


def show_keys(recipe: str | None, flags: Flags) -> None:
    """The keys of the config by section, each with what it takes, its value in `recipe` and help."""
    from zoo.training.config import collect
    from zoo.training.schema import KEYS, SECTIONS, wording

    values = collect(recipe, flags).values if recipe else {k.name: k.default for k in KEYS.values()}
    for section, kind in SECTIONS.items():
        print(f"\n{section}: {kind.__doc__}")
        rows = []
        for key in KEYS.values():
            if key.name.startswith(f"{section}."):
                value = values[key.name]
                value = "must be given" if value is MISSING else wording(value)
                rows.append([f"--{key.name}", key.short, value, key.help])
        write_table(["", "takes", "value", ""], rows)
    print("\nmodel: name, load (a saved model's folder) or backbone, and any option of its parts")
    rows = [[f"--{k}", wording(v)] for k, v in values.items() if k.startswith("model.")]
    write_table(["", "value"], rows or [["--model.name", "must be given"]])
