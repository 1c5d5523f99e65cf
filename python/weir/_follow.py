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


def external(torch, stream):
    """PyTorch's object for the CUDA stream that stands for a weir stream."""
    return torch.cuda.ExternalStream(stream.native, device=gpu_of(stream.device))


_last = threading.local()  # .native: the handle that this thread's PyTorch was last given


def follow(stream):
    """PyTorch's kernels of this thread go to the stream from now on, under its core limit. Gives
    what :func:`back` wants."""
    torch = torch_on(stream.device)
    if torch is None:
        return None
    before = torch.cuda.current_stream(gpu_of(stream.device))
    now = external(torch, stream)
    torch.cuda.set_stream(now)
    _last.native = now.cuda_stream
    return before


def back(before):
    """PyTorch's current stream is again the one it was."""
    if before is not None:
        sys.modules["torch"].cuda.set_stream(before)
        _last.native = before.cuda_stream


def keep_up(stream):
    """The stream's limit may have changed: PyTorch goes where it has the new one, if it is there."""
    torch = torch_on(stream.device)
    if torch is None:
        return
    if torch.cuda.current_stream(gpu_of(stream.device)).cuda_stream == getattr(_last, "native", None):
        follow(stream)


def join(stream):
    """As follow, for good: what PyTorch has queued so far comes first."""
    torch = torch_on(stream.device)
    if torch is not None:
        stream.wait_native(torch.cuda.current_stream(gpu_of(stream.device)).cuda_stream)
        follow(stream)
