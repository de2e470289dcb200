"""OpenAPI operations per path, independent of the OpenAPI version.

The operations of a resource follow from its verbs and subresources. Built-in and custom resources differ:
built-in ones support protobuf, accept bodies of any media type, have deprecated watch paths and options for
deletecollection; custom ones use JSON and YAML, and reads have a resourceVersion parameter.

An operation id consists of verb, group, version, scope, kind and subresource:
`readAppsV1NamespacedDeploymentStatus`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.builtin import schemas as builtin_schemas
from kubewright.api.gvk import GroupVersion, GroupVersionKind

from . import parameters as parameters
from .definitions import definition_name
from .parameters import META, Parameter

if TYPE_CHECKING:
    from kubewright.apiserver.resources.resource import Resource, Version
    from kubewright.apiserver.resources.subresource import Subresource

JSON_AND_YAML: Final = ("application/json", "application/yaml")
TYPED: Final = (*JSON_AND_YAML, "application/vnd.kubernetes.protobuf")
_STREAMED: Final = ("application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
_ANYTHING: Final = ("*/*",)
TEXT: Final = "text"
"""In place of a definition: plain text."""
ANY_OBJECT: Final = "object"
"""In place of a definition: an object of unknown type."""

_NAMED: Final = {"get": "get", "put": "update", "delete": "delete", "patch": "patch"}
_METHODS: Final = {"get": "get", "put": "update", "post": "create", "delete": "delete", "patch": "patch"}
_TITLES: Final = {
    "create": "create",
    "delete": "delete",
    "deletecollection": "delete",
    "get": "read",
    "list": "list",
    "patch": "patch",
    "update": "replace",
}
_NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")
"""DELETE returns the namespace, but documents declare a Status."""
_ACTIONS: Final = {"create": "post", "update": "put"}
_CODES: Final = {
    "create": ("200", "201", "202"),
    "update": ("200", "201"),
    "patch": ("200", "201"),
    "delete": ("200", "202"),
}
_DESCRIPTIONS: Final = {
    "create": "create a {}",
    "delete": "delete a {}",
    "deletecollection": "delete many objects of kind {}",
    "get": "read a {}",
    "list": "list or watch objects of kind {}",
    "patch": "patch a {}",
    "update": "replace a {}",
}


@dataclass(slots=True)
class OpenAPIOperation:
    """One method of one path."""

    method: str
    id: str
    tag: str
    description: str
    response: str
    """The definition of the response; or `TEXT`, or `ANY_OBJECT`."""
    produces: tuple[str, ...] = TYPED
    consumes: tuple[str, ...] = _ANYTHING
    parameters: tuple[Parameter, ...] = ()
    body: str = ""
    """The definition of the body; or `ANY_OBJECT`."""
    body_required: bool = True
    codes: tuple[str, ...] = ("200",)
    """Status codes of responses with `response`."""
    action: str = ""
    kind: GroupVersionKind | None = None


Paths = dict[str, list[OpenAPIOperation]]


def _words(text: str) -> str:
    """`flowcontrol.apiserver.k8s.io` as part of a name: `flowcontrolApiserver`."""
    first, *others = text.removesuffix(".k8s.io").replace("-", ".").split(".")
    return first + "".join(other[:1].upper() + other[1:] for other in others)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def group_version_path(group_version: GroupVersion) -> str:
    """Return the path of a group version, without the leading slash."""
    prefix = f"apis/{group_version.group}" if group_version.group else "api"
    return f"{prefix}/{group_version.version}"


def _get(path: str, name: str, tag: str, description: str, response: str, *media: str) -> Paths:
    produces = media or TYPED
    consumes = () if response == TEXT else produces
    return {path: [OpenAPIOperation("get", name, tag, description, response, produces, consumes)]}


def version_path() -> Paths:
    """`/version/`."""
    info = "io.k8s.apimachinery.pkg.version.Info"
    description = "read the Kubernetes version of the server"
    return _get("/version/", "getCodeVersion", "version", description, info, "application/json")


def issuer_paths() -> Iterator[tuple[str, Paths]]:
    """Return the paths of the service account issuer discovery."""
    yield (
        "/.well-known/openid-configuration",
        _get(
            "/.well-known/openid-configuration/",
            "getServiceAccountIssuerOpenIDConfiguration",
            "WellKnown",
            "read the issuer configuration of service account tokens",
            TEXT,
            "application/json",
        ),
    )
    yield (
        "/openid/v1/jwks",
        _get(
            "/openid/v1/jwks/",
            "getServiceAccountIssuerOpenIDKeyset",
            "openid",
            "read the public keys of service account tokens",
            TEXT,
            "application/jwk-set+json",
        ),
    )


def root_path(path: str) -> Paths:
    """`/api/` and `/apis/`."""
    if path == "api":
        description = "list the versions of the core group"
        return _get("/api/", "getCoreAPIVersions", "core", description, META + "APIVersions")
    return _get("/apis/", "getAPIVersions", "apis", "list the groups", META + "APIGroupList")


def group_path(group: str) -> Paths:
    """`/apis/<group>/`."""
    name = _words(group)
    description = "read the versions of a group"
    return _get(f"/apis/{group}/", f"get{_capital(name)}APIGroup", name, description, META + "APIGroup")


def group_version_operations(group_version: GroupVersion) -> Paths:
    """`/apis/<group>/<version>/`."""
    name = _words(group_version.group or "core")
    return _get(
        f"/{group_version_path(group_version)}/",
        f"get{_capital(name)}{_capital(group_version.version)}APIResources",
        f"{name}_{group_version.version}",
        "list the resources of a version",
        META + "APIResourceList",
    )


def resource_paths(resource: Resource, version: Version) -> Paths:
    """Return the operations of one version of a resource."""
    return _ResourcePaths(resource, version).all()


class _ResourcePaths:
    def __init__(self, resource: Resource, version: Version) -> None:
        self.resource = resource
        self.version = version
        self.gvk = resource.gvk(version.name)
        self.root = "/" + group_version_path(self.gvk.group_version)
        group = _words(resource.group or "core")
        self.group_version = _capital(group) + _capital(version.name)
        self.tag = f"{group}_{version.name}"
        self.definition = definition_name(resource, version.name)
        self.list_definition = definition_name(resource, version.name, resource.list_kind)
        self.verbs = set(resource.verbs) | set(resource.handlers)
        self.media = JSON_AND_YAML if resource.custom else TYPED
        self.consumes = JSON_AND_YAML if resource.custom else _ANYTHING
        self.name = Parameter("name", "string", f"name of the {resource.kind}", "path")

    def all(self) -> Paths:
        """Return all paths with their operations."""
        root, plural, verbs = self.root, self.resource.plural, self.verbs
        base = f"{root}/namespaces/{{namespace}}/{plural}" if self.resource.namespaced else f"{root}/{plural}"
        item = base + "/{name}"
        paths: Paths = {}
        collection = {"get": "list", "post": "create", "delete": "deletecollection"}
        paths[base] = [self._verb(base, method, verb) for method, verb in collection.items() if verb in verbs]
        paths[item] = [self._verb(item, method, verb) for method, verb in _NAMED.items() if verb in verbs]
        if self.resource.namespaced and "list" in verbs:
            everywhere = f"{root}/{plural}"
            paths[everywhere] = [self._verb(everywhere, "get", "list")]
        for name, subresource in self.version.subresources.items():
            paths.update(self._subresource(f"{item}/{name}", name, subresource))
        if "watch" in verbs and not self.resource.custom:
            below = base.removeprefix(root)
            for path in (below, below + "/{name}", f"/{plural}"):
                paths[f"{root}/watch{path}"] = [self._watch(f"{root}/watch{path}")]
        return {path: operations for path, operations in paths.items() if operations}

    def _id(self, verb: str, path: str, rest: str) -> str:
        scope = "Namespaced" if "{namespace}" in path else ""
        return f"{verb}{self.group_version}{scope}{self.resource.kind}{rest}"

    def _everywhere(self, path: str) -> str:
        return "ForAllNamespaces" if self.resource.namespaced and "{namespace}" not in path else ""

    def _placed(self, path: str, others: tuple[Parameter, ...], pretty: bool = True) -> tuple[Parameter, ...]:
        """Return parameters with those of the path."""
        found = list(others)
        if "{name}" in path:
            found.append(self.name)
        if "{namespace}" in path:
            found.append(parameters.NAMESPACE)
        if path.endswith("{path}"):
            found.append(parameters.PATH)
        if pretty:
            found.append(parameters.PRETTY)
        return tuple(sorted(found, key=lambda each: each.key))

    def _verb(self, path: str, method: str, verb: str) -> OpenAPIOperation:
        """Return the operation of a verb."""
        resource = self.resource
        response, produces, codes = self.definition, self.media, _CODES.get(verb, ("200",))
        name = self._id(_TITLES[verb], path, self._everywhere(path))
        options: tuple[Parameter, ...] = ()
        body, body_required = "", True
        consumes: tuple[str, ...] = self.consumes
        if verb == "list":
            response, options = self.list_definition, parameters.LIST
            if not resource.custom:
                produces = (*produces, *_STREAMED)
        elif verb == "deletecollection":
            response, body, body_required = META + "Status", META + "DeleteOptions", False
            options = parameters.DELETE_COLLECTION
            if resource.custom:
                options, body = parameters.LIST, ""
            scope = "Namespaced" if resource.namespaced else ""
            name = f"delete{self.group_version}Collection{scope}{resource.kind}"
        elif verb == "delete":
            response, body, body_required = META + "Status", META + "DeleteOptions", False
            options = parameters.DELETE
            if resource.strategy.returns_deleted_object and self.gvk != _NAMESPACE:
                response = self.definition
        elif verb in ("create", "update"):
            body, options = self.definition, parameters.WRITE
        elif verb == "patch":
            body, options, consumes = META + "Patch", parameters.PATCH, tuple(resource.patch_types)
            codes = ("200",) if resource.custom else codes
        elif resource.custom:
            options = (parameters.RESOURCE_VERSION,)
        return OpenAPIOperation(
            method,
            name,
            self.tag,
            _DESCRIPTIONS[verb].format(resource.kind),
            response,
            produces,
            consumes,
            self._placed(path, options),
            body,
            body_required,
            codes,
            _ACTIONS.get(verb, verb),
            self.gvk,
        )

    def _watch(self, path: str) -> OpenAPIOperation:
        """Return the operation of a deprecated watch path."""
        one = path.endswith("{name}")
        rest = "" if one else "List" + self._everywhere(path)
        what = f"an object of kind {self.resource.kind}" if one else f"objects of kind {self.resource.kind}"
        return OpenAPIOperation(
            "get",
            self._id("watch", path, rest),
            self.tag,
            f"watch {what}; deprecated, use the watch parameter of a list",
            META + "WatchEvent",
            (*TYPED, *_STREAMED),
            _ANYTHING,
            self._placed(path, parameters.LIST),
            action="watch" if one else "watchlist",
            kind=self.gvk,
        )

    def _subresource(self, path: str, name: str, declared: Subresource) -> Paths:
        options: tuple[Parameter, ...] = ()
        if not self.resource.group:
            options = parameters.SUBRESOURCES.get((self.resource.plural, name), ())
        if declared.connects:
            return self._connection(path, name, declared, options)
        operations = []
        for method, verb in _METHODS.items():
            if verb not in declared.verbs:
                continue
            operation = self._verb(path, method, verb)
            operation.id = self._id(_TITLES[verb], path, name.capitalize())
            operation.description = _DESCRIPTIONS[verb].format(f"{self.resource.kind}'s {name}")
            if options:
                operation.parameters = self._placed(path, options)
                operation.response, operation.produces = TEXT, ("text/plain", *operation.produces)
            if declared.kind is not None and declared.kind != self.gvk:
                self._use_kind(operation, declared.kind, verb)
            operations.append(operation)
        return {path: operations}

    def _use_kind(self, operation: OpenAPIOperation, kind: GroupVersionKind, verb: str) -> None:
        """Set another kind than that of the resource for body and response."""
        definition = builtin_schemas.definition_name(kind)
        if definition not in builtin_schemas.definitions():
            definition = ANY_OBJECT
        operation.response = definition
        if verb in ("create", "update"):
            operation.body = definition
        if not self.resource.custom:
            operation.kind = kind

    def _connection(
        self, path: str, name: str, declared: Subresource, options: tuple[Parameter, ...]
    ) -> Paths:
        """Return the operations of a subresource that forwards requests."""
        methods = [method for method, verb in _METHODS.items() if verb in declared.verbs]
        whole = len(methods) == len(_METHODS)
        paths: Paths = {}
        for place, rest in ((path, ""), (path + "/{path}", "WithPath")) if whole else ((path, ""),):
            placed = self._placed(place, options, pretty=False)
            scope = "Namespaced" if self.resource.namespaced else ""
            paths[place] = [
                OpenAPIOperation(
                    method,
                    f"connect{self.group_version}{method.capitalize()}{scope}{self.resource.kind}"
                    f"{name.capitalize()}{rest}",
                    self.tag,
                    f"send {method.upper()} to the {name} of a {self.resource.kind}",
                    TEXT,
                    _ANYTHING,
                    _ANYTHING,
                    placed,
                    action="connect",
                    kind=declared.kind or self.gvk,
                )
                for method in (*methods, *(("head", "options") if whole else ()))
            ]
        return paths


def definitions_of(paths: Paths) -> set[str]:
    """Return the definitions that operations reference."""
    named: set[Any] = set()
    for operations in paths.values():
        for operation in operations:
            named.add(operation.response)
            named.add(operation.body)
    return named - {"", TEXT, ANY_OBJECT}
