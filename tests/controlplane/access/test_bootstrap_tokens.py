"""Bootstrap tokens of Secrets in kube-system."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controlplane.access.test_authentication_config import whoami
from tests.controlplane.path_client import PathClient

from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane import ControlPlane

SECRETS = "/api/v1/namespaces/kube-system/secrets"
TOKEN = "abcdef.0123456789abcdef"
VALID = {
    "token-id": "abcdef",
    "token-secret": "0123456789abcdef",
    "usage-bootstrap-authentication": "true",
    "expiration": "2999-01-01T00:00:00Z",
    "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
}


async def review(data: dict[str, Any], token: str = TOKEN, **fields: Any) -> tuple[int, dict[str, Any]]:
    async with ControlPlane(port=None, controllers=False, bootstrap_token_auth=True) as plane:
        client = PathClient(plane.server, SYSTEM)
        secret = {"metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token"}
        await client.create(SECRETS, {**secret, "stringData": data, **fields})
        return await whoami(plane, token)


async def test_a_valid_token() -> None:
    status, found = await review(VALID)
    assert status == 201
    assert found["userInfo"] == {
        "username": "system:bootstrap:abcdef",
        "groups": [
            "system:bootstrappers",
            "system:bootstrappers:kubeadm:default-node-token",
            "system:authenticated",
        ],
    }


@pytest.mark.parametrize(
    ("data", "token"),
    [
        ({**VALID, "expiration": "2001-01-01T00:00:00Z"}, TOKEN),
        ({**VALID, "expiration": "tomorrow"}, TOKEN),
        ({**VALID, "usage-bootstrap-authentication": "false"}, TOKEN),
        ({**VALID, "token-id": "fedcba"}, TOKEN),
        ({**VALID, "auth-extra-groups": "system:masters"}, TOKEN),
        (VALID, "abcdef.0123456789abcdeF"),
        (VALID, "abcdef.fedcba9876543210"),
        (VALID, "fedcba.0123456789abcdef"),
    ],
)
async def test_invalid_tokens(data: dict[str, Any], token: str) -> None:
    assert (await review(data, token))[0] == 401


async def test_other_secrets_and_servers_without_the_option() -> None:
    assert (await review(VALID, type="Opaque"))[0] == 401
    async with ControlPlane(port=None, controllers=False) as plane:
        assert (await whoami(plane, TOKEN))[0] == 401
