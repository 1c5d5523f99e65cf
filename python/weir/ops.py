"""Ordering by tokens and tagged events, with the names of ``torchair.ops``.

>>> token = weir.ops.record()
>>> with weir.scope.npu_stream_switch("side"):
...     weir.ops.wait([token])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _C, _dispatch


def record() -> Any:
    """A token for everything issued on the current stream so far.

    >>> token = weir.ops.record()
    """
    if _dispatch.torch_ops is not None:
        return _dispatch.torch_ops.record()
    return _C.token_record(None)


def wait(tensors: Sequence[Any]) -> None:
    """Makes the current stream wait for all tokens, and for the work that computes the tensors.

    >>> token = weir.ops.record()
    >>> with weir.scope.npu_stream_switch("side"):
    ...     weir.ops.wait([token, weir.ones((2,))])
    """
    if not isinstance(tensors, (list, tuple)) or len(tensors) == 0:
        raise ValueError("wait takes a list of at least one token or tensor")
    ours, theirs = [], []
    for token in tensors:
        if isinstance(token, _C.Tensor):
            ours.append(token)
        elif hasattr(token, "data_ptr") and _dispatch.torch_ops is not None:
            theirs.append(token)
        else:
            raise ValueError(
                f"wait takes tokens made by record, and tensors, not {type(token).__name__}"
            )
    if ours:
        _C.token_wait(ours)
    if theirs:
        _dispatch.torch_ops.wait(theirs)


class TaggedEvent:
    """An event known by its tag; made by npu_create_tagged_event.

    >>> weir.ops.TaggedEvent("t").tag
    't'
    """

    def __init__(self, tag: str) -> None:
        self.tag = tag

    def __repr__(self) -> str:
        return f"TaggedEvent({self.tag!r})"


def npu_create_tagged_event(tag: str) -> TaggedEvent:
    """A new event of that tag; ValueError if the tag is in use.

    >>> event = weir.ops.npu_create_tagged_event("done")
    >>> event
    TaggedEvent('done')
    >>> weir.ops.npu_destroy_tagged_event(event)
    """
    if not isinstance(tag, str):
        raise TypeError(f"tag must be a str, not {type(tag).__name__}")
    _C.tagged_event_create(None, tag)
    return TaggedEvent(tag)


def npu_destroy_tagged_event(event: TaggedEvent) -> None:
    """Frees the event and its tag.

    >>> weir.ops.npu_destroy_tagged_event(weir.ops.npu_create_tagged_event("t"))
    """
    _C.tagged_event_destroy(None, event.tag)


def npu_tagged_event_record(event: TaggedEvent) -> None:
    """Records the event after the present work of the current stream.

    >>> event = weir.ops.npu_create_tagged_event("half way")
    >>> weir.ops.npu_tagged_event_record(event)
    >>> weir.ops.npu_destroy_tagged_event(event)
    """
    if _dispatch.torch_ops is not None:
        _dispatch.torch_ops.tagged_event_record(event.tag)
    else:
        _C.tagged_event_record(None, event.tag)


def npu_tagged_event_wait(event: TaggedEvent) -> None:
    """Makes the current stream wait for the event's last record; does nothing before the first one.

    >>> event = weir.ops.npu_create_tagged_event("ready")
    >>> weir.ops.npu_tagged_event_record(event)
    >>> with weir.scope.npu_stream_switch("side"):
    ...     weir.ops.npu_tagged_event_wait(event)
    >>> weir.ops.npu_destroy_tagged_event(event)
    """
    if _dispatch.torch_ops is not None:
        _dispatch.torch_ops.tagged_event_wait(event.tag)
    else:
        _C.tagged_event_wait(None, event.tag)


def npu_record_tagged_stream(input: Any, tagged_stream: str) -> None:
    """Declares that work on the stream of that tag uses the tensor. In a graph and for tensors of
    other libraries this does nothing, as weir tracks such uses itself.

    >>> weir.ops.npu_record_tagged_stream(weir.ones((2,)), "side")
    """
    if not isinstance(tagged_stream, str):
        raise TypeError(f"tagged_stream must be a str, not {type(tagged_stream).__name__}")
    if isinstance(input, _C.Tensor):
        _C.record_tagged_stream(input, tagged_stream)
