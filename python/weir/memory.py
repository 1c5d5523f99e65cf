"""Statistics of a device's memory. ``device`` is a weir.Device, or None for the default."""

from . import _C


def memory_stats(device: _C.Device | None = None) -> dict[str, int]:
    """The pool's counters, in bytes and calls.

    >>> stats = weir.memory_stats()
    >>> stats["reserved"] == stats["allocated"] + stats["pending"] + stats["idle"]
    True
    """
    return _C.memory_stats(device)


def memory_summary(device: _C.Device | None = None) -> str:
    """A readable table: bytes by stream and state.

    >>> weir.memory_summary().startswith("memory of ")
    True
    """
    return _C.memory_summary(device)


def memory_allocated(device: _C.Device | None = None) -> int:
    """Bytes held by tensors.

    >>> before = weir.memory_allocated()
    >>> t = weir.empty((1024,))
    >>> weir.memory_allocated() - before
    4096
    """
    return _C.memory_stats(device)["allocated"]


def memory_reserved(device: _C.Device | None = None) -> int:
    """Bytes taken from the system.

    >>> weir.memory_reserved() >= weir.memory_allocated()
    True
    """
    return _C.memory_stats(device)["reserved"]


def max_memory_allocated(device: _C.Device | None = None) -> int:
    """The most bytes held by tensors since the peaks were reset.

    >>> weir.max_memory_allocated() >= weir.memory_allocated()
    True
    """
    return _C.memory_stats(device)["peak_allocated"]


def max_memory_reserved(device: _C.Device | None = None) -> int:
    """The most bytes taken from the system since the peaks were reset.

    >>> weir.max_memory_reserved() >= weir.memory_reserved()
    True
    """
    return _C.memory_stats(device)["peak_reserved"]


def reset_peak_memory_stats(device: _C.Device | None = None) -> None:
    """The peaks start again from what is in use now.

    >>> weir.reset_peak_memory_stats()
    >>> weir.max_memory_allocated() == weir.memory_allocated()
    True
    """
    _C.memory_reset_peaks(device)


def empty_cache(device: _C.Device | None = None) -> None:
    """Returns unused memory to the system.

    >>> weir.empty_cache()
    >>> weir.memory_stats()['idle'] <= weir.memory_reserved()
    True
    """
    _C.memory_empty_cache(device)
