"""Every family: a tiny random peer -> the production rules -> equal outputs, and back."""

import copy

import peers
import pytest
import timm
import torch
import torchvision
import transformers as hf
from peers import CASES, distance, noisy

import zoo


def loaded(case):
    """(ours, theirs) with the same weights."""
    peer = noisy(case.peer())
    model = zoo.create(case.name, **dict(case.options)).eval()
    return zoo.load_state(model, case.state(peer), layout=case.layout), peer


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_equal_outputs(case):
    model, peer = loaded(case)
    with torch.no_grad():
        assert distance(*case.features(model, peer)) < 1e-5
        if case.answer is not None:
            assert distance(*case.answer(model, peer)) < 1e-5


def gives_back(model, peer, case):
    back, theirs = model.state_for(case.layout), case.state(peer)
    assert back.keys() == theirs.keys()
    assert all(torch.equal(back[key], tensor) for key, tensor in theirs.items())
    case.take(peer, back)  # strictly


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_back_bit_for_bit(case):
    model, peer = loaded(case)
    gives_back(model, peer, case)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_ours_survives_the_way_there_and_back(case):
    model = noisy(zoo.create(case.name, **dict(case.options)))
    again = zoo.create(case.name, **dict(case.options))
    theirs = {**case.state(noisy(case.peer())), **model.state_for(case.layout)}
    zoo.load_state(again, theirs, layout=case.layout)
    assert all(torch.equal(t, again.state_dict()[k]) for k, t in model.state_dict().items())


FITTED = [
    f"vit_mu_patch8_{end}"
    for end in ("32", "dinov2", "reg4_dinov2", "dinov3_qkvb", "clip_32", "siglip_32")
]


@pytest.mark.parametrize("name", FITTED)
@pytest.mark.parametrize("sides", [(48, 48), (24, 40)])
def test_other_pictures_equal_transformers_with_the_facts_of_its_layout(name, sides):
    layout = "hf_body" if name == "vit_mu_patch8_32" else "hf"
    case = next(c for c in CASES if (c.name, c.layout) == (name, layout))
    family = next(f for f in zoo.families.FAMILIES if f.parse(name) is not None)
    model = zoo.create(name, **{**dict(case.options), **family.facts.get(layout, {})}).eval()
    peer, x = noisy(case.peer()), peers.pixels(3, *sides)
    zoo.load_state(model, case.state(peer), layout=layout)
    more = {"interpolate_pos_encoding": True} if name.endswith("32") else {}
    body = getattr(peer, "vision_model", peer)
    with torch.no_grad():
        theirs = body(x, **more).last_hidden_state
        if "clip" in name:
            theirs = body.post_layernorm(theirs)
        assert distance(model.features(x).x, theirs) < 1e-5


# No video smaller than a window: there torchvision cuts windows, and reads the first rows of an index of whole ones.
SIDES = [(name, sides) for name in ("swin_mu_patch4_window4_64", "swinv2_mu_window4_64", "swin3d_mu")
         for sides in ((96, 64), (100, 76), (44, 12), (50, 66), (37, 91))
         if name != "swin3d_mu" or min(sides) > 12]  # fmt: skip


@pytest.mark.parametrize(("name", "sides"), SIDES)
def test_swin_at_other_sizes_equals_torchvision_with_its_facts(name, sides):
    case = next(c for c in CASES if (c.name, c.layout) == (name, "torchvision"))
    model = zoo.create(name, **{**dict(case.options), **facts_of(name, "torchvision")}).eval()
    peer, x = noisy(case.peer()), peers.pixels(3, *sides)
    zoo.load_state(model, case.state(peer), layout="torchvision")
    x = x[:, :, None].expand(-1, -1, 5, -1, -1) if name == "swin3d_mu" else x
    with torch.no_grad():
        assert distance(model(x), peer(x)) < 1e-5


@pytest.mark.parametrize("name", ["swin_mu_patch4_window4_64", "swinv2_mu_window4_64"])
def test_swin_at_other_sizes_equals_a_fresh_one_of_transformers_with_its_facts(name):
    """Fresh, since Swin of version 1 keeps from one size what it does at the next."""
    case = next(c for c in CASES if (c.name, c.layout) == (name, "hf"))
    model = zoo.create(name, **{**dict(case.options), **facts_of(name, "hf")}).eval()
    peer = noisy(case.peer())
    zoo.load_state(model, case.state(peer), layout="hf")
    more = {"interpolate_pos_encoding": True} if name.startswith("swin_") else {}
    for sides in ((96, 64), (128, 128), (32, 64), (40, 100), (50, 66), (37, 91), (64, 64)):
        x = peers.pixels(3, *sides)
        with torch.no_grad():
            assert distance(model(x), copy.deepcopy(peer)(x, **more).logits) < 1e-5, sides


def facts_of(name, layout):
    """What loading a layout makes of a family."""
    return next(f for f in zoo.families.FAMILIES if f.parse(name) is not None).facts[layout]


@pytest.mark.parametrize("make", [peers.bert, peers.gpt, peers.llama], ids=lambda f: f.__name__)
def test_text_without_padding_equals_transformers(make):
    case = next(c for c in CASES if c.peer is make)
    model, peer = loaded(case)
    with torch.no_grad():
        theirs = peer(peers.ids()).last_hidden_state
        assert distance(model.features(peers.ids()).x, theirs) < 1e-5


def test_carried_tensors_survive_a_file(tmp_path):
    case = next(c for c in CASES if c.name == "bert_mu")
    model, peer = loaded(case)
    assert set(model.record.carried["hf"]) == {"pooler.dense.weight", "pooler.dense.bias"}
    model.save(tmp_path / "m")
    gives_back(zoo.load(tmp_path / "m"), peer, case)


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


@pytest.mark.parametrize("name", ["swin3d_tiny", "swin3d_small", "swin3d_base"])
def test_every_video_swin_has_the_peers_parameters(name):
    with torch.device("meta"):
        peer = getattr(torchvision.models.video, f"swin3d_{name[7]}")()
        assert count(zoo.create(name)) == count(peer)


SWINS = [n for n in zoo.list_models("swin*") if "_mu" not in n and "3d" not in n]


@pytest.mark.parametrize("name", SWINS)
def test_every_swin_has_the_peers_parameters(name):
    with torch.device("meta"):
        assert count(zoo.create(name)) == count(timm.create_model(name, num_classes=1000))


RELATIVES = [n for family in zoo.families.VITS[1:] for n in family.names if "_mu_" not in n]


@pytest.mark.parametrize("name", RELATIVES)
def test_every_relative_of_vit_has_timms_parameters(name):
    with torch.device("meta"):
        ours = zoo.create(name, bias=True) if "clip" in name else zoo.create(name)
        classes = getattr(ours.head and ours.head.config, "classes", None) or 0
        assert count(ours) == count(timm.create_model(name, num_classes=classes))


def test_ast_base_has_the_peers_parameters():
    with torch.device("meta"):
        peer = hf.ASTForAudioClassification(hf.ASTConfig(num_labels=527))
        assert count(zoo.create("ast_base")) == count(peer)
