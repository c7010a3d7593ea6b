"""A model: an adapter, the backbone, a head."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from zoo import checkpoint, convert
from zoo.convert import Rule
from zoo.errors import OptionError, UserError, one_of, suggest
from zoo.inputs import Preprocess
from zoo.nn import Part
from zoo.nn.config import to_plain
from zoo.tokens import Details, Tokens

CARRIED = "carried."  # what tensors' names start with in a file when the model has no use for them


@dataclass(frozen=True)
class Record:
    """What travels with the weights."""

    family: str | None = None
    """Which family's conversion rules hold; None for a model of one's own making."""
    name: str | None = None
    """The name it was created by."""
    labels: tuple[str, ...] | None = None
    """The name of each class, in the order of the logits."""
    preprocess: Preprocess | None = None
    """From a raw file to the model's input."""
    rules: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict, repr=False)
    """Conversion rules by layout; given by the family, not saved."""
    carried: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict, repr=False)
    """Tensors of a layout that the model has no use for, kept to be given back."""


class Model(nn.Module):
    """`Model(adapter, backbone, head)`; `head=None` answers with the Tokens themselves."""

    def __init__(
        self, adapter: Part, backbone: Part, head: Part | None = None, record: Record | None = None
    ):
        super().__init__()
        joints = [("adapter", adapter.dim, "backbone", backbone.dim_in)]
        if head is not None:
            joints.append(("backbone", backbone.dim, "head", head.dim))
        for one, a, other, b in joints:
            if a != b:
                got = f"{one} {a} and {other} {b}"
                raise OptionError(f"Model takes parts of one width; got {got}", "dim")
        if getattr(head, "reads_class", False) and not getattr(adapter, "has_class", True):
            raise OptionError(
                "Model takes a head that reads the class token where the adapter makes one; "
                "got class_token=False: set pool to mean",
                "class_token",
            )
        self.adapter, self.backbone, self.head = adapter, backbone, head
        self.record = record or Record()

    def forward(self, *inputs: Any, details: tuple[str, ...] = (), **named: Any) -> Any:
        """Raw tensors -> the head's answer; for pictures, (B, C, height, width) -> (B, classes).

        `details` names what shall be shown beside it, "states", "attention", "aux": then the answer
        is (answer, Details), and the answer itself is the same.
        """
        shown = Details()
        tokens = self.adapter(*inputs, **named)
        tokens = self.backbone(tokens, details=shown, show=check_details(details))
        answer = tokens if self.head is None else self.head(tokens)
        return (answer, shown) if details else answer

    def features(self, *inputs: Any, **named: Any) -> Tokens:
        """Raw tensors -> Tokens after the last norm, prefix tokens included."""
        return self.backbone(self.adapter(*inputs, **named))

    def extra_repr(self) -> str:
        """Name and size, for print(model)."""
        count = sum(p.numel() for p in self.parameters())
        return f"{self.record.name or 'of its own making'}, {count / 1e6:.2f} M parameters"

    @torch.inference_mode()
    def predict(self, source: Any, batch: int = 64) -> Any:
        """A picture (path, bytes or PIL image) -> {"label", "probability", "probabilities"}; a list
        gives a list.

        Pictures are prepared exactly as in training. A path is repeated as "file". UserError for a
        bad picture, and for a model that has no head or does not know its preprocessing.
        """
        prepare, labels = self.record.preprocess, self.record.labels
        if self.head is None or prepare is None:
            lacks = "no head" if self.head is None else "no preprocessing in its record"
            wants = "predict takes a model with a head and preprocessing"
            raise UserError(f"{wants}; this one has {lacks}")
        if batch < 1:
            raise UserError(f"predict takes batches of at least 1; got {batch}")
        many = isinstance(source, (list, tuple))
        sources, rows, was_training = source if many else [source], [], self.training
        place = next(self.parameters())
        self.eval()
        try:
            for start in range(0, len(sources), batch):
                pixels = torch.stack([prepare(s) for s in sources[start : start + batch]])
                rows += self(pixels.to(place.device, place.dtype)).float().softmax(-1).tolist()
        finally:
            self.train(was_training)
        if any(p != p for row in rows for p in row):  # only NaN differs from itself
            raise UserError("predict takes a model of finite weights; this one answers NaN")
        answers = [_named(s, row, labels) for s, row in zip(sources, rows, strict=True)]
        return answers if many else answers[0]

    def save(self, folder: str | Path) -> Path:
        """Write the model as a folder of safetensors and JSON that `zoo.load` takes; returns its
        path."""
        parts = {"adapter": self.adapter, "backbone": self.backbone, "head": self.head}
        config = {name: None if part is None else plain(part) for name, part in parts.items()}
        r = self.record
        record = {"family": r.family, "name": r.name, "labels": r.labels and list(r.labels)}
        record["preprocess"] = r.preprocess and r.preprocess.to_dict()
        state = self.state_dict()
        for layout, tensors in r.carried.items():
            state |= {f"{CARRIED}{layout}.{key}": tensor for key, tensor in tensors.items()}
        return checkpoint.write_folder(folder, {**config, "record": record}, state)

    def state_for(self, layout: str) -> dict[str, Tensor]:
        """The state dict in another library's keys and shapes, "timm" or "hf"; memory is shared."""
        carried = self.record.carried.get(layout)
        config = self.backbone.config
        return convert.to_theirs(self.rules_for(layout), self.state_dict(), config, carried)

    def rules_for(self, layout: str) -> tuple[Rule, ...]:
        """The conversion rules of a layout. OptionError where the model's family has none."""
        rules = self.record.rules
        if layout not in rules:
            takes = ", ".join(rules) or "none, since no family gives it any"
            got = f"{layout!r}{suggest(layout, rules)}"
            name = self.record.name or "This model"
            raise OptionError(f"{name} has the layouts {takes}; got {got}", "layout")
        return rules[layout]


def load_state(
    model: Model, state: Mapping[str, Tensor], layout: str = "zoo", assign: bool = False
) -> Model:
    """Copy a state dict in the given layout ("zoo", "timm") into the model, all of it or nothing.

    `assign` puts the tensors themselves in place of the model's (for a model on the meta device).
    ConversionError lists every missing, unknown or differently shaped tensor.
    """
    shapes = {key: tensor.shape for key, tensor in model.state_dict().items()}
    rules = tuple(Rule(key, key) for key in shapes) if layout == "zoo" else model.rules_for(layout)
    ours, carried = convert.from_theirs(rules, state, shapes)
    model.load_state_dict(ours, assign=assign)
    if carried:
        model.record = replace(model.record, carried={**model.record.carried, layout: carried})
    return model


def check_details(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names, if Details has them; else an OptionError."""
    for name in names:
        one_of("Model", "details", name, ("states", "attention", "aux"))
    return names


def plain(part: Part) -> dict[str, Any]:
    """A part as JSON-like values: its kind, and its config."""
    return {"kind": type(part).__name__, **to_plain(part.config)}


def _named(source: Any, row: list[float], labels: tuple[str, ...] | None) -> dict[str, Any]:
    names = labels or tuple(str(i) for i in range(len(row)))
    best = max(range(len(row)), key=row.__getitem__)
    answer = {
        "label": names[best],
        "probability": row[best],
        "probabilities": dict(zip(names, row, strict=True)),
    }
    return {"file": str(source), **answer} if isinstance(source, (str, Path)) else answer
