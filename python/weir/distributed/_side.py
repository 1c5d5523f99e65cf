"""Groups for one kind of memory: the host's, or a GPU's."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import uuid

import torch

from .. import _C
from .._create import from_dlpack


def engine_for(device):
    """The engine in WEIR_ENGINE, if the device supports it."""
    asked = os.environ.get("WEIR_ENGINE") or None
    return asked if asked != "nccl" or device.name.startswith("cuda") else "shm"


class Side:
    """weir's device for the tensors on one of PyTorch's devices, with its groups of ranks. A group
    is created at its ranks' first call, where the ranks wait for each other; groups of the host are
    created at once.

    On a GPU messages use a group per pair of ranks, since the other ranks make no call."""

    def __init__(self, owner, where):
        self.owner, self.where = owner, where
        self.device, self.gpu = self._open(f"op_timeout={int(owner.seconds * 2) + 10}")
        self.groups, self._streams = {}, {}
        self._lock = threading.Lock()

    def _open(self, options):
        """Opens weir's device, and for a GPU PyTorch's side of it."""
        if self.where.type == "cpu":
            return _C.Device(f"cpu:cores=2,{options}"), None
        from .._torch.gpu import Gpu  # late: this imports the whole backend for torch.compile

        device = _C.Device(f"cuda:{self.where.index},{options}")
        return device, Gpu(device, self.where.index)

    # ---- groups ----

    def group(self, ranks=None):
        """The group of those ranks, or of all."""
        with self._lock:
            if ranks not in self.groups:
                self.groups[ranks] = self._join(ranks)
            return self.groups[ranks]

    def _join(self, ranks):
        who = tuple(range(self.owner.size())) if ranks is None else ranks
        key = f"weir {self.where.type} {'all' if ranks is None else ranks}"
        return self.owner.join(self.device, key, who)

    def with_peer(self, peer):
        """The group for messages with the peer, and the peer's rank in it."""
        if not self.gpu or self.owner.size() == 2:
            return self.group(), peer
        pair = tuple(sorted((self.owner.rank(), peer)))
        return self.group(pair), pair.index(peer)

    # ---- tensors and streams ----

    def share(self, tensor):
        """Wraps a tensor for weir; the stream waits for PyTorch's queued work on it."""
        if not self.gpu:
            return from_dlpack(tensor, self.device)
        return _C.from_capsule(tensor.__dlpack__(stream=-1), self.device)

    def stream(self, key):
        """The stream for a call: one for all collectives, one per pair of ranks and direction."""
        if key not in self._streams:
            self._streams[key] = _C.Stream(device=self.device)
        return self._streams[key]

    @contextlib.contextmanager
    def calls_on(self, stream):
        """A context in which calls go to the stream, ordered after PyTorch's current stream."""
        if self.gpu:
            if self.gpu.is_recording():
                raise RuntimeError("backend weir: PyTorch cannot capture collectives into a CUDA graph")
            self.gpu.order_after(stream, self.gpu.current())
        before = self.device.current_stream()
        stream.set_current()
        try:
            yield
        finally:
            before.set_current()

    def waits(self):
        """Whether calls have completed when they return."""
        if self.gpu is None:
            return False
        from .._torch.gpu import is_lazy

        return is_lazy()

    def settle(self):
        """Waits for the work on PyTorch's current stream."""
        if self.gpu:
            self.gpu.current().synchronize()

    def future(self):
        return torch.futures.Future(devices=[self.where] if self.gpu else None)


def new_address():
    """Returns the name of a new file at which ranks meet."""
    name = f"weir-{os.geteuid()}-{uuid.uuid4().hex}"
    return os.path.join(tempfile.gettempdir(), name)
