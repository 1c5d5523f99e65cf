"""Streams, events and core limits with the names of ``torch.npu``.

The NPU is the default device of weir, and ``device`` arguments name it as 0, "npu" or "npu:0";
``set_device(1)`` opens another of its kind. Limits are those of torch_npu: -1 keeps the present
value.

If weir's device is cuda:0, tensors are PyTorch's CUDA tensors and streams are CUDA streams that
PyTorch runs on: inside ``with stream(s)`` PyTorch's current stream is s, with the core limit of s.

>>> s = weir.npu.Stream()
>>> with weir.npu.stream(s):
...     weir.npu.current_stream() == s
True
"""

from __future__ import annotations

import sys
import weakref

from . import _C, _dispatch, _follow
from . import _npu_traced as _traced
from ._npu_device import *  # noqa: F403
from ._npu_device import (  # noqa: F401
    _check_device,
    _check_name,
    _get_device_index,
    _number_of,
    _open,
)
from ._npu_memory import *  # noqa: F403
from ._npu_operators import *  # noqa: F403
from ._npu_random import *  # noqa: F403
from ._npu_routing import *  # noqa: F403


def _need(function, argument, value, kind):
    if not isinstance(value, kind):
        raise TypeError(
            f"{function}: {argument} must be a {kind.__name__}, not {type(value).__name__}"
        )


_DEVICE_TYPE = 20  # PyTorch's number for the device type "npu"

# Streams by (number of the device, stream_id), for Stream(stream_id=...).
_made: weakref.WeakValueDictionary[tuple[int, int], Stream] = weakref.WeakValueDictionary()


def _shown(device):
    """PyTorch's device object; weir's if PyTorch is not loaded."""
    torch = sys.modules.get("torch")
    gpu = _follow.gpu_of(device)
    if torch is None:
        return device
    if gpu is not None:
        return torch.device("cuda", gpu)
    if torch._C._get_privateuse1_backend_name() != "npu":
        return device
    return torch.device("npu", _number_of(device))


class Stream:
    """A stream; a lower ``priority`` is more urgent. ``stream_id``, ``device_index`` and
    ``device_type`` together select an existing stream.

    >>> s = weir.npu.Stream(priority=-1)
    >>> s.wait_stream(weir.npu.current_stream())
    >>> with weir.npu.stream(s):
    ...     y = weir.ones((2,)) + 1
    """

    def __init__(
        self,
        device: object = None,
        priority: int = 0,
        *,
        stream: _C.Stream | None = None,
        stream_id: int | None = None,
        device_index: int = 0,
        device_type: int = _DEVICE_TYPE,
        is_sync_launch: bool = False,
    ) -> None:
        # Clamped to weir's range: torch_npu has two ranges.
        self.urgency = max(-8, min(priority, 7))
        if _dispatch.is_compiling():
            self.stream, self.tag = None, _traced.new_tag()
            return
        if stream is not None:
            self.stream = stream
        elif stream_id is not None:
            self.stream = _find_stream(stream_id, device_index, device_type)
        else:
            self.stream = _C.Stream(self.urgency, device=_check_device(device))
            _made[self.device_index, self.stream_id] = self
        self.urgency = self.stream.priority
        # Its tag in a traced function.
        self.tag = f"stream {self.stream.id}" if self.stream_id else _traced.DEFAULT

    @property
    def device(self) -> object:
        """The device as PyTorch names it, weir's without PyTorch."""
        return _shown(self.stream.device)

    @property
    def device_index(self) -> int:
        return _number_of(self.stream.device)

    @property
    def device_type(self) -> int:
        return _DEVICE_TYPE

    @property
    def stream_id(self) -> int:
        """The stream's number on its device; 0 is the default stream."""
        return 0 if self.stream == self.stream.device.default_stream() else self.stream.id

    @property
    def npu_stream(self) -> int:
        """A unique number on the device, for libraries that need a handle."""
        return self.stream.id

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """(least, most) urgent."""
        return 7, -8

    def set_data_preprocess_stream(self, is_data_preprocess_stream: bool = False) -> None:
        """Does nothing: weir treats all streams alike."""

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
        if _dispatch.is_compiling():
            event.wait(self)
        else:
            self.stream.wait_event(event.event)

    def wait_stream(self, stream: Stream) -> None:
        """What is queued from now on runs after what the other stream has so far."""
        _need("wait_stream", "stream", stream, Stream)
        if _dispatch.is_compiling():
            _traced.wait(_traced.record(stream), self)
        else:
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
        return (
            f"<torch_npu.npu.Stream device=npu:{self.device_index} "
            f"npu_stream={self.npu_stream:#x} name={self.stream.name}>"
        )


class SyncLaunchStream(Stream):
    """The same as Stream: weir has no separate thread that launches."""


def _find_stream(stream_id, device_index, device_type):
    if device_type != _DEVICE_TYPE or not 0 <= device_index < device_count():
        raise RuntimeError(
            f"there is no NPU with device_index {device_index} and device_type {device_type}"
        )
    default = _open(device_index).default_stream()
    made = _made.get((device_index, stream_id))
    if stream_id == 0:
        return default
    if made is None or made.stream.device is not default.device:
        raise RuntimeError(f"npu:{device_index} has no stream with stream_id {stream_id}")
    return made.stream


