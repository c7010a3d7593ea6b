"""The words behind `zoo`: commands, options, and the config's keys as flags."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import zoo
from zoo.errors import UserError, suggest

Flags = dict[str, Any]
LISTS = ("models", "recipes", "runs", "plugins")


class Parser(argparse.ArgumentParser):
    """argparse that raises its complaint, and takes no abbreviations."""

    def __init__(self, **settings: Any):
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        """Raise `UserError` instead of leaving with a usage text."""
        raise UserError(f"{self.prog}: {message}; see {self.prog} --help")


def make_parser() -> Parser:
    """The parser of all commands; `takes_keys` says whether the config's keys are flags of one."""
    parser = Parser(prog="zoo", description=zoo.__doc__)
    parser.add_argument("--version", action="version", version=f"zoo {zoo.__version__}")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    kinds = parser.add_subparsers(dest="command", metavar="COMMAND")

    def add(name: str, help: str, takes_keys: bool = False, **settings: Any) -> Parser:
        sub = kinds.add_parser(name, help=help, description=help, **settings)
        # no default here, it would undo a --debug in front of the command
        sub.add_argument("--debug", action="store_true", default=argparse.SUPPRESS)
        sub.set_defaults(takes_keys=takes_keys, parser=sub)
        return sub

    usage = "zoo train RECIPE [--SECTION.KEY VALUE ...]"
    sub = add("train", "train a recipe", takes_keys=True, add_help=False, usage=usage)
    sub.add_argument("recipe", nargs="?", metavar="RECIPE", help="a name, or a YAML file")
    sub.add_argument("-h", "--help", action="store_true", help="show the keys and RECIPE's values")

    about = "go on with a run that was stopped, with its config and its recipe's shipped script"
    sub = add("resume", about)
    sub.add_argument("run", metavar="RUN", help="the run's folder")

    usage = "zoo evaluate RUN [--data.test PATH] [--data.{input,label} COLUMN] [--data.on_bad skip]"
    about = "measure a run's model on test data, with the shipped script of its recipe"
    sub = add("evaluate", about, takes_keys=True, usage=usage)
    sub.add_argument("run", metavar="RUN", help="a run's folder")

    sub = add("predict", "name what pictures show and texts say, forecast series")
    sub.add_argument("model", metavar="RUN|MODEL", help="a run's folder, or a saved model's")
    takes = (
        "pictures, folders of them, patterns; tables; texts: lines of .txt, - for those of stdin"
    )
    sub.add_argument("files", nargs="*", metavar="FILE", help=takes)
    about = "column of a table's samples, default: recognised"
    sub.add_argument("--input", metavar="COLUMN", help=about)
    formats = ["table", "jsonl", "csv"]
    sub.add_argument("--format", choices=formats, help="default: as --out ends, or table")
    ends = "write there, not on the screen: .jsonl, .json (a row a line), .csv or .txt (a table)"
    sub.add_argument("--out", metavar="FILE", type=Path, help=ends)
    about = "a new folder for masks of pictures, default: predicted_masks"
    sub.add_argument("--masks", metavar="FOLDER", type=Path, help=about)
    about = "a new folder for pictures with boxes of 0.3 (or --least-score) or more, default: none"
    sub.add_argument("--drawn", metavar="FOLDER", type=Path, help=about)
    about = "least score of a box that is told, 0 to 1, default: the model's own, mostly 0.05"
    sub.add_argument("--least-score", metavar="SCORE", type=float, help=about)
    bad = "report an unreadable sample in its row (default), or stop"
    sub.add_argument("--on-bad", choices=["report", "raise"], default="report", help=bad)

    sub = add("list", "list models, recipes, runs and plugins")
    sub.add_argument("what", nargs="?", metavar="WHAT", help=" or ".join(LISTS))
    sub.add_argument("pattern", nargs="?", default="*", metavar="PATTERN", help='such as "vit*"')

    usage = "zoo show RECIPE [--SECTION.KEY VALUE ...]"
    sub = add("show", "show a recipe's values and their origins", takes_keys=True, usage=usage)
    sub.add_argument("recipe", metavar="RECIPE", help="a name, or a YAML file")
    sub.add_argument("--all", action="store_true", help="every option of the model too")

    sub = add("copy", "copy a recipe's script and YAML file, to change them")
    sub.add_argument("recipe", metavar="RECIPE")
    sub.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="default: here")
    return parser


def split_flags(words: Sequence[str]) -> tuple[list[str], Flags]:
    """["show", "x", "--optim.lr=1e-4"] -> (["show", "x"], {"optim.lr": "1e-4"})."""
    rest: list[str] = []
    flags: Flags = {}
    left = iter(words)
    for word in left:
        match = re.fullmatch(r"--([\w-]+(?:\.[\w-]+)+)(?:=(.*))?", word, re.DOTALL)
        if match is None:
            rest.append(word)
            continue
        key, value = match.groups()
        value = next(left, "--") if value is None else value
        if value.startswith("--"):
            raise UserError(f"--{key} takes a value; got none: give --{key} VALUE")
        if key in flags:
            raise UserError(f"--{key} is given twice, {flags[key]!r} and {value!r}; keep one")
        flags[key] = value
    return rest, flags


def typed(flags: Flags) -> Flags:
    """The model's options as YAML reads them; the other keys have types, which `resolve` knows.

    A model's name and folder are text in any case.
    """
    if not flags:  # `zoo list` shall not wait for the imports
        return {}
    from zoo.training.places import scalar

    texts = ("model.name", "model.load")
    free = [key for key in flags if key.startswith("model.") and key not in texts]
    return flags | {key: scalar(flags[key]) for key in free}


def refuse(prog: str, extra: list[str], parser: Parser | None = None) -> None:
    """UserError for words that no option and no place takes; the keys of a config may be meant,
    or else the options of `parser`."""
    if not extra:
        return
    word = extra[0].partition("=")[0]
    if not word.startswith("-"):
        raise UserError(f"{prog} has no place for {word!r}; see {prog} --help")
    if parser is not None:
        known = [o for o in parser._option_string_actions if o.startswith("--")]
        hint = suggest(word, known) or f"; it has {', '.join(known)}"
        raise UserError(f"{prog} has no option {word}{hint}")
    from zoo.training.config import nearest

    raise UserError(f"{prog} has no option {word}{nearest(word.lstrip('-'), mark='--')}")
