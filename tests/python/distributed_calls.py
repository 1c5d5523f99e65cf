"""Scenarios of distributed_rank.py: objects, calls in one, sub-groups in another order, calls that do not fit together,
groups that end early, ranks that are late or lost."""

import datetime
import os
import signal

import torch
from torch import distributed as dist
from torch.distributed import _functional_collectives as functional


def check(got, want, what):
    assert torch.equal(got, want), f"{what}: {got} is not {want}"


def fails(call, kind, *words):
    """The call raises an error of that kind that has the words."""
    try:
        call()
    except kind as error:
        assert all(word in str(error) for word in words), (words, error)
    else:
        raise AssertionError(f"no error: {words}")


def calls(rank, ranks):
    for of in (objects, coalesced, in_another_order, layouts, do_not_fit, ended_early, late):
        of(rank, ranks)
        dist.barrier()


def objects(rank, ranks):
    def of(r):
        return {"rank": r, "text": "x" * (1000 * r), "none": None}

    for root in range(ranks):
        got = [None] * ranks if rank == root else None
        dist.gather_object(of(rank), got, dst=root)
        assert rank != root or got == [of(r) for r in range(ranks)], got
        mine = [None]
        dist.scatter_object_list(mine, [of(r) for r in range(ranks)] if rank == root else None, src=root)
        assert mine == [of(rank)], mine
    if rank == 0:
        for to in range(1, ranks):
            dist.send_object_list([of(to), "and", to], to)
    else:
        got = [None] * 3
        assert dist.recv_object_list(got, 0) == 0
        assert got == [of(rank), "and", rank], got


def coalesced(rank, ranks):
    """Several in one call, eagerly by _coalescing_manager, with and without a device, and by functional operators."""

    def of(r, size):
        return torch.arange(float(size)) + 10 * r

    sizes = [3, 0, 1, 4]
    for later in (False, True):
        for device in (None, torch.get_default_device()):
            gathered = [torch.empty(ranks * size) for size in sizes]
            with dist._coalescing_manager(device=device, async_ops=later) as manager:
                for size, out in zip(sizes, gathered):
                    dist.all_gather_into_tensor(out, of(rank, size))
            if later:
                manager.wait()
            for size, out in zip(sizes, gathered):
                check(out, torch.cat([of(r, size) for r in range(ranks)]), "all_gather_into_tensor in one")
            for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX):
                scattered = [torch.empty(size) for size in sizes]
                with dist._coalescing_manager(device=device, async_ops=later) as manager:
                    for size, out in zip(sizes, scattered):
                        dist.reduce_scatter_tensor(out, of(rank, ranks * size), op)
                if later:
                    manager.wait()
                for size, out in zip(sizes, scattered):
                    every = torch.stack([of(r, ranks * size) for r in range(ranks)])
                    want = every.sum(0) if op == dist.ReduceOp.SUM else every[-1]
                    check(out, want[rank * size : (rank + 1) * size], f"reduce_scatter_tensor {op} in one")
    xs = [of(rank, size) for size in sizes]
    wide = [of(rank, ranks * size) for size in sizes]
    world = dist.group.WORLD
    for got, size in zip(functional.all_reduce_coalesced(xs, "sum", world), sizes):
        check(got + 0, sum(of(r, size) for r in range(ranks)), "all_reduce_coalesced")
    for got, size in zip(functional.all_gather_into_tensor_coalesced(xs, world), sizes):
        check(got + 0, torch.cat([of(r, size) for r in range(ranks)]), "all_gather_into_tensor_coalesced")
    dims = [0] * len(sizes)
    for got, size in zip(functional.reduce_scatter_tensor_coalesced(wide, "sum", dims, world), sizes):
        want = sum(of(r, ranks * size) for r in range(ranks))
        check(got + 0, want[rank * size : (rank + 1) * size], "reduce_scatter_tensor_coalesced")


