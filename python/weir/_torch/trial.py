"""Compares placements on several streams with one stream: the first calls take turns, and then the
fastest is kept. The calls are the user's own; their results are the same with every placement."""

import statistics
import threading
import time

from .._log import logger

WARM = 4  # untimed calls of each placement, which tune and capture
ROUNDS = 5  # timed calls of each placement
BETTER = 0.98  # several streams are kept if they take at most this share of one stream's time


class HostClock:
    """A clock for calls that return when their work has completed."""

    def begin(self):
        return time.perf_counter()

    def end(self, began):
        """Returns the argument for :meth:`seconds`."""
        return time.perf_counter() - began

    def seconds(self, timed):
        """Returns the time, or None while it is unknown."""
        return timed


class Trial:
    """``ways`` are objects with a function ``run``; the first uses one stream. ``run`` calls one of
    them, and in the end the one that is ``chosen``."""

    def __init__(self, ways, clock, number, written=()):
        self.ways, self.clock, self.number = ways, clock, number
        self.written = written  # arguments that every way writes
        self.calls, self.timed = 0, [[] for _ in ways]
        self.chosen = None
        self.lock = threading.Lock()

    def run(self, args):
        if self.chosen is not None:
            return self.chosen.run(args)
        if not self.lock.acquire(blocking=False):  # calls of another thread would distort the times
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
        """Decides if all times are known; whether a way is chosen."""
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
