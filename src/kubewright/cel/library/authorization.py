"""Authorization checks: `authorizer.group('apps').resource('deployments').check('create').allowed()`.

The caller supplies the authorizer: an `Authorizer` value wraps a function from `AccessCheck` to
`AccessDecision`, bound to the variable `authorizer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from kubewright.api.values import names
from kubewright.cel.checking.types import Type, opaque_type
from kubewright.cel.errors import CelError
from kubewright.cel.functions import Overload, overload
from kubewright.cel.values import Opaque

_PREFIX: Final = "kubernetes.authorization."
TYPE_NAMES: Final = tuple(
    _PREFIX + name for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
)
AUTHORIZER: Final[Type] = opaque_type(_PREFIX + "Authorizer")
RESOURCE_CHECK: Final[Type] = opaque_type(_PREFIX + "ResourceCheck")


class AccessCheck(msgspec.Struct, frozen=True):
    """An access check for the requesting user or a service account."""

    verb: str = ""
    path: str | None = None
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str | None = None
    label_selector: str | None = None
    service_account: tuple[str, str] | None = None
    """Namespace and name of a service account, instead of the requesting user."""


class AccessDecision(Opaque):
    """The result of an access check."""

    __slots__ = ("allowed", "error", "reason")
    cel_type = opaque_type(_PREFIX + "Decision")

    def __init__(self, allowed: bool, reason: str = "", error: str | None = None) -> None:
        self.allowed = allowed
        self.reason = reason
        self.error = error


Decide = Callable[[AccessCheck], AccessDecision]


class Authorizer(Opaque):
    """The `authorizer` variable."""

    __slots__ = ("check", "decide")
    cel_type = AUTHORIZER

    def __init__(self, decide: Decide, check: AccessCheck | None = None) -> None:
        self.decide = decide
        self.check = check or AccessCheck()


class PathCheck(Authorizer):
    """A check of a URL path."""

    __slots__ = ()
    cel_type = opaque_type(_PREFIX + "PathCheck")


class GroupCheck(Authorizer):
    """A check of an API group, without a resource yet."""

    __slots__ = ()
    cel_type = opaque_type(_PREFIX + "GroupCheck")


class ResourceCheck(Authorizer):
    """A check of a resource; also the type of `authorizer.requestResource`."""

    __slots__ = ()
    cel_type = RESOURCE_CHECK


def _path(value: Authorizer, path: str) -> PathCheck:
    if not path.strip():
        raise CelError("path must not be empty")
    return PathCheck(value.decide, msgspec.structs.replace(value.check, path=path))


def _group(value: Authorizer, group: str) -> GroupCheck:
    return GroupCheck(value.decide, msgspec.structs.replace(value.check, group=group))


def _account(value: Authorizer, namespace: str, name: str) -> Authorizer:
    if names.check_dns_subdomain(name):
        raise CelError("Invalid service account name")
    if names.check_dns_label(namespace):
        raise CelError("Invalid service account namespace")
    return Authorizer(value.decide, msgspec.structs.replace(value.check, service_account=(namespace, name)))


def _resource(value: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise CelError("resource must not be empty")
    return ResourceCheck(value.decide, msgspec.structs.replace(value.check, resource=resource))


def _with(part: str) -> Callable[[ResourceCheck, str], ResourceCheck]:
    def narrow(value: ResourceCheck, text: str) -> ResourceCheck:
        return ResourceCheck(value.decide, msgspec.structs.replace(value.check, **{part: text}))

    return narrow


def _check(value: Authorizer, verb: str) -> AccessDecision:
    return value.decide(msgspec.structs.replace(value.check, verb=verb))


_A, _P, _G, _R, _D = TYPE_NAMES
OVERLOADS: Final[list[Overload]] = [
    overload("path", "authorizer_path", f"{_A}.(string) -> {_P}", _path),
    overload("group", "authorizer_group", f"{_A}.(string) -> {_G}", _group),
    overload("serviceAccount", "authorizer_serviceaccount", f"{_A}.(string, string) -> {_A}", _account),
    overload("resource", "groupcheck_resource", f"{_G}.(string) -> {_R}", _resource),
    overload("subresource", "resourcecheck_subresource", f"{_R}.(string) -> {_R}", _with("subresource")),
    overload("namespace", "resourcecheck_namespace", f"{_R}.(string) -> {_R}", _with("namespace")),
    overload("name", "resourcecheck_name", f"{_R}.(string) -> {_R}", _with("name")),
    overload("fieldSelector", "authorizer_fieldselector", f"{_R}.(string) -> {_R}", _with("field_selector")),
    overload("labelSelector", "authorizer_labelselector", f"{_R}.(string) -> {_R}", _with("label_selector")),
    overload("check", "pathcheck_check", f"{_P}.(string) -> {_D}", _check),
    overload("check", "resourcecheck_check", f"{_R}.(string) -> {_D}", _check),
    overload("errored", "decision_errored", f"{_D}.() -> bool", lambda value: value.error is not None),
    overload("error", "decision_error", f"{_D}.() -> string", lambda value: value.error or ""),
    overload("allowed", "decision_allowed", f"{_D}.() -> bool", lambda value: value.allowed),
    overload("reason", "decision_reason", f"{_D}.() -> string", lambda value: value.reason),
]
