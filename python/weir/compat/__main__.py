"""python -m weir.compat"""

import argparse
import os
import sys

import weir

from . import DEFAULT_DEVICE, install
from .run import cannot_run, run_program

PROGRAM = "python -m weir.compat"


def parse(argv):
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [-h] [--device D] [--trace OUT] [--check] (script | - | -m module) ...",
        description="Runs a script written for torch_npu, TorchAir or MindSpore on weir.",
    )
    parser.add_argument(
        "--device", metavar="D", help=f"where it runs; $WEIR_DEVICE or {DEFAULT_DEVICE}"
    )
    parser.add_argument("--trace", metavar="OUT", help="write the timeline to OUT.html or OUT.json")
    parser.add_argument(
        "--check", action="store_true", help="report races; exit status 1 if there are any"
    )
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="run a module instead")
    parser.add_argument("script", nargs="?", help="its path; - reads it from the standard input")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what it finds in sys.argv")
    args = parser.parse_args(argv)
    if args.module:
        args.module, *args.arguments = args.module
    elif args.module is not None or args.script is None:
        parser.error("say which script to run, or -m and a module")
    return args


def refuse(sentence):
    sys.exit(f"{PROGRAM}: {sentence}")


def check_trace(path):
    """Checks the path of the trace before the script runs."""
    if not path.endswith((".html", ".json")):
        refuse(f"a timeline is written to .html or .json, not to '{path}'")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        refuse(f"the timeline cannot be written: there is no folder '{folder}'")
    if os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK):
        refuse(f"the timeline cannot be written to '{path}'")


def main(argv=None):
    args = parse(argv)
    if not args.module and (sentence := cannot_run(args.script)):
        refuse(sentence)
    if args.trace:
        check_trace(args.trace)
    try:
        weir.set_device(args.device or os.environ.get("WEIR_DEVICE") or DEFAULT_DEVICE)
    except weir.Error as error:
        refuse(error)
    install()
    check = weir.check() if args.check else None
    trace = weir.trace() if args.trace else None
    for watcher in (trace, check):
        if watcher:
            watcher.__enter__()
    status = run_program(args.script, args.module, args.arguments)
    try:
        if check:
            check.__exit__()
        if trace:
            trace.__exit__(None)
            trace.write(args.trace)
        else:
            weir.synchronize()  # so that failed work is reported as an error
    except weir.Error as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        status = status or 1
    if check:
        print(check, file=sys.stderr)
        status = status or (1 if check.races else 0)
    return status


if __name__ == "__main__":
    sys.exit(main())
