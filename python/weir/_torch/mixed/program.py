"""Generates a function of PyTorch's tensors that runs steps (steps.py).

The function is generated as Python source, one line per action, so that a run makes no decision
that was known when the graph was compiled. ``Stitched.source`` is the text.

Steps without a tag run on PyTorch's current stream of the call, and weir's current stream is bound
to it: their results are memory of that stream, as they would be without weir.
"""

from keyword import iskeyword

import torch

from ... import _C
from .capture import Captured
from .steps import CallStep, OrderStep, PlanStep, Value, link


class Streams:
    """The streams of a run with steps on other streams than PyTorch's current one."""

    def __init__(self, gpu, priorities):
        self.gpu, self.priorities = gpu, priorities
        self.home, self.caller = gpu.current(), gpu.weir.current_stream()
        self.at = None  # the weir stream of the current step, None for the caller's stream
        self.astray = False  # the caller's CUDA stream has been replaced, for a step's core limit
        self.known, self.events = {None: self.caller}, {}

    def _known(self, tag):
        if tag not in self.known:
            made = self.gpu.weir.tagged_stream(tag, self.priorities[tag])
            if made != self.caller:
                self.gpu.order_after(self.caller, self.home)
                made.wait_stream(self.caller)
            self.known[tag] = made
        return self.known[tag]

    def _leave(self):
        if self.at == self.caller:
            self.gpu.order_before(self.caller, self.home)

    def _rejoin(self):
        if self.astray:
            self.gpu.rejoin(self.caller)
            self.astray = False

    def go_home(self):
        """Restores PyTorch's current stream."""
        self._leave()
        self._rejoin()
        self.gpu.back(self.caller, self.home)
        self.at = None

    def enter(self, tag, cores):
        """Makes steps run on the tag's stream, or the caller's for None, under a core limit."""
        self._leave()
        stream = self._known(tag)
        if stream == self.caller:
            self.gpu.order_after(stream, self.home)
            self.astray = cores is not None
        if cores:
            _C.push_cores(*cores)
        try:
            self.gpu.enter(stream)
        finally:
            if cores:
                _C.pop_cores()
        self.at = stream

    def wait(self, number):
        """Makes the next work wait for that step."""
        (self.at or self.caller).wait_event(self.events[number])
        if self.at is None:
            self.gpu.order_before(self.caller, self.home)

    def mark(self, number):
        """Records an event after that step, for other streams' waits."""
        if self.at is None:
            self.gpu.order_after(self.caller, self.home)
        self.events[number] = _C.Event(device=self.gpu.weir)
        self.events[number].record(self.at or self.caller)

    def say(self, order):
        """Calls a function that orders the current weir stream with others."""
        if self.at is None:
            self.gpu.order_after(self.caller, self.home)
        order()
        if self.at is None:
            self.gpu.order_before(self.caller, self.home)

    def close(self):
        """Makes PyTorch's stream wait for all streams."""
        for stream in self.known.values():
            if stream != self.caller:
                self.caller.wait_stream(stream)
        self.gpu.back(self.caller, self.home)
        self._rejoin()
        self.gpu.order_before(self.caller, self.home)


def _laid_out(tensor, strides):
    """Returns the tensor in the traced layout, for which plans are made."""
    moved = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
    return moved.copy_(tensor)


