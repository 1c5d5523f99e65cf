"""The current stream; each thread has its own."""

from __future__ import annotations

from . import _C
from ._follow import back, follow


def current_stream(device: _C.Device | None = None) -> _C.Stream:
    """The stream that runs this thread's operators.

    >>> weir.current_stream().name
    'default'
    """
    return (device or _C.get_device()).current_stream()


def default_stream(device: _C.Device | None = None) -> _C.Stream:
    """The device's default stream.

    >>> weir.default_stream() == weir.get_device().default_stream()
    True
    """
    return (device or _C.get_device()).default_stream()


def synchronize(device: _C.Device | None = None) -> None:
    """Waits for everything queued on every stream of the device.

    >>> y = weir.ones((8, 8)) @ weir.ones((8, 8))
    >>> weir.synchronize()
    >>> weir.current_stream().query()
    True
    """
    (device or _C.get_device()).synchronize()


def _native(self):
    """The handle of this stream's CUDA stream, as a number, for other libraries: work that they
    queue on it is ordered with work queued here. The CUDA stream has the cores of the present
    limit; after a change of the limit, read this again. Only cuda devices have one."""
    return _C.stream_native(self)


def _wait_native(self, native):
    """Makes work queued from now on run after the CUDA stream's present work."""
    _C.stream_wait_native(self, native)


def _signal_native(self, native):
    """Makes later work of the CUDA stream run after the work queued here."""
    _C.stream_signal_native(self, native)


_C.Stream.native = property(_native)
_C.Stream.wait_native = _wait_native
_C.Stream.signal_native = _signal_native


class stream:
    """Makes a stream current within a ``with`` block; ``None`` changes nothing. On cuda it also
    becomes PyTorch's current stream.

    >>> s = weir.Stream()
    >>> with weir.stream(s):
    ...     print(weir.current_stream() == s)
    True
    >>> weir.current_stream() == weir.default_stream()
    True
    """

    def __init__(self, stream: _C.Stream | None) -> None:
        if stream is not None and not isinstance(stream, _C.Stream):
            raise TypeError(f"a stream is a weir.Stream or None, not {type(stream).__name__}")
        self.stream = stream
        self._before = []

    def __enter__(self) -> _C.Stream | None:
        if self.stream is not None:
            now = self.stream.device.current_stream()
            self.stream.set_current()
            self._before.append((now, follow(self.stream)))
        return self.stream

    def __exit__(self, *exc: object) -> None:
        if self.stream is not None:
            stream, torch_stream = self._before.pop()
            stream.set_current()
            back(torch_stream)
