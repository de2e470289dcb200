"""Request info: verb, group, version, namespace, resource, name and subresource of a URL.

`/api/v1/...` is the core group, `/apis/<group>/<version>/...` are the others. All other paths are
non-resource requests whose verb is the lower-case HTTP method.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from .messages import HTTPRequest

_VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


@dataclass(slots=True, eq=False, repr=False)
class RequestInfo:
    """What a request addresses. `resource` is empty for non-resource requests."""

    verb: str
    path: str
    _: KW_ONLY
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    parts: tuple[str, ...] = ()
    """The path below the group version and the namespace: resource, name, subresource..."""
    field_selector: str = ""
    label_selector: str = ""

    @property
    def is_resource(self) -> bool:
        """Whether the path is that of a resource."""
        return self.resource != ""

    @property
    def scope(self) -> str:
        """`resource` (one object), `namespace` or `cluster`: the metric label."""
        if self.name:
            return "resource"
        return "namespace" if self.namespace else "cluster"

    def __repr__(self) -> str:
        return f"RequestInfo({self.verb} {self.path})"


def is_watch_value(value: str) -> bool:
    """Parse the `watch` parameter as a boolean."""
    return value.lower() not in ("false", "0")


def parse_request_info(request: HTTPRequest) -> RequestInfo:
    """Parse URL and method of a request."""
    path, method = request.path, request.method
    segments = path.strip("/").split("/")
    root = segments[0]
    if root == "api":
        group, rest = "", segments[1:]
    elif root == "apis" and len(segments) > 1:
        group, rest = segments[1], segments[2:]
    else:
        return RequestInfo(method.lower(), path)
    if len(rest) < 2:
        return RequestInfo(method.lower(), path)
    version, rest = rest[0], rest[1:]
    verb = _VERBS.get(method, "")
    if rest[0] in ("watch", "proxy") and len(rest) > 1:
        verb, rest = rest[0], rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource = rest[0]
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    info = RequestInfo(
        verb,
        path,
        group=group,
        version=version,
        namespace=namespace,
        resource=resource,
        subresource=subresource,
        name=name,
        parts=tuple(rest),
    )
    query = request.query
    if not name and verb in ("get", "delete"):
        info.verb = "deletecollection" if verb == "delete" else "list"
        if verb == "get" and query and "watch" in query and is_watch_value(query.get("watch")):
            info.verb = "watch"
    if query and info.verb in ("list", "watch", "deletecollection"):
        info.field_selector = query.get("fieldSelector")
        info.label_selector = query.get("labelSelector")
        if info.field_selector and not info.name and info.verb != "deletecollection":
            info.name = exact_name(info.field_selector)
    return info


def exact_name(selector: str) -> str:
    """Return the name that a field selector requires with `metadata.name=`, or an empty string."""
    for term in selector.split(","):
        key, equals, value = term.partition("=")
        if equals and key.strip() == "metadata.name":
            return value.removeprefix("=").strip()
    return ""
