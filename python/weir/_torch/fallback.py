"""Operators that weir has not: PyTorch's own kernel, called inside the weir stream."""

import ctypes

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from .. import _C
from . import kernels, values

MAX_OUT = 4  # outputs of one host call
KEPT = 16  # sets of addresses for which tensors are kept


def _tensor_at(address, dtype, shape, strides):
    """A PyTorch tensor over memory that somebody else owns and keeps."""
    span = 1 + sum((n - 1) * s for n, s in zip(shape, strides)) if 0 not in shape else 0
    if span == 0:
        return torch.empty(shape, dtype=dtype)
    memory = (ctypes.c_char * (span * dtype.itemsize)).from_address(address)
    flat = torch.frombuffer(memory, dtype=dtype, count=span)
    return flat.as_strided(shape, strides)


class _Place:
    """Stands for tensor input ``index`` in a call's arguments."""

    def __init__(self, index):
        self.index = index


class Call:
    """One call of a PyTorch operator on fixed layouts, writing to contiguous outputs."""

    def __init__(self, op, args, kwargs, inputs, outputs):
        self.op, self.outputs = op, outputs  # outputs: [(dtype, shape)], None for a non-tensor
        self.leaves, self.spec = pytree.tree_flatten((args, kwargs))
        self.layouts = [_layout(v) for v in inputs]
        self._kept = {}

    def __call__(self, in_addresses, out_addresses):
        key = in_addresses + out_addresses
        tensors = self._kept.get(key)
        if tensors is None:
            tensors = self._bind(in_addresses, out_addresses)
            if len(self._kept) >= KEPT:
                self._kept.clear()
            self._kept[key] = tensors
        inputs, outputs = tensors
        args, kwargs = pytree.tree_unflatten(
            [inputs[leaf.index] if isinstance(leaf, _Place) else leaf for leaf in self.leaves],
            self.spec,
        )
        with torch.no_grad():
            results = self.op(*args, **kwargs)
            results = results if isinstance(results, (tuple, list)) else (results,)
            results = [r for r in results if isinstance(r, torch.Tensor)]
            for out, result in zip(outputs, results):
                out.copy_(result)
            for rest, slot in zip(results[len(outputs) :], self.later):
                slot.result = rest

    later = ()  # calls that deliver what does not fit

    def _bind(self, in_addresses, out_addresses):
        inputs = [
            _tensor_at(a, dtype, shape, strides)
            for a, (dtype, shape, strides) in zip(in_addresses, self.layouts)
        ]
        outputs = [
            _tensor_at(a, dtype, shape, values.contiguous_strides(shape))
            for a, (dtype, shape) in zip(out_addresses, self.outputs)
        ]
        return inputs, outputs


class _Deliver:
    """Writes an output that its call kept."""

    result = None

    def __init__(self, dtype, shape):
        self.dtype, self.shape = dtype, shape

    def __call__(self, in_addresses, out_addresses):
        strides = values.contiguous_strides(self.shape)
        _tensor_at(out_addresses[0], self.dtype, self.shape, strides).copy_(self.result)
        self.result = None


def _layout(value):
    if isinstance(value, values.Opaque):
        return value.dtype, value.shape, values.contiguous_strides(value.shape)
    return values.torch_dtype(value), value.shape, value.strides


def _is_value(x):
    return isinstance(x, (_C.Tensor, values.Opaque))


def infer(op, args, kwargs, is_value, fake):
    """What the operator gives, as fake tensors; runs nothing. ``fake`` makes one like a value."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        args, kwargs = pytree.tree_map(
            lambda x: fake(x) if is_value(x) else x, (args, kwargs), is_leaf=is_value
        )
        return op(*args, **kwargs)


def add(op, args, kwargs, anchor, device, effects):
    """Queues or captures the operator; gives values in the structure that it gives tensors.

    ``anchor`` orders an operator without tensor inputs; ``device`` is where the values are. One
    that gives no tensor, such as a check, is there for its effect: a value that stands for that is
    added to ``effects``.
    """

    def fake(x):
        dtype, shape, strides = _layout(x)
        return torch.empty_strided(shape, strides, dtype=dtype, device=device)

    made = infer(op, args, kwargs, _is_value, fake)
    inputs = []

    def place(x):
        if not _is_value(x):
            return x
        inputs.append(x)
        return _Place(len(inputs) - 1)

    args, kwargs = pytree.tree_map(place, (args, kwargs), is_leaf=_is_value)
    several = isinstance(made, (tuple, list))
    flat = list(made) if several else [made]
    outputs = [(r.dtype, tuple(r.shape)) for r in flat if isinstance(r, torch.Tensor)]
    if not outputs:
        outputs = [(torch.float32, (0,))]
    call = Call(kernels.WORDS.get(op, op), args, kwargs, inputs, outputs[:MAX_OUT])
    handles = [x.tensor if isinstance(x, values.Opaque) else x for x in inputs] or [anchor]
    name = str(op)
    stored = [values.storage(*o) for o in outputs]
    tensors = _C.host_call(name, call, handles, stored[:MAX_OUT])
    call.later = [_Deliver(*o) for o in outputs[MAX_OUT:]]
    for deliver, where in zip(call.later, stored[MAX_OUT:]):
        tensors += _C.host_call(name, deliver, [tensors[0]], [where])
    if not any(isinstance(r, torch.Tensor) for r in flat):
        effects.append(tensors[0])
    results = iter(values.wrap(t, *o) for t, o in zip(tensors, outputs))
    back = [next(results) if isinstance(r, torch.Tensor) else r for r in flat]
    return back if several else back[0]
