"""Our models of pictures as timm's: after `import zoo.plugins.timm`, timm builds each by its name
with `zoo_` before it.

    timm.create_model("zoo_vit_base_patch16_224", num_classes=10, drop_path_rate=0.1)

They keep to timm's conventions, so that its training script takes them. Their keys are ours:
`zoo.load_state` takes them. Names that timm has too bring its tags and the places of its weights,
which are converted: `pretrained=True` gives the answers of timm's own model.
"""

import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import timm
from timm.models import DefaultCfg, PretrainedCfg, build_model_with_cfg, register_model
from timm.models._features import feature_take_indices
from torch import Tensor, nn

from zoo.adapters import PatchesConfig, SwinPatchesConfig
from zoo.configs import find
from zoo.errors import one_of
from zoo.extend import families
from zoo.giving import POOLS, square
from zoo.heads import Classify
from zoo.loading import ARGS, Make, Report, fitting
from zoo.model import Model, decays, load_state
from zoo.ops import as_map
from zoo.registry import create
from zoo.resizing import changed
from zoo.shapes import pair
from zoo.tokens import Details, Tokens

State = Mapping[str, Tensor]
OPTIONS = {  # timm's words for what `create` takes
    **ARGS, "num_classes": "classes", "drop_rate": "head.dropout",
    "proj_drop_rate": "block.dropout", "attn_drop_rate": "attn.dropout",
    "drop_path_rate": "drop_path", "patch_drop_rate": "drop_tokens", "init_values": "layer_scale",
}  # fmt: skip
ALWAYS = ("dynamic_img_size", "dynamic_img_pad", "strict_img_size")  # any size goes through
THEIRS = {ours: theirs for theirs, ours in POOLS.items()}
KEPT = 99999  # timm's number for what comes behind all blocks


