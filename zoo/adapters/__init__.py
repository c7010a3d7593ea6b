"""From raw tensors to Tokens, one adapter per kind of input."""

from zoo.adapters.audio import Frames, FramesConfig, SpectrogramPatches, SpectrogramPatchesConfig
from zoo.adapters.patch import Patches, PatchesConfig
from zoo.adapters.text import Subwords, SubwordsConfig
from zoo.adapters.video import Tubes, TubesConfig
from zoo.adapters.window import SwinPatches, SwinPatchesConfig
