"""PyTorch's side of the GPU that weir uses: PyTorch's tensors and streams on that GPU."""

import gc
import os
import threading

import torch

from .. import _C
from .._follow import external, gpu_of

_empty_strided = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)


class _Thread(threading.local):
    tape = None  # the tape that records queued plans


_thread = _Thread()


def is_lazy():
    """Whether PyTorch loads kernels lazily. Loading a kernel may wait for the whole device, and so
    for a collective between processes. The collective waits for weir's thread, whose CUDA calls are
    blocked by the loading: a deadlock."""
    return os.environ.get("CUDA_MODULE_LOADING") != "EAGER"


class Gpu:
    """``device`` is PyTorch's device, ``weir`` weir's."""

    def __init__(self, weir, index):
        self.weir, self.index = weir, index
        self.device = torch.device("cuda", index)
        self.waits = False  # wait for each plan: there are collectives, and is_lazy()

    def raw_stream(self):
        """The handle of this thread's current stream of PyTorch."""
        return torch._C._cuda_getCurrentRawStream(self.index)

    def holds(self, tensor):
        return tensor.device == self.device

    def empty(self, shape, strides, dtype):
        """Allocates memory for PyTorch's current stream."""
        if _empty_strided is not None and self.index == torch.cuda.current_device():
            return _empty_strided(shape, strides, dtype)
        return torch.empty_strided(shape, strides, dtype=dtype, device=self.device)

    def issue(self, plan):
        """Returns a function that queues the plan on weir's current stream, ordered with
        PyTorch's."""
        issue, record, raw_stream = plan.issue_on, plan.record_on, self.raw_stream

        def run(args):
            tape = _thread.tape
            if tape is not None:
                return record(args, raw_stream(), tape)
            made = issue(args, raw_stream())
            if self.waits:
                self.weir.current_stream().synchronize()
            return made

        return run

    def issue_at(self, plan):
        """The same for other sizes than were bound: a function of Plan.call_at's arguments."""
        issue, raw_stream = plan.issue_at, self.raw_stream

        def run(args, shapes, makers):
            made = issue(args, shapes, makers, raw_stream())
            if self.waits:
                self.weir.current_stream().synchronize()
            return made

        return run

    def scalar(self, tensor):
        """Returns a copy of the host's tensor of one element. Waits for nothing."""
        return torch.full((), tensor.item(), dtype=tensor.dtype, device=self.device)

    def numbers(self, numbers):
        """Returns a tensor of these integers. The host does not wait for earlier work."""
        made = torch.tensor(numbers, dtype=torch.int64, pin_memory=True)
        return made.to(self.device, non_blocking=True)

    def record(self, run, args):
        """Records the work that the function queues as one launch: see :class:`Recorded`."""
        return Recorded(self, run, args)

    def is_recording(self):
        """Whether PyTorch's current stream is being captured."""
        return torch.cuda.is_current_stream_capturing()

    def current(self):
        """PyTorch's current stream."""
        return torch.cuda.current_stream(self.index)

    def order_after(self, stream, other):
        """Makes the weir stream wait for PyTorch's stream."""
        stream.wait_native(other.cuda_stream)

    def order_before(self, stream, other):
        """Makes PyTorch's stream wait for the weir stream."""
        stream.signal_native(other.cuda_stream)

    def enter(self, stream):
        """Makes the weir stream current for this thread, in weir and in PyTorch, under its present
        limit."""
        stream.set_current()
        torch.cuda.set_stream(external(torch, stream))

    def back(self, stream, other):
        """Restores weir's and PyTorch's current streams."""
        stream.set_current()
        torch.cuda.set_stream(other)

    def rejoin(self, stream):
        """Makes PyTorch's work on the CUDA stream of the present limit belong to the weir stream
        again: of a weir stream's CUDA streams, only the one requested last does."""
        _C.stream_native(stream)

    def use(self, tensor, stream=None):
        """Keeps the memory from being reused before the present work of the stream, or the current
        one."""
        tensor.record_stream(stream or torch.cuda.current_stream(self.index))

    # ---- PyTorch's kernels under weir's limits and in its traces ----

    def is_limited(self):
        """Whether the current weir stream may be limited to some cores; True if any scope is
        open."""
        return _C.is_limited(self.weir)

    def under_limit(self, run, args):
        """Runs the function under the core limit, on the CUDA stream of weir's current stream."""
        caller, home = self.weir.current_stream(), self.current()
        self.order_after(caller, home)
        self.enter(caller)
        try:
            results = run(args)
        finally:
            self.back(caller, home)
            _C.push_cores(*caller.get_limit())  # the stream's limit, without the enclosing scopes
            try:
                self.rejoin(caller)
            finally:
                _C.pop_cores()
            self.order_before(caller, home)
        for x in results:
            if isinstance(x, torch.Tensor) and self.holds(x):
                self.use(x, home)
        return results

    def begin_work(self, name):
        """Makes traces show PyTorch's work until :meth:`end_work` as one operator."""
        _C.native_begin(self.weir, self.raw_stream(), name)

    def end_work(self):
        _C.native_end(self.weir, self.raw_stream())

    def clock(self):
        return Clock()

    def synchronize(self):
        """Waits for PyTorch's queued work, so that every stream may use constants."""
        torch.cuda.synchronize(self.index)


