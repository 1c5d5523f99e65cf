"""Runs a graph that is only partly weir's as one launch.

Its plans and PyTorch's kernels between them are captured into one CUDA graph. A few calls run step
by step first, to learn which arguments keep their address (weights) and which move. The former are
used in place, and each call checks their addresses; the latter are copied to memory of the graph.
Results are copies, so that those of an earlier call stay valid.

If this is not possible, the steps are launched one by one, and ``reason`` says why.
"""

import threading

import torch

from ... import _C
from ..._log import logger
from ...errors import Error
from .. import effects, values
from .steps import CallStep

WARM = 2  # calls before the capture
TRIES = 4  # the most captures: a capture is repeated if an argument turns out to move
COPIED = 32 << 20  # the most bytes of arguments that a call copies


class Captured:
    """``run`` is the steps' function; runs as one launch if possible."""

    def __init__(self, stitched, number):
        self.gpu, self.number = stitched.gpu, number
        self.parts = stitched._plain
        self.written = getattr(stitched, "written", ())
        self.reason = _why_not(stitched)
        self.lock = threading.Lock()
        self.recorded = None
        self.calls = self.tries = self.launches = 0
        self.indexes = None  # indices of arguments that are tensors
        self.where, self.moves = None, set()  # their addresses, and the indices of those that move
        if self.reason is None:
            self.make, self.finish = stitched.halves()
        else:
            self._say()

    def run(self, args):
        if self.reason is not None or not self.lock.acquire(blocking=False):
            return self.parts(args)
        try:
            if self.recorded is None and not self._approach(args):
                return self.parts(args)
            return self._launch(args)
        finally:
            self.lock.release()

    # ---- before the capture ----

    def _approach(self, args):
        """Advances towards the capture; whether the graph is captured now."""
        if self.gpu.is_recording():
            return False
        if self.indexes is None:
            self.indexes = tuple(i for i, a in enumerate(args) if isinstance(a, torch.Tensor))
        self._look(args)
        self.calls += 1
        if self.calls <= WARM:
            return False
        if not all(self.gpu.holds(args[i]) for i in self.indexes):
            return self._refuse("an argument is not on the GPU")
        try:
            self._record(args)
        except (RuntimeError, Error) as error:
            self.recorded = None
            return self._refuse(str(error).splitlines()[0])
        return self.recorded is not None

    def _look(self, args):
        """Notes which arguments have moved since the last call."""
        where = _C.addresses(args, self.indexes)
        if self.where is not None:
            pairs = zip(self.indexes, where, self.where)
            self.moves |= {i for i, now, before in pairs if now != before}
        self.where = where

    def _record(self, args):
        self.tries += 1
        moving = sorted(self.moves)
        if self.moves.intersection(self.written):
            return self._refuse("an argument that it writes to is elsewhere in each call")
        size = sum(args[i].numel() * args[i].element_size() for i in moving)
        if self.tries > TRIES or size > COPIED:
            return self._refuse(f"arguments of {size} bytes are elsewhere in each call")
        self.copies = [(i, _like(self.gpu, args[i])) for i in moving]
        for i, copy in self.copies:
            copy.copy_(args[i])
        self.still = tuple(i for i in self.indexes if i not in self.moves)
        self.expected = _C.addresses(args, self.still)
        own = list(args)
        for i, copy in self.copies:
            own[i] = copy
        self.recorded = self.gpu.record(self.make, own)
        # A view of a weight, for example, would not be fresh memory as PyTorch's result is.
        for made in self.recorded.made:
            if not _is_plain(made):
                self.recorded = None
                return self._refuse("a result has gaps")
        logger.info("graph %d is one launch; %d arguments are copied", self.number, len(moving))

    def _refuse(self, reason):
        self.reason = reason
        self._say()
        return False

    def _say(self):
        logger.info("graph %d is launched part by part: %s", self.number, self.reason)

    # ---- after it ----

    def _launch(self, args):
        recorded = self.recorded
        if self.gpu.is_recording():
            return self.parts(args)
        if _C.addresses(args, self.still) != self.expected:
            self._look(args)
            self.recorded = None  # capture again, and copy these arguments
            return self.parts(args)
        for i, copy in self.copies:
            copy.copy_(args[i])
        try:
            recorded.launch()
        except Error:  # a stream is in error: report it as without a capture
            return self.parts(args)
        results = []
        for made in recorded.made:
            results.append(_like(self.gpu, made))
            results[-1].copy_(made)
        recorded.end()
        self.launches += 1
        return self.finish(args, results)


def _like(gpu, tensor):
    return gpu.empty(tuple(tensor.shape), tensor.stride(), tensor.dtype)


def _is_plain(tensor):
    return values.dense_order(tuple(tensor.shape), tensor.stride()) is not None


def _why_not(stitched):
    """Why the steps cannot be captured, or None."""
    for step in stitched.steps:
        if step.place != (None, None):
            return "steps are on streams or cores of their own"
        if not isinstance(step, CallStep) and not hasattr(step, "run"):
            return "streams wait for others outside of the graph"
        if isinstance(step, CallStep) and effects.is_ordered(step.op):
            return f"{step.op} has effects"
        for value in (*step.reads, *step.makes):
            if value.device != stitched.gpu.device:
                return f"a value is on {value.device}"
    return None
