"""Streams and events of ``weir.npu`` inside a function that torch.compile traces.

There a stream is its tag, as in ``weir.scope.npu_stream_switch``, and an event the token of its
last record. Plain Python, so that Dynamo can trace it.
"""

import itertools

from . import _dispatch

DEFAULT = "default"  # the tag of the stream that the compiled function is called on

_entered = []  # (stream, whether a with block entered it) in the function being traced
_numbers = itertools.count()


def _number():
    """One that no other has, made when the function is traced."""
    return next(_numbers)


def new_tag():
    return f"traced stream {_dispatch.constant(_number)}"


def enter(stream, by_block=True):
    """Operators from now on are the stream's."""
    _dispatch.enter("stream", stream.tag, stream.urgency)
    _entered.append((stream, by_block))


def switch(stream):
    """The same, until the next switch or the end of the with block around it."""
    by_block = _entered[-1][1] if _entered else False
    if _entered:
        leave()
    if by_block or stream.tag != DEFAULT:
        enter(stream, by_block)


def leave():
    _entered.pop()
    _dispatch.leave("stream")


def innermost():
    """The stream that was entered or switched to last; None outside of all."""
    return _entered[-1][0] if _entered else None


def record(stream):
    """A token for what the stream, or the current one, has so far."""
    if stream is None:
        return _dispatch.torch_ops.record()
    _dispatch.enter("stream", stream.tag, stream.urgency)
    token = _dispatch.torch_ops.record()
    _dispatch.leave("stream")
    return token


def wait(token, stream):
    """The stream, or the current one, goes on after the token."""
    if stream is None:
        _dispatch.torch_ops.wait([token])
        return
    _dispatch.enter("stream", stream.tag, stream.urgency)
    _dispatch.torch_ops.wait([token])
    _dispatch.leave("stream")
