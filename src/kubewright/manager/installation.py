"""Installs CRDs and webhook configurations during development.

In production they come from the generated manifests. In development the operator applies them itself: it
waits until CRDs are established, and registers webhooks with the address of this process, so that an operator
on a laptop serves webhooks of a control plane on the same machine.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kubewright.api.declarations import Webhook, WebhookConfiguration, resource_info, webhook_path
from kubewright.api.errors import APIError, Forbidden, NotFound, Unauthorized
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured
from kubewright.client.errors import NoKindMatch
from kubewright.client.wait import condition
from kubewright.manifests import crd, webhook_configurations

if TYPE_CHECKING:
    from kubewright.client import Client


class InstallationError(Exception):
    """The API server rejected a CRD or webhook configuration; the message contains alternatives."""


_DEFINITION = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


async def install_definitions(
    client: Client,
    kinds: Sequence[type[MetaObject]],
    *,
    conversion_url: str = "",
    ca_bundle: bytes = b"",
    timeout: float = 30.0,
) -> list[str]:
    """Apply the CRDs of kinds, with all versions, and wait until they are served; return their names."""
    client = client if client.options.field_owner else client.with_field_owner("kubewright")
    names = []
    by_kind = sorted(dict.fromkeys(kinds), key=lambda kind: str(resource_info(kind).gvk.group_kind))
    for _, versions in groupby(by_kind, key=lambda kind: resource_info(kind).gvk.group_kind):
        manifest = crd(*versions)
        conversion = manifest["spec"].get("conversion") or {}
        if conversion_url and conversion.get("strategy") == "Webhook":
            conversion["webhook"]["clientConfig"] = _client_config(f"{conversion_url}/convert", ca_bundle)
        names.append(manifest["metadata"]["name"])
        await _apply(client, manifest)
    for name in names:
        await client.wait(_DEFINITION, name, until=condition("Established"), timeout=timeout)
    async with asyncio.timeout(timeout):
        for kind in by_kind:
            if resource_info(kind).served and not resource_info(kind).deprecated:
                await _wait_until_served(client, kind)
    return names


async def _wait_until_served(client: Client, kind: type[MetaObject]) -> None:
    """Wait until a kind is served: kube-apiserver sets `Established` shortly before that."""
    while True:
        try:
            client.mapper.invalidate()
            await client.mapper.resource_for(resource_info(kind).gvk)
            async for _ in client.list(kind, limit=1):
                return
            return
        except (NotFound, NoKindMatch):
            await asyncio.sleep(0.05)
        except APIError:  # for example a conversion webhook that does not run yet: the kind is served
            return


async def install_webhooks(
    client: Client, name: str, webhooks: Sequence[Webhook], *, url: str, ca_bundle: bytes
) -> list[str]:
    """Apply configurations for webhooks at `url`, verified with `ca_bundle`; return their names."""
    bundle = base64.b64encode(ca_bundle).decode()
    local = [
        replace(
            each, url=f"{url}{each.path or _path(each)}", ca_bundle=bundle, failure_policy=each.failure_policy
        )
        for each in webhooks
    ]
    named = [
        WebhookConfiguration(mutating, f"{name}-{'mutating' if mutating else 'validating'}")
        for mutating in (True, False)
    ]
    applied = []
    for manifest in webhook_configurations(local, named):
        for each in manifest["webhooks"]:
            each["clientConfig"]["caBundle"] = bundle
        await _apply(client, manifest)
        applied.append(manifest["metadata"]["name"])
    return applied


async def remove_webhooks(client: Client, name: str, *, url: str) -> None:
    """Delete the configurations of `install_webhooks`, unless they contain another URL by now.

    A remaining configuration would make the API server call a closed port and reject every write.
    """
    for word in ("Mutating", "Validating"):
        kind = GroupVersionKind("admissionregistration.k8s.io", "v1", f"{word}WebhookConfiguration")
        try:
            found = await client.get(kind, f"{name}-{word.lower()}")
            if all(
                str(each["clientConfig"].get("url", "")).startswith(f"{url}/") for each in found["webhooks"]
            ):
                await client.delete(found, missing_ok=True)
        except NotFound:
            continue


async def _apply(client: Client, manifest: dict[str, Any]) -> None:
    """Apply an object. Raises `InstallationError` if the API server rejects it."""
    try:
        await client.apply(Unstructured(manifest), force=True)
    except Unauthorized:
        raise
    except APIError as error:
        what = f"{manifest['kind']} {manifest['metadata']['name']}"
        advice = "use credentials with this permission" if isinstance(error, Forbidden) else "fix the error"
        raise InstallationError(
            f"cannot install {what}: {error}; {advice}, or apply the output of `kubewright manifests` and "
            "run with --production"
        ) from error


def _path(webhook: Webhook) -> str:
    assert webhook.of is not None
    return webhook_path(resource_info(webhook.of).gvk, mutating=webhook.mutating)


def _client_config(url: str, ca_bundle: bytes) -> dict[str, Any]:
    return {"url": url, "caBundle": base64.b64encode(ca_bundle).decode()}
