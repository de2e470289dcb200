"""Discovery: list the resources of a server.

Aggregated discovery needs two requests; servers without it need one per group version. Group versions are in
the order of preference of the server, which `RESTMapper` uses to choose between them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from typing import Any

from multidict import CIMultiDict

from kubewright.api.encoding import codec
from kubewright.api.errors import APIError, NotFound
from kubewright.api.gvk import GroupVersion, GroupVersionKind
from kubewright.client.discovery.api_resource import APIResource
from kubewright.client.rest.request import APIRequest
from kubewright.client.rest.rest_client import RESTClient

logger = logging.getLogger("kubewright.client")

_AGGREGATED = ",".join(
    (
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        "application/json",
    )
)


async def discover(rest: RESTClient) -> list[APIResource]:
    """Return all resources, preferred versions first."""
    core, named = await asyncio.gather(_fetch(rest, "/api"), _fetch(rest, "/apis"))
    found: list[APIResource] = []
    missing: list[GroupVersion] = []
    for document in (core, named):
        if document.get("kind") == "APIGroupDiscoveryList":
            found += _aggregated(document)
        elif document.get("kind") == "APIVersions":
            missing += [GroupVersion("", version) for version in document.get("versions") or ()]
        else:
            missing += _group_versions(document)
    parts = await asyncio.gather(*(_legacy(rest, each) for each in missing))
    return [*found, *(resource for part in parts for resource in part)]


async def _fetch(rest: RESTClient, path: str, accept: str = _AGGREGATED) -> dict[str, Any]:
    try:
        response = await rest.send(APIRequest("get", "GET", path, headers=CIMultiDict({"Accept": accept})))
    except NotFound:
        # A server without the core group has no /api, one with only the core group no /apis.
        return {}
    document = codec.loads(response.body)
    return document if isinstance(document, dict) else {}


def _aggregated(document: dict[str, Any]) -> Iterator[APIResource]:
    for group in document.get("items") or ():
        name = (group.get("metadata") or {}).get("name") or ""
        for version in group.get("versions") or ():
            where = GroupVersion(name, version.get("version") or "")
            for resource in version.get("resources") or ():
                kind = resource.get("responseKind") or {}
                if not kind.get("kind"):
                    continue
                yield APIResource(
                    gvk=_kind(where, kind),
                    group_version=where,
                    plural=resource["resource"],
                    namespaced=resource.get("scope") == "Namespaced",
                    singular=resource.get("singularResource") or "",
                    short_names=tuple(resource.get("shortNames") or ()),
                    categories=tuple(resource.get("categories") or ()),
                    verbs=tuple(resource.get("verbs") or ()),
                    subresources=tuple(each["subresource"] for each in resource.get("subresources") or ()),
                )


def _kind(where: GroupVersion, kind: dict[str, Any]) -> GroupVersionKind:
    version = kind.get("version")
    if not version:
        return where.kind(kind["kind"])
    return GroupVersionKind(kind.get("group") or "", version, kind["kind"])


def _group_versions(document: dict[str, Any]) -> Iterator[GroupVersion]:
    for group in document.get("groups") or ():
        preferred = (group.get("preferredVersion") or {}).get("groupVersion")
        listed = [each["groupVersion"] for each in group.get("versions") or ()]
        for text in sorted(listed, key=lambda each: each != preferred):
            yield GroupVersion.parse(text)


async def _legacy(rest: RESTClient, where: GroupVersion) -> list[APIResource]:
    try:
        document = await _fetch(rest, where.resource("").path, "application/json")
    except APIError as error:
        # An unavailable aggregated API server must not hide the others.
        logger.warning("discovery failed", extra={"group_version": str(where), "error": error.message})
        return []
    return list(_resources(where, document.get("resources") or ()))


def _resources(where: GroupVersion, rows: Iterable[dict[str, Any]]) -> Iterator[APIResource]:
    rows = list(rows)
    parts: dict[str, list[str]] = {}
    for row in rows:
        parent, slash, part = row["name"].partition("/")
        if slash:
            parts.setdefault(parent, []).append(part)
    for row in rows:
        if "/" in row["name"]:
            continue
        yield APIResource(
            gvk=_kind(where, row),
            group_version=where,
            plural=row["name"],
            namespaced=bool(row.get("namespaced")),
            singular=row.get("singularName") or "",
            short_names=tuple(row.get("shortNames") or ()),
            categories=tuple(row.get("categories") or ()),
            verbs=tuple(row.get("verbs") or ()),
            subresources=tuple(parts.get(row["name"], ())),
        )
