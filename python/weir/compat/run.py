"""Running a script in a module of its own."""

import sys
import types

_NO_BREAK = "\u00a0"


def run_script(path):
    """Runs the script as ``__main__`` and gives its globals.

    A script copied from a web page may be indented with no-break spaces, which Python refuses;
    they are taken for the spaces they look like.
    """
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        code = compile(text, path, "exec")
    except SyntaxError:
        if _NO_BREAK not in text:
            raise
        code = compile(text.replace(_NO_BREAK, " "), path, "exec")
    module = types.ModuleType("__main__")
    module.__file__ = path
    before = sys.modules["__main__"]
    sys.modules["__main__"] = module
    try:
        exec(code, vars(module))
    finally:
        sys.modules["__main__"] = before
    return vars(module)
