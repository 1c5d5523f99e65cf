"""Streams, events, devices and memory with the names and rules of ``mindspore.hal``.

One thing differs: the current stream belongs to the thread, where MindSpore has one for the
process.

>>> s = weir.hal.Stream()
>>> with weir.hal.StreamCtx(s):
...     y = weir.tensor([1.0]) + 1
>>> s.synchronize()
>>> y.item()
2.0
"""

from __future__ import annotations

import weakref
from typing import Any

from . import _C
from ._hal_device import *  # noqa: F403
from ._hal_device import _target


# ---- streams ----


class Stream:
    """A stream. A lower ``priority`` is more urgent; ``stream_id`` wraps one that exists.

    >>> s = weir.hal.Stream(priority=-1)
    >>> s.wait_stream(weir.hal.current_stream())
    >>> weir.hal.Stream(stream_id=s.id) == s
    True
    """

    _stream: _C.Stream

    def __init__(self, priority: int = 0, **kwargs: Any) -> None:
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise TypeError(
                f"For 'Stream', the argument 'priority' should be int, but got {type(priority)}."
            )
        unknown = set(kwargs) - {"stream", "stream_id"}
        if unknown:
            raise TypeError(f"Stream() has no argument '{sorted(unknown)[0]}'")
        if kwargs.get("stream") is not None:
            if not isinstance(kwargs["stream"], Stream):
                raise TypeError(
                    f"For 'Stream', the argument 'stream' should be Stream, but got "
                    f"{type(kwargs['stream'])}."
                )
            self._stream = kwargs["stream"]._stream
        elif kwargs.get("stream_id") is not None:
            self._stream = _find(kwargs["stream_id"])
        else:
            self._stream = _C.Stream(priority)
            _made[self.id] = self

    @classmethod
    def _of(cls, stream):
        made = cls.__new__(cls)
        made._stream = stream
        return made

    @property
    def id(self) -> int:
        """The stream's number on its device; 0 is the default stream."""
        return 0 if self._stream == self._stream.device.default_stream() else self._stream.id

    @property
    def device_name(self) -> str:
        """"CPU", "GPU" or "Ascend"."""
        return _target()

    @property
    def device_id(self) -> int:
        """0: there is one device."""
        return 0

    def record_event(self, event: Event | None = None) -> Event:
        """Records an event, or a new one without an argument, and returns it."""
        if event is not None and not isinstance(event, Event):
            raise TypeError(
                f"For 'record_event', the argument 'event' should be Event, but got {type(event)}."
            )
        event = event if event is not None else Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Makes operators issued from now on run after the event."""
        if not isinstance(event, Event):
            raise TypeError(
                f"For 'wait_event', the argument 'event' should be Event, but got {type(event)}."
            )
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Makes operators issued from now on run after the other stream's present work."""
        if not isinstance(stream, Stream):
            raise TypeError(
                "For 'wait_stream', the argument 'stream' should be Stream, but got "
                f"{type(stream)}."
            )
        self._stream.wait_stream(stream._stream)

    def synchronize(self) -> None:
        """Waits for everything issued on the stream."""
        self._stream.synchronize()

    def query(self) -> bool:
        """Whether everything issued on the stream is done."""
        return self._stream.query()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            raise TypeError(
                f"For '__eq__', the argument 'other' should be Stream, but got {type(other)}."
            )
        return self._stream == other._stream

    def __hash__(self) -> int:
        return hash((self.id, self.device_id))

    def __repr__(self) -> str:
        return (
            f"Stream(device_name={self.device_name}, device_id:{self.device_id}, "
            f"stream id:{self.id})"
        )


_made: weakref.WeakValueDictionary[int, Stream] = weakref.WeakValueDictionary()  # by id


