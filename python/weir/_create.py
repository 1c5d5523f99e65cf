"""Tensors from Python values, NumPy arrays and DLPack, and back.

The methods of Tensor that need NumPy or nested lists are defined here.
"""

import array
import numbers
from collections.abc import Sequence
from typing import Any

from . import _C
from ._C import Tensor
from .errors import UnavailableError

_CODES = {
    "float32": "f",
    "float64": "d",
    "int64": "q",
    "int32": "i",
    "int8": "b",
    "uint8": "B",
}


def _flatten(data, shape, depth, out):
    """Appends the numbers of nested sequences to ``out``, and appends their sizes to ``shape``."""
    if isinstance(data, (list, tuple)):
        if len(shape) == depth:
            shape.append(len(data))
        elif shape[depth] != len(data):
            raise ValueError(
                f"rows of different length: {shape[depth]} and {len(data)} at depth {depth}"
            )
        for item in data:
            _flatten(item, shape, depth + 1, out)
        return
    if depth != len(shape):
        raise ValueError(f"a number at depth {depth} among sequences of depth {len(shape)}")
    out.append(data.item() if hasattr(data, "item") else data)


def _natural_dtype(values):
    if values and all(isinstance(v, bool) for v in values):
        return _C.bool_
    if values and all(isinstance(v, int) for v in values):
        return _C.int64
    return _C.float32


def _from_values(data, dtype, device):
    shape, values = [], []
    _flatten(data, shape, 0, values)
    if dtype is None:
        dtype = _natural_dtype(values)
    # The module array has no letter for the half types and for bool: those are cast afterwards.
    name = _C.empty((0,), dtype).dtype.name if not isinstance(dtype, _C.dtype) else dtype.name
    kind = bool if name == "bool" else int if name[0] in "iu" else float
    code = "B" if name == "bool" else _CODES.get(name, "f")
    for value in values:
        if not isinstance(value, numbers.Real):
            raise TypeError(f"a tensor is made of numbers, not {value!r}")
    try:
        flat = array.array(code, [kind(v) for v in values])
    except OverflowError:
        between = f"one of {min(values)} to {max(values)}"
        raise OverflowError(f"{between} is out of range for {name}") from None
    t = _C.from_buffer(flat, device, True)
    return _ready(t.cast(dtype)).reshape(tuple(shape))


def _ready(made):
    """Returns the tensor once the current stream has filled it, so that every stream may use it."""
    return _C.wait_tensor(made, made)


def tensor(data: Any, dtype: Any = None, device: _C.Device | str | None = None) -> _C.Tensor:
    """A new tensor with a copy of the values: a number, nested sequences, an array or a tensor.

    It may be used on any stream at once, like all tensors that this module makes of values.
    Integers become int64, bools bool and everything else float32 unless ``dtype`` says otherwise.

    >>> weir.tensor([[1, 2], [3, 4]]).shape
    (2, 2)
    >>> weir.tensor(0.5).dtype
    weir.float32
    """
    if isinstance(data, (bool, int, float, list, tuple)):
        return _from_values(data, dtype, device)
    if isinstance(data, Tensor):
        made = data.clone() if device is None else _to_device(data, device)
    else:
        try:
            made = _C.from_buffer(data, device, True)
        except TypeError as error:
            made = _import(data, device, True, error)
    return _ready(made if dtype is None else made.cast(dtype))


def asarray(data: Any, dtype: Any = None, device: _C.Device | str | None = None) -> _C.Tensor:
    """A tensor that shares the memory of an array, tensor or buffer if possible.

    What cannot be shared (read-only memory, negative strides, Python values) is copied. The
    owner is kept alive until the last use of the bytes is over.

    >>> import numpy as np
    >>> a = np.zeros(2, np.float32)
    >>> t = weir.asarray(a).fill_(1)
    >>> weir.synchronize()
    >>> a.tolist()
    [1.0, 1.0]
    """
    if isinstance(data, Tensor) and device is None:
        return data if dtype is None else data.cast(dtype)
    if isinstance(data, (bool, int, float, list, tuple)):
        return _from_values(data, dtype, device)
    try:
        made = _C.from_buffer(data, device, False)
    except (BufferError, ValueError, UnavailableError):
        made = _C.from_buffer(data, device, True)
    except TypeError as error:
        made = _import(data, device, False, error)
    return made if dtype is None else _ready(made.cast(dtype))


def from_numpy(data: Any, device: _C.Device | str | None = None) -> _C.Tensor:
    """A tensor that shares a NumPy array's memory; raises if it cannot.

    >>> import numpy as np
    >>> a = np.zeros(2, np.float32)
    >>> t = weir.from_numpy(a)
    >>> a[0] = 5
    >>> t.tolist()
    [5.0, 0.0]
    """
    if isinstance(data, (list, tuple, int, float)):
        raise TypeError(f"from_numpy takes an array, not {type(data).__name__}: see weir.tensor")
    return _C.from_buffer(data, device, False)


def from_dlpack(data: Any, device: _C.Device | str | None = None) -> _C.Tensor:
    """A tensor that shares the memory of anything with ``__dlpack__``, such as PyTorch's.

    weir computes no gradients: a tensor that requires them must be detached first.

    >>> import numpy as np
    >>> weir.from_dlpack(np.ones(2, np.float32)).tolist()
    [1.0, 1.0]
    """
    _check_dlpack(data)
    if _is(data, "is_neg") or _is(data, "_is_zerotensor"):
        raise BufferError("the tensor's values are not what is in its memory: clone it first")
    device = _device(device)
    if hasattr(data, "__dlpack_device__") and data.__dlpack_device__()[0] == _DL_CUDA:
        # Its owner makes our stream wait for the values.
        return _C.from_capsule(data.__dlpack__(stream=device.current_stream().native), device)
    return _C.from_capsule(data.__dlpack__(), device)