class Clock:
    """Measures the GPU's time of the work that calls queue on PyTorch's current stream."""

    def begin(self):
        began = torch.cuda.Event(enable_timing=True)
        began.record()
        return began

    def end(self, began):
        ended = torch.cuda.Event(enable_timing=True)
        ended.record()
        return began, ended

    def seconds(self, timed):
        began, ended = timed
        return began.elapsed_time(ended) * 1e-3 if ended.query() else None


class Recorded:
    """A CUDA graph of the work that the function queues with these arguments: PyTorch's kernels and
    plans. ``made`` is its result. The graph uses the memory of the result and of the arguments;
    each :meth:`launch` reads and writes it again. Raises if something cannot be captured."""

    def __init__(self, gpu, run, args):
        self.gpu, self.graph, self.tape = gpu, torch.cuda.CUDAGraph(), _C.tape(gpu.weir)
        gpu.synchronize()
        collects = gc.isenabled()
        gc.disable()  # freeing an object might call CUDA, which breaks a capture
        try:
            with torch.cuda.stream(torch.cuda.Stream(gpu.index)):
                self._capture(run, args)
        finally:
            if collects:
                gc.enable()

    def _capture(self, run, args):
        # "relaxed": other threads and plans may allocate memory during the capture.
        self.graph.capture_begin(capture_error_mode="relaxed")
        _thread.tape = self.tape
        try:
            self.made = run(args)
        except BaseException:
            self._give_up()
            raise
        finally:
            _thread.tape = None
        try:
            self.graph.capture_end()
        except BaseException:
            self._let_go_of_pool()
            raise

    def _give_up(self):
        try:
            self.graph.capture_end()
        except RuntimeError:  # the first error is already being raised
            self._let_go_of_pool()

    def _let_go_of_pool(self):
        """Ends the capture in PyTorch's allocator, which a failed capture leaves active."""
        pool = self.graph.pool()
        for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"):
            try:
                getattr(torch._C, name)(self.gpu.index, pool)
            except (AttributeError, RuntimeError):
                pass

    def launch(self):
        """Launches the graph on PyTorch's current stream. Call :meth:`end` after queueing the work
        that reads ``made``. If a weir stream is in error, raises that error and launches
        nothing."""
        self.tape.begin(self.gpu.raw_stream())
        self.graph.replay()

    def end(self):
        self.tape.end(self.gpu.raw_stream())


def of(device):
    """The GPU of a weir device; None for a device whose memory is the host's."""
    index = gpu_of(device)
    if index is None:
        return None
    if not torch.cuda.is_available():
        raise NotImplementedError(
            f"the device {device.name} is a GPU, and PyTorch {torch.__version__} here has no CUDA"
        )
    return Gpu(device, index)


def of_default():
    return of(_C.get_device())
