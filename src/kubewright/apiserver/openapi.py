"""OpenAPI documents, made from the declared schemas.

Version 3 is one document per group version, found through an index whose links carry a hash: a link that is
still right may be cached for ever, one that is not redirects to the one that is. Version 2 is one document of
everything. Both are made when they are first asked for and kept until the resources change, in JSON and, for
clients that ask for it, in protobuf.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.api import builtin_schema
from kubewright.api.gvk import GroupVersion
from kubewright.api.published_schema import published

from .negotiation import JSON, encode, json_response, parse_accept
from .openapi_v2 import simplify
from .openapi_words import API_VERSION, KIND, METADATA, describe
from .request import Request, Response

if TYPE_CHECKING:
    from .resource import Resource, Version
    from .server import APIServer

Schema = dict[str, Any]
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_PROTOBUF_2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_PROTOBUF_3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
_STATUS_DESCRIPTION = "What became of a request that has no object to answer with."


class OpenAPI:
    """The OpenAPI documents of one server."""

    def __init__(self, server: APIServer) -> None:
        self._server = server
        self._v3: dict[str, tuple[bytes, str]] = {}
        self._v2: tuple[bytes, str] | None = None
        self._protobuf: dict[str, bytes] = {}
        self.meta: Callable[[], Mapping[str, Schema]] = meta_definitions
        """Definitions of the shared metadata types, by name."""
        self.external: Callable[[], Mapping[str, str]] = dict
        """Group versions served elsewhere: path (`apis/g/v`) to a relative URL."""
        self.external_v2: Callable[[], Iterable[Schema]] = tuple
        """Documents of version 2 from elsewhere, to be added to this server's own."""

    def changed(self) -> None:
        """Forget documents: the resources have changed."""
        self._v3.clear()
        self._v2 = None
        self._protobuf.clear()

    def _group_versions(self) -> dict[str, GroupVersion]:
        found = {}
        for group, versions in self._server.discovery.groups().items():
            for version in versions:
                path = f"apis/{group}/{version}" if group else f"api/{version}"
                found[path] = GroupVersion(group, version)
        return found

    async def v3_index(self, request: Request) -> Response:
        """`/openapi/v3`: where the documents are."""
        paths: dict[str, Any] = {}
        for path in self._group_versions():
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={self._document(path)[1]}"}
        paths["version"] = {"serverRelativeURL": f"/openapi/v3/version?hash={self._document('version')[1]}"}
        for path, url in self.external().items():
            paths[path] = {"serverRelativeURL": url}
        response = json_response({"paths": paths})
        response.headers["ETag"] = f'"{hashlib.sha512(response.body).hexdigest().upper()}"'
        if request.headers.get("If-None-Match") == response.headers["ETag"]:
            return Response(304, headers=response.headers)
        return response

    def _document(self, path: str) -> tuple[bytes, str]:
        found = self._v3.get(path)
        if found is None:
            document = (
                self._build_version() if path == "version" else self._build_v3(self._group_versions()[path])
            )
            body = encode(document)
            found = self._v3[path] = (body, hashlib.sha512(body).hexdigest().upper())
        return found

    async def v3(self, request: Request) -> Response:
        """`/openapi/v3/<path>`: one group version."""
        path = request.path.removeprefix("/openapi/v3").strip("/")
        if path != "version" and path not in self._group_versions():
            return Response(404, content_type="")
        media = _negotiate(request, _PROTOBUF_3)
        if not media:
            return _not_acceptable()
        body, digest = self._document(path)
        headers: dict[str, str | list[str]] = {"ETag": f'"{digest}"', "Vary": "Accept"}
        asked = request.query.get("hash")
        if asked:
            if asked != digest:
                headers["Location"] = f"/openapi/v3/{path}?hash={digest}"
                return Response(301, headers=headers)
            headers["Cache-Control"] = "public, immutable"
            headers["Expires"] = _in_a_year()
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return Response(304, headers=headers)
        return self._answer(path, body, media, headers)

    async def v2(self, request: Request) -> Response:
        """`/openapi/v2`: everything in one document."""
        media = _negotiate(request, _PROTOBUF_2)
        if not media:
            return _not_acceptable()
        if self._v2 is None:
            body = encode(self._build_v2())
            self._v2 = (body, f'"{hashlib.sha512(body).hexdigest().upper()}"')
        body, etag = self._v2
        headers: dict[str, str | list[str]] = {"ETag": etag, "Vary": "Accept"}
        if request.headers.get("If-None-Match") == etag:
            return Response(304, headers=headers)
        return self._answer("", body, media, headers)

    def _answer(self, path: str, body: bytes, media: str, headers: dict[str, str | list[str]]) -> Response:
        """A document in the form that was asked for; version 2 has no path."""
        if media == JSON:
            return Response(200, body, headers=headers)
        made = self._protobuf.get(path)
        if made is None:
            from .openapi_protobuf import V2, V3

            made = self._protobuf[path] = (V3 if path else V2).encode(msgspec.json.decode(body))
        return Response(200, made, headers=headers, content_type=media)

    def _served(self, group_version: GroupVersion) -> list[tuple[Resource, Version]]:
        return sorted(
            (
                (store.resource, version)
                for store in self._server.stores
                if store.resource.group == group_version.group
                for version in store.resource.versions
                if version.served and version.name == group_version.version
            ),
            key=lambda pair: pair[0].plural,
        )

    def _build_v3(self, group_version: GroupVersion) -> Schema:
        definitions: dict[str, Schema] = dict(self.meta())
        paths: Schema = {}
        for resource, version in self._served(group_version):
            _add_definitions(definitions, resource, version)
            paths.update(resource_paths(resource, version))
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": self._server.version.git_version},
            "paths": paths,
            "components": {"schemas": relink(definitions, "#/components/schemas/")},
        }

    def _build_version(self) -> Schema:
        name = "io.k8s.apimachinery.pkg.version.Info"
        fields = self._server.version.to_dict()
        info = {"type": "object", "properties": {field: {"type": "string"} for field in fields}}
        answer = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
        operation = {
            "tags": ["version"],
            "description": "get the version of this server",
            "operationId": "getCodeVersion",
            "responses": {"200": {"description": "OK", "content": answer}},
        }
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": self._server.version.git_version},
            "paths": {"/version/": {"get": operation}},
            "components": {"schemas": {name: info}},
        }

    def _build_v2(self) -> Schema:
        definitions: dict[str, Schema] = dict(self.meta())
        paths: Schema = {}
        for group_version in self._group_versions().values():
            for resource, version in self._served(group_version):
                _add_definitions(definitions, resource, version)
                paths.update(resource_paths(resource, version, v2=True))
        definitions = relink(definitions, "#/definitions/")
        for schema in definitions.values():
            simplify(schema)
            if "x-kubernetes-group-version-kind" in schema:
                schema.setdefault("type", "object")
        document = {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": self._server.version.git_version},
            "paths": paths,
            "definitions": definitions,
        }
        for other in self.external_v2():
            merge_documents(document, other)
        return document


