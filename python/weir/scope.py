"""Scopes that apply to the operators inside: stream, core limits, super kernels.

The names and arguments are TorchAir's (``torchair.scope``). Scopes work the same on weir's own
tensors, in captured graphs, and inside a model that ``torch.compile`` traces for weir's backend.
Scopes nest: of each kind the innermost applies, and different kinds combine.

>>> with weir.scope.npu_stream_switch("side"):
...     with weir.scope.limit_core_num(1, 1):
...         y = weir.tensor([1.0]) + 1
>>> y.item()
2.0
"""

from __future__ import annotations

from typing import Any

from . import _C, _dispatch


class _Scope:
    def __init__(self, kind, text="", first=0, second=0):
        self._kind, self._text, self._first, self._second = kind, text, first, second

    def __enter__(self):
        _dispatch.enter(self._kind, self._text, self._first, self._second)

    def __exit__(self, *exc):
        _dispatch.leave(self._kind)


def npu_stream_switch(
    stream_tag: str, stream_priority: int = 0, enable_inner_parallel: bool = True
) -> _Scope:
    """Operators inside run on the stream of that tag; the same tag is the same stream.

    ``enable_inner_parallel`` is accepted for TorchAir; weir's operators always use all cores that
    their limits allow.

    >>> with weir.scope.npu_stream_switch("side", -1):
    ...     y = weir.ones((2,)) + 1
    >>> y.tolist()
    [2.0, 2.0]
    """
    if not isinstance(stream_tag, str):
        raise TypeError(f"stream_tag must be a str, not {type(stream_tag).__name__}")
    if isinstance(stream_priority, bool) or not isinstance(stream_priority, int):
        raise TypeError(f"stream_priority must be an int, not {type(stream_priority).__name__}")
    return _Scope("stream", stream_tag, stream_priority)


def limit_core_num(op_aicore_num: int | str, op_vectorcore_num: int | str) -> _Scope:
    """Limits the cube and vector cores of the operators inside; -1 keeps the present value.

    >>> with weir.scope.limit_core_num(1, 1):
    ...     y = weir.ones((8, 8)) @ weir.ones((8, 8))
    """
    cube = _number("op_aicore_num", op_aicore_num)
    return _Scope("cores", "", cube, _number("op_vectorcore_num", op_vectorcore_num))


def _number(name, value):
    """Converts a number, which may be text, as in attributes of a graph."""
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            raise ValueError(f"{name} must be a number, not {value!r}") from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    return value


def super_kernel(scope: str | None, options: str | None = "") -> _Scope:
    """Fuses the operators inside into one launch; a scope of None excludes them from it again.
    Options that weir does not know have no effect, with one warning.

    >>> @weir.compile
    ... def f(x):
    ...     with weir.scope.super_kernel("sk"):
    ...         return x * 2 + 1
    >>> f(weir.ones((2,))).tolist()
    [3.0, 3.0]
    """
    if scope is not None and not isinstance(scope, str):
        raise TypeError(f"scope must be a str or None, not {type(scope).__name__}")
    options = "" if options is None else options
    if not isinstance(options, str):
        raise TypeError(f"options must be a str, not {type(options).__name__}")
    return _Scope("super_kernel", (_dispatch.NO_NAME if scope is None else scope) + "\n" + options)


def op_never_timeout(enable: bool = True) -> _Scope:
    """The device's op_timeout does not count for operators inside.

    >>> with weir.scope.op_never_timeout():
    ...     y = weir.ones((2,)) + 1
    """
    if not isinstance(enable, bool):
        raise TypeError(f"enable must be a bool, not {type(enable).__name__}")
    return _Scope("never_timeout", "", int(enable))


def npu_wait_tensor(self: Any, dependency: Any) -> Any:
    """Makes every later use of ``self`` run after the work that computes ``dependency``.

    Returns ``self``.

    >>> a = weir.ones((2, 2))
    >>> with weir.scope.npu_stream_switch("side"):
    ...     b = a @ a
    >>> weir.scope.npu_wait_tensor(a, b) is a
    True
    """
    if isinstance(self, _C.Tensor):
        return _C.wait_tensor(self, dependency)
    if _dispatch.torch_ops is not None:
        _dispatch.torch_ops.wait_tensor(self, dependency)
    return self
