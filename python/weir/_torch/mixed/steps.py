"""What a graph that is weir's only in parts consists of: steps on streams, in program order.

On a GPU PyTorch launches its kernels itself, from the host, so a graph with operators that weir
has not cannot be one plan. It is a list of steps, each on one stream: a plan, or a call of
PyTorch's on the CUDA stream that stands for the weir stream. Nothing waits on the host; a step
that uses what another stream made waits there for the step that made it.
"""


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
    """``tag`` is its stream, None for the caller's; ``reads`` are the Values it uses, ``makes``
    those it gives."""

    def __init__(self, tag, cores, reads, makes):
        self.tag, self.cores, self.reads, self.makes = tag, cores, reads, makes
        self.waits = set()  # numbers of steps of other streams
        self.awaited = False
        self.foreign = ()  # what it reads of other streams' memory

    @property
    def place(self):
        """Whose memory its results are: each limit of a stream is a CUDA stream of its own."""
        return self.tag, self.cores


class PlanStep(Step):
    """A part of the graph as a plan. ``run`` takes what it reads and gives what it makes."""

    def __init__(self, tag, reads, run, makes):
        super().__init__(tag, None, reads, makes)
        self.run = run


class CallStep(Step):
    """An operator of PyTorch's. ``results`` are the Values of what it returns, in order, None for
    no tensor, or one of them if it returns no tuple."""

    def __init__(self, tag, cores, reads, op, args, kwargs, results):
        several = isinstance(results, list)
        made = [v for v in (results if several else [results]) if v is not None]
        super().__init__(tag, cores, reads, made)
        self.op, self.args, self.kwargs, self.results = op, args, kwargs, results


class OrderStep(Step):
    """Something that is said to the stream alone, such as recording a tagged event."""

    def __init__(self, tag, say):
        super().__init__(tag, None, (), ())
        self.say = say


def link(steps):
    """Finds out who waits for whom once all steps are there."""
    for step in steps:
        made = [v for v in step.reads if v.step is not None]
        step.foreign = [v for v in made if steps[v.step].place != step.place]
        step.waits |= {v.step for v in made}
        step.waits = {w for w in step.waits if steps[w].tag != step.tag}
        for w in step.waits:
            steps[w].awaited = True
