"""From raw tensors to Tokens, one adapter per kind of input."""

from zoo.adapters.patch import Patches, PatchesConfig

__all__ = ["Patches", "PatchesConfig"]
