"""Weights for our models as timm's: any layout of the family, any size, as the model has them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.convert import ConversionError
from zoo.errors import OptionError
from zoo.giving import square
from zoo.loading import Make, Report, fitting
from zoo.model import Model, load_state
from zoo.ops import resize_offsets
from zoo.resizing import changed

State = Mapping[str, Tensor]
SIZED = ("size", "patch", "window")  # what `resized` makes weights fit


def resized(model: Model, options: Mapping[str, Any]) -> Model:
    """A model with its weights at other sizes, where and in the mode that it was.

    Windows' tables are resized as timm does it, which is not the bicubic way of `zoo.load`.
    """
    like = next(model.parameters())
    plain = Model(model.adapter, model.backbone, model.head, model.record)
    report = Report("a model of timm's", "zoo", (), len(plain.state_dict()), (), (), 0)
    plain.record = replace(plain.record, report=plain.record.report or report)
    new = changed(plain, None, options)
    for key, table in new.named_parameters():
        if not key.endswith("attn.position.table"):
            continue
        kinds = (m.get_submodule(key.removesuffix(".table")).kind for m in (plain, new))
        source, target = (getattr(kind, "window", None) for kind in kinds)
        if source is not None and source != target:
            own = plain.get_parameter(key).detach()
            rows = torch.cat((own, own.new_zeros(3, own.shape[1])))  # theirs of a first token
            table.data.copy_(resize_offsets(rows, source, target)[:-3])  # type: ignore[arg-type]
    return new.to(like.device, like.dtype).train(model.training)


def converted(model: Any, state: State) -> dict[str, Tensor]:
    """A state dict in our keys or in any layout of the family, of the name's size or of the
    model's -> in our keys, of the model's size. ConversionError for one of another model."""
    if is_own(model, state):
        body = {key: tensor for key, tensor in state.items() if not key.startswith("head.")}
        if not misfits(model, body, head=False):
            return biased(model, dict(state))
        head = {key: tensor for key, tensor in state.items() if key not in body}
    else:
        body, head = state, {}
    errors = list[ConversionError]()
    for columns in columns_of(model):
        make = Make(model.record.name, columns)
        try:
            if body is state:
                native, layout = fitting(make, state, None, Path("state dict"))
            else:
                native, layout = make.build({}, {"head": None}), "zoo"
            load_state(native, body, layout, assign=True, where=f"zoo_{make.name}")
        except ConversionError as error:
            errors.append(error)
            continue
        except OptionError:  # the model's own size is none that its family takes by name
            if not errors:
                raise
            continue
        wanted, has = model.adapter.config, native.adapter.config
        options = {
            key: getattr(wanted, key)
            for key in SIZED
            if getattr(wanted, key, None) != getattr(has, key, None)
        }
        made = {**(resized(native, options) if options else native).state_dict(), **head}
        return biased(model, made)
    if body is not state:
        check_fits(model, misfits(model, body, head=False))
    raise min(errors, key=lambda error: len(error.problems))


def biased(model: Any, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A state dict, with a bias of zeros for the last Linear where timm adds one (CLIP)."""
    last = state.get("head.out.weight")
    if last is not None and model.given.get("bias") is True:
        state.setdefault("head.out.bias", last.new_zeros(len(last)))
    return state


def columns_of(model: Any) -> Iterator[dict[str, Any]]:
    """What a file may hold beside what its name says: what the model was made with, at the sizes
    and channels of the name, or at the model's own."""
    adapter = model.adapter.config
    sizes = {key: square(getattr(adapter, key)) for key in SIZED if hasattr(adapter, key)}
    for channels in ({}, {"channels": adapter.channels}):
        for own in ({}, sizes):
            yield {**model.given, **own, **channels}
            if model.given.get("bias") is True:  # timm's Linear has one where the public has none
                yield {**model.given, "bias": False, **own, **channels}


def is_own(model: Any, state: State) -> bool:
    """Whether a state dict is in our keys."""
    return not state or not model.state_dict().keys().isdisjoint(state)


def misfits(model: Any, state: State, head: bool = True, strict: bool = True) -> list[str]:
    """A line for each tensor that is missing, unknown or of another shape; without `head` but for
    those of the head, and without `strict` but for those that are missing or unknown."""
    has, lines = model.state_dict(), []
    for key in [*has, *(key for key in state if key not in has)]:
        if not head and key.startswith("head."):
            continue
        if key not in has or key not in state:
            lines += [f"{key}: {'missing' if key in has else 'unknown'}"] if strict else []
        elif state[key].shape != has[key].shape:
            lines.append(
                f"{key}: {tuple(state[key].shape)}, the model's is {tuple(has[key].shape)}"
            )
    return lines


def check_fits(model: Any, lines: list[str]) -> None:
    """ConversionError that names what does not fit, if anything."""
    if lines:
        name = f"zoo_{model.record.name}"
        todo = "give create_model the options that the weights were made with"
        raise ConversionError(f"{name} takes weights of a model like it", lines, todo)


def pretrained(state: State, model: Any) -> dict[str, Tensor]:
    """timm's filter: a state dict -> in our keys, of the model's size; the head's tensors may be
    absent, or of other classes. ConversionError where anything else does not fit.

    timm loads what comes from here without being strict, so nothing else would tell.
    """
    made = converted(model, state)
    has, stem = model.state_dict(), "adapter.stem.weight"
    made = {key: tensor for key, tensor in made.items() if key in has or key[:5] != "head."}
    like = dict(made)
    if stem in made and made[stem].ndim == has[stem].ndim == 4:
        one, other = ((len(t), *t.shape[2:]) for t in (made[stem], has[stem]))
        if one == other:  # timm makes its channels fit
            like[stem] = has[stem]
    check_fits(model, misfits(model, like, head=False))
    return made
