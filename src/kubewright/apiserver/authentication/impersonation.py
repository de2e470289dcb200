"""Impersonation: requests on behalf of another user.

`Impersonate-User`, `-Group`, `-Uid` and `-Extra-*` headers request it. There are two ways to be allowed:

- constrained: the verb `impersonate:<mode>` on each part of the identity (users, nodes, serviceaccounts,
  groups, uids, userextras of `authentication.k8s.io`), and `impersonate-on:<mode>:<verb>` on the request. The
  mode depends on the target: `associated-node` (the node of the pod of the requesting service account),
  `arbitrary-node`, `serviceaccount`, or `user-info` for all others.
- legacy: the verb `impersonate` on each part, then everything that the target is allowed.

All modes that apply are tried, first the one that last succeeded for the same user; if none is allowed, the
first error is returned. Versions of Kubernetes in which ConstrainedImpersonation is disabled have the legacy
mode only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from kubewright.api.errors import APIError, BadRequest
from kubewright.api.field_errors import FieldError, aggregate
from kubewright.api.kubernetes_version import serving_version
from kubewright.api.values.names import check_dns_subdomain, check_domain_prefixed_path
from kubewright.apiserver.authorization import AuthorizationAttributes, Authorizer, Decision, forbidden
from kubewright.apiserver.http.messages import HTTPRequest

from .serviceaccount import PREFIX as SERVICE_ACCOUNT_PREFIX
from .user import ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User

_EXTRA = "impersonate-extra-"
_NODE_PREFIX = "system:node:"
_NODE_NAME = "authentication.kubernetes.io/node-name"
_NODE_KEYS = "authentication.kubernetes.io/associated-node-keys"
_IDENTITY = "authentication.k8s.io"
_REMEMBERED = 10_000
_LEGACY = "legacy"


def is_impersonating(request: HTTPRequest) -> bool:
    """Whether a request has impersonation headers."""
    for name in request.headers:
        if len(name) >= 15 and name[0] in "Ii" and name.lower().startswith("impersonate-"):
            return True
    return False


class IncompleteImpersonation(Exception):
    """Headers without a user name, in 1.34 and earlier: the response is not a Status."""


class Impersonator:
    """Authorizes impersonation."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}
        """The mode that last succeeded, by the name of the requesting user."""

    def constraint(self, requester: User) -> str:
        """Return the verb of the constrained mode that allowed the last request of a user, or an empty
        string."""
        mode = self._last.get(requester.name, _LEGACY)
        return "" if mode == _LEGACY else f"impersonate:{mode}"

    async def impersonate(
        self, request: HTTPRequest, attributes: AuthorizationAttributes, authorizer: Authorizer
    ) -> User:
        """Return the impersonated user; raises `Forbidden` or `BadRequest`."""
        wanted = _wanted(request)
        if wanted is None:
            return attributes.user
        target = _target(wanted)
        modes = list(_modes(wanted, target, attributes.user))
        last = self._last.get(attributes.user.name)
        if last in modes:
            modes.remove(last)
            modes.insert(0, last)
        denial: APIError | None = None
        for mode in modes:
            try:
                for permission in _required_permissions(mode, wanted, target, attributes):
                    decision, reason = await authorizer.authorize(permission)
                    if decision is not Decision.ALLOW:
                        raise forbidden(permission, reason)
            except APIError as error:
                denial = denial or error
                continue
            self._last.pop(attributes.user.name, None)
            self._last[attributes.user.name] = mode
            if len(self._last) > _REMEMBERED:
                del self._last[next(iter(self._last))]
            return _impersonated_user(wanted, target, mode)
        assert denial is not None
        raise denial


class _Target(NamedTuple):
    """The resource that a user name refers to."""

    resource: str
    name: str
    namespace: str = ""


def _wanted(request: HTTPRequest) -> User | None:
    headers = request.headers
    getall = getattr(headers, "getall", None)
    name = headers.get("Impersonate-User", "")
    groups = tuple(getall("Impersonate-Group", ())) if getall is not None else ()
    uid = headers.get("Impersonate-Uid", "")
    extra: dict[str, tuple[str, ...]] = {}
    for header in headers:
        if header.lower().startswith(_EXTRA):
            values = tuple(getall(header, ())) if getall is not None else (headers[header],)
            extra[unquote(header.lower().removeprefix(_EXTRA))] = values
    if name:
        return User(name, groups, uid, extra)
    if groups or uid or extra:
        if serving_version().includes("-1.34"):
            raise IncompleteImpersonation(_go_references(uid, groups, extra))
        raise BadRequest(f"requested {_go_user(uid, groups, extra)} without impersonating a user name")
    return None


def _target(wanted: User) -> _Target:
    if wanted.name.startswith(SERVICE_ACCOUNT_PREFIX) and wanted.name.count(":") == 3:
        namespace, account = wanted.name.removeprefix(SERVICE_ACCOUNT_PREFIX).split(":")
        return _Target("serviceaccounts", account, namespace)
    node = wanted.name.removeprefix(_NODE_PREFIX)
    if node != wanted.name and not check_dns_subdomain(node):
        return _Target("nodes", node)
    return _Target("users", wanted.name)


