"""Tensors for the tests: every type, strided, broadcast, empty."""
import torch

FLOAT = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INT = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
TYPES = {"FLOAT": FLOAT, "INT": INT, "NUMBER": FLOAT + INT, "BITS": INT + (torch.bool,),
         "ALL": FLOAT + INT + (torch.bool,), "INDEX": (torch.int64, torch.int32), "I8": (torch.int8,), "FLOAT_INT4": FLOAT,
         "TOKEN": tuple(t for t in FLOAT if t != torch.float64),
         "MOVE": FLOAT + INT + (torch.bool, torch.complex64)}

TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float64: 1e-9}


def make(shape, dtype, low=-3.0, high=3.0):
    """Values of low..high; integers have all of them inside."""
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    if dtype.is_complex:
        return torch.complex(make(shape, torch.float32), make(shape, torch.float32))
    if dtype.is_floating_point:
        return (torch.rand(shape, dtype=torch.float64) * (high - low) + low).to(dtype)
    low, high = max(int(low), 0 if dtype == torch.uint8 else -100), min(int(high), 100)
    return torch.randint(low, max(high, low) + 1, shape, dtype=torch.int64).to(dtype)


def layouts(shape, dtype, low=-3.0, high=3.0):
    """The same shape laid out in memory in several ways."""
    yield make(shape, dtype, low, high)
    if len(shape) >= 2:
        yield make(tuple(reversed(shape)), dtype, low, high).permute(*reversed(range(len(shape))))
        wider = list(shape)
        wider[-1] = wider[-1] * 2 + 1
        yield make(tuple(wider), dtype, low, high)[..., 1::2]


def empty_like(t, dtype=None, strided=False):
    """Somewhere to write: filled with a value that must not stay."""
    dtype = dtype or t.dtype
    fill = True if dtype == torch.bool else 77
    if strided and t.dim() >= 2:
        out = torch.full(tuple(reversed(t.shape)), fill, dtype=dtype)
        return out.permute(*reversed(range(t.dim())))
    return torch.full(tuple(t.shape), fill, dtype=dtype)


def close(got, want, scale=1.0, what=""):
    """Fails unless got has want's values, to the precision of got's type."""
    assert tuple(got.shape) == tuple(want.shape), f"{what}: shape {got.shape}, not {want.shape}"
    if not got.dtype.is_floating_point:
        want = want.to(got.dtype)
        assert torch.equal(got, want), f"{what}: {got} is not {want}"
        return
    tolerance = TOLERANCE[got.dtype] * scale
    torch.testing.assert_close(got.double(), want.double(), rtol=tolerance, atol=tolerance,
                               equal_nan=True, msg=lambda m: f"{what}: {m}")
