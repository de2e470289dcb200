"""Users of other issuers: JSON web tokens by AuthenticationConfiguration, and a token webhook."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
import yaml
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec
from tests.controlplane.access.https_peer import HTTPSPeer

from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.controlplane import ControlPlane
from kubewright.controlplane.configuration.config_file import ConfigFileError
from kubewright.controlplane.jwt_authentication import load_authentication_config

SELF_REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


class Issuer(HTTPSPeer):
    """Publishes its keys and signs tokens."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.keys = {"first": ec.generate_private_key(ec.SECP256R1())}
        self.fetches = 0
        self.add("/.well-known/openid-configuration", self._discovery)
        self.add("/keys", self._published)

    async def _discovery(self, request: web.Request) -> web.Response:
        return web.json_response({"issuer": self.url, "jwks_uri": f"{self.url}/keys"})

    async def _published(self, request: web.Request) -> web.Response:
        self.fetches += 1
        algorithm = jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256)
        keys = [
            {**json.loads(algorithm.to_jwk(key.public_key())), "kid": name, "use": "sig", "alg": "ES256"}
            for name, key in self.keys.items()
        ]
        return web.json_response({"keys": keys})

    def token(self, key: str = "first", **claims: Any) -> str:
        now = int(time.time())
        complete = {"iss": self.url, "aud": "cluster", "sub": "ada", "exp": now + 600, "nbf": now, **claims}
        return jwt.encode(complete, self.keys[key], algorithm="ES256", headers={"kid": key})


@pytest.fixture
async def issuer(tmp_path: Path) -> AsyncIterator[Issuer]:
    async with Issuer(tmp_path).serve() as found:
        assert isinstance(found, Issuer)
        yield found


def write(path: Path, **content: Any) -> Path:
    document = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        **content,
    }
    path.write_text(yaml.safe_dump(document))
    return path


def config(issuer: Issuer, folder: Path, **changes: Any) -> Path:
    entry = {
        "issuer": {"url": issuer.url, "certificateAuthority": issuer.ca, "audiences": ["cluster"]},
        "claimMappings": {
            "username": {"claim": "sub", "prefix": "idp:"},
            "groups": {"claim": "groups", "prefix": ""},
        },
        **changes,
    }
    return write(folder / "authentication.yaml", jwt=[entry])


async def whoami(plane: ControlPlane, token: str) -> tuple[int, dict[str, Any]]:
    request = HTTPRequest(
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        body=json.dumps(SELF_REVIEW).encode(),
    )
    response = await plane.server.handle(request)
    return response.status, json.loads(response.body).get("status") or {}


def plane_of(path: Path) -> ControlPlane:
    return ControlPlane(port=None, controllers=False, authentication_config=path)


async def test_users_of_an_issuer(issuer: Issuer, tmp_path: Path) -> None:
    async with plane_of(config(issuer, tmp_path)) as plane:
        status, review = await whoami(plane, issuer.token(groups=["dev", "ops"]))
        assert status == 201
        assert review["userInfo"] == {"username": "idp:ada", "groups": ["dev", "ops", "system:authenticated"]}
        await whoami(plane, issuer.token())
        assert issuer.fetches == 1, "keys are cached"
        # The TokenReview of other components knows the token, too.
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": issuer.token()},
        }
        completed = await plane.server.handle(
            HTTPRequest(
                "POST",
                "/apis/authentication.k8s.io/v1/tokenreviews",
                headers={"Content-Type": "application/json"},
                body=json.dumps(body).encode(),
                user=SYSTEM,
            )
        )
        assert json.loads(completed.body)["status"]["user"]["username"] == "idp:ada"


@pytest.mark.parametrize(
    "change",
    [
        lambda issuer: issuer.token(aud="other"),
        lambda issuer: issuer.token(exp=int(time.time()) - 100),
        lambda issuer: issuer.token(nbf=int(time.time()) + 600),
        lambda issuer: issuer.token(sub=7),
        lambda issuer: issuer.token(groups=[1]),
        lambda issuer: issuer.token()[:-4] + "AAAA",
        lambda issuer: jwt.encode(
            {"iss": issuer.url, "aud": "cluster", "sub": "ada", "exp": time.time() + 60},
            "secret" * 8,
            algorithm="HS256",
            headers={"kid": "first"},
        ),
    ],
    ids=["audience", "expired", "not yet", "type of subject", "type of group", "signature", "algorithm"],
)
async def test_invalid_tokens(issuer: Issuer, tmp_path: Path, change: Callable[[Issuer], str]) -> None:
    async with plane_of(config(issuer, tmp_path)) as plane:
        assert (await whoami(plane, change(issuer)))[0] == 401
        assert (await whoami(plane, issuer.token()))[0] == 201


