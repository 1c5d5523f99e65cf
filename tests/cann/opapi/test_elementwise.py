"""Elementwise operators against PyTorch: types, promotion, strides, broadcasting, in place, empty."""
import pytest
import torch
from torch.nn import functional as F

from aclnn import Error, call, rows
from samples import FLOAT, INT, TYPES, close, empty_like, layouts, make

COVERED = set()

# name: (reference, low, high)
UNARY = {
    "Neg": (torch.neg, -3, 3), "Relu": (torch.relu, -3, 3), "Exp": (torch.exp, -3, 3),
    "Log": (torch.log, 0.1, 9), "Sqrt": (torch.sqrt, 0, 9), "Rsqrt": (torch.rsqrt, 0.1, 9),
    "Sigmoid": (torch.sigmoid, -9, 9), "Tanh": (torch.tanh, -3, 3), "Sin": (torch.sin, -9, 9),
    "Cos": (torch.cos, -9, 9), "Tan": (torch.tan, -1, 1), "Asin": (torch.asin, -1, 1),
    "Acos": (torch.acos, -1, 1), "Atan": (torch.atan, -3, 3), "Sinh": (torch.sinh, -3, 3),
    "Cosh": (torch.cosh, -3, 3), "Asinh": (torch.asinh, -3, 3), "Acosh": (torch.acosh, 1, 9),
    "Atanh": (torch.atanh, -0.9, 0.9), "Erf": (torch.erf, -3, 3), "Erfc": (torch.erfc, -3, 3),
    "Erfinv": (torch.erfinv, -0.95, 0.95), "Exp2": (torch.exp2, -3, 3),
    "Expm1": (torch.expm1, -3, 3), "Log1p": (torch.log1p, -0.5, 9), "Log2": (torch.log2, 0.1, 9),
    "Log10": (torch.log10, 0.1, 9), "Sinc": (torch.sinc, -3, 3), "Floor": (torch.floor, -9, 9),
    "Ceil": (torch.ceil, -9, 9), "Round": (torch.round, -9, 9), "Trunc": (torch.trunc, -9, 9),
    "Frac": (torch.frac, -9, 9), "Reciprocal": (torch.reciprocal, 0.5, 3),
    "LogicalNot": (torch.logical_not, -1, 1), "Mish": (F.mish, -9, 9),
    "Hardsigmoid": (F.hardsigmoid, -5, 5), "Hardswish": (F.hardswish, -5, 5),
    "Abs": (torch.abs, -3, 3), "Gelu": (F.gelu, -3, 3), "Silu": (F.silu, -3, 3),
    "FastGelu": (lambda x: x * torch.sigmoid(1.702 * x), -3, 3), "Sign": (torch.sign, -2, 2),
    "Signbit": (torch.signbit, -2, 2), "BitwiseNot": (torch.bitwise_not, -5, 5),
}


def compute(reference, x):
    """What PyTorch gives, in f32 for halves where it would round more than once."""
    if x.dtype in (torch.float16, torch.bfloat16):
        return reference(x.float()).to(x.dtype) if reference(x.float()).is_floating_point() \
            else reference(x.float())
    return reference(x)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    reference, low, high = UNARY[name]
    COVERED.add(name)
    for dtype in TYPES[rows()[name][0]]:
        if name == "Frac" and not dtype.is_floating_point:
            continue
        for x in layouts((3, 4, 5), dtype, low, high):
            want = compute(reference, x)
            out = empty_like(x, want.dtype, strided=True)
            call(name, x, out)
            close(out, want, 4, f"{name} {dtype}")
            if f"Inplace{name}" in rows() and want.dtype == dtype:
                COVERED.add(f"Inplace{name}")
                y = x.clone()
                call(f"Inplace{name}", y)
                close(y, want, 4, f"Inplace{name} {dtype}")
        x = make((0, 3), dtype)
        call(name, x, empty_like(x, compute(reference, x).dtype))
    if f"Inplace{name}" in rows():
        COVERED.add(f"Inplace{name}")
        x = make((4,), torch.float32, low, high) if "Bitwise" not in name else None
        if x is not None:
            want = reference(x).float()
            call(f"Inplace{name}", x)
            close(x, want, 4)


