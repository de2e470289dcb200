"""Audit events of an app: for a function and in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubewright import APIServerApp, Client, CustomResource, ObjectMeta, Spec, resource
from kubewright.apiserver.audit import AuditEvent
from kubewright.extension import serve_app
from kubewright.manager.operators.settings import SettingsError
from kubewright.testing import RunningApp

pytestmark = pytest.mark.control_plane(controllers=False)

POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  verbs: [create]
  resources: [{group: letters.example.com}]
- level: None
"""


@resource(group="letters.example.com", version="v1")
class Letter(CustomResource[Spec, None]):
    """A letter."""


def letter(name: str) -> Letter:
    return Letter(metadata=ObjectMeta(name=name, namespace="default"), spec=Spec())


def mailbox() -> tuple[APIServerApp, list[AuditEvent]]:
    app, events = APIServerApp("mailbox"), []
    app.add(Letter)

    @app.audit
    async def record(event: AuditEvent) -> None:
        events.append(event)
        if event.verb == "delete":
            raise ValueError("the function fails")

    return app, events


async def test_a_function_receives_events(client: Client, running_app: RunningApp) -> None:
    app, events = mailbox()
    await running_app(app)
    events.clear()
    await client.create(letter("a"))
    await client.delete(Letter, "a", namespace="default")  # the request does not fail with the function
    written = [each for each in events if each.verb in ("create", "delete")]
    assert [(each.verb, each.stage, each.user["username"]) for each in written] == [
        ("create", "ResponseComplete", "kubernetes-admin"),
        ("delete", "ResponseComplete", "kubernetes-admin"),
    ]
    created = written[0]
    assert created.object_ref is not None
    assert (created.object_ref.resource, created.object_ref.namespace) == ("letters", "default")
    assert created.response_status == {"metadata": {}, "code": 201}
    assert created.request_object is None
    assert created.audit_id


async def test_a_policy_and_a_log(client: Client, running_app: RunningApp, tmp_path: Path) -> None:
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(POLICY)
    app, events = mailbox()
    await running_app(app, audit_policy=str(policy), audit_log=str(log))
    await client.create(letter("a"))
    await client.get(Letter, "a", namespace="default")
    (line,) = log.read_text().splitlines()
    event = json.loads(line)
    assert (event["level"], event["requestObject"]["metadata"]["name"]) == ("Request", "a")
    assert [each.verb for each in events] == ["create"]


async def test_a_wrong_policy_is_an_error(tmp_path: Path) -> None:
    app, _ = mailbox()
    app.settings.audit_policy = str(tmp_path / "missing.yaml")
    with pytest.raises(SettingsError, match=r"missing\.yaml"):
        async with serve_app(app, None):
            pass
