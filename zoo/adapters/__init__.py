"""From raw tensors to Tokens, one adapter per kind of input."""

from zoo.adapters.patch import Patches, PatchesConfig, SpectrogramPatches, SpectrogramPatchesConfig
from zoo.adapters.sequence import Frames, FramesConfig, Subwords, SubwordsConfig
from zoo.adapters.video import Tubes, TubesConfig
from zoo.adapters.window import SwinPatches, SwinPatchesConfig
