"""Functions of an `APIServerApp`: the objects that they take, and the arguments that they receive by type."""

from __future__ import annotations

import inspect
import logging
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kubewright.api.encoding.codec import DecodeError, from_plain, to_plain
from kubewright.api.errors import APIError, forbidden, invalid
from kubewright.api.field_errors import FieldError
from kubewright.api.gvk import GroupKind, GroupResource
from kubewright.api.meta import MetaObject
from kubewright.apiserver.admission import AdmissionAttributes
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.strategy import Operation
from kubewright.apiserver.resources.subresource import SubresourceRequest
from kubewright.apiserver.streams.contract import ByteStream
from kubewright.client import Client
from kubewright.manager.operators.injection import InjectedFunction, describe, value_name
from kubewright.webhook.review import Denied

from .permissions import Permissions
from .reader import ObjectReader
from .sessions import ExecSession

READER, CLUSTER, LOG, SERVER, PROXY = "reader", "cluster", "log", "server", "proxy"
_VALUES: dict[type, str] = {
    ObjectReader: READER,
    Client: CLUSTER,
    logging.Logger: LOG,
    User: "user",
    Permissions: "permissions",
}
VALIDATION_VALUES: dict[type, str] = {**_VALUES, Operation: "operation"}
ADMISSION_VALUES: dict[type, str] = {**_VALUES, AdmissionAttributes: "request"}
SUBRESOURCE_VALUES: dict[type, str] = {**_VALUES, SubresourceRequest: "request"}
EXEC_VALUES: dict[type, str] = {**SUBRESOURCE_VALUES, ExecSession: "session"}
PORT_VALUES: dict[type, str] = {**SUBRESOURCE_VALUES, int: "port", ByteStream: "connection"}

_ADVICE = "a value of another type can be a global of the module"


def with_user(values: Mapping[str, Any], user: User) -> dict[str, Any]:
    """Return the values of all functions with those of a request of a user."""
    return {**values, "user": user, "permissions": Permissions(values[SERVER].authorizer, user)}


class DeclaredFunction:
    """A function for objects of a kind.

    Its first parameters are objects of `kind`, at most `most`; further ones are filled by type.
    """

    def __init__(
        self,
        kind: type[MetaObject],
        function: Callable[..., Any],
        known: Mapping[type, str],
        *,
        role: str,
        most: int,
    ) -> None:
        self.kind = kind
        self.function = function
        self.objects = _leading_objects(function, kind, most)
        if not self.objects:
            raise TypeError(
                f"{describe(function)}: the {role} takes the {kind.__name__} as its first parameter"
            )
        self._call = InjectedFunction(
            function, known, role=role, given=self.objects, in_thread=False, advice=_ADVICE
        )

    async def __call__(self, objects: Iterable[Any], values: Mapping[str, Any]) -> Any:
        """Call the function with objects, of which it receives as many as it takes."""
        result = self._call.bind(values)(*list(objects)[: self.objects])
        return await result if inspect.isawaitable(result) else result

    @property
    def version(self) -> str:
        """The version of the objects that the function takes."""
        assert self.kind.gvk is not None
        return self.kind.gvk.version


def _leading_objects(function: Callable[..., Any], kind: type[MetaObject], most: int) -> int:
    """Return the number of leading parameters that are objects of the kind, or have no annotation."""
    try:
        hints = typing.get_type_hints(function)
    except NameError as error:
        raise TypeError(f"{describe(function)}: an annotation cannot be resolved: {error}") from None
    count = 0
    for name in inspect.signature(function).parameters:
        hint = hints.get(name)
        if count == most or (hint is not None and value_name(hint, {kind: "object"}) is None):
            break
        count += 1
    return count


@dataclass(frozen=True, slots=True)
class Validation:
    """A validating function, and the operations that it is called for."""

    function: DeclaredFunction
    operations: frozenset[str]


@dataclass(frozen=True, slots=True)
class Admission:
    """An admission function, and the operations that it is called for."""

    function: DeclaredFunction
    operations: frozenset[str]
    mutating: bool


def decode(obj: Object | None, kind: type[MetaObject]) -> Any:
    """Return the typed object; `None` for `None`, or if the object does not match the class."""
    if obj is None:
        return None
    try:
        return from_plain(obj, kind)
    except DecodeError:
        return None


def copy_changes(before: Object, changed: MetaObject, target: Object) -> bool:
    """Copy what a function has changed in a typed object to the plain object; return whether it changed.

    Fields that the class does not declare are kept.
    """
    after: Object = to_plain(changed)
    if before == after:
        return False
    _merge(before, after, target)
    return True


def _merge(before: Object, after: Object, target: Object) -> None:
    for key in before.keys() - after.keys():
        target.pop(key, None)
    for key, value in after.items():
        old = before.get(key)
        if old == value and key in before:
            continue
        if isinstance(old, dict) and isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(old, value, target[key])
        else:
            target[key] = value


def field_errors(returned: Any, function: DeclaredFunction) -> list[FieldError]:
    """Return the field errors that a function returned; another type is an error of the program."""
    if returned is None:
        return []
    errors = (
        list(returned) if isinstance(returned, Iterable) and not isinstance(returned, str) else [returned]
    )
    for error in errors:
        if not isinstance(error, FieldError):
            raise TypeError(
                f"{describe(function.function)}: expected FieldErrors or None, not {type(error).__name__}"
            )
    return errors


def rejection(denied: Denied, kind: GroupKind, resource: GroupResource, name: str) -> APIError:
    """Return the error of the API for a `Denied` that a function raised."""
    if denied.errors:
        return invalid(kind, name, denied.errors)
    if denied.code == 403:
        return forbidden(resource, name, denied.message)
    return APIError(denied.message, code=denied.code, reason=denied.reason)
