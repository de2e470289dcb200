"""Authorization: authorizers allow, deny or have no opinion; a union returns the first decision.

`AuthorizationAttributes` describe the request.

- `delegated`: delegated authorization: a SubjectAccessReview by another API server
- `rbac`: RBAC authorizer
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from kubewright.api.errors import APIError, Forbidden
from kubewright.api.errors import forbidden as forbidden_object
from kubewright.api.gvk import GroupResource
from kubewright.apiserver.authentication.user import AUTHENTICATED, MASTERS, User
from kubewright.apiserver.http.request_info import RequestInfo


class AuthorizationAttributes(NamedTuple):
    """The user, the verb, and the resource or path of a request."""

    user: User
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    """For non-resource requests; `resource` is empty then."""
    field_selector: str = ""
    label_selector: str = ""

    @classmethod
    def of(cls, user: User, info: RequestInfo) -> AuthorizationAttributes:
        """Return the attributes of a request."""
        return cls(
            user,
            info.verb,
            info.group,
            info.version,
            info.resource,
            info.subresource,
            info.namespace,
            info.name,
            info.path,
            info.field_selector,
            info.label_selector,
        )


class Decision(Enum):
    """The decision of an authorizer."""

    ALLOW = "allow"
    DENY = "deny"
    NO_OPINION = "no opinion"


AuthorizationResult = tuple[Decision, str]
"""A decision and its reason."""

ALLOWED: AuthorizationResult = (Decision.ALLOW, "")
NO_OPINION: AuthorizationResult = (Decision.NO_OPINION, "")


class Authorizer(Protocol):
    """Decides whether requests are allowed."""

    async def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationResult:
        """Return a decision and its reason."""


class AlwaysAllow:
    """Allows everything."""

    async def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationResult:
        """Allow."""
        return ALLOWED


class AllowAuthenticated:
    """Allows everything to authenticated users, and health checks and version to everyone."""

    def __init__(self) -> None:
        self._open = AlwaysAllowPaths()

    async def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationResult:
        """Allow authenticated users."""
        if AUTHENTICATED in attributes.user.groups:
            return ALLOWED
        return await self._open.authorize(attributes)


class PrivilegedGroups:
    """Allows everything to members of some groups."""

    def __init__(self, groups: Iterable[str] = (MASTERS,)) -> None:
        self.groups = frozenset(groups)

    async def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationResult:
        """Allow members."""
        return NO_OPINION if self.groups.isdisjoint(attributes.user.groups) else ALLOWED


class AlwaysAllowPaths:
    """Allows non-resource paths to everyone; a trailing `*` matches any suffix."""

    def __init__(self, paths: Iterable[str] = ("/healthz", "/readyz", "/livez", "/version")) -> None:
        self.exact = frozenset(path for path in paths if not path.endswith("*"))
        self.prefixes = tuple(path[:-1] for path in paths if path.endswith("*"))

    async def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationResult:
        """Allow these paths."""
        path = attributes.path
        if not attributes.resource and (
            path in self.exact or (self.prefixes and path.startswith(self.prefixes))
        ):
            return ALLOWED
        return NO_OPINION


class AuthorizerUnion:
    """Returns the first decision of several authorizers; without one, no opinion with all reasons."""

    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self.authorizers = list(authorizers)

    async def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationResult:
        """Call the authorizers in order."""
        reasons = []
        for authorizer in self.authorizers:
            decision, reason = await authorizer.authorize(attributes)
            if decision is not Decision.NO_OPINION:
                return decision, reason
            if reason:
                reasons.append(reason)
        return Decision.NO_OPINION, "\n".join(reasons)


def forbidden(attributes: AuthorizationAttributes, reason: str = "") -> APIError:
    """Return the 403 for a request that is not allowed."""
    user = attributes.user.name
    if not attributes.resource:
        message = f'forbidden: User "{user}" cannot {attributes.verb} path "{attributes.path}"'
        return Forbidden(f"{message}: {reason}" if reason else message, details={})
    resource = attributes.resource
    if attributes.subresource:
        resource = f"{resource}/{attributes.subresource}"
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    what = f'resource "{resource}" in API group "{attributes.group}" {where}'
    why = f'User "{user}" cannot {attributes.verb} {what}'
    if reason:
        why = f"{why}: {reason}"
    return forbidden_object(GroupResource(attributes.group, attributes.resource), attributes.name, why)
