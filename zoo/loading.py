"""`load`: a model from a folder, a file or the Hub, in whoever's layout, whole or not at all.

What was done with each tensor is said in a report, and every tensor that does not fit is in one
error, which names the first few.
"""

import inspect
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo import checkpoint, facts, giving, hf, openclip, weights
from zoo.configs import configs_for, find
from zoo.convert import ConversionError, detect
from zoo.errors import OptionError, UserError, require, some, suggest
from zoo.extend import families
from zoo.families import Family
from zoo.inputs import Preprocess
from zoo.matching import count_of
from zoo.model import Model, load_state, parts_of
from zoo.registry import from_saved, made_for
from zoo.resizing import changed

log = logging.getLogger("zoo")


@dataclass(frozen=True)
class Report:
    """What became of the tensors."""

    source: str
    layout: str
    notes: tuple[str, ...]
    loaded: int
    resized: tuple[str, ...]
    """Keys of ours whose tensors were made for another size."""
    renewed: tuple[str, ...]
    """Keys of ours that are random, as asked for."""
    carried: int
    """Tensors that the model has no use for, kept to be given back."""

    def __str__(self) -> str:
        parts = [f"{self.loaded} tensors loaded from {self.source}", f"layout: {self.layout}"]
        parts += self.notes
        for keys, what in ((self.resized, "resized"), (self.renewed, "new on purpose")):
            parts += [f"{len(keys)} {what} ({some(keys, 4)})"] if keys else []
        return "; ".join([*parts, *([f"{self.carried} carried"] if self.carried else [])])


def load(
    where: str | Path,
    classes: int | Sequence[str] | None = None,
    *,
    name: str | None = None,
    layout: str | None = None,
    **options: Any,
) -> Model:
    """A model with its weights, and with its labels and preprocessing where they are known.

    `where` is a folder that `model.save` or a run wrote, a folder or a file of weights in the
    layout of timm, transformers, torchvision or the authors (`.safetensors`, `.pth`, several files
    with an index), or a name of the Hub (`owner/model`, `owner/model@revision`). `name` says what a
    bare file is ("vit_base_patch16_224"), `layout` whose keys it has; else the config.json of its
    folder (a file of a usual name beside one stands for the folder) and the keys themselves do; a
    name with a tag of timm's ("vit_base_patch16_224.augreg_in1k") also says how pictures are read.
    `classes` renews the last Linear, with random weights, for other labels, and what options change
    in the shape of the head (`**{"head.pool": "attention"}`), and keeps all else; `head=None` takes
    it away, `head=zoo.heads.Classify(...)` puts another in its place. `size`, `patch`, `channels`
    and `window` fit tables and kernels to other pictures, any other option changes what has no
    weights (`drop_path=0.1`). `model.record.report` says what was done.

    UserError where a file is missing or broken, ConversionError for tensors that do not fit, or
    hold NaN or infinity: its message names the first few, its attribute `problems` all of them.
    """
    if not isinstance(where, str | Path) or not str(where):
        takes = "load takes a folder, a file or a model of the Hub"
        raise UserError(f"{takes} as text or a Path; got {where!r}")
    for key, text in (("name", name), ("layout", layout)):
        require(isinstance(text, str | None), f"load takes a {key} as text; got {text!r}", key)
    place = checkpoint.path_of(where, "load takes a folder, a file or a model of the Hub")
    place = weights.local(where, place)
    if name is None and place.is_file() and weights.config_of(place).is_file():
        found = next((f for n in weights.NAMES if (f := place.parent / n).is_file()), None)
        place = place.parent if place == found else place  # the file stands for its folder
    theirs = is_foreign(place)
    model = read(place, theirs, name, layout)
    own = (None, model.record.name), (None, "zoo")
    for key, given, known in zip(("name", "layout"), (name, layout), own, strict=True):
        if not theirs and given not in known:
            got = f"got {given!r} for {place}, a model of ours that is {known[1]!r}"
            raise OptionError(f"load takes a {key} for another library's file; {got}: drop it", key)
    if classes is not None or options:
        model = changed(model, classes, options)
    log.info("%s", model.record.report)
    return model