BINARY = {
    "Mul": (torch.mul, -3, 3), "Div": (torch.div, 1, 5), "FloorDivide": (torch.floor_divide, 1, 9),
    "Fmod": (torch.fmod, 1, 9), "Remainder": (torch.remainder, 1, 9), "Eq": (torch.eq, 0, 2),
    "Ne": (torch.ne, 0, 2), "Lt": (torch.lt, 0, 2), "Le": (torch.le, 0, 2), "Gt": (torch.gt, 0, 2),
    "Ge": (torch.ge, 0, 2), "BitwiseAnd": (torch.bitwise_and, 0, 60),
    "BitwiseOr": (torch.bitwise_or, 0, 60), "BitwiseXor": (torch.bitwise_xor, 0, 60),
    "Pow": (torch.pow, 1, 3), "XLogY": (torch.xlogy, 0, 4), "Maximum": (torch.maximum, -3, 3),
    "Minimum": (torch.minimum, -3, 3), "Atan2": (torch.atan2, -3, 3),
    "LeftShift": (torch.bitwise_left_shift, 0, 3), "RightShift": (torch.bitwise_right_shift, 0, 5),
    "Gcd": (torch.gcd, 0, 60), "LogAddExp": (torch.logaddexp, -9, 9),
    "LogAddExp2": (torch.logaddexp2, -9, 9), "LogicalAnd": (torch.logical_and, 0, 1),
    "LogicalOr": (torch.logical_or, 0, 1), "LogicalXor": (torch.logical_xor, 0, 1),
}
FORMS = {"Fmod": ("Tensor", "Scalar"), "Remainder": ("TensorTensor", "TensorScalar"),
         "Pow": ("TensorTensor", "TensorScalar"), "XLogY": ("Tensor", "ScalarOther"),
         "Mul": ("", "s"), "Div": ("", "s"), "FloorDivide": ("", "s")}
