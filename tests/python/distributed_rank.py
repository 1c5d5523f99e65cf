"""One rank of tests/python/test_distributed.py: distributed_rank.py SCENARIO RANK RANKS FILE DEVICE."""

import datetime
import faulthandler
import functools
import sys

import torch
from torch import distributed as dist

import weir
import weir.distributed  # registers the backend

import distributed_calls
import distributed_plans

TYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
]
SHAPES = [(), (1,), (0,), (7,), (5, 3), (1000,)]


def values(shape, kind, rank, salt=0):
    """Small whole numbers: sums and products of a few are exact in every type."""
    n = max(1, torch.Size(shape).numel())
    return ((torch.arange(n) * 3 + rank * 5 + salt) % 4 + 1)[
        : torch.Size(shape).numel()
    ].reshape(shape).to(kind)


def check(got, want, what):
    assert torch.equal(got, want), f"{what}: {got} is not {want}"


def reduced(op, parts):
    stack = torch.stack([part.to(torch.float64) for part in parts])
    result = {
        "sum": stack.sum(0),
        "prod": stack.prod(0),
        "max": stack.amax(0) if stack.numel() else stack[0],
        "min": stack.amin(0) if stack.numel() else stack[0],
    }[op]
    return result.to(parts[0].dtype)


def collectives(rank, ranks, where):
    torch.set_default_device(where)
    ops = {
        "sum": dist.ReduceOp.SUM,
        "prod": dist.ReduceOp.PRODUCT,
        "max": dist.ReduceOp.MAX,
        "min": dist.ReduceOp.MIN,
    }
    for kind in TYPES:
        for shape in SHAPES:
            parts = [values(shape, kind, r) for r in range(ranks)]
            what = f"{kind} {shape}"
            for name, op in ops.items():
                x = parts[rank].clone()
                dist.all_reduce(x, op)
                check(x, reduced(name, parts), f"all_reduce {name} {what}")
            x = parts[rank].clone()
            dist.reduce(x, 1, dist.ReduceOp.SUM)
            check(x, reduced("sum", parts) if rank == 1 else parts[rank], f"reduce {what}")
            x = parts[rank].clone()
            dist.broadcast(x, ranks - 1)
            check(x, parts[-1], f"broadcast {what}")
            outs = [torch.empty_like(parts[0]) for _ in range(ranks)]
            dist.all_gather(outs, parts[rank])
            for r in range(ranks):
                check(outs[r], parts[r], f"all_gather {what}")
            outs = [torch.empty_like(parts[0]) for _ in range(ranks)] if rank == 0 else None
            dist.gather(parts[rank], outs, 0)
            for r in range(ranks if rank == 0 else 0):
                check(outs[r], parts[r], f"gather {what}")
            x = torch.empty_like(parts[0])
            dist.scatter(x, [p.clone() for p in parts] if rank == 1 else None, 1)
            check(x, parts[rank], f"scatter {what}")
            ins = [values(shape, kind, rank, r) for r in range(ranks)]
            outs = [torch.empty_like(parts[0]) for _ in range(ranks)]
            dist.all_to_all(outs, ins)
            for r in range(ranks):
                check(outs[r], values(shape, kind, r, rank), f"all_to_all {what}")
            x = torch.empty_like(parts[0])
            dist.reduce_scatter(x, ins)
            check(
                x,
                reduced("sum", [values(shape, kind, r, rank) for r in range(ranks)]),
                f"reduce_scatter {what}",
            )
            if shape:
                x = torch.empty((ranks * shape[0], *shape[1:]), dtype=kind)
                dist.all_gather_into_tensor(x, parts[rank])
                check(x, torch.cat(parts), f"all_gather_into_tensor {what}")
                x = torch.empty_like(parts[0])
                dist.reduce_scatter_tensor(x, torch.cat(ins))
                check(
                    x,
                    reduced("sum", [values(shape, kind, r, rank) for r in range(ranks)]),
                    f"reduce_scatter_tensor {what}",
                )
    others(rank, ranks)
    mismatch(rank, dist.new_group(backend="weir"))


def everything(rank, ranks, where):
    collectives(rank, ranks, where)
    distributed_calls.calls(rank, ranks)
    distributed_calls.lost(rank, ranks)


