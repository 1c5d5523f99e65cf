"""PyTorch's current stream follows weir's on a GPU that they share.

PyTorch is asked only if the program has loaded it.
"""

import sys
import threading

_DL_CUDA = 2  # kDLCUDA


def gpu_of(device):
    """The number of the GPU that the device is; None if it is none."""
    kind, number = device.dlpack_device
    return number if kind == _DL_CUDA else None


def torch_on(device):
    """PyTorch, if it is loaded and runs on the GPU that the device is; else None."""
    torch = sys.modules.get("torch")
    if torch is None or gpu_of(device) is None:
        return None
    return torch if torch.cuda.is_available() else None


_made = {}  # PyTorch's objects for CUDA streams, by handle and GPU: making one takes microseconds


def external(torch, stream):
    """PyTorch's object for the CUDA stream that stands for a weir stream."""
    key = stream.native, gpu_of(stream.device)
    if key not in _made:
        _made[key] = torch.cuda.ExternalStream(key[0], device=key[1])
    return _made[key]


# Of this thread: .native is the handle that PyTorch was last given, .device keeps it valid.
_last = threading.local()


def follow(stream):
    """PyTorch's kernels of this thread go to the stream from now on, under its core limit. Gives
    what :func:`back` wants."""
    torch = torch_on(stream.device)
    if torch is None:
        return None
    before = torch.cuda.current_stream(gpu_of(stream.device)), getattr(_last, "device", None)
    now = external(torch, stream)
    torch.cuda.set_stream(now)
    _last.native, _last.device = now.cuda_stream, stream.device
    return before


def back(before):
    """PyTorch's current stream is again the one it was."""
    if before is not None:
        stream, device = before
        sys.modules["torch"].cuda.set_stream(stream)
        _last.native, _last.device = stream.cuda_stream, device


def keep_up(stream):
    """The stream's limit may have changed: PyTorch goes where it has the new one, if it is there."""
    torch = torch_on(stream.device)
    if torch is None:
        return
    now = torch.cuda.current_stream(gpu_of(stream.device))
    if now.cuda_stream == getattr(_last, "native", None):
        follow(stream)


def join(stream):
    """As follow, for good: what PyTorch has queued so far comes first."""
    torch = torch_on(stream.device)
    if torch is not None:
        stream.wait_native(torch.cuda.current_stream(gpu_of(stream.device)).cuda_stream)
        follow(stream)
