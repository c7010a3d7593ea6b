"""Our models of pictures as timm's: after `import zoo.plugins.timm`, timm builds each by its name
with `zoo_` before it.

    timm.create_model("zoo_vit_base_patch16_224", num_classes=10, drop_path_rate=0.1)

They keep to timm's conventions, so that its training script takes them. Their keys are ours:
`zoo.load_state` takes them. Names that timm has too bring its tags and the places of its weights,
which are converted: `pretrained=True` gives the answers of timm's own model.
"""

import sys
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import timm
from timm.models import DefaultCfg, PretrainedCfg, build_model_with_cfg, register_model
from torch import nn

from zoo.adapters import PatchesConfig, SwinPatchesConfig
from zoo.configs import find
from zoo.errors import one_of
from zoo.extend import families
from zoo.giving import square
from zoo.loading import ARGS
from zoo.plugins.timm_model import TimmModel
from zoo.plugins.timm_weights import pretrained as convert
from zoo.registry import create
from zoo.shapes import pair

OPTIONS = {  # timm's words for what `create` takes
    **ARGS, "num_classes": "classes", "drop_rate": "head.dropout",
    "proj_drop_rate": "block.dropout", "attn_drop_rate": "attn.dropout",
    "drop_path_rate": "drop_path", "patch_drop_rate": "drop_tokens", "init_values": "layer_scale",
}  # fmt: skip
ALWAYS = ("dynamic_img_size", "dynamic_img_pad", "strict_img_size")  # any size goes through
AVERAGED = ("dinov3",)  # how families begin that timm pools by the mean where nothing else is said
BIASED = ("clip",)  # how families begin whose last Linear has a bias in timm alone


def build(name: str, **given: Any) -> TimmModel:
    """Our model by its name and timm's options, and what is not given as timm has it. OptionError
    for one that it does not have."""
    given = {key: value for key, value in given.items() if key not in ALWAYS and value is not None}
    family, _ = find(name)
    usual = "avg" if family.name.startswith(AVERAGED) else None
    classes, pool = max(given.pop("num_classes", 1000), 0), given.pop("global_pool", usual)
    options = {OPTIONS.get(key, key): value for key, value in given.items()}
    if not options.get("head.dropout", 1.0):
        del options["head.dropout"]  # timm passes 0.0 on
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    options |= {k: square(options[k]) for k in ("size", "patch", "window") if k in options}
    options = {**family.facts.get("timm", {}), **options}
    if family.name.startswith(BIASED):
        options.setdefault("bias", True)
    model = TimmModel(create(name, classes=classes or 1, **options), options)
    if pool is not None or not classes:
        model.pool_by(classes, pool, "create_model")
    return model


def cfgs_of(name: str) -> DefaultCfg:
    """timm's facts of the weights that it has under a name, with our keys of stem and classifier;
    the family's preprocessing where it has none."""
    family, columns = find(name)
    adapter, _, head = family.build(**columns)
    last = ("head.out", "head.second") if getattr(head, "distilled", False) else "head.out"
    mine: dict[str, Any] = {"first_conv": "adapter.stem", "classifier": last}
    tags = timm.list_models(f"{name}.*", include_tags=True) if timm.is_model(name) else []
    listed = [timm.get_pretrained_cfg(tag) for tag in tags]
    default = timm.get_pretrained_cfg(name, allow_unregistered=False) if tags else None
    if default is not None:
        listed.sort(key=lambda cfg: cfg != default)  # stable: the default first
        found = {str(cfg.tag): replace(cfg, **mine) for cfg in listed if cfg is not None}
        return DefaultCfg(tags=deque(found), cfgs=found)
    size, prepare = pair(adapter.size), family.preprocess
    facts: dict[str, Any] = {k: v for k, v in (prepare or {}).items() if k in ("mean", "std")}
    cfg = PretrainedCfg(input_size=(3, *size), num_classes=1000, **facts, **mine)
    return DefaultCfg(tags=deque([""]), cfgs={"": cfg})


def entry(name: str) -> Callable[..., nn.Module]:
    """What timm calls for `create_model("zoo_NAME")`.

    With `features_only` the maps have timm's layout: (B, D, h, w), but (B, h, w, D) of several
    stages unless `feature_cls` is "getter". OptionError for a `feature_cls` that finds no maps.
    """
    family, columns = find(name)
    several = type(family.build(**columns)[0]) is SwinPatchesConfig

    def make(pretrained: bool = False, **options: Any) -> nn.Module:
        ways = ("list", "getter") if several else ("getter", "hook")  # the first is timm's own
        way = one_of("create_model", "feature_cls", options.pop("feature_cls", ways[0]), ways)
        wanted = options.pop("out_indices", None if several else 3)
        features = {"out_indices": wanted, "feature_cls": "hook" if way == "hook" else "getter"}
        features |= {"output_fmt": "NHWC"} if way == "list" else {}
        return build_model_with_cfg(
            partial(build, name), f"zoo_{name}".replace(".", "_"), pretrained,
            pretrained_filter_fn=convert, feature_cfg=features, **options,
        )  # fmt: skip

    make.__name__ = make.__qualname__ = f"zoo_{name}".replace(".", "_")
    make.__module__ = __name__
    return make


default_cfgs: dict[str, DefaultCfg] = {}  # where `register_model` looks


def register() -> list[str]:
    """Give timm every model of pictures under its name with `zoo_` before it. -> those names."""
    made = []
    for family in families():
        for name in family.names:
            columns = family.parse(name) or {}
            adapter = family.build(**columns)[0]
            video = isinstance(getattr(adapter, "patch", None), tuple) and len(adapter.patch) > 2
            if type(adapter) not in (PatchesConfig, SwinPatchesConfig) or video:
                continue
            function = entry(name)
            default_cfgs[function.__name__] = cfgs_of(name)
            setattr(sys.modules[__name__], function.__name__, function)
            register_model(function)
            made.append(function.__name__)
    return made


NAMES = register()
