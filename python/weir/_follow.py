"""Makes PyTorch's current stream follow weir's on a GPU that they share.

Does nothing unless the program has imported PyTorch.
"""

import sys
import threading

_DL_CUDA = 2  # kDLCUDA


def gpu_of(device):
    """The number of the device's GPU; None if the device is no GPU."""
    kind, number = device.dlpack_device
    return number if kind == _DL_CUDA else None


def torch_on(device):
    """The module torch, if it is loaded and runs on the device's GPU; else None."""
    torch = sys.modules.get("torch")
    if torch is None or gpu_of(device) is None:
        return None
    return torch if torch.cuda.is_available() else None


_made = {}  # cache of PyTorch's stream objects by handle and GPU: creating one takes microseconds


def external(torch, stream):
    """PyTorch's object for the CUDA stream of a weir stream."""
    key = stream.native, gpu_of(stream.device)
    if key not in _made:
        _made[key] = torch.cuda.ExternalStream(key[0], device=key[1])
    return _made[key]


# Per thread: .native is the last handle given to PyTorch, .device keeps it valid.
_last = threading.local()


def follow(stream):
    """Makes the stream PyTorch's current one for this thread, under its core limit. Returns the
    argument for :func:`back`."""
    torch = torch_on(stream.device)
    if torch is None:
        return None
    before = torch.cuda.current_stream(gpu_of(stream.device)), getattr(_last, "device", None)
    now = external(torch, stream)
    torch.cuda.set_stream(now)
    _last.native, _last.device = now.cuda_stream, stream.device
    return before


def back(before):
    """Restores PyTorch's current stream."""
    if before is not None:
        stream, device = before
        sys.modules["torch"].cuda.set_stream(stream)
        _last.native, _last.device = stream.cuda_stream, device


def keep_up(stream):
    """Updates PyTorch's current stream after the stream's limit may have changed, if it is
    current."""
    torch = torch_on(stream.device)
    if torch is None:
        return
    now = torch.cuda.current_stream(gpu_of(stream.device))
    if now.cuda_stream == getattr(_last, "native", None):
        follow(stream)


def join(stream):
    """As follow, permanently; the stream waits for what PyTorch has queued so far."""
    torch = torch_on(stream.device)
    if torch is not None:
        stream.wait_native(torch.cuda.current_stream(gpu_of(stream.device)).cuda_stream)
        follow(stream)