def _find(stream_id):
    if isinstance(stream_id, bool) or not isinstance(stream_id, int):
        raise TypeError(
            f"For 'Stream', the argument 'stream_id' should be int, but got {type(stream_id)}."
        )
    device = _C.get_device()
    made = _made.get(stream_id)
    if made is not None and made._stream.device is device:
        return made._stream
    for stream in (
        device.default_stream(),
        device.current_stream(),
        device.communication_stream(),
    ):
        if Stream._of(stream).id == stream_id:
            return stream
    raise ValueError(f"there is no stream with id {stream_id}")


class StreamCtx:
    """Makes a stream current within a ``with`` block; None changes nothing.

    >>> s = weir.hal.Stream()
    >>> with weir.hal.StreamCtx(s):
    ...     weir.hal.current_stream() == s
    True
    """

    def __init__(self, ctx_stream: Stream | None) -> None:
        if ctx_stream is not None and not isinstance(ctx_stream, Stream):
            raise TypeError(
                f"For 'StreamCtx', the argument 'ctx_stream' should be Stream, but got "
                f"{type(ctx_stream)}."
            )
        self.stream = ctx_stream

    def __enter__(self) -> StreamCtx:
        if self.stream is not None:
            self._before = current_stream()
            set_cur_stream(self.stream)
        return self

    def __exit__(self, *exc: object) -> None:
        if self.stream is not None:
            set_cur_stream(self._before)


def set_cur_stream(stream: Stream | None) -> None:
    """Makes the stream current for this thread; None changes nothing.

    >>> weir.hal.set_cur_stream(weir.hal.default_stream())
    """
    if stream is None:
        return
    if not isinstance(stream, Stream):
        raise TypeError(
            f"For 'set_cur_stream', the argument 'stream' should be Stream, but got {type(stream)}."
        )
    stream._stream.set_current()


def current_stream() -> Stream:
    """The stream that runs this thread's operators.

    >>> weir.hal.current_stream().id
    0
    """
    return Stream._of(_C.get_device().current_stream())


def default_stream() -> Stream:
    """The device's default stream.

    >>> weir.hal.default_stream().id
    0
    """
    return Stream._of(_C.get_device().default_stream())


def communication_stream() -> Stream:
    """The stream of communication operators.

    >>> weir.hal.communication_stream() == weir.hal.default_stream()
    False
    """
    return Stream._of(_C.get_device().communication_stream())


def synchronize() -> None:
    """Waits for everything on every stream.

    >>> weir.hal.synchronize()
    """
    _C.get_device().synchronize()


# ---- events ----


class Event:
    """A mark in a stream. Before it is recorded, waiting for it does nothing.

    >>> start, end = (weir.hal.Event(enable_timing=True) for _ in range(2))
    >>> start.record()
    >>> end.record()
    >>> start.elapsed_time(end) >= 0
    True
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False) -> None:
        for name, value in (("enable_timing", enable_timing), ("blocking", blocking)):
            if not isinstance(value, bool):
                raise TypeError(
                    f"For 'Event', the argument '{name}' should be bool, but got {type(value)}."
                )
        self._event = _C.Event(enable_timing, blocking)

    @staticmethod
    def _stream(function, stream):
        if stream is not None and not isinstance(stream, Stream):
            raise TypeError(
                f"For '{function}', the argument 'stream' should be Stream, but got {type(stream)}."
            )
        return None if stream is None else stream._stream

    def record(self, stream: Stream | None = None) -> None:
        """Records the event after the present work of the stream, or of the current one."""
        self._event.record(self._stream("record", stream))

    def wait(self, stream: Stream | None = None) -> None:
        """Makes later operators on the stream, or on the current one, run after the mark."""
        self._event.wait(self._stream("wait", stream))

    def synchronize(self) -> None:
        """The host waits for the mark."""
        self._event.synchronize()

    def query(self) -> bool:
        """Whether the mark has been passed; True before the first record."""
        return self._event.query()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this mark to another, both of events with enable_timing=True."""
        if not isinstance(end_event, Event):
            raise TypeError(
                f"For 'elapsed_time', the argument 'end_event' should be Event, but got "
                f"{type(end_event)}."
            )
        return self._event.elapsed_time(end_event._event)
