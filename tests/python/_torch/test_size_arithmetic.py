"""Arithmetic of tensors of every type with sizes that change gives eager's values, also where the
size, as a number of the tensor's type, would wrap, overflow or be rounded."""

import math

import pytest
import torch

import weir

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SIZES = [8, 300, 256, 129, 2051, 70001]  # beyond 8, 16 bits; beyond the precision of halves; beyond their range


def _arguments(dtype, n):
    if dtype is torch.bool:
        return torch.arange(n) % 3 == 0
    if dtype in INTEGERS:
        most = min(torch.iinfo(dtype).max, 2**31)
        return (torch.arange(n) * 37 % most + 1).to(dtype)
    return torch.cat((torch.linspace(-3, 900, n - 3), torch.tensor([math.inf, math.nan, -0.0]))).to(dtype)


def _arithmetic(x):
    n = x.shape[0]
    made = [x + n, x - n, n - x, n + x, x * n, n * x, x / n, n / x, x + (n // 2), x * (n - 7), x / (n * 3)]
    made += [torch.add(x, n), torch.mul(x, n), torch.true_divide(x, 2 * n), x / (n * 2**31)]
    made += [x[:1] / n, x.unsqueeze(1) * n, x.sum(0, keepdim=True) / n, (x.amax() / n).reshape(1)]
    return made


def _comparisons(x):
    n = x.shape[0]
    made = [x == n, x != n, x < n, x <= n, x > n, x >= n, x < n // 2, n > x]
    return [*made, torch.where(x < n, x, 0 * x)]


def _remainders(x):
    n = x.shape[0]
    made = [x // n, x % n, torch.fmod(x, n), torch.div(x, n, rounding_mode="floor")]
    return [*made, torch.div(x, n, rounding_mode="trunc"), torch.remainder(x, n + 1)]


def _of_bools(x):
    n = x.shape[0]
    return [x + n, x * n, x / n, x == n, x.int() - n, x.half() / n]


def _same(got, want):
    return got.dtype is want.dtype and torch.equal(
        *(torch.nan_to_num(t, nan=-123.0) if t.is_floating_point() else t for t in (got, want))
    )


def _check(function, dtype):
    torch._dynamo.reset()
    run = torch.compile(function, backend=weir.get_npu_backend(), dynamic=True)
    for n in SIZES:
        if function is _remainders and n == 256:  # 0 as a number of 8 bits: eager calls raise
            continue
        x = _arguments(dtype, n)
        for place, (got, want) in enumerate(zip(run(x), function(x), strict=True)):
            assert _same(got, want), f"result {place} of {function.__name__}, {dtype}, {n} elements"


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS, ids=str)
@pytest.mark.parametrize("function", [_arithmetic, _comparisons, _remainders])
def test_sizes_are_numbers_as_in_eager_calls(function, dtype):
    _check(function, dtype)


def test_bools_with_sizes_are_integers():
    _check(_of_bools, torch.bool)


@pytest.mark.parametrize("correction", [0, 1, 3, 2.5])
@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_deviations_of_fewer_rows_than_the_correction_are_infinite(correction):
    def deviations(x):
        return x.var(0, correction=correction), x.std(0, correction=correction, keepdim=True)

    torch._dynamo.reset()
    run = torch.compile(deviations, backend=weir.get_npu_backend(), dynamic=True)
    for n in (8, 5, 3, 2, 1, 0):
        x = torch.arange(2.0 * n).view(n, 2)
        x[:, 1] = 1
        for got, want in zip(run(x), deviations(x), strict=True):
            torch.testing.assert_close(got, want, equal_nan=True)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_negative_index_of_a_row_to_copy_to_is_an_error(dynamic):
    def copy(x, index, source):
        return x.index_copy(0, index, source)

    torch._dynamo.reset()
    run = torch.compile(copy, backend=weir.get_npu_backend(), dynamic=dynamic)
    x, source = torch.zeros(5, 3), torch.ones(2, 3)
    torch.testing.assert_close(run(x, torch.tensor([4, 0]), source), copy(x, torch.tensor([4, 0]), source))
    with weir.stream(weir.Stream()), pytest.raises(weir.Error, match="-1"):
        run(x, torch.tensor([0, -1]), source)
