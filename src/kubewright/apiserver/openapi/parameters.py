"""OpenAPI parameters by verb and subresource.

A parameter has a form for each OpenAPI version. In version 2, most are declared once per document and
referenced by a name that ends in a hash; `dryRun`, `fieldValidation` and the object name are written inline:
clients look for the first two there, and the third names the kind.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final

import msgspec

Schema = dict[str, Any]
META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_WRITTEN_OUT: Final = frozenset(("dryRun", "fieldValidation", "name"))


def shared_name(parameter: Schema) -> str:
    """Return the name of a shared parameter in version 2."""
    digest = blake2b(msgspec.json.encode(parameter), digest_size=6).digest()
    return f"{parameter['name']}-{urlsafe_b64encode(digest).decode()}"


class Parameter:
    """One parameter of a path or query."""

    __slots__ = ("key", "name", "shared", "v2", "v3")

    def __init__(self, name: str, type_: str, description: str, where: str = "query") -> None:
        self.name = name
        self.key = (name, where)
        head: Schema = {"name": name, "in": where, "description": description}
        if where == "path":
            head["required"] = True
        self.v3: Schema = {**head, "schema": {"type": type_, "uniqueItems": True}}
        self.v2: Schema = {**head, "type": type_, "uniqueItems": True}
        self.shared: tuple[str, Schema] | None = None
        """In version 2, the name and the shared parameter."""
        if name not in _WRITTEN_OUT:
            self.shared = (shared_name(self.v2), self.v2)
            self.v2 = {"$ref": f"#/parameters/{self.shared[0]}"}


def _parameters(*lines: str) -> tuple[Parameter, ...]:
    """Parse lines of name, type and description."""
    return tuple(Parameter(*line.split(" ", 2)) for line in lines)


def _sorted(*groups: Iterable[Parameter]) -> tuple[Parameter, ...]:
    return tuple(sorted((each for group in groups for each in group), key=lambda each: each.key))


PRETTY: Final = Parameter("pretty", "string", "With 'true', JSON is indented.")
NAMESPACE: Final = Parameter("namespace", "string", "The namespace of the object.", "path")
PATH: Final = Parameter("path", "string", "Path of the proxied request.", "path")
RESOURCE_VERSION: Final = Parameter(
    "resourceVersion", "string", "Resource version to read or to watch from; the latest if absent."
)

_SELECTION: Final = (
    *_parameters(
        "continue string Continue token of the previous page.",
        "fieldSelector string Restrict the response by fields.",
        "labelSelector string Restrict the response by labels.",
        "limit integer Maximum number of objects in a page.",
        "resourceVersionMatch string How resourceVersion is applied: Exact or NotOlderThan.",
        "sendInitialEvents boolean Whether a watch starts with the existing objects.",
        "shardSelector string Restrict the response to a shard.",
        "timeoutSeconds integer Timeout of the request in seconds.",
    ),
    RESOURCE_VERSION,
)
LIST: Final = _sorted(
    _SELECTION,
    _parameters(
        "allowWatchBookmarks boolean Whether a watch sends BOOKMARK events.",
        "watch boolean Stream changes instead of a list.",
    ),
)
_DRY_RUN: Final = "dryRun string With 'All', the request is processed but not stored."
WRITE: Final = _parameters(
    _DRY_RUN,
    "fieldManager string Name of the manager that owns the changed fields.",
    "fieldValidation string Handling of unknown and duplicate fields: Ignore, Warn (default) or Strict.",
)
PATCH: Final = _sorted(
    (WRITE[0], WRITE[2]),
    _parameters(
        "fieldManager string Name of the manager that owns the changed fields; required for apply.",
        "force boolean Whether apply takes over fields of other managers.",
    ),
)
DELETE: Final = _parameters(
    _DRY_RUN,
    "gracePeriodSeconds integer Grace period in seconds; zero deletes immediately.",
    "ignoreStoreReadErrorWithClusterBreakingPotential boolean Delete an object even if it cannot be decoded.",
    "orphanDependents boolean Deprecated: use propagationPolicy.",
    "propagationPolicy string Deletion of dependents: Orphan, Background or Foreground.",
)
DELETE_COLLECTION: Final = _sorted(_SELECTION, DELETE)

_STREAMS: Final = _parameters(
    "container string Container of the pod; required if there are several.",
    "stderr boolean Whether to stream standard error.",
    "stdin boolean Whether to stream standard input.",
    "stdout boolean Whether to stream standard output.",
    "tty boolean Whether to allocate a terminal.",
)
_PROXY: Final = _parameters("path string Path of the proxied request.")
SUBRESOURCES: Final[dict[tuple[str, str], tuple[Parameter, ...]]] = {
    ("nodes", "proxy"): _PROXY,
    ("services", "proxy"): _PROXY,
    ("pods", "proxy"): _PROXY,
    ("pods", "attach"): _STREAMS,
    ("pods", "exec"): _sorted(
        _STREAMS, _parameters("command string The command and its arguments, one parameter each.")
    ),
    ("pods", "portforward"): _parameters("ports integer The ports to forward, one parameter each."),
    ("pods", "log"): _parameters(
        "container string Container of the pod; required if there are several.",
        "follow boolean Whether to stream new lines.",
        "insecureSkipTLSVerifyBackend boolean Whether to skip verification of the node's certificate.",
        "limitBytes integer Maximum number of bytes.",
        "previous boolean Log of the previous container.",
        "sinceSeconds integer Only lines of the last seconds.",
        "stream string Stream: All, Stdout or Stderr.",
        "tailLines integer Number of lines from the end.",
        "timestamps boolean Whether lines start with a timestamp.",
    ),
}
"""Parameters of subresources of the core group that are not those of their verbs."""


def body(definition: str, required: bool = True) -> tuple[Schema, tuple[str, Schema] | None]:
    """Return the body parameter of version 2, and its shared form if it has one."""
    parameter: Schema = {"name": "body", "in": "body", "schema": {"$ref": f"#/definitions/{definition}"}}
    if required:
        parameter["required"] = True
    if not definition.startswith("io.k8s.apimachinery."):
        return parameter, None
    name = shared_name(parameter)
    return {"$ref": f"#/parameters/{name}"}, (name, parameter)
