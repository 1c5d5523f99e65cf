"""Records which operators ran where and when.

>>> with weir.trace() as t:
...     y = weir.tensor([1.0]) + 1
>>> [op["name"] for op in t.ops if op["name"] == "Add"]
['Add']
"""

from __future__ import annotations

import os
from typing import Any
from . import _C


class trace:
    """Records all devices during its ``with`` block; at the end waits for ``device``, or for the
    default one.

    ``ops`` are dicts with name, stream, engine, cores, start_us and end_us, sorted by start;
    ``waits`` are tuples (stream, stream waited for, operator after the wait, operator waited for).

    >>> with weir.trace() as t:
    ...     y = weir.ones((8, 8)) @ weir.ones((8, 8))
    >>> t.named("MatMul")[0]["stream"]
    'default'
    """

    def __init__(self, device: _C.Device | None = None) -> None:
        self._device = device
        self.ops, self.waits, self.dropped, self._handle = [], [], 0, None

    def __enter__(self) -> trace:
        _C.trace_start()
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        try:
            (self._device or _C.get_device()).synchronize()
        except RuntimeError:
            if kind is None:
                raise
        finally:
            ops, waits, self.dropped, self._handle = _C.trace_stop()
            self.waits = [
                (a, b, None if i is None else ops[i], None if j is None else ops[j])
                for a, b, i, j in waits
            ]
            self.ops = sorted(ops, key=lambda op: (op["start_us"], op["end_us"]))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the timeline: one page for a browser (.html), or JSON for Perfetto (.json)."""
        if self._handle is None:
            raise RuntimeError("nothing was recorded yet: the with block has to end first")
        _C.trace_write(self._handle, str(path))

    def named(self, part: str) -> list[dict[str, Any]]:
        """The operators whose name contains ``part``."""
        return [op for op in self.ops if part in op["name"]]
