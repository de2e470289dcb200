"""Impersonation: acting as somebody else, with permission.

`Impersonate-User`, `-Group`, `-Uid` and `-Extra-*` headers ask for it. There are two ways to be allowed:

- constrained: the verb `impersonate:<mode>` on each part of the identity (users, nodes, serviceaccounts,
  groups, uids, userextras of `authentication.k8s.io`), and `impersonate-on:<mode>:<verb>` on the request. The
  mode follows from who is meant: `associated-node` (the node that the asking account's pod runs on),
  `arbitrary-node`, `serviceaccount`, or `user-info` for everybody else.
- legacy: the verb `impersonate` on each part, and then whatever that user may do.

All modes that apply are tried, first the one that last worked for the same asker; when none allows it, the
first refusal is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from kubewright.api.errors import APIError, BadRequest
from kubewright.api.field_errors import FieldError, aggregate
from kubewright.api.names import check_dns_subdomain, check_domain_prefixed_path
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
    """Whether a request asks to act as somebody else. Cheap: most do not."""
    for name in request.headers:
        if len(name) >= 15 and name[0] in "Ii" and name.lower().startswith("impersonate-"):
            return True
    return False


class Impersonator:
    """Decides who may act as whom."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}
        """The mode that last worked, by the asker's name."""

    async def impersonate(
        self, request: HTTPRequest, asked: AuthorizationAttributes, authorizer: Authorizer
    ) -> User:
        """The user to act as for the request `asked` about; raises `Forbidden` or `BadRequest`."""
        wanted = _wanted(request)
        if wanted is None:
            return asked.user
        target = _target(wanted)
        modes = list(_modes(wanted, target, asked.user))
        last = self._last.get(asked.user.name)
        if last in modes:
            modes.remove(last)
            modes.insert(0, last)
        refusal: APIError | None = None
        for mode in modes:
            try:
                for question in _questions(mode, wanted, target, asked):
                    decision, reason = await authorizer.authorize(question)
                    if decision is not Decision.ALLOW:
                        raise forbidden(question, reason)
            except APIError as error:
                refusal = refusal or error
                continue
            self._last.pop(asked.user.name, None)
            self._last[asked.user.name] = mode
            if len(self._last) > _REMEMBERED:
                del self._last[next(iter(self._last))]
            return _acting(wanted, target, mode)
        assert refusal is not None
        raise refusal


class _Target(NamedTuple):
    """What a user name stands for."""

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


def _modes(wanted: User, target: _Target, asker: User) -> Iterator[str]:
    """The modes that apply, in the order in which they are tried."""
    only_name = not (wanted.uid or wanted.groups or wanted.extra)
    if target.resource == "nodes" and only_name:
        if asker.name.startswith(SERVICE_ACCOUNT_PREFIX) and asker.extra.get(_NODE_NAME) == (target.name,):
            yield "associated-node"
        yield "arbitrary-node"
    elif target.resource == "serviceaccounts" and only_name:
        yield "serviceaccount"
    elif target.resource == "users":
        yield "user-info"
    yield _LEGACY


def _questions(
    mode: str, wanted: User, target: _Target, asked: AuthorizationAttributes
) -> Iterator[AuthorizationAttributes]:
    """What a mode needs to be allowed, in order; raises for what no right can allow."""
    asker, legacy = asked.user, mode == _LEGACY
    resource, name, namespace = target
    if mode == "associated-node":
        # The right holds on every node that the account's pods run on, so it is asked without naming one.
        asker = User(asker.name, asker.groups, asker.uid, {_NODE_KEYS: tuple(sorted(asker.extra))})
        name = "*"
    elif legacy and resource == "nodes":
        resource, name = "users", wanted.name
    part = AuthorizationAttributes(asker, "impersonate" if legacy else f"impersonate:{mode}", _IDENTITY, "v1")
    whole = part._replace(group="") if legacy else part
    if not legacy:
        yield asked._replace(user=asker, verb=f"impersonate-on:{mode}:{asked.verb}")
    yield whole._replace(resource=resource, namespace=namespace, name=name)
    if wanted.uid:
        yield part._replace(resource="uids", name=wanted.uid)
    if not legacy:
        _refuse_groups(wanted.groups, whole._replace(resource="groups"))
        _refuse_extra(wanted.extra, part._replace(resource="userextras"))
    for group in wanted.groups:
        yield whole._replace(resource="groups", name=group)
    for key, values in wanted.extra.items():
        for value in values:
            yield part._replace(resource="userextras", subresource=key, name=value)


def _refuse_groups(groups: tuple[str, ...], about: AuthorizationAttributes) -> None:
    if "" in groups:
        raise forbidden(about, "impersonating the empty string group is not allowed")
    if MASTERS in groups:
        raise forbidden(about._replace(name=MASTERS), "impersonating the system:masters group is not allowed")


def _refuse_extra(extra: Mapping[str, tuple[str, ...]], about: AuthorizationAttributes) -> None:
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


def _acting(wanted: User, target: _Target, mode: str) -> User:
    """The identity that results, with the groups that everybody of its sort is in."""
    groups = wanted.groups
    if target.resource == "nodes" and mode != _LEGACY:
        groups = ("system:nodes",)
    elif target.resource == "serviceaccounts" and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{target.namespace}")
    user = User(wanted.name, groups, wanted.uid, wanted.extra)
    if wanted.name == ANONYMOUS:
        return user.with_group(UNAUTHENTICATED)
    return user if UNAUTHENTICATED in groups else user.with_group(AUTHENTICATED)


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
