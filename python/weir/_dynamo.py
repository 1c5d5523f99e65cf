"""The entry point that PyTorch loads for ``backend="weir"`` if weir was not imported.

It is separate from ``_torch``, which registers the name itself on import: PyTorch registers what it
loads from an entry point, and refuses to register a name twice.
"""

from __future__ import annotations

from typing import Any


def weir(module: Any, example_inputs: Any, **kwargs: Any) -> Any:
    """The backend by its name."""
    from ._torch import backend

    return backend.weir(module, example_inputs, **kwargs)