def read(place: Path, theirs: bool, name: str | None, layout: str | None) -> Model:
    """`foreign` or `saved`, whose errors about values of a kind that no such file has are one
    sentence."""
    try:
        return foreign(place, name, layout) if theirs else saved(place)
    except UserError:
        raise
    except (ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RuntimeError,
            TypeError, ValueError) as error:  # fmt: skip
        told = (str(error).strip().splitlines() or [""])[0][:200] or type(error).__name__
        usual = "weights and a config.json as their library writes them"
        wants = f"load takes {usual if theirs else 'a folder as model.save wrote it'}"
        raise UserError(f"{wants}; {place} holds a value that fits nothing: {told}") from error


def is_foreign(place: Path) -> bool:
    """Whether a file or folder is not `model.save`'s. A folder without a config.json that has
    weights of a usual name is another library's."""
    if place.is_file():
        return True
    config = place / checkpoint.CONFIG
    if not config.is_file():
        return any((place / name).is_file() for name in weights.FILES)
    return "zoo" not in facts.read(config, {"zoo": None})  # who reads it in earnest says what is


def saved(folder: Path) -> Model:
    """A model that `model.save` or a run wrote."""
    config, state = checkpoint.read_folder(folder)
    model = from_saved(config, state, folder / checkpoint.CONFIG)
    report = Report(str(folder), "zoo", (), len(state), (), (), 0)
    model.record = replace(model.record, report=report)
    return model


def foreign(place: Path, name: str | None, layout: str | None) -> Model:
    """A model from another library's file or folder, at its own size, with its own head."""
    file = weights.find_weights(place)
    state, notes = weights.read_weights(file)
    config = facts.read(weights.config_of(file)) if place.is_dir() else {}
    make = made_of(name, config, place)
    native, found = fitting(make, state, layout, place)
    load_state(native, state, found, assign=True, where=file)
    native = native.to(torch.get_default_dtype())
    carried = len(native.record.carried.get(found, {}))
    labels, doubt = facts.labels_in(config, count_of(native))
    prepare, notes = native.record.preprocess, [*notes, *doubt]
    if isinstance(prepare, Preprocess):
        told = picture_facts(make, config, file.parent, found, prepare.size)
        prepare = replace(prepare, **told)
        lacks = [f"{k} {getattr(prepare, k)}" for k in facts.ASKED if k not in told]
        if lacks:
            known = f"as those of {make.family.name} usually are: {', '.join(lacks)}"
            notes.append(f"how pictures are read is guessed, {known}")
            log.warning("%s: %s (a %s beside it would say)", file, notes[-1], facts.PROCESSOR)
    report = Report(str(place), found, tuple(notes), len(state) - carried, (), (), carried)
    native.record = replace(
        native.record, name=make.listed, labels=labels, preprocess=prepare, report=report
    )
    return native


def backbone(where: str | Path, **options: Any) -> Model:
    """`load` without a head: the model answers with its Tokens, (B, T, D) in `.x`."""
    return load(where, head=None, **options)


@dataclass(frozen=True)
class Make:
    """What a name or a config.json says of a model."""

    name: str
    """A name of its family; any, where columns are given."""
    columns: Mapping[str, Any]
    """What a config.json says otherwise."""
    tagged: str = ""
    """The name with a tag of timm's, where it has one."""
    spelled: bool = False
    """Whether the name is that of the whole; else the columns say which it is."""
    pool: str | None = None
    """How a config.json of timm says that tokens become one answer, in our word."""

    @property
    def family(self) -> Family:
        """Whose rules hold."""
        return find(self.name, "load")[0]

    @property
    def listed(self) -> str | None:
        """The name that such models have."""
        given = self.spelled or not self.columns
        return self.name if given else named(self.family, self.columns)

    def build(self, told: Mapping[str, Any], head: Mapping[str, Any]) -> Model:
        """The model on the meta device, with the facts of a layout and options of its head."""
        with torch.device("meta"):
            options = {**told, **self.columns, **head}
            return made_for("load", self.name, options.pop("classes", None), options)


