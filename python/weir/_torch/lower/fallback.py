"""Operators that weir lacks: calls PyTorch's kernels inside the weir stream."""

import ctypes
import operator

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from ... import _C
from .. import effects, kernels, values
from ..graph.places import Unsupported
from ..graph.symbols import NotElastic, Size

MAX_IN, MAX_OUT = 64, 4  # operands of one host call
KEPT = 16  # sets of addresses for which tensors are kept


def _tensor_at(address, dtype, shape, strides):
    """A PyTorch tensor over borrowed memory, which its owner keeps alive."""
    span = 1 + sum((n - 1) * s for n, s in zip(shape, strides)) if 0 not in shape else 0
    if span == 0:
        return torch.empty(shape, dtype=dtype)
    memory = (ctypes.c_char * (span * dtype.itemsize)).from_address(address)
    flat = torch.frombuffer(memory, dtype=dtype, count=span)
    return flat.as_strided(shape, strides)


class _Place:
    """Represents tensor input ``index`` in a call's arguments."""

    def __init__(self, index):
        self.index = index


class Call:
    """One call of a PyTorch operator on fixed layouts, writing to contiguous outputs."""

    def __init__(self, op, args, kwargs, inputs, outputs, unused=(), places=None):
        """``places``: the indices of the outputs among the operator's results."""
        self.op, self.outputs = op, outputs  # outputs: [(dtype, shape)]
        self.places = range(len(outputs)) if places is None else places
        self.leaves, self.spec = pytree.tree_flatten((args, kwargs))
        self.layouts = [_layout(v) for v in inputs]
        self.function = _INSTEAD.get(op, op)
        self.unused = unused  # unused results, whose traced sizes may be wrong
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
            results = pytree.tree_leaves(self.function(*args, **kwargs))
            # Kernels may return more than was traced (gradients of frozen weights).
            results = [results[i] for i in self.places]
            results = effects.finished(self.op, results)
            for at, (out, result) in enumerate(zip(outputs, results, strict=True)):
                if at in self.unused:
                    continue
                if out.shape != result.shape or not _holds(out, result):
                    raise RuntimeError(
                        f"{self.op} gave {tuple(result.shape)} of {result.dtype} where "
                        f"{tuple(out.shape)} of {out.dtype} was traced"
                    )
                out.copy_(result)

    def _bind(self, in_addresses, out_addresses):
        inputs = [
            _tensor_at(a, dtype, shape, strides)
            for a, (dtype, shape, strides) in zip(in_addresses, self.layouts)
        ]
        outputs = [
            _tensor_at(a, dtype, shape, values.contiguous_strides(shape))
            for a, (dtype, shape) in zip(self._places(out_addresses), self.outputs)
        ]
        return inputs, outputs

    def _places(self, addresses):
        return addresses


class OpenCall:
    """A call in a graph of open sizes: makes a Call for each set of sizes. The last operand
    contains the values of the sizes' symbols. All operands are contiguous."""

    def __init__(self, op, args, kwargs, inputs, outputs, sizes, unused, places):
        self.op, self.sizes, self.places = op, sizes, places
        self.leaves, self.spec = pytree.tree_flatten((args, kwargs))
        self.inputs, self.outputs = inputs, outputs  # (type, traced sizes)
        self.unused = unused
        self._calls = {}

    def __call__(self, in_addresses, out_addresses):
        *operands, values_at = in_addresses
        names = tuple(self.sizes.sources)
        key = tuple((ctypes.c_int64 * len(names)).from_address(values_at))
        call = self._calls.get(key)
        if call is None:
            if len(self._calls) >= KEPT:
                self._calls.clear()
            call = self._calls[key] = self._at(self.sizes.at(dict(zip(names, key))))
        call(tuple(operands), tuple(out_addresses[: len(self.outputs)]))

    def _at(self, sizes):
        now = [sizes.number_of(x.expression) if isinstance(x, Size) else x for x in self.leaves]
        args, kwargs = pytree.tree_unflatten(now, self.spec)
        outputs = [(dtype, sizes.numbers(shape)) for dtype, shape in self.outputs]
        call = Call(self.op, args, kwargs, (), outputs, self.unused, self.places)
        for dtype, shape in self.inputs:
            shape = sizes.numbers(shape)
            call.layouts.append((dtype, shape, values.contiguous_strides(shape)))
        return call


