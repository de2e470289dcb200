"""Tokens of secrets: the date of their last use, warnings, audit annotations and metrics."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.controlplane.path_client import PathClient

from kubewright.apiserver import HTTPRequest, HTTPResponse
from kubewright.apiserver.audit import AuditOptions
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane import ControlPlane

LAST_USED = "kubernetes.io/legacy-token-last-used"
INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
CORE = "/api/v1/namespaces/default"
SECRET = f"{CORE}/secrets/t"
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


class Legacy(NamedTuple):
    """A control plane with a token secret of the service account `robot`."""

    plane: ControlPlane
    client: PathClient
    token: str
    log: Path

    async def send(self) -> HTTPResponse:
        """Send a request with the token."""
        headers = {"Authorization": f"Bearer {self.token}"}
        return await self.plane.server.handle(HTTPRequest("GET", "/api", headers=headers))

    async def labels(self, **change: Any) -> dict[str, str]:
        """Change the labels of the secret, and return those after a request with the token."""
        if change:
            await self.client.merge(SECRET, {"metadata": {"labels": change["labels"]}})
        await self.send()
        found: dict[str, str] = (await self.client.get(SECRET))["metadata"].get("labels", {})
        return found

    async def metrics(self) -> dict[str, float]:
        """Return the counters of token uses."""
        body = (await self.plane.server.handle(HTTPRequest("GET", "/metrics", user=SYSTEM))).body.decode()
        lines = [line.split() for line in body.splitlines() if line.startswith("serviceaccount_")]
        return {name.removeprefix("serviceaccount_"): float(value) for name, value in lines}


@pytest.fixture
async def legacy(tmp_path: Path) -> AsyncIterator[Legacy]:
    (tmp_path / "policy.yaml").write_text(json.dumps(POLICY))
    log = tmp_path / "audit.log"
    flags = {"audit-policy-file": str(tmp_path / "policy.yaml"), "audit-log-path": str(log)}
    async with ControlPlane(port=None, audit=AuditOptions.from_flags(flags)) as plane:
        client = PathClient(plane.server, SYSTEM)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
        await client.create(f"{CORE}/serviceaccounts", account)
        metadata = {"name": "t", "annotations": {"kubernetes.io/service-account.name": "robot"}}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        await client.create(f"{CORE}/secrets", {**secret, "type": "kubernetes.io/service-account-token"})
        await plane.wait_until_idle()
        token = base64.b64decode((await client.get(SECRET))["data"]["token"]).decode()
        yield Legacy(plane, client, token, log)


def day(offset: int = 0) -> str:
    return (datetime.now(UTC) + timedelta(days=offset)).strftime("%Y-%m-%d")


async def test_the_secret_has_the_date_of_its_last_use(legacy: Legacy) -> None:
    before = day()
    assert LAST_USED not in (await legacy.client.get(SECRET))["metadata"].get("labels", {})
    assert (await legacy.labels())[LAST_USED] in (before, day())
    managers = {
        each["manager"]: each["fieldsV1"]
        for each in (await legacy.client.get(SECRET))["metadata"]["managedFields"]
    }
    assert managers["kube-apiserver"] == {"f:metadata": {"f:labels": {".": {}, f"f:{LAST_USED}": {}}}}
    tomorrow = day(1)
    assert (await legacy.labels(labels={LAST_USED: tomorrow}))[LAST_USED] == tomorrow
    version = (await legacy.client.get(SECRET))["metadata"]["resourceVersion"]
    await legacy.labels()
    assert (await legacy.client.get(SECRET))["metadata"]["resourceVersion"] == version, "once per day"
    for other in ("2001-01-01", "never"):
        assert (await legacy.labels(labels={LAST_USED: other}))[LAST_USED] in (before, day())
    since = await legacy.client.get(
        "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking"
    )
    assert since["data"]["since"] in (before, day())


async def test_tokens_marked_as_invalid_are_rejected_and_their_use_is_recorded(legacy: Legacy) -> None:
    labels = await legacy.labels(labels={INVALID_SINCE: "2020-01-01"})
    assert set(labels) == {INVALID_SINCE, LAST_USED}
    response = await legacy.send()
    assert response.status == 401
    review = await legacy.client.create(
        "/apis/authentication.k8s.io/v1/tokenreviews",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "metadata": {},
            "spec": {"token": legacy.token},
        },
    )
    assert review["status"] == {
        "user": {},
        "error": (
            "[invalid bearer token, the token in secret default/t for service account default/robot has "
            "been marked invalid. Use tokens from the TokenRequest API or manually created secret-based "
            "tokens, or remove the 'kubernetes.io/legacy-token-invalid-since' label from the secret to "
            "temporarily allow use of this token]"
        ),
    }
    assert (await legacy.metrics())["invalid_legacy_auto_token_uses_total"] == 3
    await legacy.client.merge(SECRET, {"metadata": {"labels": {INVALID_SINCE: None}}})
    assert (await legacy.send()).status == 200


async def test_warnings_audit_annotations_and_metrics(legacy: Legacy) -> None:
    assert "Warning" not in (await legacy.send()).headers
    await legacy.client.merge(f"{CORE}/serviceaccounts/robot", {"secrets": [{"name": "t"}]})
    assert (await legacy.send()).headers["Warning"] == [
        '299 - "Use tokens from the TokenRequest API or manually created secret-based tokens instead of '
        'auto-generated secret-based tokens."'
    ]
    assert await legacy.metrics() == {
        "legacy_tokens_total": 2,
        "legacy_manual_token_uses_total": 1,
        "legacy_auto_token_uses_total": 1,
        "invalid_legacy_auto_token_uses_total": 0,
    }
    events = [json.loads(line) for line in legacy.log.read_text().splitlines()]
    found = [
        {name: value for name, value in each["annotations"].items() if "legacy" in name}
        for each in events
        if each["user"].get("username") == "system:serviceaccount:default:robot"
    ]
    token = {"authentication.k8s.io/legacy-token": "system:serviceaccount:default:robot"}
    assert found == [
        {**token, "authentication.k8s.io/legacy-token-manual-secret": "t"},
        {**token, "authentication.k8s.io/legacy-token-autogenerated-secret": "t"},
    ]


async def test_a_storage_that_cannot_be_written_does_not_reject_the_token(
    legacy: Legacy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from kubewright.storage.contract import StorageError

    async def fail(*_: Any, **__: Any) -> int:
        raise StorageError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(legacy.plane.storage, "update", fail)
        assert (await legacy.send()).status == 200
    assert "cannot record the use of a service account token" in caplog.text
    assert (await legacy.labels())[LAST_USED]
