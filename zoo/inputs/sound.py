"""Sounds as log-mel spectrograms: any file that libsndfile reads, at any rate, depth, channels.

torchaudio and soundfile are imported when a sound is first read.
"""

import functools
import io
import logging
import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from zoo.errors import SampleError, UserError, require
from zoo.inputs.names import is_endless, printable
from zoo.inputs.prepare import STEP, Prepare, pad_together

SUFFIXES = frozenset(".wav .wave .flac .ogg .oga .opus .mp3 .aiff .aif .aifc .au .caf .w64".split())
WINDOW, HOP = 0.025, 0.010  # seconds of one spectrum, and from one to the next
LOWEST = 20.0  # Hz: below is rumble and what microphones add to every sample
LOUDEST = 1e12  # of a sample: with more, the power of a band is no float32 (1 is full scale)
FLOOR = 1e-6  # added to a band's power, about -80 dB of full scale: silence has a logarithm too
FIXED = 30_000  # windows at most where all sounds are filled to one length
UNTRUE = ("does not exist", "SF_INFO")  # so libsndfile speaks of bytes that only begin like an MP3
MEASURED = 1000  # sounds at most from which mean and std are taken
Order = Literal["little", "big"]
CHUNKED: dict[bytes, tuple[bytes, int, int, Order]] = {
    # how it begins: which chunk has the samples, where the first begins, bytes of a chunk's size
    b"RIFF": (b"data", 12, 4, "little"),
    b"RIFX": (b"data", 12, 4, "big"),
    b"RF64": (b"data", 12, 4, "little"),
    b"FORM": (b"SSND", 12, 4, "big"),
    b"caff": (b"data", 8, 8, "big"),
}
SIZED: tuple[tuple[bytes, int, int, Order, bool], ...] = (
    # how it begins, where it says its size, in how many bytes, whether that is behind a header
    (b".snd", 8, 4, "big", True),
    (b"riff\x2e\x91\xcf\x11", 16, 8, "little", False),
)
log = logging.getLogger("zoo")


class SoundError(SampleError):
    """A file or value that cannot be read as a sound; `reason` says why, without naming it."""

    @classmethod
    def of(cls, name: str, reason: str) -> "SoundError":
        """The error whose sentence says that `name` is no sound, for this reason."""
        takes = "a sound must be a readable file of finite samples (WAV, FLAC, Ogg, MP3, ...)"
        return cls(f"{takes}; {name} is not: {reason}; replace it or take it out", reason)


def decode_sound(source: str | Path | bytes, rate: int | None) -> Tensor:
    """A file or its bytes -> (T,) float32, the mean of its channels, `rate` samples per second.

    Whole numbers are scaled to -1..1; peaks of floats above 1 are kept. The file itself says what
    its rate is; `rate` None keeps that. SoundError (a UserError) names a file that cannot be read
    and says why: so for one that ends early, has no samples, or one that is NaN or above `LOUDEST`.
    """
    wave, own = read_sound(source)
    if rate is None or rate == own:
        return wave
    from torchaudio.functional import resample

    # Rates without a common divisor would make kernels of gigabytes; this is exact for usual ones,
    # and off by less than a millionth else.
    near = Fraction(own, rate).limit_denominator(1000)
    return resample(wave, near.numerator, near.denominator)


def read_sound(source: str | Path | bytes) -> tuple[Tensor, int]:
    """A file or its bytes -> (T,) float32 at its own rate, and that rate. See `decode_sound`."""
    import soundfile

    if not isinstance(source, (str, os.PathLike, bytes)):
        kind = type(source).__name__
        raise UserError(f"a sound is a path or a file's bytes; got {kind}: write it to a file")
    name = f"what was given as {len(source)} bytes" if isinstance(source, bytes) else source
    try:
        if not isinstance(source, bytes) and is_endless(source):
            raise OSError("it is no regular file")
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        if not data:
            raise ValueError("it is empty (0 bytes)")
        with soundfile.SoundFile(io.BytesIO(with_size(data))) as file:
            declared, rate = file.frames, file.samplerate
            samples = file.read(declared, dtype="float32", always_2d=True)  # GSM has to be told
        check_whole(data, len(samples), declared)
        wave = torch.from_numpy(samples).mean(1)  # float peaks may be infinite, but not overflow
        if not len(wave):
            raise ValueError("it has no samples")
        if not 100 <= rate <= 10_000_000:
            raise ValueError(f"its rate of {rate} samples per second is that of no sound")
        wrong = ~(wave.abs() <= LOUDEST)  # NaN is not
        if bool(wrong.any()):
            at = int(wrong.nonzero()[0])
            raise ValueError(f"its sample {at} (at {at / rate:.3f} s) is {wave[at]:g}")
    except soundfile.LibsndfileError as error:
        reason = str(error.error_string).strip().rstrip(".")
        if any(part in reason for part in UNTRUE):
            reason = "format not recognised"
        raise SoundError.of(printable(name), f"{reason[:1].lower()}{reason[1:]}") from error
    except (OSError, ValueError, RuntimeError, MemoryError) as error:
        reason = str(getattr(error, "strerror", None) or error or type(error).__name__)
        raise SoundError.of(printable(name), reason[:1].lower() + reason[1:]) from error
    return wave, rate


