"""Cached discovery and OpenAPI documents of extension API servers.

Aggregated discovery is requested first; servers without it are queried per version. While a server is
unreachable, its last known documents are served and marked as stale.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import msgspec

from kubewright.apiserver.discovery import AGGREGATED
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.webhooks.client import ServiceNotResolved

from .availability import AGGREGATOR
from .remote import Remote, Service

if TYPE_CHECKING:
    from collections.abc import Iterable

_decode = msgspec.json.Decoder().decode
ACCEPTED = f"{AGGREGATED},{AGGREGATED.replace('v=v2', 'v=v2beta1')}"
"""Versions of aggregated discovery of extension API servers; older ones have only v2beta1."""


class Documents:
    """Documents of the group versions that extension API servers serve."""

    def __init__(self, remote: Remote) -> None:
        self.remote = remote
        self._versions: dict[tuple[str, str], Object] = {}
        """Group version to its entry in aggregated discovery."""
        self._openapi: dict[tuple[str, str], str] = {}
        self._swagger: dict[Service, Object] = {}

    def forget(self, group: str, version: str) -> None:
        """Remove a group version."""
        self._versions.pop((group, version), None)
        self._openapi.pop((group, version), None)

    def stale(self, group: str, version: str) -> None:
        """Mark the documents of an unreachable server as stale."""
        known = self._versions.get((group, version))
        if known is None:
            self._versions[group, version] = {"version": version, "freshness": "Stale"}
        else:
            known["freshness"] = "Stale"

    def entry(self, group: str, version: str) -> Object:
        """Return the entry of a group version in aggregated discovery."""
        return self._versions.get((group, version)) or {"version": version, "freshness": "Stale"}

    def openapi(self, group: str, version: str) -> str:
        """Return the hash of a group version's OpenAPI v3 document; empty if it has none."""
        return self._openapi.get((group, version), "")

    def swagger(self) -> Iterable[Object]:
        """Return the OpenAPI v2 documents of all servers."""
        return self._swagger.values()

    async def fetch(self, service: Service, group: str, version: str) -> bool:
        """Fetch the documents of a group version; return whether anything changed."""
        try:
            entry = await self._aggregated(service, group, version) or await self._legacy(
                service, group, version
            )
        except (OSError, ServiceNotResolved, msgspec.DecodeError):
            entry = None
        before = copy.copy(self._versions.get((group, version)))
        if entry is None:
            self.stale(group, version)
        else:
            for resource in entry.get("resources") or ():
                for each in (resource, *(resource.get("subresources") or ())):
                    if not each.get("responseKind"):
                        each["responseKind"] = {"group": "", "version": "", "kind": ""}
            self._versions[group, version] = {**entry, "version": version, "freshness": "Current"}
        changed = before != self._versions.get((group, version))
        return await self._fetch_openapi(service, group, version) or changed

    async def _aggregated(self, service: Service, group: str, version: str) -> Object | None:
        code, body, headers = await self.remote.get(service, "/apis", AGGREGATOR, accept=ACCEPTED)
        if code != 200 or "APIGroupDiscoveryList" not in headers.get("Content-Type", ""):
            return None
        for item in _decode(body).get("items") or ():
            if (item.get("metadata") or {}).get("name") == group:
                for entry in item.get("versions") or ():
                    if entry.get("version") == version:
                        found: Object = entry
                        return found
        return None

    async def _legacy(self, service: Service, group: str, version: str) -> Object | None:
        code, body, _ = await self.remote.get(service, f"/apis/{group}/{version}", AGGREGATOR)
        if code != 200:
            return None
        return aggregated_entry(group, version, _decode(body).get("resources") or ())

    async def _fetch_openapi(self, service: Service, group: str, version: str) -> bool:
        changed = False
        try:
            code, body, _ = await self.remote.get(service, "/openapi/v3", AGGREGATOR)
            paths = _decode(body).get("paths") or {} if code == 200 else {}
            link = (paths.get(f"apis/{group}/{version}") or {}).get("serverRelativeURL") or ""
            digest = link.partition("hash=")[2] or ("1" if link else "")
            if digest != self._openapi.get((group, version), ""):
                self._openapi[group, version] = digest
                changed = True
            code, body, _ = await self.remote.get(service, "/openapi/v2", AGGREGATOR)
            swagger = _decode(body) if code == 200 else None
        except (OSError, ServiceNotResolved, msgspec.DecodeError):
            return changed
        if isinstance(swagger, dict) and swagger != self._swagger.get(service):
            self._swagger[service] = swagger
            changed = True
        return changed


def aggregated_entry(group: str, version: str, resources: Iterable[Object]) -> Object:
    """Convert a legacy APIResourceList to an entry of aggregated discovery."""
    found: dict[str, Object] = {}
    parts: list[tuple[str, str, Object]] = []
    for resource in resources:
        name, _, subresource = resource.get("name", "").partition("/")
        kind = {
            "group": resource.get("group") or group,
            "version": resource.get("version") or version,
            "kind": resource.get("kind") or "",
        }
        if subresource:
            entry = {"subresource": subresource, "responseKind": kind, "verbs": resource.get("verbs") or []}
            parts.append((name, subresource, entry))
            continue
        made: Object = {
            "resource": name,
            "responseKind": kind,
            "scope": "Namespaced" if resource.get("namespaced") else "Cluster",
            "singularResource": resource.get("singularName") or "",
            "verbs": resource.get("verbs") or [],
        }
        for field in ("shortNames", "categories"):
            if resource.get(field):
                made[field] = resource[field]
        found[name] = made
    for name, _, entry in parts:
        parent = found.setdefault(
            name, {"resource": name, "scope": "Namespaced", "singularResource": "", "verbs": []}
        )
        parent.setdefault("subresources", []).append(entry)
    return {"version": version, "resources": list(found.values())}
