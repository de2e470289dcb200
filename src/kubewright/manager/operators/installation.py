"""Installs CRDs and webhook configurations during development.

In production they come from the generated manifests. In development the operator applies them itself: it
waits until CRDs are established, and registers webhooks with the address of this process, so that an operator
on a laptop serves webhooks of a control plane on the same machine.

A CRD that another program installed is not changed unless it is adopted explicitly, and no change removes
fields of stored objects (`crd_checks`).
"""

from __future__ import annotations

import asyncio
import base64
import functools
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from kubewright.api.declaring.declarations import Webhook, WebhookConfiguration, resource_info, webhook_path
from kubewright.api.errors import APIError, Forbidden, NotFound, Unauthorized
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured
from kubewright.client.errors import NoKindMatch

from .crd_checks import OWNER_ANNOTATION, installer_of, is_installed_by, removed_by

if TYPE_CHECKING:
    from kubewright.client import Client


logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_OWNER = "kubewright"
"""Owner of CRDs that are installed with a client without a field manager."""


class InstallationError(Exception):
    """The API server rejected a CRD or webhook configuration; the message contains alternatives."""


installing: ContextVar[bool] = ContextVar("kubewright_installing", default=False)
"""Whether the current task sends requests of development, for which the operator has no RBAC rules."""

_DEFINITION = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


