"""``torch.accelerator`` for the NPU. PyTorch's own functions require a backend in C++, which the
NPU does not have, as its tensors are CPU tensors."""

import torch

import weir

_NAMES = {
    "current_device_index": "current_device",
    "current_device_idx": "current_device",
    "set_device_index": "set_device",
    "set_device_idx": "set_device",
    "get_memory_info": "mem_get_info",
    "empty_host_cache": "host_empty_cache",
    "device_index": "device",
}
_SAME = (
    "current_stream device_count empty_cache get_device_capability is_available "
    "max_memory_allocated max_memory_reserved memory_allocated memory_reserved memory_stats "
    "reset_accumulated_memory_stats reset_peak_memory_stats set_stream synchronize"
).split()


def teach():
    """Replaces PyTorch's functions by those of weir.npu."""
    for name in (*_SAME, *_NAMES):
        if hasattr(torch.accelerator, name):
            setattr(torch.accelerator, name, getattr(weir.npu, _NAMES.get(name, name)))
    torch.accelerator.current_accelerator = _current_accelerator
    # PyTorch's own modules use this for the device of tensors.
    torch._C._get_accelerator = lambda check_available=None: torch.device("cpu")


def _current_accelerator(check_available=False):
    return torch.device("npu")
