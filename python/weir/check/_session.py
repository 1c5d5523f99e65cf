"""Checks one process: PyTorch's streams and weir's, in every thread."""

import contextlib
import sys
import threading

import weir

PROGRAM = "python -m weir.check"


class Stop(SystemExit):
    """Raised at the first finding, with --error."""

    def __init__(self):
        super().__init__(1)


class Session:
    """Checks from `start` to `finish`; then `findings` is a list of dicts and `text` a readable
    report."""

    current = None  # the session of this process

    def __init__(self, stop, first=True):
        self.stop, self.first, self.mode, self.report = stop, first, None, None
        self.own = weir.check("error" if stop else "report")
        self.findings, self.text = [], ""

    def start(self):
        Session.current = self
        self._listen_to_torch()
        self.own.__enter__()
        return self

    def forget(self):
        """Discards the state inherited from the parent process after a fork."""
        if self.report:
            self.report.findings.clear()
        self.own.__enter__()

    def _listen_to_torch(self):
        try:
            import torch  # noqa: F401
        except ImportError:
            return
        from . import _cuda, _order

        report, watcher = _cuda.Report(), _order.Watcher(_cuda.views_overlap)

        def found(finding):
            if report.add(finding) and self.stop:
                raise Stop

        if not _cuda.listen(watcher):
            if self.first:  # the first of all processes
                print(f"{PROGRAM}: this PyTorch has no CUDA; only weir's own streams are checked", file=sys.stderr)
            return
        self.report, self.mode = report, lambda: _cuda.CudaMode(watcher, found)
        _enter_in_threads(self.mode)

    def watching(self):
        """A context that checks this thread's operators."""
        return self.mode() if self.mode else contextlib.nullcontext()

    def finish(self):
        """Ends the check and returns the number of findings."""
        self.own.__exit__()
        cuda = self.report.as_list() if self.report else []
        self.findings = cuda + [{"kind": "race", **race} for race in self.own.races]
        self.text = "\n\n".join(filter(None, (str(self.report) if cuda else "", str(self.own) if self.own.races else "")))
        return len(self.findings)

    def tell(self, what=""):
        """Writes the report to standard error in one piece, as other processes write there too."""
        count = len(self.findings)
        end = f"{PROGRAM}: {what}{count or 'no'} finding{'s' * (count != 1)}\n"
        sys.stderr.write(f"{self.text}\n{end}" if self.text else end)
        sys.stderr.flush()


def _enter_in_threads(mode):
    """Makes new threads enter a dispatch mode of their own: a mode applies to one thread only."""
    start = threading.Thread.start

    def checked_start(thread):
        run = thread.run

        def checked_run():
            with mode():
                run()

        thread.run = checked_run
        start(thread)

    threading.Thread.start = checked_start
