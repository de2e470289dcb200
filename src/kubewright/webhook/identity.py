"""Authentication and authorization webhooks: TokenReview and SubjectAccessReview.

An API server with `--authentication-token-webhook-config-file` sends a TokenReview for bearer tokens that it
cannot verify; one with `--authorization-webhook-config-file` sends a SubjectAccessReview for requests that no
previous authorizer has decided.

    server.add_endpoint("/authenticate", TokenReviewer(lambda token: users.get(token)))
    server.add_endpoint("/authorize", AccessReviewer(lambda request: request.user.username == "ada"))

Responses have the version of the request. Raise `Denied` to deny with a reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubewright.api.encoding import codec
from kubewright.callables import call_with_accepted

from .review import Denied, InvalidReviewError, UserInfo

AUTHENTICATION = ("authentication.k8s.io/v1", "authentication.k8s.io/v1beta1")
AUTHORIZATION = ("authorization.k8s.io/v1", "authorization.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True)
class TokenReviewResult:
    """An authenticated user, and the requested audiences that the token is valid for."""

    user: UserInfo
    audiences: Sequence[str] = ()


Reviewed = UserInfo | TokenReviewResult | None


class TokenReviewer:
    """Endpoint: `function(token)` or `function(token, audiences)` returns a user, or `None`.

    A `UserInfo` without audiences is valid for the audience of the API server.
    """

    def __init__(self, function: Callable[..., Reviewed | Awaitable[Reviewed]]) -> None:
        self._function = function

    async def __call__(self, body: bytes) -> bytes:
        """Process a review."""
        version, spec = _read(body, "TokenReview", AUTHENTICATION)
        token = spec.get("token")
        if not isinstance(token, str) or not token:
            raise InvalidReviewError("the TokenReview has no token")
        status: dict[str, Any] = {"authenticated": False}
        try:
            found = await call_with_accepted(self._function, token, list(spec.get("audiences") or ()))
        except Denied as denial:
            status["error"] = denial.message or "denied"
        else:
            if isinstance(found, UserInfo):
                found = TokenReviewResult(found)
            if isinstance(found, TokenReviewResult):
                status = {"authenticated": True, "user": codec.to_plain(found.user)}
                if found.audiences:
                    status["audiences"] = list(found.audiences)
            elif found:
                raise TypeError(
                    f"a token reviewer must return a UserInfo or None, not {type(found).__name__}"
                )
        return _respond(version, "TokenReview", status)


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """Attributes of the request to authorize: either `resource` or `path` is set."""

    user: UserInfo
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    raw: dict[str, Any] = field(default_factory=dict)
    """The complete spec, including selectors."""


class AccessReviewer:
    """Endpoint: `function(request)` returns `True` to allow, or `False` for no opinion.

    Raise `Denied` to deny, regardless of other authorizers.
    """

    def __init__(self, function: Callable[[AccessRequest], bool | Awaitable[bool]]) -> None:
        self._function = function

    async def __call__(self, body: bytes) -> bytes:
        """Process a review."""
        version, spec = _read(body, "SubjectAccessReview", AUTHORIZATION)
        status: dict[str, Any] = {"allowed": False}
        try:
            status["allowed"] = await call_with_accepted(self._function, _access_request(spec)) is True
        except Denied as denial:
            status |= {"denied": True, "reason": denial.message}
        return _respond(version, "SubjectAccessReview", status)


def _access_request(spec: dict[str, Any]) -> AccessRequest:
    user = UserInfo(
        username=spec.get("user") or "",
        uid=spec.get("uid") or "",
        groups=spec.get("groups") or spec.get("group"),
        extra=spec.get("extra"),
    )
    about = spec.get("resourceAttributes") or spec.get("nonResourceAttributes") or {}
    known = ("verb", "group", "version", "resource", "subresource", "namespace", "name", "path")
    return AccessRequest(user, **{name: about.get(name) or "" for name in known}, raw=spec)


def _read(body: bytes, kind: str, versions: Sequence[str]) -> tuple[str, dict[str, Any]]:
    try:
        review = codec.loads(body)
    except codec.DecodeError as error:
        raise InvalidReviewError(f"the body is not a {kind}: {error}") from None
    if not isinstance(review, dict) or review.get("kind") != kind or review.get("apiVersion") not in versions:
        raise InvalidReviewError(f"expected a {kind} of {' or '.join(versions)}")
    spec = review.get("spec")
    if not isinstance(spec, dict):
        raise InvalidReviewError(f"the {kind} has no spec")
    return review["apiVersion"], spec


def _respond(version: str, kind: str, status: dict[str, Any]) -> bytes:
    return codec.encode({"apiVersion": version, "kind": kind, "status": status})
