"""Runs plans on PyTorch's memory."""

import collections
import contextlib
import tempfile
import threading

import torch

from .. import _C, _exact
from .._log import logger
from ..errors import Error
from . import dump, effects, gpu, results, trial, values
from .coverage import Coverage
from .graph import build, layouts, places, symbols
from .mixed import stitch
from .rewrite import common, patterns, scalars, updates


class _Plan:
    """A plan with the conversions of its arguments and results. ``run`` is the plan's own call if
    no argument needs a conversion."""

    def __init__(self, plan, built, gpu, count=0, empty=None):
        """``count`` is the number of arguments; ``empty`` allocates memory for results."""
        self.plan, self.graph, self.plans, self.gpu = plan, built.graph, (plan,), gpu
        self.written = built.written
        self.empty = gpu.empty if gpu else results.empty
        self.made = empty or self.empty
        self.call = gpu.issue(plan) if gpu else plan.call_on
        # Outputs that are only bases of views follow the results.
        shown = {o.slot for o in built.outputs if o.place is None}
        kept = sorted({o.slot for o in built.outputs if o.slot is not None} - shown)
        self.views = _views(built.outputs, kept)
        plan.bind(
            built.input_specs,
            built.output_specs,
            [i.index if i.index >= 0 else count - 1 - i.index for i in built.inputs],
            [self._maker(*layout) for layout in built.output_layouts],
            [_result(o) for o in built.outputs] + kept,
        )
        # The inputs after the arguments: constants of a graph of open sizes.
        self.hidden = built.hidden
        self.special = [i for i in built.inputs if i.index >= 0 and i.is_special()]
        self.passed = [
            (at, o.argument) for at, o in enumerate(built.outputs) if o.argument is not None
        ]
        self.count = len(built.outputs)
        self.run = self.call
        if self.special or self.views or self.hidden:
            self.run = self._run_special

    def _maker(self, shape, strides, dtype, offset):
        """(function, arguments) that allocates memory of that layout."""
        if not offset:
            return self.made, (shape, strides, dtype)
        span = offset + values.numel(shape)

        def make():
            return self.empty((span,), (1,), dtype).as_strided(shape, strides, offset)

        return make, ()

    def _run_special(self, args):
        moved = self._moved(args, self.special, self.hidden)
        return self._finish(args, moved, self.call(moved), self.views)

    def _moved(self, args, special, hidden):
        """Converts the arguments for the plan."""
        moved = list(args)
        for how in special:
            t = moved[how.index]
            if how.away:
                t = self.gpu.scalar(t)
            if how.lazy:
                t = t.resolve_conj().resolve_neg()
            if how.strides is None:
                t = t.contiguous()
            elif t.stride() != how.strides:
                # Copy it to the layout for which the plan was compiled.
                t = self.empty(t.shape, how.strides, t.dtype).copy_(t)
            moved[how.index] = t
        if self.gpu:
            for t in hidden:  # whose memory may be freed while this stream uses it
                self.gpu.use(t)
        moved += hidden
        return moved

    def _finish(self, args, moved, results, views):
        for index in self.written:
            if moved[index] is not args[index]:
                args[index].copy_(moved[index])
        for at, argument in self.passed:
            results[at] = args[argument]
        for at, base, place in views:
            results[at] = place.of(results[base]) if place else results[base]
        del results[self.count :]
        return results


def _views(outputs, kept):
    """[(result, its base result, how)] for results that are views; ``kept`` are the slots of bases
    that follow the results. Equal results are made once."""
    where = {slot: len(outputs) + at for at, slot in enumerate(kept)}
    for at, o in enumerate(outputs):
        if o.place is None and o.slot is not None:
            where.setdefault(o.slot, at)
    spread = {where[o.slot]: o.spread for o in outputs if o.spread}
    views, first = [(at, at, how) for at, how in spread.items()], {}
    for at, o in enumerate(outputs):
        if o.place is None:
            if o.spread and where[o.slot] != at:
                views.append((at, where[o.slot], None))
            continue
        if o in first:
            views.append((at, first[o], None))
        else:
            views.append((at, where[o.slot] if o.argument is None else at, o.place))
            first[o] = at
    return views


