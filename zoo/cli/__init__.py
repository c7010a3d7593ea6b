"""The `zoo` command.

Keys of the config are flags: `--optim.lr 1e-4`. What a user got wrong is said in one sentence on
stderr, exit code 2; Ctrl-C gives 130, also during the seconds in which a command is imported.
"""

import argparse
import errno
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from zoo.cli.arguments import Flags, Parser, make_parser, refuse, split_flags, typed
from zoo.errors import UserError, seen, suggest, too_large

__all__ = ["main", "script"]

FULL = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
)  # errors of a write, which name no file or a passing one
Command = Callable[[argparse.Namespace, Flags], int]


def later(module: str, name: str) -> Command:
    """A command whose module is imported when it is called."""
    return lambda args, flags: getattr(import_module(f"zoo.cli.{module}"), name)(args, flags)


COMMANDS: dict[str, Command] = {
    "train": later("commands", "train"),
    "resume": later("commands", "resume"),
    "evaluate": later("commands", "evaluate"),
    "predict": later("predicting", "predict"),
    "list": later("commands", "list_"),
    "show": later("showing", "show"),
    "copy": later("commands", "copy"),
}
SLOW = ("train", "resume", "evaluate", "predict")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: this process's) and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    return guarded(lambda: command(words), debug="--debug" in words)


def script(run: Callable[[Any], Any], argv: Sequence[str] | None = None) -> int:
    """The same for a recipe script: `python SCRIPT --config FILE [--optim.lr 1e-4 ...]`, and with
    `--resume RUN` in place of a FILE.

    `run` is the script's `main(config)`.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    return guarded(lambda: run_script(run, words), debug="--debug" in words)


def guarded(run: Callable[[], int], debug: bool) -> int:
    """The exit code of `run`: 2 for a user's mistake, 1 for ours; `debug` lets errors through."""
    for name in ("stdin", "stdout", "stderr"):  # None where the handle was closed, as by `>&-`
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))
    try:
        return run()
    except UserError as error:
        if debug:
            raise
        tell(error)
        return 2
    except KeyboardInterrupt:
        if debug:
            raise
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has gone: nothing may be flushed to it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:  # the border to the user: what nobody foresaw is told, not dumped
        if debug:
            raise
        said = about_file(error) if isinstance(error, OSError) else ""
        if isinstance(error, (RuntimeError, MemoryError)):
            said = too_large(error)
        if said:
            tell(said)
            return 2
        told = str(error).splitlines()[:1] or ["no words"]
        tell(f"zoo met what it does not explain, {type(error).__name__}: {told[0][:300]}; "
             "the same command with --debug shows where")  # fmt: skip
        return 1


def tell(sentence: object) -> None:
    """Print to stderr, in one line, whatever names stand in it."""
    print(seen(sentence), file=sys.stderr)


def about_file(error: OSError) -> str:
    """What the system says of a file or a disk, in one sentence; "" where it is about neither."""
    if error.errno in FULL:
        return f"a file cannot be written: {error.strerror}; make room, or write to another disk"
    if error.filename is None or not error.strerror:
        return ""
    allowed = "give what this user may read and write"
    todo = allowed if isinstance(error, PermissionError) else "the same with --debug shows where"
    return f"{error.filename} cannot be read or written: {error.strerror}; {todo}"


def command(words: list[str]) -> int:
    """Parse the words of a command line and call its command."""
    parser = make_parser()
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        hint = suggest(words[0], COMMANDS) or f"; there are {', '.join(COMMANDS)}"
        raise UserError(f"zoo has no command {words[0]!r}{hint}")
    rest, flags = split_flags(words)
    args, extra = parser.parse_known_args(rest)
    if args.command is None:
        refuse("zoo", [*extra, *(f"--{key}" for key in flags)])
        parser.print_help()
        return 0
    refuse(f"zoo {args.command}", extra, None if args.takes_keys else args.parser)
    if flags and not args.takes_keys:
        key = next(iter(flags))
        own = "--" + key.rpartition(".")[2].replace("_", "-")
        hint = f"; did you mean {own}?" if own in args.parser._option_string_actions else ""
        raise UserError(f"zoo {args.command} takes no keys of a config; got --{key}{hint}")
    if args.command in SLOW:
        announce()
    return COMMANDS[args.command](args, typed(flags))


def announce() -> None:
    """Say on a terminal what the first seconds are for, which on a cold disk are many."""
    if sys.stderr.isatty() and "torch" not in sys.modules:
        print("loading torch ...", file=sys.stderr, flush=True)


def run_script(run: Callable[[Any], Any], words: list[str]) -> int:
    """Parse the words of a script's command line and train with it."""
    rest, flags = split_flags(words)
    parser = Parser(description=run.__doc__, epilog="Keys of the config are flags: --optim.lr 1e-4")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--config", metavar="FILE", help="YAML file, or recipe's name")
    what.add_argument("--resume", metavar="RUN", help="go on with a run of this script")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    args, extra = parser.parse_known_args(rest)
    refuse(parser.prog, extra)
    if args.resume is not None and flags:
        got = f"got --{next(iter(flags))}"
        raise UserError(f"{parser.prog} takes no keys of a config beside --resume; {got}")
    announce()
    from zoo.cli.commands import resume_with, train_with

    if args.resume is None:
        train_with(args.config, typed(flags), run)
    else:
        resume_with(args.resume, run)
    return 0
