"""Texts as subword ids. The tokenizer travels with the model, as the JSON of `tokenizers`."""

import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from zoo.errors import UserError
from zoo.inputs.names import user_path
from zoo.inputs.prepare import Prepare, pad_together

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL = {"pad": "[PAD]", "unknown": "[UNK]", "class": "[CLS]", "mask": "[MASK]"}
CHARACTERS = 100_000  # of a text are read, or more: a tokenizer takes 200 bytes for each
log = logging.getLogger("zoo")
MASKED = {"none": 0.0, "light": 0.1, "strong": 0.25}  # share of subwords hidden while training


@dataclass(frozen=True)
class PrepareText(Prepare, kind="text"):
    """`prepare(text)` gives its ids, (T,) int64, the class token first.

    Blanks around a text do not count. An empty text is the class token alone, so each text has
    an answer; a missing cell of a table is an empty text. One longer than `length` is cut at its
    end, which is said once.
    """

    from_files: ClassVar[bool] = False
    input = "ids"
    tokenizer: str
    """The JSON of a `tokenizers.Tokenizer`."""
    length: int = 256
    """The most subwords of a text, class token included."""

    def __post_init__(self) -> None:
        if self.length < 2:
            raise UserError(f"PrepareText takes a length of at least 2; got {self.length}")
        _tokenizer(self.tokenizer)

    def load(self, source: Any) -> Tensor:
        """A text -> (T,) int64. UserError for anything else."""
        if not isinstance(source, str):
            got = "None" if source is None else f"{source!r} ({type(source).__name__})"
            raise UserError(f"a text model takes text; got {got}: give it as text")
        text, most = source.strip(), max(CHARACTERS, 100 * self.length)
        tokenizer = _tokenizer(self.tokenizer)
        ids = tokenizer.encode(repair(text[:most]), add_special_tokens=False).ids
        if len(ids) >= self.length or len(text) > most:
            say_cut(self.length)
        return torch.tensor([self.token("class"), *ids][: self.length])

    def token(self, name: str) -> int:
        """The id of one of `SPECIAL`."""
        return _tokenizer(self.tokenizer).token_to_id(SPECIAL[name])  # type: ignore[return-value]  # it has all

    def finish(self, loaded: Tensor) -> Tensor:
        """(T,) -> (T,): ids are what a model takes."""
        return loaded

    def augment(self, config: Any) -> Callable[[Tensor], Tensor]:
        """`config.augment`: none, or hide a share of the subwords while training: light, strong."""
        return Masked(self.token("mask"), MASKED[config.augment])

    def batch(self, samples: Sequence[Tensor]) -> dict[str, Tensor]:
        """[(T,)] -> {"ids": (B, T) int64, "keep": (B, T) bool}, `keep` only where one is padded."""
        ids, keep = pad_together(samples, self.length)
        return {"ids": ids} if keep is None else {"ids": ids, "keep": keep}

    def adapter(self) -> dict[str, Any]:
        """The rows of the tables of ids and of positions."""
        return {"vocabulary": _tokenizer(self.tokenizer).get_vocab_size(), "length": self.length}


@dataclass(frozen=True)
class Masked:
    """(T,) -> (T,): each subword but the class token is hidden with a probability."""

    mask: int
    share: float

    def __call__(self, ids: Tensor) -> Tensor:
        """Draws from torch's global generator."""
        hidden = torch.rand(len(ids)) < self.share
        hidden[0] = False
        return torch.where(hidden, self.mask, ids)


def repair(text: str) -> str:
    """Characters written as pairs of halves (surrogates) become whole; lone halves become U+FFFD.

    Some programs write emoji so, and no tokenizer takes them.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@functools.lru_cache(maxsize=8)
def say_cut(most: int) -> None:
    """Say, once per process and limit, that what is longer is cut."""
    said = "a text is cut to its first %d subwords (data.length), and so is each longer one"
    log.warning(said, most)


@functools.lru_cache(maxsize=8)
def _tokenizer(text: str) -> "Tokenizer":
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # the library raises bare ones
        raise UserError(f"a tokenizer is the JSON of the tokenizers library: {error}") from error
    missing = [word for word in SPECIAL.values() if tokenizer.token_to_id(word) is None]
    if missing:
        raise UserError(f"a tokenizer has the tokens {', '.join(missing)}; this one lacks them")
    tokenizer.no_padding()  # its file may ask for both, at lengths of its own
    tokenizer.no_truncation()
    return tokenizer


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> str:
    """A byte-level BPE of at most so many tokens -> its JSON.

    Bytes know every character, so nothing is unknown; compatible forms are one (NFKC) and capitals
    count. (Sennrich et al. 2016, arXiv:1508.07909; bytes: Radford et al. 2019)
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token=SPECIAL["unknown"]))
    tokenizer.normalizer = normalizers.NFKC()  # type: ignore[assignment]  # a setter
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)  # type: ignore[assignment]
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL.values()),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    starts = (repair((text or "").strip()[:CHARACTERS]) for text in texts)
    tokenizer.train_from_iterator(starts, trainer)
    return tokenizer.to_str()


def read_tokenizer(path: str | Path) -> str:
    """A tokenizer.json -> its JSON, with the special tokens that it lacks added."""
    from tokenizers import Tokenizer

    file = user_path(path)
    try:
        tokenizer = Tokenizer.from_str(file.read_text("utf-8"))
    except Exception as error:  # the library raises bare ones
        takes = "data.tokenizer takes a tokenizer.json of the tokenizers library"
        raise UserError(f"{takes}; {file} is none: {error}") from error
    tokenizer.add_special_tokens(list(SPECIAL.values()))
    return tokenizer.to_str()


def text(config: Any, splits: Any) -> Callable[[], PrepareText]:
    """The data section of a config, splits of texts -> what makes a new model's way to read texts.

    With the tokenizer that `config.tokenizer` names, else one of `config.vocabulary` subwords that
    is trained, when it is asked for, on the texts of train.
    """

    def prepare() -> PrepareText:
        if config.tokenizer is not None:
            return PrepareText(read_tokenizer(config.tokenizer), config.length)
        return PrepareText(train_tokenizer(splits.train.items, config.vocabulary), config.length)

    return prepare
