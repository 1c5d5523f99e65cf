"""Streams, events and core limits with the names of ``torch.npu``.

There is one NPU, the default device of weir, and ``device`` arguments name it as 0, "npu" or
"npu:0". Limits are those of torch_npu: -1 leaves a value as it is.

>>> s = weir.npu.Stream()
>>> with weir.npu.stream(s):
...     weir.npu.current_stream() == s
True
"""

from . import _C
from . import memory as _memory
from ._C import Event as _Event


def _check_device(device):
    if device is None or isinstance(device, _C.Device):
        return device or _C.get_device()
    text = str(device)
    if text not in ("0", "npu", "npu:0", "cpu", "privateuseone", "privateuseone:0"):
        raise RuntimeError(f"there is one NPU here, 'npu:0', and no {text!r}")
    return _C.get_device()


class Stream:
    """A stream; ``priority`` is lower for more urgent work."""

    def __init__(self, device=None, priority=0, *, stream=None):
        self.stream = stream or _C.Stream(priority, device=_check_device(device))

    @property
    def device(self):
        return self.stream.device

    @property
    def stream_id(self):
        return self.stream.id

    npu_stream = stream_id

    @property
    def priority(self):
        return self.stream.priority

    def synchronize(self):
        self.stream.synchronize()

    def query(self):
        return self.stream.query()

    def wait_event(self, event):
        self.stream.wait_event(event.event)

    def wait_stream(self, stream):
        self.stream.wait_stream(stream.stream)

    def record_event(self, event=None):
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self):
        self._inside = StreamContext(self)
        self._inside.__enter__()
        return self

    def __exit__(self, *exc):
        self._inside.__exit__(*exc)

    def __eq__(self, other):
        return isinstance(other, Stream) and self.stream == other.stream

    def __hash__(self):
        return hash(self.stream)

    def __repr__(self):
        return f"<weir.npu.Stream device=npu:0 stream_id={self.stream.id} name={self.stream.name}>"


class Event:
    """A mark in a stream."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False):
        if interprocess:
            raise NotImplementedError("weir has no events between processes")
        self.event = _Event(enable_timing, blocking)

    def record(self, stream=None):
        self.event.record(stream and stream.stream)

    def wait(self, stream=None):
        self.event.wait(stream and stream.stream)

    def query(self):
        return self.event.query()

    def synchronize(self):
        self.event.synchronize()

    def elapsed_time(self, end_event):
        """Milliseconds from this mark to the other."""
        return self.event.elapsed_time(end_event.event)


class StreamContext:
    """Makes a stream current within a ``with`` block; None changes nothing."""

    def __init__(self, stream):
        if stream is not None and not isinstance(stream, Stream):
            raise TypeError(f"stream must be a Stream or None, not {type(stream).__name__}")
        self.stream = stream

    def __enter__(self):
        if self.stream is not None:
            self._before = self.stream.device.current_stream()
            self.stream.stream.set_current()
        return self.stream

    def __exit__(self, *exc):
        if self.stream is not None:
            self._before.set_current()


def stream(stream):
    """``with stream(s):`` runs what is inside on s."""
    return StreamContext(stream)


def set_stream(stream):
    """Makes the stream current for this thread; None changes nothing."""
    if stream is not None:
        stream.stream.set_current()


def current_stream(device=None):
    """The stream that operators of this thread go to."""
    return Stream(stream=_check_device(device).current_stream())


def default_stream(device=None):
    """The stream the device has from the start."""
    return Stream(stream=_check_device(device).default_stream())


def synchronize(device=None):
    """Waits for everything on every stream."""
    _check_device(device).synchronize()


# ---- core limits ----


def _check_stream(name, stream):
    if not isinstance(stream, Stream):
        raise AssertionError(f"{name}: stream must be a Stream, not {type(stream).__name__}")


def _check_numbers(name, cube_num, vector_num):
    for what, value in (("cube_num", cube_num), ("vector_num", vector_num)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise AssertionError(f"{name}: {what} must be an int, not {type(value).__name__}")


def _as_dict(limit):
    return {"cube_core_num": limit[0], "vector_core_num": limit[1]}


def set_stream_limit(stream, cube_num=-1, vector_num=-1):
    """Operators queued on the stream from now on use at most so many cores; -1 leaves one."""
    _check_stream("set_stream_limit", stream)
    _check_numbers("set_stream_limit", cube_num, vector_num)
    stream.stream.set_limit(cube_num, vector_num)


def get_stream_limit(stream):
    """{'cube_core_num': ..., 'vector_core_num': ...} in force on the stream."""
    _check_stream("get_stream_limit", stream)
    return _as_dict(stream.stream.get_limit())


def reset_stream_limit(stream):
    """The stream falls back to the device's limits."""
    _check_stream("reset_stream_limit", stream)
    stream.stream.reset_limit()


_limited = set()


def set_device_limit(device, cube_num=-1, vector_num=-1):
    """Core limits of streams without limits of their own. Once per device and process."""
    target = _check_device(device)
    _check_numbers("set_device_limit", cube_num, vector_num)
    if id(target) in _limited:
        raise RuntimeError("the limits of a device can be set once in a process")
    target.set_limit(cube_num, vector_num)
    _limited.add(id(target))


def get_device_limit(device=None):
    """{'cube_core_num': ..., 'vector_core_num': ...} of the device."""
    return _as_dict(_check_device(device).get_limit())


# ---- the device ----


def is_available():
    """Whether the default device can be opened."""
    try:
        _C.get_device()
    except RuntimeError:
        return False
    return True


def device_count():
    return 1


def current_device():
    return 0


def set_device(device):
    """There is one; another number is an error."""
    _check_device(device)


def get_device_name(device=None):
    return _check_device(device).properties()["model"]


def get_device_properties(device=None):
    """An object with name, total_memory, cube_core_num and vector_core_num."""
    p = _check_device(device).properties()
    made = type("NPUDeviceProperties", (), {})()
    made.name, made.total_memory = p["model"], p["memory_bytes"]
    made.cube_core_num, made.vector_core_num = p["cube_cores"], p["vector_cores"]
    return made


def manual_seed(seed):
    """Seeds PyTorch's generator, whose numbers tensors of the NPU are made of."""
    import torch

    torch.manual_seed(seed)


manual_seed_all = manual_seed


def memory_allocated(device=None):
    return _memory.memory_allocated(_check_device(device))


def memory_reserved(device=None):
    return _memory.memory_reserved(_check_device(device))


def max_memory_allocated(device=None):
    return _memory.max_memory_allocated(_check_device(device))


def max_memory_reserved(device=None):
    return _memory.max_memory_reserved(_check_device(device))


def reset_peak_memory_stats(device=None):
    _memory.reset_peak_memory_stats(_check_device(device))


def memory_stats(device=None):
    return _memory.memory_stats(_check_device(device))


def memory_summary(device=None):
    return _memory.memory_summary(_check_device(device))


def empty_cache():
    _memory.empty_cache()


# ---- operators ----


def npu_swiglu(x, dim=-1):
    """silu of the first half along ``dim``, times the second half; on weir's and PyTorch's
    tensors, on the current stream."""
    if isinstance(x, _C.Tensor):
        return _C.swiglu(x, dim)
    from ._torch import eager

    return eager.swiglu(x, dim)
