"""Graph dumps, in files named as TorchAir names them."""

import itertools
import os
import time

_numbers = itertools.count()


def next_number():
    """Each compiled graph has a number; its files share it."""
    return next(_numbers)


def after_passes(folder):
    """The graph as the last pass that leaves one left it, from the compiler's own dumps; None if
    it has no passes."""
    left = sorted(name for name in os.listdir(folder) if name.endswith(".pbtxt"))
    if not left:
        return None
    with open(os.path.join(folder, left[-1])) as file:
        return file.read()


def write(config, number, original, optimized):
    """Writes what ``debug.graph_dump`` asks for; the paths that were written."""
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
