"""python -m weir.check: runs a script and reports races and uses after free across streams."""

import argparse
import json
import os
import sys
import traceback

import weir

from ..compat.run import run_script

PROGRAM = "python -m weir.check"


class _Stop(Exception):
    """The first finding, with --error."""


def parse(argv):
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [-h] [--error] [--json FILE] script ...",
        description="Runs a script that uses torch.cuda or weir with streams, and reports operators that race and "
        "memory that is reused while a stream still uses it. Exit status 1 if there is any.",
    )
    parser.add_argument("--error", action="store_true", help="stop at the first finding")
    parser.add_argument("--json", metavar="FILE", help="also write the findings for machines; - is standard output")
    parser.add_argument("script", help="its path; - reads it from the standard input")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what it finds in sys.argv")
    return parser.parse_args(argv)


def torch_mode(stop):
    """The dispatch mode and its report; (None, None) without PyTorch."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return None, None
    from . import _cuda, _order

    report, watcher = _cuda.Report(), _order.Watcher(_cuda.views_overlap)

    def found(finding):
        if report.add(finding) and stop:
            raise _Stop

    if not _cuda.listen(watcher):
        print(f"{PROGRAM}: this PyTorch has no CUDA; only weir's own streams are checked", file=sys.stderr)
        return None, None
    return _cuda.CudaMode(watcher, found), report


def run(args, mode):
    """The script's exit status."""
    try:
        if mode is None:
            run_script(args.script, args.arguments)
        else:
            with mode:
                run_script(args.script, args.arguments)
    except _Stop:
        return 1
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else 0 if e.code is None else 1
    except Exception:  # what was found until then is still to be told
        traceback.print_exc()
        return 1
    return 0


def write_json(path, document):
    """To a file beside and then under its name: an old file is kept if the new one cannot be written."""
    text = json.dumps(document, indent=1, default=str) + "\n"
    if path == "-":
        sys.stdout.write(text)
        return
    draft = f"{path}.{os.getpid()}.part"
    try:
        with open(draft, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(draft, path)
    except OSError:
        if os.path.exists(draft):
            os.unlink(draft)
        raise


def main(argv=None):
    args = parse(argv)
    if args.script != "-" and not os.path.exists(args.script):
        sys.exit(f"{PROGRAM}: there is no script '{args.script}'")
    mode, report = torch_mode(args.error)
    with weir.check("error" if args.error else "report") as own:
        status = run(args, mode)
    findings = report.as_list() if report else []
    races = [{"kind": "race", **race} for race in own.races]
    count = len(findings) + len(races)
    for text in filter(None, (str(report) if findings else "", str(own) if races else "")):
        print(text, file=sys.stderr)
    print(f"{PROGRAM}: {count or 'no'} finding{'s' * (count != 1)}", file=sys.stderr)
    if args.json:
        try:
            write_json(args.json, {"findings": findings + races})
        except OSError as e:
            print(f"{PROGRAM}: cannot write {args.json}: {e.strerror}", file=sys.stderr)
            return 1
    return 1 if count else status


if __name__ == "__main__":
    sys.exit(main())
