"""A rank: every collective, by type, size and layout, against NumPy. Started by test_collectives.py.

    collectives_rank.py DEVICE TYPES [FOLDER]      FOLDER: one that all ranks see; WEIR_SOAK: more shapes, and all layouts
"""

import faulthandler
import os
import pathlib
import sys

import numpy as np
import weir

OPS = ["sum", "prod", "max", "min", "mean"]
SHAPES = [(0,), (1,), (5, 3), (0, 3), (7,), (33, 31)]
MORE_SHAPES = [(4, 0), (3, 2, 5), (1000, 3), (4099,), (129, 257)]
LAYOUTS = {
    "packed": lambda array, device: weir.tensor(array, device=device),
    "shared": lambda array, device: weir.asarray(array, device=device),  # NumPy's memory, where that can be
    "transposed": lambda array, device: weir.tensor(np.ascontiguousarray(array.T), device=device).T,
    "gaps": lambda array, device: weir.tensor(np.repeat(array, 2, axis=0), device=device)[::2],
    "offset": lambda array, device: weir.tensor(np.concatenate([array[:1], array]), device=device)[len(array[:1]) :],
}
SOAK = "WEIR_SOAK" in os.environ


def of_kind(array, kind):
    """Values as that type has them. NumPy has no bfloat16: float32 with 8 bits of precision."""
    if kind != "bfloat16":
        return array.astype(kind)
    bits = array.astype(np.float32).view(np.uint32)
    rounded = bits + (0x7FFF + (bits >> 16 & 1)).astype(np.uint32)
    return (rounded & np.uint32(0xFFFF0000)).view(np.float32)


def reduced(op, parts, kind):
    """What weir computes: integers wrap, and their mean is cut; floats are rounded once."""
    if kind.startswith(("int", "uint")):
        whole = np.stack(parts).astype(np.int64)
        made = {"sum": whole.sum, "prod": whole.prod, "max": whole.max, "min": whole.min, "mean": whole.sum}[op](0)
        return (np.trunc(made / len(parts)) if op == "mean" else made).astype(kind)
    whole = np.stack(parts).astype(np.float64)
    made = {"sum": whole.sum, "prod": whole.prod, "max": whole.max, "min": whole.min, "mean": whole.mean}[op](0)
    return of_kind(made, kind)


class Case:
    """One type, shape and layout."""

    def __init__(self, group, kind, shape, layout):
        self.group, self.kind, self.shape, self.layout = group, kind, shape, layout
        self.me, self.n, self.rows = group.rank, group.size, shape[0]
        self.parts = [self.values(r, shape) for r in range(self.n)]
        self.wide = [self.values(r, (self.n * shape[0], *shape[1:]), 1) for r in range(self.n)]

    def values(self, rank, shape, salt=0):
        """Small whole numbers: sums and products of a few ranks are exact in every type."""
        few = np.array([1, 3, 2, 1, 2] if self.kind == "uint8" else [1, -2, 3, -1, 2])
        return of_kind(few[(np.arange(int(np.prod(shape))) * 7 + rank * 3 + salt) % 5].reshape(shape), self.kind)

    def tensor(self, array):
        """A view of one dim cannot be transposed, and one of no elements has no layout."""
        layout = "packed" if self.layout == "transposed" and array.ndim < 2 else self.layout
        made = LAYOUTS[layout](array, self.group.device)
        return made.to(weir.bfloat16) if self.kind == "bfloat16" else made

    def room(self, shape):
        made = weir.tensor(np.full(shape, 9).astype(np.float32 if self.kind == "bfloat16" else self.kind),
                           device=self.group.device)  # fmt: skip
        return made.to(weir.bfloat16) if self.kind == "bfloat16" else made

    def check(self, got, want, what):
        got = (got.to(weir.float32) if got.dtype is weir.bfloat16 else got).numpy()
        g = self.group
        np.testing.assert_array_equal(
            got, want, err_msg=f"{what}, {self.kind}{list(self.shape)} {self.layout}, rank {g.rank} of {g.size}, {g.engine}"
        )
        assert got.shape == want.shape, (what, got.shape, want.shape)

    def counts(self, i):
        """Rows of rank i where ranks have different numbers of rows; some have none."""
        return (2 * i + self.rows) % (self.rows + 1)


# ---- the table: what each collective gives ----


def all_reduce(c):
    for op in OPS:
        want = reduced(op, c.parts, c.kind)
        c.check(c.group.reduced(c.tensor(c.parts[c.me]), op), want, f"all-reduce {op}")
        x, out = c.tensor(c.parts[c.me]), c.room(c.shape)
        c.group.all_reduce(x, out, op)
        c.check(out, want, f"all-reduce {op} into another")
        c.check(x, c.parts[c.me], f"the input of all-reduce {op}")
    x = c.room(c.shape)
    x.copy_(c.tensor(c.parts[c.me]))
    c.group.all_reduce(x, x)
    c.check(x, reduced("sum", c.parts, c.kind), "all-reduce in place")