def others(rank, ranks):
    """Averages, strides, splits, messages, objects, sub-groups, futures."""
    x = torch.full((4,), float(rank))
    dist.all_reduce(x, dist.ReduceOp.AVG)
    check(x, torch.full((4,), sum(range(ranks)) / ranks), "average")
    grid = torch.zeros(6, 4)
    column = grid[:, 1]
    column += rank + 1
    work = dist.all_reduce(column, async_op=True)
    work.wait()
    check(column, torch.full((6,), ranks * (ranks + 1) / 2), "strided")
    check(grid[:, 0], torch.zeros(6), "beside it")
    send = [r + 1 for r in range(ranks)]
    out = torch.empty(ranks * (rank + 1), 2)
    dist.all_to_all_single(
        out, torch.full((sum(send), 2), float(rank)), [rank + 1] * ranks, send
    )
    check(out[:, 0], torch.arange(ranks).repeat_interleave(rank + 1).float(), "splits")
    # Everybody sends first.
    got = torch.empty(3)
    requests = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, torch.full((3,), float(rank)), (rank + 1) % ranks),
            dist.P2POp(dist.irecv, got, (rank - 1) % ranks),
        ]
    )
    for request in requests:
        request.wait()
    check(got, torch.full((3,), float((rank - 1) % ranks)), "ring")
    receive_from_any(rank, ranks)
    bits(rank, ranks)
    refused(rank, ranks)
    tags(rank)
    names = [None] * ranks
    dist.all_gather_object(names, {"rank": rank, "text": "x" * rank})
    assert [n["rank"] for n in names] == list(range(ranks))
    listed = [f"from {rank}"]
    dist.broadcast_object_list(listed, src=1)
    assert listed == ["from 1"]
    pair = dist.new_group([0, ranks - 1], backend="weir")
    if rank in (0, ranks - 1):
        x = torch.ones(2)
        dist.all_reduce(x, group=pair)
        check(x, torch.full((2,), 2.0), "pair")
    x = torch.ones(2) * rank
    with dist._coalescing_manager(device=x.device):
        first, second = torch.ones(2), torch.full((3,), float(rank))
        dist.all_reduce(first)
        dist.all_reduce(second)
    check(first, torch.full((2,), float(ranks)), "together")
    check(second, torch.full((3,), float(sum(range(ranks)))), "together")
    group = dist.distributed_c10d._get_default_group()
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=30))
    if rank != 1:  # who stays away is named; rank 1 is at the next one
        try:
            group.monitored_barrier(datetime.timedelta(seconds=2), wait_all_ranks=True)
        except RuntimeError as error:
            assert "rank 1" in str(error) and "did not come" in str(error), error
        else:
            raise AssertionError("no error")
    else:
        group._barriers += 1
    x = torch.ones(2) * rank
    future = dist.all_reduce(x, async_op=True).get_future()
    check(future.wait()[0], torch.full((2,), float(sum(range(ranks)))), "future")
    dist.barrier()


def bits(rank, ranks):
    """Bits of integers and bools are combined, by every reduction; bools by sums of any number."""
    for kind in (torch.int32, torch.uint8, torch.int16, torch.bool):
        parts = [((torch.arange(ranks * 3) * (5 * r + 3) + r) % 7).to(kind) for r in range(ranks)]
        for op, combine in (
            (dist.ReduceOp.BAND, torch.bitwise_and),
            (dist.ReduceOp.BOR, torch.bitwise_or),
            (dist.ReduceOp.BXOR, torch.bitwise_xor),
        ):
            want, what = functools.reduce(combine, parts), f"{kind} {op}"
            x = parts[rank].clone()
            dist.all_reduce(x, op)
            check(x, want, f"all_reduce {what}")
            x = parts[rank].clone()
            dist.reduce(x, 1, op)
            check(x, want if rank == 1 else parts[rank], f"reduce {what}")
            x = torch.empty(3, dtype=kind)
            dist.reduce_scatter_tensor(x, parts[rank], op)
            check(x, want[3 * rank : 3 * rank + 3], f"reduce_scatter_tensor {what}")
            x = torch.empty(3, dtype=kind)
            dist.reduce_scatter(x, list(parts[rank].chunk(ranks)), op)
            check(x, want[3 * rank : 3 * rank + 3], f"reduce_scatter {what}")
    x = torch.tensor([rank == 0, False, True])
    dist.all_reduce(x)
    check(x, torch.tensor([True, False, True]), "sum of bools")
    one = torch.full((1, 2), float(rank))[:, ::2]  # a single element, of stride 2
    outs = [torch.empty(1, 1) for _ in range(ranks)]
    dist.all_gather(outs, one)
    check(torch.cat(outs).view(-1), torch.arange(ranks).float(), "one element")


