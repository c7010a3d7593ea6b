"""Speed against the peers with the same weights, in one process, in turn; `tests/bars.py` keeps the rows."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

from collections.abc import Callable
from dataclasses import replace

import timm
import torch
import torchvision
import transformers as hf

import zoo
from zoo.bench import Ratio, pictures, race
from zoo.convert import Rule

BF16 = torch.bfloat16


def forward(name: str, ours, theirs, *inputs) -> Ratio:
    with torch.inference_mode():
        return race(name, lambda: ours(*inputs), lambda: theirs(*inputs))


def loaded(name: str, peer, layout: str, **options):
    """-> (ours, theirs) with the same weights, eval, bf16."""
    model = zoo.create(name, **options).eval()
    zoo.load_state(model, peer.state_dict(), layout=layout)
    return model.to(BF16), peer.eval().to(BF16)


def swin_against_timm() -> Ratio:
    torch.manual_seed(0)
    name = "swin_tiny_patch4_window7_224"
    return forward("Swin-T, timm", *loaded(name, timm.create_model(name), "timm"), pictures(BF16))


def swin_rules(stem, norm, block, merge, last, head, attention, mlp) -> tuple[Rule, ...]:
    """Another library's Swin as rules, a stage at a time; `{{i}}` stays a block's number."""
    ours = "backbone.stages.{0}.blocks.{{i}}"
    rules = [Rule(f"{stem}.*", "adapter.stem.*"), Rule(f"{norm}.*", "adapter.norm.*"),
             Rule(f"{last}.*", "backbone.norm.*"), Rule(f"{head}.*", "head.out.*")]  # fmt: skip
    for stage in range(4):
        theirs, mine = block.format(2 * stage + 1, stage), ours.format(stage)
        for one, other in {**attention, **mlp}.items():
            keys = tuple(f"{theirs}.{key}" for key in one.split())
            rules.append(Rule(keys, f"{mine}.{other}"))
        for part in ("norm", "reduction") if stage else ():
            name = "project" if part == "reduction" else part
            there = merge.format(2 * stage, stage - 1)
            rules.append(Rule(f"{there}.{part}.*", f"backbone.stages.{stage}.merge.{name}.*"))
    return tuple(rules)


TABLE = "relative_position_bias_table"
TORCHVISION = swin_rules(
    "features.0.0", "features.0.2", "features.{0}.{{i}}", "features.{0}", "norm", "head",
    {"norm1.*": "attn_norm.*", "attn.qkv.*": "attn.qkv.*", "attn.proj.*": "attn.out.*",
     f"attn.{TABLE}": "attn.position.table"},
    {"norm2.*": "mlp_norm.*", "mlp.0.*": "mlp.up.*", "mlp.3.*": "mlp.down.*"},
)  # fmt: skip
HF = swin_rules(
    "swin.embeddings.patch_embeddings.projection", "swin.embeddings.norm",
    "swin.encoder.layers.{1}.blocks.{{i}}", "swin.encoder.layers.{1}.downsample", "swin.layernorm",
    "classifier",
    {"layernorm_before.*": "attn_norm.*",
     "attention.q_proj.* attention.k_proj.* attention.v_proj.*": "attn.qkv.*",
     "attention.o_proj.*": "attn.out.*",
     f"attention.relative_position_bias.{TABLE}": "attn.position.table"},
    {"layernorm_after.*": "mlp_norm.*", "mlp.fc1.*": "mlp.up.*", "mlp.fc2.*": "mlp.down.*"},
)  # fmt: skip


def swin_against(name: str, peer, rules: tuple[Rule, ...]) -> Ratio:
    """The same weights, and first the same answer."""
    ours, theirs = zoo.create("swin_tiny_patch4_window7_224").eval(), peer.eval()
    ours.record = replace(ours.record, rules={"peer": rules})
    state = {k: t for k, t in theirs.state_dict().items() if t.is_floating_point()}
    zoo.load_state(ours, state, layout="peer")
    with torch.inference_mode():
        x = pictures(torch.float32, batch=1)
        answer = theirs(x)
        torch.testing.assert_close(ours(x), getattr(answer, "logits", answer), rtol=1e-3, atol=1e-4)
    return forward(name, ours.to(BF16), theirs.to(BF16), pictures(BF16))


def swin_against_torchvision() -> Ratio:
    torch.manual_seed(0)
    return swin_against("Swin-T, torchvision", torchvision.models.swin_t(), TORCHVISION)


def swin_against_transformers() -> Ratio:
    torch.manual_seed(0)
    peer = hf.SwinForImageClassification(hf.SwinConfig(num_labels=1000))
    return swin_against("Swin-T, transformers", peer, HF)


def bert_against_transformers() -> Ratio:
    torch.manual_seed(0)
    peer = hf.BertModel(hf.BertConfig(), add_pooling_layer=False)
    ids = torch.randint(1, 30000, (8, 128), generator=torch.Generator().manual_seed(0))
    return forward("BERT-base, 128 tokens", *loaded("bert_base", peer, "hf"), ids)


def ast_against_transformers() -> Ratio:
    torch.manual_seed(0)
    peer = hf.ASTForAudioClassification(hf.ASTConfig(num_labels=527))
    frames = torch.randn(2, 1024, 128, generator=torch.Generator().manual_seed(0)).to(BF16)
    return forward("AST, batch 2", *loaded("ast_base", peer, "hf"), frames)


RACES: dict[str, Callable[[], Ratio]] = {
    "swin-timm": swin_against_timm,
    "swin-torchvision": swin_against_torchvision,
    "swin-transformers": swin_against_transformers,
    "bert": bert_against_transformers,
    "ast": ast_against_transformers,
}
