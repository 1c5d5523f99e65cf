"""weir as a backend of torch.compile.

A traced graph passes through these packages in this order:

- ``rewrite`` simplifies the traced graph; - ``lower`` converts each operator to weir's, or to a
call of PyTorch's kernel inside weir's streams;
- ``graph`` builds a weir graph of them;
- ``mixed``: on a GPU, splits a graph with operators of both into steps.

The modules here serve all of them. ``backend`` connects them, and ``runtime`` runs plans on
PyTorch's own memory. ``library`` defines scopes and waits as operators that survive tracing,
``kernels`` those operators of weir that PyTorch lacks. ``effects`` knows the side effects of
operators, ``values`` types and layouts, ``gpu`` is PyTorch's side of a GPU.
"""

from . import library  # noqa: F401  (defines the operators)
from .backend import get_npu_backend, register

register("weir")  # pip installs an entry point; this serves programs without it
