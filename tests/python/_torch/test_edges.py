"""Values at the edges: numbers that overflow, types that were asked for, indices out of range, and
expressions that look like a pattern and are none."""

import pytest

import weir
from compiling import compiled, fresh, same  # noqa: F401

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
root = torch.rsqrt
LEAST, MOST = torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max


def equal(function, *args):
    """Compiled and eager give the same bits and types. -> the backend"""
    run, backend = compiled(function)
    with torch.no_grad():
        got, want = run(*args), function(*args)
    for x, y in zip(got, want, strict=True):
        assert x.dtype == y.dtype and torch.equal(x, y), (x, y)
    return backend


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_quotients_are_rounded_down_where_products_would_overflow(dtype):
    most = torch.iinfo(dtype).max
    a = torch.tensor([7, -7, most, most - 1, -most, most // 3, -5, 60000], dtype=dtype)
    b = torch.tensor([-2, 2, most - 1, most, most // 2, -most, most, 65536], dtype=dtype)
    big = most // 2 + 1

    def function(a, b):
        return a // b, a % b, a // big, a % big, torch.div(a, b, rounding_mode="floor")

    assert not equal(function, a, b).coverage.fallback


def test_the_place_of_the_least_integer_is_found():
    x = torch.tensor([[3, LEAST, 0], [MOST, 1, LEAST + 1]])

    def function(x):
        return (*x.min(1), *x.max(1), *x.int().min(0))

    equal(function, x)


def test_sums_have_the_type_that_was_asked_for():
    x = torch.tensor([[1.5, 2.5], [-3.0, 4.0]])

    def function(x):
        whole = x.long().sum(1, dtype=torch.int32)
        return x.sum(0, dtype=torch.int32), x.sum(dtype=torch.int64), whole

    equal(function, x)


def test_numbers_between_two_bins_are_counted_where_pytorch_counts_them():
    x = torch.tensor([-1.5 + 11.5 * i / 7 for i in range(8)] + list(range(-3, 12)))

    def function(x, y):
        return torch.histc(x, 7, -1.5, 10), torch.histc(x, 13, 0, 2.5), torch.histc(y, 7, -1.5, 10)

    equal(function, x, x.double())


def test_sums_on_the_way_do_not_overflow_where_eager_ones_do_not():
    x = torch.tensor([40000.0, -40000.0, -40000.0, 40000.0, 40000.0], dtype=torch.float16)
    equal(lambda x: (x.cumsum(0), x[:1].cumsum(0)), x)


def test_an_index_out_of_range_is_not_another_element():
    x = torch.arange(12.0).view(3, 4)
    with weir.stream(weir.Stream()):
        run, _ = compiled(lambda x, i, j: (x[i, j],))
        i, j = torch.tensor([0, 2, -1]), torch.tensor([3, -4, 1])
        assert torch.equal(run(x, i, j)[0], x[i, j])
        with pytest.raises(weir.Error, match="range"):
            run(x, i, torch.tensor([3, 4, 1]))
    with weir.stream(weir.Stream()), pytest.raises(weir.Error, match="range"):
        run(x, i, torch.tensor([3, -5, 1]))


def test_an_index_that_was_written_to_is_read_again():
    def function(at, x):
        first = x[at]
        at[:1] = 3
        return first, x[at]

    def make():
        return torch.tensor([0, -1]), torch.arange(8.0).view(4, 2)

    run, _ = compiled(function)
    with torch.no_grad():
        got, want = run(*make()), function(*make())
    assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1])


def test_a_scale_of_nothing_is_not_the_usual_one():
    q, k, v = torch.randn(3, 1, 2, 5, 8)
    attend = torch.nn.functional.scaled_dot_product_attention
    run, _ = compiled(lambda q, k, v: (attend(q, k, v, scale=0.0), attend(q, k, v)))
    for got, want in zip(run(q, k, v), (attend(q, k, v, scale=0.0), attend(q, k, v))):
        same(got, want)


def norm(x, weight, eps=1e-6, dim=-1):
    return weight * (x * root(x.pow(2).mean(dim, keepdim=True) + eps))


@pytest.mark.parametrize("function, shape, native", [
    (lambda x, w: norm(x, w), (2, 3, 4), True),
    (lambda x, w: norm(x, w), (2, 3, 1), False),
    (lambda x, w: norm(x, w, dim=1), (2, 4, 4), False),
    (lambda x, w: w * (x * root(x.pow(2).mean(-1, keepdim=True)) + 1e-6), (3, 4), False),
    (lambda x, w: w * (x * root(x.pow(3).mean(-1, keepdim=True).abs() + 1e-6)), (3, 4), False),
    (lambda x, w: w * (x * root(x.pow(2).sum(-1, keepdim=True) + 1e-6)), (3, 4), False),
    (lambda x, w: w * (x * root((x + 1).pow(2).mean(-1, keepdim=True) + 1e-6)), (3, 4), False),
    (lambda x, w: w * (x * torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)), (3, 4), False),
    (lambda x, w: w[:3, None] * (x * root(x.pow(2).mean(-1, keepdim=True) + 1e-6)), (3, 4), False),
])  # fmt: skip
def test_what_looks_like_a_norm_and_is_none_stays_what_it_is(function, shape, native):
    x, weight = torch.randn(shape) + 0.1, torch.randn(4)
    run, backend = compiled(lambda x, w: (function(x, w),))
    with torch.no_grad():
        same(run(x, weight)[0], function(x, weight))
    assert ("weir.rms_norm.default" in backend.coverage.native) == native


def test_elementwise_operators_are_moved_to_the_first_of_several_users():
    def function(x, y):
        a = x * y
        long = a * 2 * 3 * torch.exp(x)
        short = a + 1
        return (torch.where(x > y, long, short),)

    equal(function, torch.randn(3, 4), torch.randn(3, 4))
