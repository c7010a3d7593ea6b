"""From names to models: `create` a new one, `load` a saved one, list what there is."""

import inspect
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.errors import OptionError, UserError, require, suggest, too_large
from zoo.extend import families, fault_of, kinds
from zoo.families import Family
from zoo.giving import WRITERS
from zoo.inputs import Prepare, Preprocess, clean_label
from zoo.model import CARRIED, Model, Record, load_state
from zoo.nn import Part
from zoo.nn.backbone import option_paths
from zoo.nn.backbone import set_option as set_backbone
from zoo.nn.config import hints_of, make_config, match, paths, put, read_option
from zoo.shapes import pair

SECTIONS = ("adapter", "backbone", "head")


def list_models(pattern: str = "*") -> list[str]:
    """Names that `create` takes, those that match an fnmatch pattern. Other sizes of a family can
    be created too."""
    return [name for family in families() for name in family.names if fnmatch(name, pattern)]


def create(name: str, classes: int | Sequence[str] | None = None, **options: Any) -> Model:
    """A model with random weights by its name, such as "vit_tiny_patch16_224".

    `classes` is a number or the labels' names. Any option of its parts goes by name, flat where one
    part has it (`layer_scale=1e-5`), dotted where several do (`**{"head.dropout": 0.1}`);
    `head=None` gives the body alone. OptionError for an unknown name or option, with the closest
    one.
    """
    family, columns = find(name)
    labels = None
    if classes is not None:
        columns["classes"], labels = count_and_labels(classes)
    headless, given = "head" in options, options.pop("head", None)
    wants = "create takes head=None alone (other heads: Model(adapter, backbone, head))"
    require(given is None, f"{wants}; got {given!r}", "head")
    hints, taken = hints_of(family.build), inspect.signature(family.build).parameters
    columns |= {key: options.pop(key) for key in list(options) if key in taken}
    columns = {k: read_option("create", k, hints.get(k, Any), v) for k, v in columns.items()}
    configs: dict[str, Any] = dict(zip(SECTIONS, family.build(**columns), strict=True))
    made = configs["adapter"]
    for key, value in options.items():
        set_option(configs, key, value, taken)
    shape = getattr(Part.of_config[type(made)], "stages_of", None)
    if shape is not None and shape(made) != shape(configs["adapter"]):
        given = ", ".join(key for key in options if key.startswith("adapter."))
        wants = f"create takes what shapes the stages of {family.name} by its plain names"
        raise OptionError(f"{wants}; got {given}", given)
    if headless:
        configs["head"] = None
    prepare = preprocess_for(family, configs["adapter"])
    record = Record(family.name, name, labels, prepare, family.rules, writers=WRITERS)
    return Model(**build_parts(configs), record=record)


def from_saved(saved: dict[str, Any], state: dict[str, Tensor], where: Path) -> Model:
    """config.json and tensors -> the model. Errors of damaged values are `load`'s to explain."""
    configs = {section: read_config(section, saved.get(section), where) for section in SECTIONS}
    facts = dict(saved.get("record") or {})
    prepare = facts.pop("preprocess", None)
    record: Record = make_config(Record, facts, f"The record in {where}")
    known = {family.name: family.rules for family in families()}
    if record.family is not None and record.family not in known:
        hint = ": install the package that brings it (`zoo list plugins`)"
        got = f"got {record.family!r} in {where}{hint}"
        raise UserError(f"load takes a model of a family that is here; {got}")
    count = getattr(configs["head"], "classes", None)
    for name in ("labels", "scale"):
        each = getattr(record, name)
        twice = name == "labels" and each is not None and len({*each}) < len(each)
        if each is not None and (twice or count not in (None, len(each))):
            wants = f"load takes {name} for the {count} classes of the head, none twice"
            raise UserError(f"{wants}; {where} has {list(each)}")
    carried: dict[str, dict[str, Tensor]] = {}
    for key in [key for key in state if key.startswith(CARRIED)]:
        layout, _, name = key.removeprefix(CARRIED).partition(".")
        carried.setdefault(layout, {})[name] = state.pop(key)
    prepare = prepare and Prepare.from_dict(prepare)
    given = {"rules": known.get(record.family or "", {}), "carried": carried, "writers": WRITERS}
    record = replace(record, preprocess=prepare, **given)
    with torch.device("meta"):
        model = Model(**build_parts(configs), record=record)
    return load_state(model, state, assign=True)


