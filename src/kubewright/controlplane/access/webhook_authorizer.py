"""`WebhookAuthorizer`: asks a webhook, for the requests that its match conditions select.

Match conditions are CEL expressions over `request`, the spec of the SubjectAccessReview. If one is false, the
webhook is not called and has no opinion. Errors of conditions or of the webhook deny the request or leave it
to the next authorizer, as the failure policy says.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

from kubewright import cel
from kubewright.api.errors import APIError
from kubewright.apiserver.authorization import (
    NO_OPINION,
    AuthorizationAttributes,
    AuthorizationResult,
    Decision,
)
from kubewright.apiserver.authorization.delegated import DelegatedAuthorizer, Review, access_review

logger = logging.getLogger("kubewright.controlplane")


_RESOURCE_FIELDS = ("namespace", "verb", "group", "version", "resource", "subresource", "name")


@cache
def review_environment() -> cel.Env:
    """Return the environment of match conditions."""
    text, texts = cel.STRING, cel.list_type(cel.STRING)
    requirement = {"key": text, "operator": text, "values": texts}
    selector = cel.object_type(
        "kubernetes.SelectorAttributes",
        {
            "rawSelector": text,
            "requirements": cel.list_type(cel.object_type("kubernetes.SelectorRequirement", requirement)),
        },
    )
    resource = dict.fromkeys(_RESOURCE_FIELDS, text)
    fields = {
        "resourceAttributes": cel.object_type(
            "kubernetes.ResourceAttributes",
            {**resource, "fieldSelector": selector, "labelSelector": selector},
        ),
        "nonResourceAttributes": cel.object_type(
            "kubernetes.NonResourceAttributes", {"path": text, "verb": text}
        ),
        "user": text,
        "groups": texts,
        "extra": cel.map_type(text, texts),
        "uid": text,
    }
    return cel.Env({"request": cel.object_type("kubernetes.SubjectAccessReviewSpec", fields)})


class WebhookAuthorizer:
    """Authorizes by the SubjectAccessReviews of a webhook."""

    def __init__(
        self,
        name: str,
        review: Review,
        *,
        conditions: Sequence[cel.Program] = (),
        deny_on_failure: bool = False,
        allow_seconds: float = 300.0,
        deny_seconds: float = 30.0,
    ) -> None:
        self.name = name
        self._conditions = conditions
        self._deny_on_failure = deny_on_failure
        self._delegated = DelegatedAuthorizer(review, allow_seconds=allow_seconds, deny_seconds=deny_seconds)

    async def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationResult:
        """Return the decision of the webhook, or of the failure policy."""
        try:
            if self._conditions and not self._matches(access_review(attributes)["spec"]):
                return NO_OPINION
            return await self._delegated.authorize(attributes)
        except (APIError, cel.CelError) as error:
            logger.warning("authorization webhook failed", extra={"webhook": self.name, "error": str(error)})
            if self._deny_on_failure:
                return Decision.DENY, f"authorization webhook {self.name} failed"
            return NO_OPINION

    def _matches(self, spec: dict[str, Any]) -> bool:
        """Whether all conditions are true; one that is false decides, whatever the others raise."""
        request = _with_empty_fields(spec)
        failure: cel.CelError | None = None
        budget = cel.Budget()
        for condition in self._conditions:
            try:
                if condition({"request": request}, budget=budget) is not True:
                    return False
            except cel.CelError as error:
                failure = error
        if failure is not None:
            raise failure
        return True


def _with_empty_fields(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of a review with its empty fields, so that conditions need no `has`."""
    request: dict[str, Any] = {"user": "", "groups": [], "uid": "", "extra": {}, **spec}
    if "resourceAttributes" in spec:
        request["resourceAttributes"] = {**dict.fromkeys(_RESOURCE_FIELDS, ""), **spec["resourceAttributes"]}
    return request
