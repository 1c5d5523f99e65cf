"""The memory of ``torch.npu``: weir's pool, and PyTorch's tensors on the NPU.

If the NPU's memory is the host's, PyTorch's tensors that a program moved to the NPU or created
there are counted by their storages (:func:`hold`), in blocks of 512 bytes as in torch_npu. Results
of PyTorch's own kernels are not counted. On a GPU PyTorch counts by itself.
"""

from __future__ import annotations

import collections
import threading
import weakref

from . import _C, _follow
from . import memory as _memory
from ._npu_device import _check_device, _number_of

__all__ = [
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "empty_cache",
    "empty_virt_addr_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_empty_cache",
    "ipc_collect",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]

BLOCK = 512


class _Held:
    """Counts the live storages of PyTorch on one device."""

    def __init__(self):
        self._sizes = {}  # by address of the storage
        # Filled by finalizers, which may run at any point, so they only append.
        self._gone = collections.deque()
        self._lock = threading.Lock()
        self.bytes = self.peak = self.blocks = self.most_blocks = 0
        self.allocated = self.freed = self.allocations = self.frees = 0
        self.before = 0, 0  # the pool's counts of calls at the last reset

    def collect(self):
        with self._lock:
            while self._gone:
                size = self._sizes.pop(self._gone.popleft())
                self.bytes -= size
                self.blocks -= 1
                self.freed += size
                self.frees += 1

    def add(self, storage):
        self.collect()  # first, as an address may have been reused
        with self._lock:
            address = storage._cdata
            if address in self._sizes:
                return
            size = -(-storage.nbytes() // BLOCK) * BLOCK
            self._sizes[address] = size
            weakref.finalize(storage, self._gone.append, address).atexit = False
            self.bytes += size
            self.blocks += 1
            self.allocated += size
            self.allocations += 1
            self.peak = max(self.peak, self.bytes)
            self.most_blocks = max(self.most_blocks, self.blocks)

    def __contains__(self, storage):
        self.collect()
        return storage._cdata in self._sizes


_held = collections.defaultdict(_Held)  # by device number


def hold(storage):
    """Counts a storage of PyTorch for the current device as long as it lives."""
    if not is_held(storage):
        _held[_number_of(_C.get_device())].add(storage)


def is_held(storage):
    """Whether the storage is counted for a device."""
    return any(storage in held for held in list(_held.values()))


def _of(device):
    held = _held[_number_of(device)]
    held.collect()
    return held


def _of_torch(name, device):
    """PyTorch's statistic of its own memory on the GPU, to be added to weir's; else 0."""
    torch = _follow.torch_on(device)
    return getattr(torch.cuda, name)(_follow.gpu_of(device)) if torch else 0


def memory_stats_as_nested_dict(device: object = None) -> dict[str, object]:
    """The counters under torch_npu's names: weir has one pool, ``all``.

    >>> weir.npu.memory_stats_as_nested_dict()["num_ooms"]
    0
    """
    device = _check_device(device)
    pool, held = _memory.memory_stats(device), _of(device)

    def counts(current, peak, allocated, freed):
        return {"all": {"current": current, "peak": peak, "allocated": allocated, "freed": freed}}

    allocated = pool["allocated"] + held.bytes
    reserved = pool["reserved"] + held.bytes
    total = pool["allocated"] + held.allocated  # the pool keeps a history of calls, not of bytes
    blocks = pool["allocations"] - pool["frees"] + held.blocks
    calls = (
        pool["allocations"] - held.before[0] + held.allocations,
        pool["frees"] - held.before[1] + held.frees,
    )
    most = max(blocks, held.most_blocks)
    stats = {
        "allocation": counts(blocks, most, *calls),
        "allocated_bytes": counts(
            allocated, pool["peak_allocated"] + held.peak, total, held.freed
        ),
        "active": counts(blocks, most, *calls),
        "active_bytes": counts(
            allocated + pool["pending"], pool["peak_allocated"] + held.peak, total, held.freed
        ),
        "requested_bytes": counts(
            allocated, pool["peak_allocated"] + held.peak, total, held.freed
        ),
        "reserved_bytes": counts(
            reserved, pool["peak_reserved"] + held.peak, pool["reserved"] + held.allocated, held.freed
        ),
        "segment": counts(pool["segments"] + held.blocks, most, *calls),
        "inactive_split": counts(0, 0, 0, 0),
        "inactive_split_bytes": counts(pool["idle"], pool["idle"], pool["idle"], 0),
        "num_alloc_retries": pool["host_syncs"],
        "num_ooms": pool["failed"],
    }
    if _follow.torch_on(device):
        _add(stats, _of_torch("memory_stats_as_nested_dict", device))
    return stats


def _add(stats, more):
    for name, value in stats.items():
        if isinstance(value, dict):
            _add(value, more.get(name, {}))
        else:
            stats[name] = value + more.get(name, 0)


def memory_stats(device: object = None) -> dict[str, int]:
    """The same as a flat dict: ``allocated_bytes.all.peak`` and so on. See also weir.memory_stats.

    >>> stats = weir.npu.memory_stats()
    >>> stats["allocated_bytes.all.current"] == weir.npu.memory_allocated()
    True
    """
    flat = {}

    def walk(prefix, value):
        if isinstance(value, dict):
            for name, part in value.items():
                walk(f"{prefix}.{name}" if prefix else name, part)
        else:
            flat[prefix] = value

    walk("", memory_stats_as_nested_dict(device))
    return collections.OrderedDict(sorted(flat.items()))


def memory_allocated(device: object = None) -> int:
    """Bytes held by tensors, PyTorch's on the NPU included."""
    device = _check_device(device)
    pool = _memory.memory_allocated(device) + _of(device).bytes
    return pool + _of_torch("memory_allocated", device)


def memory_reserved(device: object = None) -> int:
    """Bytes taken from the system."""
    device = _check_device(device)
    pool = _memory.memory_reserved(device) + _of(device).bytes
    return pool + _of_torch("memory_reserved", device)


def max_memory_allocated(device: object = None) -> int:
    """The most bytes held by tensors since the peaks were reset."""
    device = _check_device(device)
    pool = _memory.max_memory_allocated(device) + _of(device).peak
    return pool + _of_torch("max_memory_allocated", device)


def max_memory_reserved(device: object = None) -> int:
    """The most bytes taken from the system since the peaks were reset."""
    device = _check_device(device)
    pool = _memory.max_memory_reserved(device) + _of(device).peak
    return pool + _of_torch("max_memory_reserved", device)


memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def reset_peak_memory_stats(device: object = None) -> None:
    """The peaks start again from what is in use now."""
    device = _check_device(device)
    _memory.reset_peak_memory_stats(device)
    held = _of(device)
    held.peak, held.most_blocks = held.bytes, held.blocks
    _of_torch("reset_peak_memory_stats", device)


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: object = None) -> None:
    """Restarts the counts of allocated and freed memory."""
    device = _check_device(device)
    held = _of(device)
    held.allocated = held.freed = held.allocations = held.frees = 0
    pool = _memory.memory_stats(device)
    held.before = pool["allocations"], pool["frees"]
    _of_torch("reset_accumulated_memory_stats", device)


