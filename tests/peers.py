"""Tiny random members of other libraries, and how each is compared with ours."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import timm.models
import torch
import torchvision
import transformers as hf
from safetensors.torch import load_file, save_file
from timm.models.swin_transformer import SwinTransformer
from timm.models.vision_transformer import VisionTransformer

SPECIAL = dict(bos_token_id=0, eos_token_id=0, pad_token_id=0)


def vit(**options):
    return VisionTransformer(**{**dict(
        img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=2, mlp_ratio=2, num_classes=7),
        **options})  # fmt: skip


TINY = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
            image_size=32, patch_size=8, num_labels=7)  # fmt: skip


def vit_hf():
    return hf.ViTForImageClassification(hf.ViTConfig(**TINY))


def vit_torchvision():
    return torchvision.models.VisionTransformer(32, 8, 2, 2, 32, 64, num_classes=7)


def swin_hf():
    return hf.SwinForImageClassification(hf.SwinConfig(
        image_size=64, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[1, 2], window_size=4,
        num_labels=7))  # fmt: skip


def swin_torchvision():
    return torchvision.models.SwinTransformer([4, 4], 16, [2, 2], [1, 2], [4, 4], num_classes=7)


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


def noisy(model, seed=0):
    """The model in eval, every parameter normal with deviation 0.2: nothing is zero or one by chance."""
    generator = torch.Generator().manual_seed(seed)
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


def on_disk(peer) -> dict[str, torch.Tensor]:
    """What transformers writes: the names of version 4."""
    with TemporaryDirectory() as folder:
        peer.save_pretrained(folder)
        return load_file(f"{folder}/model.safetensors")


def from_disk(peer, state) -> None:
    """transformers reads a folder of those names, and has what it had."""
    with TemporaryDirectory() as folder:
        peer.config.save_pretrained(folder)
        tensors = {key: tensor.contiguous() for key, tensor in state.items()}
        save_file(tensors, Path(folder) / "model.safetensors", {"format": "pt"})
        again, info = type(peer).from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()), info
    assert all(torch.equal(again.state_dict()[k], t) for k, t in peer.state_dict().items())


def swin_old(peer) -> dict[str, torch.Tensor]:
    """A timm Swin as Microsoft and timm <= 0.6 wrote it: merges close a stage, and buffers are kept."""
    state = {}
    for key, tensor in peer.state_dict().items():
        if ".downsample." in key:
            _, stage, rest = key.split(".", 2)
            key = f"layers.{int(stage) - 1}.{rest}"
        state[key.replace("head.fc.", "head.")] = tensor
    for key, tensor in peer.named_buffers():
        state[key] = tensor
    return state


def timm_filter(module: str):
    """timm reads older or foreign names by its own filter, and has what it had."""

    def take(peer, state) -> None:
        filtered = getattr(timm.models, module).checkpoint_filter_fn(dict(state), peer)
        before = {key: tensor.clone() for key, tensor in peer.state_dict().items()}
        noisy(peer, 1).load_state_dict(filtered)
        assert all(torch.equal(peer.state_dict()[key], t) for key, t in before.items())

    return take


@dataclass(frozen=True)
class Case:
    """One family in one layout."""

    name: str
    layout: str
    peer: Callable[[], Any]
    features: Callable[[Any, Any], tuple[Any, Any]]
    answer: Callable[[Any, Any], tuple[Any, Any]] | None = None
    options: tuple[tuple[str, Any], ...] = ()
    state: Callable[[Any], dict[str, torch.Tensor]] = lambda peer: peer.state_dict()
    take: Callable[[Any, Any], Any] = lambda peer, state: peer.load_state_dict(state)

    @property
    def id(self) -> str:
        return f"{self.name} {self.layout}"


def inside(peer, name, *inputs):
    """What a module within the peer answers."""
    seen = []
    hook = peer.get_submodule(name).register_forward_hook(lambda m, i, out: seen.append(out))
    peer(*inputs)
    hook.remove()
    return seen[0]


LARGE = pixels(3, 64, 64)
SEVEN = (("classes", 7),)
EPS12 = (("eps", 1e-12),)
HF: dict[str, Any] = {"hf": {}, "hf_v4": dict(state=on_disk, take=from_disk)}
FRAMES = torch.randn(2, 64, 32, generator=torch.Generator().manual_seed(1))
CASES = [
    Case("vit_mu_patch8_32", "timm", vit,
         lambda m, p: (m.features(pixels()).x, p.forward_features(pixels())),
         lambda m, p: (m(pixels()), p(pixels())), (("classes", 7),)),
    Case("swin_mu_patch4_window4_64", "timm", swin,
         lambda m, p: (m.features(pixels(3, 64, 64)).x, p.forward_features(pixels(3, 64, 64)).flatten(1, 2)),
         lambda m, p: (m(pixels(3, 64, 64)), p(pixels(3, 64, 64))), (("classes", 7),)),
    *(Case("vit_mu_patch8_32", layout, vit_hf,
           lambda m, p: (m.features(pixels()).x, p.vit(pixels()).last_hidden_state),
           lambda m, p: (m(pixels()), p(pixels()).logits), SEVEN + EPS12, **how)
      for layout, how in HF.items()),
    Case("vit_mu_patch8_32", "torchvision", vit_torchvision,
         lambda m, p: (m.features(pixels()).x, inside(p, "encoder", pixels())),
         lambda m, p: (m(pixels()), p(pixels())), SEVEN),
    *(Case("swin_mu_patch4_window4_64", layout, swin_hf,
           lambda m, p: (m.features(LARGE).x, p.swin(LARGE).last_hidden_state),
           lambda m, p: (m(LARGE), p(LARGE).logits), SEVEN, **how) for layout, how in HF.items()),
    Case("swin_mu_patch4_window4_64", "torchvision", swin_torchvision,
         lambda m, p: (m.features(LARGE).x, inside(p, "norm", LARGE).flatten(1, 2)),
         lambda m, p: (m(LARGE), p(LARGE)), SEVEN),
    Case("swin_mu_patch4_window4_64", "timm_old", swin,
         lambda m, p: (m.features(LARGE).x, p.forward_features(LARGE).flatten(1, 2)),
         lambda m, p: (m(LARGE), p(LARGE)), SEVEN, swin_old, timm_filter("swin_transformer")),
    Case("bert_mu", "hf", bert, text_features),
    Case("gpt2_mu", "hf", gpt, text_features),
    Case("llama_mu", "hf", llama, text_features),
    Case("ast_mu", "hf", ast,
         lambda m, p: (m.features(FRAMES).x, p.audio_spectrogram_transformer(FRAMES).last_hidden_state),
         lambda m, p: (m(FRAMES), p(FRAMES).logits)),
]  # fmt: skip
