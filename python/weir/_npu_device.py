"""The NPUs of ``torch.npu``, by number; weir's default device is one of them.

Number 0 is the default device at the start of the program. ``set_device`` opens others of the same
kind, each with streams, memory and cores of its own, so that every rank of a job can use its own
number. On GPUs the number is the GPU's.
"""

from __future__ import annotations

import os
import types

from . import _C, _follow

__all__ = [
    "can_device_access_peer",
    "config",
    "current_device",
    "device",
    "device_count",
    "device_of",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "is_jit_compile_false",
    "set_compile_mode",
    "set_device",
    "set_option",
    "synchronize",
    "utilization",
]

MOST = 16  # the number of NPUs in a server of the modelled kinds

# {number: device} of one kind. Cleared when weir.set_device sets a default device of another kind.
_family: dict[int, _C.Device] = {}


def _devices():
    now = _C.get_device()
    if not any(opened is now for opened in _family.values()):
        _family.clear()
        _family[_follow.gpu_of(now) or 0] = now
    return _family


def _number_of(device):
    for number, opened in _devices().items():
        if opened is device:
            return number
    return 0


def _parse(device):
    """Returns the number in a device argument, None for the current device. Plain Python, so that
    Dynamo can trace it."""
    if device is None or isinstance(device, _C.Device):
        return None
    if isinstance(device, int) and not isinstance(device, bool):
        return device if device >= 0 else None
    kind, _, number = str(device).partition(":")
    if kind.isdigit() and not number:
        return int(kind)
    if kind == "cuda" and _follow.gpu_of(_C.get_device()) is None:
        raise RuntimeError(f"the device here is '{_C.get_device().name}', not '{device}'")
    if kind not in ("npu", "cpu", "privateuseone", "cuda") or (number and not number.isdigit()):
        raise RuntimeError(f"'{device}' is not a device: say 'npu' or 'npu:0'")
    return int(number) if number and kind != "cpu" else None


def _check_name(device):
    """Raises unless the argument names an existing NPU."""
    number = _parse(device)
    if number is None or number == 0 or number < device_count():
        return
    raise RuntimeError(
        f"there is no 'npu:{number}': {_there_are(device_count())}; set_device({number}) opens it"
    )


def _get_device_index(device, optional=False, allow_cpu=False):
    """Returns the number in a device argument, with the signature of torch_npu's function; -1 for
    the CPU if that is allowed."""
    kind, _, number = str(device).partition(":")
    if isinstance(device, str) and kind not in ("npu", "cpu", "cuda"):
        raise RuntimeError(f"Invalid device string: '{device}'")
    if kind == "cpu" and allow_cpu:
        return -1
    if kind == "cpu":
        raise ValueError(f"Expected a npu device, but got: {device}")
    found = _parse(device)
    if found is None and not optional and not isinstance(device, int):
        raise ValueError(f"Expected a npu device with a number, or an int, but got: {device}")
    return current_device() if found is None else found


def _there_are(count):
    return "there is one NPU here, 'npu:0'" if count == 1 else f"there are {count} NPUs here"


def _check_device(device):
    if isinstance(device, _C.Device):
        return device
    _check_name(device)
    number = _parse(device)
    return _C.get_device() if number is None else _open(number)


def _open(number):
    family = _devices()
    if number not in family:
        if number >= MOST:
            raise RuntimeError(f"device number {number} is out of range [0, {MOST})")
        first = next(iter(family.values()))
        on_gpu = _follow.gpu_of(first) is not None
        family[number] = _C.Device(f"cuda:{number}" if on_gpu else first.name)
    return family[number]


# ---- selecting a device ----


def device_count() -> int:
    """The number of NPUs: one, or one per rank of the job on this machine (torchrun's
    LOCAL_WORLD_SIZE), or as many as ``set_device`` has opened."""
    family = _devices()
    torch = _follow.torch_on(_C.get_device())
    if torch:
        return torch.cuda.device_count()
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1 + max(family), min(int(ranks), MOST) if ranks.isdigit() else 1)


