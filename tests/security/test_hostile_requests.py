"""Hostile tokens, names, selectors and watches: the response is 2xx or 4xx, never an internal error.

An attacker who can cause 500 with a traceback has found code that did not expect the input, before or after
authorization.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.security.examples import examples

from kubewright.apiserver.authentication.user import MASTERS, User
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.controlplane import ControlPlane

ADMIN = User("admin", (MASTERS, "system:authenticated"))
ISSUER = "https://kubernetes.default.svc"
SETTINGS = settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Server:
    """A control plane in an event loop of its own, for property tests."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.plane = ControlPlane(controllers=False, nodes=0, port=None)
        self.loop.run_until_complete(self.plane.start())

    def close(self) -> None:
        self.loop.run_until_complete(self.plane.stop())
        self.loop.close()

    def send(self, method: str, path: str, *, user: User | None = ADMIN, **options: Any) -> HTTPResponse:
        async def send() -> HTTPResponse:
            given = {"user": user} if user is not None else {}
            response = await self.plane.server.handle(HTTPRequest(method, path, **given, **options))
            stream = getattr(response, "stream", None)
            if stream is not None and hasattr(stream, "aclose"):
                await stream.aclose()
            return response

        return self.loop.run_until_complete(send())

    def stored(self) -> set[str]:
        async def stored() -> set[str]:
            return {item.key for item in (await self.plane.store.list("/")).items}

        return self.loop.run_until_complete(stored())


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


# Tokens


def _encode(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _token(header: Any, claims: Any, key: bytes = b"") -> str:
    signed = f"{_encode(header)}.{_encode(claims)}"
    signature = hmac.new(key, signed.encode(), hashlib.sha256).digest() if key else b""
    return f"{signed}.{_encode(signature)}"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
headers = st.fixed_dictionaries(
    {"alg": st.sampled_from(["none", "None", "HS256", "RS256", "ES256", "", 5, None])},
    optional={
        "kid": st.sampled_from(["", "../../etc/passwd", "a\x00", 5, None]),
        "crit": values,
        "typ": values,
    },
)
claims = st.fixed_dictionaries(
    {
        "iss": st.sampled_from([ISSUER, [ISSUER], "", 1, None]),
        "sub": st.sampled_from(["system:serviceaccount:kube-system:default", "system:admin", 7, None, ""]),
        "aud": st.sampled_from([ISSUER, [ISSUER], [], {}, [[]], None]),
    },
    optional={
        "exp": st.sampled_from([10**30, -1, "never", None, 1e308, float("nan")]),
        "nbf": values,
        "iat": values,
        "kubernetes.io": values,
    },
)
tokens = st.one_of(
    st.builds(_token, headers, claims, st.sampled_from([b"", b"key"])),
    st.builds(_token, values, values),
    st.text(max_size=40),
    st.text(st.sampled_from("ab.=-_ \t\x00\udcff\ud800"), max_size=20),
)


@given(token=tokens)
@example(token="a." * 10_000)
@example(token=".".join(["e30"] * 3))
@example(token=_token({"alg": "none"}, {"iss": ISSUER, "sub": "system:serviceaccount:kube-system:default"}))
@SETTINGS
def test_no_invented_token_is_accepted(server: Server, token: str) -> None:
    response = server.send("GET", "/api/v1/secrets", user=None, headers={"Authorization": f"Bearer {token}"})
    # Nothing, or a space, after "Bearer " is an anonymous request as in kube-apiserver, which is denied.
    is_empty = not token.strip() or token[0].isspace()
    assert response.status in ((401, 403) if is_empty else (401,)), response.body


def test_the_signature_of_a_token_covers_all_of_it(server: Server) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    account = {"metadata": {"name": "a"}}
    path = "/api/v1/namespaces/default/serviceaccounts"
    assert server.send("POST", path, body=json.dumps(account).encode()).status == 201
    created = server.send("POST", f"{path}/a/token", body=json.dumps(body).encode())
    token = json.loads(created.body)["status"]["token"]
    review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    request = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode()

    def status(text: str) -> int:
        sent = server.send(
            "POST", review, user=None, body=request, headers={"Authorization": f"Bearer {text}"}
        )
        return sent.status

    assert status(token) == 201
    head, payload, signature = token.split(".")
    changed = json.loads(base64.urlsafe_b64decode(payload + "=="))
    changed["sub"] = "system:serviceaccount:kube-system:default"
    for forged in (
        f"{head}.{_encode(changed)}.{signature}",
        f"{_encode({'alg': 'none'})}.{payload}.",
        f"{head}.{payload}.{signature[:-6]}AAAAAA",
        f"{head}.{payload}",
        f"{token}.{signature}",
    ):
        assert status(forged) == 401


# Names


texts = st.text(st.sampled_from("a.-_/\\%:;?#&=+ \x00\r\n\t\x7f\u2028\udcffé"), min_size=1, max_size=12)
hostile_names = st.one_of(
    texts,
    st.sampled_from(
        ["..", ".", "../..", "%2e%2e", "a/../../../secrets/b", "a" * 300, "a\x00b", "-", "A", "a\n"]
    ),
)
PREFIXES = (
    "/api/v1/namespaces/default/configmaps/",
    "/api/v1/namespaces/",
    "/apis/apps/v1/namespaces/default/deployments/",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/",
    "/apis/",
    "/openapi/v3/",
    "/readyz/",
)


@given(
    name=hostile_names,
    method=st.sampled_from(["GET", "PUT", "PATCH", "DELETE", "POST"]),
    prefix=st.sampled_from(PREFIXES),
    suffix=st.sampled_from(["", "/status", "/../secrets", "/token", "/exec"]),
)
@SETTINGS
def test_names_in_paths_are_no_internal_errors(
    server: Server, caplog: pytest.LogCaptureFixture, name: str, method: str, prefix: str, suffix: str
) -> None:
    path = prefix + quote(name, safe="", errors="surrogateescape") + suffix
    response = server.send(method, path, body=b"{}", headers={"Content-Type": "application/json"})
    assert response.status < 500 or response.status in (501, 503), (method, path, response.body)
    for key in server.stored():
        assert not {".", ".."} & set(key[1:].split("/"))
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR and each.exc_info]


