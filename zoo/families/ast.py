"""Audio Spectrogram Transformer (Gong et al. 2021, arXiv:2104.01778): ast_base."""

from zoo.adapters import SpectrogramPatchesConfig
from zoo.convert import Rule
from zoo.families.family import BLOCK, Configs, Family
from zoo.heads import ClassifyConfig
from zoo.nn.backbone import one_stage

# fmt: off
SIZES = {
    "ast_mu":   dict(dim=32,  depth=2,  heads=2, size=(32, 64), classes=10),
    "ast_base": dict(dim=768, depth=12, heads=12),
}
BODY = "audio_spectrogram_transformer"
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


def build(dim: int, depth: int, heads: int, size: tuple[int, int] = (128, 1024),
          classes: int = 527) -> Configs:
    """Columns -> configs; the mean of class and distillation token answers."""
    return (
        SpectrogramPatchesConfig(dim=dim, size=size),
        one_stage(dim=dim, depth=depth, heads=heads, eps=1e-12),
        ClassifyConfig(dim=dim, classes=classes, pool="prefix", norm="layer", eps=1e-12),
    )
# fmt: on


AST = Family("ast", SIZES, build, {"hf": HF})
