"""One rank of tests/python/test_distributed.py: distributed_rank.py SCENARIO RANK RANKS FILE."""

import datetime
import sys

import torch
from torch import distributed as dist

import weir.distributed  # noqa: F401  registers the backend

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


def collectives(rank, ranks):
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
    future = dist.all_reduce(x, async_op=True).get_future()
    check(future.wait()[0], torch.full((2,), float(sum(range(ranks)))), "future")
    dist.barrier()


def mismatch(rank, group):
    try:
        dist.all_reduce(torch.ones(4 if rank else 3), group=group)
    except dist.DistBackendError as error:
        assert "the shape differs" in str(error), error
        assert "f32[3]" in str(error) and "f32[4]" in str(error), error
    else:
        raise AssertionError("no error")


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


def training(rank, ranks):
    """Data parallel and fully sharded, against data parallel over gloo."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    parallel = torch.nn.parallel.DistributedDataParallel
    gloo = dist.new_group(backend="gloo")
    want = train(parallel(model(), process_group=gloo), rank)
    torch.testing.assert_close(train(parallel(model()), rank), want, rtol=1e-4, atol=1e-5)
    mesh = init_device_mesh("cpu", (ranks,))
    net = model()
    for layer in net:
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    torch.testing.assert_close(train(net, rank), want, rtol=1e-4, atol=1e-5)


def main():
    scenario, rank, ranks, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    torch.set_num_threads(1)
    dist.init_process_group(
        "weir",
        init_method=f"file://{path}",
        rank=rank,
        world_size=ranks,
        timeout=datetime.timedelta(seconds=60),
    )
    globals()[scenario](rank, ranks)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
