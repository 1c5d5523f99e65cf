"""Several placements on streams, against one stream: the first calls take turns, and what is
fastest stays. Each call is the user's own, and gives right results whichever it is."""

import statistics
import threading
import time

from .._log import logger

WARM = 4  # calls of each way that count for nothing: they tune, and capture
ROUNDS = 5  # that are timed
BETTER = 0.98  # of the time on one stream: several are kept for that or less


class HostClock:
    """Of calls that return when their work is done."""

    def begin(self):
        return time.perf_counter()

    def end(self, began):
        """What :meth:`seconds` is given."""
        return time.perf_counter() - began

    def seconds(self, timed):
        """None while it is not known yet."""
        return timed


class Trial:
    """``ways`` have ``run``, the first of them on one stream; ``run`` is that of any, and in the end of
    the one that is ``chosen``."""

    def __init__(self, ways, clock, number, written=()):
        self.ways, self.clock, self.number = ways, clock, number
        self.written = written  # arguments that all write to
        self.calls, self.timed = 0, [[] for _ in ways]
        self.chosen = None
        self.lock = threading.Lock()

    def run(self, args):
        if self.chosen is not None:
            return self.chosen.run(args)
        if not self.lock.acquire(blocking=False):  # another thread would spoil the times
            return self.ways[0].run(args)
        try:
            if self._decide():
                return self.chosen.run(args)
            which = self.calls % len(self.ways)
            self.calls += 1
            if self.calls <= len(self.ways) * WARM:
                return self.ways[which].run(args)
            began = self.clock.begin()
            results = self.ways[which].run(args)
            self.timed[which].append(self.clock.end(began))
            return results
        finally:
            self.lock.release()

    def _decide(self):
        """Whether it is decided by now."""
        if self.chosen is not None:
            return True
        if min(map(len, self.timed)) < ROUNDS:
            return False
        seconds = [[self.clock.seconds(t) for t in timed[:ROUNDS]] for timed in self.timed]
        if any(None in times for times in seconds):
            return False
        one, *several = map(statistics.median, seconds)
        self.several = min(several) <= one * BETTER
        self.chosen = self.ways[1 + several.index(min(several)) if self.several else 0]
        logger.info("graph %d: %.1f us on one stream, %s on several: %s stays", self.number, one * 1e6,
                    " and ".join(f"{s * 1e6:.1f}" for s in several),
                    "the fastest of those" if self.several else "the former")  # fmt: skip
        self.ways = (self.chosen,)
        return True