def _as_installation(function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
    """Set `installing` during calls of a coroutine function."""

    @functools.wraps(function)
    async def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        token = installing.set(True)
        try:
            return await function(*args, **kwargs)
        finally:
            installing.reset(token)

    return wrapper


@dataclass(frozen=True, slots=True)
class InstallationPlan:
    """What development would install in a cluster, by name."""

    new: tuple[str, ...] = ()
    """CRDs that do not exist yet."""
    existing: tuple[str, ...] = ()
    """CRDs that this operator installed before."""
    foreign: tuple[str, ...] = ()
    """CRDs that another program installed."""
    webhooks: tuple[str, ...] = ()
    """Webhook configurations, which are removed when the operator stops."""

    @property
    def is_first(self) -> bool:
        """Whether this operator has not installed anything before that is still there."""
        return bool(self.new or (self.webhooks and not self.existing and not self.foreign))


async def plan_installation(
    client: Client, kinds: Sequence[type[MetaObject]], webhooks: Sequence[Webhook]
) -> InstallationPlan:
    """Return what `install_definitions` and `install_webhooks` would install; nothing is changed.

    The operator is the field manager of the client.
    """
    owner = client.options.field_manager or DEFAULT_OWNER
    new: list[str] = []
    existing: list[str] = []
    foreign: list[str] = []
    for manifest in definitions_of(kinds):
        name = manifest["metadata"]["name"]
        stored = await _find(client, name)
        names = new if stored is None else existing if is_installed_by(stored, owner) else foreign
        names.append(name)
    configurations = [
        f"{owner}-{'mutating' if mutating else 'validating'}"
        for mutating in (True, False)
        if any(each.mutating is mutating for each in webhooks)
    ]
    return InstallationPlan(tuple(new), tuple(existing), tuple(foreign), tuple(configurations))


async def is_kubewright(client: Client) -> bool:
    """Whether the API server is a control plane of Kubewright, according to its version."""
    return (await client.version()).get("gitCommit") == "kubewright"


@_as_installation
async def install_definitions(
    client: Client,
    kinds: Sequence[type[MetaObject]],
    *,
    adopt: bool = False,
    allow_data_loss: bool = False,
    conversion_url: str = "",
    ca_bundle: bytes = b"",
    timeout: float = 30.0,
) -> list[str]:
    """Apply the CRDs of kinds, with all versions, and wait until they are served; return their names.

    The field manager of the client is the owner of the CRDs. Raises `InstallationError` if a CRD of another
    owner would be changed, unless `adopt` is set; if stored objects would lose fields, unless
    `allow_data_loss` is set; or if the API server rejects the CRD or its names.
    """
    client = client if client.options.field_manager else client.with_field_manager(DEFAULT_OWNER)
    names = []
    for manifest in definitions_of(kinds):
        conversion = manifest["spec"].get("conversion") or {}
        if conversion_url and conversion.get("strategy") == "Webhook":
            conversion["webhook"]["clientConfig"] = _client_config(f"{conversion_url}/convert", ca_bundle)
        names.append(manifest["metadata"]["name"])
        await _install_definition(client, manifest, adopt=adopt, allow_data_loss=allow_data_loss)
    for name in names:
        await _wait_until_established(client, name, timeout)
    async with asyncio.timeout(timeout):
        for kind in kinds:
            if resource_info(kind).served and not resource_info(kind).deprecated:
                await _wait_until_served(client, kind)
    return names


def definitions_of(kinds: Sequence[type[MetaObject]]) -> Iterator[dict[str, Any]]:
    """Return the CRDs of kinds, each with all of its versions."""
    from kubewright.manifests import crd  # only during development

    by_kind = sorted(dict.fromkeys(kinds), key=lambda kind: str(resource_info(kind).gvk.group_kind))
    for _, versions in groupby(by_kind, key=lambda kind: resource_info(kind).gvk.group_kind):
        yield crd(*versions)


async def _find(client: Client, name: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = (await client.get(_DEFINITION, name)).raw
    except NotFound:
        return None
    return found


async def _install_definition(
    client: Client, manifest: dict[str, Any], *, adopt: bool, allow_data_loss: bool
) -> None:
    """Apply a CRD that does not exist, that this owner installed, or that it adopts."""
    name, owner = manifest["metadata"]["name"], client.options.field_manager
    manifest["metadata"].setdefault("annotations", {})[OWNER_ANNOTATION] = owner
    stored = await _find(client, name)
    if stored is not None:
        planned = (await _apply(client, manifest, dry_run=True)).raw
        owned = is_installed_by(stored, owner)
        if planned["spec"] == stored["spec"] and (owned or not adopt):
            return
        if not owned and not adopt:
            raise InstallationError(
                f"CRD {name} was installed by {installer_of(stored)}, and its schema differs from the "
                f"declared one; declare the kind with @resource(..., external=True) to use it as it is, or "
                "adopt and replace it with --adopt-crds"
            )
        removed = [] if allow_data_loss else removed_by(stored, planned)
        if removed and await _has_objects(client, stored):
            more = f" and {len(removed) - 3} more" if len(removed) > 3 else ""
            raise InstallationError(
                f"CRD {name}: the new schema removes {', '.join(removed[:3])}{more}, and stored objects "
                f"would lose data; declare it, or delete the objects first: "
                f"kubectl delete {name} --all --all-namespaces"
            )
    await _apply(client, manifest)


async def _has_objects(client: Client, definition: dict[str, Any]) -> bool:
    spec = definition["spec"]
    for version in spec["versions"]:
        if version.get("served"):
            kind = GroupVersionKind(spec["group"], version["name"], spec["names"]["kind"])
            try:
                async for _ in client.list(kind, limit=1):
                    return True
                return False
            except (NotFound, NoKindMatch):
                return False
            except APIError:  # for example a conversion webhook that does not run: there can be objects
                return True
    return False


async def _wait_until_established(client: Client, name: str, timeout: float) -> None:
    """Wait until a CRD is established. Raises `InstallationError` if its names conflict with another CRD."""
    decided = await client.wait(
        _DEFINITION,
        name,
        until=lambda obj: (
            _condition(obj, "Established") == "True" or _condition(obj, "NamesAccepted") == "False"
        ),
        timeout=timeout,
    )
    accepted = next(_conditions(decided, "NamesAccepted"), {})
    if accepted.get("status") != "False":
        return
    message = f"{accepted.get('reason')}: {accepted.get('message')}"
    if _condition(decided, "Established") == "True":
        logger.warning("names of CRD not accepted", extra={"crd": name, "error": message})
        return
    raise InstallationError(
        f"CRD {name} is not served because its names are not accepted ({message}); choose another kind=, "
        "plural= or short_names=, or delete the other CRD"
    )


def _conditions(obj: Any, type_: str) -> Iterator[dict[str, Any]]:
    raw = obj.raw if obj is not None else {}
    return (each for each in (raw.get("status") or {}).get("conditions") or () if each["type"] == type_)


def _condition(obj: Any, type_: str) -> str:
    """Return the status of a condition, or an empty string."""
    return str(next(_conditions(obj, type_), {}).get("status", ""))


async def _wait_until_served(client: Client, kind: type[MetaObject]) -> None:
    """Wait until a kind is served: kube-apiserver sets `Established` shortly before that."""
    gvk = resource_info(kind).gvk
    while True:
        try:
            client.mapper.invalidate()
            await client.mapper.resource_for(gvk)
            async for _ in client.list(gvk, limit=1):  # untyped: a stored object may not match the class
                return
            return
        except (NotFound, NoKindMatch):
            await asyncio.sleep(0.05)
        except APIError:  # for example a conversion webhook that does not run yet: the kind is served
            return


async def require_served(client: Client, kinds: Iterable[type[MetaObject]]) -> None:
    """Raise `InstallationError` for a kind that the API server does not serve."""
    for kind in kinds:
        assert kind.gvk is not None
        try:
            await client.mapper.resource_for(kind.gvk)
        except NoKindMatch as error:
            raise InstallationError(
                f"{str(error).removesuffix('; install its CRD')}; the operator needs this kind and does not "
                "install it: install its CRD first"
            ) from None


@_as_installation
async def install_webhooks(
    client: Client, name: str, webhooks: Sequence[Webhook], *, url: str, ca_bundle: bytes
) -> list[str]:
    """Apply configurations for webhooks at `url`, verified with `ca_bundle`; return their names."""
    from kubewright.manifests import webhook_configurations

    bundle = base64.b64encode(ca_bundle).decode()
    local = [
        replace(each, path="", url=f"{url}{each.path or _path(each)}", ca_bundle=bundle) for each in webhooks
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


@_as_installation
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


async def _apply(client: Client, manifest: dict[str, Any], *, dry_run: bool = False) -> Unstructured:
    """Apply an object. Raises `InstallationError` if the API server rejects it."""
    try:
        return await client.apply(Unstructured(manifest), force=True, dry_run=dry_run)
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