def in_another_order(rank, ranks):
    """Ranks of a sub-group have the numbers of their list where PyTorch is told not to sort them."""
    backwards = list(reversed(range(ranks)))
    for sort in (True, False):
        group = dist.new_group(backwards, backend="weir", sort_ranks=sort)
        members = sorted(backwards) if sort else backwards
        assert dist.get_process_group_ranks(group) == members
        me, x = members.index(rank), torch.tensor([float(rank)])
        assert group.rank() == me
        whole = torch.empty(ranks)
        dist.all_gather_into_tensor(whole, x, group=group)
        check(whole, torch.tensor(members).float(), f"all_gather of {members}")
        y = x.clone()
        dist.broadcast(y, members[0], group=group)
        check(y, torch.tensor([float(members[0])]), f"broadcast of {members}")
        y = torch.empty(1)
        dist.scatter(y, [torch.tensor([10.0 + i]) for i in range(ranks)] if rank == members[-1] else None,
                     members[-1], group=group)  # fmt: skip
        check(y, torch.tensor([10.0 + me]), f"scatter of {members}")
        to, source = members[(me + 1) % ranks], members[(me - 1) % ranks]
        works = [dist.isend(x, to, group), dist.irecv(y, source, group)]
        for work in works:
            work.wait()
        check(y, torch.tensor([float(source)]), f"a message of {members}")
        y = x.clone()
        dist.reduce(y, members[1], group=group)
        check(y, torch.tensor([float(sum(members))]) if rank == members[1] else x, f"reduce of {members}")
        dist.destroy_process_group(group)


def layouts(rank, ranks):
    """Results go to views with gaps, results and operands of no elements, and results that are their operands' memory."""
    grid = torch.zeros(ranks, 3, 2)
    out = grid[:, :, 1]
    dist.all_gather_into_tensor(out.view(ranks, 3), torch.arange(3.0) + rank)
    check(out, torch.arange(3.0) + torch.arange(float(ranks))[:, None], "all_gather into a view with gaps")
    check(grid[:, :, 0], torch.zeros(ranks, 3), "what is beside it")
    row = torch.full((ranks, 2), -1.0)
    row[rank] = float(rank)
    dist.all_gather_into_tensor(row, row[rank])
    check(row, torch.arange(float(ranks))[:, None].expand(ranks, 2), "all_gather in place")
    row = torch.arange(2.0 * ranks) + rank
    dist.reduce_scatter_tensor(row[2 * rank : 2 * rank + 2], row.clone())
    want = ranks * torch.arange(2.0 * ranks) + sum(range(ranks))
    check(row[2 * rank : 2 * rank + 2], want[2 * rank : 2 * rank + 2], "reduce_scatter to a part")
    row = torch.arange(2.0 * ranks) + rank
    dist.reduce_scatter_tensor(row[2 * rank : 2 * rank + 2], row)
    check(row[2 * rank : 2 * rank + 2], want[2 * rank : 2 * rank + 2], "reduce_scatter in place")
    column = torch.full((2, ranks), float(rank)).t()
    dist.all_to_all_single(column, column)
    check(column, torch.arange(float(ranks))[:, None].expand(ranks, 2), "all_to_all in place, transposed")
    rows = [torch.empty(2 * (r % 2)) for r in range(ranks)]  # some ranks have nothing
    dist.all_gather(rows, torch.full((2 * (rank % 2),), float(rank)))
    for r, got in enumerate(rows):
        check(got, torch.full((2 * (r % 2),), float(r)), "all_gather with nothing of some")
    spread = torch.ones(1).expand(4)  # one element of memory
    fails(lambda: dist.all_reduce(spread), RuntimeError, "memory location")


