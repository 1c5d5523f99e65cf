"""Attention, products of experts and the routing of rows to experts and back on a GPU, beside PyTorch.

    WEIR_DEVICE=cuda:0 python bench/python/kernels.py [attention] [experts] [routing] [--rounds N] [--only PART]

Each way runs some calls as one CUDA graph, several times before it is waited for, so that the host's part is
hidden; rounds take turns; medians, microseconds a call. For
attention, PyTorch's ways are its backends (cuDNN, flash, efficient) as torch.nn.attention offers
them; a dash means that it refuses the shape. Differences are the largest to float64, over some
rows. Without a GPU, `--small` compares values alone.
"""

import argparse
import statistics
import time
import warnings

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import weir

CALLS = 20
RUNS = 8  # of the graph in a round

# name: batch, heads, key heads, queries, keys, d, dv, causal, mask; those that begin with f32 are of that type
ATTENTION = {
    "llama prefill 512": (1, 32, 8, 512, 512, 128, 128, True, None),
    "llama prefill 2048": (1, 32, 8, 2048, 2048, 128, 128, True, None),
    "llama prefill 8192": (1, 32, 8, 8192, 8192, 128, 128, True, None),
    "gpt2 prefill 1024": (4, 12, 12, 1024, 1024, 64, 64, True, None),
    "mla prefill 512": (1, 16, 16, 512, 512, 192, 128, True, None),
    "mla prefill 2048": (1, 16, 16, 2048, 2048, 192, 128, True, None),
    "mla decode 4096": (8, 16, 16, 1, 4096, 192, 128, False, None),
    "gpt2 decode 8 x 128": (8, 16, 16, 1, 128, 128, 128, False, None),
    "gpt2 decode, bool mask": (8, 16, 16, 1, 128, 128, 128, False, "bool"),
    "decode 8 x 1024": (8, 32, 8, 1, 1024, 128, 128, False, None),
    "decode 8 x 4096": (8, 32, 8, 1, 4096, 128, 128, False, None),
    "decode 8 x 16384": (8, 32, 8, 1, 16384, 128, 128, False, None),
    "d256 prefill 1024": (1, 16, 16, 1024, 1024, 256, 256, True, None),
    "bool mask 1024": (4, 16, 16, 1024, 1024, 64, 64, False, "bool"),
    "added mask 1024": (4, 16, 16, 1024, 1024, 128, 128, False, "added"),
    "f32 prefill 1024": (1, 16, 16, 1024, 1024, 128, 128, True, None),
    "f32 d64 1024": (4, 12, 12, 1024, 1024, 64, 64, False, None),
    "f32 d256 512": (1, 16, 16, 512, 512, 256, 256, True, None),
    "f32 bool mask 512": (4, 16, 16, 512, 512, 64, 64, False, "bool"),
    "f32 decode 8 x 1024": (8, 16, 16, 1, 1024, 128, 128, False, None),
}
BACKENDS = {
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}

# name: rows, k, n, groups
EXPERTS = {
    "qwen2-moe prefill up": (2048, 2048, 2816, 16),
    "qwen2-moe prefill down": (2048, 1408, 2048, 16),
    "qwen2-moe decode up": (32, 2048, 2816, 16),
    "qwen2-moe decode down": (32, 1408, 2048, 16),
    "mixtral prefill up": (1024, 4096, 28672, 8),
    "deepseek prefill up": (4096, 2048, 4096, 64),
    "deepseek decode up": (64, 2048, 4096, 64),
}
# name: step, tokens, experts, k, width
ROUTING = {
    f"{step} {tokens} x {k} of {experts}": (step, tokens, experts, k, 2048)
    for tokens, experts, k in ((512, 16, 4), (8, 16, 4), (4096, 256, 8))
    for step in ("choice", "order", "sum")
}


def _wait(device):
    if device == "cuda":
        torch.cuda.synchronize()
    else:
        weir.synchronize()


def _replay(function):
    """PyTorch's calls as one graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = [function() for _ in range(CALLS)]
    graph.made = made
    return graph.replay


def _plan(function, inputs):
    """weir's calls as one plan."""
    graph = weir.Graph()
    given = [weir.from_dlpack(t) for t in inputs]
    with graph:
        values = [graph.input(f"x{i}", t.shape, t.dtype) for i, t in enumerate(given)]
        for i in range(CALLS):
            graph.output(f"y{i}", function(*values))
    plan = graph.compile()
    return lambda: plan(*given)


