"""Impersonation: acting as somebody else, with permission.

`Impersonate-User`, `-Group`, `-Uid` and `-Extra-*` headers ask for it; each part needs the verb `impersonate`
on the matching resource (users, groups, serviceaccounts, uids, userextras).
"""

from __future__ import annotations

from urllib.parse import unquote

from kubewright.api.errors import BadRequest

from .authentication.serviceaccount import PREFIX as SERVICE_ACCOUNT_PREFIX
from .authorization import Attributes, Authorizer, Decision, forbidden
from .request import Request
from .user import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User

_EXTRA = "impersonate-extra-"


def is_impersonating(request: Request) -> bool:
    """Whether a request asks to act as somebody else. Cheap: most do not."""
    for name in request.headers:
        if len(name) >= 15 and name[0] in "Ii" and name.lower().startswith("impersonate-"):
            return True
    return False


async def impersonate(request: Request, authorizer: Authorizer) -> User:
    """The user to act as; raises `Forbidden` or `BadRequest`."""
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
    if not name:
        if not (groups or uid or extra):
            return request.user
        raise BadRequest(f"requested {_go_user(uid, groups, extra)} without impersonating a user name")
    asker = request.user
    questions: list[Attributes] = []
    namespace = ""
    if name.startswith(SERVICE_ACCOUNT_PREFIX) and name.count(":") == 3:
        namespace, account = name.removeprefix(SERVICE_ACCOUNT_PREFIX).split(":")
        questions.append(
            Attributes(
                asker,
                "impersonate",
                resource="serviceaccounts",
                namespace=namespace,
                name=account,
                version="v1",
            )
        )
    else:
        questions.append(Attributes(asker, "impersonate", resource="users", name=name, version="v1"))
    questions += [
        Attributes(asker, "impersonate", resource="groups", name=group, version="v1") for group in groups
    ]
    for key, values in extra.items():
        questions += [
            Attributes(
                asker,
                "impersonate",
                group="authentication.k8s.io",
                version="v1",
                resource="userextras",
                subresource=key,
                name=value,
            )
            for value in values
        ]
    if uid:
        questions.append(
            Attributes(
                asker, "impersonate", group="authentication.k8s.io", version="v1", resource="uids", name=uid
            )
        )
    for question in questions:
        decision, reason = await authorizer.authorize(question)
        if decision is not Decision.ALLOW:
            raise forbidden(question, reason)
    if not groups and namespace:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    if name == ANONYMOUS:
        if UNAUTHENTICATED not in groups:
            groups = (*groups, UNAUTHENTICATED)
    elif UNAUTHENTICATED not in groups and AUTHENTICATED not in groups:
        groups = (*groups, AUTHENTICATED)
    return User(name, groups, uid, extra)


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
