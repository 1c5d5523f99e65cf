"""Streams, events and core limits with the names of ``torch.npu``.

There is one NPU, the default device of weir, and ``device`` arguments name it as 0, "npu" or
"npu:0". Limits are those of torch_npu: -1 leaves a value as it is.

If weir's device is cuda:0, tensors are PyTorch's CUDA tensors and streams are CUDA streams that
PyTorch runs on: inside ``with stream(s)`` its current stream is s, with the cores that s has.

>>> s = weir.npu.Stream()
>>> with weir.npu.stream(s):
...     weir.npu.current_stream() == s
True
"""

from __future__ import annotations

import types

from . import _C, _follow
from . import memory as _memory
from ._npu_operators import *  # noqa: F403
from ._npu_routing import *  # noqa: F403


def _check_name(device):
    """Refuses what does not name the one NPU. Plain Python, so that Dynamo can trace it."""
    if device is None or isinstance(device, _C.Device):
        return
    text = str(device)
    if text in ("0", "npu", "npu:0", "cpu", "privateuseone", "privateuseone:0"):
        return
    gpu = _follow.gpu_of(_C.get_device())
    if gpu is None or text not in ("cuda", f"cuda:{gpu}"):
        raise RuntimeError(f"there is one NPU here, 'npu:0', and no '{device}'")


def _check_device(device):
    _check_name(device)
    return device if isinstance(device, _C.Device) else _C.get_device()


def _need(function, argument, value, kind):
    if not isinstance(value, kind):
        raise TypeError(
            f"{function}: {argument} must be a {kind.__name__}, not {type(value).__name__}"
        )


class Stream:
    """A stream; ``priority`` is lower for more urgent work.

    >>> s = weir.npu.Stream(priority=-1)
    >>> s.wait_stream(weir.npu.current_stream())
    >>> with weir.npu.stream(s):
    ...     y = weir.ones((2,)) + 1
    """

    def __init__(
        self, device: object = None, priority: int = 0, *, stream: _C.Stream | None = None
    ) -> None:
        self.stream = stream or _C.Stream(priority, device=_check_device(device))

    @property
    def device(self) -> _C.Device:
        return self.stream.device

    @property
    def stream_id(self) -> int:
        return self.stream.id

    npu_stream = stream_id

    @property
    def priority(self) -> int:
        return self.stream.priority

    def synchronize(self) -> None:
        """Waits for everything queued on the stream."""
        self.stream.synchronize()

    def query(self) -> bool:
        """Whether everything queued on the stream is done."""
        return self.stream.query()

    def wait_event(self, event: Event) -> None:
        """What is queued from now on runs after the event."""
        _need("wait_event", "event", event, Event)
        self.stream.wait_event(event.event)

    def wait_stream(self, stream: Stream) -> None:
        """What is queued from now on runs after what the other stream has so far."""
        _need("wait_stream", "stream", stream, Stream)
        self.stream.wait_stream(stream.stream)

    def record_event(self, event: Event | None = None) -> Event:
        """Records an event, a new one without an argument, and gives it back."""
        event = Event() if event is None else event
        _need("record_event", "event", event, Event)
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        self._inside = StreamContext(self)
        self._inside.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._inside.__exit__(*exc)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.stream == other.stream

    def __hash__(self) -> int:
        return hash(self.stream)

    def __repr__(self) -> str:
        return f"<weir.npu.Stream device=npu:0 stream_id={self.stream.id} name={self.stream.name}>"


