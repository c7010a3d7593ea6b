"""Files of weights, whoever wrote them -> tensors by their keys, as they stand there.

Nothing is ever run: safetensors hold tensors alone, torch's files are read with `weights_only`,
NumPy's without objects.
"""

import difflib
import json
import os
import re
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import safetensors
import torch
from safetensors import SafetensorError
from torch import Tensor

from zoo.errors import UserError, some, suggest

State = dict[str, Tensor]
INDEX = ".index.json"  # names the file of each tensor, where there are several
FILES = ("model.safetensors", "pytorch_model.bin", "open_clip_model.safetensors",
         "open_clip_pytorch_model.bin", "model.pth")  # fmt: skip
NAMES = tuple(name for file in FILES for name in (file, f"{file}{INDEX}"))  # in this order
CONFIG, OPENCLIP_CONFIG = "config.json", "open_clip_config.json"  # say of which model they are
CONFIGS = (CONFIG, OPENCLIP_CONFIG, "preprocessor_config.json", "processor_config.json")
ENDINGS = (".safetensors", ".pth", ".pt", ".bin", ".npz", INDEX)
DEEPEST = 4  # wrappings that are taken off
# Where training scripts put the weights; averaged ones first, as timm takes them; last I-JEPA's.
NESTED = ("state_dict_ema", "model_ema", "state_dict", "model", "params", "module", "encoder")
NAME = re.compile(r"\w[\w.-]*/[\w.-]+(@\S+)?", re.ASCII)  # of a model of the Hub
SLIP = 0.8  # how much a name has of one beside it that it is taken for
PREFIXES = ("module.", "_orig_mod.")  # of DataParallel and DDP, and of torch.compile
TAKES = (
    f"weights are a file that ends in {', '.join(ENDINGS)}, or a folder with {' or '.join(FILES)}"
)


def find_weights(path: Path) -> Path:
    """A file, or a folder -> the file of weights, or the index of several. UserError where there is
    none."""
    if path.is_file():
        if not path.name.endswith(ENDINGS):
            raise UserError(f"{TAKES}; got {path}")
        return path
    found = [path / name for name in NAMES if (path / name).is_file()]
    if not found:
        others = sorted(p.name for p in path.glob("*") if p.name.endswith(ENDINGS))
        has = f"has none, but {some(others)}: give its path" if others else "has none"
        raise UserError(f"{TAKES}; {path} {has if path.is_dir() else 'does not exist'}")
    return found[0]


def config_of(file: Path) -> Path:
    """What stands beside a file of weights, and says of which model they are."""
    return file.with_name(OPENCLIP_CONFIG if file.name.startswith("open_clip") else CONFIG)


def local(where: str | Path, place: Path) -> Path:
    """What is there as it is; what is not, and may be a name of the Hub, is fetched.

    UserError where neither is, and for what is nearly the name of something beside it: a slip in a
    path must not wait for a network. A revision ("owner/model@main") says that the Hub is meant.
    """
    if place.exists():
        return place
    name = NAME.fullmatch(where) if isinstance(where, str) else None
    beside = [p.name for p in place.parent.glob("*") if p.is_dir() or p.name.endswith(ENDINGS)]
    hint = suggest(place.name, beside)
    slip = difflib.get_close_matches(place.name, beside, n=1, cutoff=SLIP)
    if name is not None and (name[1] or not slip):
        return fetch(name[0], f" ({hint.removeprefix('; ')})" if hint else "")
    if not hint:
        return place  # who reads it in earnest says that it is not there
    more = "" if name is None else f" (the Hub's is {where}@main)"
    raise UserError(f"load takes a folder or a file; there is no {place}{hint}{more}")


