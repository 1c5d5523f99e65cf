"""Calls aclnn operators through the C interface, on copies of PyTorch's CPU tensors.

The signatures are read from the table itself (include/aclnnop/rows.h, by the C preprocessor), so a row
that is wrong about its operands cannot be called right.
"""
import ctypes
import functools
import os
import pathlib
import subprocess

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
TYPES = {
    torch.float32: 0, torch.float16: 1, torch.int8: 2, torch.int32: 3, torch.uint8: 4,
    torch.int16: 6, torch.uint16: 7, torch.int64: 9, torch.float64: 11, torch.bool: 12, torch.complex64: 16,
    torch.complex128: 17, torch.bfloat16: 27,
}
C = ctypes
P = C.c_void_p
SCALARS = {"I": C.c_int64, "J": C.c_int8, "K": C.c_int32, "B": C.c_bool, "F": C.c_double,
           "G": C.c_float, "Y": C.c_int, "C": C.c_char_p}


@functools.cache
def rows():
    """{name: [(letter, operand), ...]} of every operator."""
    text = ("#define WEIR_ACLNN_ROW(name, run, types, ...) @ name ; types ; __VA_ARGS__\n"
            '#include "aclnnop/rows.h"\n')
    out = subprocess.run(["cc", "-E", "-P", "-I", str(ROOT / "cann/include"), "-x", "c", "-"],
                         input=text, capture_output=True, text=True, check=True).stdout
    table = {}
    for line in " ".join(out.split()).split("@")[1:]:
        name, types, operands = (part.strip() for part in line.split(";"))
        pairs = []
        for operand in operands.split(","):
            letter, _, rest = operand.strip().partition("(")
            pairs.append((letter, rest.rstrip(")")))
        table[name] = (types, pairs)
    return table


def library_dir():
    at = os.environ.get("WEIR_CANN_LIB")
    return pathlib.Path(at) if at else ROOT / "build/release/cann/latest/lib64"


class Error(RuntimeError):
    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code = code


class Runtime:
    """Device memory by aclrtMalloc."""

    def __init__(self):
        self.acl = C.CDLL(str(library_dir() / "libascendcl.so"), mode=C.RTLD_GLOBAL)
        self.op = C.CDLL(str(library_dir() / "libopapi.so"), mode=C.RTLD_GLOBAL)
        self.acl.aclGetRecentErrMsg.restype = C.c_char_p
        self.check(self.acl.aclInit(None))
        self.check(self.acl.aclrtSetDevice(0))

    def message(self):
        return (self.acl.aclGetRecentErrMsg() or b"").decode()

    def check(self, code):
        if code:
            raise Error(code, self.message())

    def to_device(self, storage):
        at = P()
        self.check(self.acl.aclrtMalloc(C.byref(at), C.c_size_t(max(storage.nbytes(), 32)), 0))
        self.check(self.acl.aclrtMemcpy(at, C.c_size_t(storage.nbytes()), P(storage.data_ptr()),
                                        C.c_size_t(storage.nbytes()), 1))
        return at.value

    def to_host(self, at, storage):
        self.check(self.acl.aclrtMemcpy(P(storage.data_ptr()), C.c_size_t(storage.nbytes()), P(at),
                                        C.c_size_t(storage.nbytes()), 2))

    def free(self, at):
        self.check(self.acl.aclrtFree(P(at)))

    def sync(self):
        self.check(self.acl.aclrtSynchronizeStream(None))


@functools.cache
def runtime():
    r = Runtime()
    for name in ("aclCreateTensor", "aclCreateScalar", "aclCreateIntArray", "aclCreateFloatArray",
                 "aclCreateBoolArray", "aclCreateTensorList", "aclCreateScalarList"):
        getattr(r.op, name).restype = P
    return r


