"""Where scopes, waits and tokens go: to the C library, or through PyTorch's dispatcher.

Inside torch.compile a call must be an operator of PyTorch to survive tracing. The backend sets
``torch_ops`` when it is loaded; without PyTorch the library is called directly. A plain global
that is tested in the open is something Dynamo can trace.
"""

import warnings

from . import _C

torch_ops = None  # the namespace torch.ops.weir once the backend is loaded


def is_compiling():
    """Whether PyTorch traces the caller; its own function once the backend is loaded."""
    return False


def constant(function):
    """What the function gives when the caller is traced; the backend's once it is loaded."""
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

NO_NAME = "\x00"  # a super kernel that is none, as text


def _split(text):
    """'name\\noptions' of a super kernel."""
    name, _, options = text.partition("\n")
    return (None if name == NO_NAME else name), options


_told = set()  # options of super kernels that weir does not know


def _push_super_kernel(name, options):
    """Options that weir does not know are for others: they are left out, and that is said once."""
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