@given(name=hostile_names, namespace=st.none() | texts)
@SETTINGS
def test_names_in_objects_are_accepted_or_rejected(server: Server, name: str, namespace: str | None) -> None:
    metadata = {"name": name} | ({"namespace": namespace} if namespace is not None else {})
    response = server.send(
        "POST",
        "/api/v1/namespaces/default/configmaps",
        body=json.dumps({"metadata": metadata}).encode("utf-8", "surrogatepass"),
        headers={"Content-Type": "application/json"},
    )
    assert response.status in (201, 400, 409, 422), response.body
    for key in server.stored():
        assert not {".", ".."} & set(key[1:].split("/"))
        assert "\x00" not in key


# Watches and lists


parameters = st.dictionaries(
    st.sampled_from(
        [
            "watch",
            "resourceVersion",
            "resourceVersionMatch",
            "timeoutSeconds",
            "sendInitialEvents",
            "allowWatchBookmarks",
            "limit",
            "continue",
            "labelSelector",
            "fieldSelector",
            "dryRun",
            "fieldManager",
            "pretty",
        ]
    ),
    st.sampled_from(
        [
            "",
            "0",
            "1",
            "-1",
            "true",
            "false",
            "99999999999999999999",
            "1e9",
            "a",
            "NaN",
            "Exact",
            "NotOlderThan",
        ]
    )
    | texts
    | st.sampled_from(
        ["a in (b", "a=b,,", "!", "a notin ()", "metadata.name=" + "a" * 3000, "eyJ2IjoxfQ==", "{}"]
    ),
    max_size=5,
)


@given(query=parameters, path=st.sampled_from([PREFIXES[0][:-1], "/api/v1/pods", PREFIXES[3][:-1]]))
@SETTINGS
def test_parameters_of_lists_and_watches_are_no_internal_errors(
    server: Server, query: dict[str, str], path: str
) -> None:
    text = urlencode({"timeoutSeconds": "1", **query}, errors="surrogateescape")
    response = server.send("GET", f"{path}?{text}", headers={"Accept": "application/json"})
    # kube-apiserver responds to these with 500, too.
    is_expected = b"strconv.ParseUint" in response.body
    assert response.status in (200, 400, 403, 406, 410, 422, 504) or is_expected, (query, response.body)
