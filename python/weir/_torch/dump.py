"""Graph dumps, in files named as TorchAir names them."""

import itertools
import os
import time

_numbers = itertools.count()


def next_number():
    """Returns the number of a compiled graph, which all its files contain."""
    return next(_numbers)


def after_passes(folder):
    """The last dump that the compiler's passes wrote; None if there is none."""
    left = sorted(name for name in os.listdir(folder) if name.endswith(".pbtxt"))
    if not left:
        return None
    with open(os.path.join(folder, left[-1])) as file:
        return file.read()


def write(config, number, original, optimized):
    """Writes the dumps that ``debug.graph_dump`` asks for; returns their paths."""
    dump = config.debug.graph_dump
    if not dump.enabled:
        return []
    folder = dump.path or os.getcwd()
    os.makedirs(folder, exist_ok=True)
    rank = os.environ.get("RANK", "0")
    stamp = time.strftime("%Y%m%d%H%M%S") + f"{time.time_ns() // 1000 % 1000000:06d}"
    end = f"_graph_{number}_rank_{rank}_pid_{os.getpid()}_ts_{stamp}.{dump.type}"
    written = []
    for kind, text in (("original", original), ("optimized", optimized)):
        path = os.path.join(folder, f"dynamo_{kind}{end}")
        draft = f"{path}.part"
        with open(draft, "w") as file:
            file.write(text)
        os.replace(draft, path)
        written.append(path)
    return written
