"""One Transformer, every modality: adapters, a shared backbone, heads."""

# Names are imported when they are first used: the `zoo` command is there before torch is.

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoo import adapters, heads, nn
    from zoo.errors import OptionError, ShapeError, UserError
    from zoo.loading import backbone, load
    from zoo.model import Model, Record, load_state
    from zoo.nn import Backbone, Stage
    from zoo.registry import create, list_models
    from zoo.tokens import Tokens

__version__ = version("omnizoo")
_NAMES = {  # of each module that `import zoo` gives
    "adapters": "", "checkpoint": "", "convert": "", "errors": "OptionError ShapeError UserError",
    "extend": "", "families": "", "fast": "", "heads": "", "inputs": "", "loading": "backbone load",
    "model": "Model Record load_state", "nn": "Backbone Stage", "ops": "", "shapes": "",
    "registry": "create list_models", "tokens": "Tokens",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name == module or name in names.split():
            found = import_module(f"zoo.{module}")
            return found if name == module else getattr(found, name)
    raise AttributeError(f"module 'zoo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_NAMES, *" ".join(_NAMES.values()).split()])
