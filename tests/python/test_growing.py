"""Attention that puts grown keys and values together as it reads them: one launch, the same bits."""

import random
import re

import numpy as np
import pytest

import weir

DTYPES = {"f32": np.float32, "f16": np.float16, "f64": np.float64}


def _bits(results):
    return [np.asarray(x).tobytes() for x in (results if isinstance(results, (tuple, list)) else [results])]


def _graph(device, pick, dtype):
    batch, key_heads, group = pick.choice((1, 2)), pick.choice((1, 3, 4)), pick.choice((1, 2))
    old, new, d, dv = pick.choice((0, 1, 17, 600, 1300)), pick.choice((1, 2, 3)), pick.choice((8, 32, 40)), 24
    causal, masked, turned = pick.random() < 0.3, pick.random() < 0.3, pick.random() < 0.5
    rng = np.random.default_rng(pick.randrange(1000))

    def array(*shape):
        return weir.asarray(rng.standard_normal(shape).astype(DTYPES[dtype]), device=device)

    shapes = {"q": (batch, key_heads * group, new, d), "k": (batch, key_heads, old, d), "v": (batch, key_heads, old, dv)}
    # New keys as a projection gives them, heads behind rows.
    shapes |= {"k1": (batch, new, key_heads, d), "v1": (batch, new, key_heads, dv)} if turned else \
              {"k1": (batch, key_heads, new, d), "v1": (batch, key_heads, new, dv)}  # fmt: skip
    if masked:
        shapes["mask"] = (new, old + new)
    graph = weir.Graph(device)
    x = {name: graph.input(name, shape, dtype) for name, shape in shapes.items()}
    with graph:
        # Made by the graph, so that their memory is the plan's and could be given to others too early.
        k1, v1 = (weir.add(x[n], x[n]) for n in ("k1", "v1"))
        if turned:
            k1, v1 = (t.transpose(1, 2) for t in (k1, v1))
        q = weir.add(x["q"], x["q"])
        keys, values = weir.concat([x["k"], k1], -2), weir.concat([x["v"], v1], -2)
        out = weir.attention(q, keys, values, mask=x.get("mask"), causal=causal)
        graph.output("out", weir.add(out, out))
        if pick.random() < 0.8:
            graph.output("keys", keys)
            graph.output("values", values)
    return graph, [array(*shape) for shape in shapes.values()]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spec", ["cpu", "cpu:cores=1"])
def test_grown_keys_and_values_give_the_bits_of_concatenations_of_their_own(spec, dtype):
    device, absorbed = weir.Device(spec), 0
    for seed in range(25):
        graph, inputs = _graph(device, random.Random(seed), dtype)
        apart, one = graph.compile(mode="reduce-overhead"), graph.compile(mode="max-autotune")
        absorbed += bool(re.search(r"with .*Concat", one.list()))
        for _ in range(2):
            assert _bits(apart.run(*inputs)) == _bits(one.run(*inputs)), f"seed {seed}"
    assert absorbed > 10


def test_a_plan_of_open_sizes_goes_on_putting_them_together():
    device = weir.Device("cpu")
    graph = weir.Graph(device)
    q = graph.input("q", (1, 4, 1, 16), "f32")
    old = [graph.input(n, (1, 2, -1, 16), "f32") for n in ("k", "v")]
    new = [graph.input(n, (1, 2, 1, 16), "f32") for n in ("k1", "v1")]
    with graph:
        keys, values = (weir.concat(pair, -2) for pair in zip(old, new))
        graph.output("out", weir.attention(q, keys, values))
        graph.output("keys", keys)
        graph.output("values", values)
    plans = [graph.compile(mode=mode) for mode in ("max-autotune", "reduce-overhead")]
    rng = np.random.default_rng(1)
    for length in (3, 4, 5, 700, 701, 2, 1500):
        shapes = [(1, 4, 1, 16), *[(1, 2, length, 16)] * 2, *[(1, 2, 1, 16)] * 2]
        inputs = [weir.asarray(rng.standard_normal(s).astype(np.float32), device=device) for s in shapes]
        one, apart = (_bits(plan.run(*inputs)) for plan in plans)
        assert one == apart, length