class _Elastic:
    """A plan of open sizes: one compilation for all sizes for which the graph is the same.
    ``layouts`` computes the further arguments of ``run``; it returns None if the plan must be bound
    again (``at``)."""

    def __init__(self, builder, built, plan, gpu, count, numbers, empty):
        self.builder, self.built, self.plan, self.gpu = builder, built, plan, gpu
        self.layouts = layouts.write(builder, built, numbers) or _no_layouts
        self.count, self.empty = count, empty
        self.bound = _Plan(plan.share(), built, gpu, count, empty)
        self.call = gpu.issue_at(self.bound.plan) if gpu else self.bound.plan.call_at

    def at(self, known):
        """Binds the plan for these values of the symbols; None if it is not valid for them."""
        built = self.builder.at(self.built, known)
        if built and self.gpu and self.built.made:
            self.gpu.synchronize()  # every stream may use constants that this one has just made
        return built and _Plan(self.plan.share(), built, self.gpu, self.count, self.empty)

    def run(self, args, now):
        shapes, makers, special, places, sizes, hidden = now
        bound = self.bound
        moved = bound._moved(args, special, bound.hidden if hidden is None else hidden)
        results = self.call(moved, shapes, makers)
        for at, number in sizes:
            results[at] = number
        views = bound.views
        if places:
            other = dict(places)
            views = [(at, base, place and other.get(at, place)) for at, base, place in views]
        return bound._finish(args, moved, results, views)


def _no_layouts(args):
    return None


class _Traced:
    """A graph that weir cannot run; runs in PyTorch."""

    def __init__(self, module, coverage):
        self.forward = module.forward
        for node in module.graph.nodes:
            if isinstance(node.target, torch._ops.OperatorBase):
                coverage.fallback[str(node.target)] += 1

    def run(self, args):
        with torch.no_grad():
            return list(self.forward(*args))


def _result(output):
    if output.slot is not None:
        return output.slot
    return (output.given,) if output.argument is None else -1 - output.argument


