"""Record the requests of a test run, and compare them with versions of Kubernetes.

recorder = RequestRecorder()
await running_operator(operator, client=recorder.wrap(client))
...
recorder.check("1.33-1.37")           # an AssertionError lists what a version lacks
recorder.write("requests.jsonl")      # for kubewright check --kubernetes 1.33-1.37 --recording
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.api.builtin.resources import resource_at
from kubewright.api.gvk import GroupVersionResource
from kubewright.api.kubernetes_version import parse_versions
from kubewright.manifests.version_needs import Lack, lacks_of_object, lacks_of_rule

if TYPE_CHECKING:
    from kubewright.client.rest.request import APIRequest, CallNext
    from kubewright.client.transport.interface import APIResponse, ResponseStream

    from .permissions import ClientT


class RequestRecorder:
    """Records the resources and the bodies of requests of clients."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}

    def wrap(self, client: ClientT) -> ClientT:
        """Return a client that records its requests."""
        return client.with_interceptor(self._record)

    async def _record(self, call: APIRequest, proceed: CallNext) -> APIResponse | ResponseStream:
        if call.resource is not None:
            name = "/".join(filter(None, (call.resource.resource, call.subresource)))
            line = {"verb": call.verb, "group": call.resource.group, "resource": name, "body": _body(call)}
            self._lines[json.dumps(line, sort_keys=True)] = None
        return await proceed(call)

    def write(self, path: str | Path) -> None:
        """Write the requests to a file, one JSON object per line; equal ones once."""
        Path(path).write_text("".join(f"{line}\n" for line in self._lines), encoding="utf-8")

    def lacks(self, versions: str) -> list[Lack]:
        """Return what the requests need and versions such as `1.33-1.37` lack."""
        wanted = parse_versions(versions)
        found: dict[Lack, None] = {}
        for text in self._lines:
            line = json.loads(text)
            found |= dict.fromkeys(lacks_of_rule([line["group"]], [line["resource"]], wanted))
            if line["body"]:
                found |= dict.fromkeys(lacks_of_object(line["body"], wanted))
        return list(found)

    def check(self, versions: str) -> None:
        """Raise `AssertionError` if a version lacks something that was used."""
        lacks = self.lacks(versions)
        if lacks:
            raise AssertionError("\n".join(map(str, lacks)))


def _body(call: APIRequest) -> Any:
    """Return the object of a request; a patch gets the kind of its resource."""
    try:
        body = msgspec.json.decode(call.body) if call.body else None
    except msgspec.DecodeError:
        return None
    if not isinstance(body, dict) or call.subresource not in ("", "status") or call.resource is None:
        return None
    words = call.path.split("/")
    version = words[2] if words[1] == "api" else words[3]
    row = resource_at(GroupVersionResource(call.resource.group, version, call.resource.resource))
    if row is not None and call.verb == "patch":
        body = {"apiVersion": row.gvk.api_version, "kind": row.gvk.kind, **body}
    return body
