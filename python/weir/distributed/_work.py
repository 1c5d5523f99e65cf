"""Collectives under way, as PyTorch waits for them."""

from __future__ import annotations

import threading

import torch
from torch import distributed as dist


class Work(dist._Work):
    """A collective under way."""

    def __init__(self, group, event, keep, finish, result):
        super().__init__()
        self._group = group
        self._event = event
        self._keep = keep  # tensors that the stream reads and writes
        self._finish = finish  # called once, when the event has passed
        self._result = result
        self._lock = threading.Lock()
        self._future = None
        self._error = None
        self._over = False

    def wait(self, timeout=None):
        self._complete()
        if self._error:
            raise self._error
        return True

    def _complete(self):
        with self._lock:
            if self._over:
                return
            try:
                self._event.synchronize()
                self._group._group.check()
                for function in self._finish:
                    function()
            except Exception as error:  # to whoever waits, and to the future
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
            self._future = torch.futures.Future()
            self._group._finish_later(self)
        return self._future

    def resolve(self):
        self._complete()
        if self._error:
            self._future.set_exception(self._error)
        else:
            self._future.set_result(self._result)


class Works(Work):
    """Several as one."""

    def __init__(self, group, works):
        super().__init__(group, None, works, [], [])

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
