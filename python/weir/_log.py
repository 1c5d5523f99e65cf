"""``weir.logger``: what the Python side says, and the C library too once a level is set.

>>> weir.logger.name
'weir'

``weir.logger.setLevel("DEBUG")`` turns the library's messages on; without it they go where
``$WEIR_LOG`` says, which also wins. They arrive when the main thread next runs Python.
"""

import logging
import os

from . import _C

# By the library's number.
_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


class _Logger(logging.Logger):
    def setLevel(self, level):
        super().setLevel(level)
        if os.environ.get("WEIR_LOG"):
            return
        wanted = [number for number, name in enumerate(_LEVELS) if name >= self.level]
        _C.log_set_level(max(wanted, default=-1) if self.level else -1)


def receive(level, text):
    """A message of the library."""
    logger.log(_LEVELS[level], "%s", text)


logger = logging.getLogger("weir")
logger.__class__ = _Logger  # also one that somebody asked for before
logger.addHandler(logging.NullHandler())
if logger.level:
    logger.setLevel(logger.level)
