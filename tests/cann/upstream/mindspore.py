"""Runs test files of MindSpore's own tree with the real MindSpore on weir; started by scripts/upstream-check --cann.

    mindspore.py [--only TEXT] [--timeout S] PYTHON CHECKOUT

PYTHON has MindSpore 2.10.0 and pytest. The list beside this file names the files, and indented under each the cases that are left
out, with their reasons. Each case has a process of its own, as MindSpore opens its device once.
"""

import argparse
import ast
import os
import pathlib
import re
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
WEIR = HERE.parents[2] / "build" / "release" / "weir"
sys.path.insert(0, str(HERE))

from run import read_list  # noqa: E402


def run_case(args, name, case):
    """(status, reason)"""
    command = [WEIR, "cann", "run", "--device", args.device, "--", args.python, "-m", "pytest", "-q", "-p", "no:cacheprovider",
               "--tb=line", "-rs", f"{name}::{case}"]  # fmt: skip
    done = subprocess.Popen(command, cwd=args.checkout, env={**os.environ, "PYTHONPATH": str(args.checkout)},
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)  # fmt: skip
    try:
        out, _ = done.communicate(timeout=args.timeout)
    except subprocess.TimeoutExpired:
        os.killpg(done.pid, signal.SIGKILL)  # the Python that weir started as well
        done.communicate()
        return "failed", f"did not end within {args.timeout:g} s"
    if done.returncode == 0 and "1 passed" in out:
        return "passed", ""
    if "1 skipped" in out:
        return "skipped", ""
    why = re.findall(r"^(?:E  |\S+:\d+: ).*", out, re.M) or out.splitlines()[-1:]
    return "failed", (why[0] if why else f"exit status {done.returncode}")[:240]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("python")
    parser.add_argument("checkout", type=pathlib.Path)
    args = parser.parse_args()
    count = {"passed": 0, "failed": 0, "skipped": 0, "left out": 0}
    for name, left_out in read_list(HERE / "mindspore.txt").items():
        path = args.checkout / name
        if args.only not in name:
            continue
        if not path.is_file():
            print(f"{name}: skipped: it is not in the checkout", flush=True)
            continue
        here = dict.fromkeys(count, 0)
        cases = [f.name for f in ast.parse(path.read_text()).body
                 if isinstance(f, ast.FunctionDef) and f.name.startswith("test_")]  # fmt: skip
        for case in cases:
            status, why = ("left out", "") if case in left_out else run_case(args, name, case)
            here[status] += 1
            count[status] += 1
            if status == "failed":
                print(f"  {name} {case}: {why}", flush=True)
        print(f"{name}: " + ", ".join(f"{n} {kind}" for kind, n in here.items() if n), flush=True)
    ran = count["passed"] + count["failed"]
    print(", ".join(f"{n} {kind}" for kind, n in count.items()), end="")
    print(f": {100 * count['passed'] / max(1, ran):.1f} % of those that ran")
    return 0 if ran and count["passed"] >= 0.9 * ran else 1


if __name__ == "__main__":
    sys.exit(main())
