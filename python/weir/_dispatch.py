"""Sends scopes, waits and tokens to the C library, or through PyTorch's dispatcher.

Inside torch.compile a call must be an operator of PyTorch to survive tracing. The backend sets
``torch_ops`` when it is loaded; without PyTorch the library is called directly. The choice is a
test of a plain global, which Dynamo can trace.
"""

import warnings

from . import _C

torch_ops = None  # the namespace torch.ops.weir once the backend is loaded


def is_compiling():
    """Whether PyTorch traces the caller. The backend replaces this by PyTorch's function."""
    return False


def constant(function):
    """Marks a function whose result is a constant of a trace. The backend replaces this."""
    return function()


_PUSH = {
    "stream": lambda text, first, second: _C.push_stream(text, first),
    "cores": lambda text, first, second: _C.push_cores(first, second),
    "super_kernel": lambda text, first, second: _push_super_kernel(*_split(text)),
    "never_timeout": lambda text, first, second: _C.push_never_timeout(bool(first)),
}
_POP = {
    "stream": _C.pop_stream,
    "cores": _C.pop_cores,
    "super_kernel": _C.pop_super_kernel,
    "never_timeout": _C.pop_never_timeout,
}

NO_NAME = "\x00"  # the text for a scope that leaves the super kernel


def _split(text):
    """Splits 'name\\noptions' of a super kernel."""
    name, _, options = text.partition("\n")
    return (None if name == NO_NAME else name), options


_told = set()  # options of super kernels that weir does not know


def _push_super_kernel(name, options):
    """Enters a super kernel. Options that weir does not know are ignored, with one warning."""
    known = []
    for option in options.split(":") if options else []:
        try:
            _C.push_super_kernel(name, option)
        except ValueError as reason:
            if option not in _told:
                _told.add(option)
                warnings.warn(f"no effect in weir: {reason}", stacklevel=2)
        else:
            _C.pop_super_kernel()
            known.append(option)
    _C.push_super_kernel(name, ":".join(known))


def push(kind, text, first, second):
    """Enters a scope of the C library."""
    _PUSH[kind](text, first, second)


def pop(kind):
    """Leaves the innermost scope of the C library, which must be of this kind."""
    _POP[kind]()


def enter(kind, text="", first=0, second=0):
    """Enters a scope, also while PyTorch traces."""
    if torch_ops is not None:
        torch_ops.scope_enter(kind, text, first, second)
    else:
        push(kind, text, first, second)


def leave(kind):
    """Leaves a scope, also while PyTorch traces."""
    if torch_ops is not None:
        torch_ops.scope_leave(kind)
    else:
        pop(kind)