def _times(ways, rounds, device):
    took = {name: [] for name in ways}
    for turn in range(rounds + 2):
        for name, run in ways.items():
            _wait(device)
            began = time.perf_counter()
            for _ in range(RUNS):
                kept = run()
            _wait(device)
            if turn >= 2:
                took[name].append(1e6 * (time.perf_counter() - began) / CALLS / RUNS)
            del kept
    return {name: statistics.median(t) for name, t in took.items()}


def _show(name, times, best, notes):
    cells = "".join(f"{times[w]:10.1f}" if w in times else f"{'-':>10}" for w in (*best, "weir"))
    others = [times[w] for w in best if w in times]
    ratio = f"{times['weir'] / min(others):8.2f}" if others and "weir" in times else f"{'-':>8}"
    print(f"{name:24}{cells}{ratio}  {notes}", flush=True)


def _difference(got, want, rows):
    return float((got.double()[..., rows, :] - want).abs().max())


def _attention_inputs(shape, device, dtype):
    batch, heads, key_heads, lq, lk, d, dv, _, mask = shape
    torch.manual_seed(0)
    q = torch.randn(batch, heads, lq, d, device=device, dtype=dtype)
    k = torch.randn(batch, key_heads, lk, d, device=device, dtype=dtype)
    v = torch.randn(batch, key_heads, lk, dv, device=device, dtype=dtype)
    made = None
    if mask == "bool":
        made = torch.rand(batch, 1, lq, lk, device=device) < 0.8
    elif mask == "added":
        made = torch.randn(batch, 1, lq, lk, device=device, dtype=dtype)
    return q, k, v, made


def _attention_wanted(shape, q, k, v, mask, rows):
    share, lk = shape[1] // shape[2], shape[4]
    q, k, v = q[..., rows, :].double(), k.double(), v.double()
    k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if shape[7]:
        last = torch.tensor(rows, device=q.device)[:, None] + lk - shape[3]
        scores = scores.masked_fill(torch.arange(lk, device=q.device)[None] > last, -torch.inf)
    if mask is not None and mask.dtype is torch.bool:
        scores = scores.masked_fill(~mask[..., rows, :], -torch.inf)
    elif mask is not None:
        scores = scores + mask[..., rows, :].double()
    return scores.softmax(-1) @ v


