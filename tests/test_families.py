"""Every family: a tiny random peer -> the production rules -> equal outputs, and back."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import timm
import torch
import transformers as hf
from timm.models.swin_transformer import SwinTransformer

import zoo

SPECIAL = dict(bos_token_id=0, eos_token_id=0, pad_token_id=0)


def noisy(model):
    generator = torch.Generator().manual_seed(0)
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.2, generator=generator)
    return model.eval()


def distance(ours, theirs):
    return float((ours - theirs).norm() / theirs.norm())


def ids(batch=3, length=11):
    return torch.randint(1, 64, (batch, length), generator=torch.Generator().manual_seed(3))


def right(batch=3, length=11):
    return torch.arange(length) < torch.tensor([length, 7, 4])[:, None]


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


def swin(**options):
    return SwinTransformer(**{**dict(
        img_size=64, patch_size=4, window_size=4, embed_dim=16, depths=(2, 2), num_heads=(1, 2),
        num_classes=7), **options})  # fmt: skip


def gives_back(model, peer, layout, make):
    back = model.state_for(layout)
    theirs = peer.state_dict()
    assert back.keys() == theirs.keys()
    assert all(torch.equal(back[key], tensor) for key, tensor in theirs.items())
    make().load_state_dict(back)  # the peer takes it, strictly


@pytest.mark.parametrize("make", [bert, gpt, llama], ids=lambda f: f.__name__)
@pytest.mark.parametrize("padded", [False, True])
def test_text_equals_transformers(make, padded):
    peer = noisy(make())
    name = {"bert": "bert_mu", "gpt": "gpt2_mu", "llama": "llama_mu"}[make.__name__]
    model = zoo.create(name).eval()
    zoo.load_state(model, peer.state_dict(), layout="hf")
    keep = right() if padded else torch.ones(3, 11, dtype=torch.bool)
    with torch.no_grad():
        theirs = peer(ids(), attention_mask=keep.long()).last_hidden_state
        mine = model.features(ids(), keep=keep if padded else None).x
    assert distance(mine[keep], theirs[keep]) < 1e-5
    gives_back(model, peer, "hf", make)


def test_ast_equals_transformers():
    peer = noisy(ast())
    model = zoo.create("ast_mu").eval()
    zoo.load_state(model, peer.state_dict(), layout="hf")
    frames = torch.randn(2, 64, 32, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert distance(model(frames), peer(frames).logits) < 1e-5
        body = peer.audio_spectrogram_transformer(frames).last_hidden_state
        assert distance(model.features(frames).x, body) < 1e-5
    gives_back(model, peer, "hf", ast)


def test_swin_equals_timm():
    peer = noisy(swin())
    model = zoo.create("swin_mu_patch4_window4_64", classes=7).eval()
    zoo.load_state(model, peer.state_dict(), layout="timm")
    pixels = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert distance(model(pixels), peer(pixels)) < 1e-5
        body = peer.forward_features(pixels).flatten(1, 2)
        assert distance(model.features(pixels).x, body) < 1e-5
    gives_back(model, peer, "timm", swin)


def test_carried_tensors_survive_a_file(tmp_path):
    peer = noisy(bert())
    model = zoo.create("bert_mu")
    zoo.load_state(model, peer.state_dict(), layout="hf")
    assert set(model.record.carried["hf"]) == {"pooler.dense.weight", "pooler.dense.bias"}
    model.save(tmp_path / "m")
    gives_back(zoo.load(tmp_path / "m"), peer, "hf", bert)


def count(model):
    return sum(p.numel() for p in model.parameters())


BERT_SIZES = {k: v for k, v in zoo.families.bert.SIZES.items() if "mu" not in k}
GPT_SIZES = {k: v for k, v in zoo.families.gpt.SIZES.items() if "mu" not in k}
LLAMA_SIZES = {k: v for k, v in zoo.families.llama.SIZES.items() if "mu" not in k}


@pytest.mark.parametrize("name", BERT_SIZES)
def test_every_bert_has_the_peers_parameters(name):
    s = BERT_SIZES[name]
    with torch.device("meta"):
        peer = hf.BertModel(hf.BertConfig(
            hidden_size=s["dim"], num_hidden_layers=s["depth"], num_attention_heads=s["heads"],
            intermediate_size=4 * s["dim"]), add_pooling_layer=False)  # fmt: skip
        assert count(zoo.create(name)) == count(peer)


@pytest.mark.parametrize("name", GPT_SIZES)
def test_every_gpt_has_the_peers_parameters(name):
    s = GPT_SIZES[name]
    with torch.device("meta"):
        peer = hf.GPT2Model(hf.GPT2Config(n_embd=s["dim"], n_layer=s["depth"], n_head=s["heads"]))
        assert count(zoo.create(name)) == count(peer)


@pytest.mark.parametrize("name", LLAMA_SIZES)
def test_every_llama_has_the_peers_parameters(name):
    s = LLAMA_SIZES[name]
    with torch.device("meta"):
        peer = hf.LlamaModel(hf.LlamaConfig(
            vocab_size=s["vocabulary"], hidden_size=s["dim"], num_hidden_layers=s["depth"],
            num_attention_heads=s["heads"], num_key_value_heads=s["kv_heads"],
            intermediate_size=s["hidden"]))  # fmt: skip
        assert count(zoo.create(name)) == count(peer)


@pytest.mark.parametrize("name", [n for n in zoo.list_models("swin*") if "_mu_" not in n])
def test_every_swin_has_the_peers_parameters(name):
    with torch.device("meta"):
        assert count(zoo.create(name)) == count(timm.create_model(name, num_classes=1000))


def test_ast_base_has_the_peers_parameters():
    with torch.device("meta"):
        peer = hf.ASTForAudioClassification(hf.ASTConfig(num_labels=527))
        assert count(zoo.create("ast_base")) == count(peer)
