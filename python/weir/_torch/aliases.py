"""Arguments that share memory, some of which a graph writes.

PyTorch passes the graph the common base of such views, and the graph makes the views again, with
the offsets of the call for which it was traced. Dynamo's guards check neither the offsets nor the
layout of the base. So a call with other views would access the wrong memory. Such a call runs the
program as PyTorch traced it.
"""

import collections

import torch

from .._log import logger


def guard(function, module, examples):
    """Wraps the compiled function: calls it for arguments with the memory layout of the first call,
    and the traced module for others. Returns the function itself if no arguments share memory."""
    groups = collections.defaultdict(list)
    for index, x in enumerate(examples):
        if isinstance(x, torch.Tensor) and x.layout is torch.strided:
            groups[x.untyped_storage()._cdata].append(index)
    shared = [index for group in groups.values() if len(group) > 1 for index in group]
    if not shared:
        return function
    first = None

    def run(*args):
        nonlocal first
        now = [_place(args[index]) for index in shared]
        if first is None:
            first = now
        if now == first:
            return function(*args)
        logger.info("arguments that share memory lie elsewhere in it: PyTorch runs the call")
        return module(*args)

    return run


def _place(x):
    base = x._base
    return _layout(x), None if base is None else _layout(base), x.untyped_storage().nbytes()


def _layout(x):
    return x.shape, x.stride(), x.storage_offset()
