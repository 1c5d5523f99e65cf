"""A small Llama and a small mixture of experts, written out: tokens that a compiled model generates
are eager's, with a cache that grows and with one of fixed length. `make test-models` has those of
transformers."""

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

    def forward(self, token, at, cache, seen=None):
        x, kept = self.words(token), []
        for layer, (keys, values) in zip(self.layers, cache):
            x, keys, values = layer(x, at, keys, values, seen)
            kept.append((keys, values))
        return x @ self.words.weight.t(), kept


def generate(run, fixed, count):
    length = count + 2 if fixed else 2
    empty = torch.zeros(1, HEADS, length, WIDTH // HEADS)
    cache, token, tokens = [(empty, empty)] * 2, torch.tensor([[3]]), []
    for i in range(2, count + 2):
        seen = (torch.arange(length) <= i)[None, None, None] if fixed else None
        logits, cache = run(token, torch.tensor([i]), cache, seen)
        token = logits[:, -1:].argmax(-1)
        tokens.append((int(token), round(float(logits.abs().sum()), 1)))
    return tokens


@pytest.mark.parametrize("moe", [False, True], ids=["llama", "moe"])
@pytest.mark.parametrize("fixed", [False, True], ids=["growing cache", "fixed cache"])
def test_generated_tokens_are_eagers(moe, fixed):
    torch._dynamo.reset()
    torch.manual_seed(1)
    model, backend = Model(moe).eval(), weir.get_npu_backend()
    run = torch.compile(model, backend=backend, dynamic=None if fixed else True, fullgraph=True)
    with torch.no_grad():
        got, want = generate(run, fixed, 20), generate(model, fixed, 20)
    assert [t for t, _ in got] == [t for t, _ in want]
    assert [s for _, s in got] == pytest.approx([s for _, s in want], rel=1e-3, abs=0.2)
    if not fixed:
        assert len(backend.graphs[-1].elastic) == 1