# What files may hold; last a head without its last Linear, as the pooler of a body.
HEADS: tuple[dict[str, Any], ...] = (
    {"classes": 1}, {}, {"head": None}, {"head.classes": None})  # fmt: skip
BIAS = {"classes": 1, "head.bias": True}  # where heads of the family have none as a rule


def heads_of(make: Make) -> Sequence[Mapping[str, Any]]:
    """What a file may hold, the likeliest first. Where timm says how it pools, the last norm may be
    behind the pool or before it: the tensors tell."""
    if "classes" not in inspect.signature(make.family.build).parameters:
        return HEADS
    _, _, usual = configs_for(make.name, 1, {}, "load")
    heads = HEADS if getattr(usual["head"], "bias", True) else (HEADS[0], BIAS, *HEADS[1:])
    if make.pool is None:
        return heads
    pool, eps = {giving.pool_key(make.family): make.pool}, usual["backbone"].eps
    told = [{**pool, **giving.norms(behind, eps)} for behind in (False, True)]
    bodies = ({}, {"backbone.norm": "layer"})
    return [{**head, **more} for head in heads for more in (bodies if "head" in head else told)]


ARGS = {"img_size": "size", "in_chans": "channels", **giving.ARGS}  # timm's words, and ours
# How such begin that change no answer, or that the tensors tell.
WITHOUT = ("num_classes", "drop", "dynamic", "strict", "fc_norm", "use_fc_norm")


def made_of(name: str | None, config: Mapping[str, Any], place: Path) -> Make:
    """A name, or the config.json of timm or transformers -> what is to be built. OptionError where
    neither says."""
    if name is None and "model_type" in config:
        return Make(*hf.columns(config, place))
    if name is None and "model_cfg" in config:
        known, columns, pool = openclip.columns(config, place)
        spelled = "dim" not in columns
        return Make(known, columns, spelled=spelled, pool=giving.POOLS.get(str(pool)))
    known = name or str(config.get("architecture", ""))
    if not known:
        raise OptionError(
            f"load takes the name of what a bare file holds; {place} does not say: give name=, "
            "such as vit_base_patch16_224 (zoo.list_models()), or put it as model.safetensors or "
            'pytorch_model.bin beside a config.json {"architecture": "vit_base_patch16_224"}',
            "name",
        )
    args = config.get("model_args") if name is None else None
    args = args if isinstance(args, Mapping) else {}
    plain = known.partition(".")[0]
    other = [
        f"{key} {value!r}"
        for key, value in args.items()
        if key not in ARGS and not key.startswith(WITHOUT) and not usual(plain, key, value)
    ]
    if other:
        wants = f"load takes timm's models with model_args of {', '.join(ARGS)}"
        raise OptionError(f"{wants}; {place} has {some(other)}", "name")
    columns = {ours: args[key] for key, ours in ARGS.items() if key in args}
    columns = {k: tuple(v) if isinstance(v, list) else v for k, v in columns.items()}
    columns |= {k: giving.square(columns[k]) for k in ("patch", "window") if k in columns}
    tag = str((config.get("pretrained_cfg") or {}).get("tag") or known.partition(".")[2])
    tagged = any(family.parse(f"{plain}.{tag}") for family in families()) if tag else False
    spelling = f"{plain}.{tag}" if tagged else plain
    pool = giving.POOLS.get(str(args.get("global_pool")))
    return Make(spelling, columns, "" if tagged else name or "", spelled=True, pool=pool)


