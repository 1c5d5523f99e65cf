"""Tracks the order of accesses to a GPU's memory by streams and events, and finds unordered ones.

This module does not use PyTorch: `Watcher` takes events in the order in which the host makes them
and returns findings. `_cuda.py` feeds it from a running program, tests feed it by hand.

A vector clock maps each stream to its last launch that is known to have completed. Each stream,
each recorded event and the host have a clock. A wait takes the maximum of two clocks. A launch
merges the host's clock, since work that the host waited for has completed before the launch.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Iterable

DEFAULT_STREAM = 0
# The most freed blocks that are remembered until they are reused; the oldest are dropped.
MOST_FREED = 20000


@dataclasses.dataclass(frozen=True)
class Region:
    """Bytes [start, end), with data for an exact test whether two regions overlap."""

    start: int
    end: int
    view: object = None  # passed to the Watcher's function `exact`

    def meets(self, other: Region) -> bool:
        return self.start < other.end and other.start < self.end


@dataclasses.dataclass(frozen=True)
class Access:
    """One launch that reads or writes a region."""

    number: int  # of the launch
    stream: int
    writes: bool
    operator: str
    arguments: tuple[str, ...]
    region: Region
    stack: tuple[tuple[str, int, str], ...]  # file, line, function; the innermost first
    tensor: str = ""


@dataclasses.dataclass(frozen=True)
class Finding:
    """Two unordered accesses. `kind` is "race", or "reuse" if the memory of the first was freed and
    reused for the tensor of the second."""

    kind: str
    first: Access
    second: Access
    allocated: tuple[tuple[str, int, str], ...] = ()
    freed: tuple[tuple[str, int, str], ...] = ()


class _Block:
    """Memory between its allocation and its deallocation."""

    def __init__(self, stream, stack):
        self.stream, self.stack = stream, stack  # None: allocated before the check started
        self.accesses: list[Access] = []
        self.recorded: set[int] = set()  # streams of Tensor.record_stream
        self.inherited: list[tuple[Access, tuple]] = []  # of earlier tensors in this memory
        self.settled = False  # whether `inherited` has been filled


class _Freed:
    """The accesses to a freed block."""

    def __init__(self, stream, accesses, stack):
        self.stream, self.accesses, self.stack = stream, accesses, stack
        self.start = min(a.region.start for a in accesses)
        self.end = max(a.region.end for a in accesses)


def _merge(clock, other):
    for stream, number in other.items():
        if clock.get(stream, -1) < number:
            clock[stream] = number


def _locked(method):
    @functools.wraps(method)
    def locked(self, *args, **kwargs):
        with self.lock:
            return method(self, *args, **kwargs)

    return locked


class Watcher:
    """Takes events and returns findings. Any thread may call it."""

    def __init__(self, exact: Callable[[object, object], bool] | None = None):
        self.lock = threading.RLock()  # PyTorch may call back for an allocation during a launch
        self.exact = exact or (lambda a, b: True)
        self.number = 0
        self.host: dict[int, int] = {}
        self.clocks: dict[int, dict[int, int]] = {DEFAULT_STREAM: {}}
        self.events: dict[int, dict[int, int]] = {}
        self.blocks: dict[int, _Block] = {}
        self.freed: list[_Freed] = []

    # ---- streams and events ----

    def _clock(self, stream):
        if stream not in self.clocks:
            self.clocks[stream] = dict(self.host)
        return self.clocks[stream]

    @_locked
    def stream_created(self, stream: int) -> None:
        self._clock(stream)

    @_locked
    def event_created(self, event: int) -> None:
        self.events[event] = {}

    @_locked
    def event_deleted(self, event: int) -> None:
        self.events.pop(event, None)

    @_locked
    def event_recorded(self, event: int, stream: int) -> None:
        recorded = dict(self._clock(stream))
        _merge(recorded, self.host)
        self.events[event] = recorded

    @_locked
    def event_waited(self, event: int, stream: int) -> None:
        _merge(self._clock(stream), self.events.get(event, {}))

    @_locked
    def event_synchronized(self, event: int) -> None:
        _merge(self.host, self.events.get(event, {}))

    @_locked
    def stream_synchronized(self, stream: int) -> None:
        _merge(self.host, self._clock(stream))

    @_locked
    def device_synchronized(self) -> None:
        for clock in self.clocks.values():
            _merge(self.host, clock)

    # ---- memory ----

    @_locked
    def allocated(self, address: int, stream: int, stack=()) -> None:
        if address in self.blocks:  # the deallocation was missed
            self.deallocated(address)
        self.blocks[address] = _Block(stream, stack)

    @_locked
    def deallocated(self, address: int, stack=()) -> None:
        block = self.blocks.pop(address, None)
        if block is None or block.stream is None:
            return
        # The allocator itself waits for the streams of record_stream.
        left = [a for a in block.accesses if a.stream not in block.recorded and not self._is_over(a)]
        last: dict[tuple, Access] = {}
        for access in left:
            last[access.stream, access.writes, access.region.start, access.region.end] = access
        if last:
            self.freed.append(_Freed(block.stream, list(last.values()), stack))
        if len(self.freed) > MOST_FREED:
            del self.freed[: MOST_FREED // 10]

    @_locked
    def stream_recorded(self, address: int, stream: int) -> None:
        if address in self.blocks:
            self.blocks[address].recorded.add(stream)

    @_locked
    def cache_emptied(self) -> None:
        """Cached memory was returned to the driver, which waits for the device."""
        self.freed.clear()

    def _settle(self, block, region):
        """Finds the accesses of earlier tensors to the memory of a new one. Memory moves from one
        stream to another only through the driver, which waits; so only blocks of the same stream
        count."""
        block.settled = True
        kept = []
        for freed in self.freed:
            if freed.end <= region.start or region.end <= freed.start:
                kept.append(freed)
            elif freed.stream == block.stream:
                block.inherited += [(a, freed.stack) for a in freed.accesses if a.region.meets(region)]
                rest = [a for a in freed.accesses
                        if a.region.start < region.start or region.end < a.region.end]
                if rest:
                    kept.append(_Freed(freed.stream, rest, freed.stack))
        self.freed = kept

    # ---- launches ----

    def _is_over(self, access):
        return self.host.get(access.stream, -1) >= access.number

    def _is_ordered(self, access, stream):
        return access.stream == stream or self._clock(stream).get(access.stream, -1) >= access.number

    def _overlap(self, a, b):
        return a.meets(b) and (a.view is None or b.view is None or self.exact(a.view, b.view))

    @_locked
    def launched(self, stream: int, operator: str, accesses: Iterable[tuple], stack=()) -> list[Finding]:
        """One kernel. `accesses` are tuples (base address of the memory, bytes of the memory, region,
        whether it writes, names of the arguments, what the tensor is)."""
        self.number += 1
        clock = self._clock(stream)
        _merge(clock, self.host)
        findings, made = [], []
        for base, size, region, writes, arguments, tensor in accesses:
            access = Access(self.number, stream, writes, operator, tuple(arguments), region, stack, tensor)
            block = self.blocks.setdefault(base, _Block(None, ()))
            if not block.settled:
                self._settle(block, Region(base, base + size))
            findings += self._against(block, access)
            made.append((block, access))
        # After all comparisons, so that a launch does not race with itself.
        for block, access in made:
            self._remember(block, access)
        clock[stream] = self.number
        return findings

    def _against(self, block, access):
        for earlier in block.accesses:
            if ((access.writes or earlier.writes) and not self._is_ordered(earlier, access.stream)
                    and self._overlap(earlier.region, access.region)):
                yield Finding("race", earlier, access, block.stack)
        for earlier, freed in block.inherited:
            # A read counts too: the old write would overwrite the new tensor's bytes.
            if ((access.writes or earlier.writes) and not self._is_ordered(earlier, access.stream)
                    and earlier.region.meets(access.region)):
                yield Finding("reuse", earlier, access, block.stack, freed)

    def _remember(self, block, access):
        region = access.region

        def is_covered(old):
            # A write replaces the accesses that it covers, as each is ordered before it or has been
            # reported. A later access of a stream replaces an earlier one of the same kind and
            # bytes.
            inside = region.start <= old.region.start and old.region.end <= region.end and region.view is None
            same = old.region == region and old.stream == access.stream and old.writes == access.writes
            return (access.writes and inside) or same or self._is_over(old)

        block.accesses = [a for a in block.accesses if a.number == access.number or not is_covered(a)]
        block.accesses.append(access)
        if access.writes:
            block.inherited = [(a, s) for a, s in block.inherited if not is_covered(a)]
