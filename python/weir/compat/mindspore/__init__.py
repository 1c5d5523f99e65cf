"""``mindspore``, as far as scripts about streams use it: Tensor, ops, hal, nn, context, types."""

from .publish import publish

__all__ = ["publish"]
