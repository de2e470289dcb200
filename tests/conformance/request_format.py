"""Requests of steps: the abbreviations for media types, and the encoding of targets and bodies."""

from __future__ import annotations

import json
import urllib.parse
from dataclasses import dataclass
from typing import Any

CONTENT_TYPES = {
    "json": "application/json",
    "yaml": "application/yaml",
    "json-patch": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
    "protobuf": "application/vnd.kubernetes.protobuf",
}
ACCEPTS = {
    "json": "application/json",
    "yaml": "application/yaml",
    "table": "application/json;as=Table;v=v1;g=meta.k8s.io",
    "partial": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "partial-list": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "aggregated": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "protobuf": "application/vnd.kubernetes.protobuf",
}
_SAFE = "/?&=%:,~!@*()-_.;+$'"


@dataclass(frozen=True, slots=True)
class RequestFormat:
    """A step as it goes over the wire."""

    method: str
    target: str
    headers: dict[str, Any]
    body: bytes | None
    anonymous: bool

    @property
    def line(self) -> str:
        """Method and target."""
        return f"{self.method} {self.target}"

    @property
    def timeout(self) -> float | None:
        """Watches that are read like a response are bounded by a shorter timeout."""
        return 60.0 if "watch=" in self.target else None


def request_of(step: dict[str, Any]) -> RequestFormat:
    """Encode a `do` or `wait` step."""
    method, _, target = (step.get("do") or step["wait"]).partition(" ")
    return encode(method, target.strip(), step)


def watch_of(step: dict[str, Any]) -> RequestFormat:
    """Encode a `watch` step."""
    query = {"watch": "true", **(step.get("query") or {})}
    return encode("GET", step["path"], {**step, "query": query})


def encode(method: str, target: str, step: dict[str, Any]) -> RequestFormat:
    """Encode a request with the options of a step."""
    if step.get("query"):
        separator = "&" if "?" in target else "?"
        target += separator + urllib.parse.urlencode(step["query"], doseq=True)
    body = _body(step)
    headers: dict[str, Any] = {}
    media = step.get("type") or ("json" if body is not None else None)
    if media:
        headers["Content-Type"] = CONTENT_TYPES.get(media, media)
    if step.get("accept"):
        headers["Accept"] = ACCEPTS.get(step["accept"], step["accept"])
    headers |= step.get("headers") or {}
    return RequestFormat(
        method, urllib.parse.quote(target, safe=_SAFE), headers, body, bool(step.get("anonymous"))
    )


def _body(step: dict[str, Any]) -> bytes | None:
    if "body" in step:
        return json.dumps(step["body"]).encode()
    if "raw" in step:
        return str(step["raw"]).encode()
    if "filler" in step:
        # A ConfigMap with this many bytes of data.
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "filler"}}
        return json.dumps({**config_map, "data": {"k": "x" * step["filler"]}}).encode()
    return None