def reduce(c):
    for i, op in enumerate(OPS):
        for root in range(c.n) if op == "sum" else [i % c.n]:
            out = c.group.reduced_to(c.tensor(c.parts[c.me]), root, op)
            assert (out is None) == (c.me != root), (op, root, out)
            if out is not None:
                c.check(out, reduced(op, c.parts, c.kind), f"reduce {op} to {root}")


def reduce_scatter(c):
    mine = slice(c.me * c.rows, (c.me + 1) * c.rows)
    for op in OPS:
        want = reduced(op, c.wide, c.kind)[mine]
        x, out = c.tensor(c.wide[c.me]), c.room(c.shape)
        c.check(c.group.reduced(x, op, True), want, f"reduce-scatter {op}")
        c.group.reduce_scatter(x, out, op)
        c.check(out, want, f"reduce-scatter {op} into another")


def reduce_scatter_counts(c):
    counts = [c.counts(i) for i in range(c.n)]
    begin = sum(counts[: c.me])
    rows = [w[: sum(counts)] for w in c.wide]
    for op in OPS:
        want = reduced(op, rows, c.kind)[begin : begin + counts[c.me]]
        c.check(c.group.reduced_counts(c.tensor(rows[c.me]), counts, op), want, f"reduce-scatter {op} of {counts}")


def broadcast(c):
    for root in range(c.n):
        x = c.tensor(c.parts[c.me])
        c.check(c.group.broadcasted(x, root), c.parts[root], f"broadcast from {root}")
        c.check(x, c.parts[c.me], "the input of broadcast")
        y = c.room(c.shape)
        y.copy_(x)
        c.group.broadcast(y, root)
        c.check(y, c.parts[root], f"broadcast from {root} in place")


def gather(c):
    for root in range(c.n):
        got = c.group.gathered_to(c.tensor(c.parts[c.me]), root)
        want = np.concatenate(c.parts)
        c.check(got, want if c.me == root else want[:0], f"gather to {root}")


def scatter(c):
    for root in range(c.n):
        out = c.room(c.shape)
        c.group.scatter(c.tensor(c.wide[root]) if c.me == root else None, root, out)
        c.check(out, c.wide[root][c.me * c.rows : (c.me + 1) * c.rows], f"scatter from {root}")


def all_gather(c):
    x, out = c.tensor(c.parts[c.me]), c.room((c.n * c.rows, *c.shape[1:]))
    c.check(c.group.gathered(x), np.concatenate(c.parts), "all-gather")
    c.group.all_gather(x, out)
    c.check(out, np.concatenate(c.parts), "all-gather into another")


def all_gather_counts(c):
    counts = [c.counts(i) for i in range(c.n)]
    got = c.group.gathered_counts(c.tensor(c.parts[c.me][: counts[c.me]]), counts)
    c.check(got, np.concatenate([c.parts[i][: counts[i]] for i in range(c.n)]), f"all-gather of {counts}")


def all_to_all(c):
    even = [c.rows] * c.n
    want = np.concatenate([w[c.me * c.rows : (c.me + 1) * c.rows] for w in c.wide])
    c.check(c.group.exchanged(c.tensor(c.wide[c.me]), even, even), want, "all-to-all")


def all_to_all_counts(c):
    counts = [[(s + 2 * r) % (c.rows + 1) for r in range(c.n)] for s in range(c.n)]  # from s to r
    rows = [c.wide[s][: sum(counts[s])] for s in range(c.n)]
    begin = [sum(counts[s][: c.me]) for s in range(c.n)]
    want = np.concatenate([rows[s][begin[s] : begin[s] + counts[s][c.me]] for s in range(c.n)])
    x, recv = c.tensor(rows[c.me]), [of[c.me] for of in counts]
    c.check(c.group.exchanged(x, counts[c.me], recv), want, f"all-to-all of {counts}")
    out = c.room(want.shape)
    c.group.all_to_all(x, out, counts[c.me], recv)
    c.check(out, want, f"all-to-all of {counts} into another")


def send_recv(c):
    """Along the ranks, from the first to the last."""
    if c.me:
        y = c.room(c.shape)
        c.group.recv(y, c.me - 1)
        c.check(y, c.parts[c.me - 1], f"a message of rank {c.me - 1}")
    if c.me + 1 < c.n:
        c.group.send(c.tensor(c.parts[c.me]), c.me + 1)


