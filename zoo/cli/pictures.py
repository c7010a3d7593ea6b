"""Pictures that `zoo predict` writes: masks, and pictures in which boxes are drawn."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zoo.errors import UserError

LEAST = 0.3  # the score of a box that is drawn by default: less sure ones would hide the picture


@contextlib.contextmanager
def whole(file: Path) -> Iterator[Path]:
    """Another file beside it to write to, which takes its place at the end; with an error it is
    deleted, and what was there stays."""
    scratch = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        yield scratch
        scratch.replace(file)
    finally:
        scratch.unlink(missing_ok=True)


class Pictures:
    """Writes FOLDER/<name of the sample>.png, each under a name of its own."""

    flag = ""

    def __init__(self, folder: Path):
        self.folder = folder

    def check(self) -> None:
        """UserError, before the work, for a folder that has files: they may be those that are read,
        or somebody's own masks, and one of their name would be replaced."""
        try:
            held = sorted(p.name for p in self.folder.iterdir()) if self.folder.exists() else []
        except OSError as error:
            raise self.refusal(self.folder, error) from error
        if held:
            has = f"{self.folder} holds {held[0]}"
            more = f" and {len(held) - 1} more" if held[1:] else ""
            raise UserError(f"{self.flag} takes a new or an empty folder; {has}{more}: give "
                            f"{self.flag} another one")  # fmt: skip

    def refusal(self, place: Path, error: OSError) -> UserError:
        """What is said where a file cannot be written."""
        wants = f"{self.flag} takes a folder that can be written"
        return UserError(f"{wants}; {place} cannot: {error.strerror or error}")

    def write(self, name: str, picture: Any) -> str:
        """A sample's name, a PIL picture -> the file. UserError where that cannot be written."""
        target = self.folder / f"{name}.png"
        count = 1
        while target.exists():  # pictures of one name in several folders
            count += 1
            target = self.folder / f"{name}_{count}.png"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with whole(target) as scratch:
                picture.save(scratch, format="PNG")
        except OSError as error:
            raise self.refusal(target, error) from error
        return str(target)


class Masks(Pictures):
    """Writes masks, and names the file in the answer."""

    flag = "--masks"

    def __call__(self, sample: Any, answer: dict[str, Any]) -> dict[str, Any]:
        """A sample, its answer -> the answer, its mask as a file."""
        if "mask" not in answer:
            return answer
        return {**answer, "mask": self.write(sample.name, answer["mask"])}


class Drawn(Pictures):
    """Writes pictures with their boxes, each class in a colour of its own."""

    flag = "--drawn"

    def __init__(self, folder: Path, least: float = LEAST):
        super().__init__(folder)
        self.least = least

    def __call__(self, sample: Any, answer: dict[str, Any]) -> dict[str, Any]:
        """A sample, its answer -> the answer."""
        from PIL import ImageDraw

        from zoo.inputs import decode_image
        from zoo.inputs.scene import colour

        if "boxes" not in answer:
            return answer
        picture = decode_image(sample.source)
        sure = [one for one in answer["boxes"] if one["score"] >= self.least]
        draw, labels = ImageDraw.Draw(picture), sorted({one["label"] for one in sure})
        for one in reversed(sure):  # the surest on top
            paint = colour(1 + labels.index(one["label"]) % 255)
            draw.rectangle(one["box"], outline=paint, width=max(1, min(picture.size) // 200))
            draw.text(one["box"][:2], f"{one['label']} {one['score']:.2f}", paint)
        self.write(sample.name, picture)
        return answer
