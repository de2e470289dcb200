"""Discovery documents: groups, versions and resources.

Documents are built from the resources at the first request after a change, and cached. The aggregated
document (all groups in one response) has an ETag: clients that have it get a 304.

`external` adds groups that other servers serve, in the aggregated form.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from kubewright.api.gvk import GroupVersion, GroupVersionKind, version_priority

from .encoding.negotiation import encode, negotiate, parse_accept, respond
from .http.messages import HTTPRequest, HTTPResponse
from .resources.objects import metadata_without_time

if TYPE_CHECKING:
    from .resources.resource import Resource, Version
    from .server import APIServer

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def _verbs(verbs: Iterable[str]) -> list[str]:
    return sorted(verbs)


def _discovery_verbs(resource: Resource) -> list[str]:
    if resource.discovery_verbs is not None:
        return list(resource.discovery_verbs)
    return _verbs({*resource.verbs, *resource.handlers})


def storage_version_hash(resource: Resource) -> str:
    """Return the hash by which clients notice a change of the storage version."""
    stored = resource.hashed_group_version or str(GroupVersion(resource.group, resource.storage_version))
    if "/" not in stored:
        stored = f"/{stored}"
    text = f"{stored}/{resource.kind}"
    return b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


class Discovery:
    """Discovery documents of one server."""

    def __init__(self, server: APIServer) -> None:
        self._server = server
        self._documents: dict[str, bytes] = {}
        self._etags: dict[bytes, str] = {}
        self.external: Callable[[], Iterable[dict[str, Any]]] = tuple
        """Groups of other servers in aggregated form, each with `metadata.name` and, for the order,
        `_priority`."""
        self.addresses: Callable[[], list[dict[str, str]]] = list
        """Addresses of the server: `clientCIDR` and `serverAddress`."""
        self.hidden: Callable[[Resource], bool] = lambda resource: False
        """Resources that are served but not in discovery yet, or no longer."""

    def invalidate(self) -> None:
        """Discard the documents: the resources have changed."""
        self._documents.clear()
        self._etags.clear()

    def _versions(self) -> dict[str, dict[str, list[tuple[Resource, Version]]]]:
        """Return group to version to resources, in order of priority."""
        found: dict[str, dict[str, list[tuple[Resource, Version]]]] = {}
        ranks: dict[str, tuple[int, str]] = {}
        for store in self._server.stores:
            resource = store.resource
            if self.hidden(resource):
                continue
            for version in resource.versions:
                if version.served:
                    found.setdefault(resource.group, {}).setdefault(version.name, []).append(
                        (resource, version)
                    )
                    rank = (-resource.group_priority, resource.group)
                    ranks[resource.group] = min(rank, ranks.get(resource.group, rank))
        ordered = {}
        for group in sorted(found, key=lambda name: ranks[name]):
            versions = {name: _without_shadowed(pairs) for name, pairs in found[group].items()}
            ordered[group] = {
                name: sorted(versions[name], key=lambda pair: pair[0].plural)
                for name in sorted(versions, key=version_priority)
            }
        return ordered

    def paths(self) -> list[str]:
        """Return the paths for the index."""
        paths = []
        for group, versions in self._versions().items():
            root = f"/apis/{group}" if group else "/api"
            paths += [root, *(f"{root}/{version}" for version in versions)]
        return paths

    def groups(self) -> dict[str, list[str]]:
        """Return the groups and their versions, preferred first."""
        return {group: list(versions) for group, versions in self._versions().items()}

    async def root(self, request: HTTPRequest) -> HTTPResponse:
        """Serve `/api` and `/apis`."""
        path = request.path.rstrip("/")
        if _wants_aggregated(request):
            return self._aggregated_response(request, path)
        key = f"legacy {path}"
        body = self._documents.get(key)
        if body is None:
            body = self._documents[key] = encode(self._core_root() if path == "/api" else self._group_list())
        response = respond(request, negotiate(request, transforms=False), body)
        response.headers["Vary"] = "Accept"
        return response

    def handler(self, path: str) -> Callable[[HTTPRequest], Awaitable[HTTPResponse]] | None:
        """Return the handler of `/apis/<group>`, `/apis/<group>/<version>` or `/api/<version>`, if it
        exists."""
        parts = path.strip("/").split("/")
        versions = self._versions()
        document: Any = None
        if parts[0] == "api" and len(parts) == 2 and parts[1] in versions.get("", {}):
            document = self._resource_list("", parts[1], versions[""][parts[1]])
        elif parts[0] == "apis" and len(parts) == 2 and parts[1] in versions and parts[1]:
            document = {
                "kind": "APIGroup",
                "apiVersion": "v1",
                **self._group(parts[1], list(versions[parts[1]])),
            }
        elif parts[0] == "apis" and len(parts) == 3 and parts[2] in versions.get(parts[1], {}):
            document = self._resource_list(parts[1], parts[2], versions[parts[1]][parts[2]])
        if document is None:
            return None

        async def serve_document(request: HTTPRequest) -> HTTPResponse:
            return respond(request, negotiate(request, transforms=False), encode(document))

        return serve_document

    def _core_root(self) -> dict[str, Any]:
        return {
            "kind": "APIVersions",
            "versions": list(self._versions().get("", {})),
            "serverAddressByClientCIDRs": self.addresses(),
        }

    def group_list(self) -> list[dict[str, Any]]:
        """Return all groups, also those of other servers, in order of priority."""
        priorities = self._priorities()
        found = {group: list(versions) for group, versions in self._versions().items() if group}
        for item in self.external():
            name = item["metadata"]["name"]
            priorities[name] = max(priorities.get(name, 0), item.get("_priority", 0))
            known = found.setdefault(name, [])
            known += [each["version"] for each in item.get("versions", ()) if each["version"] not in known]
        order = sorted(found, key=lambda name: _group_order(name, priorities.get(name, 0)))
        return [self._group(name, found[name]) for name in order]

    def _group_list(self) -> dict[str, Any]:
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": self.group_list()}

    def _priorities(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for store in self._server.stores:
            group, priority = store.resource.group, store.resource.group_priority
            found[group] = max(found.get(group, 0), priority)
        return found

    def _group(self, group: str, versions: list[str]) -> dict[str, Any]:
        listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
        return {"name": group, "versions": listed, "preferredVersion": listed[0] if listed else {}}

    def _resource_list(
        self, group: str, version: str, pairs: list[tuple[Resource, Version]]
    ) -> dict[str, Any]:
        resources: list[dict[str, Any]] = []
        for resource, declared in pairs:
            entry: dict[str, Any] = {
                "name": resource.plural,
                "singularName": resource.singular,
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": _discovery_verbs(resource),
            }
            if resource.short_names:
                entry["shortNames"] = list(resource.short_names)
            if resource.categories:
                entry["categories"] = list(resource.categories)
            if resource.storage_version_hash:
                entry["storageVersionHash"] = storage_version_hash(resource)
            parts = declared.subresources.items()
            if entry["verbs"] or not parts:  # custom metrics have subresources of resources of other groups
                resources.append(entry)
            for name, subresource in parts if resource.custom else sorted(parts):
                kind = subresource.kind
                sub: dict[str, Any] = {"name": f"{resource.plural}/{name}", "singularName": ""}
                sub["namespaced"] = resource.namespaced
                if kind is not None and (kind.group, kind.version) != (group, version):
                    sub["group"], sub["version"] = kind.group, kind.version
                sub["kind"] = kind.kind if kind is not None else resource.kind
                sub["verbs"] = _verbs(subresource.verbs)
                resources.append(sub)
        # The list of the core group has no `apiVersion` in kube-apiserver.
        return {
            "kind": "APIResourceList",
            **({"apiVersion": "v1"} if group else {}),
            "groupVersion": str(GroupVersion(group, version)),
            "resources": resources,
        }

    def _aggregated_response(self, request: HTTPRequest, path: str) -> HTTPResponse:
        key = f"aggregated {path}"
        body = self._documents.get(key)
        if body is None:
            body = self._documents[key] = encode(self._aggregated(path))
        etag = self._etags.get(body)
        if etag is None:
            etag = self._etags[body] = f'"{hashlib.sha512(body).hexdigest().upper()}"'
        headers: dict[str, str | list[str]] = {"ETag": etag, "Vary": "Accept", "Cache-Control": "public"}
        if request.headers.get("If-None-Match") == etag:
            return HTTPResponse(304, headers=headers)
        return HTTPResponse(200, body, content_type=AGGREGATED, headers=headers)

    def _aggregated(self, path: str) -> dict[str, Any]:
        priorities = self._priorities()
        items: list[tuple[int, dict[str, Any]]] = []
        external = {item["metadata"]["name"]: item for item in self.external()} if path == "/apis" else {}
        for group, versions in self._versions().items():
            if (path == "/api") == (group == ""):
                other = external.pop(group, {})
                external_versions = {each["version"]: each for each in other.get("versions", ())}
                listed = []
                for version, pairs in versions.items():
                    # The APIService of a custom group version is a user's if it has a service.
                    entry = external_versions.pop(version, None)
                    if entry is None or any(not resource.custom for resource, _ in pairs):
                        entry = self._aggregated_version(group, version, pairs)
                    listed.append(entry)
                listed += external_versions.values()
                metadata = metadata_without_time(**({"name": group} if group else {}))
                priority = max(priorities.get(group, 0), other.get("_priority", 0))
                items.append((priority, {"metadata": metadata, "versions": listed}))
        for item in external.values():
            shown = {key: value for key, value in item.items() if not key.startswith("_")}
            items.append((item.get("_priority", 0), shown))
        items.sort(key=lambda entry: _group_order(entry[1]["metadata"].get("name", ""), entry[0]))
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": [item for _, item in items],
        }

    def _aggregated_version(
        self, group: str, version: str, pairs: list[tuple[Resource, Version]]
    ) -> dict[str, Any]:
        resources = []
        for resource, declared in pairs:
            entry: dict[str, Any] = {
                "resource": resource.plural,
                "responseKind": _response_kind(resource, resource.gvk(version)),
                "scope": "Namespaced" if resource.namespaced else "Cluster",
                "singularResource": resource.singular,
                "verbs": _discovery_verbs(resource),
            }
            if resource.short_names:
                entry["shortNames"] = list(resource.short_names)
            if resource.categories:
                entry["categories"] = list(resource.categories)
            subresources = []
            parts = declared.subresources.items()
            for name, subresource in parts if resource.custom else sorted(parts):
                kind = subresource.kind or resource.gvk(version)
                subresources.append(
                    {
                        "subresource": name,
                        "responseKind": _response_kind(resource, kind),
                        "verbs": _verbs(subresource.verbs),
                    }
                )
            if subresources:
                entry["subresources"] = subresources
            resources.append(entry)
        return {"version": version, "resources": resources, "freshness": "Current"}


def _without_shadowed(pairs: list[tuple[Resource, Version]]) -> list[tuple[Resource, Version]]:
    """Return the resources of a group version; built-in ones hide custom ones."""
    builtin = [pair for pair in pairs if not pair[0].custom]
    return builtin or pairs


def _group_order(name: str, priority: int) -> tuple[bool, int, str]:
    """Return the sort key of a group: the aggregator's own group, then by priority."""
    return name != "apiregistration.k8s.io", -priority, name


def _response_kind(resource: Resource, kind: GroupVersionKind) -> dict[str, str]:
    """Return the kind of responses; built-in kinds omit the group version that they are listed under."""
    own = not resource.custom and resource.version(kind.version) is not None and kind.group == resource.group
    group, version = ("", "") if own else (kind.group, kind.version)
    return {"group": group, "version": version, "kind": kind.kind}


def _wants_aggregated(request: HTTPRequest) -> bool:
    header = request.headers.get("Accept", "")
    if "APIGroupDiscoveryList" not in header:
        return False
    for clause in parse_accept(header):
        parameters = clause.parameters
        if parameters.get("as") == "APIGroupDiscoveryList":
            if (parameters.get("g"), parameters.get("v")) == ("apidiscovery.k8s.io", "v2"):
                return True
        elif clause.media in ("application/json", "*/*") and "as" not in parameters:
            return False
    return False
