"""The webhook server of an operator, and its registration with the API server during development."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from kubewright.api.declaring.declarations import Webhook, resource_info, webhook_path
from kubewright.api.errors import APIError
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject
from kubewright.client.errors import ConnectionFailed
from kubewright.manager.elections.leader_election import in_cluster_namespace
from kubewright.runnable import BaseRunnable
from kubewright.webhook.admission import Defaulter, Validator
from kubewright.webhook.certificates import (
    CABundleTarget,
    CertificateFiles,
    ManagedCertificates,
    SelfSignedCertificates,
)
from kubewright.webhook.server import CertificateProvider, WebhookServer

from .installation import install_definitions, install_webhooks, remove_webhooks

if TYPE_CHECKING:
    from kubewright.client import Client

    from .operator import Operator

logger = logging.getLogger(__name__)

LOOPBACK, ALL_ADDRESSES = "127.0.0.1", "0.0.0.0"  # noqa: S104 - a pod serves on all of its addresses
WEBHOOK_PORT = 9443


def has_webhooks(operator: Operator) -> bool:
    """Whether an operator serves admission or conversion webhooks."""
    declared = operator.defaults or operator.validators or operator.converters
    return operator.settings.webhooks and bool(declared)


def build_webhook_server(operator: Operator, client: Client) -> WebhookServer:
    """Build the server of the declared webhooks, with the certificates that the settings select."""
    settings = operator.settings
    host = settings.webhook_host or (LOOPBACK if settings.development else ALL_ADDRESSES)
    port = settings.webhook_port or (0 if settings.development else WEBHOOK_PORT)
    server = WebhookServer(_certificates(operator, client, host), host=host, port=port)
    for each in operator.defaults.values():
        server.add_admission(_path(each.webhook, each.kind), Defaulter(each.kind, each.function))
    for each in operator.validators.values():
        validator = Validator(each.kind, each.function, operations=each.webhook.verbs)
        server.add_admission(_path(each.webhook, each.kind), validator)
    for converter in operator.converters:
        server.conversions.add(converter)
    return server


def _certificates(operator: Operator, client: Client, host: str) -> CertificateProvider:
    settings = operator.settings
    if settings.development:
        return SelfSignedCertificates((host, "localhost"))
    if settings.webhook_certificates:
        directory = Path(settings.webhook_certificates)
        return CertificateFiles(directory / "tls.crt", directory / "tls.key")
    namespace = settings.leader_election_namespace or in_cluster_namespace(
        "the namespace of the Secret with the webhook certificates is unknown (use --webhook-certificates "
        "for certificates in files, or --development for self-signed ones)"
    )
    name = settings.webhook_name or operator.name
    service = settings.webhook_service or f"{name}-webhook-service"
    return ManagedCertificates(
        client,
        secret=settings.webhook_secret or f"{name}-webhook-certificates",
        namespace=namespace,
        hosts=(f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local"),
        inject=_ca_bundle_targets(operator),
    )


def _path(webhook: Webhook, kind: type[MetaObject]) -> str:
    assert kind.gvk is not None
    return webhook.path or webhook_path(kind.gvk, mutating=webhook.mutating)


def _ca_bundle_targets(operator: Operator) -> list[CABundleTarget]:
    """Return the webhook configurations and CRDs that contain the CA bundle."""
    name = operator.settings.webhook_name or operator.name
    targets: list[CABundleTarget] = []
    for word, functions in (("Mutating", operator.defaults), ("Validating", operator.validators)):
        if functions:
            kind = GroupVersionKind("admissionregistration.k8s.io", "v1", f"{word}WebhookConfiguration")
            targets.append((kind, f"{name}-{word.lower()}-webhook-configuration"))
    definition = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    for converter in operator.converters:
        info = resource_info(converter.hub)
        targets.append((definition, f"{info.plural}.{info.gvk.group}"))
    return targets


class WebhookRegistration(BaseRunnable):
    """Registers the webhooks of this process with the API server before controllers start (development)."""

    needs_leader = False
    group = "webhooks"
    name = "webhook registration"

    def __init__(self, operator: Operator, client: Client, server: WebhookServer) -> None:
        self._operator = operator
        self._client = client.with_field_manager(operator.name)
        self._server = server
        self._adopt_crds = operator.settings.adopt_crds
        self._registered = asyncio.Event()

    async def wait_until_started(self) -> None:
        """Wait until the webhooks are registered."""
        await self._registered.wait()

    async def run(self, stop: asyncio.Event) -> None:
        """Register the webhooks, and remove them when `stop` is set."""
        listening, stopping = (
            asyncio.create_task(self._server.wait_until_started()),
            asyncio.create_task(stop.wait()),
        )
        try:
            await asyncio.wait([listening, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            listening.cancel()
            stopping.cancel()
        if stop.is_set():
            return
        certificates = self._server.certificates
        assert isinstance(certificates, SelfSignedCertificates)
        url = f"https://{self._server.host}:{self._server.port}"
        ca_bundle = certificates.ca_bundle
        name, webhooks = self._operator.name, self._operator.webhooks()
        await install_webhooks(self._client, name, webhooks, url=url, ca_bundle=ca_bundle)
        await install_definitions(
            self._client,
            self._operator.kinds,
            adopt=self._adopt_crds,
            conversion_url=url,
            ca_bundle=ca_bundle,
        )
        self._registered.set()
        await stop.wait()
        try:
            await remove_webhooks(self._client, name, url=url)
        except (APIError, ConnectionFailed) as error:
            logger.warning(
                "could not remove webhook configurations, the API server will fail to call them",
                extra={"operator": name, "error": str(error)},
            )
