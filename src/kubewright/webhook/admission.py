"""Defaulting and validating webhooks for typed objects.

A *defaulter* changes the object it is given; what it changed is sent back as a JSON patch against the bytes
that came in, so fields that the type does not know stay as they are. A *validator* gets the new and the old
object and answers with field errors (or raises `Denied`); all of them become causes of one 422. Both may be
plain functions, which run in a thread, or coroutines, and may ask for the `AdmissionRequest` as well.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from kubewright.api.codec import DecodeError
from kubewright.api.errors import Invalid, invalid
from kubewright.api.field_errors import FieldError
from kubewright.api.meta import MetaObject
from kubewright.callables import is_async
from kubewright.client.patches import base_and_changed
from kubewright.patch import json_patch

from .review import AdmissionRequest, AdmissionResponse, Denied

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=MetaObject)

AdmissionHandler = Callable[[AdmissionRequest], Awaitable[AdmissionResponse]]
"""Answers one admission request; the lowest level, for those who want the raw review."""


class _Call:
    """A user's function: knows whether it is async and whether it wants the request."""

    def __init__(self, function: Callable[..., Any], arguments: int) -> None:
        self._function = function
        self._is_async = is_async(function)
        parameters = inspect.signature(function).parameters.values()
        positional = [
            each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        ]
        self._wants_request = len(positional) > arguments or any(
            each.kind is each.VAR_POSITIONAL for each in parameters
        )

    async def __call__(self, *arguments: Any, request: AdmissionRequest) -> Any:
        if self._wants_request:
            arguments = (*arguments, request)
        if self._is_async:
            return await self._function(*arguments)
        return await asyncio.to_thread(self._function, *arguments)


class Defaulter(Generic[T]):
    """A mutating webhook: `function(obj)` or `function(obj, request)` changes `obj`, or returns another."""

    def __init__(self, of: type[T], function: Callable[..., Any]) -> None:
        self.of = of
        self._call = _Call(function, 1)

    async def __call__(self, request: AdmissionRequest) -> AdmissionResponse:
        """Answer a review."""
        try:
            obj = request.object(self.of)
        except DecodeError:
            # Not ours to refuse: the schema, which is asked next, says better what is wrong.
            return AdmissionResponse()
        if obj is None:
            return AdmissionResponse()
        returned = await self._call(obj, request=request)
        if returned is not None and not isinstance(returned, self.of):
            raise TypeError(
                f"a defaulting function changes the object, or returns one: not {type(returned).__name__}"
            )
        result = returned if returned is not None else obj
        if result is not obj:
            result.__dict__.update(obj.__dict__)
        pair = base_and_changed(result)
        assert pair is not None
        return AdmissionResponse(patch=json_patch.diff(*pair) or None)


class Validator(Generic[T]):
    """A validating webhook: `function(new, old)` answers with field errors; `new` is `None` on DELETE.

    `operations` are the ones it looks at; others are allowed.
    """

    def __init__(
        self,
        of: type[T],
        function: Callable[..., Iterable[FieldError] | Awaitable[Iterable[FieldError]] | None],
        operations: Sequence[str] = ("create", "update"),
    ) -> None:
        self.of = of
        self.operations = frozenset(each.upper() for each in operations)
        self._call = _Call(function, 2)

    async def __call__(self, request: AdmissionRequest) -> AdmissionResponse:
        """Answer a review."""
        if request.operation not in self.operations:
            return AdmissionResponse()
        new, old = _decode(request.object, self.of), _decode(request.old_object, self.of)
        errors = _field_errors(await self._call(new, old, request=request))
        if not errors:
            return AdmissionResponse()
        refusal = invalid(request.kind.group_kind, request.name, errors)
        return _refused(refusal.message, errors, Invalid.code, Invalid.reason)


def _field_errors(returned: Any) -> tuple[FieldError, ...]:
    """What a validating function answered; anything but field errors lets nothing through."""
    if returned is None:
        return ()
    errors = (
        tuple(returned) if isinstance(returned, Iterable) and not isinstance(returned, str) else (returned,)
    )
    for error in errors:
        if not isinstance(error, FieldError):
            raise TypeError(
                f"a validating function returns or yields FieldErrors, or nothing, or raises Denied: "
                f"not {error!r}"
            )
    return errors


def _decode(reader: Callable[[type[T]], T | None], of: type[T]) -> T | None:
    try:
        return reader(of)
    except DecodeError as error:
        raise Denied(
            f"the object does not have the shape of {of.__name__}: {error}", code=422, reason="Invalid"
        ) from None


def _refused(message: str, errors: Iterable[FieldError], code: int, reason: str) -> AdmissionResponse:
    return AdmissionResponse(allowed=False, message=message, code=code, reason=reason, errors=tuple(errors))


async def admit(handler: AdmissionHandler, request: AdmissionRequest) -> AdmissionResponse:
    """Call a handler; `Denied` becomes a refusal, and so does a crash, with a message that says so.

    A crash is code 500, so the API server applies the failure policy of the webhook to it.
    """
    try:
        return await handler(request)
    except Denied as denial:
        message = denial.message or "; ".join(map(str, denial.errors)) or "denied"
        return _refused(message, denial.errors, denial.code, denial.reason)
