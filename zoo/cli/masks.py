"""Pictures that `zoo predict` writes: masks, and pictures in which boxes are drawn."""

from pathlib import Path
from typing import Any

from zoo.errors import UserError

LEAST = 0.3  # the score of a box that is drawn: less sure ones would hide the picture


class Pictures:
    """Writes FOLDER/<name of the sample>.png, each under a name of its own."""

    flag = ""

    def __init__(self, folder: Path):
        self.folder = folder
        self.taken: set[Path] = set()

    def write(self, row: dict[str, Any], picture: Any) -> str:
        """A sample's row, a PIL picture -> the file. UserError where that cannot be written."""
        name = Path(str(row.get("file") or f"row_{len(self.taken) + 1}")).stem
        target = self.folder / f"{name}.png"
        count = 1
        while target in self.taken:  # pictures of one name in several folders
            count += 1
            target = self.folder / f"{name}_{count}.png"
        self.taken.add(target)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            picture.save(target)
        except OSError as error:
            wants = f"{self.flag} takes a folder that can be written"
            raise UserError(f"{wants}; {target} cannot: {error.strerror or error}") from error
        return str(target)


class Masks(Pictures):
    """Writes masks, and names the file in the answer."""

    flag = "--masks"

    def __call__(self, row: dict[str, Any], source: Any, answer: dict[str, Any]) -> dict[str, Any]:
        """A sample's row, the sample, its answer -> the answer, its mask as a file."""
        if "mask" not in answer:
            return answer
        return {**answer, "mask": self.write(row, answer["mask"])}


class Drawn(Pictures):
    """Writes pictures with their boxes, each class in a colour of its own."""

    flag = "--drawn"

    def __call__(self, row: dict[str, Any], source: Any, answer: dict[str, Any]) -> dict[str, Any]:
        """A sample's row, the sample, its answer -> the answer."""
        from PIL import ImageDraw

        from zoo.inputs import decode_image
        from zoo.inputs.scene import colour

        if "boxes" not in answer:
            return answer
        picture = decode_image(source)
        sure = [one for one in answer["boxes"] if one["score"] >= LEAST]
        draw, labels = ImageDraw.Draw(picture), sorted({one["label"] for one in sure})
        for one in reversed(sure):  # the surest on top
            paint = colour(1 + labels.index(one["label"]) % 255)
            draw.rectangle(one["box"], outline=paint, width=max(1, min(picture.size) // 200))
            draw.text(one["box"][:2], f"{one['label']} {one['score']:.2f}", paint)
        self.write(row, picture)
        return answer
