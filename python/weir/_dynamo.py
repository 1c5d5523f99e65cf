"""What PyTorch loads for ``backend="weir"`` when nobody has imported weir.

Apart from ``_torch``, which registers the name itself as it is imported: PyTorch registers what it
loads from an entry point, and takes no name twice.
"""

from __future__ import annotations

from typing import Any


def weir(module: Any, example_inputs: Any, **kwargs: Any) -> Any:
    """The backend by its name."""
    from ._torch import backend

    return backend.weir(module, example_inputs, **kwargs)