def merge_documents(document: Schema, other: Schema) -> None:
    """Add the paths of another server's document, and the definitions that they use.

    Where both have another definition of one name, that of the other document gets a number.
    """
    definitions = document["definitions"]
    renamed: dict[str, str] = {}
    for name, schema in (other.get("definitions") or {}).items():
        free, number = name, 2
        while free in definitions and definitions[free] != schema:
            free, number = f"{name}_v{number}", number + 1
        renamed[name] = free
    for name, schema in (other.get("definitions") or {}).items():
        definitions.setdefault(renamed[name], _renamed(schema, renamed))
    for path, operations in (other.get("paths") or {}).items():
        if path.startswith("/apis/") and path.count("/") > 3:
            document["paths"].setdefault(path, _renamed(operations, renamed))


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    if isinstance(schema, dict):
        made = {key: _renamed(value, names) for key, value in schema.items()}
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/definitions/"):
            name = reference.removeprefix("#/definitions/")
            made["$ref"] = f"#/definitions/{names.get(name, name)}"
        return made
    return [_renamed(value, names) for value in schema] if isinstance(schema, list) else schema


def _negotiate(request: Request, protobuf: str) -> str:
    """JSON or this kind of protobuf, which some clients spell with an `@`; nothing if neither will do."""
    header = request.headers.get("Accept")
    for clause in parse_accept(header) if header else ():
        if clause.media in (JSON, "application/*", "*/*"):
            return JSON
        if clause.media.replace("@", ".") == protobuf:
            return protobuf
    return "" if header else JSON