class TimmModel(Model):
    """A zoo model with the attributes and methods that timm's code asks models for."""

    def __init__(self, model: Model):
        super().__init__(model.adapter, model.backbone, model.head, model.record)
        adapter, stages = self.adapter.config, self.backbone.config.stages
        head: Any = self.head
        self.num_classes = head.config.classes or 0
        self.global_pool = THEIRS.get(head.config.pool, head.config.pool)
        self.num_prefix_tokens = int(getattr(adapter, "class_token", False)) + getattr(
            adapter, "registers", 0
        )
        self.pretrained_cfg: dict[str, Any] = {}  # `build_model_with_cfg` gives it
        step, made = pair(adapter.patch)[0], []
        if len(stages) == 1:
            for i in range(stages[0].depth):
                name = f"backbone.stages.0.blocks.{i}"
                made.append({"num_chs": self.backbone.dim, "reduction": step, "module": name})
        else:
            for s, stage in enumerate(stages):
                name, width = f"backbone.stages.{s}", stage.block.dim
                made.append({"num_chs": width, "reduction": step * 2**s, "module": name})
        self.feature_info = made

    @property
    def dim(self) -> int:
        """D: channels behind the backbone."""
        body: Any = self.backbone
        return body.dim

    @property
    def num_features(self) -> int:
        """D: channels behind the backbone."""
        return self.dim

    @property
    def embed_dim(self) -> int:
        """D: channels behind the backbone."""
        return self.dim

    @property
    def head_hidden_size(self) -> int:
        """Channels that the last Linear reads."""
        wide = self.head is not None and self.head.config.pool == "class_mean"
        return 2 * self.dim if wide else self.dim

    def forward(self, *inputs: Any, details: tuple[str, ...] = (), **named: Any) -> Any:
        """(B, C, H, W) -> (B, classes), as `Model`; without a pool the features."""
        if self.global_pool:
            return super().forward(*inputs, details=details, **named)
        return self.forward_features(*inputs, **named)

    def forward_features(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, T, D) behind the last norm, or (B, h, w, D) of several stages."""
        tokens = self.features(x)
        return self.spread(tokens) if len(self.backbone.config.stages) > 1 else tokens.x

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """What `forward_features` gives -> (B, classes), or what the last Linear reads."""
        if not self.global_pool or self.head is None:
            return x
        tokens = Tokens(x.flatten(1, -2), prefix=self.num_prefix_tokens)
        head: Any = self.head
        return head.norm(head.pool(tokens)) if pre_logits else head(tokens)

    def forward_intermediates(
        self, x: Tensor, indices: int | Sequence[int] | None = None,
        return_prefix_tokens: bool = False, norm: bool = False, stop_early: bool = False,
        output_fmt: str = "NCHW", intermediates_only: bool = False, output_dict: bool = False,
    ) -> Any:  # fmt: skip
        """(B, C, H, W) -> (final features, maps), maps alone, or a dict, as timm's.

        Maps are those behind each block, or of several stages those behind each stage, (B, D, h, w)
        for NCHW, (B, h w, D) for NLC, (B, h, w, D) for NHWC; `norm` applies the last norm. All
        blocks are computed, also with `stop_early`: `prune_intermediate_layers` takes them away.
        """
        one_of("forward_intermediates", "output_fmt", output_fmt, ("NCHW", "NLC", "NHWC"))
        shown = Details()
        body: Any = self.backbone
        start = self.adapter(x)
        final = body(start, details=shown, show=("states",), stages=True)
        if len(self.backbone.config.stages) == 1:
            each = [start.replace(x=state) for state in shown.states[1:]]
            normed = range(len(each))
        else:
            each = [*final.stages[:-1], final.replace(x=shown.states[-1])]
            normed = (len(each) - 1,)
        taken, _ = feature_take_indices(len(self.feature_info), indices)  # type: ignore[arg-type]
        found, prefixes = [], []
        for i in taken:
            y = each[i].x
            tokens = each[i].replace(x=body.norm(y) if norm and i in normed else y)
            made = {"NCHW": as_map, "NHWC": self.spread, "NLC": lambda t: t.x[:, t.prefix :]}
            found.append(made[output_fmt](tokens))
            prefixes.append(tokens.x[:, : tokens.prefix])
        whole = self.spread(final) if len(each) < len(shown.states) - 1 else final.x
        if output_dict:
            told = {} if intermediates_only else {"image_features": whole}
            told |= {"image_intermediates_prefix": prefixes} if return_prefix_tokens else {}
            return {**told, "image_intermediates": found}
        pairs = list(zip(found, prefixes, strict=True)) if return_prefix_tokens else found
        return pairs if intermediates_only else (whole, pairs)

    def spread(self, tokens: Tokens) -> Tensor:
        """Tokens of a grid -> (B, h, w, D)."""
        return as_map(tokens).movedim(1, -1)

    def prune_intermediate_layers(
        self, indices: int | Sequence[int] = 1, prune_norm: bool = False, prune_head: bool = True
    ) -> list[int]:
        """Takes away what lies behind the last of the blocks, or stages, that are wanted."""
        taken, last = feature_take_indices(len(self.feature_info), indices)  # type: ignore[arg-type]
        body: Any = self.backbone
        if len(body.config.stages) == 1:
            body.stages[0].blocks = body.stages[0].blocks[: last + 1]
        else:
            body.stages = body.stages[: last + 1]
            body.dim = body.config.stages[last].block.dim
        if prune_norm or body.dim != self.feature_info[-1]["num_chs"]:
            body.norm = nn.Identity()
        if prune_head:
            self.reset_classifier(0, "")
        return taken

    def get_classifier(self) -> nn.Module:
        """The last Linear, an Identity where there is none."""
        return nn.Identity() if self.head is None else self.head.get_submodule("out")

    def reset_classifier(self, num_classes: int, global_pool: str | None = None) -> None:
        """A new last Linear, 0 = none; `global_pool` is token, avg, map or "" (tokens answer)."""
        config = self.head.config  # type: ignore[union-attr]
        pool = config.pool
        if global_pool:
            pool = POOLS[one_of("reset_classifier", "global_pool", global_pool, POOLS)]
        if global_pool is not None:
            self.global_pool = global_pool
        old, like = self.head, next(self.parameters())
        self.head = Classify(replace(config, classes=num_classes or None, pool=pool))
        self.head.to(like.device, like.dtype).train(self.training)
        kept = {k: v for k, v in old.state_dict().items() if not k.startswith(("out.", "second."))}  # type: ignore[union-attr]
        mine = self.head.state_dict()
        self.head.load_state_dict({**mine, **{k: v for k, v in kept.items() if k in mine}})
        self.num_classes = num_classes

    def set_input_size(
        self, img_size: Any = None, patch_size: Any = None, window_size: Any = None
    ) -> None:
        """Tables and kernels for other pictures, patches or windows (see `zoo.load`)."""
        wanted = {"size": img_size, "patch": patch_size, "window": window_size}
        options = {key: value for key, value in wanted.items() if value is not None}
        if options and (new := resized(self, options)):
            self.adapter, self.backbone, self.record = new.adapter, new.backbone, new.record

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Whether blocks are computed again in the backward pass."""
        body: Any = self.backbone
        body.config = replace(body.config, checkpoint=enable)

    def no_weight_decay(self) -> set[str]:
        """Tables, tokens and queries: what has two axes or more and yet no decay."""
        return {
            f"{path}.{name}".lstrip(".")
            for path, owner in self.named_modules()
            for name, parameter in owner.named_parameters(recurse=False)
            if parameter.ndim > 1 and not decays(owner, path, name)
        }

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """timm's patterns of depth: the adapter, then block by block, coarse by stage."""
        block = r"^backbone\.stages\.(\d+)\.blocks\.(\d+)"
        fine = [(r"^backbone\.stages\.(\d+)\.(?:merge|position)", (0,)), (block, None)]
        stages = [(r"^backbone\.stages\.(\d+)", None)]
        several = coarse and len(self.backbone.config.stages) > 1
        return {
            "stem": r"^adapter",
            "blocks": [*(stages if several else fine), (r"^backbone\.norm", (KEPT,))],
        }