def attention(name, shape, rounds, device):
    dtype = torch.float32 if name.startswith("f32") else torch.bfloat16
    q, k, v, mask = _attention_inputs(shape, device, dtype)
    lq, causal = shape[3], shape[7]
    rows = sorted({0, lq // 3, lq // 2, lq - 1})
    inputs = [q, k, v] if mask is None else [q, k, v, mask]
    wanted = _attention_wanted(shape, q, k, v, mask, rows)

    def theirs(backend):
        def call():
            with sdpa_kernel([backend]):
                return torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, mask, is_causal=causal, enable_gqa=shape[1] != shape[2]
                )

        return call

    def ours(q, k, v, mask=None):
        return weir.attention(q, k, v, mask=mask, causal=causal)

    ways, notes = {}, []
    for way, backend in BACKENDS.items() if device == "cuda" else ():
        try:
            notes.append(f"{way} {_difference(theirs(backend)(), wanted, rows):.1e}")
            ways[way] = _replay(theirs(backend))
        except RuntimeError:
            continue
    ways["weir"] = _plan(ours, inputs)
    got = torch.from_dlpack(ways["weir"]()[0])
    notes.append(f"weir {_difference(got, wanted, rows):.1e}")
    _show(name, _times(ways, rounds, device), BACKENDS, ", ".join(notes))


def experts(name, shape, rounds, device, dtype=torch.bfloat16):
    rows, k, n, groups = shape
    torch.manual_seed(0)
    x = torch.randn(rows, k, device=device, dtype=dtype)
    weight = torch.randn(groups, n, k, device=device, dtype=dtype).mT
    ends = torch.sort(torch.randint(0, rows + 1, (groups - 1,))).values.tolist() + [rows]
    tensor = torch.tensor(ends, device=device, dtype=torch.int32)
    wanted, begin = [], 0
    for i, end in enumerate(ends):
        wanted.append(x[begin:end].double() @ weight[i].double())
        begin = end
    wanted = torch.cat(wanted)
    ways, notes, every = {}, [], list(range(rows))
    if device == "cuda":
        notes.append(f"torch {_difference(torch._grouped_mm(x, weight, offs=tensor), wanted, every):.1e}")
        ways["torch"] = _replay(lambda: torch._grouped_mm(x, weight, offs=tensor))
    turned = weight.mT  # as it lies in memory

    def ours(x, w, ends):
        return weir.grouped_matmul(x, w.transpose(1, 2), ends)

    ways["weir"] = _plan(ours, [x, turned, tensor])
    got = torch.from_dlpack(ways["weir"]()[0])
    notes.append(f"weir {_difference(got, wanted, every):.1e}")
    _show(name, _times(ways, rounds, device), ("torch",), ", ".join(notes))


def _routing_steps(tokens, n, k, width, device):
    """By step: PyTorch's way, weir's, and what both take."""
    logits = torch.randn(tokens, n, device=device, dtype=torch.bfloat16)
    weights, ids = logits.float().softmax(-1).topk(k, -1)
    flat = ids.reshape(-1)
    rows = torch.randn(tokens * k, width, device=device, dtype=torch.bfloat16)
    places = flat.argsort(stable=True).argsort()
    count = torch.arange(tokens * k, device=device)

    def order(flat):
        by_expert, perm = torch.sort(flat, stable=True)
        counts = torch.histc(by_expert.int() if flat.is_cuda else by_expert.float(), n, 0, n - 1)
        inverse = torch.empty_like(perm)
        inverse[perm] = count
        return perm // k, inverse, counts.cumsum(0, dtype=torch.int32)

    def total(rows, places, weights):
        picked = rows[places.reshape(-1)].view(tokens, k, width) * weights[..., None]
        return picked.sum(1).to(rows.dtype)

    at = places.view(tokens, k)
    return {
        "choice": (lambda x: x.float().softmax(-1).topk(k, -1), lambda x: weir.expert_choice(x, k), [logits]),
        "order": (order, lambda x: weir.expert_order(x, n, k), [flat]),
        "sum": (lambda *x: [total(*x)], lambda *x: [weir.expert_sum(*x)], [rows, at, weights]),
    }


def routing(name, shape, rounds, device):
    step, *sizes = shape
    torch.manual_seed(0)
    theirs, ours, inputs = _routing_steps(*sizes, device)[step]
    want = theirs(*inputs)
    got = [torch.from_dlpack(x) for x in ours(*map(weir.from_dlpack, inputs))]
    if step == "choice":  # of experts with equal scores either may be taken
        got, want = ([w, inputs[0].gather(1, ids.long())] for w, ids in (got, want))
    away = max(float((a.double() - b.double()).abs().max()) for a, b in zip(got, want))
    ways = {"torch": _replay(lambda: theirs(*inputs))} if device == "cuda" else {}
    ways["weir"] = _plan(lambda *x: ours(*x)[0], inputs)
    _show(name, _times(ways, rounds, device), ("torch",), f"difference {away:.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=["attention", "experts", "routing"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", metavar="PART", help="shapes with PART in their name")
    parser.add_argument("--small", action="store_true", help="an eighth of the sizes, any device")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # why a backend refuses a shape
    device = "cuda" if torch.cuda.is_available() else "cpu"
    failed = 0
    for what, table in (("attention", ATTENTION), ("experts", EXPERTS), ("routing", ROUTING)):
        if what not in options.what:
            continue
        heads = (*BACKENDS, "weir") if what == "attention" else ("torch", "weir")
        print(f"{what + ', us a call':24}" + "".join(f"{h:>10}" for h in heads) + "   ratio  to f64")
        for name, shape in table.items():
            if options.only not in name:
                continue
            if options.small and what == "attention":
                shape = (1, *shape[1:3], *(max(1, n // 32) for n in shape[3:5]), *shape[5:])
            elif options.small and what == "experts":
                shape = (shape[0] // 8, shape[1] // 8, shape[2] // 8, 8)
            try:
                globals()[what](name, shape, options.rounds, device)
            except Exception as error:  # one shape's failure does not hide the others
                failed = 1
                print(f"{name:24}{type(error).__name__}: {str(error).splitlines()[0][:120]}", flush=True)
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
