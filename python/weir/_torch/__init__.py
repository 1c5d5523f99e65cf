"""weir as a backend of torch.compile.

A traced graph goes through the rooms in this order:

- ``rewrite``: it becomes a better traced graph;
- ``lower``: each operator becomes weir's, or PyTorch's own kernel inside weir's streams;
- ``graph``: they become a weir graph;
- ``mixed``: on a GPU, a graph with operators of both becomes steps that take turns.

Here are those that serve all of them: ``backend`` ties them together and ``runtime`` runs plans on
PyTorch's own memory. ``library`` makes scopes and waits operators that survive tracing, ``kernels``
those of weir that PyTorch has no name for. ``effects`` says what operators do beside giving values,
``values`` what types and layouts are, ``gpu`` is PyTorch's side of a GPU.
"""

from . import library  # noqa: F401  (defines the operators)
from .backend import get_npu_backend, register

register("weir")  # also where it was not installed by pip, which knows it by its entry point
