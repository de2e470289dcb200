"""Deletion of unused tokens of service accounts (`legacy-serviceaccount-token-cleaner-controller`).

Once a day, tokens that Kubernetes generated before 1.24 and that were not used for a year are labelled as
invalid, and deleted after another year. A token in use by a pod is kept.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from kubewright.api.core.v1 import ConfigMap, Pod, Secret, ServiceAccount
from kubewright.api.errors import Conflict
from kubewright.api.meta import Preconditions
from kubewright.client import patches
from kubewright.runnable import BaseRunnable
from kubewright.workloads.component_manager import ComponentManager

LAST_USED = "kubernetes.io/legacy-token-last-used"
INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"
TRACKING = "kube-apiserver-legacy-service-account-token-tracking"
TOKEN_TYPE = "kubernetes.io/service-account-token"  # noqa: S105
SYNC_SECONDS = 86_400.0
CLEANUP_PERIOD = timedelta(days=365)


def add_legacy_token_cleaner_controller(manager: ComponentManager) -> None:
    """Add the component that deletes unused tokens once a day."""
    manager.add(LegacyTokenCleaner(manager))


class LegacyTokenCleaner(BaseRunnable):
    """A runnable of the manager."""

    name = "legacy-serviceaccount-token-cleaner-controller"

    def __init__(self, manager: ComponentManager, *, cleanup_period: timedelta = CLEANUP_PERIOD) -> None:
        self._manager = manager
        self._client = manager.client.uncached
        self._period = cleanup_period

    async def run(self, stop: asyncio.Event) -> None:
        """Delete unused tokens once a day until `stop` is set."""
        while not stop.is_set():
            await self.clean()
            try:
                async with asyncio.timeout(SYNC_SECONDS):
                    await stop.wait()
            except TimeoutError:
                continue

    async def clean(self) -> None:
        """Label or delete the tokens that have not been used."""
        now = self._manager.now()
        tracked = await self._client.get_or_none(ConfigMap, TRACKING, namespace="kube-system")
        since = _date(((tracked.data if tracked is not None else None) or {}).get("since", ""))
        if since is None or now < since + timedelta(days=1) + self._period:
            return
        limit = now - self._period
        async for secret in self._client.list(Secret, namespace="*", fields={"type": TOKEN_TYPE}):
            created = secret.metadata.creation_timestamp
            if secret.metadata.deletion_timestamp is not None or created is None or created >= limit:
                continue
            labels = secret.metadata.labels or {}
            used = labels.get(LAST_USED)
            if used is not None and (_date(used) is None or used >= f"{limit:%Y-%m-%d}"):
                continue
            if await self._is_generated(secret) and not await self._is_mounted(secret):
                await self._invalidate(secret, labels.get(INVALID_SINCE, ""), now, limit)

    async def _is_generated(self, secret: Secret) -> bool:
        """Whether the service account of a token lists it, as those of generated tokens do."""
        annotations = secret.metadata.annotations or {}
        name, uid = annotations.get(ACCOUNT_NAME, ""), annotations.get(ACCOUNT_UID, "")
        if not name:
            return False
        account = await self._client.get_or_none(ServiceAccount, name, namespace=secret.namespace)
        if account is None or (uid and uid != account.metadata.uid):
            return False
        return any(each.name == secret.name for each in account.secrets or ())

    async def _is_mounted(self, secret: Secret) -> bool:
        needle = f'"{secret.name}"'.encode()
        page = await self._client.list_raw(Pod, namespace=secret.namespace)
        return any(needle in bytes(raw) for raw in page.items)

    async def _invalidate(self, secret: Secret, since: str, now: datetime, limit: datetime) -> None:
        if _date(since) is None:
            change = {"metadata": {"uid": secret.metadata.uid, "labels": {INVALID_SINCE: f"{now:%Y-%m-%d}"}}}
            await self._client.patch(
                Secret, secret.name, patches.merge_patch(change), namespace=secret.namespace
            )
        elif since < f"{limit:%Y-%m-%d}":
            version = Preconditions(resource_version=secret.metadata.resource_version)
            try:
                await self._client.delete(secret, preconditions=version, missing_ok=True)
            except Conflict:
                return


def _date(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return None
