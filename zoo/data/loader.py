"""Splits -> batches."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning
import torch
from PIL.Image import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from zoo.data.check import cores
from zoo.data.sampling import EvalSampler, TrainSampler, stream_seed
from zoo.data.splits import Rows, Splits
from zoo.errors import UserError
from zoo.inputs import Preprocess
from zoo.inputs.augmentation import augment
from zoo.inputs.image import decode_image

IN_MEMORY = 200_000_000  # bytes of decoded pictures that are kept rather than decoded every epoch
NO_WORKERS = 2**25  # pixels per epoch that are sooner made than a worker process is started
AT_MOST = 4  # worker processes by default


class Pictures(Dataset[dict[str, Any]]):
    """Rows as {"pixels": (C, H, W) float32, "target": int}.

    A key is a row, or (epoch, row) for training: random numbers then come from (seed, epoch, row)
    alone, and the global generator is left as it was. So what is drawn depends neither on the
    number of workers nor on what ran before, and dropout not on the data.
    """

    def __init__(
        self, rows: Rows, preprocess: Preprocess, vary: Callable[[Image], Tensor], seed: int
    ):
        self.paths, self.targets = rows.paths, rows.targets
        self.preprocess, self.vary, self.seed = preprocess, vary, seed
        self.kept: list[Image] | None = None

    def keep(self) -> None:
        """Decode all pictures now and keep them."""
        with ThreadPoolExecutor(cores()) as pool:
            self.kept = list(pool.map(self.decode, self.paths))

    def decode(self, path: Path) -> Image:
        """As the model's preprocessing wants it, at the file's own size."""
        return decode_image(path, self.preprocess.channels, self.preprocess.background)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, key: int | tuple[int, int]) -> dict[str, Any]:
        epoch, row = key if isinstance(key, tuple) else (0, key)
        picture = self.kept[row] if self.kept else self.decode(self.paths[row])
        with _drawing_from(stream_seed(self.seed, "augment", epoch, row)):
            return {"pixels": self.vary(picture), "target": self.targets[row]}


class ImageData(lightning.LightningDataModule):
    """Loaders of {"pixels": (B, C, H, W) float32, "target": (B,) int64} for each split there is.

    Reads `config.data` (augment, flip), `config.run` (seed, global_batch), `config.hw` (workers,
    micro_batch). Training order and augmentation are functions of (seed, epoch), set through the
    samplers' `set_epoch`; no batch is dropped, so the last of an epoch may be smaller. Under DDP
    each rank trains on its share and evaluates its own rows, none twice (see zoo.data.sampling).
    UserError for a model without preprocessing for pictures (`preprocess` None).
    """

    def __init__(self, splits: Splits, preprocess: Preprocess | None, config: Any):
        super().__init__()
        if preprocess is None:
            raise UserError(
                "folders of pictures take a model with preprocessing for pictures; this one's "
                "record has none: choose a model for pictures (`zoo list models`)"
            )
        self.splits, self.preprocess, self.config = splits, preprocess, config
        decoded = preprocess.channels * sum(sum(r.pixels) for r in splits.rows().values())
        self.in_memory = decoded <= IN_MEMORY
        self.made: dict[tuple[str, int, int], DataLoader[Any]] = {}
        vary = augment(config.data, preprocess)
        self.vary = {"train": vary, "val": preprocess, "test": preprocess}

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
        pictures = Pictures(rows, self.preprocess, self.vary[split], seed)
        if self.in_memory:
            pictures.keep()
        training = split == "train"
        return DataLoader(
            pictures,
            batch_size=self.config.hw.micro_batch or -(-self.config.run.global_batch // world),
            sampler=TrainSampler(len(rows), seed, rank, world)
            if training
            else EvalSampler(len(rows), rank, world),
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=torch.cuda.is_available() and self.config.hw.accelerator != "cpu",
            generator=torch.Generator().manual_seed(seed),  # or workers' seeds come from dropout's
        )

    def workers(self, rows: Rows) -> int:
        """Processes that read: as the config says, or none for little data in memory."""
        if self.config.hw.workers != "auto":
            return self.config.hw.workers
        height, width = self.preprocess.size
        little = self.in_memory and len(rows) * height * width <= NO_WORKERS
        return 0 if little else min(cores(), AT_MOST)


@contextmanager
def _drawing_from(seed: int) -> Iterator[None]:
    """Torch's global CPU generator starts from `seed` within, and goes on as before after."""
    state = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(state)