class CompiledGraph:
    """A traced graph as a function: one plan per set of sizes, compiled at its first call."""

    def __init__(self, module, config, coverage, example_inputs, inference=False):
        self.inference, self.rewritten, self.quiet = inference, False, False
        # Tensors that autograd keeps must be PyTorch's own memory: autograd may resize them.
        self.empty = results.kept if inference else None
        self.module, self.config, self.coverage = module, config, coverage
        places.mend_parts(module)
        places.mend_views(module)
        self.written = updates.take(module)
        self.number = dump.next_number()
        self.dynamic = any(_is_dynamic(x) for x in example_inputs)
        self.offsets = places.seen_by_offset(module)  # no guard checks offsets
        self.unguarded = None  # arguments whose layout no guard checks; found at the first call
        # Numbers other than sizes become constants of the graph.
        self.plain = all(isinstance(x, (torch.Tensor, torch.SymInt, int)) for x in example_inputs)
        self.plans = collections.OrderedDict()
        self.elastic = []  # plans of open sizes, newest first
        self.open = []  # (layouts, run) of the elastic plans that are bound for all sizes
        self.inelastic = 0  # how often no elastic plan could be made
        self.read = None  # reads the values of symbols from arguments
        # Arguments that are numbers (scalars.py): their indices, the values that the graph is built
        # for, and the module for any values.
        self.floats, self.numbers, self.general = scalars.find(module), {}, None
        self.origins = []  # origins of its graphs' nodes
        self.device = _C.get_device()
        self.gpu = gpu.of(self.device)
        if self.gpu:
            self.gpu.waits = gpu.is_lazy() and effects.meets(module)
        self.lock = threading.Lock()
        self.dumped = []  # paths
        self.findings = []  # of debug.deadlock_check

    def as_function(self):
        """Returns the function that PyTorch calls with a list of arguments."""
        plans, make = self.plans, self._make
        only = None  # the plan's call, if the graph has only one set of sizes

        def run_static(args):
            nonlocal only
            try:
                if only is None:
                    self._find_unguarded(args)
                    only = run_dynamic if self.unguarded else make(None, args).run
                return only(args)
            except Error as error:
                self._explain(error)
                raise

        def run_dynamic(args):
            try:
                if self.unguarded is None:
                    self._find_unguarded(args)
                for read, run in self.open:
                    if (now := read(args)) is not None:
                        return run(args, now)
                key = self._key(args)
                plan = plans.get(key) or make(key, args)
                return plan.run(args)
            except Error as error:
                self._explain(error)
                raise

        has_key = self.dynamic or self.floats or self.offsets or not self.plain
        run = run_dynamic if has_key else run_static

        run._boxed_call = True  # makes PyTorch pass the arguments as a list
        return run

    def _find_unguarded(self, args):
        """Finds arguments whose layout is unguarded: optimizers' state is guarded by identity
        only."""
        kinds = (getattr(x, "_dynamo_static_input_type", None) for x in args)
        self.unguarded = tuple(i for i, kind in enumerate(kinds) if kind == "guarded")

    def _explain(self, error):
        for origins in self.origins[-1:]:
            origins.explain(error)

    def _key(self, args):
        """The key of a plan: sizes, and numbers."""
        read = self.read
        key = read(args) if read else _sizes(args)
        key += tuple(args[i].storage_offset() for i in self.offsets)
        key += tuple((args[i].stride(), args[i].dtype) for i in self.unguarded)
        return key + tuple(scalars.key(args[i]) for i in self.floats)

    def _make(self, key, args):
        with self.lock:
            if not all(scalars.is_same(args[i], value) for i, value in self.numbers.items()):
                self._generalise()
            if key is not None:
                key = self._key(args)  # again, as another thread may have changed the numbers
            if key in self.plans:
                return self.plans[key]
            with torch.no_grad():
                plan = self._updating(self._stretch(key) or self._build(args))
            if key is not None and not self.plans:
                key = self._key(args)  # again, as the numbers are known now
            self.plans[key] = plan
            if len(self.plans) > self.config.debug.aclgraph.static_capture_size_limit:
                self.plans.popitem(last=False)
            return plan

    def _generalise(self):
        """A number that was a constant has changed: no number is a constant from now on."""
        logger.info("graph %d is built anew for any numbers among its arguments", self.number)
        self.module, self.rewritten = self.general, False
        self.floats, self.numbers, self.general = (), {}, None
        self.elastic, self.open, self.read = [], [], None
        self.plans.clear()

    def _put_numbers(self, args):
        found = [args[i].item() for i in self.floats]
        if not scalars.are_finite(found):
            self.floats = ()
        if self.floats:
            self.general, self.numbers = scalars.copied(self.module), dict(zip(self.floats, found))
            scalars.put(self.module, self.numbers)

    def _updating(self, plan):
        """Wraps the plan: writes the arguments that the plan does not write itself."""
        done = getattr(plan, "written", ())
        return updates.Updating(plan, self.written) if self.written and not done else plan

    def _build(self, args):
        try:
            if not self.rewritten:
                self._put_numbers(args)
                patterns.rewrite(self.module)
                if not effects.orders(self.module):
                    common.share(self.module)
                self.rewritten = True
            effects.check(self.module)
            return self._build_plans(args)
        except places.Unsupported as reason:
            logger.warning("graph %d runs as PyTorch's own, operator by operator: %s",
                           self.number, reason)  # fmt: skip
            return _Traced(self.module, self.coverage)

    def _stretch(self, key):
        """Returns a plan of open sizes, bound for the sizes of these arguments."""
        known = self.elastic and dict(zip(self.read.symbols, key))
        for elastic in self.elastic:
            if plan := elastic.at(known):
                return plan
        return None

    def _build_elastic(self, args):
        """Builds a plan of open sizes; None if that is not possible. Gives up after a few
        failures."""
        coverage = Coverage()
        builder = build.Builder(self.module, self.device, coverage, self.gpu, self.written)
        try:
            built = builder.build(args, elastic=True)
            self._check_place(args, builder)
            plan = self._compile(built, "auto" if self.config.auto_streams else None)
        except (symbols.NotElastic, Error) as reason:
            self.inelastic += 1
            logger.info("graph %d is built anew for new sizes: %s", self.number, reason)
            return None
        self.coverage.add(coverage)
        empty = None if self.gpu else self.empty
        elastic = _Elastic(builder, built, plan, self.gpu, len(args), self.numbers, empty)
        self.elastic.insert(0, elastic)
        self.open.insert(0, (elastic.layouts, self._updating(elastic).run))
        self.read = self.read or _reader(builder.sizes)
        return self._stretch(self.read(args))

    def _check_place(self, args, builder):
        """Requires that all memory of a plan of open sizes is the device's."""
        if self.gpu:
            if not (self._holds(args, builder) and all(map(self.gpu.holds, builder.built.hidden))):
                raise symbols.NotElastic("an argument, constant or result is in the host's memory")

    def _holds(self, args, builder):
        """Whether the GPU has the graph's arguments, or gets copies, and its results."""
        given = [i for i in builder.built.inputs if i.index >= 0]
        there = all(i.away or self.gpu.holds(args[i.index]) for i in given)
        return there and not builder.hosted

    def _build_plans(self, args):
        is_open = self.dynamic and self.plain and not self.unguarded
        if is_open and self.inelastic < 3:
            if plan := self._build_elastic(args):
                return plan
        if not self.config.auto_streams:
            return self._build_ways(args, None)
        made = self._build_ways(args, "auto")
        if self.device.name.startswith("npu"):  # its time is modelled
            return made
        several = [made]
        with self._quietly():
            if self.gpu:  # short kernels overlap there at no cost, which the estimate does not model
                several.append(self._build_ways(args, "siblings"))
            several = [way for way in several if _has_streams(way)]
            if not several:
                return made
            alone = self._build_ways(args, None)
        ways = [self._updating(way) for way in (alone, *several)]
        clock = self.gpu.clock() if self.gpu else trial.HostClock()
        return trial.Trial(ways, clock, self.number, self.written)

    @contextlib.contextmanager
    def _quietly(self):
        """A context for building the graph a second time, without counting operators or writing
        dumps."""
        coverage, self.coverage = self.coverage, Coverage()
        self.quiet = True
        try:
            yield
        finally:
            self.coverage, self.quiet = coverage, False

    def _build_ways(self, args, streams):
        coverage = Coverage()
        builder = build.Builder(self.module, self.device, coverage, self.gpu, self.written)
        built = builder.build(args)
        if not self.gpu:
            made = _Plan(self._compile(built, streams), built, None, empty=self.empty)
        elif coverage.fallback or not self._holds(args, builder):
            coverage = Coverage()
            made = self._stitch(args, built, coverage, streams)
        else:
            made = _Plan(self._compile(built, streams), built, self.gpu)
        self.coverage.add(coverage)
        return made

    def _stitch(self, args, whole, coverage, streams):
        """Builds a graph on a GPU with operators of PyTorch, and plans between them."""
        plans = []

        def compile(built):
            plans.append(self._plan(built, streams)[0])
            return _Plan(plans[-1], built, self.gpu).run

        single = self.config.ge_config.enable_single_stream
        stitcher = stitch.Stitcher(
            self.module, self.gpu, coverage, compile, bool(single), self.written
        )
        made = stitcher.stitch(args)
        made.plans = plans
        if self.inference and self.config.one_launch:
            made.capture(self.number)
        self._write(whole, None, "\n".join(plan.list() for plan in plans))
        return made

    def _compile(self, built, streams):
        self.origins.append(built.origins)
        plan, left = self._plan(built, streams)
        self._write(built, left, plan.list())
        logger.info("graph %d: %s", self.number, plan.stats())
        return plan

    def _plan(self, built, streams):
        """Compiles the graph's plan; returns it with the dump of the passes, if dumps are
        requested."""
        config = self.config
        if self.gpu:
            self.gpu.synchronize()
        if config.debug.deadlock_check and not self.quiet:
            self._report(built.graph.check(single_stream=config.ge_config.enable_single_stream))
        with tempfile.TemporaryDirectory() as folder:
            plan = built.graph.compile(
                mode="max-autotune" if config.mode == "max-autotune" else "reduce-overhead",
                streams=streams,
                single_stream=config.ge_config.enable_single_stream,
                static_kernels=config.static_kernels
                or config.experimental_config.aclgraph._aclnn_static_shape_kernel,
                cores=config.ge_config.aicore_num,
                dump_dir=folder if config.debug.graph_dump.enabled else None,
            )
            return plan, dump.after_passes(folder)

    def _write(self, built, left, listing):
        """Writes the requested dumps of the graph, and the log."""
        config, dumps = self.config, self.config.debug.graph_dump
        if self.quiet:
            return
        if dumps.type == "py":
            texts = (self.module.print_readable(print_output=False), listing)
            self.dumped += dump.write(config, self.number, *texts)
        elif dumps.enabled:
            texts = (built.graph.dump(), left or built.graph.dump())
            self.dumped += dump.write(config, self.number, *texts)
        logger.debug("graph %d:\n%s", self.number, listing)

    def _report(self, findings):
        self.findings += findings
        for found in findings:
            say = logger.error if found["is_error"] else logger.warning
            say("graph %d: %s: %s", self.number, found["kind"], found["text"])


def _has_streams(made):
    return any(plan.stats()["streams"] > 1 for plan in made.plans)


def _reader(sizes):
    """Generates a function that reads the symbols' values from a call's arguments."""
    what = {"shape": "a[{}].shape[{}]", "stride": "a[{}].stride({})",
            "offset": "a[{}].storage_offset()", "value": "a[{}]"}  # fmt: skip
    parts = [what[kind].format(index, dim) for index, kind, dim in sizes.sources.values()]
    read = eval(f"lambda a: ({''.join(part + ', ' for part in parts)})")
    read.symbols = tuple(sizes.sources)
    return read


def _is_dynamic(x):
    if isinstance(x, torch.SymInt):
        return True
    return isinstance(x, torch.Tensor) and any(isinstance(s, torch.SymInt) for s in x.shape)


def _sizes(args):
    return tuple(
        (tuple(a.shape), a.stride()) if isinstance(a, torch.Tensor) else _exact.key(a) for a in args
    )
