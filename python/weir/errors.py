"""The exceptions weir raises.

Each contains the message of the C library, has the name of the status in ``code``, and is also a
subclass of the built-in exception that fits:

>>> try:
...     weir.tensor([1.0, 2.0]) + weir.tensor([1.0, 2.0, 3.0])
... except ValueError as error:
...     print(error.code)
WEIR_ESHAPE
"""


class Error(RuntimeError):
    """Anything the library reports; ``code`` is the status, such as ``"WEIR_ESHAPE"``.

    >>> try:
    ...     weir.Device("tpu")
    ... except weir.Error as error:
    ...     print(error.code)
    WEIR_ESPEC
    """

    code = "WEIR_EINTERNAL"


class InvalidError(Error, ValueError):
    """An invalid argument, shape, spec or file."""


class TypeMismatchError(Error, TypeError):
    """An unsuitable data type."""


class OutOfMemoryError(Error, MemoryError):
    """Host or device memory ran out."""


class BusyError(Error):
    """Something is still in use."""


class UnavailableError(Error):
    """This machine or this device does not support it."""


class KernelError(Error):
    """An operator failed; its stream is in error."""


class DriverError(Error):
    """The device or its driver failed: a GPU that is dead, a kernel that does not compile."""


class WaitTimeoutError(Error, TimeoutError):
    """A wait exceeded the device's op_timeout; the message says which stream waits for which."""


class DeadlockError(Error):
    """Work that can never complete."""


_CLASSES = {
    "WEIR_EINVAL": InvalidError,
    "WEIR_ERANGE": InvalidError,
    "WEIR_ESHAPE": InvalidError,
    "WEIR_ESPEC": InvalidError,
    "WEIR_EPARSE": InvalidError,
    "WEIR_ECONFLICT": InvalidError,
    "WEIR_EDTYPE": TypeMismatchError,
    "WEIR_ENOMEM": OutOfMemoryError,
    "WEIR_EOOM": OutOfMemoryError,
    "WEIR_EBUSY": BusyError,
    "WEIR_EUNAVAILABLE": UnavailableError,
    "WEIR_EUNSUPPORTED": UnavailableError,
    "WEIR_EKERNEL": KernelError,
    "WEIR_EDRIVER": DriverError,
    "WEIR_ETIMEDOUT": WaitTimeoutError,
    "WEIR_EDEADLOCK": DeadlockError,
}


# Functions that the C library's messages suggest: its names, and those of this module.
_ADVICE = {
    "weir_memory_empty_cache": "weir.empty_cache",
    "weir_cast": "weir.cast",
    "weir_contiguous": "weir.contiguous",
}


def from_status(code: str, sentence: str) -> Error:
    """The exception for a status of the C library."""
    for there, here in _ADVICE.items():
        sentence = sentence.replace(there, here)
    error = _CLASSES.get(code, Error)(sentence)
    error.code = code
    return error
