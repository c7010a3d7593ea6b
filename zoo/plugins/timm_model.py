"""A zoo model with what timm's code asks its models for."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from timm.models._features import feature_take_indices
from torch import Tensor, nn

from zoo.convert import Parts
from zoo.errors import one_of, require
from zoo.giving import POOLS
from zoo.heads import Classify
from zoo.model import Model, decays
from zoo.ops import as_map
from zoo.plugins.timm_weights import check_fits, converted, is_own, misfits, resized
from zoo.shapes import pair
from zoo.tokens import Details, Tokens

THEIRS = {ours: theirs for theirs, ours in POOLS.items()}
KEPT = 99999  # timm's number for what comes behind all blocks


class TimmModel(Model):
    """A zoo model with the attributes and methods that timm's code asks models for."""

    def __init__(self, model: Model, given: Mapping[str, Any] | None = None):
        super().__init__(model.adapter, model.backbone, model.head, model.record)
        # The options that weights are made for; sizes and channels stand in the adapter.
        moved = ("size", "patch", "window", "channels")
        self.given = {
            k: v for k, v in (given or {}).items() if k not in moved and not k.startswith("head.")
        }
        self.distilled_training = False
        self.reference = sides(self)
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

    @property
    def distilled(self) -> bool:
        """Whether two tokens are read (DeiT)."""
        return bool(self.head is not None and self.head.config.distilled)

    def forward(self, *inputs: Any, details: tuple[str, ...] = (), **named: Any) -> Any:
        """(B, C, H, W) -> (B, classes), as `Model`; without a pool what `forward_head` gives."""
        both = self.distilled and (not self.num_classes or self.distilled_training)
        if self.global_pool and not both:
            return super().forward(*inputs, details=details, **named)
        wants = "forward takes details of a model that gives one answer by a pool"
        require(not details, f"{wants}; got {details}: call zoo.create's model", "details")
        return self.forward_head(self.forward_features(*inputs, **named))

    def forward_features(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, T, D) behind the last norm, or (B, h, w, D) of several stages."""
        tokens = self.features(x)
        return self.spread(tokens) if len(self.backbone.config.stages) > 1 else tokens.x

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Any:
        """What `forward_features` gives -> (B, classes), or what the last Linear reads.

        Without a pool each token goes through the Linear, (B, T, D) -> (B, T, classes). Distilled,
        the mean of two tokens' answers; both, in training after `set_distilled_training`.
        """
        head: Any = self.head
        if head is None:
            return x
        if not self.global_pool:
            return head.norm(x) if pre_logits else head.answer(x)
        tokens = Tokens(x.flatten(1, -2), prefix=self.num_prefix_tokens)
        if self.distilled and (pre_logits or head.second is None):
            return head.norm(x[:, :2]).mean(1)
        if self.distilled and self.distilled_training and self.training:
            return head.both(tokens)
        return head.norm(head.pool(tokens)) if pre_logits else head(tokens)

    def set_distilled_training(self, enable: bool = True) -> None:
        """Whether a distilled model gives the answers of both tokens in training."""
        self.distilled_training = enable

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

    def get_classifier(self) -> Any:
        """The last Linear, an Identity where there is none; both of a distilled model."""
        if self.head is None:
            return nn.Identity()
        out = self.head.get_submodule("out")
        return (out, self.head.second or nn.Identity()) if self.distilled else out  # type: ignore[union-attr]

    def reset_classifier(self, num_classes: int, global_pool: str | None = None) -> None:
        """A new last Linear, 0 = none; `global_pool` is token, avg, map or "" (tokens answer).

        A distilled model keeps its pool, as timm's does. OptionError for a pool that the model
        has no tokens for, and for "" with classes where there are several stages.
        """
        keeps = self.distilled and not global_pool
        self.pool_by(num_classes, None if keeps else global_pool, "reset_classifier")

    def pool_by(self, num_classes: int, global_pool: str | None, owner: str) -> None:
        """`reset_classifier`, whose errors name the `owner`; "" is a pool of distilled models no
        more."""
        num_classes, config = max(num_classes, 0), self.head.config  # type: ignore[union-attr]
        several = len(self.backbone.config.stages) > 1
        has_class = getattr(self.adapter, "has_class", True)
        pools = [p for p in POOLS if has_class or p != "token"]
        pools = (
            ["token"] if self.distilled else [*pools, *([] if several and num_classes else [""])]
        )
        if global_pool is not None:
            shown = ", ".join(p or '""' for p in pools)
            wants = f"{owner} takes the global_pool {shown} for zoo_{self.record.name}"
            require(global_pool in pools, f"{wants}; got {global_pool!r}", "global_pool")
            self.global_pool = global_pool
        pool = config.pool if global_pool is None else POOLS.get(global_pool, config.pool)
        if not self.global_pool and pool in ("attention", "class_mean"):
            pool = "mean"  # the Linear reads tokens of D channels, and nothing else learns
        if not self.global_pool and several and num_classes:
            wants = f"{owner} takes num_classes with a pool; global_pool is ''"
            require(False, f"{wants}: give global_pool='avg'", "num_classes")
        old, like = self.head, next(self.parameters())
        self.head = Classify(replace(config, classes=num_classes or None, pool=pool))
        self.head.to(like.device, like.dtype).train(self.training)
        kept = {k: v for k, v in old.state_dict().items() if not k.startswith(("out.", "second."))}  # type: ignore[union-attr]
        mine = self.head.state_dict()
        self.head.load_state_dict({**mine, **{k: v for k, v in kept.items() if k in mine}})
        self.num_classes = num_classes

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Ours, or in any layout of the family, which is converted: as `create_model` with a
        `checkpoint_path` calls it. ConversionError that names what does not fit."""
        partly = not strict and is_own(self, state_dict)
        state = state_dict if partly else converted(self, state_dict)
        check_fits(self, misfits(self, state, strict=strict))
        return super().load_state_dict(state, strict=strict, assign=assign)

    def set_input_size(
        self, img_size: Any = None, patch_size: Any = None, window_size: Any = None
    ) -> None:
        """Tables and kernels for other pictures, patches or windows.

        Windows that are not given keep their share of the grid, as in timm.
        """
        wanted = {"size": img_size, "patch": patch_size, "window": window_size}
        options = {key: value for key, value in wanted.items() if value is not None}
        options = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
        window, grid = self.reference
        if window is not None and window_size is None and options:
            config = replace(
                self.adapter.config,
                size=pair(options.get("size", self.adapter.config.size)),
                patch=pair(options.get("patch", self.adapter.config.patch)),
            )
            shares = zip(window, Parts(config).grid, grid, strict=True)
            options["window"] = tuple(max(1, w * new // old) for w, new, old in shares)
        if options and (new := resized(self, options)):
            self.adapter, self.backbone, self.record = new.adapter, new.backbone, new.record
        if window_size is not None:
            self.reference = sides(self)

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


def sides(model: Any) -> tuple[tuple[int, int] | None, tuple[int, int]]:
    """-> (the window, or None, and the grid of patches that it was chosen for)."""
    config = model.adapter.config
    window = getattr(config, "window", None)
    return (None if window is None else pair(window)), Parts(config).grid
