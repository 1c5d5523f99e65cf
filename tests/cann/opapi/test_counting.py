"""What occurs in a tensor and how often, against PyTorch's own."""
import pytest
import torch

from aclnn import call
from samples import FLOAT, INT, close, make

COVERED = {"Unique", "Unique2", "UniqueConsecutive", "UniqueDim", "Histc", "Bincount",
           "TransMatmulWeight"}


def room(n, dtype=torch.int64):
    """Callers give room for all, and learn the size from the tensor object: here only values."""
    return torch.full(n if isinstance(n, tuple) else (n,), 77).to(dtype)


def begins_with(out, want):
    close(out.view(-1)[: want.numel()], want.reshape(-1))


@pytest.mark.parametrize("dtype", FLOAT + INT + (torch.bool,))
def test_unique(dtype):
    for shape in ((1,), (7, 9), (3, 1, 50)):
        x = make(shape, dtype, -5, 5)
        if dtype.is_floating_point:
            x = x.round()
        want, places, counts = torch.unique(x, return_inverse=True, return_counts=True)
        n = x.numel()
        y, inverse = room(n, dtype), room(shape)
        call("Unique", x, True, True, y, inverse)
        begins_with(y, want)
        close(inverse, places)
        y, inverse, count = room(n, dtype), room(shape), room(n)
        call("Unique2", x, True, True, True, y, inverse, count)
        begins_with(y, want)
        begins_with(count, counts)
        close(inverse, places)
        want, places, counts = torch.unique_consecutive(x, return_inverse=True, return_counts=True)
        y, inverse, count = room(n, dtype), room(shape), room(n)
        call("UniqueConsecutive", x, True, True, 1000, y, inverse, count)
        begins_with(y, want)
        begins_with(count, counts)
        close(inverse, places)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.int64, torch.int8))
def test_unique_along_a_dim(dtype):
    for shape, dim in (((40, 2), 0), ((2, 40), 1), ((2, 30, 2), 1), ((5,), 0), ((1, 1), 0)):
        x = make(shape, dtype, 0, 2)
        if dtype.is_floating_point:
            x = x.round()
        n = shape[dim]
        want, places, counts = torch.unique(x, dim=dim, return_inverse=True, return_counts=True)
        y, inverse, count = room(shape, dtype), room(n), room(n)
        call("UniqueDim", x, True, True, dim, y, inverse, count)
        begins_with(y, want)
        begins_with(count, counts)
        close(inverse, places)
        want, places, counts = torch.unique_consecutive(
            x, dim=dim, return_inverse=True, return_counts=True)
        y, inverse, count = room(shape, dtype), room(n), room(n)
        call("UniqueConsecutive", x, True, True, dim, y, inverse, count)
        begins_with(y, want)
        begins_with(count, counts)
        close(inverse, places)


def test_nan_is_equal_to_none():
    x = torch.tensor([1.0, float("nan"), 1.0, float("nan")])
    y, inverse, count = room(4, torch.float32), room(4), room(4)
    call("Unique2", x, True, True, True, y, inverse, count)
    close(y[:1], torch.tensor([1.0]))
    assert y[1:3].isnan().all() and count[:3].tolist() == [2, 1, 1]


@pytest.mark.parametrize("dtype", FLOAT + INT)
def test_histogram(dtype):
    for low, high in ((0, 0), (-2, 2), (1, 7)):
        x = make((6, 11), dtype, -3, 9)
        for bins in (1, 4, 10):
            want = torch.histc(x.float(), bins, low, high)
            out = room(bins, dtype)
            call("Histc", x, bins, low, high, out)
            close(out, want)
    x = torch.full((9,), 3).to(dtype)
    out = room(5, dtype)
    call("Histc", x, 5, 0, 0, out)
    close(out, torch.histc(x.float(), 5))


def test_bincount():
    for dtype in INT:
        x = make((50,), dtype, 0, 9)
        n = max(12, int(x.max()) + 1)
        out = room(n)
        call("Bincount", x, None, 12, out)
        close(out, torch.bincount(x, minlength=12))
        for weighs in (torch.float32, torch.float64):
            w, out = make((50,), weighs), room(n, weighs)
            call("Bincount", x, w, 12, out)
            close(out, torch.bincount(x, w, minlength=12), 5)


def test_a_weight_keeps_its_layout():
    for dtype in (torch.float16, torch.int8):
        x = make((5, 7), dtype)
        y = x.clone()
        call("TransMatmulWeight", y)
        assert torch.equal(x, y)
