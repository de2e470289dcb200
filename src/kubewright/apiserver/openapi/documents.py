"""Builds whole OpenAPI documents: operations and definitions.

Version 3 has a document per group version, and small ones for discovery paths of groups with built-in
resources. Version 2 is one document with shared parameters. A group can have thousands of resources, so
documents are built in slices (`kubewright.apiserver.slices`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from kubewright.api.gvk import GroupVersion

from . import operations as operations
from .definitions import Definitions
from .operations import ANY_OBJECT, TEXT, OpenAPIOperation, Paths, group_version_path
from .parameters import Parameter, body
from .v2 import merge_documents

if TYPE_CHECKING:
    from kubewright.apiserver.resources.resource import Resource, Version
    from kubewright.apiserver.server import APIServer

Schema = dict[str, Any]
T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""A computation in slices."""
RESOURCES_PER_SLICE: Final = 4
PATHS_PER_SLICE: Final = 32
_CODES: Final = {"200": "OK", "201": "Created", "202": "Accepted"}
_UNAUTHORIZED: Final = {"description": "Unauthorized"}
_TOKEN: Final = {
    "type": "apiKey",
    "description": "A bearer token.",
    "name": "authorization",
    "in": "header",
}
_CUSTOM_INFO: Final = {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}


class DocumentBuilder:
    """Builds documents of the resources of a server."""

    def __init__(self, server: APIServer) -> None:
        self._server = server

    @cached_property
    def _definitions(self) -> Definitions:
        return Definitions("#/components/schemas/", version=self._server.kubernetes_version)

    @property
    def _info(self) -> Schema:
        version = self._server.version
        return {"title": "Kubernetes", "version": f"{version.major}.{version.minor}"}

    def paths(self) -> list[str]:
        """Return the paths of version 3 documents below `/openapi/v3/`."""
        groups = self._server.discovery.groups()
        builtin = self._builtin_groups()
        found = [path.removeprefix("/") for path, _ in self._issuer()]
        if builtin:
            found += [
                path for path, group in (("api", ""), ("apis", "*")) if group == "*" or group in builtin
            ]
        for group, versions in groups.items():
            if group and group in builtin:
                found.append(f"apis/{group}")
            found += [group_version_path(GroupVersion(group, version)) for version in versions]
        return [*found, "version"]

    def v3(self, path: str) -> Steps[Schema | None]:
        """Return the document at a path, if there is one; pauses between slices."""
        if path == "version":
            return (yield from self._small(operations.version_path()))
        for place, paths in self._issuer():
            if place == f"/{path}":
                return (yield from self._small(paths))
        prefix, _, rest = path.partition("/")
        if prefix not in ("api", "apis"):
            return None
        group, _, version = ("/" + rest if prefix == "api" else rest).partition("/")
        builtin = self._builtin_groups()
        if not version:
            if path in ("api", "apis"):
                return (yield from self._small(operations.root_path(path))) if builtin else None
            return (yield from self._small(operations.group_path(group))) if group in builtin else None
        if version not in self._server.discovery.groups().get(group, ()):
            return None
        return (yield from self._group_version(GroupVersion(group, version)))

    def v2(self, others: Iterable[Schema]) -> Steps[Schema]:
        """Return the version 2 document, merged with those of other servers; pauses between slices."""
        definitions = Definitions("#/definitions/", v2=True, version=self._server.kubernetes_version)
        own: dict[str, Schema] = {}
        shared: dict[str, Schema] = {}
        paths: Paths = {}
        for _, issued in self._issuer():
            paths.update(issued)
        builtin = self._builtin_groups()
        if builtin:
            paths.update(operations.root_path("api"))
            paths.update(operations.root_path("apis"))
        for group, versions in self._server.discovery.groups().items():
            if group and group in builtin:
                paths.update(operations.group_path(group))
            for version in versions:
                served = yield from self._served_paths(GroupVersion(group, version), definitions, own)
                paths.update(served)
        paths.update(operations.version_path())
        named = yield from definitions.gather(operations.definitions_of(paths), own, None)
        items: dict[str, Schema] = {}
        for position, (path, found) in enumerate(sorted(paths.items())):
            items[path] = _item_v2(found, shared)
            if position % PATHS_PER_SLICE == 0:
                yield
        document = {
            "swagger": "2.0",
            "info": self._info,
            "paths": items,
            "definitions": named,
            "parameters": shared,
            "securityDefinitions": {"BearerToken": _TOKEN},
            "security": [{"BearerToken": []}],
        }
        for other in others:
            merge_documents(document, other)
            yield
        return document

    def _builtin_groups(self) -> set[str]:
        """Return the groups with built-in resources."""
        return {store.resource.group for store in self._server.stores if not store.resource.custom}

    def _issuer(self) -> Iterable[tuple[str, Paths]]:
        served = self._server.paths
        return (entry for entry in operations.issuer_paths() if entry[0] in served)

    def _served(self, group_version: GroupVersion) -> list[tuple[Resource, Version]]:
        served = [
            (store.resource, version)
            for store in self._server.stores
            if store.resource.group == group_version.group
            for version in store.resource.versions
            if version.served and version.name == group_version.version
        ]
        # Built-in resources hide custom resources of the same group version.
        return [pair for pair in served if not pair[0].custom] or served

    def _served_paths(
        self, group_version: GroupVersion, definitions: Definitions, own: dict[str, Schema]
    ) -> Steps[Paths]:
        """Return the paths of a group version; definitions of custom kinds are added to `own`."""
        served = self._served(group_version)
        paths: Paths = {}
        if any(not resource.custom for resource, _ in served):
            paths.update(operations.group_version_operations(group_version))
        for position, (resource, version) in enumerate(served):
            if not version.published_as:
                own.update(definitions.custom(resource, version))
            paths.update(operations.resource_paths(resource, version))
            if position % RESOURCES_PER_SLICE == 0:
                yield
        return paths

    def _group_version(self, group_version: GroupVersion) -> Steps[Schema]:
        own: dict[str, Schema] = {}
        paths = yield from self._served_paths(group_version, self._definitions, own)
        custom = all(resource.custom for resource, _ in self._served(group_version))
        schemas = yield from self._definitions.gather(
            operations.definitions_of(paths), own, group_version, custom=custom
        )
        document = yield from self._document(paths, {"schemas": schemas})
        if custom and self._builtin_groups():
            document["info"] = _CUSTOM_INFO
        else:
            document["components"]["securitySchemes"] = {"BearerToken": _TOKEN}
        return document

    def _small(self, paths: Paths) -> Steps[Schema]:
        schemas = yield from self._definitions.gather(operations.definitions_of(paths), {}, None)
        components: Schema = {"schemas": schemas} if schemas else {}
        security = {"securitySchemes": {"BearerToken": _TOKEN}}
        return (yield from self._document(paths, {**components, **security}))

    def _document(self, paths: Paths, components: Schema) -> Steps[Schema]:
        items: Schema = {}
        for position, (path, found) in enumerate(sorted(paths.items())):
            items[path] = _item_v3(found)
            if position % PATHS_PER_SLICE == 0:
                yield
        return {"openapi": "3.0.0", "info": self._info, "paths": items, "components": components}


