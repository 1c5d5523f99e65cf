"""python -m weir.compat"""

import argparse
import os
import sys

import weir

from . import DEFAULT_DEVICE, install, run_script


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="python -m weir.compat",
        description="Runs a script written for torch_npu, TorchAir or MindSpore on weir.",
    )
    parser.add_argument("--device", help=f"where it runs; $WEIR_DEVICE or {DEFAULT_DEVICE}")
    parser.add_argument("--trace", metavar="OUT", help="write the timeline to OUT.html or OUT.json")
    parser.add_argument(
        "--check", action="store_true", help="report races; exit status 1 if there are any"
    )
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args(argv)


def main(argv=None):
    args = parse(argv)
    if not os.path.exists(args.script):
        sys.exit(f"python -m weir.compat: there is no script '{args.script}'")
    try:
        weir.set_device(args.device or os.environ.get("WEIR_DEVICE") or DEFAULT_DEVICE)
    except weir.Error as error:
        sys.exit(f"python -m weir.compat: {error}")
    install()
    sys.argv = [args.script, *args.arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(args.script)))
    trace = weir.trace() if args.trace else None
    check = weir.check() if args.check else None
    for watcher in (trace, check):
        if watcher:
            watcher.__enter__()
    try:
        run_script(args.script)
    finally:
        for watcher in (check, trace):
            if watcher:
                watcher.__exit__(*sys.exc_info())
        if trace:
            trace.write(args.trace)
        if check:
            print(check, file=sys.stderr)
    return 1 if check and check.races else 0


if __name__ == "__main__":
    sys.exit(main())
