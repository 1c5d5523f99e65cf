"""PyTorch's tensors on the NPU: CPU tensors, if the NPU's memory is the host's.

Moving a tensor to the NPU copies it, as on a real NPU, and counts it as the NPU's
(``weir.npu.memory_allocated``); so does creating a tensor there. Moving it again returns the tensor
itself. ``cpu()`` always returns a copy: results of PyTorch's kernels on NPU tensors also belong to
the NPU, but are not marked. While PyTorch traces, moves do nothing.
"""

import functools
import weakref

import torch

import weir

from .._follow import external, gpu_of
from .._npu_memory import hold, is_held
from .._npu_device import _check_name

_FACTORIES = (
    "arange as_tensor empty empty_like empty_strided eye full full_like linspace logspace ones "
    "ones_like rand rand_like randint randint_like randn randn_like randperm scalar_tensor tensor "
    "zeros zeros_like"
).split()
_METHODS = "new_empty new_empty_strided new_full new_ones new_tensor new_zeros".split()

# Device types that mean the NPU; transfer_to_npu adds "cuda".
names = {"npu"}


def _inlined(function):
    """Lets Dynamo trace the function only as a part of other functions. It replaces a function that
    is not Python, and Dynamo's own code calls it with varying numbers: compiled separately, it
    would be compiled for each number, and its guards treat 0.0 and -0.0 as equal."""
    try:
        from torch._dynamo.types import FrameAction, FrameExecStrategy

        skip = FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP)
        torch._C._dynamo.eval_frame.set_code_exec_strategy(function.__code__, skip)
    except (ImportError, AttributeError):  # this version of PyTorch lacks it
        torch._C._dynamo.eval_frame.skip_code(function.__code__)
    return function


@torch._dynamo.assume_constant_result
def home():
    """PyTorch's device for tensors on weir's device."""
    number = gpu_of(weir.get_device())
    return "cpu" if number is None else f"cuda:{number}"


@torch._dynamo.assume_constant_result
def _check(name):
    """Raises unless the argument names an NPU, also while PyTorch traces."""
    _check_name(name)


def teach():
    """Makes PyTorch's functions accept "npu" for the device of its memory."""
    torch.Tensor.npu = _move
    torch.nn.Module.npu = _move_module
    torch.Tensor.is_npu = property(_is_there, doc="Whether the tensor is on weir's device.")
    torch.Tensor.to = _moving(torch.Tensor.to)
    torch.nn.Module.to = _moving_module(torch.nn.Module.to)
    torch.Tensor.record_stream = _recording(torch.Tensor.record_stream)
    _trace_recording()
    torch.set_default_device = _renamed(torch.set_default_device)
    torch.load = _renamed(torch.load)
    torch.autocast.__init__ = _cast_where_it_is(torch.autocast.__init__)
    for name in _FACTORIES:
        setattr(torch, name, _making(getattr(torch, name)))
    for name in _METHODS:
        setattr(torch.Tensor, name, _making(getattr(torch.Tensor, name)))
    torch.Tensor.cpu = _to_host(torch.Tensor.cpu)
    if not torch.cuda.is_available():
        torch.Tensor.pin_memory = _pin
        torch.Tensor.is_pinned = _is_pinned


# ---- moves ----


def is_npu(device):
    """Whether an argument names the NPU."""
    if isinstance(device, torch.device):
        return device.type in names
    return isinstance(device, str) and device.partition(":")[0] in names


def _place(tensor):
    """Returns the tensor if it is on the NPU, else a copy on the NPU."""
    if tensor.device.type != "cpu" or torch.compiler.is_compiling():
        return tensor
    if is_held(tensor.untyped_storage()):
        return tensor
    return _count(tensor.clone())


def _count(tensor):
    """Counts the tensor as the NPU's and returns it."""
    if not torch.compiler.is_compiling() and type(tensor) in (torch.Tensor, torch.nn.Parameter):
        if tensor.device.type == "cpu":
            hold(tensor.untyped_storage())
    return tensor


@_inlined
def _move(self, device=None, non_blocking=False, **options):
    """Moves to the NPU."""
    if device is not None:
        _check(str(device))
    if home() == "cpu":
        return _place(self)
    return self.to(home(), non_blocking=non_blocking)


@_inlined
def _move_module(self, device=None):
    """Moves all parameters and buffers to the NPU."""
    if device is not None:
        _check(str(device))
    return self._apply(lambda t: t.npu())


@_inlined
def _is_there(self):
    return str(self.device) == home()