def refused(rank, ranks):
    """What has no value is refused, by all ranks, before anything moves."""
    pairs = torch.tensor([1 + 2j, 3 - 1j])
    whole, out = torch.cat([pairs] * ranks), torch.empty_like(pairs)
    threes = [torch.ones(3)] * ranks
    for call, words in (
        (lambda: dist.reduce(pairs, 0, dist.ReduceOp.PRODUCT), "PRODUCT of torch.complex64"),
        (lambda: dist.reduce(pairs, 0, dist.ReduceOp.MAX), "MAX of torch.complex64"),
        (lambda: dist.reduce_scatter_tensor(out, whole, dist.ReduceOp.MIN), "MIN of torch.complex64"),
        (lambda: dist.all_reduce(torch.ones(3), dist.ReduceOp.BAND), "BAND of torch.float32"),
        (lambda: dist.all_reduce(torch.ones(3) > 0, dist.ReduceOp.AVG), "AVG of torch.bool"),
        (lambda: dist.reduce_scatter(torch.ones(2), threes), "the own input"),
        (lambda: dist.reduce_scatter(torch.ones(3), [*threes, torch.ones(3)]), "inputs of"),
        (lambda: dist.all_reduce(torch.ones(3, device="meta")), "not of meta"),
    ):
        try:
            call()
        except ValueError as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"no error: {words}")
    # Outputs whose sizes only add up to the right one.
    pair = dist.new_group([0, 1], backend="weir")
    if rank < 2:
        outs = [torch.empty(1), torch.empty(3)] if rank == 0 else None
        try:
            dist.gather(torch.ones(2), outs, 0, group=pair)
            assert rank
        except ValueError as error:
            assert "gather: an output" in str(error), error
            pair.abort()
        except dist.DistBackendError:
            assert rank


def tags(rank):
    """Messages have their tags; one of another tag is an error, and no value."""
    pair = dist.new_group([0, 1], backend="weir")
    x, y = torch.zeros(2), torch.zeros(2)
    if rank == 0:
        dist.send(torch.full((2,), 1.0), 1, group=pair, tag=7)
        for work in [dist.isend(torch.full((2,), float(tag)), 1, pair, tag) for tag in (3, 4)]:
            work.wait()
    elif rank == 1:
        dist.recv(x, 0, group=pair, tag=7)
        check(x, torch.full((2,), 1.0), "tag")
        works = [dist.irecv(x, 0, pair, 4), dist.irecv(y, 0, pair, 3)]
        for work in works:
            try:
                work.wait()
            except dist.DistBackendError as error:
                assert "a message of tag" in str(error), error
            else:
                raise AssertionError("no error")


def receive_from_any(rank, ranks):
    """Rank 0 takes what comes, by whomever; messages of one rank keep their order."""
    group = dist.distributed_c10d._get_default_group()
    if ranks > 2 and group._side_of(torch.get_default_device()).gpu:
        return  # each pair has a group of its own
    if rank:
        for i in range(3):
            dist.send(torch.full((2,), float(10 * rank + i)), 0)
        return
    seen = {r: [] for r in range(1, ranks)}
    last = torch.empty(2)
    request = dist.irecv(last)  # found by the time that it is waited for
    for _ in range(3 * (ranks - 1) - 1):
        x = torch.empty(2)
        source = dist.recv(x)
        seen[source].append(x[0].item())
    request.wait()
    seen[request._source_rank()].append(last[0].item())
    for r, got in seen.items():
        assert sorted(got) == [10.0 * r + i for i in range(3)], (r, got)
        assert got == sorted(got) or got[-1] == last[0].item(), (r, got)


def mismatch(rank, group):
    try:
        dist.all_reduce(torch.ones(4 if rank else 3), group=group)
    except dist.DistBackendError as error:
        assert "the shape differs" in str(error), error
        assert "f32[3]" in str(error) and "f32[4]" in str(error), error
    else:
        raise AssertionError("no error")