def _not_acceptable() -> Response:
    return Response(406, headers={"Vary": "Accept"}, content_type="")


def _in_a_year() -> str:
    from datetime import UTC, datetime, timedelta
    from email.utils import format_datetime

    return format_datetime(datetime.now(UTC) + timedelta(days=365), usegmt=True)


def definition_name(resource: Resource, version: str, kind: str = "") -> str:
    """The name of a kind's schema: the group backwards, the version, the kind."""
    declared = resource.version(version)
    if declared is not None and declared.published_as:
        return f"{declared.published_as}.{kind or resource.kind}"
    parts = [*reversed((resource.group or "core").split(".")), version, kind or resource.kind]
    return ".".join(parts)


def gvk_extension(resource: Resource, version: str, kind: str = "") -> Schema:
    """The kind that a schema or operation is about."""
    return {"group": resource.group, "version": version, "kind": kind or resource.kind}


def _add_definitions(definitions: dict[str, Schema], resource: Resource, version: Version) -> None:
    name = definition_name(resource, version.name)
    node = version.schema
    if version.published_as:
        _add_published(definitions, name)
        _add_published(definitions, definition_name(resource, version.name, resource.list_kind))
        return
    schema: Schema = (
        dict(node.raw)
        if node is not None
        else {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    )
    if node is not None:
        _add_references(definitions, node, schema)
    properties: Schema = dict(schema.get("properties") or {})
    properties.setdefault("apiVersion", {"type": "string", "description": API_VERSION})
    properties.setdefault("kind", {"type": "string", "description": KIND})
    if "$ref" not in (properties.get("metadata") or {}):
        properties["metadata"] = {
            "description": METADATA,
            "allOf": [{"$ref": f"#/definitions/{_META}.ObjectMeta"}],
        }
    schema["type"] = "object"
    schema["properties"] = properties
    schema["x-kubernetes-group-version-kind"] = [gvk_extension(resource, version.name)]
    definitions[name] = schema
    definitions[definition_name(resource, version.name, resource.list_kind)] = {
        "type": "object",
        "description": f"{resource.list_kind} is a list of {resource.kind}",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": API_VERSION},
            "kind": {"type": "string", "description": KIND},
            "metadata": {"allOf": [{"$ref": f"#/definitions/{_META}.ListMeta"}], "description": METADATA},
            "items": {
                "type": "array",
                "description": f"List of {resource.plural}.",
                "items": {"allOf": [{"$ref": f"#/definitions/{name}"}]},
            },
        },
        "x-kubernetes-group-version-kind": [gvk_extension(resource, version.name, resource.list_kind)],
    }


def _add_published(definitions: dict[str, Schema], name: str) -> None:
    """Bring in a built-in definition and what it refers to."""
    known = builtin_schema.definitions()
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name not in known or name in definitions:
            continue
        definitions[name] = published(name, "")
        describe(name, definitions[name])
        _collect_references(known[name], waiting)


def _collect_references(schema: Any, found: list[str]) -> None:
    if isinstance(schema, dict):
        reference = schema.get("$ref")
        if isinstance(reference, str):
            found.append(reference.rpartition("/")[2])
        for value in schema.values():
            _collect_references(value, found)
    elif isinstance(schema, list):
        for value in schema:
            _collect_references(value, found)


def _add_references(definitions: dict[str, Schema], node: Any, schema: Any) -> None:
    """Bring in the definitions that a schema refers to."""
    known: Mapping[str, Schema] = node._definitions
    waiting = [schema]
    while waiting:
        current = waiting.pop()
        if isinstance(current, dict):
            reference = current.get("$ref")
            if isinstance(reference, str):
                name = reference.rpartition("/")[2]
                if name not in definitions and name in known:
                    definitions[name] = known[name]
                    waiting.append(known[name])
            waiting.extend(current.values())
        elif isinstance(current, list):
            waiting.extend(current)


def relink(value: Any, root: str) -> Any:
    """A copy with every reference pointing below `root`."""
    if isinstance(value, dict):
        copy = {
            key: root + item.rpartition("/")[2]
            if key == "$ref" and isinstance(item, str)
            else relink(item, root)
            for key, item in value.items()
        }
        if copy.get("x-kubernetes-int-or-string") is True and not ({"anyOf", "allOf", "type"} & copy.keys()):
            copy["anyOf"] = [{"type": "integer"}, {"type": "string"}]
        return copy
    return [relink(item, root) for item in value] if isinstance(value, list) else value


