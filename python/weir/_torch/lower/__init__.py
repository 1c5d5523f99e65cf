"""What each operator of a traced graph becomes: one of weir's, several, or PyTorch's own kernel.

``table`` has the rules, and the modules that are imported here fill it, later ones over earlier
ones. ``shaping`` has views in graphs of open sizes, ``opened`` what else goes by them, ``pairs``
complex numbers, ``grouped`` keys and values that are repeated for a group of queries, ``fallback``
PyTorch's own kernels.

Which operators a graph has is not decided here (``rewrite``), nor how it is built (``graph``).
"""

from . import operators, products  # noqa: F401  isort: skip
from . import bits, composed, indices, windows  # noqa: F401  isort: skip
from . import backward, collectives  # noqa: F401  isort: skip
