"""Collectives in flight, for which PyTorch waits."""

from __future__ import annotations

import threading
import time

import torch
from torch import distributed as dist

from .. import _C
from . import _operands


class Call:
    """A collective, or several, before it is queued. ``group`` is its group, ``peer`` the peer's
    rank in that group."""

    def __init__(self, owner, tensors, peer=None):
        self.owner = owner
        self.side = owner._side_of(_operands.device_of(tensors))
        self.group = self.peer = None
        if peer is None:
            self.group = self.side.group()
        else:
            self.group, self.peer = self.side.with_peer(peer)
        self.finish = []  # functions to call after it has completed
        self._commands, self._keep = [], []

    def room(self, size):
        return torch.empty(size, dtype=torch.uint8, device=self.side.where)

    def share(self, tensor):
        """Wraps a tensor for weir's group."""
        shared = self.side.share(tensor)
        self._keep += [tensor, shared]
        return shared

    def add(self, command):
        self._commands.append(command)

    def exchange(self, x, out, send, recv):
        """Exchanges bytes with each rank."""
        mine, all_of = self.share(x), self.share(out)
        self.add(lambda g: g.all_to_all(mine, all_of, send, recv))

    def start(self, result, key=None):
        stream = self.side.stream(key)
        try:
            with self.side.calls_on(stream):
                for command in self._commands:
                    command(self.group)
        except Exception as error:
            self._raise_broken(error)
            raise
        event = _C.Event(device=self.side.device)
        event.record(stream)
        work = Work(self, event, self._keep, result)
        if self.peer is None and self.side.waits():
            work._settle()  # messages are not waited for: all ranks may send before they receive
        if self.owner._together is not None:
            self.owner._together.append(work)
        return work

    def _raise_broken(self, error):
        """Raises an error of the backend if the group is broken."""
        try:
            self.group.check()
        except Exception as reason:
            raise dist.DistBackendError(str(reason)) from error


class Work(dist._Work):
    """A collective in flight."""

    def __init__(self, call, event, keep, result):
        super().__init__()
        self._owner, self._side, self._group = call.owner, call.side, call.group
        self._event = event
        self._keep = keep  # tensors that the stream reads and writes
        self._finish = call.finish  # called once, after the event
        self._result = result
        self._lock = threading.Lock()
        self._future = None
        self._error = None
        self._over = False

    def wait(self, timeout=None):
        if timeout:
            self._await(timeout.total_seconds())
        self._complete()
        if self._error:
            raise self._error
        return True

    def _settle(self):
        """Waits until the collective has completed or failed; `wait` raises the failure."""
        try:
            self._event.synchronize()
        except Exception:
            pass

    def _await(self, seconds):
        end, nap = time.monotonic() + seconds, 1e-5
        while not self.is_completed():
            if time.monotonic() > end:
                raise dist.DistBackendError(f"a collective has not completed after {seconds:g} s")
            time.sleep(nap)
            nap = min(2 * nap, 1e-3)

    def _complete(self):
        with self._lock:
            if self._over:
                return
            try:
                self._event.synchronize()
                self._group.check()
                for function in self._finish:
                    function()
            except Exception as error:  # raised in `wait`, and stored in the future
                self._error = dist.DistBackendError(str(error))
                self._error.__cause__ = error
            self._over = True
            self._keep = self._finish = self._event = None

    def is_completed(self):
        return self._over or self._event.query()

    def is_success(self):
        return self.is_completed() and self._error is None

    def exception(self):
        return self._error

    def result(self):
        self.wait()
        return self._result

    def synchronize(self):
        self.wait()

    def get_future(self):
        if self._future is None:
            self._future = self._side.future()
            self._owner._finish_later(self)
        return self._future

    def resolve(self):
        """Runs on its own thread: others must not read before the finishing functions are done."""
        self._complete()
        self._side.settle()
        if self._error:
            self._future.set_exception(self._error)
        else:
            self._future.set_result(self._result)


class AnyWork(Work):
    """A receive from any rank, whichever sends first. `wait` looks for a message."""

    def __init__(self, owner, call, tensors, tag):
        super().__init__(call, None, None, tensors)
        self._tensors, self._tag, self._found, self._source = tensors, tag, None, None

    def _look(self):
        """Whether a message has arrived."""
        with self._owner._receiving:
            ranks = (rank for rank in range(self._owner.size()) if rank != self._owner.rank())
            if self._found is None:
                self._source = next((rank for rank in ranks if self._group.ready(rank)), None)
                if self._source is not None:
                    self._found = self._owner.recv(self._tensors, self._source, self._tag)
        return self._found is not None

    def _complete(self):
        with self._lock:
            if self._over:
                return
            end, nap = time.monotonic() + self._owner.seconds, 1e-5
            try:
                while not self._look():
                    if time.monotonic() > end:
                        raise TimeoutError(f"no rank sent anything within {self._owner.seconds:g} s")
                    time.sleep(nap)
                    nap = min(2 * nap, 1e-3)
                self._found.wait()
            except Exception as error:
                self._error = dist.DistBackendError(str(error))
                self._error.__cause__ = error
            self._over = True

    def is_completed(self):
        return self._over or (self._look() and self._found.is_completed())

    def _source_rank(self):
        return self._source


class Works(Work):
    """Several works as one."""

    def __init__(self, owner, works):
        host = Call(owner, [])  # for the future, which has no tensors
        super().__init__(host, None, works, [])

    def _complete(self):
        with self._lock:
            for work in self._keep or []:
                work._complete()
                self._error = self._error or work._error
            self._over, self._keep = True, None

    def is_completed(self):
        return self._over or all(work.is_completed() for work in self._keep)


def resolve_all(waiting):
    while True:
        waiting.get().resolve()