def fetch(name: str, hint: str = "") -> Path:
    """A name on the Hub, "owner/model" or "owner/model@revision" -> the folder of its weights and
    its configs in the cache. `hint` is what it may be here, for errors.

    Each file is fetched once; HF_HUB_OFFLINE, HF_ENDPOINT and tokens are huggingface_hub's to read.
    Where the Hub does not answer at once, the cache alone is looked into: huggingface_hub itself
    would try again for half a minute at each file. UserError where there is no such model, no
    weights in it, or no network.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError

    repo, _, revision = name.partition("@")
    unreachable: Exception | None = None

    def file(path: str) -> Path | None:
        here = {"revision": revision or None, "local_files_only": unreachable is not None}
        try:
            return Path(hf_hub_download(repo, path, **here))
        except EntryNotFoundError:  # also where there is no network, and it is not here
            return None

    try:
        try:
            get_hf_file_metadata(hf_hub_url(repo, CONFIG, revision=revision or None))
        except HfHubHTTPError:  # an answer: that there is none, or that it is not for all
            pass
        except Exception as error:  # those of whatever library it uses for the network
            unreachable = error
        for beside in CONFIGS:
            file(beside)
        found = next((path for n in NAMES if (path := file(n)) is not None), None)
        if found is None and unreachable is not None:
            raise unreachable
        if found is None:
            wants = "load takes a model of the Hub with weights"
            raise UserError(f"{wants}; {name} has no {' or '.join(FILES)}")
        if found.name.endswith(INDEX):
            for part in sorted({*json.loads(found.read_text("utf-8"))["weight_map"].values()}):
                file(str(part))
    except UserError:
        raise
    except Exception as error:  # its own, requests', and bare ones
        told = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if unreachable is not None:
            told += " (--model.load FOLDER or FILE takes what was downloaded elsewhere)"
        raise UserError(f"load takes a folder, a file or a model of the Hub; {name} is none that "
                        f"is here{hint}, and the Hub says: {told}") from error  # fmt: skip
    return found.parent


def read_weights(path: Path) -> tuple[State, list[str]]:
    """A file of weights, or the index of several -> (tensors by their keys, what was taken off).

    Wrappings of training scripts (`NESTED`) and prefixes (`PREFIXES`) are taken off, and said.
    UserError that names the file for whatever is not whole, no tensor, or would have to be run.
    """
    if not os.access(path, os.R_OK):
        raise UserError(f"{TAKES}; {path} may not be read: give yourself the right to")
    if path.name.endswith(INDEX):
        return read_shards(path)
    if path.name.endswith(".safetensors"):
        held: Any = read_safetensors(path)[0]
    elif path.name.endswith(".npz"):
        held = read_npz(path)
    else:
        held = read_torch(path)
    notes: list[str] = []
    while not any(isinstance(value, Tensor) for value in held.values()):
        name = next((n for n in NESTED if isinstance(held.get(n), Mapping)), None)
        if name is None:
            has = some(held) or "nothing"
            raise UserError(f"{TAKES}; {path} holds no tensors but {has}")
        if len(notes) == DEEPEST:
            raise UserError(
                f"{TAKES}; {path} holds {name!r} within itself, {DEEPEST} times and more"
            )
        left = [str(key) for key in held if key != name]
        notes.append(f"taken from {name!r}" + (f", beside {some(left)}" if left else ""))
        held = held[name]
    wrong = [str(k) for k, v in held.items() if not (dense(v) and isinstance(k, str))]
    if wrong:
        raise UserError(f"{TAKES}; in {path} {some(wrong)} are no dense tensors")
    for prefix in PREFIXES * 2:  # one may stand in the other
        if all(key.startswith(prefix) for key in held):
            held = {key.removeprefix(prefix): value for key, value in held.items()}
            notes.append(f"without the prefix {prefix!r}")
    return dict(held), notes


def dense(value: Any) -> bool:
    """Whether something is a tensor that holds all of its numbers."""
    return isinstance(value, Tensor) and value.layout == torch.strided


def read_safetensors(path: Path, takes: str = TAKES) -> tuple[State, dict[str, str]]:
    """A safetensors file -> (tensors, whose memory is the file's, and what it says of itself).

    UserError, after what `takes` says, where it is none or not whole.
    """
    try:
        with safetensors.safe_open(path, "pt") as file:
            state = {key: file.get_tensor(key) for key in file.keys()}  # not a dict
            return state, file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise UserError(f"{takes}; {path} is not a whole safetensors file: {error}") from error


def read_torch(path: Path) -> Mapping[str, Any]:
    """What torch.save wrote, tensors and plain values alone."""
    try:
        with warnings.catch_warnings(action="ignore"):  # about what is refused right after
            held = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # its readers raise pickle's, zipfile's and bare ones
        told = re.findall(r"(?:GLOBAL|class) ([\w.]+)", str(error))
        what = f"it holds {told[0]}, which would have to be run" if told else "it is not whole"
        raise UserError(
            f"{TAKES}, of tensors alone; {path} cannot be read: {what}; if you trust it, save its "
            "state dict as safetensors"
        ) from error
    if not isinstance(held, Mapping):
        raise UserError(f"{TAKES}; {path} holds a {type(held).__name__}, no state dict")
    return held


def read_npz(path: Path) -> State:
    """Arrays of a NumPy archive."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return unstacked({key: of_numpy(file[key]) for key in file.files})
    except (OSError, ValueError, TypeError, EOFError, BadZipFile, zlib.error) as error:
        raise UserError(f"{TAKES}; {path} is not a whole .npz of numbers: {error}") from error


def of_numpy(array: np.ndarray) -> Tensor:
    """An array -> a tensor; NumPy has no bfloat16 and keeps its two bytes without a type."""
    if array.dtype == np.dtype("V2"):
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def unstacked(held: State) -> State:
    """Flax may keep a tensor for all blocks at once, ".../encoderblock/..."; -> one for each."""
    state: State = {}
    for key, tensor in held.items():
        each = enumerate(tensor) if "/encoderblock/" in key else ()
        state |= {key.replace("encoderblock/", f"encoderblock_{i}/"): one for i, one in each} or {
            key: tensor
        }
    return state


def read_shards(index: Path) -> tuple[State, list[str]]:
    """An index and the files that it names -> all tensors. UserError where one is missing, doubled
    or not where the index says."""
    try:
        where = json.loads(index.read_text("utf-8"))["weight_map"]
        files = sorted({str(name) for name in where.values()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{TAKES}; {index} is no index of weights: {error}") from error
    state: State = {}
    for name in files:
        if Path(name).name != name:
            raise UserError(f"an index names files beside it; {index} names {name!r}")
        if not (index.parent / name).is_file():
            raise UserError(f"{index} names {name}, which is not there: fetch it again")
        part, _ = read_weights(index.parent / name)
        twice = sorted(part.keys() & state.keys())
        if twice:
            raise UserError(f"{index} has {some(twice)} in two files")
        state |= part
    lost = sorted(where.keys() ^ state.keys())
    if lost:
        raise UserError(f"{index} and its files differ in {some(lost)}")
    return state, [f"from {len(files)} files"]