_DL_CUDA = 2  # kDLCUDA


def _device(device):
    if device is None:
        return _C.get_device()
    return device if isinstance(device, _C.Device) else _C.Device(device)


def _check_dlpack(data):
    if not hasattr(data, "__dlpack__"):
        raise TypeError(f"{type(data).__name__} has no __dlpack__, so it cannot be shared")


def _is(data, question):
    ask = getattr(data, question, None)
    return ask is not None and ask()


def with_values(data):
    """Returns a tensor of PyTorch whose values are in its memory. DLPack cannot express two kinds
    of tensors that are not: lazily conjugated or negated ones, and zeros without memory (gradients
    of constants)."""
    return data.clone() if any(_is(data, x) for x in ("is_neg", "is_conj", "_is_zerotensor")) else data


def _import(data, device, copy, error):
    """Imports an object by DLPack: shares its memory, or copies it if the device cannot access it.
    ``error`` is raised if the object does not support DLPack: it says why it is no buffer."""
    if not hasattr(data, "__dlpack__"):
        raise TypeError(
            f"a tensor is made of numbers, nested sequences, arrays and tensors, not of "
            f"{type(data).__name__}"
        ) from None
    if hasattr(data, "__array_interface__"):
        raise error  # an array of a type that weir lacks
    data = with_values(data)
    device = _device(device)
    on = data.__dlpack_device__() if hasattr(data, "__dlpack_device__") else None
    if on is None or on == device.dlpack_device:
        made = from_dlpack(data, device)
        return made.clone() if copy else made
    source = _C.Device(f"cuda:{on[1]}" if on[0] == _DL_CUDA else "cpu:cube=1,vector=1")
    return _to_device(from_dlpack(data, source), device)


def full(
    shape: int | Sequence[int],
    value: float,
    dtype: Any = _C.float32,
    device: _C.Device | str | None = None,
) -> _C.Tensor:
    """A new tensor of one value.

    >>> weir.full((2,), 3).tolist()
    [3.0, 3.0]
    """
    return _ready(_C.empty(shape, dtype, device).fill_(value))


def zeros(
    shape: int | Sequence[int], dtype: Any = _C.float32, device: _C.Device | str | None = None
) -> _C.Tensor:
    """A new tensor of zeros.

    >>> weir.zeros((2,), weir.int64).tolist()
    [0, 0]
    """
    return full(shape, 0, dtype, device)


def ones(
    shape: int | Sequence[int], dtype: Any = _C.float32, device: _C.Device | str | None = None
) -> _C.Tensor:
    """A new tensor of ones.

    >>> weir.ones((2, 1)).tolist()
    [[1.0], [1.0]]
    """
    return full(shape, 1, dtype, device)


# ---- methods of Tensor ----


def _to_device(self, device):
    target = device if isinstance(device, _C.Device) else _C.Device(device)
    if target is self.device:
        return self
    return _C.empty(self.shape, self.dtype, target).copy_(self)


def to(self, target):
    """The tensor as another dtype, or on another device; itself if nothing changes."""
    if isinstance(target, _C.Device):
        return _to_device(self, target)
    return self.cast(target)


def numpy(self):
    """The values as a NumPy array, which shares memory if the device's memory is the host's.

    Waits for the values. Later writes to the tensor are visible in the array. bfloat16, which NumPy
    lacks, is copied to float32.
    """
    import numpy as np

    if self.dtype is _C.bfloat16:
        self.synchronize()
        self = self.cast(_C.float32)
    if self.device.properties()["host_memory"]:
        return np.asarray(memoryview(self))
    made = np.empty(self.shape, self.dtype.name)
    if made.size:
        self.read_into(made)
    return made


def tolist(self):
    """The values as a number or nested lists; waits for them."""
    if self.ndim == 0:
        return self.item()
    self.synchronize()
    if self.dtype in (_C.bfloat16, _C.float16):
        self = self.cast(_C.float32)
    if 0 in self.shape:
        return [t.tolist() for t in self] if self.ndim > 1 else []
    if self.device.properties()["host_memory"]:
        return memoryview(self).tolist()
    values = bytearray(self.nbytes)
    self.read_into(values)
    return memoryview(values).cast(_CODES.get(self.dtype.name, "?"), self.shape).tolist()


def _iterate(self):
    if self.ndim == 0:
        raise TypeError("a 0-d tensor cannot be iterated over")
    return (self[i] for i in range(self.shape[0]))


def _array(self, dtype=None, copy=None):
    made = self.numpy()
    if dtype is not None and made.dtype != dtype:
        return made.astype(dtype)
    return made.copy() if copy else made


def _transposed(self):
    return self.transpose(0, 1) if self.ndim == 2 else self.permute(range(self.ndim)[::-1])


def _deepcopy(self, memo):
    return self.clone()


def _format(self, spec):
    return format(self.item() if spec else str(self), spec)


Tensor.to = to
Tensor.numpy = numpy
Tensor.tolist = tolist
Tensor.__iter__ = _iterate
Tensor.__array__ = _array
Tensor.__deepcopy__ = _deepcopy
Tensor.__copy__ = lambda self: self.clone()
Tensor.__format__ = _format
Tensor.T = property(_transposed, doc="The tensor with its dims reversed: a view.")
