"""Splits -> batches."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import lightning
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from zoo.data.check import cores
from zoo.data.sampling import EvalSampler, TrainSampler, stream_seed
from zoo.data.splits import Rows, Splits
from zoo.errors import UserError
from zoo.inputs import Prepare
from zoo.inputs.augmentation import Mix

IN_MEMORY = 200_000_000  # bytes of decoded samples that are kept rather than decoded every epoch
NO_WORKERS = 2**25  # values per epoch that are sooner made than a worker process is started
AT_MOST = 4  # worker processes by default


class Samples(Dataset[tuple[Tensor, Any, tuple[int, int]]]):
    """Rows as (a sample's tensor, its target, (epoch, row)).

    A key is a row, or (epoch, row) for training: random numbers then come from (seed, epoch, row)
    alone, and the global generator is left as it was. So what is drawn depends neither on the
    number of workers nor on what ran before, and dropout not on the data.
    """

    def __init__(
        self,
        rows: Rows,
        prepare: Prepare,
        vary: Callable[[Any], Tensor],
        seed: int,
        mix: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None,
        weights: Tensor | None = None,
    ):
        self.items, self.targets, self.weights = rows.items, rows.targets, weights
        self.prepare, self.vary, self.seed, self.mix = prepare, vary, seed, mix
        self.kept: list[Any] | None = None

    def keep(self) -> None:
        """Load all samples now and keep them."""
        with ThreadPoolExecutor(cores()) as pool:
            each = pool.map(lambda i: self.prepare.load(self.items[i]), range(len(self)))
            self.kept = list(each)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, key: int | tuple[int, int]) -> tuple[Tensor, Any, tuple[int, int]]:
        epoch, row = key if isinstance(key, tuple) else (0, key)
        loaded = self.kept[row] if self.kept else self.prepare.load(self.items[row])
        with _drawing_from(stream_seed(self.seed, "augment", epoch, row)):
            return self.vary(loaded), self.targets[row], (epoch, row)

    def collate(self, samples: Sequence[tuple[Tensor, Any, tuple[int, int]]]) -> dict[str, Tensor]:
        """Samples -> the model's inputs by name, "target", where samples have their own measure
        "start" and "unit", and the "weight" of each where classes are weighted."""
        inputs, targets = [x for x, _, _ in samples], [target for _, target, _ in samples]
        number = isinstance(targets[0], tuple) and isinstance(targets[0][0], float)
        target = torch.tensor(targets, dtype=torch.float64 if number else torch.int64)
        batch = self.prepare.batch(inputs)
        if self.mix is not None:
            name = self.prepare.input
            with _drawing_from(stream_seed(self.seed, "mix", *samples[0][2])):
                batch[name], target = self.mix(batch[name], target)
        own = self.prepare.measure(inputs) if number else None
        more: dict[str, Tensor] = {}
        if own is not None:
            more["start"], more["unit"] = own
        if self.weights is not None:
            mixed = target.is_floating_point()
            more["weight"] = target @ self.weights if mixed else self.weights[target]
        return {"target": target, **batch, **more}  # pictures bring their masks themselves


class Batches(lightning.LightningDataModule):
    """Loaders of the model's inputs by name, and "target", for each split there is.

    Pictures come as {"pixels": (B, C, H, W), "target": (B,)}, texts as {"ids", "keep", "target"},
    sounds and series as {"frames", "keep", "target"}; `keep` is left out where nothing is padded.
    Targets are int64, or float64 where they are numbers, in the data's own units (see `Task`).
    Reads `config.data` (augmentation), `config.run` (seed, global_batch), `config.hw` (workers,
    micro_batch). Training order and augmentation are functions of (seed, epoch), set through the
    samplers' `set_epoch`; no batch is dropped, so the last of an epoch may be smaller. Under DDP
    each rank trains on its share and evaluates its own rows, none twice (see zoo.data.sampling).
    UserError for a model that does not know how raw samples become its input (`prepare` None).
    """

    def __init__(self, splits: Splits, prepare: Prepare | None, config: Any):
        super().__init__()
        if prepare is None:
            raise UserError(
                "training takes a model that knows its preprocessing; this one's record has none: "
                "choose another (`zoo list models`)"
            )
        self.splits, self.prepare, self.config = splits, prepare, config
        values = sum(sum(rows.values) for rows in splits.rows().values())
        self.in_memory = values * prepare.width <= IN_MEMORY
        self.made: dict[tuple[str, int, int], DataLoader[Any]] = {}
        self.vary = {"train": prepare.augment(config.data)}

    def train_dataloader(self) -> DataLoader[Any]:
        """Shuffled, varied. UserError if the splits have no train."""
        return self.loader("train")

    def val_dataloader(self) -> Any:
        """In order, as predicted; an empty list if there is no val."""
        return self.loader("val") if self.splits.val is not None else []

    def test_dataloader(self) -> Any:
        """In order, as predicted; an empty list if there is no test."""
        return self.loader("test") if self.splits.test is not None else []

    def loader(self, split: str) -> DataLoader[Any]:
        """The loader of "train", "val" or "test" for this rank, made once."""
        rows = self.splits.rows().get(split)
        if rows is None:
            has = ", ".join(self.splits.rows())
            raise UserError(f"these data have {has} and no {split}: give --data.{split}")
        rank = self.trainer.global_rank if self.trainer else 0
        world = self.trainer.world_size if self.trainer else 1
        if (split, rank, world) not in self.made:
            self.made[split, rank, world] = self._make(rows, split, rank, world)
        return self.made[split, rank, world]

    def _make(self, rows: Rows, split: str, rank: int, world: int) -> DataLoader[Any]:
        seed, workers = self.config.run.seed, self.workers(rows)
        vary = self.vary.get(split, self.prepare.finish)
        training = split == "train"
        blend = mixing(self.config.data.mix, self.splits, self.prepare) if training else None
        even = training and self.config.optim.class_weights == "auto"
        weights = class_weights(self.splits) if even else None
        size = self.config.hw.micro_batch or -(-self.config.run.global_batch // world)
        samples = Samples(rows, self.prepare, vary, seed, blend, weights)
        if self.in_memory:
            samples.keep()
        return DataLoader(
            samples,
            collate_fn=samples.collate,
            batch_size=1 if self.prepare.alone and not training else size,
            sampler=TrainSampler(len(rows), seed, rank, world)
            if training
            else EvalSampler(len(rows), rank, world),
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=torch.cuda.is_available() and self.config.hw.accelerator != "cpu",
            generator=torch.Generator().manual_seed(seed),  # or workers' seeds come from dropout's
        )

    def plain(self, split: str) -> DataLoader[Any]:
        """All rows of a split on this rank, in order, as predicted: not varied, not blended."""
        return self._make(self.splits.rows()[split], "plain", 0, 1)

    def workers(self, rows: Rows) -> int:
        """Processes that read: as the config says, at most one for each row, or none for little
        data in memory."""
        if self.config.hw.workers != "auto":
            return min(self.config.hw.workers, len(rows))
        little = self.in_memory and len(rows) * self.prepare.work <= NO_WORKERS
        return 0 if little else min(cores(), AT_MOST)


def mixing(mix: str, splits: Splits, prepare: Prepare) -> Mix | None:
    """`config.mix` -> what mixes pictures or sounds.

    UserError where there is not one label each, or sounds are not of one length.
    """
    if mix == "none":
        return None
    if splits.target != "label":
        raise UserError(f"data.mix takes samples with one label each; these have {splits.target}")
    if not getattr(prepare, "fixed", True):
        raise UserError(
            "data.mix takes sounds of one length; this adapter takes each at its own: use "
            "SpectrogramPatches, or leave them unmixed"
        )
    return Mix(mix, len(splits.labels))


def class_weights(splits: Splits) -> Tensor:
    """-> (classes,): what makes every class count the same in the loss of train, 1 on the mean of
    its rows. UserError where there is not one label each."""
    if splits.target != "label" or splits.train is None:
        wants = "optim.class_weights takes samples with one label each"
        raise UserError(f"{wants}; these have {splits.target}")
    counts = torch.tensor(splits.train.counts(), dtype=torch.float32)
    return counts.sum() / (counts.clamp(min=1) * (counts > 0).sum())


@contextmanager
def _drawing_from(seed: int) -> Iterator[None]:
    """Torch's global CPU generator starts from `seed` within, and goes on as before after."""
    state = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(state)