class Call:
    """One call: keeps what it made until it is over, then brings the tensors back."""

    def __init__(self):
        self.r = runtime()
        self.storages = {}
        self.objects = []

    def made(self, kind, handle):
        if not handle:
            raise Error(-1, self.r.message())
        self.objects.append((kind, handle))
        return handle

    def raw_tensor(self, t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in self.storages and storage.nbytes():
            self.storages[storage.data_ptr()] = (storage, self.r.to_device(storage))
        address = self.storages[storage.data_ptr()][1] if storage.nbytes() else 0
        n = t.dim()
        dims = (C.c_int64 * max(n, 1))(*t.shape)
        strides = (C.c_int64 * max(n, 1))(*t.stride())
        length = (C.c_int64 * 1)(storage.nbytes() // t.element_size())
        return self.r.op.aclCreateTensor(dims, C.c_uint64(n), TYPES[t.dtype], strides,
                                         C.c_int64(t.storage_offset()), 2, length, C.c_uint64(1),
                                         P(address))

    def tensor(self, t):
        return self.made("Tensor", self.raw_tensor(t))

    def raw_scalar(self, v):
        if isinstance(v, bool):
            return self.r.op.aclCreateScalar(C.byref(C.c_bool(v)), 12)
        if isinstance(v, int):
            return self.r.op.aclCreateScalar(C.byref(C.c_int64(v)), 9)
        if isinstance(v, complex):
            return self.r.op.aclCreateScalar(C.byref((C.c_double * 2)(v.real, v.imag)), 17)
        return self.r.op.aclCreateScalar(C.byref(C.c_double(v)), 11)

    def operand(self, letter, value):
        op = self.r.op
        kind = letter[0]
        if kind in SCALARS:
            if kind == "Y":
                return C.c_int(TYPES[value])
            if kind == "C":
                return C.c_char_p(value.encode()) if value is not None else None
            return SCALARS[kind](value)
        if value is None:
            return None
        if kind in "TOX":
            return P(self.tensor(value))
        if kind in "LM":
            handles = (P * max(len(value), 1))(*[self.raw_tensor(t) if t is not None else None
                                                 for t in value])
            return P(self.made("TensorList", op.aclCreateTensorList(handles, C.c_uint64(len(value)))))
        if kind == "S":
            return P(self.made("Scalar", self.raw_scalar(value)))
        if kind == "Z":
            handles = (P * max(len(value), 1))(*[self.raw_scalar(v) for v in value])
            return P(self.made("ScalarList", op.aclCreateScalarList(handles, C.c_uint64(len(value)))))
        if kind == "N":
            data = (C.c_int64 * max(len(value), 1))(*value)
            return P(self.made("IntArray", op.aclCreateIntArray(data, C.c_uint64(len(value)))))
        if kind == "D":
            data = (C.c_float * max(len(value), 1))(*value)
            return P(self.made("FloatArray", op.aclCreateFloatArray(data, C.c_uint64(len(value)))))
        if kind == "A":
            data = (C.c_bool * max(len(value), 1))(*value)
            return P(self.made("BoolArray", op.aclCreateBoolArray(data, C.c_uint64(len(value)))))
        raise AssertionError(letter)

    def run(self, name, *values):
        _, operands = rows()[name]
        assert len(values) == len(operands), f"{name} takes {operands}"
        args = [self.operand(letter, v) for (letter, _), v in zip(operands, values)]
        size, executor = C.c_uint64(99), P()
        first = getattr(self.r.op, f"aclnn{name}GetWorkspaceSize")
        second = getattr(self.r.op, f"aclnn{name}")
        try:
            self.r.check(first(*args, C.byref(size), C.byref(executor)))
            # as torch_npu does it: the objects are gone before the second phase
            for kind, handle in self.objects:
                self.r.check(getattr(self.r.op, f"aclDestroy{kind}")(P(handle)))
            self.objects = []
            self.r.check(second(None, size, executor, None))
            self.r.sync()
            for storage, at in self.storages.values():
                self.r.to_host(at, storage)
        finally:
            for kind, handle in self.objects:
                getattr(self.r.op, f"aclDestroy{kind}")(P(handle))
            for _, at in self.storages.values():
                self.r.free(at)


ran = {}  # {operator: {type of its first tensor: operands of a call that went well}}


def first_tensor(name, values):
    """The operator's first tensor, which the types in its row are of."""
    for (letter, _), value in zip(rows()[name][1], values):
        if letter[0] in "TOXLM" and value is not None:
            return next((t for t in value if t is not None), None) if letter[0] in "LM" else value
    return None


def call(name, *values):
    """Runs aclnn<name>; tensors that it writes are written in place."""
    Call().run(name, *values)
    tensor = first_tensor(name, values)
    if tensor is not None:
        ran.setdefault(name, {}).setdefault(tensor.dtype, values)