async def test_a_new_key_of_the_issuer_is_fetched(issuer: Issuer, tmp_path: Path) -> None:
    clock = [0.0]
    settings = load_authentication_config(config(issuer, tmp_path))
    authenticator = settings.authenticators[0]
    authenticator._keys._clock = lambda: clock[0]
    assert await authenticator.user_of(issuer.token()) is not None
    issuer.keys["second"] = ec.generate_private_key(ec.SECP256R1())
    clock[0] = 2.0
    user = await authenticator.user_of(issuer.token("second"))
    assert user is not None
    assert issuer.fetches == 2


async def test_expressions_map_claims_and_validate(issuer: Issuer, tmp_path: Path) -> None:
    path = config(
        issuer,
        tmp_path,
        claimValidationRules=[
            {"claim": "tenant", "requiredValue": "acme"},
            {"expression": "claims.exp - claims.nbf <= 600", "message": "tokens live at most ten minutes"},
        ],
        claimMappings={
            "username": {"expression": "claims.sub + '@' + claims.tenant"},
            "groups": {"expression": "claims.roles.split(',')"},
            "uid": {"claim": "id"},
            "extra": [{"key": "example.com/tenant", "valueExpression": "claims.tenant"}],
        },
        userValidationRules=[
            {"expression": "!user.username.startsWith('system:')", "message": "system users are reserved"}
        ],
    )
    async with plane_of(path) as plane:
        status, review = await whoami(plane, issuer.token(tenant="acme", roles="dev,ops", id="7"))
        assert status == 201
        assert review["userInfo"] == {
            "username": "ada@acme",
            "uid": "7",
            "groups": ["dev", "ops", "system:authenticated"],
            "extra": {"example.com/tenant": ["acme"]},
        }
        for claims in (
            {"tenant": "other"},
            {"tenant": "acme", "exp": int(time.time()) + 7200},
            {"tenant": "acme", "sub": "system:admin"},
        ):
            token = issuer.token(**{"roles": "dev", "id": "7", **claims})
            assert (await whoami(plane, token))[0] == 401, claims


async def test_anonymous_requests_of_some_paths(tmp_path: Path) -> None:
    path = write(tmp_path / "c.yaml", anonymous={"enabled": True, "conditions": [{"path": "/livez"}]})
    async with plane_of(path) as plane:
        assert (await plane.server.handle(HTTPRequest("GET", "/livez"))).status == 200
        assert (await plane.server.handle(HTTPRequest("GET", "/readyz"))).status == 401


async def test_token_webhook(tmp_path: Path) -> None:
    peer = HTTPSPeer(tmp_path)
    asked: list[str] = []

    async def authenticate(request: web.Request) -> web.Response:
        review = await request.json()
        asked.append(request.headers["Authorization"])
        known = review["spec"]["token"] == "good"
        status = {"authenticated": known, "user": {"username": "grace", "groups": ["dev"]}}
        return web.json_response({**review, "status": status})

    peer.add("/authenticate", authenticate)
    async with peer.serve():
        plane = ControlPlane(
            port=None,
            controllers=False,
            authentication_token_webhook_config_file=peer.kubeconfig("/authenticate"),
        )
        async with plane:
            status, review = await whoami(plane, "good")
            assert status == 201
            assert review["userInfo"]["username"] == "grace"
            assert (await whoami(plane, "bad"))[0] == 401
            assert asked == ["Bearer secret"] * 2


VALID = {
    "issuer": {"url": "https://idp.example.com", "audiences": ["a"]},
    "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({**VALID, "issuer": {"url": "http://idp", "audiences": ["a"]}}, r"jwt\[0\].issuer.url: .* https"),
        ({**VALID, "issuer": {"url": "https://idp", "audiences": []}}, "audiences: at least one"),
        ({**VALID, "issuer": {"url": "https://kubernetes.default.svc", "audiences": ["a"]}}, "other tokens"),
        ({**VALID, "issuer": {"url": "https://idp", "audiences": ["a", "b"]}}, "MatchAny"),
        ({**VALID, "claimMappings": {}}, "username: a claim or an expression"),
        ({**VALID, "claimMappings": {"username": {"claim": "sub"}}}, "a claim requires a prefix"),
        ({**VALID, "claimMappings": {"username": {"expression": "claims.("}}}, "username: claims"),
        ({**VALID, "claimMappings": {"username": {"expression": "claims.email"}}}, "email_verified"),
        ({**VALID, "userValidationRules": [{"expression": "user.username"}]}, r"userValidationRules\[0\]"),
        ({**VALID, "claimValidationRules": [{"claim": "a", "expression": "true"}]}, "either claim or"),
        ({**VALID, "unknown": 1}, "unknown"),
    ],
)
def test_invalid_configurations_name_the_field(tmp_path: Path, entry: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "c.yaml", jwt=[entry])
    with pytest.raises(ConfigFileError, match=message) as error:
        load_authentication_config(path, ["https://kubernetes.default.svc"])
    assert str(error.value).startswith(str(path))