def usual(name: str, key: str, value: Any) -> bool:
    """Whether an argument of timm's is one that ours follows, or says what a model by that name is
    anyway."""
    if key != "global_pool":
        return key == "pos_embed_grid_size" and value is None  # the table is of the pictures' size
    if value != "map":
        return value in ("token", "avg")
    takes = "classes" in inspect.signature(find(name, "load")[0].build).parameters
    head = configs_for(name, 1 if takes else None, {}, "load")[2]["head"]
    return getattr(head, "pool", None) == giving.POOLS[value]


def named(family: Family, columns: Mapping[str, Any]) -> str | None:
    """The listed name that stands for these columns, None where there is none."""
    spelled = re.compile(family.pattern).groupindex.keys() & columns.keys()  # in a name, or not
    for name in family.names:
        known = {k: v for k, v in (family.parse(name) or {}).items() if v is not None}
        absent = (columns[k] for k in spelled - known.keys())
        if all(columns.get(k, v) == v for k, v in known.items()) and not any(absent):
            return name
    return None


def fitting(
    make: Make, state: Mapping[str, Tensor], layout: str | None, place: Path
) -> tuple[Model, str]:
    """-> (the model whose keys are those of the state dict, the layout). ConversionError that lists
    what is missing and unknown in the nearest."""
    family, errors = make.family, list[ConversionError]()
    built: dict[str, Model] = {}  # most layouts need the same few models
    heads, keys = heads_of(make), sorted(state)
    if layout is not None and layout not in family.rules:
        hint = suggest(layout, family.rules) or f"; there are {', '.join(family.rules)}"
        raise OptionError(f"load takes a layout of {family.name}; got {layout!r}{hint}", "layout")
    for one in [layout] if layout else family.rules:
        told = family.facts.get(one, {})
        for head in heads:
            key = repr((told, head))
            try:
                model = built[key] = built.get(key) or make.build(told, head)
                detect({one: family.rules[one]}, keys, model.state_dict(), parts_of(model))
            except OptionError as error:
                if not error.key.startswith("head."):
                    raise
                continue  # there is no head to have options
            except ConversionError as error:
                errors.append(error)
                continue
            if "classes" in head:
                model = make.build(told, {**head, "classes": classes_in(model, state, one)})
            return model, one
    nearest = min(errors, key=lambda error: (error.left, len(error.problems)))
    wants = f"{place} is no {family.name} in a layout that is known: {nearest.wants}"
    raise ConversionError(wants, nearest.problems, nearest.hint, nearest.left)


def classes_in(model: Model, state: Mapping[str, Tensor], layout: str) -> int:
    """How many classes the head of a state dict has."""
    for rule in model.rules_for(layout):
        if names := rule.match("head.out.weight"):
            given = [state[name] for name in names]
            if all(tensor.ndim == 2 for tensor in given):
                return sum(tensor.shape[1 if rule.transpose else 0] for tensor in given)
            got = some(f"{name} {tuple(state[name].shape)}" for name in names)
            raise ConversionError(f"load takes a head that is a matrix; got {got}")
    raise ConversionError(f"no rule of {layout} makes head.out.weight")


def picture_facts(
    make: Make, config: Mapping[str, Any], folder: Path, layout: str, size: tuple[int, int]
) -> dict[str, Any]:
    """What timm's config.json or list, or transformers' preprocessor_config.json, says of
    pictures; torchvision writes nothing, and reads all its weights alike."""
    told = config.get("pretrained_cfg")
    if isinstance(told, Mapping):
        return facts.of_timm(told)
    if "model_cfg" in config:
        return openclip.of_pictures(config.get("preprocess_cfg") or {}, folder)
    if layout.startswith("torchvision"):
        return facts.of_torchvision(make.listed or "", size)
    listed = "." in make.tagged
    return facts.known_to_timm(make.tagged) if listed else facts.of_transformers(folder)
