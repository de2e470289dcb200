"""Reload of the authentication and authorization configurations while the server runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from tests.controlplane.access import test_authentication_config as authentication
from tests.controlplane.access import test_authorization_config as authorization
from tests.controlplane.access.test_authentication_config import Issuer, whoami
from tests.controlplane.access.test_authorization_config import USER, Webhook

from kubewright.api.core import v1 as core
from kubewright.api.errors import Forbidden
from kubewright.controlplane import ControlPlane
from kubewright.controlplane.configuration import config_reload


@pytest.fixture(autouse=True)
def check_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_reload, "INTERVAL", 3600.0)


def last_error(caplog: pytest.LogCaptureFixture) -> str:
    """The error of the last reload that has failed."""
    failed = [each for each in caplog.records if each.getMessage().startswith("cannot reload configuration")]
    return str(failed[-1].__dict__["error"])


@pytest.fixture
async def issuer(tmp_path: Path) -> AsyncIterator[Issuer]:
    async with Issuer(tmp_path).serve() as found:
        assert isinstance(found, Issuer)
        yield found


@pytest.fixture
async def webhook(tmp_path: Path) -> AsyncIterator[Webhook]:
    async with Webhook(tmp_path).serve() as found:
        assert isinstance(found, Webhook)
        yield found


async def test_issuers_and_mappings_change(
    issuer: Issuer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = authentication.write(tmp_path / "authentication.yaml", jwt=[])
    async with ControlPlane(port=None, controllers=False, authentication_config=path) as plane:
        reloader = plane.reloaders["authentication"]
        assert (await whoami(plane, issuer.token()))[0] == 401
        authentication.config(issuer, tmp_path)
        assert await reloader.check()
        assert issuer.fetches == 1, "the keys are fetched before the configuration is used"
        assert (await whoami(plane, issuer.token()))[1]["userInfo"]["username"] == "idp:ada"
        # Another issuer does not respond: the present one stays in use.
        document = yaml.safe_load(path.read_text())
        document["jwt"][0]["issuer"]["url"] = "https://127.0.0.1:1"
        path.write_text(yaml.safe_dump(document))
        assert not await reloader.check()
        authentication.write(path, jwt=[], anonymous={"enabled": False})
        assert not await reloader.check()
        assert "anonymous: it has changed" in last_error(caplog)
        assert (await whoami(plane, issuer.token()))[0] == 201
        mappings = {"username": {"claim": "sub", "prefix": "new:"}}
        authentication.config(issuer, tmp_path, claimMappings=mappings)
        assert await reloader.check()
        assert (await whoami(plane, issuer.token()))[1]["userInfo"]["username"] == "new:ada"
        assert reloader.metrics.counts == {"success": 2, "failure": 2}


async def test_webhooks_change_and_other_authorizers_stay(
    webhook: Webhook, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = authorization.config(webhook, tmp_path)
    async with ControlPlane(port=None, controllers=False, authorization_config=path) as plane:
        reloader = plane.reloaders["authorization"]
        client = plane.client(user=USER)
        await client.list(core.ConfigMap, namespace="default")
        document = yaml.safe_load(path.read_text())
        webhook_entry, rbac = document["authorizers"]
        for authorizers, message in (
            ([webhook_entry], "missing required types: rbac"),
            ([rbac, {"type": "Node", "name": "node"}], "node: not in the initial configuration file"),
        ):
            path.write_text(yaml.safe_dump({**document, "authorizers": authorizers}))
            assert not await reloader.check()
            assert message in last_error(caplog)
        await client.list(core.ConfigMap, namespace="default")
        path.write_text(yaml.safe_dump({**document, "authorizers": [rbac]}))
        assert await reloader.check()
        with pytest.raises(Forbidden):
            await client.list(core.ConfigMap, namespace="default")
        assert reloader.metrics.counts == {"success": 1, "failure": 2}