def _query(name: str, kind: str, description: str, v2: bool) -> Schema:
    parameter: Schema = {"name": name, "in": "query", "description": description, "uniqueItems": True}
    if v2:
        parameter["type"] = kind
    else:
        del parameter["uniqueItems"]
        parameter["schema"] = {"type": kind, "uniqueItems": True}
    return parameter


def resource_paths(resource: Resource, version: Version, *, v2: bool = False) -> Schema:
    """The paths of one version of a resource."""
    root = f"/apis/{resource.group}/{version.name}" if resource.group else f"/api/{version.name}"
    base = (
        f"{root}/namespaces/{{namespace}}/{resource.plural}"
        if resource.namespaced
        else f"{root}/{resource.plural}"
    )
    make = _Paths(resource, version, v2)
    verbs = set(resource.verbs) | set(resource.handlers)
    paths: Schema = {}
    collection = make.item(
        base,
        {
            "get": "list" if "list" in verbs else "",
            "post": "create" if "create" in verbs else "",
            "delete": "deletecollection" if "deletecollection" in verbs else "",
        },
    )
    if collection:
        paths[base] = collection
    named = make.item(
        f"{base}/{{name}}",
        {method: verb if verb in verbs else "" for method, verb in _NAMED.items()},
    )
    if named:
        paths[f"{base}/{{name}}"] = named
    if resource.namespaced and "list" in verbs:
        paths[f"{root}/{resource.plural}"] = make.item(f"{root}/{resource.plural}", {"get": "list"})
    for name, subresource in version.subresources.items():
        path = f"{base}/{{name}}/{name}"
        paths[path] = make.item(
            path,
            {
                method: verb if verb in subresource.verbs else ""
                for method, verb in (*_NAMED.items(), ("post", "create"))
            },
            subresource=name,
        )
    return paths


_NAMED = {"get": "get", "put": "update", "patch": "patch", "delete": "delete"}
_ACTIONS = {"create": "post", "update": "put", "deletecollection": "deletecollection", "watch": "watch"}


