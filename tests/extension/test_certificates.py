"""Serving certificates of an app outside of development."""

from __future__ import annotations

import ssl

import pytest

from kubewright import ObjectMeta
from kubewright.api.apiregistration.v1 import APIService
from kubewright.api.core.v1 import Secret, Service, ServicePort, ServiceSpec
from kubewright.client import condition
from kubewright.testing import TestServer, run_app

from .ovens import GROUP, OvenV1, kitchen


@pytest.mark.control_plane(controllers=False)
async def test_managed_certificates_and_their_ca_bundle(
    control_plane: TestServer, reserved_port: int
) -> None:
    client, port = control_plane.client(), reserved_port
    spec = ServiceSpec(ports=[ServicePort(port=443)])
    await client.create(Service(metadata=ObjectMeta(name="kitchen", namespace="default"), spec=spec))
    control_plane.plane.service_resolver.overrides["kitchen.default"] = f"https://127.0.0.1:{port}"
    async with run_app(
        kitchen(),
        client,
        development=False,
        register=True,
        namespace="default",
        host="127.0.0.1",
        port=port,
    ) as running:
        await client.wait(APIService, f"v1.{GROUP}", until=condition("Available"), timeout=60)
        assert not await client.list(OvenV1)
        service = await client.get(APIService, f"v1.{GROUP}")
        secret = await client.get(Secret, "kitchen-certificates", namespace="default")
        assert service.spec is not None
        assert secret.data is not None
        assert service.spec.ca_bundle == secret.data["ca.crt"]
        assert running.https.certificate.certificate == secret.data["tls.crt"]
        context = ssl.create_default_context(cadata=secret.data["ca.crt"].decode())
        assert context.get_ca_certs()
    # Outside of development, the registration belongs to the manifests and stays.
    assert await client.get(APIService, f"v1.{GROUP}")
