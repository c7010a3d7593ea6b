"""One Transformer, every modality: adapters, a shared backbone, heads."""

from importlib.metadata import version

from zoo import adapters, heads, nn
from zoo.errors import OptionError, ShapeError, UserError
from zoo.model import Model, Record, load_state
from zoo.nn import Backbone, Stage
from zoo.registry import create, list_models, load
from zoo.tokens import Tokens

__version__ = version("omnizoo")