class _Paths:
    """Makes path items of one version of a resource."""

    def __init__(self, resource: Resource, version: Version, v2: bool) -> None:
        self.resource = resource
        self.version = version
        self.v2 = v2
        self.root = "#/definitions/" if v2 else "#/components/schemas/"
        self.kind = definition_name(resource, version.name)
        self.list_kind = definition_name(resource, version.name, resource.list_kind)

    def item(self, path: str, verbs: dict[str, str], subresource: str = "") -> Schema:
        """The operations of one path."""
        operations: Schema = {}
        for method, verb in verbs.items():
            if verb:
                operations[method] = self.operation(path, verb, subresource)
        if not operations:
            return {}
        parameters = []
        for name, what in (
            ("namespace", "object name and auth scope, such as for teams and projects"),
            ("name", f"name of the {self.resource.kind}"),
        ):
            if f"{{{name}}}" in path:
                parameter: Schema = {"name": name, "in": "path", "description": what, "required": True}
                if self.v2:
                    parameter |= {"type": "string", "uniqueItems": True}
                else:
                    parameter["schema"] = {"type": "string", "uniqueItems": True}
                parameters.append(parameter)
        parameters.append(
            _query("pretty", "string", "If 'true', then the output is pretty printed.", self.v2)
        )
        operations["parameters"] = parameters
        return operations

    def operation(self, path: str, verb: str, subresource: str) -> Schema:
        """One operation."""
        resource, version = self.resource, self.version
        scope = "Namespaced" if "{namespace}" in path else ""
        named = resource.group if resource.custom else resource.group.removesuffix(".k8s.io")
        group = "".join(part.capitalize() for part in named.split(".")) or "Core"
        title = {
            "create": "create",
            "update": "replace",
            "get": "read",
            "deletecollection": "deleteCollection",
        }
        action = title.get(verb, verb)
        name = f"{action}{group}{version.name.capitalize()}{scope}{resource.kind}{subresource.capitalize()}"
        if verb == "list" and resource.namespaced and not scope:
            name += "ForAllNamespaces"
        declared = version.subresources.get(subresource)
        kind = declared.kind if declared is not None and declared.kind is not None else None
        operation: Schema = {
            "tags": [f"{resource.group.replace('.', '_') or 'core'}_{version.name}"],
            "description": f"{action} {resource.kind}",
            "operationId": name,
            "x-kubernetes-action": _ACTIONS.get(verb, verb),
            "x-kubernetes-group-version-kind": gvk_extension(resource, version.name)
            if kind is None
            else {"group": kind.group, "version": kind.version, "kind": kind.kind},
        }
        parameters = self._parameters(verb)
        answer = self.list_kind if verb == "list" else self.kind
        if verb in ("delete", "deletecollection"):
            answer = f"{_META}.Status"
        shown: Schema = {"$ref": self.root + answer}
        if kind is not None:
            shown = {"type": "object"}
        code = "201" if verb == "create" else "200"
        if self.v2:
            operation["consumes"] = list(resource.patch_types) if verb == "patch" else ["*/*"]
            operation["produces"] = ["application/json", "application/yaml"]
            if verb in ("create", "update", "patch"):
                sent = {"$ref": self.root + (f"{_META}.Patch" if verb == "patch" else self.kind)}
                parameters.append(
                    {
                        "name": "body",
                        "in": "body",
                        "required": True,
                        "schema": sent if kind is None or verb == "patch" else {"type": "object"},
                    }
                )
            operation["responses"] = {code: {"description": "OK", "schema": shown}}
        else:
            if verb in ("create", "update", "patch"):
                sent = {"$ref": self.root + (f"{_META}.Patch" if verb == "patch" else self.kind)}
                if kind is not None and verb != "patch":
                    sent = {"type": "object"}
                media = resource.patch_types if verb == "patch" else ("application/json", "application/yaml")
                operation["requestBody"] = {
                    "content": {each: {"schema": sent} for each in media},
                    "required": True,
                }
            content = {each: {"schema": shown} for each in ("application/json", "application/yaml")}
            operation["responses"] = {
                code: {"description": "Created" if code == "201" else "OK", "content": content},
                "401": {"description": "Unauthorized"},
            }
        operation["parameters"] = parameters
        return operation

    def _parameters(self, verb: str) -> list[Schema]:
        v2 = self.v2
        if verb in ("create", "update", "patch"):
            parameters = [
                _query("dryRun", "string", "With 'All', the request is processed but nothing is stored.", v2),
                _query("fieldManager", "string", "The name of whoever makes this change.", v2),
                _query(
                    "fieldValidation",
                    "string",
                    "What happens to unknown and duplicate fields: Ignore, Warn or Strict.",
                    v2,
                ),
            ]
            if verb == "patch":
                parameters.append(
                    _query("force", "boolean", "Take fields from other managers when applying.", v2)
                )
            return parameters
        if verb in ("list", "deletecollection"):
            return [
                _query("labelSelector", "string", "Select by labels.", v2),
                _query("fieldSelector", "string", "Select by fields.", v2),
                _query("limit", "integer", "At most so many objects.", v2),
                _query("continue", "string", "Where the last page ended.", v2),
                _query("resourceVersion", "string", "Which version to read.", v2),
                _query("resourceVersionMatch", "string", "How resourceVersion is meant.", v2),
                _query("timeoutSeconds", "integer", "How long the request may take.", v2),
                _query("watch", "boolean", "Send changes instead of a list.", v2),
            ]
        if verb == "delete":
            return [
                _query("dryRun", "string", "With 'All', the request is processed but nothing is stored.", v2),
                _query("gracePeriodSeconds", "integer", "Seconds before the object is removed.", v2),
                _query("propagationPolicy", "string", "What happens to dependents.", v2),
            ]
        return []


def meta_definitions() -> dict[str, Schema]:
    """Schemas of the metadata types."""
    found: dict[str, Schema] = {}
    for name in ("ObjectMeta", "ListMeta", "Status", "DeleteOptions"):
        _add_published(found, f"{_META}.{name}")
    found[f"{_META}.Status"]["description"] = _STATUS_DESCRIPTION
    found[f"{_META}.Patch"] = {
        "type": "object",
        "description": "A patch of the kind that the content type names.",
    }
    return found