def batch(c):
    """Two messages to every other rank at once, receives before sends."""
    others = [r for r in range(c.n) if r != c.me]
    came = {(r, i): c.room((c.rows, *c.shape[1:])) for r in others for i in range(2)}
    part = lambda array, r, i: (array[r * c.rows : (r + 1) * c.rows] if i else array[: c.rows])  # noqa: E731
    messages = [(came[r, i], r, True) for i in range(2) for r in reversed(others)]
    messages += [(c.tensor(part(c.wide[c.me], r, i)), r, False) for r in others for i in range(2)]
    if c.group.engine == "nccl":  # the fake GPU runs one kernel at a time, so only one communicator at a time
        for sender in range(c.n):
            c.group.batch([m for m in messages if sender == (m[1] if m[2] else c.me)])
    else:
        c.group.batch(messages)
    for (r, i), tensor in came.items():
        c.check(tensor, part(c.wide[r], c.me, i), f"message {i} of rank {r} in a batch")


def experts(c):
    """Rows to the ranks of their experts, and weighted sums of what these make of them."""
    if not c.kind.startswith(("float", "bfloat")) or len(c.shape) != 2 or c.group.engine == "nccl":
        return
    k, count, hidden = 2, 2 * c.n, c.shape[1]
    tokens = [max(0, c.rows - r) for r in range(c.n)]
    table = [(np.arange(t * k).reshape(t, k) * 5 + r) % count for r, t in enumerate(tokens)]
    kind = "int64" if c.rows % 2 else "int32"
    x = [c.parts[r][:t] for r, t in enumerate(tokens)]
    want, counts, at = [], [], {}
    for e in range(2 * c.me, 2 * c.me + 2):
        found = [(r, t, s) for r in range(c.n) for t in range(tokens[r]) for s in range(k) if table[r][t, s] == e]
        want += [x[r][t] for r, t, _ in found]
        counts.append(len(found))
    for e in range(count):  # where each slot's row is on its rank
        for r in range(c.n):
            for t in range(tokens[r]):
                for s in range(k):
                    if table[r][t, s] == e:
                        at.setdefault(e // 2, []).append((r, t, s))
    where = {slot: i for found in at.values() for i, slot in enumerate(found)}
    capacity = k * sum(tokens) + 1
    chosen = weir.tensor(table[c.me].astype(kind), device=c.group.device)
    rows, got, positions = c.group.dispatched(c.tensor(x[c.me]), chosen, count, capacity)
    c.check(rows[: len(want)], np.array(want).reshape(len(want), hidden), "dispatched rows")
    np.testing.assert_array_equal(got.numpy(), counts)
    np.testing.assert_array_equal(
        positions.numpy(), [[where[c.me, t, s] for s in range(k)] for t in range(tokens[c.me])] or np.empty((0, k))
    )
    weights = np.array([[0.5, 2.0]] * tokens[c.me], dtype=np.float32).reshape(tokens[c.me], k)
    out = c.group.combined(rows + rows, chosen, count, positions, weir.tensor(weights, device=c.group.device))
    c.check(out, of_kind(x[c.me] * 5, c.kind), "combined rows")


TABLE = [all_reduce, reduce, reduce_scatter, reduce_scatter_counts, broadcast, gather, scatter, all_gather,
         all_gather_counts, all_to_all, all_to_all_counts, send_recv, batch, experts]  # fmt: skip


def barrier(group, folder):
    """What ranks did before it has happened when any of them goes on."""
    for i in range(20):
        (folder / f"{i} {group.rank}").touch()
        group.barrier()
        group.device.synchronize()
        came = [rank for rank in range(group.size) if (folder / f"{i} {rank}").exists()]
        assert came == list(range(group.size)), f"barrier {i}: only {came} came"


def matrix(group, kinds, shapes, layouts):
    for kind in kinds:
        for shape in shapes:
            for layout in layouts:
                for collective in TABLE:
                    collective(Case(group, kind, shape, layout))


def main():
    faulthandler.dump_traceback_later(200, exit=True)  # a hang says where
    device, kinds = sys.argv[1], sys.argv[2].split(",")
    group = weir._C.Group(device, timeout=60)
    assert group.engine == os.environ["WEIR_ENGINE"], group.engine
    if SOAK:
        matrix(group, kinds, SHAPES + MORE_SHAPES, LAYOUTS)
    else:
        fake = device.startswith("cuda")  # slow
        matrix(group, kinds, SHAPES[::2] if fake else SHAPES, ["packed"])
        matrix(group, kinds[: 1 if fake else 3], [(7,), (5, 3)], [name for name in LAYOUTS if name != "packed"])
    if len(sys.argv) > 3:
        barrier(group, pathlib.Path(sys.argv[3]))
    turned = group.split(list(reversed(range(group.size))))  # its ranks have other numbers
    assert turned.rank == group.size - 1 - group.rank
    matrix(turned, kinds[:1], [(5, 3)], ["packed", "gaps"])
    turned.close()
    group.barrier()
    group.device.synchronize()
    group.close()


main()
