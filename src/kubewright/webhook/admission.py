"""Defaulting and validating webhooks for typed objects.

A *defaulter* modifies the object that it receives; the changes are returned as a JSON patch against the
received bytes, so fields that the type does not know are preserved. A *validator* receives the new and the
old object and returns field errors (or raises `Denied`); all of them become causes of one 422 response. Both
may be plain functions, which run in a thread, or coroutine functions, and may take the `AdmissionRequest` as
an additional argument.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from kubewright.api.encoding.codec import DecodeError
from kubewright.api.errors import Invalid, invalid
from kubewright.api.field_errors import FieldError
from kubewright.api.meta import MetaObject
from kubewright.callables import call
from kubewright.client.patches import base_and_changed
from kubewright.patch import json_patch

from .review import AdmissionRequest, AdmissionResponse, Denied

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=MetaObject)

AdmissionHandler = Callable[[AdmissionRequest], Awaitable[AdmissionResponse]]
"""Processes one admission request; the lowest level, with access to the raw review."""


class _Function:
    """A user's function, called with the request if it has a parameter for it."""

    def __init__(self, function: Callable[..., Any], arguments: int) -> None:
        self._function = function
        parameters = inspect.signature(function).parameters.values()
        positional = [
            each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        ]
        self._takes_request = len(positional) > arguments or any(
            each.kind is each.VAR_POSITIONAL for each in parameters
        )

    async def __call__(self, *arguments: Any, request: AdmissionRequest) -> Any:
        if self._takes_request:
            arguments = (*arguments, request)
        return await call(self._function, *arguments)


class Defaulter(Generic[T]):
    """Mutating webhook: `function(obj)` or `function(obj, request)` modifies `obj` or returns another."""

    def __init__(self, kind: type[T], function: Callable[..., Any]) -> None:
        self.kind = kind
        self._call = _Function(function, 1)

    async def __call__(self, request: AdmissionRequest) -> AdmissionResponse:
        """Process an admission request."""
        try:
            obj = request.object(self.kind)
        except DecodeError:
            # Schema validation follows and has a better message.
            return AdmissionResponse()
        if obj is None:
            return AdmissionResponse()
        returned = await self._call(obj, request=request)
        if returned is not None and not isinstance(returned, self.kind):
            raise TypeError(
                f"a defaulting function must modify the object or return one, not {type(returned).__name__}"
            )
        result = returned if returned is not None else obj
        if result is not obj:
            result.__dict__.update(obj.__dict__)
        pair = base_and_changed(result)
        assert pair is not None
        return AdmissionResponse(patch=json_patch.diff(*pair) or None)


class Validator(Generic[T]):
    """Validating webhook: `function(new, old)` returns field errors; `new` is `None` on DELETE.

    Operations that are not in `operations` are allowed.
    """

    def __init__(
        self,
        kind: type[T],
        function: Callable[..., Iterable[FieldError] | Awaitable[Iterable[FieldError]] | None],
        *,
        operations: Sequence[str] = ("create", "update"),
    ) -> None:
        self.kind = kind
        self.operations = frozenset(each.upper() for each in operations)
        self._call = _Function(function, 2)

    async def __call__(self, request: AdmissionRequest) -> AdmissionResponse:
        """Process an admission request."""
        if request.operation not in self.operations:
            return AdmissionResponse()
        new, old = _decode(request.object, self.kind), _decode(request.old_object, self.kind)
        errors = _field_errors(await self._call(new, old, request=request))
        if not errors:
            return AdmissionResponse()
        error = invalid(request.kind.group_kind, request.name, errors)
        return _rejected(error.message, errors, Invalid.code, Invalid.reason)


def _field_errors(returned: Any) -> tuple[FieldError, ...]:
    """Check the return value of a validating function; a wrong type must not allow the request."""
    if returned is None:
        return ()
    errors = (
        tuple(returned) if isinstance(returned, Iterable) and not isinstance(returned, str) else (returned,)
    )
    for error in errors:
        if not isinstance(error, FieldError):
            raise TypeError(
                f"a validating function must return or yield FieldErrors, return None or raise Denied, "
                f"not {error!r}"
            )
    return errors


def _decode(reader: Callable[[type[T]], T | None], kind: type[T]) -> T | None:
    try:
        return reader(kind)
    except DecodeError as error:
        raise Denied(
            f"the object does not match {kind.__name__}: {error}", code=422, reason="Invalid"
        ) from None


def _rejected(message: str, errors: Iterable[FieldError], code: int, reason: str) -> AdmissionResponse:
    return AdmissionResponse(allowed=False, message=message, code=code, reason=reason, errors=tuple(errors))


async def admit(handler: AdmissionHandler, request: AdmissionRequest) -> AdmissionResponse:
    """Call a handler; `Denied` becomes a response that rejects the request.

    Other exceptions become a 500 response, to which the API server applies the failure policy.
    """
    try:
        return await handler(request)
    except Denied as denial:
        message = denial.message or "; ".join(map(str, denial.errors)) or "denied"
        return _rejected(message, denial.errors, denial.code, denial.reason)
