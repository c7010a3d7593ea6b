"""From raw tensors to Tokens, one adapter per kind of input."""

from zoo.adapters.patch import Patches, PatchesConfig
from zoo.adapters.window import SwinPatches, SwinPatchesConfig

__all__ = ["Patches", "PatchesConfig", "SwinPatches", "SwinPatchesConfig"]
