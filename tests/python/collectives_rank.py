"""A rank: every collective, by type, size and layout, against NumPy. Started by test_collectives.py."""

import os
import sys

import numpy as np
import weir

ALL = ["float32", "float16", "float64", "int64", "int32", "int8", "uint8"]
REDUCES = {
    "sum": lambda parts: sum(parts[1:], parts[0].copy()),
    "prod": lambda parts: np.prod(parts, axis=0, dtype=parts[0].dtype),
    "max": lambda parts: np.max(parts, axis=0),
    "min": lambda parts: np.min(parts, axis=0),
    "mean": lambda parts: (np.sum(parts, axis=0, dtype=parts[0].dtype) / len(parts)).astype(parts[0].dtype),
}


def values(rank, shape, kind):
    """Small whole numbers: every reduction is exact, in any order."""
    n = int(np.prod(shape))
    return ((np.arange(n) * 7 + rank * 5) % 4).astype(kind).reshape(shape)


def layouts(array, device):
    """The same values in the device's memory, in NumPy's where that can be, and as a view that is not packed."""
    yield "packed", weir.tensor(array, device=device)
    yield "shared", weir.asarray(array, device=device)
    if array.ndim == 2 and array.size:
        yield "transposed", weir.tensor(np.ascontiguousarray(array.T), device=device).T


def check(got, want, what):
    np.testing.assert_array_equal(got.numpy(), want, err_msg=what)


def check_one(group, shape, kind, device):
    me, n = group.rank, group.size
    parts = [values(r, shape, kind) for r in range(n)]
    wide = [values(r, (n * shape[0], *shape[1:]), kind) for r in range(n)]
    k = shape[0]
    for name, x in layouts(parts[me], device):
        what = f"{group.engine} {kind}{list(shape)} {name}"
        for op, reference in REDUCES.items():
            if op == "mean" and not kind.startswith("float"):
                continue
            check(group.reduced(x, op), reference(parts), f"{op} {what}")
        check(group.gathered(x), np.concatenate(parts), f"gather {what}")
        for root in range(n):
            check(group.broadcasted(x, root), parts[root], f"broadcast {what}")
    for name, x in layouts(wide[me], device):
        what = f"{group.engine} {kind}{list(shape)} {name}"
        whole = REDUCES["sum"](wide)
        check(group.reduced(x, "sum", True), whole[me * k : (me + 1) * k], f"reduce-scatter {what}")
        even = [k] * n
        check(
            group.exchanged(x, even, even),
            np.concatenate([w[me * k : (me + 1) * k] for w in wide]),
            f"all-to-all {what}",
        )
        # Rank s sends (s + r) % (k + 1) rows to rank r, from the beginning of what is r's.
        counts = [[(s + r) % (k + 1) for r in range(n)] for s in range(n)]
        rows = [np.concatenate([wide[s][:c] for c in counts[s]]) for s in range(n)]
        begin = [sum(counts[s][:me]) for s in range(n)]
        check(
            group.exchanged(weir.tensor(rows[me], device=device), counts[me], [c[me] for c in counts]),
            np.concatenate([rows[s][begin[s] : begin[s] + counts[s][me]] for s in range(n)]),
            f"uneven all-to-all {what}",
        )
    x = weir.tensor(parts[me], device=device)
    y = weir.tensor(np.zeros_like(parts[me]), device=device)
    if n > 1 and me == 0:
        group.send(x, n - 1)
    elif n > 1 and me == n - 1:
        group.recv(y, 0)
        check(y, parts[0], f"message {kind}{list(shape)}")
    group.all_reduce(x, x)
    check(x, REDUCES["sum"](parts), f"in place {kind}{list(shape)}")


def main():
    device, kinds = sys.argv[1], sys.argv[2].split(",") if len(sys.argv) > 2 else ALL
    group = weir._C.Group(device)
    assert group.engine == os.environ["WEIR_ENGINE"], group.engine
    for kind in kinds:
        for shape in [(0,), (1,), (7,), (0, 3), (5, 3), (33, 31)]:
            check_one(group, shape, kind, group.device)
    group.barrier()
    group.device.synchronize()
    group.close()


main()
