"""A model: an adapter, the backbone, a head."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from zoo import checkpoint, convert
from zoo.convert import Rule
from zoo.errors import OptionError, ShapeError, one_of, require, suggest
from zoo.inputs import Prepare
from zoo.inputs.predict import predict
from zoo.nn import Part
from zoo.nn.config import to_plain
from zoo.nn.mlp import Experts
from zoo.ops import as_map
from zoo.tokens import Details, Tokens

MATRICES = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
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
    preprocess: Prepare | None = None
    """From a raw sample to the model's input."""
    rules: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict, repr=False)
    """Conversion rules by layout; given by the family, not saved."""
    carried: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict, repr=False)
    """Tensors of a layout that the model has no use for, kept to be given back."""
    writers: Mapping[str, Callable[[Any], tuple[dict[str, Tensor], dict[str, Any], str]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """What makes the tensors, the JSON files and the name of the file of tensors of another
    library's folder, by layout; given by the family, not saved."""
    report: Any = field(default=None, repr=False, compare=False)
    """What became of each tensor, where it was loaded (`zoo.loading.Report`); not saved."""
    scale: tuple[tuple[float, float], ...] | None = None
    """For a head of numbers, the mean and the deviation in train of each: with the labels, what its
    outputs mean. Numbers are mean + deviation * output."""


class Model(nn.Module):
    """`Model(adapter, backbone, head)`; `head=None` answers with the Tokens themselves."""

    def __init__(
        self, adapter: Part, backbone: Part, head: Part | None = None, record: Record | None = None
    ):
        super().__init__()
        wants, width = "Model takes parts of one width", backbone.dim if head is None else head.dim
        got = f"got adapter {adapter.dim} and backbone {backbone.dim_in}"
        require(adapter.dim == backbone.dim_in, f"{wants}; {got}", "dim")
        require(
            backbone.dim == width, f"{wants}; got backbone {backbone.dim} and head {width}", "dim"
        )
        reads, has = getattr(head, "reads_class", False), getattr(adapter, "has_class", True)
        wants = "Model takes a head that reads the class token where the adapter makes one"
        got = "got class_token=False: give head.pool mean"
        require(has or not reads, f"{wants}; {got}", "class_token")
        self.adapter, self.backbone, self.head = adapter, backbone, head
        self.record = record or Record()

    def forward(self, *inputs: Any, details: tuple[str, ...] = (), **named: Any) -> Any:
        """Raw tensors -> the head's answer; for pictures, (B, C, height, width) -> (B, classes).

        `details` names what shall be shown beside it, "states", "attention", "aux": then the answer
        is (answer, Details), and the answer itself is the same.
        """
        shown = Details()
        for name in details:
            one_of("Model", "details", name, vars(shown))
        maps, hide = getattr(self.head, "reads_maps", False), getattr(self.head, "hide", None)
        tokens = self.embed(*inputs, **named)
        tokens = tokens if hide is None else hide(tokens)
        tokens = self.backbone(tokens, details=shown, show=details, stages=maps)
        answer = tokens if self.head is None else self.head(tokens)
        return (answer, shown) if details else answer

    def embed(self, *inputs: Any, **named: Any) -> Tokens:
        """Raw tensors -> the adapter's Tokens. ShapeError for one that gives anything else."""
        tokens = self.adapter(*inputs, **named)
        if not isinstance(tokens, Tokens):
            got = f"{type(self.adapter).__module__}.{type(self.adapter).__name__}"
            raise ShapeError(f"Model takes an adapter that gives zoo.Tokens; {got} gives "
                             f"{type(tokens).__name__}")  # fmt: skip
        return tokens

    def features(self, *inputs: Any, details: Details | None = None, **named: Any) -> Tokens:
        """Raw tensors -> Tokens after the last norm, prefix tokens included; `details` receives
        "aux"."""
        show = () if details is None else ("aux",)
        return self.backbone(self.embed(*inputs, **named), details=details, show=show)

    def depth_of(self, name: str) -> int:
        """How deep a parameter or a module lies, by its name: 0 the adapter, i what leads to block
        i and the block, one more than there are blocks the last norm and the head."""
        start, stages = 0, self.backbone.get_submodule("stages")
        for s, stage in enumerate(stages.children()):
            path, inner = f"backbone.stages.{s}.", f"{name}."
            if inner.startswith(path):
                _, blocks, block = inner.removeprefix(path).partition("blocks.")
                return start + 1 + (int(block.split(".")[0]) if blocks and block else 0)
            start += len(list(stage.get_submodule("blocks").children()))
        return 0 if name.split(".")[0] == "adapter" else start + 1

    def maps(self, *inputs: Any, **named: Any) -> list[Tensor]:
        """Raw tensors -> one map per stage, finest first: (B, C, H, W), of a video (B, C, T, H, W).

        Each is what leaves the stage, before the next one's merge; the last has passed the last
        norm. A ViT has one stage, so one map; `zoo.nn.Pyramid` makes four scales of it. ShapeError
        for tokens that are no whole grid.
        """
        tokens = self.backbone(self.embed(*inputs, **named), stages=True)
        return [as_map(stage) for stage in tokens.stages]

    def extra_repr(self) -> str:
        """Name and size, for print(model)."""
        count = sum(p.numel() for p in self.parameters())
        return f"{self.record.name or 'of its own making'}, {count / 1e6:.2f} M parameters"

    def predict(
        self, source: Any, batch: int = 64, column: str | None = None, on_bad: str = "raise"
    ) -> Any:
        """A raw sample -> the answer by name; a list, or the `column` of a pandas data frame or a
        `datasets` table -> the list of answers.

        A sample is a picture (path, bytes or PIL image), a text, or a series (an array of rows, a
        table or a data frame). The answer is {"label", "probability", "probabilities"} for one
        label, {"labels", "probabilities"} for several (those of at least 0.5), {"numbers"} for
        numbers, in the data's own units, with their {"times"} where a series has a column of them,
        {"mask", "shares"} for a class per pixel (a PIL picture of the classes, and how much of it
        each has), {"boxes"} for things, each {"label", "score", "box": [x0, y0, x1, y1]} in pixels,
        the surest first; a path is repeated as "file". Samples are prepared exactly as in training,
        and answered `batch` at a time. UserError for a bad sample, or {"error"} in its place with
        `on_bad` "report"; UserError for a model that has no head or does not know its
        preprocessing.
        """
        return predict(self, source, batch, column, on_bad)

    def save(self, folder: str | Path, layout: str = "zoo") -> Path:
        """Write the model as a folder of safetensors and JSON that `zoo.load` takes; returns its
        path.

        With `layout` "timm" or "hf" as a folder that `timm.create_model("local-dir:FOLDER",
        pretrained=True)` and `transformers.AutoModel...from_pretrained(FOLDER)` take as their own,
        with "torchvision" as the state dict FOLDER/model.pth (and a config.json, by which
        `zoo.load` knows it), with "openclip" as a folder that
        `open_clip.create_model("local-dir:FOLDER")` takes, if the model carries a text tower; else
        its `visual` takes the tensors. OptionError where the family has no such layout, and for a
        model that the library would build otherwise by what is written.
        """
        if layout != "zoo":
            rules, writers = self.record.rules, self.record.writers
            one_of("save", "layout", layout, ["zoo", *(name for name in writers if name in rules)])
            return checkpoint.write_foreign(folder, *writers[layout](self))
        parts = {"adapter": self.adapter, "backbone": self.backbone, "head": self.head}
        state, prepare = self.state_dict(), self.record.preprocess
        record = {
            name: to_plain(getattr(self.record, name))
            for name in ("family", "name", "labels", "scale")
        }
        record["preprocess"] = prepare and prepare.to_dict()
        for layout, tensors in self.record.carried.items():
            state |= {f"{CARRIED}{layout}.{key}": tensor for key, tensor in tensors.items()}
        config = {name: part and plain(part) for name, part in parts.items()}
        return checkpoint.write_folder(folder, {**config, "record": record}, state)

    def state_for(self, layout: str) -> dict[str, Tensor]:
        """The state dict in another library's keys and shapes, "timm" or "hf"; memory is shared."""
        carried = self.record.carried.get(layout)
        rules, parts = self.rules_for(layout), parts_of(self)
        return convert.to_theirs(rules, self.state_dict(), parts, carried)

    def layout_of(self, state: Mapping[str, Tensor]) -> str:
        """The layout whose keys are exactly those of a state dict; "zoo" for our own.

        ConversionError lists what is missing and unknown in the nearest.
        """
        ours = self.state_dict().keys()
        own = {"zoo": tuple(Rule(key, key) for key in ours)}
        return convert.detect({**own, **self.record.rules}, state, ours, parts_of(self))

    def rules_for(self, layout: str) -> tuple[Rule, ...]:
        """The conversion rules of a layout. OptionError where the model's family has none."""
        rules = self.record.rules
        if layout not in tuple(rules):
            takes = ", ".join(rules) or "none, since no family gives it any"
            got = f"{layout!r}{suggest(str(layout), rules)}"
            name = self.record.name or "This model"
            raise OptionError(f"{name} has the layouts {takes}; got {got}", "layout")
        return rules[layout]


def load_state(
    model: Model,
    state: Mapping[str, Tensor],
    layout: str = "zoo",
    assign: bool = False,
    where: object = "",
) -> Model:
    """Copy a state dict in the given layout ("zoo", "timm") into the model, all of it or nothing.

    `assign` puts the tensors themselves in place of the model's (for a model on the meta device);
    `where` they come from is named in errors. ConversionError names tensors that are missing,
    unknown, of another shape, or hold NaN or infinity; its `problems` are all of them.
    """
    shapes = {key: tensor.shape for key, tensor in model.state_dict().items()}
    rules = tuple(Rule(key, key) for key in shapes) if layout == "zoo" else model.rules_for(layout)
    ours, carried = convert.from_theirs(rules, state, shapes, parts_of(model), where)
    model.load_state_dict(ours, assign=assign)
    if layout != "zoo":  # what was carried beside other weights is not of these
        model.record = replace(model.record, carried={layout: carried} if carried else {})
    return model


def parts_of(model: Model) -> convert.Parts:
    """What conversion rules may read of a model."""
    return convert.Parts(model.adapter.config, model.backbone.config)


def plain(part: Part) -> dict[str, Any]:
    """A part as JSON-like values: its kind, and its config."""
    return {"kind": type(part).__name__, **to_plain(part.config)}


def decays(owner: nn.Module, path: str, name: str) -> bool:
    """Whether the parameter `name` of the module `owner`, which lies at `path`, has weight decay.

    One rule: what multiplies tokens decays, that is the `weight` of a Linear or a convolution and
    the matrices `up` and `down` of Experts, unless it makes positions. What is looked up or added
    does not: tables of subwords, segments, positions and relative biases, class and register
    tokens, queries; nor do norms, biases and layer scales.
    """
    if isinstance(owner, Experts):
        return name in ("up", "down")
    return name == "weight" and isinstance(owner, MATRICES) and "position" not in path
