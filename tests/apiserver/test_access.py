"""Authenticators, impersonation, authorizers and request limits."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time

import jwt
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from multidict import CIMultiDict

from kubewright.api.errors import Forbidden, Unauthorized
from kubewright.apiserver import AuthenticatorChain, AuthorizerUnion, HTTPRequest, PrivilegedGroups, User
from kubewright.apiserver.authentication.delegated import TokenReviewAuthenticator
from kubewright.apiserver.authentication.impersonation import Impersonator
from kubewright.apiserver.authentication.requestheader import RequestHeaderAuthenticator
from kubewright.apiserver.authentication.serviceaccount import ServiceAccountAuthenticator
from kubewright.apiserver.authentication.tokens import StaticTokenAuthenticator
from kubewright.apiserver.authentication.x509 import PeerCertificate, X509Authenticator
from kubewright.apiserver.authorization import AlwaysAllowPaths, AuthorizationAttributes, Decision
from kubewright.apiserver.authorization.delegated import DelegatedAuthorizer
from kubewright.apiserver.authorization.rbac import PolicyRule, subject_matches
from kubewright.tls.certificates import CertificateAuthority


def der(pair) -> bytes:
    from cryptography import x509

    return x509.load_pem_x509_certificate(pair.certificate).public_bytes(serialization.Encoding.DER)


async def test_client_certificates():
    authority, other = CertificateAuthority.create(), CertificateAuthority.create("other")
    known = X509Authenticator(authority.certificate)
    pair = authority.issue("ada", groups=("dev", "ops"))
    user = await known.authenticate(HTTPRequest("GET", "/", peer_certificate=PeerCertificate(der(pair))))
    assert (user.name, user.groups) == ("ada", ("dev", "ops", "system:authenticated"))
    untrusted = PeerCertificate(der(other.issue("ada")))
    with pytest.raises(Unauthorized):
        await known.authenticate(HTTPRequest("GET", "/", peer_certificate=untrusted))
    serving = PeerCertificate(der(authority.issue("web", hosts=("localhost",), server=True)))
    with pytest.raises(Unauthorized):
        await known.authenticate(HTTPRequest("GET", "/", peer_certificate=serving))


async def test_front_proxy_headers_need_the_proxys_certificate():
    authority = CertificateAuthority.create()
    headers = RequestHeaderAuthenticator(authority.certificate, allowed_names=("proxy",))
    given = {"X-Remote-User": "ada", "X-Remote-Group": "dev", "X-Remote-Extra-Scopes%2Fa": "x"}
    peer = PeerCertificate(der(authority.issue("proxy")))
    user = await headers.authenticate(HTTPRequest("GET", "/", headers=given, peer_certificate=peer))
    assert (user.name, user.groups, dict(user.extra)) == ("ada", ("dev",), {"scopes/a": ("x",)})
    assert await headers.authenticate(HTTPRequest("GET", "/", headers=given)) is None
    wrong = PeerCertificate(der(authority.issue("mallory")))
    with pytest.raises(Unauthorized):
        await headers.authenticate(HTTPRequest("GET", "/", headers=given, peer_certificate=wrong))


def bearer(token: str) -> HTTPRequest:
    return HTTPRequest("GET", "/", headers={"Authorization": f"Bearer {token}"})


async def test_tokens(tmp_path):
    path = tmp_path / "tokens.csv"
    path.write_text('secret,ada,1,"dev,ops"\nother,bob,2\n')
    chain = AuthenticatorChain([StaticTokenAuthenticator.from_file(path)])
    assert (await chain.authenticate(bearer("secret"))).groups == ("dev", "ops", "system:authenticated")
    assert (await chain.authenticate(HTTPRequest("GET", "/"))).name == "system:anonymous"
    with pytest.raises(Unauthorized):
        await chain.authenticate(bearer("wrong"))
    path.write_text("only-a-token\n")
    with pytest.raises(ValueError, match=r"tokens\.csv:1"):
        StaticTokenAuthenticator.from_file(path)


async def test_service_account_tokens():
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    alive = [True]

    async def lookup(claims, request):
        right = alive[0] and claims["kubernetes.io"]["serviceaccount"]["uid"] == "u"
        return "" if right else "the account is another one"

    tokens = ServiceAccountAuthenticator(issuers=["https://me/"], keys=[public], lookup=lookup)

    def sign(**changes):
        claims = {
            "iss": "https://me/",
            "aud": ["https://me/"],
            "sub": "system:serviceaccount:ns:bot",
            "exp": time.time() + 60,
            "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "bot", "uid": "u"}},
        }
        return jwt.encode(claims | changes, pem, algorithm="ES256")

    user = await tokens.authenticate(bearer(sign()))
    assert user.name == "system:serviceaccount:ns:bot"
    assert user.groups[:2] == ("system:serviceaccounts", "system:serviceaccounts:ns")
    for bad in (
        sign(exp=1),
        sign(aud=["other"]),
        sign()[:-6] + "AAAAAA",
        sign(sub="system:serviceaccount:x:bot"),
    ):
        with pytest.raises(Unauthorized):
            await tokens.authenticate(bearer(bad))
    assert await tokens.authenticate(bearer(sign(iss="https://other/"))) is None
    # Clocks may differ by a minute.
    assert await tokens.authenticate(bearer(sign(exp=time.time() - 30, nbf=time.time() + 30))) is not None
    private = {"namespace": "ns", "serviceaccount": {"name": "bot", "uid": "u"}}
    warned = sign(**{"kubernetes.io": {**private, "warnafter": 1}})
    assert await tokens.authenticate(bearer(warned)) is not None
    for wrong_type in (
        {"exp": str(int(time.time() + 60))},
        {"exp": True},
        {"nbf": "0"},
        {"jti": 1},
        {"aud": [1, "https://me/"]},
        {"kubernetes.io": ["ns"]},
        {"kubernetes.io": "ns"},
        {"kubernetes.io": {**private, "serviceaccount": ["bot"]}},
        {"kubernetes.io": {**private, "serviceaccount": {"name": "bot", "uid": ["u"]}}},
        {"kubernetes.io": {**private, "pod": {"name": 1, "uid": "p"}}},
    ):
        with pytest.raises(Unauthorized):
            await tokens.authenticate(bearer(sign(**wrong_type)))
    alive[0] = False
    with pytest.raises(Unauthorized):
        await tokens.authenticate(bearer(sign()))


async def test_delegated_decisions_are_cached():
    now, asked = [0.0], []

    async def review(body):
        asked.append(body)
        if body["kind"] == "TokenReview":
            known = body["spec"]["token"] == "good"
            return {"status": {"authenticated": known, "user": {"username": "ada", "groups": ["dev"]}}}
        return {"status": {"allowed": body["spec"]["resourceAttributes"]["verb"] == "get", "reason": "rule"}}

    tokens = TokenReviewAuthenticator(review, clock=lambda: now[0])
    for _ in range(3):
        assert (await tokens.authenticate(bearer("good"))).name == "ada"
    with pytest.raises(Unauthorized):
        await tokens.authenticate(bearer("bad"))
    assert len(asked) == 2
    now[0] = 11
    await tokens.authenticate(bearer("good"))
    assert len(asked) == 3
    asked.clear()
    authorizer = DelegatedAuthorizer(review, clock=lambda: now[0])
    user = User("ada", ("dev",))
    for _ in range(2):
        decision = await authorizer.authorize(
            AuthorizationAttributes(user, "get", "g", "v1", "pods", namespace="n")
        )
        assert decision == (Decision.ALLOW, "rule")
        assert (await authorizer.authorize(AuthorizationAttributes(user, "list", resource="pods")))[
            0
        ] is Decision.NO_OPINION
    assert len(asked) == 2
    assert asked[0]["spec"]["groups"] == ["dev"]


_VIEW = {"verbs": ["get", "list"], "apiGroups": ["*"], "resources": ["*"]}
_URLS = {"verbs": ["get"], "nonResourceURLs": ["/logs/*"]}
_STATUS_OF_P = {
    "verbs": ["update"],
    "apiGroups": [""],
    "resources": ["pods/status"],
    "resourceNames": ["p"],
}


@pytest.mark.parametrize(
    ("rule", "question", "allowed"),
    [
        (_STATUS_OF_P, {"verb": "update", "resource": "pods", "subresource": "status", "name": "p"}, True),
        (_STATUS_OF_P, {"verb": "update", "resource": "pods", "subresource": "status", "name": "q"}, False),
        (_STATUS_OF_P, {"verb": "update", "resource": "pods", "name": "p"}, False),
        (_STATUS_OF_P, {"verb": "get", "resource": "pods", "subresource": "status", "name": "p"}, False),
        (_URLS, {"verb": "get", "path": "/logs/x"}, True),
        (_URLS, {"verb": "get", "path": "/log"}, False),
        (_VIEW, {"verb": "get", "resource": "x", "group": "g"}, True),
        (_VIEW, {"verb": "delete", "resource": "x", "group": "g"}, False),
    ],
)
def test_rbac_rules(rule, question, allowed):
    assert PolicyRule.parse(rule).allows(AuthorizationAttributes(User("ada"), **question)) is allowed


@pytest.mark.parametrize(
    ("subject", "namespace", "matches"),
    [
        ({"kind": "User", "name": "system:serviceaccount:m:bot"}, "", True),
        ({"kind": "Group", "name": "dev"}, "", True),
        ({"kind": "Group", "name": "ops"}, "", False),
        ({"kind": "ServiceAccount", "name": "bot", "namespace": "m"}, "n", True),
        ({"kind": "ServiceAccount", "name": "bot"}, "m", True),
        ({"kind": "ServiceAccount", "name": "bot"}, "n", False),
        ({"kind": "ServiceAccount", "name": "bot"}, "", False),
    ],
)
def test_rbac_subjects(subject, namespace, matches):
    user = User("system:serviceaccount:m:bot", ("dev",))
    assert subject_matches(subject, user, namespace) is matches


@pytest.fixture
async def guarded(new_server, talk_to):
    authorizer = AuthorizerUnion([PrivilegedGroups(), AlwaysAllowPaths()])
    tokens = StaticTokenAuthenticator({"root": User("root", ("system:masters",)), "ada": User("ada")})
    async with new_server(authorizer=authorizer, authenticator=AuthenticatorChain([tokens])) as server:
        yield talk_to(server, None)


async def test_messages_of_denied_requests(guarded, base):
    assert (await guarded("GET", base, Authorization="Bearer nope"))[1]["message"] == "Unauthorized"
    status, error = await guarded("GET", f"{base}/a", Authorization="Bearer ada")
    assert (status, error["details"]) == (403, {"name": "a", "group": "example.com", "kind": "widgets"})
    assert error["message"] == (
        'widgets.example.com "a" is forbidden: User "ada" cannot get resource "widgets" in API group '
        '"example.com" in the namespace "default"'
    )
    status, error = await guarded("GET", "/metrics")
    assert error["message"] == 'forbidden: User "system:anonymous" cannot get path "/metrics"'
    assert error["details"] == {}
    assert (await guarded("GET", "/healthz"))[0] == 200
    assert (await guarded("GET", base, Authorization="Bearer root"))[0] == 200


async def test_impersonation(guarded, base):
    root = {"Authorization": "Bearer root"}
    status, error = await guarded("GET", base, **root, Impersonate_User="bob")
    assert 'User "bob" cannot list' in error["message"]
    assert (await guarded("GET", base, **root, Impersonate_User="x", Impersonate_Group="system:masters"))[
        0
    ] == 200
    status, error = await guarded("GET", base, **root, Impersonate_Group="g")
    assert (status, error["message"].endswith("without impersonating a user name")) == (400, True)
    status, error = await guarded("GET", base, Authorization="Bearer ada", Impersonate_User="root")
    assert error["message"].startswith(
        'widgets.example.com is forbidden: User "ada" cannot impersonate-on:user-info:list resource "widgets"'
    )


class Granted:
    """Allows exactly these (verb, resource, name)."""

    def __init__(self, *rights: tuple[str, str, str]) -> None:
        self.rights = rights

    async def authorize(self, attributes):
        asked = (attributes.verb, attributes.resource, attributes.name)
        return (Decision.ALLOW, "") if asked in self.rights else (Decision.NO_OPINION, "")


ADA = User("ada")


async def acting(rights, asker=ADA, **headers):
    request = HTTPRequest(
        "POST", "/x", headers=CIMultiDict((k.replace("_", "-"), v) for k, v in headers.items())
    )
    asked = AuthorizationAttributes(asker, "create", resource="pods", namespace="n")
    return await Impersonator().impersonate(request, asked, Granted(*rights))


async def test_constrained_impersonation_needs_the_identity_and_the_request():
    request = ("impersonate-on:user-info:create", "pods", "")
    bob = await acting([request, ("impersonate:user-info", "users", "bob")], Impersonate_User="bob")
    assert (bob.name, bob.groups) == ("bob", ("system:authenticated",))
    with pytest.raises(Forbidden, match='cannot impersonate:user-info resource "users" in API group "auth'):
        await acting([request], Impersonate_User="bob")
    with pytest.raises(Forbidden, match='cannot impersonate-on:user-info:create resource "pods"'):
        await acting([("impersonate:user-info", "users", "bob")], Impersonate_User="bob")
    rights = [request, ("impersonate:user-info", "users", "bob")]
    with pytest.raises(Forbidden, match="impersonating the system:masters group is not allowed"):
        await acting(rights, Impersonate_User="bob", Impersonate_Group="system:masters")
    with pytest.raises(
        Forbidden, match=r"extra\.key: Invalid value: .scope.: must be a domain-prefixed path"
    ):
        await acting(rights, Impersonate_User="bob", Impersonate_Extra_Scope="x")
    assert (await acting([("impersonate", "users", "bob")], Impersonate_User="bob")).name == "bob"


async def test_authorization_modes_of_nodes_and_service_accounts():
    arbitrary = [
        ("impersonate-on:arbitrary-node:create", "pods", ""),
        ("impersonate:arbitrary-node", "nodes", "n1"),
    ]
    node = await acting(arbitrary, Impersonate_User="system:node:n1")
    assert node.groups == ("system:nodes", "system:authenticated")
    own = [
        ("impersonate-on:associated-node:create", "pods", ""),
        ("impersonate:associated-node", "nodes", "*"),
    ]
    agent = User("system:serviceaccount:a:agent", extra={"authentication.kubernetes.io/node-name": ("n1",)})
    assert (await acting(own, agent, Impersonate_User="system:node:n1")).groups[0] == "system:nodes"
    with pytest.raises(Forbidden, match="impersonate-on:arbitrary-node:create"):
        await acting(own, agent, Impersonate_User="system:node:n2")
    account = [
        ("impersonate-on:serviceaccount:create", "pods", ""),
        ("impersonate:serviceaccount", "serviceaccounts", "b"),
    ]
    bot = await acting(account, Impersonate_User="system:serviceaccount:a:b")
    assert bot.groups == ("system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated")


async def test_message_of_the_last_authorizer_is_used():
    impersonation, rights = Impersonator(), Granted(("impersonate", "users", "bob"))
    asked = AuthorizationAttributes(User("ada"), "create", resource="pods")

    async def act_as(name):
        request = HTTPRequest("POST", "/x", headers=CIMultiDict({"Impersonate-User": name}))
        return await impersonation.impersonate(request, asked, rights)

    with pytest.raises(Forbidden, match="cannot impersonate-on:user-info:create"):
        await act_as("eve")
    assert (await act_as("bob")).name == "bob"
    with pytest.raises(
        Forbidden, match='users "eve" is forbidden: User "ada" cannot impersonate resource "users"'
    ):
        await act_as("eve")


async def test_too_many_concurrent_requests(new_server, talk_to, base):
    waiting, entered = asyncio.Event(), asyncio.Event()

    async def slow(request):
        entered.set()
        await waiting.wait()
        from kubewright.apiserver.http.messages import text

        return text(200, "done")

    async with new_server(max_in_flight=1) as server:
        server.add_handler("/slow", slow)
        user = User("ada", ("system:authenticated",))
        talk = talk_to(server, user)
        first = asyncio.create_task(talk("GET", "/slow"))
        await entered.wait()
        response = await talk.send("GET", base)
        assert (response.status, response.headers["Retry-After"]) == (429, "1")
        assert (await talk_to(server)("GET", base))[0] == 200
        waiting.set()
        assert (await first)[0] == 200
        assert (await talk("GET", base))[0] == 200


async def test_the_deadline(new_server, talk_to):
    async with new_server() as server:

        async def never(request):
            await asyncio.Event().wait()

        server.add_handler("/never", never)
        status, error = await talk_to(server)("GET", "/never?timeout=20ms")
        assert status == 504
        assert '"reason":"Timeout"' in error
        assert (await talk_to(server)("GET", "/never?timeout=soon"))[0] == 400


async def test_client_certificate_expires_during_a_connection(monkeypatch):
    authority = CertificateAuthority.create()
    peer = PeerCertificate(der(authority.issue("ada", days=1)))
    certificates, proxies = (
        X509Authenticator(authority.certificate),
        RequestHeaderAuthenticator(authority.certificate),
    )
    request = HTTPRequest("GET", "/", headers={"X-Remote-User": "bob"}, peer_certificate=peer)
    assert (await certificates.authenticate(request)).name == "ada"
    assert (await proxies.authenticate(request)).name == "bob"
    later = time.time() + 2 * 86400
    monkeypatch.setattr(time, "time", lambda: later)
    with pytest.raises(Unauthorized):
        await certificates.authenticate(request)
    assert await proxies.authenticate(request) is None


@pytest.mark.parametrize("token", ["a.\udcff.c", "W1tb.W1tb.x", "." * 5000, "bnVsbA.bnVsbA.x"])
async def test_malformed_tokens_are_rejected(token):
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    pem = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    tokens = ServiceAccountAuthenticator(issuers=["here"], keys=[pem])
    with pytest.raises(Unauthorized):
        await AuthenticatorChain([tokens]).authenticate(bearer(token))


async def test_a_token_cannot_choose_how_it_is_verified():
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    pem = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    tokens = ServiceAccountAuthenticator(issuers=["here"], keys=[pem])
    private = {"namespace": "a", "serviceaccount": {"name": "b", "uid": "1"}}
    claims = {"iss": "here", "aud": "here", "sub": "system:serviceaccount:a:b", "kubernetes.io": private}
    claims["exp"] = int(time.time()) + 60
    unsigned = jwt.encode(claims, None, algorithm="none")
    with pytest.raises(Unauthorized):
        await tokens.authenticate(bearer(unsigned))
    head = jwt.utils.base64url_encode(b'{"alg":"HS256","typ":"JWT"}')
    body = unsigned.split(".")[1].encode()
    signature = hmac.new(pem, head + b"." + body, "sha256").digest()
    forged = b".".join((head, body, jwt.utils.base64url_encode(signature))).decode()
    with pytest.raises(Unauthorized):
        await tokens.authenticate(bearer(forged))


async def test_token_review_must_return_a_requested_audience():
    result = {"authenticated": True, "user": {"username": "ada"}}

    async def review(question):
        assert question["spec"]["audiences"] == ["here"]
        return {"status": result}

    with pytest.raises(Unauthorized):
        await TokenReviewAuthenticator(review, audiences=["here"]).authenticate(bearer("x"))
    result["audiences"] = ["here", "there"]
    assert (
        await TokenReviewAuthenticator(review, audiences=["here"]).authenticate(bearer("x"))
    ).name == "ada"


async def test_certificate_users_have_the_id_of_their_credential():
    authority = CertificateAuthority.create()
    certificate = der(authority.issue("ada"))
    request = HTTPRequest("GET", "/", peer_certificate=PeerCertificate(certificate))
    user = await X509Authenticator(authority.certificate).authenticate(request)
    fingerprint = hashlib.sha256(certificate).hexdigest()
    assert user.extra == {"authentication.kubernetes.io/credential-id": (f"X509SHA256={fingerprint}",)}


@pytest.mark.parametrize(
    "changes",
    [
        {"kubernetes.io": []},
        {"kubernetes.io": "text"},
        {"kubernetes.io": {"namespace": "a", "serviceaccount": ["b"]}},
        {"kubernetes.io": {"namespace": 1, "serviceaccount": {"name": "b", "uid": "1"}}},
        {"exp": "2100-01-01"},
        {"exp": "9999999999"},
        {"nbf": []},
        {"iss": ["here"]},
        {"aud": 1},
        {"sub": {}},
    ],
)
async def test_token_claims_of_the_wrong_type_are_rejected(changes):
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    tokens = ServiceAccountAuthenticator(issuers=["here"], keys=[pem], audiences=["here"])
    private = {"namespace": "a", "serviceaccount": {"name": "b", "uid": "1"}}
    claims = {"iss": "here", "aud": ["here"], "sub": "system:serviceaccount:a:b", "kubernetes.io": private}
    claims["exp"] = int(time.time()) + 60

    def signed(payload):
        head = jwt.utils.base64url_encode(b'{"alg":"ES256","typ":"JWT"}')
        body = jwt.utils.base64url_encode(json.dumps(payload).encode())
        r, s = decode_dss_signature(key.sign(head + b"." + body, ec.ECDSA(hashes.SHA256())))
        signature = jwt.utils.base64url_encode(r.to_bytes(32, "big") + s.to_bytes(32, "big"))
        return b".".join((head, body, signature)).decode()

    assert (await tokens.authenticate(bearer(signed(claims)))).name == "system:serviceaccount:a:b"
    with pytest.raises(Unauthorized):
        await AuthenticatorChain([tokens]).authenticate(bearer(signed({**claims, **changes})))
