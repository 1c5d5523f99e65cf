"""Runs a script or a module as ``__main__``, for python -m weir.compat and python -m weir.check."""

import contextlib
import os
import runpy
import sys
import traceback
import types

_NO_BREAK = "\u00a0"


def _compile(text, path):
    """Compiles a script. Replaces no-break spaces in its indentation, which Python refuses: a
    script copied from a web page may have them."""
    try:
        return compile(text, path, "exec")
    except SyntaxError:
        if not isinstance(text, str):
            text = text.decode("utf-8", "replace")
        if _NO_BREAK not in text:
            raise
        return compile(text.replace(_NO_BREAK, " "), path, "exec")


@contextlib.contextmanager
def _started_with(argv, folder):
    """A context with sys.argv and sys.path as Python sets them for a program."""
    before = sys.argv, list(sys.path)
    sys.argv = argv
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before


def run_script(path, arguments=()):
    """Runs the script as ``__main__`` and returns its globals; "-" is the standard input, and for a
    folder its ``__main__.py`` runs."""
    if os.path.isdir(path):
        with _started_with([path, *arguments], os.path.abspath(path)):
            return runpy.run_path(path, run_name="__main__")
    if path == "-":
        text, folder, shown = sys.stdin.read(), "", "<stdin>"
    else:
        with open(path, "rb") as file:
            text = file.read()
        folder, shown = os.path.dirname(os.path.abspath(path)), path
    code = _compile(text, shown)
    module = types.ModuleType("__main__")
    if path != "-":
        module.__file__ = path
    before = sys.modules["__main__"]
    sys.modules["__main__"] = module
    try:
        with _started_with([path, *arguments], folder):
            exec(code, vars(module))
    finally:
        sys.modules["__main__"] = before
    return vars(module)


def run_module(name, arguments=()):
    """Runs an importable module as ``__main__``, like ``python -m``; returns its globals."""
    with _started_with([name, *arguments], os.getcwd()):
        return runpy.run_module(name, run_name="__main__", alter_sys=True)


def cannot_run(path):
    """The reason why the path cannot be run, as a sentence; None if it can."""
    if path == "-":
        return None
    if not os.path.exists(path):
        return f"there is no script '{path}'"
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, "__main__.py")):
        return f"'{path}' is a folder without a __main__.py"
    if not os.access(path, os.R_OK):
        return f"'{path}' cannot be read"
    return None


def show(error):
    """Prints the traceback, starting with the script's own frames."""
    trace = error.__traceback__
    ours = (os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "<frozen runpy>", "<frozen importlib")
    while trace and trace.tb_frame.f_code.co_filename.startswith(ours):
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


def run_program(script, module, arguments):
    """Runs the module, or else the script, and prints its exception. Returns its exit status."""
    try:
        if module:
            run_module(module, arguments)
        else:
            run_script(script, arguments)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        show(error)
        return 130
    except Exception as error:
        show(error)
        return 1
    return 0
