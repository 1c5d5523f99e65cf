"""Complex numbers against PyTorch: both widths, strides, broadcasting, with reals and scalars, in place."""
import pytest
import torch

from aclnn import Call, Error, call

COVERED = {"Polar", "Complex"}
WIDTHS = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def run(name, *values):
    Call().run(name, *values)


def make(shape, dtype):
    return torch.randn(shape, dtype=torch.complex128).to(dtype)


def layouts(shape, dtype):
    yield make(shape, dtype)
    yield make(tuple(reversed(shape)), dtype).permute(*reversed(range(len(shape))))
    yield make((*shape[:-1], 2 * shape[-1] + 1), dtype)[..., 1::2]
    yield make((*shape[:-1], 1), dtype).expand(shape)


def like(want):
    return torch.full(tuple(reversed(want.shape)), 77, dtype=want.dtype).permute(*reversed(range(want.dim())))


def close(got, want):
    tolerance = 1e-4 if want.dtype in (torch.complex64, torch.float32) else 1e-9
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("dtype", WIDTHS)
def test_two_operands(dtype):
    real = WIDTHS[dtype]
    for name, function, alpha in (
        ("Add", lambda a, b: a + b * 2, (2,)), ("Sub", lambda a, b: a - b * 2, (2,)),
        ("Mul", lambda a, b: a * b, ()), ("Div", lambda a, b: a / b, ()),
    ):
        for a in layouts((3, 4, 5), dtype):
            for b in (make((3, 4, 5), dtype), make((5,), dtype), make((4, 1), dtype), torch.randn(4, 5, dtype=real)):
                out = like(a)
                run(name, a, b, *alpha, out)
                close(out, function(a, b))
                x = a.clone()
                run(f"Inplace{name}", x, b, *alpha)
                close(x, function(a, b))
        a, b = torch.randn(3, 4, dtype=real), make((3, 4), dtype)
        out = like(b)
        run(name, a, b, *alpha, out)
        close(out, function(a, b))
        for number in (3, -0.5):
            run(f"{name}s", b, number, *alpha, out)
            close(out, function(b, number))
            x = b.clone()
            run(f"Inplace{name}s", x, number, *alpha)
            close(x, function(b, number))
    a = make((3, 4), dtype)
    out = like(a)
    run("Rsubs", a, 2, 3, out)
    close(out, 2 - 3 * a)


@pytest.mark.parametrize("dtype", WIDTHS)
def test_scalars_that_are_complex(dtype):
    for a in (make((3, 4), dtype), torch.randn(3, 4, dtype=WIDTHS[dtype])):
        out = like(a.to(dtype))
        run("Muls", a, 2 - 3j, out)
        close(out, a * (2 - 3j))
        run("Adds", a, 1j, 1j, out)
        close(out, (a - 1).to(dtype))
        run("Divs", a, 2 + 1j, out)
        close(out, a / (2 + 1j))
    x = make((3, 4), dtype)
    run("InplaceFillScalar", x, 1 - 2j)
    assert (x == 1 - 2j).all()


@pytest.mark.parametrize("dtype", WIDTHS)
def test_one_operand(dtype):
    for name, function in (("Neg", torch.neg), ("Exp", torch.exp), ("Reciprocal", torch.reciprocal), ("Abs", torch.abs)):
        for x in layouts((3, 4, 5), dtype):
            want = function(x)
            out = like(want)
            run(name, x, out)
            close(out, want)
        run(name, make((0, 3), dtype), function(make((0, 3), dtype)))
    inf = float("inf")
    x = torch.tensor([complex(0, 0), complex(inf, inf), complex(-inf, 1), complex(1e30, 1e30), complex(3e-30, 4e-30)], dtype=dtype)
    out = x.abs() * 0
    run("Abs", x, out)
    close(out, x.abs())
    huge = torch.tensor([complex(1e30, -1e30)], dtype=dtype)
    out = torch.zeros_like(huge)
    run("Div", huge, huge, out)
    close(out, torch.ones_like(huge))


@pytest.mark.parametrize("dtype", WIDTHS)
def test_made_of_parts(dtype):
    a, b = torch.randn(3, 4, dtype=WIDTHS[dtype]), torch.randn(4, 3, dtype=WIDTHS[dtype]).t()
    for name, function in (("Complex", torch.complex), ("Polar", torch.polar)):
        out = like(function(a, b))
        call(name, a, b, out)
        close(out, function(a, b))


@pytest.mark.parametrize("dtype", WIDTHS)
def test_comparisons_and_choices(dtype):
    a = make((3, 4), dtype)
    b = a.clone()
    b[0, 1], b[1] = 5, b[1].conj().resolve_conj()
    for name, function in (("EqTensor", torch.eq), ("NeTensor", torch.ne)):
        out = torch.zeros(3, 4, dtype=torch.bool)
        run(name, a, b, out)
        assert torch.equal(out, function(a, b))
    mask = torch.rand(3, 4) > 0.5
    out = like(a)
    run("SWhere", mask, a, b, out)
    assert torch.equal(out, torch.where(mask, a, b))
    run("InplaceMaskedFillScalar", b, mask, 2j)
    assert torch.equal(b[mask], torch.full_like(b[mask], 2j))


@pytest.mark.parametrize("dtype", WIDTHS)
def test_sums_and_products_of_matrices(dtype):
    for x in layouts((3, 4, 5), dtype):
        for dims in ([0], [1, 2], [0, 1, 2], []):
            for name, function in (("ReduceSum", torch.sum), ("Mean", torch.mean)):
                want = function(x, dims or None, keepdim=True)
                out = like(want)
                run(name, x, dims, True, dtype, out)
                close(out, want)
    for a in layouts((4, 5), dtype):
        for b in (make((5, 3), dtype), torch.randn(5, 3, dtype=WIDTHS[dtype])):
            out = like(a @ b.to(dtype))
            run("Matmul", a, b, out, 0)
            close(out, a @ b.to(dtype))
        c = make((4, 3), dtype)
        run("Addmm", c, a, b, 2, 3, out, 0)
        close(out, 2 * c + 3 * (a @ b.to(dtype)))
        run("Addmm", c * float("nan"), a, b, 0, 1, out, 0)
        close(out, a @ b.to(dtype))


def test_other_types():
    x = make((3, 4), torch.complex64)
    for to in (torch.complex128, torch.float32, torch.float16):
        out = torch.zeros(3, 4, dtype=to)
        run("Cast", x, to, out)
        assert torch.equal(out, x.to(to))
    real = torch.randn(3, 4)
    for name, values in (("InplaceCopy", (x, real)), ("InplaceZero", (x,)), ("InplaceOne", (x,))):
        run(name, *values)
        assert torch.equal(x, {"InplaceCopy": real, "InplaceZero": real * 0, "InplaceOne": real * 0 + 1}[name].to(x.dtype))


def test_operators_without_a_complex_form_are_refused_by_name():
    x = make((3,), torch.complex64)
    with pytest.raises(Error, match="aclnnSigmoid: self is of type complex64") as e:
        run("Sigmoid", x, x.clone())
    assert e.value.code == 161002
