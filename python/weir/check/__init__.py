"""Finds races: operators on different streams that access the same bytes without being ordered.

>>> s = weir.Stream(name="s")
>>> with weir.check() as found:
...     b = weir.ones((4,)) + 1
...     with weir.stream(s):
...         c = b.sum()          # nothing says that b is there
>>> race = found.races[0]
>>> race["first"]["op"], race["second"]["op"], race["second"]["stream"]
('Add', 'Sum', 's')
"""

from __future__ import annotations

from .. import _C


class check:
    """Checks every operator of this process while its ``with`` block runs.

    ``mode`` is "report" (collect the races), "error" (an operator that would race raises
    weir.Error and is not run) or "autosync" (the missing wait is queued). Afterwards ``races``
    is a list of a dict per pair of calls, with ``first`` and ``second`` (op, stream, tensor, file,
    line), and ``str()`` returns a readable report.

    >>> with weir.check() as found:
    ...     y = weir.ones((2,)) + 1
    >>> found.races
    []
    """

    def __init__(self, mode: str = "report") -> None:
        self.mode = mode
        self.races, self._report = [], ""

    def __enter__(self) -> check:
        _C.race_set_mode(self.mode)
        return self

    def __exit__(self, *exc: object) -> None:
        self.races, self._report = _C.race_list(), _C.race_report()
        _C.race_set_mode("off")

    def __str__(self) -> str:
        return self._report
