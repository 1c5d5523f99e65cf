"""``torch_npu.testing``: test cases that compare tensors, for tests written against torch_npu."""

import functools
import unittest

import numpy
import torch

__all__ = [
    "Dtypes",
    "SkipIfNotGteCANNVersion",
    "SupportedDevices",
    "TestCase",
    "create_common_tensor",
    "freeze_rng_state",
    "get_npu_device",
    "instantiate_tests",
    "run_tests",
    "skipIfUnsupportMultiNPU",
]


class TestCase(unittest.TestCase):
    """unittest.TestCase with comparisons of tensors."""

    precision = 1e-5
    maxDiff = None

    def assertEqual(self, x, y, prec=None, message="", **options):
        """Asserts equality: numbers and tensors up to ``prec``, lists and dicts element by
        element."""
        prec = self.precision if prec is None else prec
        if isinstance(x, torch.Tensor) or isinstance(y, torch.Tensor):
            torch.testing.assert_close(
                torch.as_tensor(x), torch.as_tensor(y), rtol=1.3e-6, atol=prec, equal_nan=True,
                check_dtype=isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor),
            )  # fmt: skip
        elif isinstance(x, float) and isinstance(y, (int, float)):
            self.assertLessEqual(abs(x - y), prec, message or None)
        elif isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)):
            super().assertEqual(len(x), len(y), message or None)
            for a, b in zip(x, y):
                self.assertEqual(a, b, prec, message)
        else:
            super().assertEqual(x, y, message or None)

    def assertRtolEqual(self, x, y, prec=1e-4, prec16=1e-3, auto_trans_dtype=False, message=None):
        """Asserts equality up to a relative error that depends on the type."""
        for a, b in zip(*(v if isinstance(v, (list, tuple)) else [v] for v in (x, y))):
            a, b = torch.as_tensor(a).detach(), torch.as_tensor(b).detach()
            if not auto_trans_dtype:
                super().assertEqual(a.dtype, b.dtype, message)
            narrow = a.dtype in (torch.float16, torch.bfloat16)
            limit = prec16 if narrow else prec
            torch.testing.assert_close(
                a.double(), b.double(), rtol=limit, atol=limit, equal_nan=True
            )

    def assertExpectedRaises(self, kind, function, *args, **kwargs):
        """Asserts that the call raises."""
        self.assertRaises(kind, function, *args, **kwargs)


def run_tests():
    """Runs the tests of the module that is run."""
    unittest.main(argv=["tests"])


def _any_device(*names):
    """A decorator that always runs the test: weir's devices count as all kinds."""
    return lambda thing: thing


SupportedDevices = SkipIfNotGteCANNVersion = _any_device


def skipIfUnsupportMultiNPU(count):
    """A decorator that skips the test if there are fewer NPUs."""
    there = torch.npu.device_count()
    return unittest.skipIf(there < count, f"needs {count} NPUs, and there are {there}")


def get_npu_device():
    """The device for the tests' tensors."""
    return "npu:0"


def create_common_tensor(item, minValue, maxValue, device=None):
    """(on the host, on the NPU) with the same numbers; item is [dtype, format, shape]."""
    dtype, _, shape = item
    made = torch.from_numpy(numpy.random.uniform(minValue, maxValue, shape).astype(dtype))
    return made, made.to(device or get_npu_device())


def freeze_rng_state():
    """A context that restores the state of the random number generator."""
    return torch.random.fork_rng(devices=[])


def Dtypes(*dtypes):
    """Marks a test to run once with each type; see instantiate_tests."""

    def mark(function):
        function.weir_dtypes = dtypes
        return function

    return mark


def instantiate_tests(cls):
    """Makes one test per type with which a method is marked."""
    for name, function in list(vars(cls).items()):
        for dtype in getattr(function, "weir_dtypes", ()):
            made = functools.partialmethod(function, dtype)
            setattr(cls, f"{name}_{str(dtype).rpartition('.')[2]}", made)
        if hasattr(function, "weir_dtypes"):
            delattr(cls, name)
    return cls
