"""Puts into a cluster what an operator needs there: definitions and webhook configurations.

In production that is what the generated manifests are for. During development the same is done from the
running program: definitions are applied and waited for, and webhooks are called at the address where this
process listens, so that a program on a laptop serves webhooks of the control plane beside it.
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
    """The cluster did not take what the operator needs there; the message says what to do instead."""


_DEFINITION = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


async def install_definitions(
    client: Client,
    kinds: Sequence[type[MetaObject]],
    *,
    convert_at: str = "",
    authority: bytes = b"",
    timeout: float = 30.0,
) -> list[str]:
    """Apply the definitions of kinds, all versions of one together, and wait until they are served."""
    client = client if client.options.field_owner else client.with_field_owner("kubewright")
    names = []
    by_kind = sorted(dict.fromkeys(kinds), key=lambda kind: str(resource_info(kind).gvk.group_kind))
    for _, versions in groupby(by_kind, key=lambda kind: resource_info(kind).gvk.group_kind):
        manifest = crd(*versions)
        conversion = manifest["spec"].get("conversion") or {}
        if convert_at and conversion.get("strategy") == "Webhook":
            conversion["webhook"]["clientConfig"] = _client_config(f"{convert_at}/convert", authority)
        names.append(manifest["metadata"]["name"])
        await _apply(client, manifest)
    for name in names:
        await client.wait(_DEFINITION, name, until=condition("Established"), timeout=timeout)
    async with asyncio.timeout(timeout):
        for kind in by_kind:
            if resource_info(kind).served and not resource_info(kind).deprecated:
                await _answered(client, kind)
    return names


async def _answered(client: Client, kind: type[MetaObject]) -> None:
    """Wait until a kind is found and served: a kube-apiserver says `Established` a moment before that."""
    while True:
        try:
            client.mapper.invalidate()
            await client.mapper.resource_for(resource_info(kind).gvk)
            async for _ in client.list(kind, limit=1):
                return
            return
        except (NotFound, NoKindMatch):
            await asyncio.sleep(0.05)
        except APIError:  # such as a conversion that cannot be done yet: it is served
            return


async def install_webhooks(
    client: Client, name: str, webhooks: Sequence[Webhook], *, url: str, authority: bytes
) -> list[str]:
    """Have the API server call these webhooks at `url`, trusting `authority`."""
    bundle = base64.b64encode(authority).decode()
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
    """Take back what `install_webhooks` did, unless somebody else serves these webhooks by now.

    Otherwise the API server would go on calling an address where nobody answers, and refuse every write.
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
    """Apply an object as the program declares it; a refusal says how to go on without."""
    try:
        await client.apply(Unstructured(manifest), force=True)
    except Unauthorized:
        raise
    except APIError as error:
        what = f"{manifest['kind']} {manifest['metadata']['name']}"
        advice = "run as somebody who may do that, or" if isinstance(error, Forbidden) else "mend it, or"
        raise InstallationError(
            f"development installs {what}, and the server refuses: {error}; {advice} install the output of "
            "`kubewright manifests` yourself and run with --production"
        ) from error


def _path(webhook: Webhook) -> str:
    assert webhook.of is not None
    return webhook_path(resource_info(webhook.of).gvk, mutating=webhook.mutating)


def _client_config(url: str, authority: bytes) -> dict[str, Any]:
    return {"url": url, "caBundle": base64.b64encode(authority).decode()}