def samples_in(data: bytes) -> tuple[int, int | None] | None:
    """Where the samples of a file of chunks begin, and how many bytes they say to have: None if
    that was not known when it was written, as into a pipe. None for other files."""
    if data[:4] not in CHUNKED:
        return None
    chunk, at, width, order = CHUNKED[data[:4]]
    while at + 4 + width <= len(data):
        size, kind = int.from_bytes(data[at + 4 : at + 4 + width], order), data[at : at + 4]
        at += 4 + width
        if kind == chunk:
            if data[:4] == b"RF64" and size == 2**32 - 1:  # then the chunk ds64 says it
                size = int.from_bytes(data[28:36], "little") if data[12:16] == b"ds64" else size
                return at, size if 0 < size < 2**63 else None
            return at, None if is_open(size, width) else size
        at += size + (size % 2 if width == 4 else 0)
    return None


def is_open(size: int, width: int) -> bool:
    """Whether a size in `width` bytes is one that stands for a length that was not known: ones
    throughout, or the most that a number with or without a sign holds, less a header."""
    near = 2**16
    if width == 8:
        return size == 2**64 - 1
    return 2**31 - near <= size <= 2**31 or size >= 2**32 - near


def with_size(data: bytes) -> bytes:
    """The file, but where a decoder would not take one whose length was not known when it was
    written: a CAF that says so; a WAV with samples of 0 bytes whose own size does not reach beyond
    them, or was not known either. In these, samples go on to the end."""
    start, size = samples_in(data) or (0, len(data))
    open_ = data[:4] == b"caff" and size is None
    if data[:4] == b"RIFF" and size == 0 < len(data) - start:
        whole = int.from_bytes(data[4:8], "little")
        open_ = whole + 8 <= start or is_open(whole, 4)
    if not open_:
        return data
    _, _, width, order = CHUNKED[data[:4]]
    known = min(len(data) - start, 2 ** (8 * width) - 1).to_bytes(width, order)
    return data[: start - width] + known + data[start:]


def check_whole(data: bytes, found: int, declared: int) -> None:
    """ValueError if a file holds less than it says: a decoder only gives what is there.

    WAV, RF64, AIFF, CAF, AU and W64 say how many bytes there are, FLAC and others how many samples,
    Ogg marks its last page. MP3 says nothing.
    """
    if found < declared:
        raise ValueError(f"it ends early, after {found} of {declared} samples")
    start, size = samples_in(data) or (0, 0)
    if size is not None and len(data) - start < size:
        raise ValueError(f"it ends early, after {len(data) - start} of {size} bytes of samples")
    for mark, at, bytes_, order, before in SIZED:  # .snd: after its header; W64: of the whole file
        if data.startswith(mark):
            size = int.from_bytes(data[at : at + bytes_], order)
            start = int.from_bytes(data[4:8], "big") if before else 0
            if len(data) - start < size < 2 ** (8 * bytes_) - 1:
                raise ValueError(f"it ends early, after {len(data) - start} of {size} bytes")
    last = data.rfind(b"OggS") if data[:4] == b"OggS" else -1
    if last < 0:
        return
    head = last + 27
    count = data[head - 1] if head <= len(data) else -1
    parts = data[head : head + max(count, 0)]
    whole = len(parts) == count and head + count + sum(parts) <= len(data)
    if not whole or data[last + 5] < 4:  # the flag 4 ends a stream
        raise ValueError("it ends early, before the page that is marked as its last has ended")