def _common(found: list[OpenAPIOperation]) -> tuple[Parameter, ...]:
    """Return the parameters of all operations of a path, which are declared once for the path."""
    first, *others = found
    return tuple(
        parameter for parameter in first.parameters if all(parameter in other.parameters for other in others)
    )


def _head(operation: OpenAPIOperation) -> Schema:
    return {"tags": [operation.tag], "description": operation.description, "operationId": operation.id}


def _tail(written: Schema, operation: OpenAPIOperation) -> Schema:
    if operation.action:
        written["x-kubernetes-action"] = operation.action
    if operation.kind is not None:
        group, version, kind = operation.kind.group, operation.kind.version, operation.kind.kind
        written["x-kubernetes-group-version-kind"] = {"group": group, "version": version, "kind": kind}
    return written


def _schema(definition: str, prefix: str) -> Schema:
    if definition == TEXT:
        return {"type": "string"}
    return {"type": "object"} if definition == ANY_OBJECT else {"$ref": prefix + definition}


def _item_v3(found: list[OpenAPIOperation]) -> Schema:
    common = _common(found)
    item: Schema = {}
    for operation in found:
        written = item[operation.method] = _head(operation)
        own = [parameter.v3 for parameter in operation.parameters if parameter not in common]
        if own:
            written["parameters"] = own
        if operation.body:
            shown = {"schema": _schema(operation.body, "#/components/schemas/")}
            written["requestBody"] = {"content": dict.fromkeys(operation.consumes, shown)}
            if operation.body_required:
                written["requestBody"]["required"] = True
        shown = {"schema": _schema(operation.response, "#/components/schemas/")}
        content = dict.fromkeys(operation.produces, shown)
        written["responses"] = {
            **{code: {"description": _CODES[code], "content": content} for code in operation.codes},
            "401": _UNAUTHORIZED,
        }
        _tail(written, operation)
    if common:
        item["parameters"] = [parameter.v3 for parameter in common]
    return item


def _item_v2(found: list[OpenAPIOperation], shared: dict[str, Schema]) -> Schema:
    common = _common(found)
    item: Schema = {}
    for operation in found:
        written = item[operation.method] = _head(operation)
        if operation.consumes:
            written["consumes"] = operation.consumes
        written["produces"] = operation.produces
        written["schemes"] = ("https",)
        own = []
        if operation.body:
            parameter, entry = _body(operation)
            own.append(parameter)
            if entry is not None:
                shared.setdefault(*entry)
        own += [parameter.v2 for parameter in operation.parameters if parameter not in common]
        if own:
            written["parameters"] = own
        shown = _schema(operation.response, "#/definitions/")
        written["responses"] = {
            **{code: {"description": _CODES[code], "schema": shown} for code in operation.codes},
            "401": _UNAUTHORIZED,
        }
        _tail(written, operation)
    if common:
        item["parameters"] = [parameter.v2 for parameter in common]
    for used in chain.from_iterable(operation.parameters for operation in found):
        if used.shared is not None:
            shared.setdefault(*used.shared)
    return item


def _body(operation: OpenAPIOperation) -> tuple[Schema, tuple[str, Schema] | None]:
    if operation.body == ANY_OBJECT:
        return {"name": "body", "in": "body", "required": True, "schema": {"type": "object"}}, None
    return body(operation.body, operation.body_required)
