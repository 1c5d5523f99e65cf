"""Streams and events of ``weir.npu`` inside a function that torch.compile traces.

There a stream is represented by its tag, as in ``weir.scope.npu_stream_switch``, and an event by
the token of its last record. Plain Python, so that Dynamo can trace it.
"""

import itertools

from . import _dispatch

DEFAULT = "default"  # the tag of the stream that the compiled function is called on

_entered = []  # (stream, whether a with block entered it) in the function being traced
_numbers = itertools.count()


def _number():
    """Returns a unique number; runs when the function is traced."""
    return next(_numbers)


def new_tag():
    return f"traced stream {_dispatch.constant(_number)}"


def enter(stream, by_block=True):
    """Makes further operators run on the stream."""
    _dispatch.enter("stream", stream.tag, stream.urgency)
    _entered.append((stream, by_block))


def switch(stream):
    """The same, until the next switch or the end of the enclosing with block."""
    by_block = _entered[-1][1] if _entered else False
    if _entered:
        leave()
    if by_block or stream.tag != DEFAULT:
        enter(stream, by_block)


def leave():
    _entered.pop()
    _dispatch.leave("stream")


def innermost():
    """The stream that was entered or switched to last; None if there is none."""
    return _entered[-1][0] if _entered else None


def record(stream):
    """Returns a token for the work queued so far on the stream, or on the current one."""
    if stream is None:
        return _dispatch.torch_ops.record()
    _dispatch.enter("stream", stream.tag, stream.urgency)
    token = _dispatch.torch_ops.record()
    _dispatch.leave("stream")
    return token


def wait(token, stream):
    """Makes the stream, or the current one, wait for the token."""
    if stream is None:
        _dispatch.torch_ops.wait([token])
        return
    _dispatch.enter("stream", stream.tag, stream.urgency)
    _dispatch.torch_ops.wait([token])
    _dispatch.leave("stream")
