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
        return a // b, a % b, torch.div(a, b, rounding_mode="floor")

    equal(function, a, b)
    by_number = equal(lambda a: (a // big, a % big), a)
    assert not by_number.coverage.fallback


@pytest.mark.parametrize("divide", [torch.floor_divide, torch.remainder])
def test_a_divisor_of_zero_is_an_error(divide):
    a, b = torch.tensor([7, -7, 5]), torch.tensor([2, 0, 3])
    run, _ = compiled(divide)
    with weir.stream(weir.Stream()), pytest.raises(weir.Error, match="ZeroDivision"):
        run(a, b)


def test_integers_of_more_than_53_bits_stay_exact():
    odd = 2**53 + 1
    x = torch.tensor([-7, MOST, LEAST, 0, odd])
    at = torch.tensor([0])

    def function(x):
        return (
            x == odd, x > odd, x + odd, odd - x, x * odd, torch.add(x, x, alpha=odd),
            x.masked_fill(x > 3, odd), torch.where(x > 0, x, odd), x.scatter(0, at, odd),
            x.index_fill(0, at, odd), x == MOST, x - MOST, torch.full_like(x, odd) + x,
        )  # fmt: skip

    equal(function, x)


def test_whole_numbers_are_compared_with_floats_as_floats():
    x = torch.tensor([16777217, 2, 2**31 - 1], dtype=torch.int32)
    equal(lambda x: (x == 16777216.0, x.long() <= 2147483648.0, x == 2.0, x > 1.5), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_numbers_are_compared_in_the_type_of_the_tensor(dtype):
    x = torch.tensor([0.1, 0.3, 65504.0, float("inf"), float("nan"), -0.0], dtype=dtype)

    def function(x):
        return x == 0.1, x != 0.1, x > 0.1, x <= 0.3, x < 65519.0, x >= 1e39, x == 0

    assert not equal(function, x).coverage.fallback


def test_products_of_halves_are_scaled_before_they_are_rounded():
    a, b = torch.full((1, 2, 8), 200.0).half(), torch.full((1, 8, 2), 200.0).half()
    c = torch.full((1, 2, 2), -60000.0).half()

    def function(c, a, b):
        return (
            torch.baddbmm(c, a, b, alpha=0.01), torch.baddbmm(c, a, b, beta=0, alpha=0.125),
            torch.baddbmm(c, a / 2, b / 2), torch.addmm(c[0], a[0] / 2, b[0] / 2),
            torch.addmm(c[0, 0], a[0] / 2, b[0] / 2),
        )  # fmt: skip

    equal(function, c, a, b)


def test_complex_numbers_of_parts_keep_shapes_and_types():
    a, b = torch.arange(6.0).view(2, 3), torch.arange(6.0).view(2, 3) * 2 + 1

    def function(a, b):
        z = torch.complex(a, b)
        spread = torch.complex(a[:, :1], b[0])
        return (
            z.view(3, 2), torch.view_as_real(z.view(3, 2).t()[1:] * 2), z[None].expand(2, 2, 3)[:, 1],
            z.index_select(1, torch.tensor([0, 2, 0])), z[:, :1].squeeze(1), torch.cat([z, z * 2]),
            spread * 2, torch.view_as_real(spread), z * a.double(), z * a.long(), z + 1,
        )  # fmt: skip

    equal(function, a, b)


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


def test_numbers_between_two_bins_are_counted_as_in_pytorch():
    x = torch.tensor([-1.5 + 11.5 * i / 7 for i in range(8)] + list(range(-3, 12)))

    def function(x, y):
        return torch.histc(x, 7, -1.5, 10), torch.histc(x, 13, 0, 2.5), torch.histc(y, 7, -1.5, 10)

    equal(function, x, x.double())


def test_intermediate_sums_do_not_overflow_unless_eager_ones_do():
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


def test_an_attention_scale_of_zero_is_not_the_default_scale():
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
def test_operators_that_only_look_like_a_norm_keep_their_values(function, shape, native):
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


# ---- operators whose results are traced with other sizes or types than they have ----


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("grad", [False, True])
def test_embedding_bags_equal_eager_ones(mode, grad):
    def bags(index, weight):
        return torch.nn.functional.embedding_bag(index, weight, mode=mode) * 2

    index = torch.tensor([[1, 3, 5], [2, 2, 0]])
    run = torch.compile(bags, backend="weir")
    ours, theirs = (torch.arange(30.0).view(10, 3).requires_grad_(grad) for _ in range(2))
    got, want = run(index, ours), bags(index, theirs)
    assert torch.equal(got, want)
    if grad:
        got.sum().backward(), want.sum().backward()
        assert torch.equal(ours.grad, theirs.grad)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("dynamic", [False, True])
def test_batch_norm_of_halves_updates_its_statistics(dtype, dynamic):
    def norm(x, mean, var):
        return torch.nn.functional.batch_norm(x, mean, var, training=True)

    run = torch.compile(norm, backend="weir", dynamic=dynamic)
    for n in (4, 6):
        x = (torch.arange(n * 15) % 7).view(n, 3, 5).to(dtype)
        ours, theirs = ((torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype)) for _ in "ab")
        torch.testing.assert_close(run(x, *ours), norm(x, *theirs))
        torch.testing.assert_close(ours, theirs)


def test_a_sum_over_all_dims_and_an_index_of_no_dims_compile():
    equal(lambda x: (torch.nanmean(x), torch.nanmean(x, keepdim=True)), torch.ones(3, 4))
    equal(lambda x, i, s: (x.index_copy(0, i, s),), torch.tensor(2.0), torch.tensor([0]), torch.tensor(5.0))


@pytest.mark.parametrize("dynamic", [False, True])
def test_types_that_weir_has_not_come_and_go(dynamic):
    def function(x, y, a, b):
        return (
            x.maximum(x.flip(0)), x.repeat_interleave(2, -1) % -3, y.sum(0, dtype=torch.int16), y.prod(0, dtype=torch.int16),
            y.cumsum(1, dtype=torch.int16), x.sum(0), torch.stack([a, b]), torch.cat([a, b]), a + b, x.float() / 2,
            y.float().sum(1, dtype=torch.complex64), y.float().mean(0, dtype=torch.complex64),
        )  # fmt: skip

    run, _ = compiled(function, dynamic=dynamic)
    for n in (3, 5):
        y = torch.arange(4 * n).view(n, 4) - 5
        x, a, b = y.to(torch.int16), y.to(torch.int8), y.abs().to(torch.uint8)
        for got, want in zip(run(x, y, a, b), function(x, y, a, b), strict=True):
            assert got.dtype == want.dtype and torch.equal(got, want), (got, want)


@pytest.mark.parametrize("dynamic", [False, True])
def test_numbers_are_copied_into_parts(dynamic):
    def function(x, y):
        x[1:].copy_(3)
        x[:1].copy_(2.7)
        y[:, ::2].copy_(0.5)
        made = torch.zeros_like(x)
        made.view(-1)[2:].copy_(True)
        return made + x

    run, _ = compiled(function, dynamic=dynamic)
    for n in (3, 5):
        ours, theirs = ((torch.arange(4 * n).view(n, 4), torch.ones(n, 4)) for _ in "ab")
        assert torch.equal(run(*ours), function(*theirs))
        assert all(map(torch.equal, ours, theirs))
