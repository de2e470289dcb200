"""Parameters of operations in OpenAPI: their names, types and what they are for, by verb and by subresource.

A parameter has a form for each version of OpenAPI. In version 2 most of them are written once for the whole
document and referred to by a name that ends in a hash of what they say; `dryRun`, `fieldValidation` and the
name of the object are written out wherever they belong, since clients look for the first two there and the
third names the kind.
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
    """Under which name version 2 shares a parameter."""
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
        """In version 2, the name that is referred to and the parameter itself."""
        if name not in _WRITTEN_OUT:
            self.shared = (shared_name(self.v2), self.v2)
            self.v2 = {"$ref": f"#/parameters/{self.shared[0]}"}


def _parameters(*lines: str) -> tuple[Parameter, ...]:
    """From lines of name, type and words."""
    return tuple(Parameter(*line.split(" ", 2)) for line in lines)


def _sorted(*groups: Iterable[Parameter]) -> tuple[Parameter, ...]:
    return tuple(sorted((each for group in groups for each in group), key=lambda each: each.key))


PRETTY: Final = Parameter("pretty", "string", "With 'true', JSON is indented for people to read.")
NAMESPACE: Final = Parameter("namespace", "string", "The namespace of the object.", "path")
PATH: Final = Parameter("path", "string", "The path to ask for behind the proxy.", "path")
RESOURCE_VERSION: Final = Parameter(
    "resourceVersion", "string", "Which state to read, or to begin to watch from; the latest when absent."
)

_SELECTION: Final = (
    *_parameters(
        "continue string Where the last page ended: the continue token of its list.",
        "fieldSelector string Only objects with these values of fields.",
        "labelSelector string Only objects with these labels.",
        "limit integer At most so many objects a page.",
        "resourceVersionMatch string Whether resourceVersion is to be met exactly or is the oldest allowed.",
        "sendInitialEvents boolean Whether a watch begins with the objects that exist already.",
        "shardSelector string Only objects of this part of all.",
        "timeoutSeconds integer How long the request may take, at most.",
    ),
    RESOURCE_VERSION,
)
LIST: Final = _sorted(
    _SELECTION,
    _parameters(
        "allowWatchBookmarks boolean Whether a watch may send bookmarks, which tell how far it has come.",
        "watch boolean Send changes as they happen instead of a list.",
    ),
)
_DRY_RUN: Final = "dryRun string With 'All', everything is done except storing the result."
WRITE: Final = _parameters(
    _DRY_RUN,
    "fieldManager string Who makes this change: a name that owns the fields it sets.",
    "fieldValidation string What happens to unknown or duplicate fields: Ignore, Warn (the default), Strict.",
)
PATCH: Final = _sorted(
    (WRITE[0], WRITE[2]),
    _parameters(
        "fieldManager string Who makes this change; an apply patch has to say it.",
        "force boolean Whether an apply patch takes fields away from other managers.",
    ),
)
DELETE: Final = _parameters(
    _DRY_RUN,
    "gracePeriodSeconds integer How long the object may take to end; zero removes it at once.",
    "ignoreStoreReadErrorWithClusterBreakingPotential boolean Remove an object even if it cannot be read.",
    "orphanDependents boolean Not for new clients, which use propagationPolicy: leave dependents alone.",
    "propagationPolicy string What happens to dependents: Orphan, Background or Foreground.",
)
DELETE_COLLECTION: Final = _sorted(_SELECTION, DELETE)

_STREAMS: Final = _parameters(
    "container string Which container of the pod; needed when it has several.",
    "stderr boolean Whether to receive the error output.",
    "stdin boolean Whether to send input.",
    "stdout boolean Whether to receive the output.",
    "tty boolean Whether the process has a terminal.",
)
_PROXY: Final = _parameters("path string The path to ask for behind the proxy.")
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
        "container string Which container's log; needed when the pod has several.",
        "follow boolean Whether to go on with what is yet to be written.",
        "insecureSkipTLSVerifyBackend boolean Whether to read from a node whose certificate is not trusted.",
        "limitBytes integer At most so many bytes.",
        "previous boolean The log of the container before its last restart.",
        "sinceSeconds integer Only what was written in the last so many seconds.",
        "stream string Which output: All, Stdout or Stderr.",
        "tailLines integer Only so many lines from the end.",
        "timestamps boolean Whether lines begin with the time they were written.",
    ),
}
"""Parameters of subresources of the core group that are not those of their verbs."""


def body(definition: str, required: bool = True) -> tuple[Schema, tuple[str, Schema] | None]:
    """The body of a request in version 2, and how it is shared if it is."""
    parameter: Schema = {"name": "body", "in": "body", "schema": {"$ref": f"#/definitions/{definition}"}}
    if required:
        parameter["required"] = True
    if not definition.startswith("io.k8s.apimachinery."):
        return parameter, None
    name = shared_name(parameter)
    return {"$ref": f"#/parameters/{name}"}, (name, parameter)
