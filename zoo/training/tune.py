"""What of a loaded model learns: all of it, what is not frozen, or low-rank updates beside it.

In a recipe `model.freeze: body` leaves the head alone to learn, `model.freeze: 5` also the blocks
from the fifth on, and `model.lora.rank: 8` puts updates beside frozen Linears.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from zoo.errors import OptionError, require
from zoo.model import Model
from zoo.nn import Attention
from zoo.nn.config import make_config

LINEARS = {  # by what may be updated, the Linears of a block that hold it
    "q": ("qkv", "q"), "k": ("qkv", "kv"), "v": ("qkv", "kv"), "out": ("out",), "up": ("up",),
    "down": ("down",),
}  # fmt: skip
FUSED = ("q", "k", "v")  # in the order of the rows of `qkv`


@dataclass(frozen=True)
class Lora:
    """W + alpha / rank B A in place of a frozen W (Hu et al. 2021, arXiv:2106.09685), by peft."""

    rank: int = 8
    """Rows of A, columns of B."""
    alpha: float | None = None
    """How much the update weighs; None = twice the rank."""
    dropout: float = 0.0
    """Zeroed share of what A reads."""
    of: tuple[str, ...] = tuple(LINEARS)
    """Which products of a block are updated: q, k, v, out, up, down."""


def tune(model: Model, freeze: Any = None, lora: Mapping[str, Any] | None = None) -> Model:
    """The model, its parts frozen and updates put in as `freeze` and `Lora` options say.

    `freeze` is "body", or a number: what lies less deep than it (see `Model.depth_of`). OptionError
    for anything else.
    """
    if lora is not None:
        require(
            freeze is None, "lora freezes the body itself; got freeze too: leave it out", "lora"
        )
        require(isinstance(lora, Mapping), f"lora takes options such as rank; got {lora!r}", "lora")
        put_lora(model, make_config(Lora, lora, "lora"))
    elif freeze is not None:
        whole = not isinstance(freeze, bool) and isinstance(freeze, int) and freeze > 0
        wants = "freeze takes body, or a whole number of at least 1"
        require(whole or freeze == "body", f"{wants}; got {freeze!r}", "freeze")
        most = model.depth_of("head")
        deep = most if freeze == "body" else freeze
        wants = f"freeze takes at most {most}, which leaves the last norm and the head"
        require(deep <= most, f"{wants}; got {freeze}", "freeze")
        freeze_body(model, deep, freeze == "body")
    return model


def freeze_body(model: Model, deep: int, whole: bool = False) -> None:
    """No gradient for what lies less deep, and none for the last norm if the `whole` body is
    frozen. Its modules are put in eval mode: neither dropout nor drop path is of use there."""
    for name, part in model.named_modules():
        body = whole and name.split(".")[0] in ("adapter", "backbone")
        if name and (body or model.depth_of(name) < deep):
            part.training = False  # alone: what lies below may be deeper
            for parameter in part.parameters(recurse=False):
                parameter.requires_grad_(False)


def frozen(model: Model) -> bool:
    """Whether nothing but the head learns."""
    return not any(p.requires_grad for part in (model.adapter, model.backbone)
                   for p in part.parameters())  # fmt: skip


def put_lora(model: Model, lora: Lora) -> None:
    """Low-rank updates beside Linears of the backbone, the head and they alone learn.

    peft updates whole Linears. Where of a fused `qkv` only some are to be updated, A is theirs in
    common, and the rows of B that belong to the others are kept at zero: their gradient is.
    OptionError where peft is not installed.
    """
    unknown = [name for name in lora.of if name not in LINEARS]
    wants = f"lora takes of as some of {', '.join(LINEARS)}"
    require(lora.of and not unknown, f"{wants}; got {list(lora.of)}", "lora.of")
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        wants = "lora takes the package peft, which is not installed"
        raise OptionError(f"{wants}: pip install 'omnizoo[lora]'", "lora") from error
    names = sorted({linear for name in lora.of for linear in LINEARS[name]})
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha or 2 * lora.rank,  # type: ignore[arg-type]  # a factor, any number
        lora_dropout=lora.dropout,
        # a block's own Linears: not those that make its positions
        target_modules=rf"backbone\..*\.(attn|cross|time|mlp)\.({'|'.join(names)})",
    )
    inject_adapter_in_model(config, model)  # which freezes all else
    if model.head is not None:
        model.head.requires_grad_(True)
    for part in model.backbone.modules():
        if isinstance(part, Attention) and hasattr(part, "qkv") and not {*FUSED} <= {*lora.of}:
            keep_rows(part, lora.of)


def keep_rows(attention: Attention, of: tuple[str, ...]) -> None:
    """Only the rows of `qkv` that are `of` q, k or v get a gradient."""
    qkv: Any = attention.qkv
    if not hasattr(qkv, "lora_B"):
        return
    counts = [attention.config.heads, attention.groups, attention.groups]
    rows = [float(name in of) for name in FUSED for _ in range(counts[FUSED.index(name)])]
    own = torch.tensor(rows).repeat_interleave(attention.width)[:, None]

    def masked(gradient: Tensor) -> Tensor:
        return gradient * own.to(gradient)

    qkv.lora_B["default"].weight.register_hook(masked)


def merge(model: Model) -> None:
    """Updates added to the weights that they were beside: a plain model again, of equal answers."""
    if not any("lora_" in name for name, _ in model.named_parameters()):
        return
    from peft.tuners.lora import LoraLayer

    for name, part in list(model.named_modules()):
        if isinstance(part, LoraLayer):
            part.merge()  # type: ignore[operator]
            above, _, last = name.rpartition(".")
            plain: nn.Module = part.get_base_layer()
            setattr(model.get_submodule(above), last, plain)


def learning(model: Model) -> str:
    """How many of the parameters learn, in words, and whether the others never did; "" where all
    do."""
    count = sum(p.numel() for p in model.parameters() if p.requires_grad)
    every = sum(p.numel() for p in model.parameters())
    random = "; the others stay random, since nothing was loaded (--model.load)"
    told = f", {count:,} of them learn{'' if model.record.report else random}"
    return "" if count == every else told