class Event:
    """A mark in a stream.

    >>> event = weir.npu.Stream().record_event()
    >>> weir.npu.current_stream().wait_event(event)
    """

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        if interprocess:
            raise NotImplementedError("weir has no events between processes")
        self.event = _C.Event(enable_timing, blocking)

    def record(self, stream: Stream | None = None) -> None:
        """Marks the point after what the stream (or the current one) has so far."""
        if stream is not None:
            _need("record", "stream", stream, Stream)
        self.event.record(None if stream is None else stream.stream)

    def wait(self, stream: Stream | None = None) -> None:
        """What the stream (or the current one) gets from now on runs after the mark."""
        if stream is not None:
            _need("wait", "stream", stream, Stream)
        self.event.wait(None if stream is None else stream.stream)

    def query(self) -> bool:
        """Whether the mark has been passed; True before the first record."""
        return self.event.query()

    def synchronize(self) -> None:
        """The host waits for the mark."""
        self.event.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this mark to the other, both of events with enable_timing=True."""
        _need("elapsed_time", "end_event", end_event, Event)
        return self.event.elapsed_time(end_event.event)


class StreamContext:
    """Makes a stream current within a ``with`` block; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        if stream is not None and not isinstance(stream, Stream):
            raise TypeError(f"stream must be a Stream or None, not {type(stream).__name__}")
        self.stream = stream

    def __enter__(self) -> Stream | None:
        if self.stream is not None:
            now = self.stream.device.current_stream()
            self.stream.stream.set_current()
            self._before = now, _follow.follow(self.stream.stream)
        return self.stream

    def __exit__(self, *exc: object) -> None:
        if self.stream is not None:
            stream, torch_stream = self._before
            stream.set_current()
            _follow.back(torch_stream)


def stream(stream: Stream | None) -> StreamContext:
    """``with stream(s):`` runs what is inside on s.

    >>> s = weir.npu.Stream()
    >>> with weir.npu.stream(s):
    ...     weir.npu.current_stream() == s
    True
    """
    return StreamContext(stream)


def set_stream(stream: Stream | None) -> None:
    """Makes the stream current for this thread; None changes nothing.

    >>> weir.npu.set_stream(weir.npu.default_stream())
    """
    if stream is not None:
        _need("set_stream", "stream", stream, Stream)
        stream.stream.set_current()
        _follow.follow(stream.stream)


def current_stream(device: object = None) -> Stream:
    """The stream that operators of this thread go to.

    >>> weir.npu.current_stream() == weir.npu.default_stream()
    True
    """
    return Stream(stream=_check_device(device).current_stream())


def default_stream(device: object = None) -> Stream:
    """The stream the device has from the start.

    >>> weir.npu.default_stream() == weir.npu.Stream()
    False
    """
    return Stream(stream=_check_device(device).default_stream())


def synchronize(device: object = None) -> None:
    """Waits for everything on every stream.

    >>> weir.npu.synchronize()
    """
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


def set_stream_limit(stream: Stream, cube_num: int = -1, vector_num: int = -1) -> None:
    """Operators queued on the stream from now on use at most so many cores; -1 leaves one.

    >>> s = weir.npu.Stream()
    >>> weir.npu.set_stream_limit(s, cube_num=1)
    >>> weir.npu.get_stream_limit(s)["cube_core_num"]
    1
    """
    _check_stream("set_stream_limit", stream)
    _check_numbers("set_stream_limit", cube_num, vector_num)
    stream.stream.set_limit(cube_num, vector_num)
    _follow.keep_up(_C.get_device().current_stream())


def get_stream_limit(stream: Stream) -> dict[str, int]:
    """{'cube_core_num': ..., 'vector_core_num': ...} in force on the stream.

    >>> sorted(weir.npu.get_stream_limit(weir.npu.current_stream()))
    ['cube_core_num', 'vector_core_num']
    """
    _check_stream("get_stream_limit", stream)
    return _as_dict(stream.stream.get_limit())


def reset_stream_limit(stream: Stream) -> None:
    """The stream falls back to the device's limits.

    >>> s = weir.npu.Stream()
    >>> weir.npu.set_stream_limit(s, 1, 1)
    >>> weir.npu.reset_stream_limit(s)
    >>> weir.npu.get_stream_limit(s) == weir.npu.get_device_limit(0)
    True
    """
    _check_stream("reset_stream_limit", stream)
    stream.stream.reset_limit()
    _follow.keep_up(_C.get_device().current_stream())


_limited: set[int] = set()


def set_device_limit(device: object, cube_num: int = -1, vector_num: int = -1) -> None:
    """Core limits of streams without limits of their own. Once per device and process."""
    target = _check_device(device)
    _check_numbers("set_device_limit", cube_num, vector_num)
    if id(target) in _limited:
        raise RuntimeError("the limits of a device can be set once in a process")
    target.set_limit(cube_num, vector_num)
    _follow.keep_up(_C.get_device().current_stream())
    _limited.add(id(target))


def get_device_limit(device: object = None) -> dict[str, int]:
    """{'cube_core_num': ..., 'vector_core_num': ...} of the device.

    >>> sorted(weir.npu.get_device_limit(0))
    ['cube_core_num', 'vector_core_num']
    """
    return _as_dict(_check_device(device).get_limit())


