"""Runs test files of torch_npu's own tree with the real torch_npu; started by scripts/upstream-check.

    run.py [--list FILE] [--json FILE] [--timeout S] [--only TEXT] CHECKOUT...

The list names a file of the checkouts on each line, and indented under it the cases that are left
out, each with its reason. Cases run one after another in a process that is forked from one that has
torch_npu loaded; after a case that fails the next one gets a new process, because torch_npu's
queue does not work any more after an error.
"""

import argparse
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import re
import select
import signal
import sys
import tempfile
import time
import unittest


def read_list(path):
    """{file: {case: reason}}, in their order."""
    files = {}
    for line in path.read_text().splitlines():
        text = line.partition("#")[0].rstrip()
        if not text:
            continue
        if not text[0].isspace():
            cases = files[text] = {}
        else:
            name, _, reason = text.strip().partition(": ")
            cases[name] = reason
    return files


def load(path):
    """The cases of a file, by their names within it."""
    # The checkout comes last: it has a torch_npu that is not built, which processes that a case
    # starts must not import.
    sys.path[:0] = map(str, path.parents[:2])
    sys.path.append(str(path.parents[2]))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    cases, suites = {}, [unittest.defaultTestLoader.loadTestsFromModule(module)]
    while suites:
        for test in suites.pop(0):
            if isinstance(test, unittest.TestSuite):
                suites.append(test)
            else:
                cases[test.id().partition(".")[2]] = test
    return cases


class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.status, self.why = "passed", ""

    def note(self, status, why):
        if self.status != "failed":
            text = " ".join(str(why).split())
            found = re.search(r"EZ\d+: .*", text)  # weir's own sentence
            self.status, self.why = status, (found[0] if found else text)[:240]

    def addError(self, test, err):
        self.note("failed", f"{err[0].__name__}: {err[1]}")

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addError(test, err)

    def addSkip(self, test, reason):
        self.note("skipped", reason)

    def addExpectedFailure(self, test, err):
        self.note("passed", "")

    def addUnexpectedSuccess(self, test):
        self.note("failed", "passed, and was expected to fail")


def run_cases(path, skip, tell):
    """Runs the cases that are not in `skip`; stops after the first that fails."""
    sys.argv[1:] = []
    try:
        cases = load(path)
    except unittest.SkipTest as error:
        tell({"all": ["-"], "case": "-", "status": "skipped", "why": str(error)})
        return
    except BaseException as error:
        tell({"all": ["-"], "case": "-", "status": "failed",
              "why": f"not imported: {type(error).__name__}: {error}"[:300]})  # fmt: skip
        return
    tell({"all": list(cases)})
    for name, test in cases.items():
        if name in skip:
            continue
        tell({"start": name})
        result = Result()
        suite = unittest.TestSuite([test])  # with setUpClass, as the class has it
        suite.run(result)
        tell({"case": name, "status": result.status, "why": result.why})
        if result.status == "failed":
            return


def in_child(path, skip, timeout, take):
    """Runs cases in a fork, hearing what it tells; gives why it ended early, or None."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setsid()
            os.close(reader)
            os.chdir(tempfile.mkdtemp())
            null = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
            pipe = os.fdopen(writer, "w", buffering=1)
            with contextlib.redirect_stdout(io.StringIO()):
                run_cases(path, skip, lambda m: print(json.dumps(m), file=pipe, flush=True))
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    data, until = b"", time.monotonic() + timeout
    late = False
    with os.fdopen(reader, "rb") as pipe:
        while True:
            left = until - time.monotonic()
            if left <= 0:
                late = True
                break
            if not select.select([pipe], [], [], left)[0]:
                continue
            part = os.read(pipe.fileno(), 65536)
            if not part:
                break
            data += part
            *lines, data = data.split(b"\n")
            for line in lines:
                take(json.loads(line))
                until = time.monotonic() + timeout
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if late:
        return f"did not end within {timeout:g} s"
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
        return f"the process ended with signal {os.WTERMSIG(status)}"
    return None if status == 0 else "the process ended"


def run_file(path, left_out, timeout):
    """(case, status, reason) of every case of a file."""
    results = {}
    names, running = [], None

    def take(message):
        nonlocal names, running
        names = message.get("all", names)
        running = message.get("start", running)
        if "case" in message:
            results[message["case"]] = (message["status"], message["why"])
            running = None

    while True:
        before = len(results)
        ended = in_child(path, {*results, *left_out}, timeout, take)
        if running is not None:
            results[running] = ("failed", ended or "the process ended")
            running = None
        elif not names:
            results["-"] = ("failed", ended or "nothing was collected")
            names = ["-"]
        elif len(results) == before:
            break
        if all(name in results or name in left_out for name in names):
            break
    for name in names:
        if name in results:
            yield name, *results[name]
        else:
            yield name, "left out", left_out.get(name, "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", type=pathlib.Path, required=True)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--only", default="")
    parser.add_argument("checkout", nargs="+", type=pathlib.Path)
    args = parser.parse_args()

    import torch_npu  # noqa: F401  no device is opened: cases are forked

    count, everything = {"passed": 0, "failed": 0, "skipped": 0, "left out": 0}, []
    with tempfile.TemporaryDirectory(prefix="weir-upstream-") as tempfile.tempdir:
        for name, left_out in read_list(args.list).items():
            if args.only not in name:
                continue
            path = next((root / name for root in args.checkout if (root / name).is_file()), None)
            if path is None:
                print(f"{name}: skipped: in none of the checkouts", flush=True)
                continue
            here = dict.fromkeys(count, 0)
            for case, status, why in run_file(path.resolve(), left_out, args.timeout):
                here[status] += 1
                everything.append({"file": name, "case": case, "status": status, "reason": why})
                if status == "failed":
                    print(f"  {name} {case}: {why}", flush=True)
            print(f"{name}: " + ", ".join(f"{n} {kind}" for kind, n in here.items() if n), flush=True)
            for kind, n in here.items():
                count[kind] += n
    ran = count["passed"] + count["failed"]
    print(", ".join(f"{n} {kind}" for kind, n in count.items()), end="")
    print(f": {100 * count['passed'] / max(1, ran):.1f} % of those that ran")
    if args.json:
        args.json.write_text(json.dumps(everything, indent=1, ensure_ascii=False))
    return 0 if ran and count["passed"] >= 0.9 * ran else 1


if __name__ == "__main__":
    os._exit(main())
