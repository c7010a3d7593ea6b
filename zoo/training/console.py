"""The one place where training speaks: the screen, and the run's log.txt."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lightning.fabric.utilities.warnings import PossibleUserWarning
from lightning.pytorch.utilities import rank_zero_only
from rich.console import Console

from zoo.errors import seen

console = Console(soft_wrap=True, highlight=False, markup=False, emoji=False)
UNHELPFUL = (  # warnings of Lightning and torch about what is as it should be
    "Checkpoint directory .* exists and is not empty",
    "Experiment logs directory .* exists and is not empty",
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
    "Total length of `list` across ranks is zero",  # there is no validation split
    "It is recommended to use `self.log",  # metrics are reduced before they are logged
    "Mismatch dtype between input and weight",  # norms keep float32 weights under bf16
    "This DataLoader will create .* worker processes",  # as asked for, up to 128
    "You have overridden `on_before_batch_transfer`",  # the task's, which is the one meant
)
log = logging.getLogger("zoo.training")


def rank() -> int:
    """This process among those of the run, known before they have met."""
    return rank_zero_only.rank  # type: ignore[attr-defined]


class Lines(logging.Formatter):
    """One line for each message: whatever names stand in it, they steer no terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The message, control characters and line ends escaped."""
        return seen(super().format(record))


class ScreenHandler(logging.Handler):
    """Lines above the progress bar where there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message alone; what the screen cannot show (a name that is no text) escaped."""
        encoding, text = console.encoding, self.format(record)
        console.print(text.encode(encoding, "backslashreplace").decode(encoding))


@contextmanager
def speaking() -> Iterator[None]:
    """Inside, `log` reaches the screen of rank 0, and Lightning keeps its tips to itself."""
    screen = ScreenHandler(logging.INFO)
    screen.setFormatter(Lines())
    others = [logging.getLogger(f"lightning.{part}") for part in ("pytorch", "fabric")]
    levels = [other.level for other in others]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PossibleUserWarning)  # "might be a bottleneck", and so on
        for message in UNHELPFUL:
            warnings.filterwarnings("ignore", message)
        for other in others:
            other.setLevel(logging.WARNING)
        log.setLevel(logging.DEBUG)
        if rank() == 0:
            log.addHandler(screen)
        try:
            yield
        finally:
            log.removeHandler(screen)
            for other, level in zip(others, levels, strict=True):
                other.setLevel(level)


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Inside, `log` is also written to the file, with the time."""
    handler = logging.FileHandler(file, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(Lines("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()
