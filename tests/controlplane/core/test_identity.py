"""Service account tokens: requested, bound, verified, invalid after deletion of the bound object."""

from __future__ import annotations

from typing import Any

import jwt
import pytest

REVIEW = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


async def token_for(send: Any, name: str, **spec: Any) -> tuple[int, Any]:
    response: tuple[int, Any] = await send("POST", f"{ACCOUNTS}/{name}/token", {"spec": spec})
    return response


async def test_token_is_valid_until_the_account_is_deleted(send: Any) -> None:
    _, account = await send("POST", ACCOUNTS, {"metadata": {"name": "bob"}})
    status, request = await token_for(send, "bob")
    token = request["status"]["token"]
    assert status == 201
    assert request["spec"]["expirationSeconds"] == 3600
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims["sub"] == "system:serviceaccount:default:bob"
    assert claims["kubernetes.io"]["serviceaccount"]["uid"] == account["metadata"]["uid"]
    status, who = await send(
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {},
        user=None,
        Authorization=f"Bearer {token}",
    )
    assert status == 201
    assert who["status"]["userInfo"]["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    ]
    _, review = await send("POST", REVIEW, {"spec": {"token": token}})
    assert review["status"]["authenticated"] is True
    await send("DELETE", f"{ACCOUNTS}/bob")
    assert (await send("GET", "/api", user=None, Authorization=f"Bearer {token}"))[0] == 401
    _, review = await send("POST", REVIEW, {"spec": {"token": token}})
    assert "authenticated" not in review["status"]


async def test_token_bound_to_a_secret_expires_with_it(send: Any) -> None:
    await send("POST", ACCOUNTS, {"metadata": {"name": "bob"}})
    await send("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})
    bound = {"kind": "Secret", "apiVersion": "v1", "name": "s"}
    _, request = await token_for(send, "bob", boundObjectRef=bound)
    header = f"Bearer {request['status']['token']}"
    assert (await send("GET", "/api", user=None, Authorization=header))[0] == 200
    await send("DELETE", "/api/v1/namespaces/default/secrets/s")
    assert (await send("GET", "/api", user=None, Authorization=header))[0] == 401


@pytest.mark.parametrize(
    ("spec", "status", "message"),
    [
        (
            {"expirationSeconds": 10},
            422,
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 10: '
            "may not specify a duration less than 10 minutes",
        ),
        (
            {"boundObjectRef": {"kind": "Foo", "apiVersion": "v1", "name": "x"}},
            400,
            "cannot bind token to object of type /v1, Kind=Foo",
        ),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "x"}}, 404, 'pods "x" not found'),
    ],
)
async def test_invalid_token_requests(send: Any, spec: Any, status: int, message: str) -> None:
    await send("POST", ACCOUNTS, {"metadata": {"name": "bob"}})
    response = await token_for(send, "bob", **spec)
    assert (response[0], response[1]["message"]) == (status, message)


async def test_tokens_of_other_audiences_are_rejected(send: Any) -> None:
    await send("POST", ACCOUNTS, {"metadata": {"name": "bob"}})
    _, request = await token_for(send, "bob", audiences=["vault"])
    token = request["status"]["token"]
    assert (await send("GET", "/api", user=None, Authorization=f"Bearer {token}"))[0] == 401
    _, review = await send("POST", REVIEW, {"spec": {"token": token, "audiences": ["vault"]}})
    assert review["status"]["audiences"] == ["vault"]


async def test_the_published_keys_verify_tokens(send: Any, plane: Any) -> None:
    await send("POST", ACCOUNTS, {"metadata": {"name": "bob"}})
    _, request = await token_for(send, "bob")
    _, keys = await send("GET", "/openid/v1/jwks")
    key = jwt.PyJWK(keys["keys"][0])
    claims = jwt.decode(
        request["status"]["token"], key.key, algorithms=["ES256"], audience=plane.issuer.issuer
    )
    assert claims["iss"] == plane.issuer.issuer
    _, discovery = await send("GET", "/.well-known/openid-configuration")
    assert discovery["jwks_uri"].endswith("/openid/v1/jwks")
    status, response = await send("GET", "/openid/v1/jwks", Accept="application/json")
    assert status == 406
    assert response["message"].endswith("Available representations: application/jwk-set+json")


async def test_token_review_reports_the_error(send: Any) -> None:
    await send("POST", ACCOUNTS, {"metadata": {"name": "bob"}})
    secrets = "/api/v1/namespaces/default/secrets"
    await send("POST", secrets, {"metadata": {"name": "s"}})
    bound = {"kind": "Secret", "apiVersion": "v1", "name": "s"}
    tied = (await token_for(send, "bob", boundObjectRef=bound))[1]["status"]["token"]
    free = (await token_for(send, "bob"))[1]["status"]["token"]

    async def why(token: str) -> str:
        text: str = (await send("POST", REVIEW, {"spec": {"token": token}}))[1]["status"]["error"]
        return text

    await send("DELETE", f"{secrets}/s")
    assert await why(tied) == "[invalid bearer token, service account token has been invalidated]"
    await send("DELETE", f"{ACCOUNTS}/bob")
    assert await why(free) == '[invalid bearer token, serviceaccounts "bob" not found]'
    await send("POST", ACCOUNTS, {"metadata": {"name": "bob"}})
    assert (await why(free)).startswith("[invalid bearer token, service account UID (")
