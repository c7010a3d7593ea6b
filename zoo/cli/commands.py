"""What the commands do; what only one of them needs is imported there."""

import argparse
import json
from collections.abc import Callable
from fnmatch import fnmatch
from glob import has_magic
from inspect import signature
from pathlib import Path
from typing import Any

import zoo
from zoo.cli.arguments import LISTS, Flags
from zoo.cli.showing import show_keys
from zoo.cli.table import write_table
from zoo.configs import find
from zoo.errors import UserError, suggest
from zoo.nn import Part

DEPTH = 4  # folders from runs/ to a run, at most
SIGNS = ("result.json", "checkpoints", "log.txt")  # beside config.yaml, they tell a run's folder
INPUTS = {"pixels": "pictures", "ids": "texts", "frames": "sounds"}
Table = tuple[list[str], list[list[Any]]]  # columns, rows


def train(args: argparse.Namespace, flags: Flags) -> int:
    """`zoo train`."""
    if args.help:
        args.parser.print_help()
        show_keys(args.recipe, flags)
        return 0
    if args.recipe is None:
        raise UserError("zoo train takes a RECIPE; got none: `zoo list recipes` names them")
    train_with(args.recipe, flags)
    return 0


def train_with(recipe: str, flags: Flags, run: Callable[[Any], Any] | None = None) -> None:
    """Train a recipe with the `main(config)` of its own script, or another."""
    from zoo import training

    training.resolve(recipe, flags)  # a mistake is said before the seconds that lightning takes
    if run is None:
        training.train(recipe, flags)
    else:
        training.train(recipe, flags, main=run)


def resume(args: argparse.Namespace, flags: Flags) -> int:
    """`zoo resume`."""
    resume_with(args.run)
    return 0


def resume_with(run: str, main: Callable[[Any], Any] | None = None) -> None:
    """Go on with a run, with the `main(config)` of its recipe's own script, or another."""
    from zoo import training
    from zoo.training.recipes import find_run

    find_run(run, "resume")  # a mistake is said before the seconds that lightning takes
    training.resume(run, main)


def evaluate(args: argparse.Namespace, flags: Flags) -> int:
    """`zoo evaluate`."""
    from zoo import training
    from zoo.training.recipes import find_run

    find_run(args.run, "evaluate")
    figures = training.evaluate(args.run, overrides=flags)
    rows = [[name, f"{v:.4f}"] for name, v in figures.items() if isinstance(v, float)]
    write_table(["metric", "value"], rows)
    return 0


def list_(args: argparse.Namespace, flags: Flags) -> int:
    """`zoo list`."""
    tables = {
        "models": list_models,
        "recipes": list_recipes,
        "runs": list_runs,
        "plugins": list_plugins,
    }
    if args.what is not None and has_magic(args.what) and args.pattern == "*":
        args.what, args.pattern = None, args.what  # `zoo list "vit*"`
    if args.what not in (None, *LISTS):
        hint = suggest(args.what, LISTS) or f"; give {', '.join(LISTS)} or nothing for all"
        raise UserError(f"zoo list has no {args.what!r}{hint}")
    for what in [args.what] if args.what else LISTS:
        columns, rows = tables[what](args.pattern)
        if rows:
            write_table(columns, rows)
        else:
            print(f"no {what}" + ("" if args.pattern == "*" else f" like {args.pattern!r}"))
        if args.what is None and what != LISTS[-1]:
            print()
    return 0


def list_models(pattern: str) -> Table:
    """Names that `zoo.create` takes, and what their models do."""
    return ["model", "takes"], [[name, reads(name)] for name in zoo.list_models(pattern)]


def reads(name: str) -> str:
    """What the samples of a model are, by the input of its adapter."""
    family, columns = find(name)
    config = family.build(**columns)[0]
    kind = [*signature(Part.of_config[type(config)].forward).parameters][1]
    video = isinstance(getattr(config, "patch", 0), tuple) and len(config.patch) == 3
    return "videos" if video else INPUTS.get(kind, kind)


def list_recipes(pattern: str) -> Table:
    """Recipes, with the comment that opens their YAML file."""
    from zoo.training import recipes

    names = [name for name in recipes.names() if fnmatch(name, pattern)]
    firsts = [recipes.find(name).read_text(encoding="utf-8").partition("\n")[0] for name in names]
    notes = [first.lstrip("# ") if first.startswith("#") else "" for first in firsts]
    return ["recipe", "about"], [list(row) for row in zip(names, notes, strict=True)]


def list_plugins(pattern: str) -> Table:
    """What other packages bring, and why one of them cannot be used."""
    from zoo.extend import plugins

    rows = [
        [p.name, p.group, p.package, p.reason or "ok"]
        for p in plugins()
        if fnmatch(p.name, pattern)
    ]
    return ["plugin", "group", "package", "state"], rows


def list_runs(pattern: str) -> Table:
    """Run folders below ./runs and how they ended, oldest first."""
    top = Path("runs")
    files = [p for n in range(1, DEPTH + 1) for p in top.glob("*/" * n + "config.yaml")]
    found = [p.parent for p in files if any((p.parent / sign).exists() for sign in SIGNS)]
    names = sorted(found, key=lambda p: (p.name, p))
    rows = [[str(p), ending(p)] for p in names if fnmatch(p.relative_to(top).as_posix(), pattern)]
    return ["run", "result"], rows


def ending(run: Path) -> str:
    """The figures in a run's result.json, in one line."""
    try:
        result = json.loads((run / "result.json").read_text(encoding="utf-8"))
        splits = {split: result.get(split) or {} for split in ("val", "test")}
        figures = [f"{s} {k} {v:.4f}" for s, values in splits.items() for k, v in values.items()]
        state = [state for state in ("failed", "interrupted") if result.get(state)]
        return "  ".join(state + figures)
    except FileNotFoundError:
        return "not finished"
    except (OSError, ValueError, AttributeError):
        return "result.json is broken"


def copy(args: argparse.Namespace, flags: Flags) -> int:
    """`zoo copy`."""
    from zoo.training import recipes

    code, values = recipes.copy(args.recipe, args.folder)
    print(f"{code}\n{values}")
    print(f"your values with our script:   zoo train {values}")
    print(f"your values with your script:  python {code} --config {values}")
    return 0