class _NoStreams:
    """Instead of PyTorch's side of a GPU: what it queues is over at once."""

    def is_recording(self):
        return False

    def current(self):
        return self

    def order_after(self, stream, other):
        assert other is self

    def synchronize(self):
        pass


class _FakeGpu(weir.distributed.Side):
    """The GPU that tests/cuda/fake is; PyTorch's tensors are the host's."""

    def _open(self, options):
        return weir._C.Device(f"cuda:0,{options}"), _NoStreams()

    def future(self):
        return torch.futures.Future()


class _CopiedCall(weir.distributed.Call):
    """Its operands are copied to the GPU and back."""

    def share(self, tensor):
        shared = weir.tensor(tensor.numpy(), device=self.side.device)
        self.finish.insert(0, lambda: tensor.copy_(torch.from_numpy(shared.numpy())))
        return shared


def on_a_fake_gpu(rank, ranks, where):
    """Groups that are made by the first call, pairs for messages, and all collectives."""
    weir.distributed.Side, weir.distributed.Call = _FakeGpu, _CopiedCall
    sides = dist.distributed_c10d._get_default_group()._sides
    host = sides.pop(where)
    del TYPES[2:], SHAPES[:2]
    if rank < 2:  # before a group of all ranks is there
        sent = torch.full((3,), float(rank))
        got = torch.empty(3)
        works = [dist.isend(sent, 1 - rank), dist.irecv(got, 1 - rank)]
        for work in works:
            work.wait()
        check(got, torch.full((3,), float(1 - rank)), "a message")
    collectives(rank, ranks, where)
    sides["host"] = host


class Block(torch.nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.attention = torch.nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        )

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(x)


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Embedding(64, 32), Block(), Block(), torch.nn.Linear(32, 64)
    )


