"""Authentication and authorization webhooks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubewright.webhook import (
    AccessRequest,
    AccessReviewer,
    Denied,
    InvalidReviewError,
    TokenReviewer,
    TokenReviewResult,
    UserInfo,
)


async def ask(endpoint: Any, kind: str, spec: dict[str, Any], version: str = "v1") -> dict[str, Any]:
    group = "authentication.k8s.io" if kind == "TokenReview" else "authorization.k8s.io"
    body = {"apiVersion": f"{group}/{version}", "kind": kind, "spec": spec}
    reply = json.loads(await endpoint(json.dumps(body).encode()))
    assert (reply["kind"], reply["apiVersion"]) == (kind, f"{group}/{version}")
    status: dict[str, Any] = reply["status"]
    return status


async def test_valid_tokens_return_users() -> None:
    users = {"t1": UserInfo(username="ada", groups=["dev"], extra={"team": ["x"]})}
    reviewer = TokenReviewer(users.get)
    status = await ask(reviewer, "TokenReview", {"token": "t1"}, "v1beta1")
    assert status["authenticated"] is True
    assert status["user"]["username"] == "ada"
    assert status["user"]["extra"] == {"team": ["x"]}
    assert await ask(reviewer, "TokenReview", {"token": "t2"}) == {"authenticated": False}


async def test_reviewer_checks_audiences_and_returns_an_error() -> None:
    async def review(token: str, audiences: list[str]) -> TokenReviewResult:
        if token == "old":
            raise Denied("the token has expired")
        return TokenReviewResult(UserInfo(username="ada"), [each for each in audiences if each == "here"])

    status = await ask(TokenReviewer(review), "TokenReview", {"token": "x", "audiences": ["here", "there"]})
    assert status["audiences"] == ["here"]
    status = await ask(TokenReviewer(review), "TokenReview", {"token": "old"})
    assert status == {"authenticated": False, "error": "the token has expired"}


async def test_access_is_allowed_denied_or_no_opinion() -> None:
    seen: list[AccessRequest] = []

    def decide(request: AccessRequest) -> bool:
        seen.append(request)
        if request.path == "/secret":
            raise Denied("never")
        return request.user.groups == ["dev"] and request.resource == "pods"

    reviewer = AccessReviewer(decide)
    about = {"verb": "get", "resource": "pods", "namespace": "d", "name": "a"}
    spec = {"user": "ada", "groups": ["dev"], "resourceAttributes": about}
    assert await ask(reviewer, "SubjectAccessReview", spec) == {"allowed": True}
    assert (seen[0].verb, seen[0].namespace, seen[0].name) == ("get", "d", "a")
    old = {"user": "ada", "group": ["dev"], "resourceAttributes": about}
    assert await ask(reviewer, "SubjectAccessReview", old, "v1beta1") == {"allowed": True}
    assert await ask(reviewer, "SubjectAccessReview", {**spec, "groups": []}) == {"allowed": False}
    url = {"user": "ada", "nonResourceAttributes": {"path": "/secret", "verb": "get"}}
    assert await ask(reviewer, "SubjectAccessReview", url) == {
        "allowed": False,
        "denied": True,
        "reason": "never",
    }


@pytest.mark.parametrize("body", [b"", b"[]", b'{"kind":"Pod","apiVersion":"v1"}'])
async def test_malformed_reviews_are_rejected(body: bytes) -> None:
    for endpoint in (TokenReviewer(lambda token: None), AccessReviewer(lambda request: True)):
        with pytest.raises(InvalidReviewError, match="Review"):
            await endpoint(body)
