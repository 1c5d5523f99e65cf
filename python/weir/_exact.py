"""Keys of caches, in which no two things are one that a program can tell apart.

Python takes 1, True and 1.0 for equal, and 0.0 and -0.0, and no NaN for itself.
"""

import struct


class Same:
    """Equal to itself alone. The thing lives as long as the key, so that no other gets its id."""

    __slots__ = ("thing",)

    def __init__(self, thing):
        self.thing = thing

    def __eq__(self, other):
        return isinstance(other, Same) and self.thing is other.thing

    def __hash__(self):
        return id(self.thing)


def key(x):
    """What stands for a value among keys. Lists, tuples, dicts and slices are what is in them; what is
    neither they nor a number or a text is told by which object it is."""
    kind = type(x)
    if kind is float:
        return kind, struct.pack("d", x)
    if kind is complex:
        return kind, struct.pack("dd", x.real, x.imag)
    if kind in (bool, int, str, bytes, type(None)):
        return kind, x
    if isinstance(x, (list, tuple)):
        return kind, tuple(map(key, x))
    if isinstance(x, dict):
        return kind, tuple((key(k), key(v)) for k, v in x.items())
    if kind is slice:
        return kind, key((x.start, x.stop, x.step))
    return Same(x)
