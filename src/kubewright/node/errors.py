"""`RPCError`: an error of a gRPC call, raised by servers and by clients.

Drivers raise the subclass of a code, or an exception of Python that has an obvious code: `FileNotFoundError`,
`FileExistsError`, `PermissionError`, `TimeoutError`, `ValueError`, `NotImplementedError`, and `OSError` of a
full disk. Everything else is INTERNAL.
"""

from __future__ import annotations

import errno
from typing import ClassVar, Final


class RPCError(Exception):
    """An error with a gRPC status code. Its text is that of Go, because kubelets show it in events."""

    code: str = "UNKNOWN"
    """Name of the status code, such as `NOT_FOUND`."""
    _classes: ClassVar[dict[str, type[RPCError]]] = {}

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code

    def __init_subclass__(cls) -> None:
        RPCError._classes[cls.code] = cls

    def __str__(self) -> str:
        return f"rpc error: code = {go_name(self.code)} desc = {self.message}"

    @classmethod
    def of_code(cls, code: str, message: str) -> RPCError:
        """Return an error of the class of a code."""
        return RPCError._classes.get(code, RPCError)(message, code=code)


class InvalidArgument(RPCError):
    """A field of the request is missing or not valid."""

    code = "INVALID_ARGUMENT"


class VolumeNotFound(RPCError):
    """A volume, snapshot, node or device does not exist."""

    code = "NOT_FOUND"


class VolumeExists(RPCError):
    """An object of this name exists with other properties."""

    code = "ALREADY_EXISTS"


class FailedPrecondition(RPCError):
    """The current state does not allow the call, such as the deletion of a volume in use."""

    code = "FAILED_PRECONDITION"


class Aborted(RPCError):
    """Another call for the same volume is in progress."""

    code = "ABORTED"


class OutOfRange(RPCError):
    """The requested capacity is not supported, or a starting token is not valid."""

    code = "OUT_OF_RANGE"


class ResourceExhausted(RPCError):
    """No space is left, or the limit of volumes is reached."""

    code = "RESOURCE_EXHAUSTED"


class Unimplemented(RPCError):
    """The driver does not support the call."""

    code = "UNIMPLEMENTED"


class Unavailable(RPCError):
    """The other side does not listen, or has closed the connection."""

    code = "UNAVAILABLE"


class Internal(RPCError):
    """An unexpected error of the driver."""

    code = "INTERNAL"


_CODES: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (FileNotFoundError, "NOT_FOUND"),
    (FileExistsError, "ALREADY_EXISTS"),
    (PermissionError, "PERMISSION_DENIED"),
    (TimeoutError, "DEADLINE_EXCEEDED"),
    (NotImplementedError, "UNIMPLEMENTED"),
    (ValueError, "INVALID_ARGUMENT"),
)
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)


def as_rpc_error(error: BaseException) -> RPCError:
    """Return the gRPC error of any exception."""
    if isinstance(error, RPCError):
        return error
    message = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.errno in _NO_SPACE:
        return RPCError.of_code("RESOURCE_EXHAUSTED", message)
    for kind, code in _CODES:
        if isinstance(error, kind):
            return RPCError.of_code(code, message)
    return RPCError.of_code("INTERNAL", message)


def go_name(code: str) -> str:
    """Return the name of a status code as Go prints it: `NotFound`, `Canceled`."""
    return "Canceled" if code == "CANCELLED" else "OK" if code == "OK" else code.title().replace("_", "")
