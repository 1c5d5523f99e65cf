"""python -m weir.check: runs a script and reports races and uses after free across streams."""

import argparse
import json
import os
import sys

from ..compat.run import cannot_run, run_program
from ._children import Folder
from ._session import PROGRAM, Session


def parse(argv):
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [-h] [--error] [--json FILE] (script | - | -m module) ...",
        description="Runs a script that uses torch.cuda or weir with streams, and reports operators that race and "
        "memory that is reused while a stream still uses it, also in threads and in processes that multiprocessing "
        "starts. Exit status 1 if there is any finding, otherwise the script's.",
    )
    parser.add_argument("--error", action="store_true", help="stop at the first finding")
    parser.add_argument("--json", metavar="FILE", help="also write the findings for machines; - is standard output")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="run a module instead of a script")
    parser.add_argument("script", nargs="?", help="its path; - reads it from the standard input")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what it finds in sys.argv")
    args = parser.parse_args(argv)
    if args.module:
        args.module, *args.arguments = args.module
    elif args.module is not None or args.script is None:
        parser.error("say which script to run, or -m and a module")
    return args


def write_json(path, document):
    """Writes a temporary file and renames it, so that an old file survives a failed write."""
    text = json.dumps(document, indent=1, default=str) + "\n"
    if path == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
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
    if not args.module and (sentence := cannot_run(args.script)):
        print(f"{PROGRAM}: {sentence}", file=sys.stderr)
        return 2
    folder = Folder(args.error)
    session = Session(args.error).start()
    with session.watching():
        status = run_program(args.script, args.module, args.arguments)
    count = session.finish()
    others = folder.collect()
    session.tell()
    if others:
        print(f"{PROGRAM}: other processes: {len(others)} finding{'s' * (len(others) != 1)}", file=sys.stderr)
    if args.json:
        try:
            write_json(args.json, {"findings": session.findings + others})
        except OSError as e:
            print(f"{PROGRAM}: cannot write {args.json}: {e.strerror}", file=sys.stderr)
            return 1
    return 1 if count or others else status


if __name__ == "__main__":
    sys.exit(main())
