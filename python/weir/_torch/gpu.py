"""PyTorch's side of a GPU that weir's device is: its tensors and streams are on the same one."""

import gc
import os
import threading

import torch

from .. import _C
from .._follow import external, gpu_of

_empty_strided = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)


class _Thread(threading.local):
    tape = None  # that what is queued goes to


_thread = _Thread()


def is_lazy():
    """Whether PyTorch loads kernels when they are first used. CUDA may wait for the whole device then,
    and so for a collective of processes, which waits for weir's own thread to start its part; CUDA
    does not let that in meanwhile, and nothing goes on."""
    return os.environ.get("CUDA_MODULE_LOADING") != "EAGER"


class Gpu:
    """``device`` is PyTorch's name for it, ``weir`` weir's."""

    def __init__(self, weir, index):
        self.weir, self.index = weir, index
        self.device = torch.device("cuda", index)
        self.waits = False  # for each plan: it has collectives, and see is_lazy

    def raw_stream(self):
        """The handle of this thread's current stream of PyTorch."""
        return torch._C._cuda_getCurrentRawStream(self.index)

    def holds(self, tensor):
        return tensor.device == self.device

    def empty(self, shape, strides, dtype):
        """Memory that belongs to PyTorch's current stream."""
        if _empty_strided is not None and self.index == torch.cuda.current_device():
            return _empty_strided(shape, strides, dtype)
        return torch.empty_strided(shape, strides, dtype=dtype, device=self.device)

    def issue(self, plan):
        """A function that queues the plan on weir's current stream, in order with PyTorch's."""
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

    def record(self, run, args):
        """What the function queues, as one launch: see :class:`Recorded`."""
        return Recorded(self, run, args)

    def is_recording(self):
        """Whether somebody captures what PyTorch queues."""
        return torch.cuda.is_current_stream_capturing()

    def current(self):
        """PyTorch's current stream."""
        return torch.cuda.current_stream(self.index)

    def order_after(self, stream, other):
        """The weir stream goes on after what PyTorch's has."""
        stream.wait_native(other.cuda_stream)

    def order_before(self, stream, other):
        """PyTorch's stream goes on after what the weir stream has."""
        stream.signal_native(other.cuda_stream)

    def enter(self, stream):
        """The weir stream is this thread's current one, for weir and for PyTorch, under the limit in
        force."""
        stream.set_current()
        torch.cuda.set_stream(external(torch, stream))

    def back(self, stream, other):
        """The two are the current ones, weir's and PyTorch's."""
        stream.set_current()
        torch.cuda.set_stream(other)

    def rejoin(self, stream):
        """What PyTorch queues on the CUDA stream of the limit in force is again the weir stream's:
        of all that stand for it only the last one asked for is."""
        _C.stream_native(stream)

    def use(self, tensor, stream=None):
        """The memory is not used again before what the stream, or the current one, has by then."""
        tensor.record_stream(stream or torch.cuda.current_stream(self.index))

    # ---- PyTorch's kernels under weir's limits and in its traces ----

    def is_limited(self):
        """Whether the current weir stream may not use all cores, or perhaps not: a scope is open."""
        return _C.is_limited(self.weir)

    def under_limit(self, run, args):
        """Runs where the cores are limited: on PyTorch's stream that stands for weir's current
        one."""
        caller, home = self.weir.current_stream(), self.current()
        self.order_after(caller, home)
        self.enter(caller)
        try:
            results = run(args)
        finally:
            self.back(caller, home)
            _C.push_cores(*caller.get_limit())  # as it is once the scopes around this are left
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
        """Traces show what PyTorch queues until :meth:`end_work` as one operator."""
        _C.native_begin(self.weir, self.raw_stream(), name)

    def end_work(self):
        _C.native_end(self.weir, self.raw_stream())

    def clock(self):
        return Clock()

    def synchronize(self):
        """What PyTorch has queued is over: constants are there for every stream."""
        torch.cuda.synchronize(self.index)


class Clock:
    """Of what calls queue on PyTorch's current stream, as the GPU sees it."""

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
    """A CUDA graph of what the function queues with these arguments: PyTorch's kernels and plans.
    ``made`` is what it gives; its memory and the arguments' is the graph's from now on, and each
    :meth:`launch` writes and reads it again. Raises if something in it cannot be captured."""

    def __init__(self, gpu, run, args):
        self.gpu, self.graph, self.tape = gpu, torch.cuda.CUDAGraph(), _C.tape(gpu.weir)
        gpu.synchronize()
        collects = gc.isenabled()
        gc.disable()  # what it frees might be told to the GPU
        try:
            with torch.cuda.stream(torch.cuda.Stream(gpu.index)):
                self._capture(run, args)
        finally:
            if collects:
                gc.enable()

    def _capture(self, run, args):
        # Others may make memory meanwhile, and so may plans.
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
        except RuntimeError:  # what went wrong is told already
            self._let_go_of_pool()

    def _let_go_of_pool(self):
        """A capture that fails leaves PyTorch's allocator as if it went on."""
        pool = self.graph.pool()
        for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"):
            try:
                getattr(torch._C, name)(self.gpu.index, pool)
            except (AttributeError, RuntimeError):
                pass

    def launch(self):
        """On PyTorch's current stream; :meth:`end` follows once what reads ``made`` is queued.
        Raises the error of a weir stream that is in error, without a launch."""
        self.tape.begin(self.gpu.raw_stream())
        self.graph.replay()

    def end(self):
        self.tape.end(self.gpu.raw_stream())


def of(device):
    """The GPU behind a weir device; None for one whose memory is the host's."""
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
