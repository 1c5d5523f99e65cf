"""Scenarios of distributed_rank.py: collectives of compiled models, and where their plans put them."""

import re

import torch
from torch import distributed as dist
from torch.distributed import _functional_collectives as functional

import weir
from distributed_calls import check


def plans(rank, ranks, feedforward):
    stands_beside(rank, feedforward)
    coalesced(rank, ranks)
    types(rank, ranks)
    messages(rank)


def compiled(function, backend):
    torch._dynamo.reset()
    return torch.compile(function, backend=backend, fullgraph=True)


def stands_beside(rank, net):
    """The collective is on a stream of its own, which waits for its operand alone; the caller's stream waits for the
    collective where its value is used, and nowhere before. What needs neither stands between."""
    backend = weir.get_npu_backend()
    with torch.no_grad():
        compiled(net, backend)(torch.randn(5, 16))
    text = backend.graphs[-1].plans[None].plan.list()
    streams, *rows = text.splitlines()[1:]
    own = streams.index("collectives")
    names = [line.split()[0] for line in rows]
    [at] = [i for i, name in enumerate(names) if name.startswith("AllReduce")]
    column = [len(line) - len(line.lstrip()) for line in rows]
    waits = [re.findall(r"(\w+)", line.split("<-")[1]) if "<-" in line else [] for line in rows]
    assert [i for i in range(len(rows)) if column[i] == own] == [at], text
    product = max(i for i in range(at) if names[i].startswith("MatMul"))
    assert waits[at] == [names[product]], text
    assert [names[i][:3] for i in range(len(rows)) if names[at] in waits[i]] == ["Add"], text
    use = next(i for i in range(len(rows)) if names[at] in waits[i])
    between = {name.split("_")[0] for name in names[at + 1 : use]}
    assert between == {"Tanh", "Mul"}, text
    assert not any(waits[i] for i in range(len(rows)) if i not in (at, use)), text


def coalesced(rank, ranks):
    """The three operators on several tensors are nodes of the plan."""
    backend, world = weir.get_npu_backend(), dist.group.WORLD

    def function(xs):
        summed = functional.all_reduce_coalesced(xs, "sum", world)
        whole = functional.all_gather_into_tensor_coalesced(xs, world)
        most = functional.reduce_scatter_tensor_coalesced(whole, "max", [0] * len(whole), world)
        return [t + 0 for t in (*summed, *whole, *most)]

    xs = [torch.arange(3.0) + rank, torch.ones(0), torch.full((2, 2), float(rank)), torch.arange(4.0)[::2] - rank]
    every = [[x - rank * (1 if i != 3 else -1) + r * (1 if i != 3 else -1) for r in range(ranks)] for i, x in enumerate(xs)]
    want = [sum(of) for of in every] + [torch.cat(of) for of in every] + xs
    for got, wanted in zip(compiled(function, backend)(xs), want, strict=True):
        check(got, wanted, "a coalesced call of a plan")
    for name in ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor"):
        assert backend.coverage.native[f"_c10d_functional.{name}_coalesced.default"] == 1, backend.coverage.native
    assert not backend.coverage.fallback, backend.coverage.fallback


def types(rank, ranks):
    """Types that weir has and others, of no elements, with gaps, in place."""
    kinds = [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]

    def function(xs, grid, column):
        made = [functional.all_reduce(x, op, dist.group.WORLD) + 1 for x in xs for op in ("sum", "max")]
        dist.all_reduce(grid)  # becomes an operator and a copy
        dist.all_reduce(column[:, 1])
        return made, grid * 2, column + 0

    def of(r, kind):
        return torch.arange(6).to(kind).view(2, 3)[:, ::2] + r

    xs = [of(rank, kind) for kind in kinds]
    grid, column = torch.ones(0, 3) + rank, torch.zeros(3, 2) + rank
    made, doubled, copied = compiled(function, weir.get_npu_backend())(xs, grid, column)
    for i, kind in enumerate(kinds):
        check(made[2 * i], sum(of(r, kind) for r in range(ranks)) + 1, f"a compiled sum of {kind}")
        check(made[2 * i + 1], of(ranks - 1, kind) + 1, f"a compiled maximum of {kind}")
    want = torch.stack([torch.full((3,), float(rank)), torch.full((3,), float(sum(range(ranks))))], 1)
    check(doubled, torch.ones(0, 3), "a compiled sum of nothing, in place")
    check(column, want, "a compiled sum of a column, in place")
    check(copied, want, "what is computed from it")


def messages(rank):
    """PyTorch traces sends and receives only if it is told to; they run as its own."""
    if rank > 1:
        return

    def function(x):
        if rank == 0:
            dist.isend(x * 2, 1).wait()
            return x + 0
        y = torch.empty_like(x)
        dist.irecv(y, 0).wait()
        return y + 1

    with torch._dynamo.config.patch(enable_p2p_compilation=True):
        run = compiled(function, weir.get_npu_backend())
        for i in range(3):
            check(run(torch.arange(3.0) + i), 2 * (torch.arange(3.0) + i) + 1 if rank else torch.arange(3.0) + i, "a compiled message")
