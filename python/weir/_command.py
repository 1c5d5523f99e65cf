"""The ``weir`` command: runs the program of the C build, which the package contains."""

import os
import pathlib
import sys

PROGRAM = pathlib.Path(__file__).parent / "bin" / "weir"


def main():
    """Replaces this process by that program, with the same arguments and terminal."""
    if not PROGRAM.exists():
        sys.exit(
            f"weir: {PROGRAM} is not there: this package was built without the command; "
            "`make install` of weir's sources installs it"
        )
    sys.stdout.flush()
    os.execv(PROGRAM, ["weir", *sys.argv[1:]])