# ---- the device ----


def is_available() -> bool:
    """Whether the default device can be opened."""
    try:
        _C.get_device()
    except RuntimeError:
        return False
    return True


def init() -> None:
    """Opens the default device, if it is not open."""
    _C.get_device()


def is_initialized() -> bool:
    """True: the device is opened when it is first asked for."""
    return is_available()


def device_count() -> int:
    """One: weir's default device."""
    return 1


def current_device() -> int:
    """0, the only one."""
    return 0


def set_device(device: object) -> None:
    """There is one; another number is an error."""
    _check_device(device)


class device:
    """``with device(0):`` is for programs with several; there is one.

    >>> with weir.npu.device(0):
    ...     weir.npu.current_device()
    0
    """

    def __init__(self, device: object) -> None:
        _check_device(device)

    def __enter__(self) -> device:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


def get_device_name(device: object = None) -> str:
    """The hardware, for people."""
    return _check_device(device).properties()["model"]


def get_device_properties(device: object = None) -> types.SimpleNamespace:
    """An object with name, total_memory, cube_core_num and vector_core_num.

    >>> weir.npu.get_device_properties().cube_core_num > 0
    True
    """
    p = _check_device(device).properties()
    return types.SimpleNamespace(
        name=p["model"],
        total_memory=p["memory_bytes"],
        cube_core_num=p["cube_cores"],
        vector_core_num=p["vector_cores"],
    )


def set_compile_mode(jit_compile: bool = False) -> None:
    """Nothing: weir's kernels are compiled ahead."""
    if not isinstance(jit_compile, bool):
        raise TypeError(f"jit_compile must be a bool, not {type(jit_compile).__name__}")


# Memory layouts of an NPU, which weir has not: any setting will do.
config = types.SimpleNamespace(allow_internal_format=False)


def manual_seed(seed: int) -> None:
    """Seeds PyTorch's generator, whose numbers tensors of the NPU are made of."""
    import torch

    torch.default_generator.manual_seed(seed)  # torch.manual_seed would come back here


manual_seed_all = manual_seed


def _of_torch(name, device):
    """What PyTorch has to say of its own memory on the GPU, which weir's is beside; else 0."""
    torch = _follow.torch_on(device)
    return getattr(torch.cuda, name)(_follow.gpu_of(device)) if torch else 0


def memory_allocated(device: object = None) -> int:
    """Bytes held by tensors, on cuda PyTorch's included."""
    device = _check_device(device)
    return _memory.memory_allocated(device) + _of_torch("memory_allocated", device)


def memory_reserved(device: object = None) -> int:
    """Bytes taken from the system."""
    device = _check_device(device)
    return _memory.memory_reserved(device) + _of_torch("memory_reserved", device)


def max_memory_allocated(device: object = None) -> int:
    """The most bytes held by tensors since the peaks were reset."""
    device = _check_device(device)
    return _memory.max_memory_allocated(device) + _of_torch("max_memory_allocated", device)


def max_memory_reserved(device: object = None) -> int:
    """The most bytes taken from the system since the peaks were reset."""
    device = _check_device(device)
    return _memory.max_memory_reserved(device) + _of_torch("max_memory_reserved", device)


def reset_peak_memory_stats(device: object = None) -> None:
    """The peaks start again from what is in use now."""
    device = _check_device(device)
    _memory.reset_peak_memory_stats(device)
    _of_torch("reset_peak_memory_stats", device)


def memory_stats(device: object = None) -> dict[str, int]:
    """The pool's counters; see weir.memory_stats."""
    return _memory.memory_stats(_check_device(device))


def memory_summary(device: object = None) -> str:
    """A table for people: bytes by stream and state."""
    return _memory.memory_summary(_check_device(device))


def mem_get_info(device: object = None) -> tuple[int, int]:
    """(free, total) bytes of the device.

    >>> free, total = weir.npu.mem_get_info()
    >>> free <= total
    True
    """
    total = _check_device(device).properties()["memory_bytes"]
    return total - memory_reserved(device), total


def empty_cache() -> None:
    """Gives memory that nobody uses back to the system."""
    _memory.empty_cache()
    torch = _follow.torch_on(_C.get_device())
    if torch:
        torch.cuda.empty_cache()