def resized(model: Model, options: Mapping[str, Any]) -> Model:
    """A model with its weights at other sizes, where and in the mode that it was."""
    like = next(model.parameters())
    plain = Model(model.adapter, model.backbone, model.head, model.record)
    report = Report("a model of timm's", "zoo", (), len(plain.state_dict()), (), (), 0)
    plain.record = replace(plain.record, report=plain.record.report or report)
    return changed(plain, None, options).to(like.device, like.dtype).train(model.training)


def build(name: str, **given: Any) -> TimmModel:
    """Our model by its name and timm's options. OptionError for one that it does not have."""
    given = {key: value for key, value in given.items() if key not in ALWAYS and value is not None}
    classes, pool = given.pop("num_classes", 1000), given.pop("global_pool", None)
    options = {OPTIONS.get(key, key): value for key, value in given.items()}
    if not options.get("head.dropout", 1.0):
        del options["head.dropout"]  # timm passes 0.0 on
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    options |= {k: square(options[k]) for k in ("size", "patch", "window") if k in options}
    model = TimmModel(create(name, classes=classes or 1, **options))
    if pool is not None or not classes:
        model.reset_classifier(classes, pool)
    return model


def ours(name: str, state: State, model: TimmModel) -> dict[str, Tensor]:
    """A state dict in any layout of the family, of any size -> in our keys, of the model's size."""
    if state.keys() >= model.adapter.state_dict(prefix="adapter.").keys():
        return dict(state)
    make = Make(name, {})
    native, layout = fitting(make, state, None, Path("pretrained"))
    load_state(native, state, layout, assign=True)
    wanted, has = model.adapter.config, native.adapter.config
    options = {
        key: getattr(wanted, key)
        for key in ("size", "patch", "window")
        if getattr(wanted, key, None) != getattr(has, key, None)
    }
    return (resized(native, options) if options else native).state_dict()


def cfgs_of(name: str) -> DefaultCfg:
    """timm's facts of the weights that it has under a name, with our keys of stem and classifier;
    the family's preprocessing where it has none."""
    mine: dict[str, Any] = {"first_conv": "adapter.stem", "classifier": "head.out"}
    tags = timm.list_models(f"{name}.*", include_tags=True) if timm.is_model(name) else []
    listed = [timm.get_pretrained_cfg(tag) for tag in tags]
    default = timm.get_pretrained_cfg(name, allow_unregistered=False) if tags else None
    if default is not None:
        listed.sort(key=lambda cfg: cfg != default)  # stable: the default first
        found = {str(cfg.tag): replace(cfg, **mine) for cfg in listed if cfg is not None}
        return DefaultCfg(tags=deque(found), cfgs=found)
    family, columns = find(name)
    size, prepare = pair(family.build(**columns)[0].size), family.preprocess
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
            pretrained_filter_fn=partial(ours, name), feature_cfg=features, **options,
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
