"""Audit events beside those that kube-apiserver v1.36.4 wrote for the same requests and the same policy.

`audit_events.json` has the requests with the recorded events; identifiers and times are `*`. Known
differences are not recorded: `requestObject` is the body as the client sent it, without defaults.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kubewright.apiserver.audit import AuditOptions
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.controlplane import ControlPlane

RECORDED = json.loads((Path(__file__).parent / "audit_events.json").read_text())
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [
        {
            "level": "RequestResponse",
            "users": ["admin"],
            "resources": [{"group": "", "resources": ["configmaps", "pods", "serviceaccounts/token"]}],
        },
        {
            "level": "Request",
            "users": ["admin"],
            "omitManagedFields": True,
            "resources": [{"group": "apps"}],
        },
        {"level": "None", "users": ["system:apiserver"]},
        {"level": "Metadata"},
    ],
}
_VOLATILE = frozenset(
    (
        "uid",
        "creationTimestamp",
        "time",
        "resourceVersion",
        "token",
        "expirationTimestamp",
        "auditID",
        "requestReceivedTimestamp",
        "stageTimestamp",
    )
)


def normalized(value: Any) -> Any:
    """Replace identifiers and times as in the recording."""
    if isinstance(value, dict):
        return {
            key: "*"
            if key in _VOLATILE and each not in ("", None, "1", "2", "my-own-id")
            else normalized(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [normalized(each) for each in value]
    return "JTI=*" if isinstance(value, str) and value.startswith("JTI=") else value


class Audited:
    """A control plane with an audit log."""

    def __init__(self, plane: ControlPlane, log: Path) -> None:
        self.plane = plane
        self._log = log
        self._read = 0

    async def send(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: str = ""
    ) -> HTTPResponse:
        request = HTTPRequest(method, path, headers=headers, body=body.encode(), remote="127.0.0.1")
        response = await self.plane.server.handle(request)
        if response.stream is not None:
            await response.stream.aclose()  # type: ignore[attr-defined]
        return response

    def new_events(self) -> list[dict[str, Any]]:
        """Return the events since the last call, without those of the control plane itself."""
        lines = self._log.read_text().splitlines()
        lines, self._read = lines[self._read :], len(lines)
        events = [json.loads(line) for line in lines]
        return [each for each in events if not each["user"].get("username", "").startswith("system:")]


@pytest.fixture
async def audited(tmp_path: Path):
    (tmp_path / "policy.yaml").write_text(json.dumps(POLICY))
    (tmp_path / "tokens").write_text('admintok,admin,1,"system:masters"\nbobtok,bob,2,"dev"\n')
    flags = {
        "audit-policy-file": str(tmp_path / "policy.yaml"),
        "audit-log-path": str(tmp_path / "audit.log"),
    }
    async with ControlPlane(
        port=None,
        controllers=False,
        disable_admission_plugins=["ServiceAccount"],
        token_auth_file=tmp_path / "tokens",
        audit=AuditOptions.from_flags(flags),
    ) as plane:
        yield Audited(plane, tmp_path / "audit.log")


async def test_events_are_those_of_kube_apiserver(audited: Audited) -> None:
    for case in RECORDED:
        response = await audited.send(case["method"], case["path"], case["headers"], case.get("body", ""))
        found = audited.new_events()
        assert {each["auditID"] for each in found} == {response.headers["Audit-Id"]}
        for mine, recorded in zip(found, case["events"], strict=True):
            assert list(mine) == list(recorded), case["path"]
            mine = normalized(mine)
            if recorded.get("requestObject") == "defaulted":
                mine["requestObject"] = "defaulted"
            assert mine == recorded


async def test_protobuf_and_yaml_are_recorded_as_json(audited: Audited) -> None:
    headers = {
        "Authorization": "Bearer admintok",
        "Content-Type": "application/yaml",
        "Accept": "application/vnd.kubernetes.protobuf",
    }
    body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: from-yaml\ndata:\n  a: b\n"
    response = await audited.send("POST", "/api/v1/namespaces/default/configmaps", headers, body)
    assert response.status == 201, response.body
    assert response.body.startswith(b"k8s\x00")
    _, complete = audited.new_events()
    assert complete["requestObject"]["data"] == {"a": "b"}
    assert complete["responseObject"]["kind"] == "ConfigMap"
    assert complete["responseObject"]["data"] == {"a": "b"}
    assert complete["objectRef"]["name"] == "from-yaml"


async def test_admission_adds_annotations(audited: Audited) -> None:
    headers = {"Authorization": "Bearer admintok", "Content-Type": "application/json"}
    labels = {"pod-security.kubernetes.io/audit": "restricted"}
    namespace = json.dumps({"metadata": {"name": "strict", "labels": labels}})
    assert (await audited.send("POST", "/api/v1/namespaces", headers, namespace)).status == 201
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    audited.new_events()
    await audited.send("POST", "/api/v1/namespaces/strict/pods", headers, json.dumps(pod))
    annotations = audited.new_events()[-1]["annotations"]
    assert annotations["pod-security.kubernetes.io/enforce-policy"] == "privileged:latest"
    assert (
        'would violate PodSecurity "restricted:latest"'
        in annotations["pod-security.kubernetes.io/audit-violations"]
    )


async def test_unexpected_exceptions_have_the_stage_panic(audited: Audited) -> None:
    async def fail(request: HTTPRequest) -> HTTPResponse:
        raise RuntimeError("broken")

    audited.plane.server.add_handler("/broken", fail)
    response = await audited.send("GET", "/broken", {"Authorization": "Bearer admintok"})
    assert response.status == 500
    received, panic = audited.new_events()
    assert (received["stage"], panic["stage"]) == ("RequestReceived", "Panic")
    assert panic["responseStatus"]["message"] == "APIServer panic'd: RuntimeError: broken"


async def test_levels_and_events_are_counted(audited: Audited) -> None:
    await audited.send("GET", "/version", {"Authorization": "Bearer bobtok"})
    response = await audited.send("GET", "/metrics", {"Authorization": "Bearer admintok"})
    samples = {
        (sample.name, sample.labels.get("level", "")): sample.value
        for family in text_string_to_metric_families(response.body.decode())
        for sample in family.samples
        if sample.name.startswith("apiserver_audit_")
    }
    assert samples["apiserver_audit_level_total", "Metadata"] >= 2
    assert samples["apiserver_audit_event_total", ""] >= 3
    assert samples["apiserver_audit_requests_rejected_total", ""] == 0
