"""Errors of patches.

`MalformedPatch` is a malformed patch (400), `PatchDoesNotApply` a patch that does not match
the object (422), `PatchTooLarge` one over the limits (413), `PatchFailed` an error that kube-apiserver
reports as 500. All are API errors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from kubewright.api.errors import APIError, BadRequest, Conflict, Invalid, RequestEntityTooLarge


class MalformedPatch(BadRequest):
    """The patch is malformed."""


_ParamsT = ParamSpec("_ParamsT")
_ResultT = TypeVar("_ResultT")


def bounded_depth(function: Callable[_ParamsT, _ResultT]) -> Callable[_ParamsT, _ResultT]:
    """Decorate a recursive function to raise `MalformedPatch` for objects that are nested too deeply."""

    @wraps(function)
    def bounded(*args: _ParamsT.args, **kwargs: _ParamsT.kwargs) -> _ResultT:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise MalformedPatch("the object or the patch is nested too deeply") from None

    return bounded


class PatchDoesNotApply(Invalid):
    """The patch is well-formed but does not match the object; `why` is the reason."""

    def __init__(self, why: str) -> None:
        super().__init__("the server rejected our request due to an error in our request", details={})
        self.why = why

    def __str__(self) -> str:
        return self.why


class PatchTestFailed(PatchDoesNotApply):
    """A `test` operation found another value."""


class PatchTooLarge(RequestEntityTooLarge):
    """The patch exceeds a limit."""


class PatchFailed(APIError):
    """kube-apiserver responds to the patch with 500."""


class PatchConflict(Conflict):
    """The patch would overwrite changes that were made since the original."""

    def __init__(self, patch: dict[str, Any], changes: dict[str, Any]) -> None:
        import yaml  # costs more than the rest of this package, and conflicts are rare

        super().__init__(
            f"patch:\n{yaml.safe_dump(patch)}\nconflicts with changes made from original to current:\n"
            f"{yaml.safe_dump(changes)}\n"
        )
