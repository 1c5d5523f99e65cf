"""The devices and the memory of ``mindspore.hal``."""

from __future__ import annotations

from typing import Any

from . import _C

__all__ = [
    "DeviceProperties",
    "device_count",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "is_available",
    "is_initialized",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_max_memory_allocated",
    "reset_max_memory_reserved",
    "reset_peak_memory_stats",
    "set_memory",
]

_TARGETS = ("CPU", "GPU", "Ascend")

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
    """Whether the current device is of that kind.

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
    """The number of devices of that kind: one, if it is available.

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
    """The properties of the device.

    >>> weir.hal.get_device_properties(0).cube_cores > 0
    True
    """
    _check_id("get_device_properties", device_id)
    _check_target("get_device_properties", device_target)
    device = _C.get_device()
    return DeviceProperties(device.properties(), _C.memory_stats(device)["reserved"])


def get_device_name(device_id: int, device_target: str | None = None) -> str:
    """A readable name of the hardware.

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
        "commom_mem_pool_stats": pool,  # MindSpore's misspelling
        "common_mem_pool_stats": pool,  # the correct spelling
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
    """The peak of bytes taken from the system starts again from what is taken now.

    >>> weir.hal.reset_max_memory_reserved()
    >>> weir.hal.max_memory_reserved() == weir.hal.memory_reserved()
    True
    """
    _check_target("reset_max_memory_reserved", device_target)
    _C.memory_reset_peaks(None, "reserved")


def reset_max_memory_allocated(device_target: str | None = None) -> None:
    """The peak of bytes held by tensors starts again from what they hold now.

    >>> weir.hal.reset_max_memory_allocated()
    >>> weir.hal.max_memory_allocated() == weir.hal.memory_allocated()
    True
    """
    _check_target("reset_max_memory_allocated", device_target)
    _C.memory_reset_peaks(None, "allocated")


def memory_summary(device_target: str | None = None) -> str:
    """A readable table.

    >>> "reserved" in weir.hal.memory_summary()
    True
    """
    _check_target("memory_summary", device_target)
    return _C.memory_summary(None)


def empty_cache() -> None:
    """Waits for running work, then returns unused memory to the system.

    >>> weir.hal.empty_cache()
    """
    device = _C.get_device()
    device.synchronize()
    _C.memory_empty_cache(device)


_limited = False


def set_memory(
    init_size: str = "2GB",
    increase_size: str = "2GB",
    max_size: str = "1024GB",
    optimize_level: str = "O0",
    huge_page_reserve_size: str = "0GB",
) -> None:
    """Limits the pool to ``max_size``; at most once per process. The other sizes are hints, which
    weir's pool ignores: it grows by what it needs.

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
