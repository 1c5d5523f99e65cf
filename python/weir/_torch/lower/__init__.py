"""Lowers each operator of a traced graph: to one of weir's, to several, or to PyTorch's own kernel.

``table`` defines the rules; the modules that are imported here fill it, and later ones override
earlier ones. In graphs of open sizes ``shaping`` lowers views and ``opened`` other operators that
depend on sizes. ``pairs`` lowers complex numbers, ``grouped`` keys and values that are repeated for
a group of queries, ``fallback`` calls PyTorch's own kernels.

``rewrite`` changes the operators of a graph beforehand, and ``graph`` builds the weir graph.
"""

from . import operators, products  # noqa: F401  isort: skip
from . import bits, composed, indices, windows  # noqa: F401  isort: skip
from . import backward, collectives  # noqa: F401  isort: skip
