"""A frozen body's features, computed once instead of in every epoch."""

import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from zoo.data import Batches
from zoo.inputs import Prepare
from zoo.model import Model
from zoo.training.console import log
from zoo.training.tune import frozen


@dataclass(frozen=True)
class PrepareFeatures(Prepare, kind="features"):
    """Pooled vectors are samples as they are: (D,), or (views, D) of one to draw while training."""

    work = 1
    from_files = False
    input = "features"

    def load(self, source: Any) -> Tensor:
        """(D,) -> (D,)."""
        return source

    def finish(self, loaded: Tensor) -> Tensor:
        """(D,) -> (D,)."""
        return loaded

    def augment(self, config: Any) -> Any:
        """-> what draws one of the views, from torch's global generator."""
        return lambda views: views[int(torch.randint(len(views), ()))]

    def batch(self, samples: Any) -> dict[str, Tensor]:
        """B times (D,) -> {"features": (B, D)}."""
        return {self.input: torch.stack(list(samples))}


class Features(Batches):
    """Batches of {"features": (B, D), "target"}: what the model's head reads of each sample.

    Each split's are computed when it is first asked for, on the trainer's device and in its
    precision, on every rank all of train's, since any row may come to any rank later. Of pictures
    that may be mirrored (`data.flip`) train has two views, and each epoch draws one.
    """

    def __init__(self, batches: Batches, model: Model):
        super().__init__(batches.splits, PrepareFeatures(), batches.config)
        self.raw, self.model, self.in_memory = batches, model, True

    def loader(self, split: str) -> DataLoader[Any]:
        """The loader of a split for this rank, of features."""
        rows = self.splits.rows().get(split)
        if rows is not None and not isinstance(rows.items, Tensor):
            rows = replace(rows, items=self.features(split))
            self.splits = replace(self.splits, **{split: rows})
        return super().loader(split)

    @torch.no_grad()
    def features(self, split: str) -> Tensor:
        """-> (rows, D) in fp32, in the order of the rows; of train (rows, views, D)."""
        trainer: Any = self.trainer
        model, found, start = self.model, [], time.monotonic()
        was, place = model.training, next(model.parameters()).device
        model.eval()
        mirrored = split == "train" and self.config.data.flip and self.raw.prepare.kind == "picture"
        for batch in self.raw.plain(split):
            inputs = {k: v.to(place) for k, v in batch.items() if k != "target"}
            views = [inputs]
            if mirrored:
                views.append({**inputs, "pixels": inputs["pixels"].flip(-1)})
            with trainer.precision_plugin.forward_context() if trainer else nullcontext():
                pooled = [model.head.pool(model.features(**view)) for view in views]  # type: ignore[union-attr, operator]
            found.append(torch.stack(pooled, 1).float().cpu())
        model.train(was)
        what = f"features of {len(self.splits.rows()[split])} samples of {split}"
        what += ", as they are and mirrored" if mirrored else ""
        log.info(f"{what}, computed once: {time.monotonic() - start:.1f} s")
        every = torch.cat(found)
        return every if split == "train" else every[:, 0]


def cached(batches: Batches, model: Model) -> Batches:
    """Features in place of samples, where nothing but the head learns, and samples do not vary.

    A head that has more than a Linear behind what it pools (attention, distilled) gets samples.
    """
    data, head = batches.config.data, model.head
    varied = data.augment != "none" or data.mix != "none"
    own = type(batches.prepare).measure is not Prepare.measure  # of each sample, from its input
    if own or varied or not frozen(model) or not getattr(head, "pools_freely", False):
        return batches
    return Features(batches, model)
