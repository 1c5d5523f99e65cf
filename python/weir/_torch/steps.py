"""Running a graph that is weir's only in parts: steps on streams, in program order.

On a GPU PyTorch launches its kernels itself, from the host, so a graph with operators that weir
has not cannot be one plan. It is a list of steps, each on one stream: a plan, or a call of
PyTorch's on the CUDA stream that stands for the weir stream. Nothing waits on the host; a step
that uses what another stream made waits there for the step that made it.
"""

import torch
from torch.utils import _pytree as pytree

from .. import _C


class Value:
    """A tensor that steps pass on. ``step`` is who makes it, None for arguments and constants."""

    def __init__(self, slot, dtype, shape, strides, device, step=None):
        self.slot, self.step = slot, step
        self.dtype, self.shape, self.strides = dtype, tuple(shape), tuple(strides)
        self.device = device

    @classmethod
    def like(cls, slot, tensor, step=None):
        return cls(slot, tensor.dtype, tensor.shape, tensor.stride(), tensor.device, step)

    def stride(self):
        return self.strides


class Step:
    """``tag`` is its stream, None for the caller's; ``reads`` are the Values it uses."""

    def __init__(self, tag, cores, reads):
        self.tag, self.cores, self.reads = tag, cores, reads
        self.waits = set()  # numbers of steps of other streams
        self.awaited = False
        self.foreign = ()  # what it reads of other streams' memory


class PlanStep(Step):
    """A part of the graph as a plan. ``run`` takes all values and gives those of ``slots``."""

    def __init__(self, tag, reads, run, slots):
        super().__init__(tag, None, reads)
        self.run, self.slots = run, slots

    def __call__(self, values):
        for slot, made in zip(self.slots, self.run(values)):
            values[slot] = made


class CallStep(Step):
    """An operator of PyTorch's. ``made`` are the Values it gives, in order, None for no tensor."""

    def __init__(self, tag, cores, reads, op, args, kwargs, made):
        super().__init__(tag, cores, reads)
        self.op, self.made = op, made
        self.leaves, self.spec = pytree.tree_flatten(
            (args, kwargs), is_leaf=lambda x: isinstance(x, Value)
        )

    def __call__(self, values):
        args, kwargs = pytree.tree_unflatten(
            [values[x.slot] if isinstance(x, Value) else x for x in self.leaves], self.spec
        )
        results = self.op(*args, **kwargs)
        results = results if isinstance(results, (tuple, list)) else (results,)
        for value, result in zip(self.made, results):
            if value is None:
                continue
            if result.stride() != value.strides and result.numel():
                # Not what was foretold, and plans are made for that layout.
                moved = torch.empty_strided(
                    value.shape, value.strides, dtype=value.dtype, device=result.device
                )
                result = moved.copy_(result)
            values[value.slot] = result


class OrderStep(Step):
    """Something that is said to the stream alone, such as recording a tagged event."""

    def __init__(self, tag, say):
        super().__init__(tag, None, ())
        self.say = say

    def __call__(self, values):
        self.say()


def link(steps):
    """Finds out who waits for whom once all steps are there."""
    for step in steps:
        made = [v for v in step.reads if v.step is not None]
        step.foreign = [v for v in made if steps[v.step].tag != step.tag]
        step.waits |= {v.step for v in step.foreign}
        step.waits = {w for w in step.waits if steps[w].tag != step.tag}
        for w in step.waits:
            steps[w].awaited = True


class Stitched:
    """The steps as a function of the graph's arguments."""

    def __init__(self, gpu, steps, priorities, constants, size, results):
        self.gpu, self.steps, self.results = gpu, steps, results
        self.priorities, self.constants, self.size = priorities, constants, size
        link(steps)

    def run(self, args):
        gpu = self.gpu
        caller = gpu.weir.current_stream()
        values = list(args) + [None] * (self.size - len(args))
        for slot, tensor in self.constants:
            values[slot] = tensor
        before = gpu.begin(caller)
        run = _Run(gpu, caller, self.priorities)
        try:
            with torch.no_grad():
                for number, step in enumerate(self.steps):
                    run.step(number, step, values)
        finally:
            run.join()
            gpu.end(caller, before)
        results = [self._result(how, values, before) for how in self.results]
        for at, (kind, what) in enumerate(self.results):
            if kind == "view":  # of another result, and stays one
                results[at] = results[what[0]].as_strided(*what[1])
        return results

    def _result(self, how, values, stream):
        kind, what = how
        if kind == "made":
            slot, tag = what
            if tag is not None:
                self.gpu.use(values[slot], stream)
            return values[slot]
        if kind == "constant":
            return values[what].clone()
        return values[what] if kind == "argument" else what


class _Run:
    """The streams and events of one run."""

    def __init__(self, gpu, caller, priorities):
        self.gpu, self.priorities = gpu, priorities
        self.streams = {None: caller}
        self.events = {}
        self.at = None  # (tag, cores) that is current

    def stream(self, tag):
        if tag not in self.streams:
            made = self.gpu.weir.tagged_stream(tag, self.priorities[tag])
            if made != self.streams[None]:
                made.wait_stream(self.streams[None])
            self.streams[tag] = made
        return self.streams[tag]

    def step(self, number, step, values):
        stream = self.stream(step.tag)
        for w in step.waits:
            stream.wait_event(self.events[w])
        if step.cores:
            _C.push_cores(*step.cores)
        try:
            if self.at != (step.tag, step.cores):
                self.gpu.enter(stream)
                self.at = step.tag, step.cores
            for value in step.foreign:
                self.gpu.use(values[value.slot])
            step(values)
        finally:
            if step.cores:
                _C.pop_cores()
        if step.awaited:
            self.events[number] = _C.Event(device=self.gpu.weir)
            self.events[number].record(stream)

    def join(self):
        """The caller's stream goes on after all of them."""
        caller = self.streams[None]
        for stream in self.streams.values():
            if stream != caller:
                caller.wait_stream(stream)
