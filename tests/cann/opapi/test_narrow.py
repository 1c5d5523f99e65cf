"""Integers of 16 bits, which weir lacks: operators compute with them as i32 and write what fits."""
import pytest
import torch

from aclnn import Error, call
from samples import empty_like

LOW, HIGH = -(1 << 15), (1 << 15) - 1


def numbers(shape, dtype=torch.int16):
    """The whole range, with both ends in it."""
    low, high = (LOW, HIGH) if dtype == torch.int16 else (0, (1 << 16) - 1)
    x = torch.randint(low, high + 1, shape)
    x.view(-1)[:2] = torch.tensor([low, high])
    return x.to(dtype)


def same(got, want):
    assert got.dtype == want.dtype and torch.equal(got.int(), want.int())


@pytest.mark.parametrize("name", ("Add", "Sub", "Mul"))
@pytest.mark.parametrize("dtype", (torch.int16, torch.uint16))
def test_results_wrap(name, dtype):
    x, y = numbers((3, 50), dtype), numbers((3, 50), dtype)
    arguments = (1,) if name != "Mul" else ()
    want = getattr(torch, name.lower())(x.long(), y.long()).to(dtype)
    out = empty_like(x, strided=True)
    call(name, x, y, *arguments, out)
    same(out, want)
    call(f"Inplace{name}", x, y, *arguments)
    same(x, want)


def test_the_bytes_between_the_elements_of_a_result_stay():
    x = numbers((4, 6))
    room = torch.full((4, 13), -21555, dtype=torch.int16)
    call("Neg", x, room[:, 1::2])
    same(room[:, 1::2], -x)
    assert (room[:, 0::2] == -21555).all()


@pytest.mark.parametrize("other", (torch.float32, torch.float16, torch.int64, torch.int32, torch.int8,
                                   torch.uint8, torch.bool))
def test_they_are_converted_in_both_directions(other):
    x = numbers((5, 7)) if other != torch.float16 else torch.arange(-35, 0, dtype=torch.int16).view(5, 7)
    out = empty_like(x)
    call("InplaceCopy", out, x)  # first, as test_zz_all takes it for the types that are only moved
    same(out, x)
    for name in ("Cast", "InplaceCopy"):
        out = empty_like(x, other)
        call(*((name, x, out.dtype, out) if name == "Cast" else (name, out, x)))
        assert torch.equal(out, x.to(other))
        back = empty_like(x)
        call(*((name, out, x.dtype, back) if name == "Cast" else (name, back, out)))
        same(back, out.to(torch.int16))
    big = torch.tensor([70000, -70000, 32768], dtype=torch.int64)
    narrow = torch.zeros(3, dtype=torch.int16)
    call("InplaceCopy", narrow, big)
    same(narrow, big.to(torch.int16))


def test_reductions_order_and_indices():
    x = numbers((30, 40))
    total = torch.zeros(30, dtype=torch.int64)
    call("ReduceSum", x, [1], False, torch.int64, total)
    assert torch.equal(total, x.sum(1))
    values, at = torch.zeros(30, 40, dtype=torch.int16), torch.zeros(30, 40, dtype=torch.int64)
    call("Sort", x, False, 1, False, values, at)
    same(values, x.sort(1).values)
    most = torch.zeros(30, dtype=torch.int16)
    call("Amax", x, [1], False, most)
    same(most, x.amax(1))
    rows = torch.randint(0, 30, (9,))
    some = torch.zeros(9, 40, dtype=torch.int16)
    call("IndexSelect", x, 0, rows, some)
    same(some, x[rows])


def test_a_float_does_not_go_into_them_in_place():
    with pytest.raises(Error, match="can't be cast"):
        call("InplaceAdd", numbers((4,)), torch.ones(4), 1)
