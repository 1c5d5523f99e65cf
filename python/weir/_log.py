"""``weir.logger``: what the Python side says. The C library's messages come through it too
once its level is set."""

import logging

logger = logging.getLogger("weir")
logger.addHandler(logging.NullHandler())
