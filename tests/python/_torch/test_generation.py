"""A small Llama and a small mixture of experts, written out: tokens that a compiled model generates
are eager's, with a cache that grows and with one of fixed length. `make test-models` has those of
transformers."""

import functools
import itertools
import os

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import weir

WIDTH, HEADS, EXPERTS, WORDS = 32, 4, 4, 50


def turned(x, at):
    """Rotary embedding at some positions."""
    half = x.shape[-1] // 2
    angles = at[:, None].float() * (10000.0 ** (-torch.arange(half) / half))
    cos, sin = torch.cos(angles), torch.sin(angles)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, WIDTH) / 6)
        self.down = nn.Parameter(torch.randn(EXPERTS, WIDTH, WIDTH) / 6)

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        share = torch.zeros_like(self.gate(x)).scatter(-1, chosen, weights)
        made = torch.einsum("bth,ehf->btef", x, self.up)
        made = torch.einsum("btef,efh->bteh", F.silu(made), self.down)
        return (made * share[..., None]).sum(2)


class Layer(nn.Module):
    def __init__(self, moe):
        super().__init__()
        self.norms = nn.ModuleList([nn.RMSNorm(WIDTH, eps=1e-5) for _ in range(2)])
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        inner = nn.Sequential(nn.Linear(WIDTH, 48), nn.SiLU(), nn.Linear(48, WIDTH))
        self.mlp = Experts() if moe else inner

    def forward(self, x, at, keys, values, seen):
        b, n, _ = x.shape
        q, k, v = self.qkv(self.norms[0](x)).reshape(b, n, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k = turned(q, at), turned(k, at)
        if seen is None:
            keys, values = torch.cat((keys, k), 2), torch.cat((values, v), 2)
        else:
            keys, values = keys.index_copy(2, at, k), values.index_copy(2, at, v)
        made = F.scaled_dot_product_attention(q, keys, values, seen)
        x = x + self.out(made.transpose(1, 2).reshape(b, n, -1))
        return x + self.mlp(self.norms[1](x)), keys, values


class Model(nn.Module):
    def __init__(self, moe):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList([Layer(moe) for _ in range(2)])
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, token, at, cache, seen=None):
        x, kept = self.words(token), []
        for layer, (keys, values) in zip(self.layers, cache):
            x, keys, values = layer(x, at, keys, values, seen)
            kept.append((keys, values))
        return self.head(x), kept


def made(moe):
    torch._dynamo.reset()
    torch.manual_seed(1)
    return Model(moe).eval()


def empty(length):
    nothing = torch.zeros(1, HEADS, length, WIDTH // HEADS)
    return [(nothing, nothing)] * 2


def generate(run, fixed, count):
    length = count + 2 if fixed else 2
    cache, token, tokens, sums = empty(length), torch.tensor([[3]]), [], []
    for i in range(2, count + 2):
        seen = (torch.arange(length) <= i)[None, None, None] if fixed else None
        logits, cache = run(token, torch.tensor([i]), cache, seen)
        token = logits[:, -1:].argmax(-1)
        tokens.append(int(token))
        sums.append(float(logits.abs().sum()))
    return tokens, sums


@functools.cache
def eager(moe, fixed, count):
    with torch.no_grad():
        return generate(made(moe), fixed, count)


@pytest.fixture
def device(request):
    before = weir.get_device()
    weir.set_device(request.param)
    yield
    weir.set_device(before)


# (a cache of fixed length, experts, device); WEIR_SOAK: everything on both devices.
SHORT = [*itertools.product((False, True), (False, True), ("cpu",)), (False, False, "npu:a3"), (True, True, "npu:a3")]
ALL = list(itertools.product((False, True), (False, True), ("cpu", "npu:a3")))
SOAK = bool(os.environ.get("WEIR_SOAK"))


@pytest.mark.parametrize("fixed, moe, device", ALL if SOAK else SHORT, indirect=["device"])
def test_200_generated_tokens_are_eagers(moe, fixed, device):
    (tokens, sums), backend = eager(moe, fixed, 200), weir.get_npu_backend()
    assert len(set(tokens)) > 3  # else it would say little that they are the same
    run = torch.compile(made(moe), backend=backend, dynamic=None if fixed else True, fullgraph=True)
    with torch.no_grad():
        got, got_sums = generate(run, fixed, 200)
    assert got == tokens
    assert got_sums == pytest.approx(sums, rel=1e-3)
    if not fixed:
        assert len(backend.graphs[-1].elastic) == 1


@pytest.mark.parametrize(
    "moe, device", [x[1:] for x in ALL[:4]] if SOAK else [(False, "cpu"), (True, "npu:a3")], indirect=["device"]
)
def test_a_training_step_has_eagers_gradients(moe, device):
    token, at, cache = torch.arange(12)[None], torch.arange(2, 14), empty(14)
    gradients = []
    for compile in (False, True):
        model, backend = made(moe), weir.get_npu_backend()
        run = torch.compile(model, backend=backend, dynamic=False, fullgraph=True) if compile else model
        logits, _ = run(token, at, cache, torch.ones(12, 14, dtype=torch.bool).tril(2))
        F.cross_entropy(logits[0, :-1], token[0, 1:]).backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-3, atol=1e-5)
    native, rest = backend.coverage.native.total(), backend.coverage.fallback.total()
    assert native >= 9 * rest