@functools.lru_cache(maxsize=8)
def filters(rate: int, mels: int) -> Tensor:
    """-> (bins, mels) float32: triangles over the bins of a power spectrum, evenly spaced in mel.

    There are as many bins as it takes that no band is without one, at least for twice the window.
    """
    from torchaudio.functional import melscale_fbanks

    bins = 2 ** math.ceil(math.log2(2 * round(WINDOW * rate))) // 2 + 1
    while True:
        with warnings.catch_warnings(action="ignore"):  # about bands without a bin
            bank = melscale_fbanks(bins, LOWEST, rate / 2, mels, rate)
        if bool(bank.any(0).all()):
            return bank
        bins = 2 * bins - 1


def log_mel(wave: Tensor, rate: int, mels: int) -> Tensor:
    """(N,) float32 -> (T, mels) float32: the logarithm of the power in each band and window.

    T = 1 + (N - window) // hop, without padding at the ends; what is shorter than a window is
    padded to one with silence.
    """
    window, hop, bank = round(WINDOW * rate), round(HOP * rate), filters(rate, mels)
    wave = torch.nn.functional.pad(wave, (0, max(window - len(wave), 0)))
    pieces = wave.unfold(0, window, hop) * torch.hann_window(window)
    power = torch.fft.rfft(pieces, 2 * (len(bank) - 1)).abs().square()
    return (power @ bank + FLOOR).log()


@dataclass(frozen=True)
class Cut:
    """A sound that is longer than the limit: the same as each other, since one is spoken of."""

    limit: float
    """In seconds."""
    length: float = field(compare=False)
    """The same."""


@functools.cache
def say_cut(cut: Cut) -> None:
    """Say, once per process and limit, that what is longer is cut."""
    log.warning(
        "a sound of %s s is cut to its first %g s (data.seconds), and so is each longer one",
        f"{cut.length:.{1 if cut.length >= 10 else 2}f}",
        cut.limit,
    )