class Event:
    """A mark in a stream.

    >>> event = weir.npu.Stream().record_event()
    >>> weir.npu.current_stream().wait_event(event)
    """

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        if interprocess:
            raise NotImplementedError("weir has no events between processes")
        self._token = None  # token of the last record in a traced function
        self.event = None if _dispatch.is_compiling() else _C.Event(enable_timing, blocking)
        self.external = bool(external)
        self.enable_timing = bool(enable_timing)
        self._recorded = False

    @property
    def device(self) -> object:
        """The device as PyTorch names it, weir's without PyTorch."""
        return _shown(self.event.device)

    @property
    def npu_event(self) -> int:
        """A unique number; 0 before the first record."""
        return id(self.event) if self._recorded else 0

    def record(self, stream: Stream | None = None) -> None:
        """Marks the point after what the stream (or the current one) has so far."""
        if stream is not None:
            _need("record", "stream", stream, Stream)
        if _dispatch.is_compiling():
            self._token = _traced.record(stream)
            return
        self.event.record(None if stream is None else stream.stream)
        self._recorded = True

    def wait(self, stream: Stream | None = None) -> None:
        """What the stream (or the current one) gets from now on runs after the mark."""
        if stream is not None:
            _need("wait", "stream", stream, Stream)
        if _dispatch.is_compiling():
            if self._token is not None:  # else it was recorded before the traced function
                _traced.wait(self._token, stream)
            return
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

    def recorded_time(self) -> int:
        """The time of the mark in nanoseconds of the device's clock; waits for the mark."""
        if not self._recorded:
            raise RuntimeError("recorded_time: the event was never recorded")
        self.event.synchronize()
        return _clock_ns(self.event)

    def __repr__(self) -> str:
        name = f"torch_npu.npu.{type(self).__name__}"
        return f"<{name} {self.npu_event:#x}>" if self._recorded else f"<{name} uninitialized>"


class ExternalEvent(Event):
    """An event that a captured graph waits for at each run, and that other code records in between.

    In weir a wait does not block for a record that comes later: waiting before the record is an
    error. ``reset`` makes it unrecorded again.
    """

    def __init__(self) -> None:
        super().__init__(external=True)

    def wait(self, stream: Stream | None = None) -> None:
        """As for any event, but raises if it is not recorded."""
        if not self._recorded:
            raise RuntimeError("ExternalEvent.wait: nothing has recorded the event since its reset")
        super().wait(stream)

    def reset(self, stream: Stream | None = None) -> None:
        """Discards the record; waits that are already queued are not affected."""
        if stream is not None:
            _need("reset", "stream", stream, Stream)
        self.event, self._recorded = _C.Event(False, False), False


_zero: dict[int, tuple[_C.Device, _C.Event, int]] = {}  # by id of the device


def _clock_ns(event):
    """The time of a mark, relative to one mark whose time on the device's clock is known."""
    device = event.device
    if id(device) not in _zero:
        start = _C.Event(True, False, device)
        start.record(_C.Stream(device=device))
        start.synchronize()
        _zero[id(device)] = device, start, device.now()
    _, start, at = _zero[id(device)]
    return at + round(start.elapsed_time(event) * 1e6)


class StreamContext:
    """Makes a stream current within a ``with`` block; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        if stream is not None and not isinstance(stream, Stream):
            raise TypeError(f"stream must be a Stream or None, not {type(stream).__name__}")
        self.stream = stream

    def __enter__(self) -> Stream | None:
        if self.stream is not None and _dispatch.is_compiling():
            _traced.enter(self.stream)
        elif self.stream is not None:
            now = self.stream.stream.device.current_stream()
            self.stream.stream.set_current()
            self._before = now, _follow.follow(self.stream.stream)
        return self.stream

    def __exit__(self, *exc: object) -> None:
        if self.stream is not None and _dispatch.is_compiling():
            _traced.leave()
        elif self.stream is not None:
            stream, torch_stream = self._before
            stream.set_current()
            _follow.back(torch_stream)


def stream(stream: Stream | None) -> StreamContext:
    """``with stream(s):`` runs the operators inside on s.

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
    if stream is None:
        return
    _need("set_stream", "stream", stream, Stream)
    if _dispatch.is_compiling():
        _traced.switch(stream)
    else:
        stream.stream.set_current()
        _follow.follow(stream.stream)


def current_stream(device: object = None) -> Stream:
    """The stream that runs this thread's operators.

    >>> weir.npu.current_stream() == weir.npu.default_stream()
    True
    """
    if _dispatch.is_compiling():
        return _traced.innermost() or default_stream()
    return Stream(stream=_check_device(device).current_stream())


def default_stream(device: object = None) -> Stream:
    """The device's default stream.

    >>> weir.npu.default_stream() == weir.npu.Stream()
    False
    """
    if _dispatch.is_compiling():
        stream = Stream()
        stream.tag = _traced.DEFAULT
        return stream
    return Stream(stream=_check_device(device).default_stream())


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
    """Limits the cores of operators queued on the stream from now on; -1 keeps the present value.

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
    """Makes the stream use the device's limits again.

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


def _check_number(device):
    if isinstance(device, bool) or not isinstance(device, int):
        raise TypeError(f"device must be an int, not {type(device).__name__}")


def set_device_limit(device: int, cube_num: int = -1, vector_num: int = -1) -> None:
    """Core limits of streams without limits of their own. Once per device and process."""
    _check_number(device)
    target = _check_device(device)
    _check_numbers("set_device_limit", cube_num, vector_num)
    if id(target) in _limited:
        raise RuntimeError("the limits of a device can be set once in a process")
    target.set_limit(cube_num, vector_num)
    _follow.keep_up(_C.get_device().current_stream())
    _limited.add(id(target))


def get_device_limit(device: int) -> dict[str, int]:
    """{'cube_core_num': ..., 'vector_core_num': ...} of the device.

    >>> sorted(weir.npu.get_device_limit(0))
    ['cube_core_num', 'vector_core_num']
    """
    _check_number(device)
    return _as_dict(_check_device(device).get_limit())