def _home_for(args, kwargs):
    """Replaces 'npu' in the arguments by the device of its memory; also returns whether it
    occurred."""
    asked = False
    for name in ("device", "map_location", "device_type"):
        if is_npu(kwargs.get(name)):
            if str(kwargs[name]).startswith("npu"):
                _check(str(kwargs[name]))
            kwargs[name] = home()
            asked = True
    if any(is_npu(a) for a in args):
        args = tuple(home() if is_npu(a) else a for a in args)
        asked = True
    return args, kwargs, asked


def _renamed(function):
    """Wraps the function: replaces 'npu' in its arguments by the device of the NPU's memory."""

    @_inlined
    @functools.wraps(function)
    def call(*args, **kwargs):
        args, kwargs, _ = _home_for(args, kwargs)
        return function(*args, **kwargs)

    return call


def _moving(to):
    """Wraps Tensor.to: copies tensors that are moved to the NPU."""

    @_inlined
    @functools.wraps(to)
    def call(self, *args, **kwargs):
        args, kwargs, asked = _home_for(args, kwargs)
        made = to(self, *args, **kwargs)
        if not asked:
            return made
        return _place(made) if made is self else _count(made)

    return call


def _moving_module(to):
    @_inlined
    @functools.wraps(to)
    def call(self, *args, **kwargs):
        args, kwargs, asked = _home_for(args, kwargs)
        made = to(self, *args, **kwargs)
        return made.npu() if asked else made

    return call


def _making(function):
    """Wraps a factory: counts tensors created on the NPU, or like a tensor on the NPU."""

    @_inlined
    @functools.wraps(function)
    def call(*args, **kwargs):
        args, kwargs, asked = _home_for(args, kwargs)
        pinned = kwargs.get("pin_memory") and not torch.cuda.is_available()
        if pinned:
            kwargs["pin_memory"] = False
        made = function(*args, **kwargs)
        if torch.compiler.is_compiling():
            return made
        if asked or (kwargs.get("device") is None and args and _is_counted(args[0])):
            _count(made)
        return _remember_pinned(made) if pinned else made

    return call


def _is_counted(x):
    return type(x) is torch.Tensor and x.device.type == "cpu" and is_held(x.untyped_storage())


def _to_host(cpu):
    """Wraps Tensor.cpu: returns a copy if the NPU's memory is the host's."""

    @_inlined
    @functools.wraps(cpu)
    def call(self, *args, **kwargs):
        made = cpu(self, *args, **kwargs)
        if made is self and not torch.compiler.is_compiling() and home() == "cpu":
            return made.clone()
        return made

    return call


def _cast_where_it_is(init):
    """Makes torch.autocast("npu") apply to the device type of the NPU's tensors."""

    @_inlined
    @functools.wraps(init)
    def call(self, device_type, *args, **kwargs):
        kind = home().partition(":")[0] if is_npu(device_type) else device_type
        init(self, kind, *args, **kwargs)

    return call


def _recording(record_stream):
    """Wraps Tensor.record_stream for weir's streams. For host memory it does nothing: calls return
    after their results are computed, so no queued work uses a freed tensor."""

    @_inlined
    @functools.wraps(record_stream)
    def call(self, stream):
        if not isinstance(stream, weir.npu.Stream):
            record_stream(self, stream)
        elif self.device.type != "cpu":
            record_stream(self, external(torch, stream.stream))

    return call


def _trace_recording():
    """Makes record_stream of weir's streams do nothing while PyTorch traces: a plan tracks uses of
    memory itself. Dynamo's own handling of the method supports PyTorch's streams only."""
    from torch._dynamo.variables import ConstantVariable, TensorVariable

    traced = getattr(TensorVariable, "method_record_stream", None)
    if traced is None:
        return

    def method_record_stream(self, tx, stream, *args, **kwargs):
        if issubclass(stream.python_type(), weir.npu.Stream):
            return ConstantVariable.create(None)
        return traced(self, tx, stream, *args, **kwargs)

    TensorVariable.method_record_stream = method_record_stream


# ---- pinned memory: simulated, as the NPU uses the host's memory ----

_pinned = weakref.WeakSet()  # storages


def _remember_pinned(tensor):
    _pinned.add(tensor.untyped_storage())
    return tensor


@_inlined
def _pin(self, device=None):
    """Returns a copy that counts as pinned; the tensor itself if it does already."""
    return self if _is_pinned(self) else _remember_pinned(self.clone())


@_inlined
def _is_pinned(self, device=None):
    """Whether pin_memory() made it."""
    return self.device.type == "cpu" and self.untyped_storage() in _pinned
