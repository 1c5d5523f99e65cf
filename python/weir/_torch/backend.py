"""``get_npu_backend``: the backend for torch.compile."""

import inspect
import weakref

import torch
from functorch.compile import default_partition
from torch._dynamo.backends.common import aot_autograd

from ..configs import CompilerConfig
from . import aliases, direct, gpu, gradients
from .coverage import Coverage
from .lower import backward
from .runtime import CompiledGraph


class Backend:
    """Compiles the graphs that torch.compile traces. ``coverage`` counts the operators that ran as
    weir's; ``graphs`` are the compiled graphs that PyTorch still uses."""

    def __init__(self, config, decompositions):
        self.config, self._decompositions = config, decompositions
        self.coverage = Coverage()
        self._graphs = []  # weak references: plans are freed when PyTorch drops the functions
        self._direct, self._writes = None, False  # state of the graph that is being compiled
        # Graphs for inference contain their writes to arguments.
        self._compilers = {
            inference: aot_autograd(
                fw_compiler=self._compile,
                bw_compiler=self._compile_backward,
                inference_compiler=self._compile_inference,
                partition_fn=default_partition,
                decompositions={**backward.DECOMPOSITIONS, **(decompositions or {})},
                keep_inference_input_mutations=inference,
            )
            for inference in (False, True)
        }

    def __call__(self, module, example_inputs, *, options=None):
        """Called by torch.compile; ``options`` are torch.compile's, named as npugraph_ex names
        them (see weir.configs)."""
        if options:
            other = Backend(self.config.with_options(options), self._decompositions)
            other.coverage, other._graphs = self.coverage, self._graphs
            return other(module, example_inputs)
        if self.config.debug.run_eagerly:
            return module.forward
        self._direct, self._writes = None, False  # Dynamo compiles one graph at a time
        compiler = self._compilers[not _wants_gradients(module, example_inputs)]
        through_pytorch = compiler(module, example_inputs)
        found, self._direct = self._direct, None
        if found is not None and all(isinstance(x, (torch.Tensor, int)) for x in example_inputs):
            count, function = found
            if count == len(example_inputs) and not direct.has_shells(module, example_inputs):
                return function
        if self._writes:
            return aliases.guard(through_pytorch, module, example_inputs)
        return through_pytorch

    @property
    def graphs(self):
        return [graph for kept in self._graphs if (graph := kept()) is not None]

    def _compile(self, module, example_inputs, inference=False):
        self._writes |= direct.writes_arguments()
        for change in (self.config.post_grad_custom_pre_pass, self.config.post_grad_custom_post_pass):
            if change is not None:
                _call_pass(change, module, example_inputs, self.config)
                module.recompile()
        graph = CompiledGraph(module, self.config, self.coverage, example_inputs, inference)
        self._graphs[:] = [kept for kept in self._graphs if kept() is not None]
        self._graphs.append(weakref.ref(graph))
        return graph.as_function()

    def _compile_backward(self, module, example_inputs):
        return gradients.plain(module, self._compile(module, example_inputs))

    def _compile_inference(self, module, example_inputs):
        run = self._compile(module, example_inputs, inference=True)
        if direct.is_plain(example_inputs):
            self._direct = len(example_inputs), lambda *args: run(args)
        return run


def _wants_gradients(module, inputs):
    tensors = [*inputs, *module.parameters()]
    return torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in tensors)


def _call_pass(change, *args):
    """Calls a pass with (graph, inputs, configuration), as TorchAir does, or with the graph
    alone."""
    try:
        inspect.signature(change).bind(*args)
    except (TypeError, ValueError):  # other parameters, or a builtin without a signature
        args = args[:1]
    change(*args)


def get_npu_backend(*, compiler_config=None, custom_decompositions=None):
    """A backend for ``torch.compile`` that runs models on weir's default device.

    ``compiler_config`` is a :class:`weir.CompilerConfig`. weir's operators run natively, all others
    as PyTorch's kernels inside the weir stream; ``print(backend.coverage)`` lists them. On cuda the
    model and its inputs are PyTorch's CUDA tensors.

    >>> import torch
    >>> backend = weir.get_npu_backend()
    >>> model = torch.compile(lambda x: torch.relu(x) + 1, backend=backend, fullgraph=True)
    >>> model(torch.tensor([-1.0, 2.0]))
    tensor([1., 3.])
    """
    if compiler_config is None:
        compiler_config = CompilerConfig()
    if not isinstance(compiler_config, CompilerConfig):
        raise TypeError(
            f"compiler_config must be a weir.CompilerConfig, not {type(compiler_config).__name__}"
        )
    compiler_config.say_what_has_no_effect()
    gpu.of_default()  # raises if PyTorch cannot use weir's GPU
    return Backend(compiler_config, custom_decompositions)


def weir(module, example_inputs, *, options=None, **kwargs):
    """The backend by its name: ``torch.compile(model, backend="weir", options={...})``."""
    return get_npu_backend()(module, example_inputs, options=options)


def register(name):
    """Registers the backend under a name, unless the name is taken."""
    from torch._dynamo import register_backend

    try:
        register_backend(weir, name=name)
    except AssertionError:  # the name is taken
        pass
