"""Finding, reading, running and copying recipes, and finding runs.

A recipe is `<task>/<model>_<how>`: the script `recipes/<task>.py` with the values in
`configs/<task>/<model>_<how>.yaml`. Both come from the checkout that holds this package, else from
the wheel. A YAML file of the user's own names its task in `recipe:`; only scripts in the recipes
folder are ever run.
"""

import importlib.util
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zoo.errors import UserError, suggest
from zoo.inputs.names import user_path
from zoo.training.places import Given, read, shown

PACKAGE = Path(__file__).resolve().parents[1]
SUFFIXES = (".yaml", ".yml")
RUN_CONFIG = "config.yaml"  # in a run's folder


def folders() -> tuple[Path, Path]:
    """The folders of scripts and of configs; a checkout's own win over the copies in a wheel."""
    top = PACKAGE.parent
    if (top / "pyproject.toml").is_file() and (top / "recipes").is_dir():
        return top / "recipes", top / "configs"
    return PACKAGE / "_recipes", PACKAGE / "_configs"


def names() -> list[str]:
    """Every recipe's name, `<task>/<model>_<how>`, sorted."""
    configs = folders()[1]
    return sorted(
        p.relative_to(configs).with_suffix("").as_posix() for p in configs.glob("*/*.yaml")
    )


def scripts() -> dict[str, Path]:
    """Task -> script."""
    return {p.stem: p for p in sorted(folders()[0].glob("*.py")) if not p.stem.startswith("_")}


def find(recipe: str | Path) -> Path:
    """The YAML file of a recipe's name, or of a path; `UserError` where there is none."""
    if not isinstance(recipe, str | Path):
        wants = "a recipe is a name, or a YAML file's path"
        raise UserError(f"{wants}; got {recipe!r}: `zoo list recipes` names them")
    text, path = str(recipe), user_path(recipe)
    if path.suffix in SUFFIXES:
        if path.is_file():
            return path
        raise UserError(
            f"{text} is no file; give a name from `zoo list recipes` or a YAML file's path"
        )
    known = names()
    if text in known:
        return folders()[1] / f"{text}.yaml"
    if path.is_dir():
        raise UserError(
            f"{text} is a folder, a recipe is a name or a YAML file; give {path / 'config.yaml'}"
        )
    inside = [name for name in known if text in name.split("/")]
    hint = f"; did you mean {inside[0]!r}?" if inside else suggest(text, known)
    raise UserError(f"no recipe {text!r}{hint or '; `zoo list recipes` names them'}")


def name_of(path: Path, written: Given | None) -> str:
    """A file's recipe: what its `recipe:` says, or its place in the configs folder."""
    if written is None:
        if path.resolve().parent.parent == folders()[1].resolve():
            return f"{path.resolve().parent.name}/{path.stem}"
        tasks = ", ".join(scripts())
        raise UserError(
            f"{shown(path)} names no script; write `recipe: TASK` in it, one of {tasks}"
        )
    name = written.value
    match = re.fullmatch(r"(\w[\w.-]*)(?:/(\w[\w.-]*))?", name) if isinstance(name, str) else None
    if not match:
        raise UserError(f"recipe takes a name TASK or TASK/NAME; got {name!r}{written.at}")
    task, rest = match.groups()
    if task not in scripts():
        tasks, hint = ", ".join(scripts()), suggest(task, scripts())
        raise UserError(f"recipe takes a task, one of {tasks}; got {task!r}{written.at}{hint}")
    return f"{task}/{rest or path.stem}"


def find_run(run: str | Path, owner: str) -> Path:
    """The folder of a run that the `owner`, a command, is given. UserError for what is none, with
    the nearest of its neighbours."""
    folder = user_path(run)
    if not (folder / RUN_CONFIG).is_file():
        near = [p.name for p in folder.parent.iterdir()] if folder.parent.is_dir() else []
        lacks = f"without a {RUN_CONFIG}" if folder.exists() else "which does not exist"
        hint = "" if folder.exists() else suggest(folder.name, near)
        raise UserError(f"{owner} takes the folder of a run; got {folder}, {lacks}{hint}")
    return folder


def load(name: str) -> Callable[[Any], Any]:
    """`main(config)` of the script behind a recipe's name or task; runs the script's top level."""
    task = name.split("/")[0]
    path = scripts().get(task)
    if path is None:
        raise UserError(f"no recipe script {task!r} in {folders()[0]}{suggest(task, scripts())}")
    spec = importlib.util.spec_from_file_location(f"zoo_recipe_{task}", path)
    if spec is None or spec.loader is None:
        raise UserError(f"{shown(path)} is no Python file that can be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # worker processes find there what the script defines
    spec.loader.exec_module(module)
    main = getattr(module, "main", None)
    if not callable(main):
        raise UserError(f"{shown(path)} defines no main(config)")
    return main


def copy(recipe: str, folder: str | Path) -> list[Path]:
    """Writes a recipe's script and YAML file into `folder`, never over a file; -> both paths."""
    source = find(recipe)
    name = name_of(source, read(source).get("recipe"))
    script, target = scripts()[name.split("/")[0]], user_path(folder)
    copies = [target / script.name, target / f"{name.split('/')[1]}.yaml"]
    for path in copies:
        if path.exists() or path.is_symlink():
            raise UserError(
                f"zoo copy never overwrites and {path} exists; give another folder or remove it"
            )
    text = source.read_text(encoding="utf-8")
    if not re.search(r"^recipe:", text, re.MULTILINE):
        text = f"recipe: {name}\n{text}"  # away from its place the file must name its script
    try:
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(script, copies[0])
        copies[1].write_text(text, encoding="utf-8")
    except OSError as error:
        reason = f"{error.strerror}: {error.filename}"
        raise UserError(
            f"zoo copy takes a folder to copy into; {target} is none ({reason})"
        ) from None
    return copies
