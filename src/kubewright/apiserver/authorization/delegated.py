"""Delegated authorization: a SubjectAccessReview by another API server.

`review` is an async function from a SubjectAccessReview to the completed one. Results are cached for ten
seconds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kubewright.api.errors import InternalError
from kubewright.api.values.times import monotonic_time

from . import AuthorizationAttributes, AuthorizationResult, Decision

Review = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class DelegatedAuthorizer:
    """Authorizes by SubjectAccessReview."""

    def __init__(
        self,
        review: Review,
        *,
        allow_seconds: float = 10.0,
        deny_seconds: float = 10.0,
        clock: Callable[[], float] = monotonic_time,
    ) -> None:
        self.review = review
        self.allow_seconds = allow_seconds
        self.deny_seconds = deny_seconds
        self.clock = clock
        self._known: dict[Any, tuple[float, AuthorizationResult]] = {}

    async def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationResult:
        """Return the decision of the other server; raises `InternalError` if the review fails."""
        user = attributes.user
        extra = tuple(sorted((key, tuple(values)) for key, values in user.extra.items()))
        key = (user.name, user.groups, user.uid, extra, *attributes[1:])
        now = self.clock()
        known = self._known.get(key)
        if known is not None and known[0] >= now:
            return known[1]
        try:
            status = (await self.review(access_review(attributes))).get("status") or {}
        except Exception as error:
            raise InternalError(f"Internal error occurred: access review failed: {error}") from error
        reason = status.get("reason") or ""
        if status.get("allowed"):
            result: AuthorizationResult = (Decision.ALLOW, reason)
        else:
            result = (Decision.DENY if status.get("denied") else Decision.NO_OPINION, reason)
        if len(self._known) > 10_000:
            self._known.clear()
        lifetime = self.allow_seconds if status.get("allowed") else self.deny_seconds
        self._known[key] = (now + lifetime, result)
        return result


def access_review(attributes: AuthorizationAttributes) -> dict[str, Any]:
    """Return the SubjectAccessReview of a request."""
    info = attributes.user.to_info()
    spec: dict[str, Any] = {"user": info.pop("username"), **info}
    if attributes.resource:
        given = {
            "namespace": attributes.namespace,
            "verb": attributes.verb,
            "group": attributes.group,
            "version": attributes.version,
            "resource": attributes.resource,
            "subresource": attributes.subresource,
            "name": attributes.name,
        }
        spec["resourceAttributes"] = {key: value for key, value in given.items() if value}
        for field in ("field_selector", "label_selector"):
            selector = getattr(attributes, field)
            if selector:
                spec["resourceAttributes"][
                    "fieldSelector" if field == "field_selector" else "labelSelector"
                ] = {"rawSelector": selector}
    else:
        spec["nonResourceAttributes"] = {"path": attributes.path, "verb": attributes.verb}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
