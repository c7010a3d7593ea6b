"""A small model that learns from a large one beside its labels."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.errors import UserError, some
from zoo.inputs import Preprocess
from zoo.inputs.names import user_path
from zoo.loading import load
from zoo.model import Model
from zoo.tokens import Details
from zoo.training.config import Config
from zoo.training.console import log
from zoo.training.task import Batch, Task, inputs_of, placed

TIMM = "timm:"  # before a name or a folder of timm's, of any of its models


class Teacher(nn.Module):
    """A frozen model that answers in the classes of a student, from what the student sees."""

    def __init__(
        self,
        model: nn.Module,
        own: Preprocess,
        student: Preprocess,
        order: list[int] | None,
        told: str = "",
    ):
        super().__init__()
        self.told = told  # of itself, once a run listens
        self.model, self.own, self.student, self.order = model, own, student, order
        self.requires_grad_(False).eval()

    def __deepcopy__(self, memo: Any) -> "Teacher":
        return self  # a mean of the student's weights needs no second teacher

    @torch.no_grad()
    def forward(self, pixels: Tensor) -> Tensor:
        """(B, C, H, W) as the student sees them -> (B, classes) logits in the student's order."""
        look = [torch.tensor(v).to(pixels).view(1, -1, 1, 1) for v in
                (self.student.std, self.student.mean, self.own.mean, self.own.std)]  # fmt: skip
        pixels = (pixels * look[0] + look[1] - look[2]) / look[3]
        if pixels.shape[-2:] != self.own.size:
            pixels = F.interpolate(pixels, self.own.size, mode="bicubic", antialias=True)
        answer = self.model(pixels)
        return answer if self.order is None else answer[:, self.order]


def teacher_for(config: Config, student: Model) -> Teacher:
    """The model that `distill.teacher` names: a run, a folder or file of weights, a name of the
    Hub, or any model of timm, `timm:NAME` or `timm:FOLDER`.

    UserError where there is none, or it does not tell the student's classes: by their names where
    it has them, else by their number.
    """
    where, prepare = config.distill.teacher, student.record.preprocess
    wants = "distill.teacher takes a model that tells the classes of the data"
    if where is None:
        raise UserError(f"{wants}; got none: give --distill.teacher RUN, FOLDER or timm:NAME")
    if not isinstance(prepare, Preprocess):
        raise UserError(f"{config.recipe} takes a model of pictures; this one reads something else")
    model, own, labels, count = from_timm(where) if where.startswith(TIMM) else from_zoo(where)
    ours = student.record.labels or ()
    if labels is None and count != len(ours):
        raise UserError(f"{wants}; {where} has {count} for {len(ours)}: train it on them first")
    missing = [name for name in ours if labels is not None and name not in labels]
    if missing:
        raise UserError(f"{wants}; {where} does not know {some(missing)}: train it on "
                        "them first")  # fmt: skip
    order = None if labels is None or labels == ours else [labels.index(name) for name in ours]
    size = sum(weight.numel() for weight in model.parameters()) / 1e6
    sees, seen = (" x ".join(map(str, one.size)) for one in (own, prepare))
    told = f"{where}, {size:.2f} M parameters, sees {sees} pixels, the student {seen}"
    if labels is None:
        told += f"; it has no names of classes: taken to be {some(ours)}, in this order"
    return Teacher(model, own, prepare, order, told)


def from_zoo(where: str) -> tuple[nn.Module, Preprocess, tuple[str, ...] | None, int]:
    """A model of ours, or of another library's that we have -> it, how it sees, its classes."""
    run = user_path(where) / "model"
    model = load(str(run) if run.is_dir() else where)
    prepare, config = model.record.preprocess, getattr(model.head, "config", None)
    if not isinstance(prepare, Preprocess) or getattr(config, "target", None) != "label":
        wants = "distill.teacher takes a model that gives pictures one of several classes"
        raise UserError(f"{wants}; {where} does something else")
    return model, prepare, model.record.labels, int(config.classes or 0)  # type: ignore[union-attr]


def from_timm(where: str) -> tuple[nn.Module, Preprocess, tuple[str, ...] | None, int]:
    """`timm:NAME` or `timm:FOLDER` -> the same of a model of timm's."""
    import timm
    from timm.data.config import resolve_data_config

    name = where.removeprefix(TIMM)
    place = f"local-dir:{name}" if user_path(name).is_dir() else name
    try:
        model: Any = timm.create_model(place, pretrained=True)
    except Exception as error:  # its own, the Hub's, a file's
        told = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"distill.teacher takes a model of timm behind timm:; got {name}: {told}"
                        ) from error  # fmt: skip
    facts = resolve_data_config({}, model=model)
    names = (model.pretrained_cfg or {}).get("label_names")
    look = Preprocess(tuple(facts["input_size"][1:]), tuple(facts["mean"]), tuple(facts["std"]))
    return model, look, tuple(names) if names else None, int(model.num_classes)


class Distil(Task):
    """(1 - share) of the loss is that of the labels, `distill.share` that of the teacher's answers.

    soft: the divergence from its probabilities, both at `distill.temperature`, times its square
    (Hinton et al. 2015, arXiv:1503.02531).  hard: cross-entropy with its first choice. A student
    with a distillation token learns them by that token's own Linear, and the labels by the class
    token's (DeiT: Touvron et al. 2020, arXiv:2012.12877).
    """

    def __init__(self, model: Model, config: Config, teacher: Teacher):
        super().__init__(model, config)
        self.taught_by = (teacher,)  # no submodule: a checkpoint is the student's alone

    def on_fit_start(self) -> None:
        """The teacher goes where the student is, and is told."""
        log.info(f"teacher: {self.taught_by[0].told}")
        self.taught_by[0].to(self.device)

    def losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """A batch -> the sum of both losses, and the number of samples; experts as in Task."""
        inputs, d, head = inputs_of(batch), self.config.distill, self.model.head
        shown = Details() if self.routed else None
        answer, copied = head.both(self.model.features(**inputs, details=shown))  # type: ignore[union-attr, operator]
        total, count = self._loss(placed(answer, batch), batch, self.config.optim.smoothing)
        wanted = self.taught_by[0](inputs["pixels"]).float()
        if d.how == "hard":
            other = F.cross_entropy(copied.float(), wanted.argmax(-1), reduction="sum")
        else:
            t = d.temperature
            logs = [(x.float() / t).log_softmax(-1) for x in (copied, wanted)]
            other = t**2 * F.kl_div(*logs, reduction="sum", log_target=True)
        uneven = count * sum(shown.aux) if shown else 0.0
        return (1 - d.share) * total + d.share * other + uneven, count