def find(name: str) -> tuple[Family, dict[str, Any]]:
    """A model's name -> its family and columns. OptionError with the closest name where no family
    takes it."""
    for family in families() if isinstance(name, str) else ():
        columns = family.parse(name)
        if columns is not None:
            return family, columns
    hint = suggest(str(name), list_models()) or "; zoo.list_models() shows the names"
    raise OptionError(f"create takes the name of a model; got {name!r}{hint}", "name")


def count_and_labels(classes: Any) -> tuple[int, tuple[str, ...] | None]:
    """10 -> (10, None); ["cat", "dog"] -> (2, ("cat", "dog")). OptionError for anything else."""
    if isinstance(classes, numbers.Integral) and not isinstance(classes, bool):
        return int(classes), None
    names = tuple(classes) if isinstance(classes, Sequence) and not isinstance(classes, str) else ()
    plain = {clean_label(name) if isinstance(name, str) else "" for name in names}
    if not names or "" in plain or len(plain) < len(names):
        wants = "classes as a number, or as the labels' names, each once"
        raise OptionError(f"create takes {wants}; got {classes!r}", "classes")
    return len(names), names


def build_part(config: Any) -> Part:
    """A config -> the part that it is of."""
    return Part.of_config[type(config)](config)


def build_parts(configs: Mapping[str, Any]) -> dict[str, Any]:
    """Configs by section -> the parts that Model takes. OptionError for what no memory holds."""
    try:
        return {section: None if c is None else build_part(c) for section, c in configs.items()}
    except (RuntimeError, MemoryError) as error:
        if told := too_large(error):
            raise OptionError(told) from error
        raise


def read_config(section: str, saved: Any, where: Path) -> Any:
    """A part's JSON -> its config, or None for no head. UserError for what this version lacks."""
    if saved is None and section == "head":
        return None
    fields, known = dict(saved) if isinstance(saved, dict) else {}, kinds(section)
    if (kind := fields.pop("kind", None)) not in known:
        hint = fault_of(section, kind) or "install the package that brings it (`zoo list plugins`)"
        got = f"got {kind!r} in {where}: {hint}"
        raise UserError(f"load takes the {section} {' or '.join(known)}; {got}")
    return make_config(known[kind].Config, fields, kind)


def set_option(configs: dict[str, Any], key: str, value: Any, columns: Iterable[str]) -> None:
    """Put one option of `create` into the config that has it. OptionError where none has, or
    several."""
    sections = [s for s in ("adapter", "head") if configs[s] is not None]
    every = {f"{s}.{path}": s for s in sections for path in paths(configs[s])}
    for path in option_paths(configs["backbone"]):
        every[path if path.startswith("block.") else f"backbone.{path}"] = "backbone"
    for path in match(key, list(every), "create", columns):
        section = every[path]
        change = set_backbone if section == "backbone" else put
        configs[section] = change(configs[section], path.removeprefix(f"{section}."), value)


def preprocess_for(family: Family, adapter: Any) -> Preprocess | None:
    """The family's preprocessing at the adapter's size and channels (one grey channel: the mean of
    the facts)."""
    if family.preprocess is None:
        return None
    facts = dict(family.preprocess)
    if adapter.channels != len(facts["mean"]):
        facts |= {name: sum(facts[name]) / len(facts[name]) for name in ("mean", "std")}
    return Preprocess(size=pair(adapter.size), channels=adapter.channels, **facts)