def current_device() -> int:
    """The number of the current device.

    >>> weir.npu.current_device()
    0
    """
    return _number_of(_C.get_device())


def set_device(device: object) -> None:
    """Makes a device the default one for all threads; opens it if needed.

    >>> weir.npu.set_device(0)
    """
    number = _parse(device)
    target = device if isinstance(device, _C.Device) else _C.get_device()
    if number is not None:
        target = _open(number)
    if target is not _C.get_device():
        _C.set_device(target)
        _follow.join(target.current_stream())


class device:
    """``with device(1):`` makes that device the default within the block; None changes nothing.

    >>> with weir.npu.device(0):
    ...     weir.npu.current_device()
    0
    """

    def __init__(self, device: object) -> None:
        self.idx = -1 if _parse(device) is None else _parse(device)
        self.device = _check_device(device)

    def __enter__(self) -> device:
        self._before = _C.get_device()
        set_device(self.device)
        return self

    def __exit__(self, *exc: object) -> None:
        set_device(self._before)


class device_of(device):
    """``with device_of(x):`` changes nothing: all NPUs share the host's memory, so the current
    device can use x."""

    def __init__(self, obj: object) -> None:
        super().__init__(None)


# ---- properties ----


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
    """True: the device is opened on first use."""
    return is_available()


def synchronize(device: object = None) -> None:
    """Waits for everything on every stream.

    >>> weir.npu.synchronize()
    """
    _check_device(device).synchronize()


def get_device_name(device: object = None) -> str:
    """A readable name of the hardware."""
    return _check_device(device).properties()["model"]


_OF_GPUS = (
    "major minor is_multi_gpu_board is_integrated max_threads_per_multi_processor warp_size "
    "regs_per_multiprocessor gcnArchName"
).split()


def get_device_properties(device: object = None) -> types.SimpleNamespace:
    """An object with name, total_memory, cube_core_num and vector_core_num; further properties of a
    GPU are None, as in torch_npu.

    >>> weir.npu.get_device_properties().cube_core_num > 0
    True
    """
    p = _check_device(device).properties()
    return types.SimpleNamespace(
        **dict.fromkeys(_OF_GPUS),
        name=p["model"],
        total_memory=p["memory_bytes"],
        cube_core_num=p["cube_cores"],
        vector_core_num=p["vector_cores"],
    )


def get_device_capability(device: object = None) -> tuple[int, int] | None:
    """The value of TORCH_NPU_DEVICE_CAPABILITY, such as "9.0"; else None, as in torch_npu."""
    major, _, minor = os.environ.get("TORCH_NPU_DEVICE_CAPABILITY", "").partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def can_device_access_peer(device_id: int, peer_device_id: int) -> bool:
    """Whether one device can read the other's memory: always true on the host and in the model."""
    for what, number in (("device", device_id), ("peer device", peer_device_id)):
        if not 0 <= number < device_count():
            raise AssertionError(f"Invalid {what} id {number}: {_there_are(device_count())}")
    a, b = _check_device(device_id), _check_device(peer_device_id)
    return a is not b and all(_follow.gpu_of(d) is None for d in (a, b))


def utilization(device: object = None) -> int:
    """Always 0: weir measures how busy cores are in traces only."""
    _check_device(device)
    return 0


def is_bf16_supported() -> bool:
    """True: every device of weir computes bfloat16."""
    return True


# ---- settings without effect: weir's kernels are compiled ahead ----


def set_compile_mode(jit_compile: bool = False) -> None:
    """Does nothing: weir's kernels are compiled ahead."""
    if not isinstance(jit_compile, bool):
        raise TypeError(f"jit_compile must be a bool, not {type(jit_compile).__name__}")


def is_jit_compile_false() -> bool:
    """True: weir compiles nothing at run time."""
    return True


def set_option(option: dict[str, str]) -> None:
    """Does nothing: the options are CANN's, which is not used here."""
    if not isinstance(option, dict):
        raise TypeError(f"option must be a dict, not {type(option).__name__}")


# Memory layouts of an NPU, which weir lacks: the settings have no effect.
config = types.SimpleNamespace(allow_internal_format=False)