class _Writer:
    """The lines of a function, and the objects of their names."""

    def __init__(self, gpu, arguments, constants, traced):
        self.names = {"gpu": gpu, "laid_out": _laid_out}
        self.lines = []
        self.arguments = arguments  # number of arguments
        self.traced = traced
        self.constants = {slot: self.bind("constant", tensor) for slot, tensor in constants}

    def bind(self, kind, thing):
        name = f"{kind}{len(self.names)}"
        self.names[name] = thing
        return name

    def text(self, x):
        """Returns an expression for an argument with Values."""
        if isinstance(x, Value):
            if x.slot in self.constants:
                return self.constants[x.slot]
            return f"args[{x.slot}]" if x.slot < self.arguments else f"v{x.slot}"
        if isinstance(x, (list, tuple)):
            items = "".join(self.text(item) + ", " for item in x)
            return f"[{items}]" if isinstance(x, list) else f"({items})"
        if isinstance(x, dict):
            return "{" + "".join(f"{k!r}: {self.text(v)}, " for k, v in x.items()) + "}"
        if isinstance(x, slice):
            return f"slice({self.text(x.start)}, {self.text(x.stop)}, {self.text(x.step)})"
        if x is None or type(x) in (bool, int, str):
            return repr(x)
        return self.bind("given", x)

    # ---- steps ----

    def plan(self, step):
        self.lines.append(
            f"{self.text(tuple(step.makes))} = {self.bind('plan', step.run)}"
            f"({self.text(tuple(step.reads))})"
        )

    def call(self, step):
        args = [self.text(x) for x in step.args]
        args += [
            f"**{{{name!r}: {self.text(x)}}}" if iskeyword(name) else f"{name}={self.text(x)}"
            for name, x in step.kwargs.items()
        ]
        call = f"{self.bind('call', step.op)}({', '.join(args)})"
        if self.traced:
            self.lines.append(f"gpu.begin_work({'PyTorch: ' + str(step.op)!r})")
        if isinstance(step.results, list):
            self.lines.append(f"made = {call}")
            for i, value in enumerate(step.results):
                if value is not None:
                    self.lines.append(f"{self.text(value)} = made[{i}]")
            self.lines.append("del made")
        else:
            into = "" if step.results is None else self.text(step.results) + " = "
            self.lines.append(into + call)
        for value in step.makes:
            if value.shape and 0 not in value.shape:
                name, strides = self.text(value), self.text(value.strides)
                # An unused result may be None although it was traced, such as attention's sums.
                self.lines.append(
                    f"if {name} is not None and {name}.stride() != {strides}: "
                    f"{name} = laid_out({name}, {strides})"
                )
        if self.traced:
            self.lines.append("gpu.end_work()")

    def order(self, step):
        self.lines.append(f"streams.say({self.bind('order', step.say)})")

    def step(self, number, step, moves):
        """``moves``: the step before ran on another stream."""
        if moves:
            home = step.place == (None, None)
            where = f"{step.tag!r}, {step.cores!r}"
            self.lines.append("streams.go_home()" if home else f"streams.enter({where})")
        self.lines += [f"streams.wait({w})" for w in sorted(step.waits)]
        self.lines += [f"gpu.use({self.text(value)})" for value in step.foreign]
        {PlanStep: self.plan, CallStep: self.call, OrderStep: self.order}[type(step)](step)
        if step.awaited:
            self.lines.append(f"streams.mark({number})")

    def let_go(self, values):
        """Drops Values after their last use, so that the next step can reuse their memory."""
        if values:
            self.lines.append("del " + ", ".join(f"v{v.slot}" for v in values))

    # ---- results: (kind, what) ----
    # "made" by a step: (slot, place); "argument" or "constant": its slot; "given": the thing;
    # "view" or "spread": (another result, how), see places.py.

    def result(self, kind, what, known):
        """Returns an expression for a result. ``known`` contains names by kind and slot, so that
        views of one base use the same object."""
        if kind == "made":
            return f"v{what[0]}"
        if kind == "argument":
            return f"args[{what}]"
        if kind == "given":
            return self.text(what)
        if kind == "view":
            (base, slot), place = what
            return f"{self.bind('place', place)}.of({self.result(base, slot, known)})"
        key = kind, what if kind == "constant" else what[0][1][0]
        if key not in known:
            known[key] = f"r{len(known)}"
            made = f"{self.constants.get(what)}.clone()" if kind == "constant" else None
            if made is None:
                (base, slot), spread = what
                made = f"{self.bind('spread', spread)}.of({self.result(base, slot, known)})"
            self.lines.append(f"{known[key]} = {made}")
        return known[key]

    def results(self, results):
        for slot, place in sorted(_made(results), key=lambda made: made[0]):
            if place != (None, None):  # memory of another stream
                self.lines.append(f"gpu.use(v{slot})")
        known = {}
        items = [self.result(kind, what, known) for kind, what in results]
        self.lines.append("return [" + "".join(f"{item}, " for item in items) + "]")

    # ---- whole functions ----

    def write_steps(self, steps, results):
        last, at = _last_uses(steps, results), (None, None)
        for number, step in enumerate(steps):
            self.step(number, step, at != step.place)
            self.let_go(last[number])
            at = step.place

    def take(self):
        """Returns the lines so far as a function's body."""
        lines, self.lines = self.lines, []
        return "".join(f"    {line}\n" for line in lines)

    def write_halves(self, steps, results):
        """The same as two functions: one that returns the steps' values for results, and one that
        converts these to the results."""
        made = "(" + "".join(f"v{slot}, " for slot in _slots(results)) + ")"
        self.write_steps(steps, results)
        self.lines.append(f"return {made}")
        first = "def make(args):\n" + self.take()
        self.lines.append(f"{made} = made")
        self.results(results)
        return first + "def finish(args, made):\n" + self.take()

    def write(self, steps, results, priorities):
        self.write_steps(steps, results)
        if any("streams." in line for line in self.lines):
            self.names.update(Streams=Streams, priorities=priorities)
            inside = ["    " + line for line in self.lines]
            begin = ["streams = Streams(gpu, priorities)", "try:"]
            self.lines = [*begin, *inside, "finally:", "    streams.close()"]
        self.results(results)
        return "def run(args):\n" + self.take()


