"""Secret values of objects are replaced by stable placeholders."""

from __future__ import annotations

import base64
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubewright.recording.redaction import LAST_APPLIED, Redactor, is_placeholder

WORDS = st.text("abcdefghijkmnpqrstuvwxyz23456789", min_size=12, max_size=24).map(lambda text: f"zq{text}")
"""Values that occur nowhere else in an object."""


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def pod_spec(secret: str) -> dict[str, Any]:
    return {
        "containers": [
            {
                "name": "app",
                "image": "app:1",
                "env": [{"name": "A", "value": secret}, {"name": "B", "valueFrom": {"fieldRef": {}}}],
                "args": [f"--db-password={secret}", "--token", secret, "--verbose"],
            }
        ]
    }


PLACES = {
    "secret data": lambda s: {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "a"},
        "data": {"password": encoded(s)},
    },
    "secret text": lambda s: {"apiVersion": "v1", "kind": "Secret", "metadata": {}, "stringData": {"x": s}},
    "list of secrets": lambda s: {
        "apiVersion": "v1",
        "kind": "SecretList",
        "items": [{"metadata": {"name": "a"}, "data": {"x": encoded(s)}}],
    },
    "last applied": lambda s: {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"annotations": {LAST_APPLIED: json.dumps({"data": {"x": s}})}},
    },
    "pod": lambda s: {"apiVersion": "v1", "kind": "Pod", "spec": pod_spec(s)},
    "deployment": lambda s: {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {"template": {"spec": pod_spec(s)}},
    },
    "custom resource": lambda s: {
        "apiVersion": "example.com/v1",
        "kind": "Database",
        "spec": {"adminPassword": s, "auth": {"token": s, "api_key": s}, "env": {"X": s}},
    },
    "url": lambda s: {
        "apiVersion": "example.com/v1",
        "kind": "Database",
        "spec": {"url": f"postgresql://shop:{s}@db/shop"},
    },
    "config file": lambda s: {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {"app.properties": f"size=3\ndb.password={s}\n", "DB_PASSWORD": s},
    },
    "token": lambda s: {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {"header": f"Authorization: Bearer {s}", "jwt": f"eyJhbGciOiJ.{s}.{s}"},
    },
    "key": lambda s: {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {"pem": f"-----BEGIN RSA PRIVATE KEY-----\n{s}\n-----END RSA PRIVATE KEY-----\n"},
    },
    "helm": lambda s: {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"labels": {"owner": "helm"}},
        "data": {"release": s},
    },
    "secret of another group": lambda s: {
        "apiVersion": "example.com/v1",
        "kind": "Secret",
        "metadata": {"name": "a"},
        "data": {"x": s},
    },
    "last handled by kopf": lambda s: {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "annotations": {
                "kopf.zalando.org/last-handled-configuration": json.dumps({"data": {"x": encoded(s)}}) + "\n"
            }
        },
    },
    "variable handled by kopf": lambda s: {
        "apiVersion": "example.com/v1",
        "kind": "Database",
        "metadata": {
            "annotations": {
                "kopf.zalando.org/last-handled-configuration": json.dumps(
                    {"spec": {"env": [{"name": "A", "value": s}]}}
                )
            }
        },
    },
    "applied by other tools": lambda s: {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "annotations": {
                "kapp.k14s.io/original": json.dumps(
                    {"apiVersion": "v1", "kind": "Secret", "data": {"x": encoded(s)}}
                ),
                "objectset.rio.cattle.io/applied": encoded(s),
            }
        },
    },
    "quoted": lambda s: {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {
            "a.yaml": f'password: "correct {s}, horse"\n',
            "a.json": json.dumps({"x": json.dumps({"password": f"a {s}"})}),
        },
    },
    "event": lambda s: {"apiVersion": "v1", "kind": "Event", "message": f"login failed: password={s}"},
}


@given(WORDS)
def test_no_planted_secret_remains(secret: str) -> None:
    redactor = Redactor()
    for place, make in PLACES.items():
        obj = make(secret)
        before = json.dumps(obj)
        text = json.dumps(redactor.redact(obj))
        assert secret not in text, place
        assert encoded(secret) not in text, place
        assert json.dumps(obj) == before, "the argument is not changed"
        assert json.dumps(redactor.redact(json.loads(text))) == text, "a second time changes nothing"


@given(WORDS)
def test_objects_that_stay_in_the_process_have_no_data_of_secrets(secret: str) -> None:
    redactor = Redactor(secrets_only=True)
    for place, make in PLACES.items():
        obj = make(secret)
        if obj["kind"] in ("Secret", "SecretList"):
            text = json.dumps(redactor.redact(obj))
            assert secret not in text, place
            assert encoded(secret) not in text, place


@given(WORDS, WORDS)
def test_placeholders_are_equal_for_equal_values_only(one: str, other: str) -> None:
    redactor = Redactor()
    assert (redactor.placeholder(one) == redactor.placeholder(other)) == (one == other)
    assert is_placeholder(redactor.placeholder(one))
    assert Redactor(b"k").placeholder(one) == Redactor(b"k").placeholder(one)
    assert Redactor().placeholder(one) != redactor.placeholder(one), "each redactor has its own key"


def test_a_secret_and_a_variable_with_the_same_value_have_the_same_placeholder() -> None:
    redactor = Redactor()
    secret = redactor.redact(PLACES["secret data"]("hunter2"))["data"]["password"]
    pod = redactor.redact(PLACES["pod"]("hunter2"))["spec"]["containers"][0]["env"][0]["value"]
    assert base64.b64decode(secret).decode() == pod
    assert is_placeholder(secret)


def test_what_is_not_secret_stays() -> None:
    obj = {
        "apiVersion": "example.com/v1",
        "kind": "Database",
        "metadata": {"name": "a", "annotations": {"note": "no password here"}},
        "spec": {
            "passwordSecretRef": {"name": "db", "key": "password"},
            "tokenSecretName": "db-token",
            "image": "registry.example.com:5000/token-service:1",
            "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "db", "key": "token"}}}],
            "size": 3,
        },
    }
    assert Redactor().redact(obj) == obj


def test_images_of_private_registries_remain_valid() -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": encoded('{"auths":{"r":{"auth":"aHVudGVyMg=="}}}')},
    }
    value = Redactor().redact(obj)["data"][".dockerconfigjson"]
    assert json.loads(base64.b64decode(value)) == {"auths": {}}


def test_the_time_is_linear_in_the_length_of_a_text() -> None:
    """Long words with a name of a credential elsewhere: quadratic time would be minutes."""
    redactor = Redactor()
    for word in ("a" * 400_000, "eyJabcdefghij" * 30_000, "password" * 50_000, "a.password-" * 40_000):
        assert redactor.text(f"{word} token") == f"{word} token"
    nested = "{" + '"a":{' * 600 + "}" * 601
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"annotations": {"x": nested}}}
    assert set(Redactor().redact(obj)["metadata"]["annotations"]) == {"x"}
