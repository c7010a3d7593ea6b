"""Masks that `zoo predict` writes, a PNG each."""

from pathlib import Path
from typing import Any

from zoo.errors import UserError


class Masks:
    """Writes FOLDER/<name of the picture>.png, and names the file in the answer."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.taken: set[Path] = set()

    def __call__(self, row: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        """A sample's row, its answer -> the answer, its mask as a file. UserError where that cannot
        be written."""
        if "mask" not in answer:
            return answer
        name = Path(str(row.get("file") or f"row_{len(self.taken) + 1}")).stem
        target = self.folder / f"{name}.png"
        count = 1
        while target in self.taken:  # pictures of one name in several folders
            count += 1
            target = self.folder / f"{name}_{count}.png"
        self.taken.add(target)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            answer["mask"].save(target)
        except OSError as error:
            wants = "--masks takes a folder that can be written"
            raise UserError(f"{wants}; {target} cannot: {error.strerror or error}") from error
        return {**answer, "mask": str(target)}
