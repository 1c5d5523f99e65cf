"""``mindspore.communication`` for one process. For several ranks use the real MindSpore, which
``weir cann`` runs."""

import os

_ONE = "mindspore.communication of weir has one rank"


def _size():
    size = os.environ.get("RANK_SIZE", "1")
    if size != "1":
        raise RuntimeError(
            f"{_ONE}, and RANK_SIZE is {size}. 'weir cann' runs the real MindSpore (docs/cann.md)"
        )
    return 1


def init(backend_name=None):
    """Checks that there is one rank."""
    _size()


def release():
    """Does nothing."""


def get_rank(group=None):
    """0, the only rank."""
    return _size() - 1


get_local_rank = get_rank


def get_group_size(group=None):
    """1."""
    return _size()


get_local_rank_size = get_group_size
