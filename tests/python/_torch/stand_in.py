"""The host in a GPU's place: graphs are made and run as on a GPU, without one."""

import pytest
import torch

import weir
from weir._torch import gpu


class Host:
    """What weir._torch.gpu.Gpu is for a GPU: PyTorch's tensors are there when they are returned."""

    def __init__(self, weir_device):
        self.weir, self.device = weir_device, torch.device("cpu")
        self.entered, self.used, self.orders, self.works = [], 0, [], []
        self.records = []
        self.asked = []  # (name, depth of scopes) of streams whose CUDA stream was asked for

    def holds(self, tensor):
        # Numbers of f64 are in no GPU's memory: Dynamo makes them arguments in the host's.
        return bool(tensor.ndim) or tensor.dtype != torch.float64

    def scalar(self, tensor):
        return tensor.clone()

    def empty(self, shape, strides, dtype):
        return torch.empty_strided(shape, strides, dtype=dtype)

    def issue(self, plan):
        return plan.call_on

    def issue_at(self, plan):
        return plan.call_at

    def numbers(self, numbers):
        return torch.tensor(numbers, dtype=torch.int64)

    def current(self):
        return None

    def order_after(self, stream, other):
        self.orders.append("after")

    def order_before(self, stream, other):
        self.orders.append("before")

    def enter(self, stream):
        stream.synchronize()
        stream.set_current()
        self.entered.append((stream.name, stream.get_limit(), weir._C.scope_depth()))
        self.asked.append((stream.name, weir._C.scope_depth()))

    def rejoin(self, stream):
        self.asked.append((stream.name, weir._C.scope_depth()))

    def back(self, stream, other):
        stream.set_current()

    def is_limited(self):
        return weir._C.is_limited(self.weir)

    under_limit = gpu.Gpu.under_limit

    def begin_work(self, name):
        self.works.append(name)

    def end_work(self):
        self.works.append(None)

    def use(self, tensor, stream=None):
        self.used += 1

    def synchronize(self):
        pass

    def is_recording(self):
        return False

    def record(self, run, args):
        self.records.append(HostRecorded(run, args))
        return self.records[-1]


class HostRecorded:
    """What weir._torch.gpu.Recorded is: each launch reads and writes the same memory."""

    error = None

    def __init__(self, run, args):
        self.run, self.args = run, args
        before = [(x, x.clone()) for x in args if isinstance(x, torch.Tensor)]
        self.made, self.ended = run(args), 0
        for made in self.made:
            made.fill_(0)  # a capture runs nothing,
        for argument, was in before:
            argument.copy_(was)  # and writes nothing

    def launch(self):
        if self.error:
            raise self.error
        for to, made in zip(self.made, self.run(self.args)):
            to.copy_(made)

    def end(self):
        self.ended += 1


@pytest.fixture
def host(monkeypatch):
    torch._dynamo.reset()
    made = Host(weir.get_device())
    monkeypatch.setattr(gpu, "of", lambda device: made)
    monkeypatch.setattr(gpu, "of_default", lambda: made)
    return made
