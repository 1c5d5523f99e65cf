"""The steps of a graph that is only partly weir's, on streams and in program order.

On a GPU PyTorch launches its kernels from the host, so a graph with operators that weir lacks
cannot be one plan. It is a list of steps, each on one stream: a plan, or a call of PyTorch on the
CUDA stream of the weir stream. The host never waits; a step that uses another stream's value waits
on its stream for the step that made the value.
"""


class Value:
    """A tensor passed between steps. ``step`` makes it; None for arguments and constants."""

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
    """``tag`` is its stream, None for the caller's; ``reads`` are the Values it uses, ``makes``
    those it makes."""

    def __init__(self, tag, cores, reads, makes):
        self.tag, self.cores, self.reads, self.makes = tag, cores, reads, makes
        self.waits = set()  # numbers of steps of other streams
        self.awaited = False
        self.foreign = ()  # the Values it reads from other streams' memory

    @property
    def place(self):
        """The CUDA stream of its results' memory: a stream has a CUDA stream for each core
        limit."""
        return self.tag, self.cores


class PlanStep(Step):
    """A part of the graph as a plan. ``run`` takes the values read and returns those made."""

    def __init__(self, tag, reads, run, makes):
        super().__init__(tag, None, reads, makes)
        self.run = run


class CallStep(Step):
    """An operator of PyTorch. ``results`` are the Values of its results in order, None for results
    that are no tensors; a single Value if it returns no tuple."""

    def __init__(self, tag, cores, reads, op, args, kwargs, results):
        several = isinstance(results, list)
        made = [v for v in (results if several else [results]) if v is not None]
        super().__init__(tag, cores, reads, made)
        self.op, self.args, self.kwargs, self.results = op, args, kwargs, results


class OrderStep(Step):
    """An action on the stream only, such as recording a tagged event."""

    def __init__(self, tag, say):
        super().__init__(tag, None, (), ())
        self.say = say


def link(steps):
    """Computes the waits between steps after all steps were added."""
    for step in steps:
        made = [v for v in step.reads if v.step is not None]
        step.foreign = [v for v in made if steps[v.step].place != step.place]
        step.waits |= {v.step for v in made}
        step.waits = {w for w in step.waits if steps[w].tag != step.tag}
        for w in step.waits:
            steps[w].awaited = True
