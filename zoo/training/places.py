"""YAML text -> values, each with the place that gives it, so that messages say where to look."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from zoo.errors import UserError


class Given(NamedTuple):
    """A value and the place that gives it: `configs/…/vit_tiny_scratch.yaml:12` or `--optim.lr`."""

    value: Any
    where: str

    @property
    def at(self) -> str:
        """The place as the end of a sentence's part, ` (file:line)`, or nothing."""
        return f" ({self.where})" if self.where else ""


class Loader(yaml.SafeLoader):
    """YAML without aliases and repeated keys, with plain values as in version 1.2.

    So `1e-3` is a number, `no` is text and nothing is a date.
    """

    yaml_implicit_resolvers: dict = {}  # noqa: RUF012  (a class table of PyYAML's, filled below)

    def compose_node(self, parent, index):
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.MarkedYAMLError(
                problem="aliases (*name) are not taken, write the value out", problem_mark=mark
            )
        return super().compose_node(parent, index)

    def compose_mapping_node(self, anchor):
        node, lines = super().compose_mapping_node(anchor), {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key.value, str):
                raise yaml.MarkedYAMLError(
                    problem="a key must be plain text", problem_mark=key.start_mark
                )
            if key.value in lines:
                problem = (
                    f"{key.value!r} is given twice (first in line {lines[key.value]}), keep one"
                )
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            lines[key.value] = line
        return node


class Dumper(yaml.SafeDumper):
    """Writes what `Loader` reads back as the same value, lists in one line."""

    def ignore_aliases(self, data):
        return True


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(0|[1-9][0-9]*)", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+",
        list("-+.0123456789"),
    ),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", list("-+.")),
):
    for _class in (Loader, Dumper):
        _class.add_implicit_resolver(
            f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), _first
        )
for _type in (list, tuple):
    Dumper.add_representer(
        _type, lambda d, v: d.represent_sequence("tag:yaml.org,2002:seq", v, flow_style=True)
    )


def scalar(text: str) -> Any:
    """What is typed behind a flag: `0.1` -> 0.1, `[1, 2]` -> a list, else the text itself."""
    try:
        return yaml.load(text, Loader)
    except (yaml.YAMLError, RecursionError):
        return text


def inline(value: Any) -> str:
    """A value as YAML in one line."""
    text = yaml.dump(value, Dumper=Dumper, default_flow_style=True, allow_unicode=True, width=10**6)
    return text.removesuffix("...\n").strip()


def read(path: Path) -> dict[str, Given]:
    """{dotted key: value and `file:line`} of a YAML file; `UserError` with the line of a fault."""
    name = shown(path)
    try:
        loader = Loader(path.read_text(encoding="utf-8"))
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise UserError(
                f"{name} must hold sections with keys, such as `optim:` with `lr: 1e-3` below it"
            )
        return _collect(loader, node, name)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UserError(f"{name}{line}: {error.problem}") from None
    except RecursionError:
        raise UserError(
            f"{name} cannot be read as YAML text: its values are nested too deep"
        ) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(
            f"{name} cannot be read as YAML text: {' '.join(str(error).split())}"
        ) from None


def _collect(loader: Loader, node: yaml.MappingNode, name: str) -> dict[str, Given]:
    found: dict[str, Given] = {}
    for key, value, line in _leaves(loader, node, ""):
        for other, (_, where) in found.items():
            first = where.rpartition(":")[2]
            if key == other:  # as `head: {pool: x}` and `head.pool: y`
                raise UserError(
                    f"{name}:{line}: {key!r} is given twice (first in line {first}), keep one"
                )
            if key.startswith(f"{other}.") or other.startswith(f"{key}."):
                both = f"{key!r} and {other!r} (line {first})"
                raise UserError(f"{name}:{line}: {both} exclude each other, keep one")
        found[key] = Given(value, f"{name}:{line}")
    return found


def _leaves(loader: Loader, node: yaml.MappingNode, above: str) -> Iterator[tuple[str, Any, int]]:
    for key, value in node.value:
        dotted = f"{above}{key.value}"
        texts = isinstance(value, yaml.MappingNode) and all(
            k.tag.endswith(":str") for k, _ in value.value
        )
        if texts and value.value:
            yield from _leaves(loader, value, f"{dotted}.")
        else:
            yield dotted, loader.construct_object(value, deep=True), key.start_mark.line + 1


def shown(path: Path) -> str:
    """A path as messages name it: relative where it lies below the working folder."""
    path = path.resolve()
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
