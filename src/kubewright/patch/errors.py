"""Why a patch was refused.

`MalformedPatch` is a problem in writing the patch (400), `PatchDoesNotApply` a patch that this object cannot
take (422), `PatchTooLarge` one over the limits (413), `PatchFailed` what Kubernetes reports as its own
failure (500). All are API errors: a server sends them as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from kubewright.api.errors import APIError, BadRequest, Conflict, Invalid, RequestEntityTooLarge


class MalformedPatch(BadRequest):
    """The patch itself is wrong."""


_ParamsT = ParamSpec("_ParamsT")
_ResultT = TypeVar("_ResultT")


def bounded_depth(function: Callable[_ParamsT, _ResultT]) -> Callable[_ParamsT, _ResultT]:
    """Refuse objects that are nested too deeply to be walked, as the problem in the request that they are."""

    @wraps(function)
    def bounded(*args: _ParamsT.args, **kwargs: _ParamsT.kwargs) -> _ResultT:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise MalformedPatch("the object or the patch is nested too deeply") from None

    return bounded


class PatchDoesNotApply(Invalid):
    """The patch is well-formed, but does not fit the object. `why` says what is in the way."""

    def __init__(self, why: str) -> None:
        super().__init__("the server rejected our request due to an error in our request", details={})
        self.why = why

    def __str__(self) -> str:
        return self.why


class PatchTooLarge(RequestEntityTooLarge):
    """Too many operations."""


class PatchFailed(APIError):
    """A patch that Kubernetes answers with 500."""


class PatchConflict(Conflict):
    """Somebody changed what the patch would change."""

    def __init__(self, patch: dict[str, Any], changes: dict[str, Any]) -> None:
        import yaml  # costs more than the rest of this package, and conflicts are rare

        super().__init__(
            f"patch:\n{yaml.safe_dump(patch)}\nconflicts with changes made from original to current:\n"
            f"{yaml.safe_dump(changes)}\n"
        )
