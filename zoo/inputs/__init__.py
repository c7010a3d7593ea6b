"""From raw samples to tensors: decoding, preprocessing, augmentation, labels.

Pillow and torchvision are imported when a picture is first decoded or augmented, not before.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from zoo.inputs.boxes import Boxed, PrepareBoxes, boxes
from zoo.inputs.labels import clean_label, label_index, order_labels
from zoo.inputs.prepare import Prepare
from zoo.inputs.preprocess import Preprocess
from zoo.inputs.scene import Pair, PrepareScene, scene
from zoo.inputs.series import PrepareSeries, series
from zoo.inputs.sound import PrepareSound, SoundError, sound
from zoo.inputs.text import PrepareText, text

if TYPE_CHECKING:
    from zoo.inputs.augmentation import Augment, augment
    from zoo.inputs.image import PictureError, decode_image

__all__ = [
    "Augment",
    "Boxed",
    "Pair",
    "PictureError",
    "Prepare",
    "PrepareBoxes",
    "PrepareScene",
    "PrepareSeries",
    "PrepareSound",
    "PrepareText",
    "Preprocess",
    "SoundError",
    "augment",
    "boxes",
    "clean_label",
    "decode_image",
    "label_index",
    "order_labels",
    "scene",
    "series",
    "sound",
    "text",
]

_LATER = {
    "Augment": "zoo.inputs.augmentation",
    "augment": "zoo.inputs.augmentation",
    "PictureError": "zoo.inputs.image",
    "decode_image": "zoo.inputs.image",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