def _made(results):
    """{(slot, place)} of results and of their bases."""
    found = set()
    for kind, what in results:
        while kind in ("view", "spread"):
            (kind, what), _ = what
        if kind == "made":
            found.add(what)
    return found


def _slots(results):
    return sorted(slot for slot, _ in _made(results))


def _last_uses(steps, results):
    """By step: the Values whose last use it is."""
    kept = {slot for slot, _ in _made(results)}
    last = {}
    for number, step in enumerate(steps):
        for value in (*step.makes, *step.reads):
            if value.step is not None and value.slot not in kept:
                last[value.slot] = number, value
    uses = [[] for _ in steps]
    for number, value in last.values():
        uses[number].append(value)
    return uses


class Stitched:
    """The steps as a function of the graph's ``arguments`` arguments; ``results`` are the
    Stitcher's, ``constants`` are [(slot, tensor)]."""

    def __init__(self, gpu, steps, priorities, constants, arguments, results):
        self.gpu, self.steps, self.results = gpu, steps, results
        self.constants, self.arguments = constants, arguments
        self.captured = None
        link(steps)
        made = []
        for traced in (False, True):
            writer = _Writer(gpu, arguments, constants, traced)
            source = writer.write(steps, results, priorities)
            exec(compile(source, "<weir: steps of a graph>", "exec"), writer.names)
            made.append((writer.names["run"], source))
        (self._plain, self.source), (self._traced, _) = made
        self._whole = self._plain

    def capture(self, number):
        """Runs all steps as one launch from now on, if possible; ``number`` is the graph's number
        for the log."""
        self.captured = Captured(self, number)
        self._whole = self.captured.run

    def halves(self):
        """(make, finish): see :meth:`_Writer.write_halves`. Requires that no step is on another
        stream."""
        writer = _Writer(self.gpu, self.arguments, self.constants, False)
        source = writer.write_halves(self.steps, self.results)
        exec(compile(source, "<weir: steps of a graph>", "exec"), writer.names)
        return writer.names["make"], writer.names["finish"]

    def run(self, args):
        if torch.is_grad_enabled():
            with torch.no_grad():
                return self.run(args)
        run = self._traced if _C.trace_running() else self._whole
        if self.gpu.is_limited():
            run = self._plain if run is self._whole else run
            return self.gpu.under_limit(run, args)
        return run(args)
