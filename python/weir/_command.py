"""The ``weir`` command of the package: the program that the C build makes, carried beside it."""

import os
import pathlib
import sys

PROGRAM = pathlib.Path(__file__).parent / "bin" / "weir"


def main():
    """Becomes that program, with the arguments and the terminal of this one."""
    if not PROGRAM.exists():
        sys.exit(
            f"weir: {PROGRAM} is not there: this package was built without the command; "
            "`make install` of weir's sources installs it"
        )
    sys.stdout.flush()
    os.execv(PROGRAM, ["weir", *sys.argv[1:]])