def memory_summary(device: object = None, abbreviated: bool = False) -> str:
    """A readable table: bytes by stream and state."""
    return _memory.memory_summary(_check_device(device))


def mem_get_info(device: object = None) -> tuple[int, int]:
    """(free, total) bytes of the device.

    >>> free, total = weir.npu.mem_get_info()
    >>> free <= total
    True
    """
    total = _check_device(device).properties()["memory_bytes"]
    return total - memory_reserved(device), total


def set_per_process_memory_fraction(fraction: float, device: object = None) -> None:
    """Limits weir's pool to that fraction of the device's memory.

    >>> weir.npu.set_per_process_memory_fraction(0.5)
    >>> weir.npu.get_per_process_memory_fraction()
    0.5
    >>> weir.npu.set_per_process_memory_fraction(1.0)
    """
    if not isinstance(fraction, float):
        raise TypeError(f"Invalid type for fraction: {type(fraction).__name__}, must be a float")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}, must be in [0, 1]")
    device = _check_device(device)
    _C.memory_set_limit(device, int(device.properties()["memory_bytes"] * fraction))


def get_per_process_memory_fraction(device: object = None) -> float:
    """The fraction of the device's memory that weir's pool may take."""
    device = _check_device(device)
    total = device.properties()["memory_bytes"]
    return round(min(_memory.memory_stats(device)["limit"] / total, 1), 9)


_raw: dict[int, _C.Tensor] = {}  # memory returned as addresses


def caching_allocator_alloc(size: int, device: object = None, stream: object = None) -> int:
    """Allocates ``size`` bytes and returns their address; free them by caching_allocator_delete."""
    memory = _C.empty((size,), _C.uint8, _check_device(device))
    _raw[memory.data_ptr()] = memory
    return memory.data_ptr()


def caching_allocator_delete(mem_ptr: int) -> None:
    """Frees memory of caching_allocator_alloc."""
    if _raw.pop(mem_ptr, None) is None:
        raise RuntimeError(f"caching_allocator_delete: {mem_ptr:#x} was not allocated here")


def get_allocator_backend() -> str:
    """The name of the allocator: weir's."""
    return "native"


def empty_cache() -> None:
    """Waits for running work, then returns unused memory to the system.

    >>> weir.npu.empty_cache()
    """
    device = _C.get_device()
    device.synchronize()
    _memory.empty_cache(device)
    torch = _follow.torch_on(device)
    if torch:
        torch.cuda.empty_cache()


empty_virt_addr_cache = empty_cache


def host_empty_cache() -> None:
    """Does nothing: the host's memory is returned to the system when it is freed."""


def ipc_collect() -> None:
    """Does nothing: weir shares no memory between processes on its own."""
