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

_TARGETS = ("CPU", "GPU", "Ascend")


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
        """The number of the stream on its device; 0 is the default stream."""
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
        """Records an event, a new one without an argument, and gives it back."""
        if event is not None and not isinstance(event, Event):
            raise TypeError(
                f"For 'record_event', the argument 'event' should be Event, but got {type(event)}."
            )
        event = event if event is not None else Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """What is issued from now on runs after the event."""
        if not isinstance(event, Event):
            raise TypeError(
                f"For 'wait_event', the argument 'event' should be Event, but got {type(event)}."
            )
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """What is issued from now on runs after what the other stream has so far."""
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
    """The stream that operators of this thread go to.

    >>> weir.hal.current_stream().id
    0
    """
    return Stream._of(_C.get_device().current_stream())


def default_stream() -> Stream:
    """The stream the device has from the start.

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
        """Marks the point after what the stream (or the current one) has so far."""
        self._event.record(self._stream("record", stream))

    def wait(self, stream: Stream | None = None) -> None:
        """What the stream (or the current one) gets from now on runs after the mark."""
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


# ---- devices ----


def _target():
    return {"cuda": "GPU", "npu": "Ascend"}.get(_C.get_device().name.partition(":")[0], "CPU")


def _check_target(function, device_target):
    if device_target is None:
        return _target()
    if device_target not in _TARGETS:
        raise ValueError(
            f"For '{function}', the argument 'device_target' must be one of {list(_TARGETS)}, but "
            f"got {device_target!r}."
        )
    return device_target


def is_initialized(device_target: str | None) -> bool:
    """Whether the device of that kind is the one in use.

    >>> weir.hal.is_initialized(weir.hal.current_stream().device_name)
    True
    """
    return _check_target("is_initialized", device_target) == _target()


def is_available(device_target: str | None) -> bool:
    """Whether a device of that kind can be used here.

    >>> weir.hal.is_available("CPU")
    True
    """
    target = _check_target("is_available", device_target)
    name = {"GPU": "cuda", "Ascend": "npu"}.get(target, "cpu")
    drivers = {d["name"]: d["reason"] for d in _C.list_drivers()}
    return target == _target() or drivers.get(name, "unknown") is None


def device_count(device_target: str | None = None) -> int:
    """How many there are: one, if it is available.

    >>> weir.hal.device_count()
    1
    """
    return int(is_available(_check_target("device_count", device_target)))


def _check_id(function, device_id):
    if isinstance(device_id, bool) or not isinstance(device_id, int):
        raise TypeError(
            f"For '{function}', the argument 'device_id' should be int, but got {type(device_id)}."
        )
    if device_id != 0:
        raise ValueError(f"For '{function}', 'device_id' {device_id} is out of range [0, 1).")


class DeviceProperties:
    """name, total_memory, free_memory, cube_cores and vector_cores of a device.

    >>> weir.hal.get_device_properties(0).total_memory > 0
    True
    """

    def __init__(self, properties: dict[str, Any], reserved: int) -> None:
        self.name = properties["model"]
        self.total_memory = properties["memory_bytes"]
        self.free_memory = properties["memory_bytes"] - reserved
        self.cube_cores = properties["cube_cores"]
        self.vector_cores = properties["vector_cores"]

    def __repr__(self) -> str:
        return f"DeviceProperties({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"


def get_device_properties(device_id: int, device_target: str | None = None) -> DeviceProperties:
    """What the device is and has.

    >>> weir.hal.get_device_properties(0).cube_cores > 0
    True
    """
    _check_id("get_device_properties", device_id)
    _check_target("get_device_properties", device_target)
    device = _C.get_device()
    return DeviceProperties(device.properties(), _C.memory_stats(device)["reserved"])


def get_device_name(device_id: int, device_target: str | None = None) -> str:
    """The hardware, for people.

    >>> weir.hal.get_device_name(0) == weir.hal.get_device_properties(0).name
    True
    """
    return get_device_properties(device_id, device_target).name


def get_device_capability(
    device_id: int, device_target: str | None = None
) -> tuple[int, int] | None:
    """(major, minor) on GPUs; None elsewhere, as in MindSpore."""
    _check_id("get_device_capability", device_id)
    _check_target("get_device_capability", device_target)
    return None


def get_arch_list(device_target: str | None = None) -> list[str] | None:
    """The architectures of a GPU build; None elsewhere, as in MindSpore."""
    _check_target("get_arch_list", device_target)
    return None


# ---- memory ----


def memory_stats(device_target: str | None = None) -> dict[str, Any]:
    """Sizes and blocks of the memory pool, under MindSpore's keys.

    >>> stats = weir.hal.memory_stats()
    >>> stats["total_allocated_memory"] <= stats["total_reserved_memory"]
    True
    """
    _check_target("memory_stats", device_target)
    device = _C.get_device()
    stats = _C.memory_stats(device)
    blocks = {
        block["address"]: {
            "block_stream_id": block["stream_id"],
            "block_memory_size": block["size"],
        }
        for block in _C.memory_blocks(device)
    }
    pool = {"block_unit_size": 512, "block_counts": len(blocks), "blocks_info": blocks}
    return {
        "total_reserved_memory": stats["reserved"],
        "total_allocated_memory": stats["allocated"],
        "total_idle_memory": stats["idle"],
        "total_eager_free_memory": stats["pending"],
        "max_reserved_memory": stats["peak_reserved"],
        "max_allocated_memory": stats["peak_allocated"],
        "commom_mem_pool_stats": pool,  # as MindSpore spells it,
        "common_mem_pool_stats": pool,  # and as it means it
        "persistent_mem_pool_stats": {
            "block_unit_size": 512,
            "block_counts": 0,
            "blocks_info": {},
        },
    }


def memory_reserved(device_target: str | None = None) -> int:
    """Bytes taken from the system.

    >>> weir.hal.memory_reserved() >= weir.hal.memory_allocated()
    True
    """
    return memory_stats(device_target)["total_reserved_memory"]


def max_memory_reserved(device_target: str | None = None) -> int:
    """The most bytes taken from the system since the last reset.

    >>> weir.hal.max_memory_reserved() >= weir.hal.memory_reserved()
    True
    """
    return memory_stats(device_target)["max_reserved_memory"]


def memory_allocated(device_target: str | None = None) -> int:
    """Bytes held by tensors.

    >>> before = weir.hal.memory_allocated()
    >>> t = weir.empty((1024,))
    >>> weir.hal.memory_allocated() - before
    4096
    """
    return memory_stats(device_target)["total_allocated_memory"]


def max_memory_allocated(device_target: str | None = None) -> int:
    """The most bytes held by tensors since the last reset.

    >>> weir.hal.max_memory_allocated() >= weir.hal.memory_allocated()
    True
    """
    return memory_stats(device_target)["max_allocated_memory"]


def reset_peak_memory_stats(device_target: str | None = None) -> None:
    """Both peaks start again from what is in use now.

    >>> weir.hal.reset_peak_memory_stats()
    >>> weir.hal.max_memory_allocated() == weir.hal.memory_allocated()
    True
    """
    _check_target("reset_peak_memory_stats", device_target)
    _C.memory_reset_peaks(None)


def reset_max_memory_reserved(device_target: str | None = None) -> None:
    """The peaks start again from what is in use now; weir resets both together.

    >>> weir.hal.reset_max_memory_reserved()
    >>> weir.hal.max_memory_reserved() == weir.hal.memory_reserved()
    True
    """
    reset_peak_memory_stats(device_target)


def reset_max_memory_allocated(device_target: str | None = None) -> None:
    """The peaks start again from what is in use now; weir resets both together.

    >>> weir.hal.reset_max_memory_allocated()
    >>> weir.hal.max_memory_allocated() == weir.hal.memory_allocated()
    True
    """
    reset_peak_memory_stats(device_target)


def memory_summary(device_target: str | None = None) -> str:
    """A table for people.

    >>> "reserved" in weir.hal.memory_summary()
    True
    """
    _check_target("memory_summary", device_target)
    return _C.memory_summary(None)


def empty_cache() -> None:
    """Gives memory that nobody uses back to the system.

    >>> weir.hal.empty_cache()
    """
    _C.memory_empty_cache(None)


_limited = False


def set_memory(
    init_size: str = "2GB",
    increase_size: str = "2GB",
    max_size: str = "1024GB",
    optimize_level: str = "O0",
    huge_page_reserve_size: str = "0GB",
) -> None:
    """Limits the pool to ``max_size``; once in a process. The other sizes are hints that weir's
    pool, which grows by what it needs, has no use for.

    >>> weir.hal.set_memory(max_size="much")
    Traceback (most recent call last):
        ...
    ValueError: set_memory: max_size is written like '2GB', not 'much'
    """
    global _limited
    if _limited:
        raise RuntimeError("set_memory can be called once in a process")
    sizes = {"init_size": init_size, "increase_size": increase_size, "max_size": max_size}
    parsed = {}
    for name, text in sizes.items():
        number = text[:-2] if isinstance(text, str) and text.endswith("GB") else ""
        try:
            parsed[name] = int(float(number) * (1 << 30))
        except ValueError:
            raise ValueError(f"set_memory: {name} is written like '2GB', not {text!r}") from None
        if parsed[name] <= 0:
            raise ValueError(f"set_memory: {name} must be positive, not {text!r}")
    if parsed["init_size"] > parsed["max_size"]:
        raise ValueError(f"set_memory: init_size {init_size} is above max_size {max_size}")
    device = _C.get_device()
    _C.memory_set_limit(device, min(parsed["max_size"], device.properties()["memory_bytes"]))
    _limited = True
