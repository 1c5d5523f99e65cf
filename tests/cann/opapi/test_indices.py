"""Reading and writing by index against PyTorch."""
import pathlib
import subprocess
import sys

import torch

from aclnn import call
from samples import TYPES, close, empty_like, layouts, make

COVERED = set()


def wide(t):
    return t.double() if t.is_floating_point() else t


def test_reading_by_index():
    for dtype in TYPES["ALL"]:
        for x in layouts((6, 4, 5), dtype):
            for it in (torch.int64, torch.int32):
                i = torch.randint(0, 6, (2, 3), dtype=it)
                out = torch.empty(2, 3, 4, 5, dtype=dtype)
                call("Embedding", x, i, out)
                close(out, x[i.long()])
                for name in ("IndexSelect", "GatherV2"):
                    want = x.index_select(0, i[0].long())
                    out = empty_like(want)
                    call(name, x, 0, i[0], out)
                    close(out, want)
                g = torch.randint(0, 4, (5, 3, 2), dtype=it)
                want = x.gather(1, g.long())
                out = empty_like(want)
                call("Gather", x, 1, g, out)
                close(out, want)
            i = torch.randint(-100, 100, (7,)) % 120 - 60
            want = x.take(i)
            out = empty_like(want)
            call("Take", x, i, out)
            close(out, want)
            a, b = torch.randint(-6, 6, (2, 3)), torch.randint(-5, 5, (3,))
            for indices, want in (((a,), x[a]), ((None, a % 4), x[:, a % 4]),
                                  ((a, None, b), x[a, :, b]), ((a, a % 4), x[a, a % 4]),
                                  ((a, a % 4, b), x[a, a % 4, b]), ((None, None, b), x[:, :, b])):
                out = empty_like(want)
                call("Index", x, [torch.empty(0, dtype=dtype) if t is None else t for t in indices], out)
                close(out, want)
    COVERED.update({"Embedding", "IndexSelect", "GatherV2", "Gather", "Take", "Index"})


def test_writing_by_index():
    for dtype in TYPES["ALL"]:
        x = make((6, 4), dtype)
        i = torch.stack([torch.randperm(6)[:3] for _ in range(4)], 1)
        src = make((3, 4), dtype)
        want = x.scatter(0, i, src)
        out = empty_like(x, strided=True)
        call("Scatter", x, 0, i, src, 0, out)
        close(out, want)
        y = x.clone()
        call("InplaceScatter", y, 0, i, src, 0)
        close(y, want)
        value = 3 if dtype != torch.bool else True
        call("ScatterValue", x, 0, i, value, 0, out)
        close(out, x.scatter(0, i, value))
        y = x.clone()
        call("InplaceScatterValue", y, 0, i, value, 0)
        close(y, out)
        y = x.clone()
        call("IndexFill", x, 1, torch.tensor([0, 2]), value, out)
        close(out, x.index_fill(1, torch.tensor([0, 2]), value))
        call("InplaceIndexFill", y, 1, torch.tensor([0, 2]), value)
        close(y, out)
        y = x.clone()
        call("IndexFillTensor", x, 1, (0, 2), value, out)
        close(out, y.index_fill(1, torch.tensor([0, 2]), value))
        call("InplaceIndexFillTensor", y, 1, (0, 2), value)
        close(y, out)
        rows = torch.tensor([4, 0])
        call("IndexCopy", x, 0, rows, src[:2], out)
        close(out, x.index_copy(0, rows, src[:2]))
        y = x.clone()
        call("InplaceIndexCopy", y, 0, rows, src[:2])
        close(y, out)
        y = x.clone()
        call("InplacePut", y, torch.tensor([3, -1]), src[0, :2], False)
        close(y, x.clone().put_(torch.tensor([3, -1]), src[0, :2]))
        y = x.clone()
        call("ScatterNdUpdate", y, torch.tensor([[1], [5]]), src[:2])
        z = x.clone()
        z[[1, 5]] = src[:2]
        close(y, z)
        y, z = x.clone(), x.clone()
        call("IndexPutImpl", y, [rows, torch.empty(0, dtype=dtype)], src[:2], False, False)
        z[rows] = src[:2]
        close(y, z)
        y, z = x.t().contiguous().t(), x.clone()
        call("IndexPutImpl", y, [torch.empty(0, dtype=dtype), torch.tensor([-1, 2])], src[0, :1], False, False)
        z[:, [-1, 2]] = src[0, :1]
        close(y, z)
        if dtype == torch.bool:
            continue
        many = torch.randint(0, 6, (9, 4))
        src = make((9, 4), dtype, -2, 2)
        want = wide(x).scatter_add(0, many, wide(src)).to(dtype)
        call("ScatterAdd", x, 0, many, src, out)
        close(out, want, 8)
        call("Scatter", x, 0, many, src, 1, out)
        close(out, want, 8)
        rows = torch.randint(0, 6, (9,))
        call("IndexAdd", x, 0, rows, src, 2, out)
        close(out, wide(x).index_add(0, rows, wide(src), alpha=2).to(dtype), 8)
        y = x.clone()
        call("IndexPutImpl", y, [rows], src, True, False)
        close(y, wide(x).index_put((rows,), wide(src), accumulate=True).to(dtype), 8)
    g = make((3, 2, 4), torch.float32)
    i = torch.tensor([[0, 2], [2, 5], [1, 2]])
    for freq in (False, True):
        out = torch.empty(6, 4)
        call("EmbeddingDenseBackward", g, i, 6, 1, freq, out)
        close(out, torch.ops.aten.embedding_dense_backward(g, i, 6, 1, freq), 2)
    COVERED.update({"Scatter", "InplaceScatter", "ScatterValue", "InplaceScatterValue", "IndexFill",
                    "InplaceIndexFill", "IndexFillTensor", "InplaceIndexFillTensor", "IndexCopy",
                    "InplaceIndexCopy", "InplacePut", "ScatterNdUpdate", "IndexPutImpl", "ScatterAdd",
                    "IndexAdd", "EmbeddingDenseBackward"})


def test_an_index_out_of_range_is_an_error():
    # in a process of its own: the stream stays in error
    code = ("import torch; from aclnn import Error, call\n"
            "try: call('Scatter', torch.zeros(3), 0, torch.tensor([5]), torch.ones(1), 0, torch.empty(3))\n"
            "except Error as e: print('refused:', e)\n")
    done = subprocess.run([sys.executable, "-c", code], cwd=pathlib.Path(__file__).parent,
                          capture_output=True, text=True, timeout=60)
    assert "refused:" in done.stdout, done.stdout + done.stderr


def test_masks_scatter_in_order():
    for dtype in TYPES["ALL"]:
        for mask in (torch.rand(4, 6) > 0.5, torch.rand(6) > 0.5, torch.zeros(4, 6, dtype=torch.bool)):
            for self in layouts((4, 6), dtype):
                source = make((5, 7), dtype)
                want = self.clone().masked_scatter_(mask, source)
                call("InplaceMaskedScatter", self, mask, source)
                close(self, want)
    COVERED.add("InplaceMaskedScatter")
