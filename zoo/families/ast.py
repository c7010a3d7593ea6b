"""Audio Spectrogram Transformer (Gong et al. 2021, arXiv:2104.01778): ast_base."""

from functools import partial

from zoo.adapters import SpectrogramPatchesConfig
from zoo.convert import Rule
from zoo.families.family import Family, of_sizes
from zoo.heads import ClassifyConfig
from zoo.nn import BackboneConfig
from zoo.nn.backbone import one_stage

# fmt: off
SIZES = {
    "ast_mu":   dict(dim=32,  depth=2,  heads=2, size=(32, 64), classes=10),
    "ast_base": dict(dim=768, depth=12, heads=12),
}
BODY, BLOCK = "audio_spectrogram_transformer", "backbone.stages.0.blocks.{i}"
LAYER = f"{BODY}.layers.{{i}}"
QKV = tuple(f"{LAYER}.attention.{n}_proj.*" for n in "qkv")
HF = (
    Rule(f"{BODY}.embeddings.cls_token",                      "adapter.token", lead=1),
    Rule(f"{BODY}.embeddings.distillation_token",             "adapter.registers", lead=1),
    Rule(f"{BODY}.embeddings.position_embeddings",            "adapter.position", lead=1),
    Rule(f"{BODY}.embeddings.patch_embeddings.projection.*",  "adapter.stem.*"),
    Rule(f"{LAYER}.layernorm_before.*",                       f"{BLOCK}.attn_norm.*"),
    Rule(QKV,                                                 f"{BLOCK}.attn.qkv.*"),
    Rule(f"{LAYER}.attention.o_proj.*",                       f"{BLOCK}.attn.out.*"),
    Rule(f"{LAYER}.layernorm_after.*",                        f"{BLOCK}.mlp_norm.*"),
    Rule(f"{LAYER}.mlp.fc1.*",                                f"{BLOCK}.mlp.up.*"),
    Rule(f"{LAYER}.mlp.fc2.*",                                f"{BLOCK}.mlp.down.*"),
    Rule(f"{BODY}.layernorm.*",                               "backbone.norm.*"),
    Rule("classifier.layernorm.*",                            "head.norm.*"),
    Rule("classifier.dense.*",                                "head.out.*"),
)
# fmt: on


def build(
    dim: int, depth: int, heads: int, size: tuple[int, int] = (128, 1024), classes: int = 527
) -> tuple[SpectrogramPatchesConfig, BackboneConfig, ClassifyConfig]:
    """Columns -> configs; the mean of class and distillation token answers."""
    eps = 1e-12
    head = ClassifyConfig(dim, classes, pool="prefix", norm="layer", eps=eps)
    body = one_stage(dim=dim, depth=depth, heads=heads, eps=eps)
    return SpectrogramPatchesConfig(dim, size), body, head


AST = Family("ast", partial(of_sizes, SIZES), build, tuple(SIZES), {"hf": HF})
