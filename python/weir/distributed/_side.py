"""Groups of one kind of memory: the host's, or a GPU's."""

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
    """What WEIR_ENGINE asks for, where the device can have it."""
    asked = os.environ.get("WEIR_ENGINE") or None
    return asked if asked != "nccl" or device.name.startswith("cuda") else "shm"


class Side:
    """weir's device for the tensors of one of PyTorch's, with groups of ranks on it. A group is made
    when its ranks first call on it, and they wait for each other there; those of the host at once.

    Messages of a GPU have a group for each pair of ranks, since the others do not call."""

    def __init__(self, owner, where):
        self.owner, self.where = owner, where
        self.device, self.gpu = self._open(f"op_timeout={int(owner.seconds * 2) + 10}")
        self.groups, self._streams = {}, {}
        self._lock = threading.Lock()

    def _open(self, options):
        """weir's device, and what PyTorch's is if it is a GPU."""
        if self.where.type == "cpu":
            return _C.Device(f"cpu:cores=2,{options}"), None
        from .._torch.gpu import Gpu  # with all of the backend for torch.compile

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
        """The group that messages of these two are in, and the peer's rank there."""
        if not self.gpu or self.owner.size() == 2:
            return self.group(), peer
        pair = tuple(sorted((self.owner.rank(), peer)))
        return self.group(pair), pair.index(peer)

    # ---- tensors and streams ----

    def share(self, tensor):
        """As a tensor of weir. What PyTorch has queued for it is waited for by the stream."""
        if not self.gpu:
            return from_dlpack(tensor, self.device)
        return _C.from_capsule(tensor.__dlpack__(stream=-1), self.device)

    def stream(self, key):
        """Collectives are in order; each pair of ranks has a stream for each direction."""
        if key not in self._streams:
            self._streams[key] = _C.Stream(device=self.device)
        return self._streams[key]

    @contextlib.contextmanager
    def calls_on(self, stream):
        """Calls go to the stream, after what PyTorch's current one has."""
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
        """Whether calls are over when they return."""
        if self.gpu is None:
            return False
        from .._torch.gpu import is_lazy

        return is_lazy()

    def settle(self):
        """What PyTorch's current stream has is over."""
        if self.gpu:
            self.gpu.current().synchronize()

    def future(self):
        return torch.futures.Future(devices=[self.where] if self.gpu else None)


def new_address():
    """Where ranks meet: a file that nobody has."""
    name = f"weir-{os.geteuid()}-{uuid.uuid4().hex}"
    return os.path.join(tempfile.gettempdir(), name)