def _holds(out, result):
    """Whether the result's type may be converted to the traced type. Kernels return empty results,
    and norms of halves, in other types than the traced ones."""
    if not out.numel() or out.is_floating_point() and result.is_floating_point():
        return True
    return torch.promote_types(out.dtype, result.dtype) == out.dtype


def unused(node):
    """The indices of the node's tensors that are not used."""
    val = node.meta.get("val") if node is not None else None
    if not isinstance(val, (list, tuple)) or not isinstance(node.target, torch._ops.OpOverload):
        return frozenset()
    if any(user.target is not operator.getitem for user in node.users):
        return frozenset()
    if any(isinstance(x, (list, tuple)) for x in val):
        return frozenset()
    used = {user.args[1] for user in node.users}
    tensors = [at for at, x in enumerate(val) if isinstance(x, torch.Tensor)]
    return frozenset(place for place, at in enumerate(tensors) if at not in used)


class _PackedCall(Call):
    """A call with more outputs than a host call supports: they share the memory of one output."""

    def _places(self, addresses):
        return [addresses[0] + start for start in starts(self.outputs)]


ALIGNED = 64  # bytes


def starts(outputs):
    """The offset of each output in the shared memory, and finally the size of that memory."""
    at = [0]
    for dtype, shape in outputs:
        size = values.numel(shape) * dtype.itemsize
        at.append(at[-1] + (size + ALIGNED - 1) // ALIGNED * ALIGNED)
    return at


class _Deliver:
    """Copies one of the outputs from the shared memory."""

    def __init__(self, start, nbytes):
        self.start, self.nbytes = start, nbytes

    def __call__(self, in_addresses, out_addresses):
        ctypes.memmove(out_addresses[0], in_addresses[0] + self.start, self.nbytes)


# Replacements for operators that depend on PyTorch's memory layout, which weir's values lack.
_INSTEAD = {
    **kernels.WORDS,
    torch.ops.aten.view.dtype: lambda x, dtype: x.contiguous().view(dtype),
    torch.ops.aten.view_as_complex.default: lambda x: torch.view_as_complex(x.contiguous()),
    torch.ops.aten._reshape_alias.default: lambda x, size, stride: x.reshape(size),
}


def _layout(value):
    if isinstance(value, values.Opaque):
        return value.dtype, value.shape, values.contiguous_strides(value.shape)
    return values.torch_dtype(value), value.shape, value.strides


def _is_value(x):
    return isinstance(x, (_C.Tensor, values.Opaque))


def values_in(x):
    """The tensors among an operator's arguments, as values of the graph."""
    if _is_value(x):
        return [x]
    if isinstance(x, dict):
        x = x.values()
    elif not isinstance(x, (list, tuple)):
        return []
    return [value for item in x for value in values_in(item)]


def infer(op, args, kwargs, is_value, fake):
    """The operator's results as fake tensors, without running it. ``fake`` converts a value."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        args, kwargs = pytree.tree_map(
            lambda x: fake(x) if is_value(x) else x, (args, kwargs), is_leaf=is_value
        )
        return op(*args, **kwargs)


def add(op, args, kwargs, made, anchor, behind=None, unused=()):
    """Queues or captures the operator. ``made`` describes its results: (type, sizes) of a tensor,
    or None, or a list of these or of lists. Returns values in that structure, and a tensor that
    represents the call.

    ``anchor`` orders an operator without tensor inputs. The call is ordered after the call that
    ``behind`` represents. ``unused`` is the result of :func:`unused`.
    """
    inputs = []

    def place(x):
        if not _is_value(x):
            return x
        inputs.append(x)
        return _Place(len(inputs) - 1)

    args, kwargs = pytree.tree_map(place, (args, kwargs), is_leaf=_is_value)
    leaves = _leaves(made)
    places = [i for i, o in enumerate(leaves) if o is not None]
    outputs = [leaves[i] for i in places]
    handles = [x.tensor if isinstance(x, values.Opaque) else x for x in inputs] or [anchor]
    handles += [behind] if behind is not None else []
    if len(handles) > MAX_IN:
        raise Unsupported(f"{op} has {len(handles)} tensors, more than {MAX_IN}")
    # The last output represents the call.
    if len(outputs) < MAX_OUT:
        call = Call(op, args, kwargs, inputs, outputs, unused, places)
        stored = [values.storage(*o) for o in outputs]
        *tensors, token = _C.host_call(str(op), call, handles, [*stored, (_C.float32, (0,))])
    else:
        call = _PackedCall(op, args, kwargs, inputs, outputs, unused, places)
        tensors, token = _add_packed(call, handles)
    results = iter(values.wrap(t, *o) for t, o in zip(tensors, outputs))
    return _like(made, results), token


def _leaves(made):
    """The leaves of ``made``: (type, sizes) of each tensor, None for other results."""
    return [leaf for one in made for leaf in _leaves(one)] if isinstance(made, list) else [made]


def _like(made, results):
    """Nests the results in lists like ``made``."""
    if isinstance(made, list):
        return [_like(one, results) for one in made]
    return None if made is None else next(results)


def _add_packed(call, handles):
    name, (*at, end) = str(call.op), starts(call.outputs)
    spec = [(_C.uint8, (max(end, 1),)), (_C.float32, (0,))]
    packed, token = _C.host_call(name, call, handles, spec)
    tensors = []
    for start, output in zip(at, call.outputs):
        nbytes = values.numel(output[1]) * output[0].itemsize
        deliver = _Deliver(start, nbytes)
        tensors += _C.host_call(name, deliver, [packed], [values.storage(*output)])
    return tensors, token


def add_open(op, args, kwargs, node, sizes, symbols, symbols_input):
    """The same in a graph of open sizes; ``node`` has the traced sizes."""
    val = node.meta.get("val")
    several = isinstance(val, (list, tuple))
    made = list(val) if several else [val]
    handles, inputs = [], []

    def place(x):
        if not _is_value(x):
            return x
        if isinstance(x, values.Opaque):
            raise NotElastic(f"{op} of a type or rank that weir lacks")
        # A view may be contiguous for some sizes only; a copy always is.
        handles.append(x.clone())
        inputs.append((values.torch_dtype(x), symbols.traced[id(x)]))
        return _Place(len(handles) - 1)

    args, kwargs = pytree.tree_map(place, (args, kwargs), is_leaf=_is_value)
    places = [i for i, o in enumerate(made) if isinstance(o, torch.Tensor)]
    outputs = [(made[i].dtype, made[i].shape) for i in places]
    if len(outputs) >= MAX_OUT or not handles or len(handles) >= MAX_IN:
        raise NotElastic(f"{op} has {len(handles)} operands and {len(outputs)} results")
    if not all(values.is_native(*o) for o in outputs):
        raise NotElastic(f"{op} returns a type or rank that weir lacks")
    if any(isinstance(o, (list, tuple)) for o in made):
        raise NotElastic(f"{op} returns lists of lists")
    call = OpenCall(op, args, kwargs, inputs, outputs, sizes, unused(node), places)
    stored = [(values.DTYPES[dtype], symbols.names_of(shape)) for dtype, shape in outputs]
    results = iter(_C.host_call(str(op), call, [*handles, symbols_input], stored))
    back = [next(results) if isinstance(o, torch.Tensor) else None for o in made]
    return back if several else back[0]
