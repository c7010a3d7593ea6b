"""Tiny random members of other libraries, and how each is compared with ours."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers as hf
from timm.models.swin_transformer import SwinTransformer
from timm.models.vision_transformer import VisionTransformer

SPECIAL = dict(bos_token_id=0, eos_token_id=0, pad_token_id=0)


def vit(**options):
    return VisionTransformer(**{**dict(
        img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=2, mlp_ratio=2, num_classes=7),
        **options})  # fmt: skip


def swin(**options):
    return SwinTransformer(**{**dict(
        img_size=64, patch_size=4, window_size=4, embed_dim=16, depths=(2, 2), num_heads=(1, 2),
        num_classes=7), **options})  # fmt: skip


def bert():
    return hf.BertModel(hf.BertConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=128, max_position_embeddings=48))  # fmt: skip


def gpt():
    return hf.GPT2Model(hf.GPT2Config(
        vocab_size=64, n_positions=48, n_embd=32, n_layer=2, n_head=2, **SPECIAL))  # fmt: skip


def llama():
    return hf.LlamaModel(hf.LlamaConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=48, rms_norm_eps=1e-5, **SPECIAL))  # fmt: skip


def ast():
    return hf.ASTForAudioClassification(hf.ASTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
        num_labels=10, max_length=64, num_mel_bins=32))  # fmt: skip


def noisy(model):
    """The model in eval, every parameter normal with deviation 0.2: nothing is zero or one by chance."""
    generator = torch.Generator().manual_seed(0)
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.2, generator=generator)
    return model.eval()


def distance(ours, theirs) -> float:
    """Norm of the difference over the norm."""
    return float((ours - theirs).norm() / theirs.norm())


def ids(batch=3, length=11):
    return torch.randint(1, 64, (batch, length), generator=torch.Generator().manual_seed(3))


def right(batch=3, length=11):
    """(B, T) bool: padding on the right of all texts but the first."""
    return torch.arange(length) < torch.tensor([length, 7, 4])[:, None]


def pixels(channels=3, height=32, width=32):
    return torch.randn(2, channels, height, width, generator=torch.Generator().manual_seed(1))


def text_features(model, peer) -> tuple[Any, Any]:
    """Hidden states of the real tokens of padded texts."""
    keep = right()
    theirs = peer(ids(), attention_mask=keep.long()).last_hidden_state
    return model.features(ids(), keep=keep).x[keep], theirs[keep]


@dataclass(frozen=True)
class Case:
    """One family in one layout."""

    name: str
    layout: str
    peer: Callable[[], Any]
    features: Callable[[Any, Any], tuple[Any, Any]]
    answer: Callable[[Any, Any], tuple[Any, Any]] | None = None
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def id(self) -> str:
        return f"{self.name.split('_')[0]} {self.layout}"


FRAMES = torch.randn(2, 64, 32, generator=torch.Generator().manual_seed(1))
CASES = [
    Case("vit_mu_patch8_32", "timm", vit,
         lambda m, p: (m.features(pixels()).x, p.forward_features(pixels())),
         lambda m, p: (m(pixels()), p(pixels())), (("classes", 7),)),
    Case("swin_mu_patch4_window4_64", "timm", swin,
         lambda m, p: (m.features(pixels(3, 64, 64)).x, p.forward_features(pixels(3, 64, 64)).flatten(1, 2)),
         lambda m, p: (m(pixels(3, 64, 64)), p(pixels(3, 64, 64))), (("classes", 7),)),
    Case("bert_mu", "hf", bert, text_features),
    Case("gpt2_mu", "hf", gpt, text_features),
    Case("llama_mu", "hf", llama, text_features),
    Case("ast_mu", "hf", ast,
         lambda m, p: (m.features(FRAMES).x, p.audio_spectrogram_transformer(FRAMES).last_hidden_state),
         lambda m, p: (m(FRAMES), p(FRAMES).logits)),
]  # fmt: skip