for _name in ("Eq", "Ne", "Lt", "Le", "Gt", "Ge", "BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    FORMS[_name] = ("Tensor", "Scalar")


def both(reference, x, y):
    t = torch.result_type(x, y)
    if t in (torch.float16, torch.bfloat16):
        wide = reference(x.float(), y.float() if isinstance(y, torch.Tensor) else y)
        return wide.to(t) if wide.is_floating_point() else wide
    return reference(x, y)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    reference, low, high = BINARY[name]
    tensor_form, scalar_form = FORMS.get(name, ("", None))
    full = name + tensor_form
    types = TYPES[rows()[full][0]]
    for dtype in types:
        for x, y in zip(layouts((3, 4, 5), dtype, low, high), layouts((4, 5), dtype, low, high)):
            want = both(reference, x, y)
            out = empty_like(want, strided=True)
            call(full, x, y, out)
            close(out, want, 4, f"{full} {dtype}")
            if f"Inplace{full}" in rows() and want.dtype == dtype:
                z = x.clone()
                call(f"Inplace{full}", z, y)
                close(z, want, 4, f"Inplace{full} {dtype}")
        if scalar_form is not None and dtype != torch.bool:
            scalar = 2 if not dtype.is_floating_point or "Bitwise" in name else 1.5
            want = both(reference, x, scalar)
            out = empty_like(want)
            call(name + scalar_form, x, scalar, out)
            close(out, want, 4, f"{name + scalar_form} {dtype}")
            if want.dtype == dtype:
                z = x.clone()
                call(f"Inplace{name + scalar_form}", z, scalar)
                close(z, want, 4, f"Inplace{name + scalar_form} {dtype}")
    for form in (full, *( [name + scalar_form] if scalar_form is not None else [])):
        COVERED.update({form, f"Inplace{form}"})


@pytest.mark.parametrize("name", ("Mul", "Div", "Maximum", "Eq", "Lt", "Pow"))
def test_binary_promotes_as_pytorch_does(name):
    reference, low, high = BINARY[name]
    full = name + FORMS.get(name, ("",))[0]
    types = FLOAT + INT + (() if name == "Pow" else (torch.bool,))
    for a in types:
        for b in types:
            if {a, b} == {torch.int8, torch.uint8} and name == "Div":
                continue
            x, y = make((3, 4), a, 1, 3), make((4,), b, 1, 3)
            want = reference(x, y)
            out = empty_like(want)
            call(full, x, y, out)
            wide = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
            exact = reference(x.to(wide.get(a, a)), y.to(wide.get(b, b)))
            close(out, exact.to(want.dtype), 4, f"{name} {a} {b}")


@pytest.mark.parametrize("name", ("Add", "Sub"))
def test_add_and_sub(name):
    reference = torch.add if name == "Add" else torch.sub
    for dtype in TYPES[rows()[name][0]]:
        for alpha in (1, 2):
            for x, y in zip(layouts((3, 4, 5), dtype), layouts((4, 5), dtype)):
                if dtype == torch.bool:
                    want = torch.logical_or(x, y)
                elif dtype in (torch.float16, torch.bfloat16):
                    want = reference(x.float(), y.float(), alpha=alpha).to(dtype)
                else:
                    want = reference(x, y, alpha=alpha)
                out = empty_like(want, strided=True)
                call(name, x, y, alpha if dtype != torch.bool else True, out)
                close(out, want, 1, f"{name} {dtype}")
                if dtype == torch.bool:
                    continue
                z = x.clone()
                call(f"Inplace{name}", z, y, alpha)
                close(z, want, 1)
                scalar = 3 if not dtype.is_floating_point else 0.5
                want = reference(x.double() if dtype.is_floating_point else x, scalar,
                                 alpha=alpha).to(dtype)
                call(f"{name}s", x, scalar, alpha, out)
                close(out, want, 2, f"{name}s {dtype}")
                z = x.clone()
                call(f"Inplace{name}s", z, scalar, alpha)
                close(z, want, 2)
    x, y = make((3,), torch.float32), make((3,), torch.float32)
    out = empty_like(x)
    call("Rsub", x, y, 2, out)
    close(out, torch.rsub(x, y, alpha=2))
    call("Rsubs", x, 3, 2, out)
    close(out, torch.rsub(x, 3, alpha=2))
    for n in (name, f"{name}s", f"Inplace{name}", f"Inplace{name}s", "Rsub", "Rsubs"):
        COVERED.add(n)


def test_large_integers_stay_exact():
    big = 2**60 + 1
    x = torch.tensor([big, -big, 5])
    out = torch.empty_like(x)
    call("Adds", x, 2**61 + 1, 1, out)
    assert torch.equal(out, x + (2**61 + 1))
    call("InplaceFillScalar", out, big)
    assert out.tolist() == [big] * 3
    COVERED.add("InplaceFillScalar")
    got = torch.empty(3, dtype=torch.bool)
    call("EqScalar", x, big, got)
    assert got.tolist() == [True, False, False]


def test_integer_tensor_with_float_scalar_gives_floats():
    x = torch.arange(4)
    for name, reference in (("Adds", torch.add), ("Subs", torch.sub)):
        out = torch.empty(4)
        call(name, x, 0.5, 1, out)
        close(out, reference(x, 0.5))
    out = torch.empty(4)
    call("Muls", x, 0.5, out)
    close(out, x * 0.5)
    got = torch.empty(4, dtype=torch.bool)
    call("GtScalar", x, 1.5, got)
    assert got.tolist() == [False, False, True, True]


def test_division_modes():
    for dtype in (torch.float32, torch.float64, torch.int64, torch.int32):
        x, y = make((6, 5), dtype, -9, 9), make((5,), dtype, 1, 4)
        for mode, text in ((0, None), (1, "trunc"), (2, "floor")):
            want = torch.div(x, y, rounding_mode=text)
            out = empty_like(want)
            call("DivMod", x, y, mode, out)
            close(out, want)
            want = torch.div(x, 2, rounding_mode=text)
            out = empty_like(want)
            call("DivMods", x, 2, mode, out)
            close(out, want)
            if want.dtype == dtype:
                z = x.clone()
                call("InplaceDivMods", z, 2, mode)
                close(z, want)
                z = x.clone()
                call("InplaceDivMod", z, y, mode)
                close(z, torch.div(x, y, rounding_mode=text))
    COVERED.update({"DivMod", "DivMods", "InplaceDivMod", "InplaceDivMods"})


def test_a_scalar_is_rounded_to_half_precision_before_it_is_compared():
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        x = torch.arange(0, 100, 1 / 64).to(dtype)
        for name in ("Eq", "Ne", "Lt", "Le", "Gt", "Ge"):
            for scalar in (31.71, 7.3333, 0.1):
                out = torch.empty(x.shape, dtype=torch.bool)
                call(f"{name}Scalar", x, scalar, out)
                close(out, getattr(torch, name.lower())(x, scalar))


def test_floats_do_not_become_integers_in_place():
    x = torch.arange(6)
    for name, operands in (("Add", (torch.rand(6), 1)), ("Sub", (torch.rand(6), 1)),
                           ("Mul", (torch.rand(6),)), ("Muls", (2.5,)), ("Div", (x + 1,))):
        with pytest.raises(Error, match="can't be cast to the desired output type"):
            call(f"Inplace{name}", x, *operands)
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_scalar_first():
    y = make((3, 4), torch.float32, 1, 3)
    for name, reference in (("PowScalarTensor", torch.pow), ("RemainderScalarTensor", torch.remainder),
                            ("XLogYScalarSelf", torch.xlogy)):
        COVERED.add(name)
        out = empty_like(y)
        call(name, 2.5, y, out)
        close(out, reference(torch.tensor(2.5), y))
        i = make((3, 4), torch.int64, 1, 3)
        if name != "XLogYScalarSelf":
            got = empty_like(i)
            call(name, 2, i, got)
            close(got, reference(torch.tensor(2), i))


def test_special_values():
    x = torch.tensor([float("inf"), float("-inf"), float("nan"), 0.0, -0.0, 1.5])
    got = torch.empty(6, dtype=torch.bool)
    for name, want in (("IsFinite", torch.isfinite(x)), ("IsPosInf", torch.isposinf(x)),
                       ("IsNegInf", torch.isneginf(x)), ("Signbit", torch.signbit(x))):
        COVERED.add(name)
        call(name, x, got)
        if name == "Signbit":  # the sign of NaN is not seen
            assert torch.equal(got[[0, 1, 3, 4, 5]], want[[0, 1, 3, 4, 5]])
        else:
            assert torch.equal(got, want), name
    i = torch.arange(6)
    for name, want in (("IsFinite", True), ("IsPosInf", False), ("IsNegInf", False)):
        call(name, i, got)
        assert bool((got == want).all())
    out = torch.empty(6)
    call("NanToNum", x, 1.0, 2.0, 3.0, out)
    close(out, torch.nan_to_num(x, 1.0, 2.0, 3.0))
    y = x.clone()
    call("InplaceNanToNum", y, 1.0, 2.0, 3.0)
    close(y, out)
    COVERED.update({"NanToNum", "InplaceNanToNum"})
    y = torch.tensor([1.0, float("-inf"), float("nan"), 0.0, 1e-9, 1.5])
    for equal_nan in (False, True):
        call("IsClose", x, y, 1e-5, 1e-8, equal_nan, got)
        assert torch.equal(got, torch.isclose(x, y, equal_nan=equal_nan))
    COVERED.add("IsClose")
    for name, reference in (("Maximum", torch.maximum), ("Minimum", torch.minimum)):
        call(name, x, y, out)
        close(out, reference(x, y))


def test_rounding_to_decimals():
    x = torch.tensor([1.2345, -7.891, 1234.5])
    for decimals in (0, 2, -2):
        out = empty_like(x)
        call("RoundDecimals", x, decimals, out)
        close(out, torch.round(x, decimals=decimals))
        y = x.clone()
        call("InplaceRoundDecimals", y, decimals)
        close(y, out)
    COVERED.update({"RoundDecimals", "InplaceRoundDecimals"})


def test_three_operands():
    for dtype in FLOAT:
        for x, y, z in zip(layouts((3, 4), dtype, 1, 3), layouts((3, 4), dtype, 1, 3),
                           layouts((3, 4), dtype, 1, 3)):
            for name, reference in (("Addcmul", torch.addcmul), ("Addcdiv", torch.addcdiv)):
                want = reference(x.double(), y.double(), z.double(), value=0.5).to(dtype)
                out = empty_like(x, strided=True)
                call(name, x, y, z, 0.5, out)
                close(out, want, 2)
                w = x.clone()
                call(f"Inplace{name}", w, y, z, 0.5)
                close(w, want, 2)
                COVERED.update({name, f"Inplace{name}"})
            for weight in (0.25, 0.75):
                want = torch.lerp(x.double(), y.double(), weight).to(dtype)
                out = empty_like(x)
                call("Lerps", x, y, weight, out)
                close(out, want, 2)
                w = x.clone()
                call("InplaceLerps", w, y, weight)
                close(w, want, 2)
            t = make((3, 4), dtype, 0, 1)
            call("Lerp", x, y, t, out)
            close(out, torch.lerp(x.double(), y.double(), t.double()).to(dtype), 2)
            w = x.clone()
            call("InplaceLerp", w, y, t)
            close(w, out)
    COVERED.update({"Lerp", "Lerps", "InplaceLerp", "InplaceLerps"})
    for dtype in TYPES["ALL"]:
        condition = make((3, 1), torch.bool)
        x, y = make((3, 4), dtype), make((4,), dtype)
        out = empty_like(x)
        call("SWhere", condition, x, y, out)
        close(out, torch.where(condition, x, y))
        mask = make((3, 4), torch.bool)
        value = 2 if dtype != torch.bool else True
        want = x.masked_fill(mask, value)
        call("MaskedFillScalar", x, mask, value, out)
        close(out, want)
        z = x.clone()
        call("InplaceMaskedFillScalar", z, mask, value)
        close(z, want)
        z = x.clone()
        call("InplaceMaskedFillTensor", z, mask, torch.tensor(value, dtype=dtype))
        close(z, want)
    COVERED.update({"SWhere", "MaskedFillScalar", "InplaceMaskedFillScalar",
                    "InplaceMaskedFillTensor"})


def test_clamps():
    for dtype in TYPES["NUMBER"]:
        low, high = (1, 2) if not dtype.is_floating_point else (-0.5, 1.25)
        for x in layouts((3, 4), dtype):
            out = empty_like(x, strided=True)
            for a, b in ((low, high), (low, None), (None, high)):
                call("Clamp", x, a, b, out)
                close(out, torch.clamp(x, a, b))
            for name, want in (("ClampMin", x.clamp_min(low)), ("ClampMax", x.clamp_max(low))):
                call(name, x, low, out)
                close(out, want)
                z = x.clone()
                call(f"Inplace{name}", z, low)
                close(z, want)
                COVERED.update({name, f"Inplace{name}"})
            a, b = make((4,), dtype, -1, 0), make((3, 1), dtype, 1, 2)
            call("ClampTensor", x, a, b, out)
            close(out, torch.clamp(x, a, b))
            call("ClampTensor", x, None, b, out)
            close(out, torch.clamp(x, None, b))
            for name, want in (("ClampMinTensor", x.clamp_min(a)), ("ClampMaxTensor", x.clamp_max(a))):
                call(name, x, a, out)
                close(out, want)
                z = x.clone()
                call(f"Inplace{name}", z, a)
                close(z, want)
                COVERED.update({name, f"Inplace{name}"})
    COVERED.update({"Clamp", "ClampTensor"})


def test_a_result_that_does_not_fit_is_refused():
    x = torch.randn(3, 4)
    with pytest.raises(Error) as e:
        call("Mul", x, x, torch.empty(5))
    assert e.value.code == 161002
    with pytest.raises(Error) as e:
        call("Sin", x, torch.empty(5))
    assert e.value.code == 161002 and "[3, 4]" in str(e.value)


def test_a_type_that_weir_does_not_have_is_named():
    x = torch.ones(3, dtype=torch.complex64)
    with pytest.raises(Error, match="aclnnTanh: self is of type complex64") as e:
        call("Tanh", x, x)
    assert e.value.code == 161002
