"""A small mixture-of-experts transformer in PyTorch, compiled with weir.

The shared expert runs on a stream of its own beside the gating and the routed experts, which do
not depend on it. Shown: that the values are PyTorch's, where the operators ran, and the time
beside eager PyTorch and torch.compile's default backend, in the same run.

    python moe_transformer.py [--tokens 256] [--dim 256] [--device cpu] [--runs 20]

On --device cuda:0 the model and its tokens are PyTorch's CUDA tensors.
"""

import argparse
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

import weir


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up = nn.Linear(dim, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        gate, value = self.up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * value)


class Routed(nn.Module):
    """The k best experts of each token; every expert computes, weights of the others are 0."""

    def __init__(self, dim, hidden, experts, k):
        super().__init__()
        self.k = k
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(experts))

    def forward(self, x):
        scores = torch.softmax(self.gate(x), dim=-1)
        best, chosen = torch.topk(scores, self.k, dim=-1)
        best = best / best.sum(dim=-1, keepdim=True)
        weights = torch.zeros_like(scores).scatter_add(-1, chosen, best)
        outputs = torch.stack([expert(x) for expert in self.experts], dim=-1)
        return (outputs * weights.unsqueeze(-2)).sum(dim=-1)


class MoE(nn.Module):
    def __init__(self, dim, hidden, experts, k):
        super().__init__()
        self.shared = Expert(dim, hidden)
        self.routed = Routed(dim, hidden, experts, k)

    def forward(self, x):
        with weir.scope.npu_stream_switch("shared"):
            shared = self.shared(x)
        return self.routed(x) + shared


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, dim, heads, hidden, experts, k):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = Attention(dim, heads)
        self.moe = MoE(dim, hidden, experts, k)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.moe(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self, vocabulary=256, dim=256, heads=4, layers=2, experts=4, k=2):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dim)
        self.blocks = nn.ModuleList(
            Block(dim, heads, dim, experts, k) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def median_ms(function, argument, runs):
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        function(argument)
        if argument.is_cuda:
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - began))
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--device", default=None)
    parser.add_argument("--runs", type=int, default=20)
    args = parser.parse_args()
    if args.device:
        weir.set_device(args.device)
    torch.manual_seed(0)
    home = "cuda" if weir.get_device().name.startswith("cuda") else "cpu"
    model = Transformer(dim=args.dim).eval().to(home)
    tokens = torch.randint(0, 256, (1, args.tokens), device=home)
    backend = weir.get_npu_backend()
    ours = torch.compile(model, backend=backend, fullgraph=True, dynamic=False)
    with torch.no_grad():
        want, got = model(tokens), ours(tokens)
        print(f"largest difference from PyTorch: {(got - want).abs().max():.2e}")
        print(backend.coverage)
        with weir.trace() as trace:
            ours(tokens)
            weir.synchronize()
        streams = {}
        for op in trace.ops:
            streams.setdefault(op["stream"], []).append(op)
        for name, ops in streams.items():
            busy = sum(op["end_us"] - op["start_us"] for op in ops) / 1e3
            print(f"stream {name:12} {len(ops):4} operators, {busy:8.2f} ms")
        print(f"overlap of the streams: {overlap_us(trace.ops) / 1e3:.2f} ms")
        times = {"PyTorch eager": model, "torch.compile with weir": ours}
        try:
            default = torch.compile(model, fullgraph=True, dynamic=False)
            default(tokens)
            times["torch.compile default"] = default
        except Exception as error:  # it needs a C++ compiler
            print(f"torch.compile default: {str(error).splitlines()[0]}")
        for name, function in times.items():
            print(f"{name:26} {median_ms(function, tokens, args.runs):8.2f} ms")


def overlap_us(ops):
    """Time during which operators of more than one stream run."""
    edges = sorted(
        [(op["start_us"], 1, op["stream"]) for op in ops]
        + [(op["end_us"], 0, op["stream"]) for op in ops]
    )
    running, total, last = {}, 0.0, 0.0
    for when, begins, stream in edges:
        if sum(n > 0 for n in running.values()) > 1:
            total += when - last
        running[stream] = running.get(stream, 0) + (1 if begins else -1)
        last = when
    return total


if __name__ == "__main__":
    main()