def _modes(wanted: User, target: _Target, requester: User) -> Iterator[str]:
    """Return the modes that apply, in the order in which they are tried."""
    only_name = not (wanted.uid or wanted.groups or wanted.extra)
    if not serving_version().enables("ConstrainedImpersonation"):
        pass
    elif target.resource == "nodes" and only_name:
        if requester.name.startswith(SERVICE_ACCOUNT_PREFIX) and requester.extra.get(_NODE_NAME) == (
            target.name,
        ):
            yield "associated-node"
        yield "arbitrary-node"
    elif target.resource == "serviceaccounts" and only_name:
        yield "serviceaccount"
    elif target.resource == "users":
        yield "user-info"
    yield _LEGACY


def _required_permissions(
    mode: str, wanted: User, target: _Target, attributes: AuthorizationAttributes
) -> Iterator[AuthorizationAttributes]:
    """Return the permissions that a mode requires, in order; raises for what cannot be allowed."""
    requester, legacy = attributes.user, mode == _LEGACY
    resource, name, namespace = target
    if mode == "associated-node":
        # The permission covers all nodes of the account's pods, so it names none.
        requester = User(
            requester.name, requester.groups, requester.uid, {_NODE_KEYS: tuple(sorted(requester.extra))}
        )
        name = "*"
    elif legacy and resource == "nodes":
        resource, name = "users", wanted.name
    part = AuthorizationAttributes(
        requester, "impersonate" if legacy else f"impersonate:{mode}", _IDENTITY, "v1"
    )
    whole = part._replace(group="") if legacy else part
    if not legacy:
        yield attributes._replace(user=requester, verb=f"impersonate-on:{mode}:{attributes.verb}")
    yield whole._replace(resource=resource, namespace=namespace, name=name)
    if wanted.uid:
        yield part._replace(resource="uids", name=wanted.uid)
    if not legacy:
        _check_groups(wanted.groups, whole._replace(resource="groups"))
        _check_extra(wanted.extra, part._replace(resource="userextras"))
    for group in wanted.groups:
        yield whole._replace(resource="groups", name=group)
    for key, values in wanted.extra.items():
        for value in values:
            yield part._replace(resource="userextras", subresource=key, name=value)


def _check_groups(groups: tuple[str, ...], about: AuthorizationAttributes) -> None:
    if "" in groups:
        raise forbidden(about, "impersonating the empty string group is not allowed")
    if MASTERS in groups:
        raise forbidden(about._replace(name=MASTERS), "impersonating the system:masters group is not allowed")


def _check_extra(extra: Mapping[str, tuple[str, ...]], about: AuthorizationAttributes) -> None:
    for key, values in extra.items():
        problems = [FieldError.invalid("extra.key", *found) for found in check_domain_prefixed_path(key)]
        if not key:
            why = "impersonating the empty string key in extra is not allowed"
        elif problems:
            why = f"impersonating an invalid key in extra is not allowed: {aggregate(problems)}"
        elif "" in values:
            why = "impersonating the empty string value in extra is not allowed"
        else:
            continue
        raise forbidden(about, why)


def _impersonated_user(wanted: User, target: _Target, mode: str) -> User:
    """Return the impersonated user with the groups of its type."""
    groups = wanted.groups
    if target.resource == "nodes" and mode != _LEGACY:
        groups = ("system:nodes",)
    elif target.resource == "serviceaccounts" and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{target.namespace}")
    user = User(wanted.name, groups, wanted.uid, wanted.extra)
    if wanted.name == ANONYMOUS:
        return user.with_group(UNAUTHENTICATED)
    return user if UNAUTHENTICATED in groups else user.with_group(AUTHENTICATED)


def _go_references(uid: str, groups: tuple[str, ...], extra: dict[str, tuple[str, ...]]) -> str:
    """Return the message with the ObjectReferences that Go prints."""
    found = [f"{{Group  {group}    }}" for group in groups]
    found += [
        f"{{UserExtra  {each}  {_IDENTITY}/v1  {key}}}" for key, values in extra.items() for each in values
    ]
    if uid:
        found.append(f"{{UID  {uid}  {_IDENTITY}/v1  }}")
    return f"requested [{' '.join(found)}] without impersonating a user"


def _go_user(uid: str, groups: tuple[str, ...], extra: dict[str, tuple[str, ...]]) -> str:
    listed = "[]string{" + ", ".join(f'"{group}"' for group in groups) + "}" if groups else "[]string(nil)"
    mapped = "map[string][]string(nil)"
    if extra:
        entries = ", ".join(
            f'"{key}":[]string{{' + ", ".join(f'"{value}"' for value in values) + "}"
            for key, values in extra.items()
        )
        mapped = f"map[string][]string{{{entries}}}"
    return f'&user.DefaultInfo{{Name:"", UID:"{uid}", Groups:{listed}, Extra:{mapped}}}'