def train(net, rank, steps=50):
    torch.manual_seed(100 + rank)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        tokens = torch.randint(0, 64, (4, 9))
        logits = net(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def training(rank, ranks, where):
    """Data parallel and fully sharded, against data parallel over gloo."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.set_default_device(where)
    parallel = torch.nn.parallel.DistributedDataParallel
    gloo = dist.new_group(backend="gloo")
    want = train(parallel(model(), process_group=gloo), rank)
    assert len(want) == len(want.unique()) == 50, want  # each step has a loss of its own
    alone = train(model(), rank)  # the comparison below sees gradients that are not exchanged
    assert (alone - want).abs().max() > 1e-2, alone - want
    torch.testing.assert_close(train(parallel(model()), rank), want, rtol=1e-4, atol=1e-5)
    mesh = init_device_mesh(where.type, (ranks,))
    net = model()
    for layer in net:
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    torch.testing.assert_close(train(net, rank), want, rtol=1e-4, atol=1e-5)


class Feedforward(torch.nn.Module):
    """Column then row parallel, as plain functional collectives."""

    def __init__(self, rank, ranks, width=16):
        super().__init__()
        torch.manual_seed(0)
        up, down = torch.randn(4 * width, width), torch.randn(width, 4 * width)
        self.whole = up, down
        part = 4 * width // ranks
        self.up = torch.nn.Parameter(up[rank * part : (rank + 1) * part].clone())
        self.down = torch.nn.Parameter(down[:, rank * part : (rank + 1) * part].clone())

    def forward(self, x):
        import torch.distributed._functional_collectives as funcol

        h = torch.nn.functional.gelu(x @ self.up.T) @ self.down.T
        summed = funcol.all_reduce(h, "sum", dist.group.WORLD)
        beside = torch.tanh(x) * 2  # runs beside the collective
        return funcol.wait_tensor(summed) + beside

    def expected(self, x):
        up, down = self.whole
        return torch.nn.functional.gelu(x @ up.T) @ down.T + torch.tanh(x) * 2


def compiled(rank, ranks, where):
    """Collectives of a compiled model are nodes of the plan."""
    import torch.distributed._functional_collectives as funcol

    import weir

    backend = weir.get_npu_backend()
    with where:
        net = Feedforward(rank, ranks)
    run = torch.compile(net, backend=backend, fullgraph=True)
    with torch.no_grad():
        for i in range(3):
            torch.manual_seed(i)
            x = torch.randn(5, 16, device=where)
            torch.testing.assert_close(run(x), net.expected(x), rtol=1e-4, atol=1e-4)

    def several(x):
        world = dist.group.WORLD
        a = funcol.all_gather_tensor(x, 0, world)
        b = funcol.reduce_scatter_tensor(a, "sum", 0, world)
        c = funcol.broadcast(x, ranks - 1, world)
        d = funcol.all_to_all_single(a, [2] * ranks, [2] * ranks, world)
        return a + 0, b + 0, c + 0, d + 0

    x = torch.arange(8.0, device=where).view(2, 4) + 10 * rank
    for got, want in zip(torch.compile(several, backend=backend, fullgraph=True)(x), several(x)):
        check(got, want, "a compiled collective")
    native = backend.coverage.native
    for name in ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "broadcast",
                 "all_to_all_single", "wait_tensor"):
        assert native[f"_c10d_functional.{name}.default"], (name, native, backend.coverage.fallback)

    def grows(x):
        world = dist.group.WORLD
        summed = funcol.all_reduce(x * 2, "sum", world)
        whole = funcol.all_gather_tensor(x, 0, world)
        return torch.relu(summed) + 1, whole + 1, funcol.reduce_scatter_tensor(whole, "sum", 0, world)

    run = torch.compile(grows, backend=backend, fullgraph=True, dynamic=True)
    for rows in (5, 7, 4):
        x = torch.arange(3.0 * rows, device=where).view(rows, 3) - 6 * rank
        for got, want in zip(run(x), grows(x)):
            check(got, want, f"a compiled collective of {rows} rows")
    assert not any("c10d" in op for op in backend.coverage.fallback), backend.coverage.fallback
    tensor_parallel(rank, ranks, where)
    if where.type == "cpu":
        distributed_plans.plans(rank, ranks, Feedforward(rank, ranks))


class Attention(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.head = width // heads
        self.q, self.k, self.v, self.o = (
            torch.nn.Linear(width, width, bias=False) for _ in range(4)
        )

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (-1, self.head)).transpose(1, 2) for f in (self.q, self.k, self.v))
        h = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(h.transpose(1, 2).flatten(2))


class Layer(torch.nn.Module):
    """As Llama has them: norms, attention, gated feedforward."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.RMSNorm(width), torch.nn.RMSNorm(width)
        self.attention = Attention(width, heads)
        self.gate, self.up = (torch.nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(3 * width, width, bias=False)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        h = self.norm2(x)
        return x + self.down(torch.nn.functional.silu(self.gate(h)) * self.up(h))


def tensor_parallel(rank, ranks, where):
    """A small Llama cut over the ranks gives what one rank gives, eagerly and compiled."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import parallel

    import weir

    torch.manual_seed(0)
    with where:
        net = torch.nn.Sequential(
            torch.nn.Embedding(64, 32), Layer(), Layer(), torch.nn.Linear(32, 64)
        )
        tokens = torch.randint(0, 64, (2, 7))
    with torch.no_grad():
        want = net(tokens)
    mesh = init_device_mesh(where.type, (ranks,))
    column, row = parallel.ColwiseParallel(), parallel.RowwiseParallel()
    cut = {"attention.q": column, "attention.k": column, "attention.v": column, "attention.o": row,
           "gate": column, "up": column, "down": row}
    for layer in list(net)[1:3]:
        parallel.parallelize_module(layer, mesh, cut)
    backend = weir.get_npu_backend()
    with torch.no_grad():
        torch.testing.assert_close(net(tokens), want, rtol=1e-4, atol=1e-5)
        run = torch.compile(net, backend=backend, fullgraph=True)
        torch.testing.assert_close(run(tokens), want, rtol=1e-4, atol=1e-5)
    native = backend.coverage.native
    assert native["_c10d_functional.all_reduce.default"] == 4, native
    assert not any("c10d" in op for op in backend.coverage.fallback), backend.coverage.fallback
    dist.barrier()


def main():
    scenario, path, device = sys.argv[1], sys.argv[4], sys.argv[5]
    faulthandler.dump_traceback_later(200 if device == "cpu" else 90, exit=True)  # a hang says where
    rank, ranks = int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group(
        "weir",
        init_method=f"file://{path}",
        rank=rank,
        world_size=ranks,
        timeout=datetime.timedelta(seconds=60),
    )
    globals()[scenario](rank, ranks, torch.device(device))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
