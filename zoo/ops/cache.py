"""Derived tables, made once per size, dtype and device, and never part of a model's state."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def cached(make: Callable[P, R]) -> Callable[P, R]:
    """Remember the last 128 results of a pure function whose arguments are hashable and hold no
    tensor.

    Tables are made outside inference mode, so that one made while predicting also serves training,
    and are made anew while a graph is traced or exported, which must own its constants.
    """
    remembered = functools.lru_cache(maxsize=128)(make)

    @functools.wraps(make)
    def table(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_compiling():
            return make(*args, **kwargs)
        with torch.inference_mode(False):
            return remembered(*args, **kwargs)  # type: ignore[arg-type]  # hashability is the caller's part

    return table
