"""The `zoo` command: train, evaluate, predict, list, show, copy.

Keys of the config are flags: `--optim.lr 1e-4`. What a user got wrong is said in one sentence, exit
code 2.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from zoo.cli import commands
from zoo.cli.arguments import Flags, Parser, make_parser, refuse, split_flags, typed
from zoo.cli.predict import predict
from zoo.errors import UserError, suggest

COMMANDS: dict[str, Callable[[argparse.Namespace, Flags], int]] = {
    "train": train,
    "evaluate": evaluate,
    "predict": predict,
    "list": list_,
    "show": show,
    "copy": copy,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line (default: this process's) and returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    return guarded(lambda: command(words), debug="--debug" in words)


def script(run: Callable[[Any], Any], argv: Sequence[str] | None = None) -> int:
    """The command line of a recipe script: `python SCRIPT --config FILE [--optim.lr 1e-4] ...`."""
    words = list(sys.argv[1:] if argv is None else argv)

    def command() -> int:
        rest, flags = split_flags(words)
        parser = Parser(description=run.__doc__, epilog="Keys of the config are flags too.")
        parser.add_argument("--config", required=True, metavar="FILE", help="YAML file, or recipe")
        parser.add_argument("--debug", action="store_true", help="show tracebacks")
        args, extra = parser.parse_known_args(rest)
        refuse(parser.prog, extra)
        from zoo import training

        training.train(args.config, flags, main=run)
        return 0

    return guarded(command, debug="--debug" in words)


def guarded(run: Callable[[], int], debug: bool) -> int:
    """The exit code of `run`: 2 with one sentence for a user's mistake, 130 for Ctrl-C."""
    try:
        return run()
    except UserError as error:
        if debug:
            raise
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        if debug:
            raise
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has gone; Python must not flush to it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def command(words: list[str]) -> int:
    """Parses the words and calls the command's function."""
    parser = make_parser()
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        hint = suggest(words[0], COMMANDS) or f"; there are {', '.join(COMMANDS)}"
        raise UserError(f"zoo has no command {words[0]!r}{hint}")
    rest, flags = split_flags(words)
    args, extra = parser.parse_known_args(rest)
    if args.command is None:
        parser.print_help()
        return 0
    refuse(f"zoo {args.command}", extra)
    if flags and not args.flags:
        raise UserError(f"zoo {args.command} takes no keys of a config; got --{next(iter(flags))}")
    return COMMANDS[args.command](args, flags)
