"""weir as a backend of torch.compile.

``library`` makes scopes and waits operators that survive tracing, ``kernels`` those of weir that
PyTorch has no name for, ``lowering`` says which operators of PyTorch weir has, ``fallback`` runs the others as PyTorch's kernels inside weir's
streams, ``build`` turns a traced graph into a weir graph, ``runtime`` runs its plan on PyTorch's
own memory, and ``backend`` ties them together. ``places`` says where results lie, ``effects``
what operators do beside giving values. On a GPU (``gpu``), ``stitch`` makes ``steps`` of a
graph that has operators of both, and ``program`` a function of those.
"""

from . import library  # noqa: F401  (defines the operators)
from .backend import get_npu_backend, register

register("weir")  # also where it was not installed by pip, which knows it by its entry point
