"""``weir.logger``: messages of the Python side, and of the C library once a level is set.

>>> weir.logger.name
'weir'

``weir.logger.setLevel("DEBUG")`` turns the library's messages on. ``$WEIR_LOG`` takes precedence,
and applies if no level is set. Messages are delivered when the main thread next runs Python.
"""

import logging
import os

from . import _C

# Indexed by the library's levels.
_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


class _Logger(logging.Logger):
    def setLevel(self, level):
        super().setLevel(level)
        if os.environ.get("WEIR_LOG"):
            return
        wanted = [number for number, name in enumerate(_LEVELS) if name >= self.level]
        _C.log_set_level(max(wanted, default=-1) if self.level else -1)


def receive(level, text):
    """Logs a message of the library."""
    logger.log(_LEVELS[level], "%s", text)


logger = logging.getLogger("weir")
logger.__class__ = _Logger  # the logger may exist already
logger.addHandler(logging.NullHandler())
if logger.level:
    logger.setLevel(logger.level)
