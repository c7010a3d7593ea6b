"""Speed against the peers with the same weights, in one process, in turn; `tests/bars.py` keeps the rows."""

import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

from collections.abc import Callable
from functools import partial

import timm
import torch
import torchvision
import transformers as hf

import zoo
from zoo.bench import Ratio, pictures, race
from zoo.fast import Packed

BF16 = torch.bfloat16


def forward(name: str, ours, theirs, *inputs) -> Ratio:
    with torch.inference_mode():
        return race(name, lambda: ours(*inputs), lambda: theirs(*inputs))


def step(name: str, ours, theirs) -> Ratio:
    """A step of training at batch 8: forward and backward under bf16 autocast, AdamW."""
    x, target = pictures(torch.float32), torch.arange(8)

    def side(model):
        optimizer = torch.optim.AdamW(model.train().parameters(), fused=True)

        def run():
            with torch.autocast("cpu", torch.bfloat16):
                answer = model(x)
            answer = getattr(answer, "logits", answer)
            torch.nn.functional.cross_entropy(answer.float(), target).backward()
            optimizer.step()
            optimizer.zero_grad()

        return run

    return race(name, side(ours), side(theirs), rounds=30)


def loaded(name: str, peer, layout: str, **options):
    """-> (ours, theirs) with the same weights, eval, bf16."""
    model = zoo.create(name, **options).eval()
    zoo.load_state(model, peer.state_dict(), layout=layout)
    return model.to(BF16), peer.eval().to(BF16)


def swin_against(name: str, peer, layout: str, how: str) -> Ratio:
    """The same weights, and first the same answer; `how` ours is used: plain, packed, or trained."""
    ours, theirs = zoo.create("swin_tiny_patch4_window7_224").eval(), peer.eval()
    zoo.load_state(ours, theirs.state_dict(), layout=layout)
    with torch.inference_mode():
        x = pictures(torch.float32, batch=1)
        answer = theirs(x)
        torch.testing.assert_close(ours(x), getattr(answer, "logits", answer), rtol=1e-3, atol=1e-4)
    if how == "trained":
        return step(f"{name}, a training step", ours, theirs)
    ours = ours.to(BF16)
    ours = Packed(ours) if how == "packed" else ours
    return forward(f"{name}, {how}", ours, theirs.to(BF16), pictures(BF16))


def swin_against_timm(how: str) -> Ratio:
    torch.manual_seed(0)
    peer = timm.create_model("swin_tiny_patch4_window7_224", drop_path_rate=0.0)
    return swin_against("Swin-T, timm", peer, "timm", how)


def swin_against_torchvision(how: str) -> Ratio:
    torch.manual_seed(0)
    peer = torchvision.models.swin_t()
    for part in peer.modules():  # ours has none by default
        if isinstance(part, torchvision.ops.StochasticDepth):
            part.p = 0.0
    return swin_against("Swin-T, torchvision", peer, "torchvision", how)


def swin_against_transformers(how: str) -> Ratio:
    torch.manual_seed(0)
    peer = hf.SwinForImageClassification(hf.SwinConfig(num_labels=1000, drop_path_rate=0.0))
    return swin_against("Swin-T, transformers", peer, "hf", how)


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


SWIN = {
    "timm": swin_against_timm,
    "torchvision": swin_against_torchvision,
    "transformers": swin_against_transformers,
}
HOW = {"swin": "plain", "swin-packed": "packed", "swin-step": "trained"}
RACES: dict[str, Callable[[], Ratio]] = {
    **{f"{n}-{peer}": partial(SWIN[peer], how) for n, how in HOW.items() for peer in SWIN},
    "bert": bert_against_transformers,
    "ast": ast_against_transformers,
}

if __name__ == "__main__":
    won = RACES[sys.argv[1]]()
    row = {"low": won.low, "ratio": won.ratio, "high": won.high}
    print(json.dumps({**row, "ours_ms": won.ours * 1e3, "theirs_ms": won.theirs * 1e3}))
