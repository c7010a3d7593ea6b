"""From names to models: `create` a new one, build a saved one again, list what there is."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.configs import SECTIONS, configs_for
from zoo.errors import OptionError, UserError, some, too_large
from zoo.extend import families, fault_of, kinds, make
from zoo.families import Family
from zoo.giving import WRITERS
from zoo.inputs import Prepare, Preprocess
from zoo.model import CARRIED, Model, Record, load_state
from zoo.nn import Part
from zoo.nn.config import make_config
from zoo.shapes import pair


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
    return made_for("create", name, classes, options)


def made_for(
    owner: str, name: str, classes: int | Sequence[str] | None, options: Mapping[str, Any]
) -> Model:
    """`create`, whose errors name the `owner`, which is what the user called."""
    family, labels, configs = configs_for(name, classes, options, owner)
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
            raise UserError(f"{wants}; {where} has {len(each)}: {some(each)}")
    carried: dict[str, dict[str, Tensor]] = {}
    for key in [key for key in state if key.startswith(CARRIED)]:
        layout, _, name = key.removeprefix(CARRIED).partition(".")
        carried.setdefault(layout, {})[name] = state.pop(key)
    prepare = prepare and Prepare.from_dict(prepare)
    given = {"rules": known.get(record.family or "", {}), "carried": carried, "writers": WRITERS}
    record = replace(record, preprocess=prepare, **given)
    with torch.device("meta"):
        model = Model(**build_parts(configs), record=record)
    return load_state(model, state, assign=True, where=where.parent)


def build_part(config: Any) -> Part:
    """A config -> the part that it is of."""
    return make(Part.of_config[type(config)], config)


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


def preprocess_for(family: Family, adapter: Any) -> Preprocess | None:
    """The family's preprocessing at the adapter's size and channels (one grey channel: the mean of
    the facts)."""
    if family.preprocess is None:
        return None
    facts = dict(family.preprocess)
    if adapter.channels != len(facts["mean"]):
        facts |= {name: sum(facts[name]) / len(facts[name]) for name in ("mean", "std")}
    return Preprocess(size=pair(adapter.size), channels=adapter.channels, **facts)
