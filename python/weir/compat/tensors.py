"""PyTorch's tensors on the NPU: where the NPU's memory is the host's, they are the CPU's.

A tensor that is moved to the NPU is a copy, as it is there, and is counted as the NPU's
(``weir.npu.memory_allocated``); so is one that is made there. Moving it again gives the tensor
itself. ``cpu()`` gives a copy always: what PyTorch's kernels make of the NPU's tensors is the
NPU's, too, and nothing marks it. While PyTorch traces, a move is nothing.
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

# Kinds of device that mean the NPU; transfer_to_npu adds "cuda".
names = {"npu"}


def _inlined(function):
    """Lets Dynamo trace the function as a part of others alone. What it stands for is no Python, and
    Dynamo's own code calls it with numbers that change: compiled by itself, it would be compiled for
    each number, and its guards take 0.0 and -0.0 for one."""
    try:
        from torch._dynamo.types import FrameAction, FrameExecStrategy

        skip = FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP)
        torch._C._dynamo.eval_frame.set_code_exec_strategy(function.__code__, skip)
    except (ImportError, AttributeError):  # a PyTorch that has no such thing
        torch._C._dynamo.eval_frame.skip_code(function.__code__)
    return function


@torch._dynamo.assume_constant_result
def home():
    """Where PyTorch has the tensors of weir's device."""
    number = gpu_of(weir.get_device())
    return "cpu" if number is None else f"cuda:{number}"


@torch._dynamo.assume_constant_result
def _check(name):
    """Refuses what names no NPU; while PyTorch traces, too."""
    _check_name(name)


def teach():
    """Makes PyTorch's functions take "npu" for where its memory is."""
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
    """The tensor itself if the NPU has it; else a copy that it has."""
    if tensor.device.type != "cpu" or torch.compiler.is_compiling():
        return tensor
    if is_held(tensor.untyped_storage()):
        return tensor
    return _count(tensor.clone())


def _count(tensor):
    """The tensor, counted as the NPU's."""
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
    """The arguments with where the NPU's memory is for 'npu', and whether any said so."""
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
    """The function with 'npu' among its arguments taken for the memory it is in."""

    @_inlined
    @functools.wraps(function)
    def call(*args, **kwargs):
        args, kwargs, _ = _home_for(args, kwargs)
        return function(*args, **kwargs)

    return call


def _moving(to):
    """Tensor.to, which places what is sent to the NPU there."""

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
    """A factory, whose tensors for the NPU are counted; so are those like one of the NPU's."""

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
    """Tensor.cpu, which gives memory of its own where the NPU's is the host's."""

    @_inlined
    @functools.wraps(cpu)
    def call(self, *args, **kwargs):
        made = cpu(self, *args, **kwargs)
        if made is self and not torch.compiler.is_compiling() and home() == "cpu":
            return made.clone()
        return made

    return call


def _cast_where_it_is(init):
    """torch.autocast("npu") casts what its tensors' own kind of device computes."""

    @_inlined
    @functools.wraps(init)
    def call(self, device_type, *args, **kwargs):
        kind = home().partition(":")[0] if is_npu(device_type) else device_type
        init(self, kind, *args, **kwargs)

    return call


def _recording(record_stream):
    """Tensor.record_stream for weir's streams. The host's memory is used by nobody once its tensor
    is gone: calls return when their results are there."""

    @_inlined
    @functools.wraps(record_stream)
    def call(self, stream):
        if not isinstance(stream, weir.npu.Stream):
            record_stream(self, stream)
        elif self.device.type != "cpu":
            record_stream(self, external(torch, stream.stream))

    return call


def _trace_recording():
    """While PyTorch traces, record_stream of weir's streams is nothing: a plan knows who uses
    what. Dynamo handles the method by itself and knows PyTorch's streams alone."""
    from torch._dynamo.variables import ConstantVariable, TensorVariable

    traced = getattr(TensorVariable, "method_record_stream", None)
    if traced is None:
        return

    def method_record_stream(self, tx, stream, *args, **kwargs):
        if issubclass(stream.python_type(), weir.npu.Stream):
            return ConstantVariable.create(None)
        return traced(self, tx, stream, *args, **kwargs)

    TensorVariable.method_record_stream = method_record_stream


# ---- pinned memory: the host's memory is as near to the NPU as it gets ----

_pinned = weakref.WeakSet()  # storages


def _remember_pinned(tensor):
    _pinned.add(tensor.untyped_storage())
    return tensor


@_inlined
def _pin(self, device=None):
    """A copy in memory that counts as pinned; itself if it is there."""
    return self if _is_pinned(self) else _remember_pinned(self.clone())


@_inlined
def _is_pinned(self, device=None):
    """Whether pin_memory() made it."""
    return self.device.type == "cpu" and self.untyped_storage() in _pinned
