"""Authorization webhooks: AuthorizationConfiguration with match conditions, and the mode webhook."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from tests.controlplane.access.https_peer import HTTPSPeer

from kubewright.api.core import v1 as core
from kubewright.api.errors import Forbidden
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.controlplane import ControlPlane
from kubewright.controlplane.access import read_authorization_settings
from kubewright.controlplane.configuration.config_file import ConfigFileError

USER = User("ada", ("dev", "system:authenticated"))


class Webhook(HTTPSPeer):
    """Allows reading, denies Secrets, and counts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.reviews: list[dict[str, Any]] = []
        self.broken = False
        self.add("/authorize", self._authorize)

    async def _authorize(self, request: web.Request) -> web.Response:
        if self.broken:
            return web.Response(status=500)
        review = await request.json()
        self.reviews.append(review["spec"])
        resource = review["spec"].get("resourceAttributes") or {}
        status: dict[str, Any] = {"allowed": resource.get("verb") in ("get", "list")}
        if resource.get("resource") == "secrets":
            status = {"allowed": False, "denied": True, "reason": "secrets are private"}
        return web.json_response({**review, "status": status})


@pytest.fixture
async def webhook(tmp_path: Path) -> AsyncIterator[Webhook]:
    async with Webhook(tmp_path).serve() as found:
        assert isinstance(found, Webhook)
        yield found


def config(webhook: HTTPSPeer, folder: Path, **changes: Any) -> Path:
    declared = {
        "timeout": "30s",
        "authorizedTTL": "5m",
        "unauthorizedTTL": "30s",
        "subjectAccessReviewVersion": "v1",
        "matchConditionSubjectAccessReviewVersion": "v1",
        "failurePolicy": "NoOpinion",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": str(webhook.kubeconfig("/authorize"))},
        **changes,
    }
    document = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthorizationConfiguration",
        "authorizers": [
            {"type": "Webhook", "name": "peer", "webhook": declared},
            {"type": "RBAC", "name": "rbac"},
        ],
    }
    path = folder / "authorization.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


async def test_the_webhook_decides(webhook: Webhook, tmp_path: Path) -> None:
    path = config(webhook, tmp_path)
    async with ControlPlane(port=None, controllers=False, authorization_config=path) as plane:
        client = plane.client(user=USER)
        await client.list(core.ConfigMap)
        await client.list(core.ConfigMap)
        assert len(webhook.reviews) == 1, "decisions are cached"
        assert webhook.reviews[0]["user"] == "ada"
        with pytest.raises(Forbidden, match="secrets are private"):
            await client.list(core.Secret)
        with pytest.raises(Forbidden):
            await client.delete(core.ConfigMap, "a")
        # Administrators are not asked about.
        asked = len(webhook.reviews)
        await plane.client().list(core.Secret)
        assert len(webhook.reviews) == asked


async def test_match_conditions_select_requests(webhook: Webhook, tmp_path: Path) -> None:
    conditions = [
        {"expression": "has(request.resourceAttributes)"},
        {"expression": "request.resourceAttributes.namespace != 'open'"},
        {"expression": "!('ops' in request.groups)"},
    ]
    path = config(webhook, tmp_path, matchConditions=conditions)
    async with ControlPlane(port=None, controllers=False, authorization_config=path) as plane:
        await plane.client(user=USER).list(core.ConfigMap)
        assert len(webhook.reviews) == 1
        with pytest.raises(Forbidden):
            await plane.client(user=USER).list(core.ConfigMap, namespace="open")
        with pytest.raises(Forbidden):
            await plane.client(user=User("bob", ("ops", "system:authenticated"))).list(core.ConfigMap)
        assert len(webhook.reviews) == 1, "the webhook is not called"


@pytest.mark.parametrize(("policy", "allowed"), [("NoOpinion", True), ("Deny", False)])
async def test_failure_policy(webhook: Webhook, tmp_path: Path, policy: str, allowed: bool) -> None:
    path = config(webhook, tmp_path, failurePolicy=policy)
    webhook.broken = True
    async with ControlPlane(port=None, controllers=False, authorization_config=path) as plane:
        # RBAC allows every authenticated user to read the version.
        response = await plane.server.handle(HTTPRequest("GET", "/version", user=USER))
        assert response.status == (200 if allowed else 403)


async def test_mode_webhook(webhook: Webhook) -> None:
    file = webhook.kubeconfig("/authorize")
    async with ControlPlane(
        port=None, controllers=False, auth="webhook,rbac", authorization_webhook_config_file=file
    ) as plane:
        await plane.client(user=USER).list(core.ConfigMap)
        assert len(webhook.reviews) == 1


def test_mode_and_file_require_each_other(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="require each other"):
        read_authorization_settings("webhook")
    with pytest.raises(ValueError, match="require each other"):
        read_authorization_settings("rbac", None, tmp_path / "none")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"timeout": "60s"}, r"authorizers\[0\].webhook.timeout: at most 30s"),
        ({"failurePolicy": "Maybe"}, "failurePolicy"),
        ({"connectionInfo": {"type": "InClusterConfig"}}, "only KubeConfigFile"),
        ({"connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "/none"}}, "kubeConfigFile: .*none"),
        ({"matchConditions": [{"expression": "request.unknown"}]}, r"matchConditions\[0\].expression"),
        ({"matchConditions": [{"expression": "1"}]}, r"matchConditions\[0\].expression"),
    ],
)
async def test_invalid_configurations_name_the_field(
    webhook: Webhook, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigFileError, match=message):
        read_authorization_settings("rbac", config(webhook, tmp_path, **change))


class SlowWebhook(Webhook):
    """Responds when `release` is set."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.received, self.release = asyncio.Event(), asyncio.Event()

    async def _authorize(self, request: web.Request) -> web.Response:
        self.received.set()
        await self.release.wait()
        return await super()._authorize(request)


async def test_requests_that_wait_for_the_webhook_finish_before_a_stop(tmp_path: Path) -> None:
    async with SlowWebhook(tmp_path).serve() as webhook:
        assert isinstance(webhook, SlowWebhook)
        path = config(webhook, tmp_path, timeout="30s")
        async with ControlPlane(port=None, controllers=False, authorization_config=path) as plane:
            request = asyncio.ensure_future(plane.client(user=USER).list(core.ConfigMap))
            await webhook.received.wait()
            stopping = asyncio.create_task(plane.stop())
            while not plane.server.stopping:
                await asyncio.sleep(0)
            webhook.release.set()
            await request
            await stopping
