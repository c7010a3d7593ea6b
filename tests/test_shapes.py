"""The sentences that wrong shapes and wrong words get."""

import numpy as np
import pytest
import torch

import zoo
from zoo.adapters import Frames, Subwords
from zoo.errors import OptionError, ShapeError, one_of, suggest
from zoo.shapes import check, pair


def test_check_names_the_axis_that_is_wrong():
    with pytest.raises(ShapeError) as error:
        check("Patches", torch.zeros(2, 4, 8, 8), "batch channels height width", channels=3)
    assert str(error.value) == (
        "Patches takes (batch, channels=3, height, width); got (2, 4, 8, 8): channels is 4, not 3"
    )


def test_check_counts_the_axes():
    with pytest.raises(ShapeError, match="3 axes, not 4"):
        check("Patches", torch.zeros(3, 8, 8), "batch channels height width", channels=3)


def test_check_passes_what_fits():
    check("Patches", torch.zeros(2, 3, 8, 8), "batch channels height width", channels=3)


def test_pair():
    assert pair(16) == (16, 16)
    assert pair((14, 16)) == pair([14, 16]) == (14, 16)


def test_suggest_is_silent_where_nothing_is_close():
    assert suggest("layer_scal", ["layer_scale", "dropout"]) == "; did you mean 'layer_scale'?"
    assert suggest("qqqq", ["layer_scale", "dropout"]) == ""
    assert suggest("window", ["window"]) == "", "what was refused is no suggestion"
    assert suggest("window", ["window", "windows"]) == "; did you mean 'windows'?"
    assert suggest("caf\u00e9", ["cafe\u0301"]) == r"; did you mean 'cafe\u0301'?", (
        "which looks the same"
    )


def test_one_of():
    assert one_of("Block", "place", "pre", ("pre", "post")) == "pre"
    with pytest.raises(OptionError) as error:
        one_of("Block", "place", "prr", ("pre", "post"))
    assert str(error.value) == "Block takes the place pre, post; got 'prr'; did you mean 'pre'?"
    assert error.value.key == "place"


@pytest.mark.parametrize("wrong", [np.zeros((1, 3, 32, 32)), [[1.0]], None])
def test_what_is_no_tensor_is_told(wrong):
    with pytest.raises(ShapeError, match=r"Patches takes a torch.Tensor; got (ndarray|list|None)"):
        zoo.create("vit_mu_patch8_32", classes=2)(wrong)


IDS = torch.arange(8).view(2, 4)


@pytest.mark.parametrize(
    "given, says",
    [
        (
            {"keep": torch.ones(2, 4)},
            "takes keep as true or false; got torch.float32: use keep.bool",
        ),
        ({"keep": torch.ones(2, 4).long()}, "takes keep as true or false; got torch.int64"),
        ({"ids": IDS + 9}, "takes ids of a table of 16 rows; got some from 9 to 16"),
        ({"ids": -IDS}, "takes ids of a table of 16 rows; got some from -7 to 0"),
        ({"positions": IDS * 2}, "takes positions of a table of 9 rows; got some from 1 to 15"),
        ({"segments": IDS}, "takes segments of a table of 2 rows; got some from 0 to 7"),
        (
            {"segments": IDS.float()},
            "segments takes whole numbers, such as int64; got torch.float32",
        ),
    ],
)
def test_words_that_no_table_has_are_one_sentence(given, says):
    words = Subwords(vocabulary=16, dim=8, length=8, offset=1, segments=2)
    with pytest.raises(ShapeError) as error:
        words(**{"ids": IDS, **given})
    assert str(error.value).startswith(f"Subwords {says}")


def test_frames_take_a_keep_that_is_true_or_false():
    frames = Frames(channels=3, dim=8, stem="conv")
    with pytest.raises(ShapeError, match="Frames takes keep as true or false"):
        frames(torch.zeros(2, 5, 3), torch.ones(2, 5, dtype=torch.long))
