"""Running plans on PyTorch's memory."""

import collections
import threading

import torch

from .. import _C
from .._log import logger
from . import build, dump

PLANS_KEPT = 64  # sets of sizes of one graph


class _Plan:
    """A plan with the ways its arguments and results take."""

    def __init__(self, plan, built):
        self.plan, self.graph = plan, built.graph
        plan.bind(built.input_specs, built.output_specs)
        self.inputs = built.inputs
        self.indices = [i.index for i in built.inputs]
        self.special = [
            (at, i) for at, i in enumerate(built.inputs) if i.copied or i.strides is not None
        ]
        self.outputs = built.outputs
        slots = {o.slot: o for o in built.outputs if o.slot is not None}
        self.makers = [_maker(slots[i]) for i in range(len(slots))]

    def run(self, args):
        inputs = [args[i] for i in self.indices]
        for at, how in self.special:
            t = inputs[at]
            if how.strides is not None and t.stride() != how.strides:
                # Not the layout it was compiled for: bring it there.
                moved = torch.empty_strided(t.shape, how.strides, dtype=t.dtype)
                inputs[at] = moved.copy_(t)
            elif how.strides is None:
                inputs[at] = t.contiguous()
        made = [make() for make in self.makers]
        self.plan.run_on(inputs, made)
        return [
            made[o.slot] if o.slot is not None else args[o.argument] if o.argument is not None
            else o.given
            for o in self.outputs
        ]  # fmt: skip


def _maker(output):
    shape, dtype, strides = output.shape, output.dtype, output.strides
    if strides is None:
        return lambda: torch.empty(shape, dtype=dtype)
    return lambda: torch.empty_strided(shape, strides, dtype=dtype)


class CompiledGraph:
    """A traced graph as a function: one plan per set of sizes, made at the first call."""

    def __init__(self, module, config, coverage, example_inputs):
        self.module, self.config, self.coverage = module, config, coverage
        self.number = dump.next_number()
        self.dynamic = any(_is_dynamic(x) for x in example_inputs)
        self.plans = collections.OrderedDict()
        self.device = _C.get_device()
        self.lock = threading.Lock()
        self.dumped = []

    def __call__(self, args):
        key = _sizes(args) if self.dynamic else None
        plan = self.plans.get(key)
        if plan is None:
            plan = self._make(key, args)
        return plan.run(args)

    def _make(self, key, args):
        with self.lock:
            if key in self.plans:
                return self.plans[key]
            builder = build.Builder(self.module, self.device, self.coverage)
            with torch.no_grad():
                built = builder.build(args)
            plan = _Plan(self._compile(built), built)
            self.plans[key] = plan
            if len(self.plans) > PLANS_KEPT:
                self.plans.popitem(last=False)
            return plan

    def _compile(self, built):
        config = self.config
        plan = built.graph.compile(
            mode="max-autotune" if config.mode == "max-autotune" else "reduce-overhead",
            streams="auto" if config.auto_streams else None,
            single_stream=config.ge_config.enable_single_stream,
            static_kernels=config.static_kernels,
            cores=config.ge_config.aicore_num,
        )
        if config.debug.graph_dump.enabled:
            if config.debug.graph_dump.type == "py":
                texts = (self.module.print_readable(print_output=False), plan.list())
            else:
                texts = (built.graph.dump(), built.graph.dump())
            self.dumped += dump.write(config, self.number, *texts)
        logger.info("graph %d: %s", self.number, plan.stats())
        logger.debug("graph %d:\n%s", self.number, plan.list())
        return plan


def _is_dynamic(x):
    if isinstance(x, torch.SymInt):
        return True
    return isinstance(x, torch.Tensor) and any(isinstance(s, torch.SymInt) for s in x.shape)


def _sizes(args):
    return tuple(
        (tuple(a.shape), a.stride()) if isinstance(a, torch.Tensor) else a for a in args
    )
