"""Audio Spectrogram Transformer (Gong et al. 2021, arXiv:2104.01778): ast_base."""

from zoo.adapters import SpectrogramPatchesConfig
from zoo.convert import Rule
from zoo.families import hf_layouts
from zoo.families.family import Configs, Family
from zoo.heads import ClassifyConfig
from zoo.nn.backbone import one_stage

# fmt: off
SIZES = {
    "ast_mu":   dict(dim=32,  depth=2,  heads=2, size=(32, 64), classes=10),
    "ast_base": dict(dim=768, depth=12, heads=12),
}
BODY = "audio_spectrogram_transformer."
ENDS = (Rule(f"{BODY}embeddings.distillation_token", "adapter.registers", lead=1),
        Rule("classifier.layernorm.*", "head.norm.*"), Rule("classifier.dense.*", "head.out.*"))


def build(dim: int, depth: int, heads: int, size: tuple[int, int] = (128, 1024),
          classes: int = 527) -> Configs:
    """Columns -> configs; the mean of class and distillation token answers."""
    return (
        SpectrogramPatchesConfig(dim=dim, size=size),
        one_stage(dim=dim, depth=depth, heads=heads, eps=1e-12),
        ClassifyConfig(dim=dim, classes=classes, pool="prefix", norm="layer", eps=1e-12),
    )
# fmt: on


RULES = {"hf": ENDS + hf_layouts.hf(BODY), "hf_v4": ENDS + hf_layouts.hf(BODY, 4)}
AST = Family("ast", SIZES, build, RULES)