def do_not_fit(rank, ranks):
    """Ranks whose calls differ get an error with both sides, and no value."""
    odd = rank == 1
    for call, words in (
        (lambda g: dist.all_reduce(torch.ones(3, dtype=torch.float64 if odd else torch.float32), group=g), ("f32", "f64")),
        (lambda g: dist.broadcast(torch.ones(3 if odd else 2), 0, group=g), ("u8[12]", "u8[8]")),
        (lambda g: dist.broadcast(torch.ones(2), 1 if odd else 0, group=g), ("root",)),
        (lambda g: dist.all_reduce(torch.ones(2), dist.ReduceOp.MAX if odd else dist.ReduceOp.SUM, group=g), ("sum", "max")),
        (lambda g: dist.all_reduce(torch.ones(0 if odd else 2), group=g), ("f32[0]", "f32[2]")),
        (lambda g: dist.barrier(g) if odd else dist.all_reduce(torch.ones(2), group=g), ("Barrier", "AllReduce")),
        (lambda g: dist.all_gather_into_tensor(torch.ones((3 if odd else 2) * ranks), torch.ones(3 if odd else 2), group=g), ("u8[12]", "u8[8]")),
    ):  # fmt: skip
        group = dist.new_group(backend="weir")
        fails(lambda: call(group), dist.DistBackendError, *words)
        fails(lambda: dist.all_reduce(torch.ones(2), group=group), dist.DistBackendError, *words)  # stays broken
        dist.destroy_process_group(group)


    group = dist.new_group(backend="weir")
    send = [1] * (ranks - 1) + [2 if odd else 1]  # the last rank expects one row of each

    def exchange():
        dist.all_to_all_single(torch.empty(ranks), torch.ones(sum(send)), None, send, group=group)
        dist.all_reduce(torch.ones(2), group=group)  # ranks whose own rows fit are told here at the latest

    fails(exchange, dist.DistBackendError, "rank 1", f"rank {ranks - 1}")
    dist.destroy_process_group(group)


def ended_early(rank, ranks):
    """A group that is destroyed while a call is under way: the call ends, with its value or an error."""
    group = dist.new_group(backend="weir")
    x = torch.full((1000,), float(rank))
    work = dist.all_reduce(x, group=group, async_op=True)
    dist.destroy_process_group(group)
    try:
        work.wait()
        check(x, torch.full((1000,), float(sum(range(ranks)))), "a call of a group that was destroyed")
    except dist.DistBackendError:
        pass
    group = dist.new_group(backend="weir")
    if rank == 0:  # the others do not call
        work = dist.all_reduce(x, group=group, async_op=True)
    dist.destroy_process_group(group)
    if rank == 0:
        fails(work.wait, dist.DistBackendError, "group")


def late(rank, ranks):
    """`wait` gives up after its time and the call goes on; a rank that does not come in the group's time is named."""
    store, x = dist.distributed_c10d._get_default_store(), torch.ones(2) * rank
    if rank != 1:
        work = dist.all_reduce(x, async_op=True)
        fails(lambda: work.wait(datetime.timedelta(milliseconds=20)), dist.DistBackendError, "has not completed after 0.02 s")
        store.set(f"gave up {rank}", "")
        assert work.wait(datetime.timedelta(seconds=60))
    else:
        store.wait([f"gave up {r}" for r in range(ranks) if r != 1])
        dist.all_reduce(x)
    check(x, torch.full((2,), float(sum(range(ranks)))), "a call with a late rank")
    group = dist.new_group(backend="weir", timeout=datetime.timedelta(seconds=1))
    if rank != 1:
        fails(lambda: dist.all_reduce(x, group=group), dist.DistBackendError, "rank 1 did not arrive", "1 s")
    dist.barrier()
    dist.destroy_process_group(group)
    key = dist.distributed_c10d._get_default_group()
    if rank == ranks - 1:
        key._barriers += 1  # it is at the next one
    else:
        fails(lambda: dist.monitored_barrier(timeout=datetime.timedelta(seconds=1)), RuntimeError, f"rank {ranks - 1} did not come")


def lost(rank, ranks):
    """The last of all: a rank is killed, and each other one is told which."""
    x, last = torch.ones(2), ranks - 1
    if rank != last:
        work = dist.all_reduce(x, async_op=True)
    dist.distributed_c10d._get_default_store().set(f"calls {rank}", "")
    if rank == last:
        dist.distributed_c10d._get_default_store().wait([f"calls {r}" for r in range(ranks)])
        os.kill(os.getpid(), signal.SIGKILL)
    fails(work.wait, dist.DistBackendError, f"rank {last} died")
    fails(lambda: dist.all_reduce(x), dist.DistBackendError, f"rank {last} died")