@dataclass(frozen=True)
class PrepareSound(Prepare, kind="sound"):
    """`prepare(source)` gives a log-mel spectrogram (T, mels) float32, from a path or bytes.

    A window of 25 ms every 10 ms; a sound shorter than one window is padded to it with silence. One
    longer than `seconds` is cut at its end, which is said once.
    """

    input: ClassVar[str] = "frames"

    rate: int = 16000
    """Samples per second that the model hears; files of other rates are resampled."""
    mels: int = 64
    """Bands of the spectrogram."""
    seconds: float = 10.0
    """What is longer is cut."""
    fixed: bool = False
    """Whether all are of one length, that of `seconds`: shorter ones are filled with silence; where
    each is centred, with the lowest value of each band in it."""
    mean: tuple[float, ...] = (0.0,)
    """Of the log-mel values of each band on train; one number stands for all bands."""
    std: tuple[float, ...] = (1.0,)
    """The same."""

    centre: bool = False
    """Whether each band's mean over the sound's own time is taken away, and with it what microphone
    and room add (cepstral mean subtraction, Atal 1974); and what a steady noise is known by."""

    def __post_init__(self) -> None:
        least = {"rate": 1000, "mels": 8, "seconds": WINDOW}
        for name, limit in least.items():
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not math.isfinite(value) or value < limit:
                wants = f"PrepareSound takes {name} of at least {limit}"
                raise UserError(f"{wants}; got {value!r}")
        for name in ("mean", "std"):
            values = getattr(self, name)
            if len(values) not in (1, self.mels) or not all(map(math.isfinite, values)):
                wants = f"PrepareSound takes {self.mels} (its bands) finite numbers of {name}"
                raise UserError(f"{wants}; got {values!r}")
        if min(self.std) <= 0:
            raise UserError(f"PrepareSound takes a std above 0; got {min(self.std)}")

    @property
    def width(self) -> int:  # type: ignore[override]  # depends on the bands
        """Bytes of one window's bands."""
        return 4 * self.mels

    @property
    def work(self) -> int:  # type: ignore[override]  # depends on the length
        """Values of the spectrogram at most."""
        return self.frames * self.mels

    @property
    def frames(self) -> int:
        """The most windows of a sound; of `fixed` ones each, and then a multiple of 16, which
        patches fill."""
        window, hop = round(WINDOW * self.rate), round(HOP * self.rate)
        most = 1 + max(round(self.seconds * self.rate) - window, 0) // hop
        return -(-most // STEP) * STEP if self.fixed else most

    def load(self, source: str | Path | bytes) -> Tensor:
        """A file or its bytes -> its log-mel (T, mels), of its own length; centred, not normalised.

        SoundError that names the file if it cannot be read.
        """
        frames = log_mel(decode_sound(source, self.rate), self.rate, self.mels)
        return frames - frames.mean(0) if self.centre else frames

    def finish(self, loaded: Tensor) -> Tensor:
        """(T, mels) of any length -> the same, cut or filled, and normalised."""
        if len(loaded) > self.frames:
            say_cut(Cut(self.seconds, len(loaded) * HOP))
        return self.normal(self.fit(loaded[: self.frames]))

    def fit(self, loaded: Tensor, before: int = 0) -> Tensor:
        """(T, mels) -> (frames, mels) if `fixed`: with silence behind, `before` of it in front."""
        if self.fixed:
            more = (0, 0, before, self.frames - len(loaded) - before)
            loaded = torch.nn.functional.pad(loaded, more, value=math.log(FLOOR))
        return self.hushed(loaded) if self.centre else loaded

    def hushed(self, centred: Tensor) -> Tensor:
        """(T, mels), centred, filled with silence that is not, here or while it was varied -> the
        same with the lowest value of each band in the sound there: what silence in it has."""
        filled = (centred == math.log(FLOOR)).all(1)
        if not filled.any() or filled.all():
            return centred
        return torch.where(filled[:, None], centred[~filled].amin(0), centred)

    def normal(self, loaded: Tensor) -> Tensor:
        """(T, mels) -> the same with mean 0 and std 1 on train."""
        return (loaded - torch.tensor(self.mean)) / torch.tensor(self.std)

    def augment(self, config: Any) -> Callable[[Tensor], Tensor]:
        """`config.augment` ("none", "light", "strong") -> see `zoo.inputs.vary_sound`."""
        from zoo.inputs.vary_sound import STRENGTHS, VarySound

        strength = STRENGTHS[config.augment]
        return self.finish if strength is None else VarySound(self, strength)

    def batch(self, samples: Sequence[Tensor]) -> dict[str, Tensor]:
        """[(T, mels)] -> {"frames": (B, T, mels), "keep": (B, T) bool}, `keep` only where one is
        padded."""
        frames, keep = pad_together(samples, self.frames)
        return {"frames": frames} if keep is None else {"frames": frames, "keep": keep}

    def fitted(self, keeps: bool) -> "PrepareSound":
        """The same, `fixed` for an adapter that takes sounds of one length alone. OptionError for
        more than `FIXED` windows, each of which would be learned and computed for every sound."""
        wants = f"an adapter of one length takes at most {FIXED} windows, {FIXED * HOP:g} s"
        got = f"got data.seconds {self.seconds:g}: give less, or model.adapter.kind Frames"
        require(keeps or self.frames <= FIXED, f"{wants}; {got}", "data.seconds")
        return replace(self, fixed=not keeps)

    def adapter(self) -> dict[str, Any]:
        """A fixed spectrogram's sides, or the features of a frame and the most frames."""
        if self.fixed:
            return {"size": (self.mels, self.frames)}
        return {"channels": self.mels, "length": self.frames}


def sound(config: Any, splits: Any) -> Callable[[], PrepareSound]:
    """The data section of a config, splits of sounds -> what makes a new model's way to hear.

    Mean and std of each band are measured, when it is asked for, on the sounds of train: all, or
    `MEASURED` of them evenly spaced.
    """

    def prepare() -> PrepareSound:
        plain = PrepareSound(config.rate, config.mels, config.seconds, centre=config.centre)
        items, count = splits.train.items, 0
        total = squares = torch.zeros(config.mels, dtype=torch.float64)
        for i in range(0, len(items), -(-len(items) // MEASURED)):
            frames = plain.load(items[i])[: plain.frames].double()
            total, squares = total + frames.sum(0), squares + frames.square().sum(0)
            count += len(frames)
        mean = total / count
        std = (squares / count - mean.square()).clamp(min=STILL**2).sqrt()
        return replace(plain, mean=tuple(mean.tolist()), std=tuple(std.tolist()))

    return prepare


STILL = 0.1  # the least std: a band in which nothing happens is not blown up
