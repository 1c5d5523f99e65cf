"""Checks the processes that multiprocessing starts, with any start method.

`install` wraps the function that such a process runs. A forked process inherits the wrapper. A
spawned process gets an extra object with its preparation data; unpickling that object installs the
wrapper. Each process writes its findings to a folder, where the first process collects them.
"""

import json
import os
import pathlib
import tempfile

from ._session import Session


class _Passenger:
    def __init__(self, folder, stop):
        self.folder, self.stop = folder, stop

    def __setstate__(self, state):
        install(state["folder"], state["stop"])


def install(folder, stop):
    from multiprocessing import process, spawn

    bootstrap, preparation = process.BaseProcess._bootstrap, spawn.get_preparation_data

    def checked_bootstrap(self, *args, **kwargs):
        session = Session.current
        if session:
            session.forget()
            status = bootstrap(self, *args, **kwargs)  # checked, as it runs in this thread
        else:
            session = Session(stop, first=False).start()
            with session.watching():
                status = bootstrap(self, *args, **kwargs)
        if session.finish():
            session.tell(f"{self.name} (process {os.getpid()}): ")
        _leave(folder, self.name, session.findings)
        return status

    def checked_preparation(name):
        return {**preparation(name), "weir_check": _Passenger(folder, stop)}

    process.BaseProcess._bootstrap = checked_bootstrap
    spawn.get_preparation_data = checked_preparation


def _leave(folder, name, findings):
    """Writes the findings. Does nothing if the first process, and so the folder, is gone."""
    if not findings or not os.path.isdir(folder):
        return
    text = json.dumps([{**finding, "process": name} for finding in findings], default=str)
    draft = os.path.join(folder, f"{os.getpid()}.part")
    pathlib.Path(draft).write_text(text, encoding="utf-8")
    os.replace(draft, os.path.join(folder, f"{os.getpid()}.json"))


class Folder:
    """The folder to which processes write their findings."""

    def __init__(self, stop):
        self.folder = tempfile.TemporaryDirectory(prefix="weir-check-")
        install(self.folder.name, stop)

    def collect(self):
        found = []
        for path in sorted(pathlib.Path(self.folder.name).glob("*.json")):
            found += json.loads(path.read_text(encoding="utf-8"))
        self.folder.cleanup()
        return found
