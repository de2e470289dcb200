"""Random requests to the control plane: no response reports a Python exception.

Paths, queries, headers and bodies are built from valid parts and damaged at random, from a fixed seed.
`KUBEWRIGHT_FUZZ_SECONDS=60 pytest tests/fuzz` continues that long, with another seed each round.
"""

from __future__ import annotations

import json
import logging
import os
import random
import time
from typing import Any
from urllib.parse import quote

import yaml

from kubewright.apiserver.authentication.user import MASTERS, User
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.controlplane import ControlPlane

SECONDS = float(os.environ.get("KUBEWRIGHT_FUZZ_SECONDS", "0"))
REQUESTS = 600
ADMIN = User("fuzz", (MASTERS,))
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1 << 70,
    1.5,
    "",
    "x",
    "/",
    "a/",
    "/v1",
    "\x00",
    "é" * 40,
    [],
    {},
    [None],
    {"": None},
]
TEXTS = [
    "",
    "0",
    "-1",
    "9" * 5000,
    "true",
    "x",
    "a=b",
    "metadata.name=x",
    "a in (",
    "%",
    "../..",
    "\u2028",
    "1" * 20,
]
PARAMETERS = (
    "watch",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "labelSelector",
    "fieldSelector",
    "timeoutSeconds",
    "timeout",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "force",
    "pretty",
    "includeObject",
    "gracePeriodSeconds",
    "propagationPolicy",
    "orphanDependents",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "export",
    "command",
    "container",
    "follow",
    "tailLines",
    "sinceTime",
    "path",
    "ports",
)
HEADERS = {
    "Accept": [
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "*/*",
        ";",
        "a;b=c;q=x",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io, */*",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "x" * 3000,
    ],
    "Content-Type": [
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "text/plain",
        "",
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "application/json; charset=\u00ff",
        ";",
    ],
    "Impersonate-User": ["", "x", "system:serviceaccount:a:b", "system:anonymous"],
    "Impersonate-Extra-%": ["x"],
    "User-Agent": ["curl/8", "", "é"],
    "Content-Encoding": ["gzip", "x"],
}
PATHS = (
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/services",
    "/api/v1/nodes",
    "/api/v1/namespaces",
    "/api/v1/namespaces/default/events",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/statefulsets",
    "/apis/batch/v1/namespaces/default/cronjobs",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/apiregistration.k8s.io/v1/apiservices",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
    "/apis/fuzz.example.com/v1/namespaces/default/widgets",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    "/apis/authentication.k8s.io/v1/tokenreviews",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "/api",
    "/apis",
    "/apis/apps",
    "/version",
    "/openapi/v2",
    "/openapi/v3",
    "/healthz",
    "/",
)
SUBRESOURCES = (
    "status",
    "scale",
    "log",
    "exec",
    "eviction",
    "binding",
    "token",
    "proxy",
    "finalize",
    "approval",
    "x",
)
POD = {
    "containers": [
        {"name": "c", "image": "i", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}}}
    ]
}
SPECS: dict[str, Any] = {
    "pods": POD,
    "services": {"ports": [{"port": 80, "targetPort": "x"}], "selector": {"a": "b"}},
    "deployments": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD},
    },
    "widgets": {"size": 1, "names": ["a"]},
}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.fuzz.example.com"},
    "spec": {
        "group": "fuzz.example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
            }
        ],
    },
}


class RequestFuzzer:
    """Builds random requests."""

    def __init__(self, seed: int, kinds: dict[str, tuple[str, str]]) -> None:
        self.random = random.Random(seed)
        self.kinds = kinds

    def request(self) -> HTTPRequest:
        """Return the next request."""
        pick = self.random
        path = pick.choice(PATHS)
        plural = path.rpartition("/")[2]
        named = path.count("/") > 2 and pick.random() < 0.6
        if named:
            path += "/" + pick.choice(
                ("x", "x", "x", "y", "default", "kube-root-ca.crt", "%2e", "a.b", "A_B", "x" * 300)
            )
            if pick.random() < 0.4:
                path += "/" + pick.choice(SUBRESOURCES)
        if pick.random() < 0.05:
            position = pick.randrange(len(path))
            path = path[:position] + pick.choice("/?%.\x00é") + path[position:]
        query = "&".join(
            f"{pick.choice(PARAMETERS)}={quote(pick.choice(TEXTS), safe=pick.choice(('', '%')))}"
            for _ in range(pick.choice((0, 0, 1, 2, 5)))
        )
        if pick.random() < 0.01:
            query += "&x" * 2000
        headers = {
            name: pick.choice(values)
            for name, values in HEADERS.items()
            if pick.random() < {"Content-Type": 0.8, "Accept": 0.5}.get(name, 0.03)
        }
        methods = ("GET", "PUT", "PATCH", "PATCH", "DELETE") if named else ("GET", "POST", "POST", "POST")
        method = pick.choice(methods if pick.random() < 0.9 else ("HEAD", "FROB", "DELETE", "PUT", "POST"))
        if method in ("PUT", "POST") and "patch" in headers.get("Content-Type", "") and pick.random() < 0.9:
            del headers["Content-Type"]
        if method == "PATCH" and "patch" not in headers.get("Content-Type", "") and pick.random() < 0.9:
            headers["Content-Type"] = pick.choice(
                [text for text in HEADERS["Content-Type"] if "patch" in text]
            )
        return HTTPRequest(
            method, path, query=query, headers=headers, body=self._body(plural, headers), user=ADMIN
        )

    def _body(self, plural: str, headers: dict[str, str]) -> bytes:
        pick = self.random
        api_version, kind = self.kinds.get(plural, ("v1", "ConfigMap"))
        body: Any = {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {
                "name": pick.choice(("x", "y")),
                "labels": {"a": "b"},
                "finalizers": [],
                "ownerReferences": [],
            },
            "spec": SPECS.get(plural, {"rules": [], "replicas": 1}),
        }
        body = json.loads(json.dumps(body))
        if plural == "configmaps":
            body = {**body, "data": {"k": "v"}, "binaryData": {"b": "AAEC"}, "immutable": False}
        if "json-patch" in headers.get("Content-Type", ""):
            operations = ("add", "remove", "replace", "test", "move", "copy", "x", None)
            body = [
                {
                    "op": pick.choice(operations),
                    "path": pick.choice(("/spec", "/metadata/labels/a", "", "x", "/spec/-")),
                    "value": pick.choice(ODD),
                }
                for _ in range(pick.randrange(3))
            ]
        for _ in range(pick.choice((0, 0, 1, 2))):
            body = self._damaged(body)
        data = (
            yaml.safe_dump(body).encode()
            if "yaml" in headers.get("Content-Type", "")
            else json.dumps(body).encode()
        )
        if pick.random() < 0.1 and data:
            position = pick.randrange(len(data))
            data = (
                data[:position]
                + pick.choice((b"", b"\xff", b"\x00", b'"', b"{", b"\\u"))
                + data[position + 1 :]
            )
        return data

    def _damaged(self, value: Any) -> Any:
        """Replace one value at random."""
        pick = self.random
        if isinstance(value, dict) and value and pick.random() < 0.9:
            name = pick.choice(list(value))
            if pick.random() < 0.1:
                return {
                    **value,
                    pick.choice(("", "x", "$patch", "$deleteFromPrimitiveList/x", "é")): pick.choice(ODD),
                }
            return {**value, name: self._damaged(value[name])}
        if isinstance(value, list) and value and pick.random() < 0.8:
            return [*value[:-1], self._damaged(value[-1])]
        return pick.choice(ODD)


async def consumed(response: HTTPResponse) -> bytes:
    """Return the body of a response; streams are closed."""
    if response.stream is not None:
        close = getattr(response.stream, "aclose", None)
        if close is not None:
            await close()
        return b""
    return response.body if response.websocket is None and response.tunnel is None else b""


async def test_no_request_raises_an_exception(caplog) -> None:
    caplog.set_level(logging.ERROR, "kubewright.apiserver")
    async with ControlPlane(port=None, controllers=False) as plane:
        server = plane.server
        server.freshness_timeout = 0.0
        body = json.dumps(CRD).encode()
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        created = await server.handle(HTTPRequest("POST", crds, body=body, user=ADMIN))
        assert created.status == 201, created.body
        seed, ends = 13, time.monotonic() + SECONDS
        while True:
            kinds = {store.resource.plural: _type(store.resource) for store in server.stores}
            fuzzer = RequestFuzzer(seed, kinds)
            for number in range(REQUESTS):
                request = fuzzer.request()
                response = await server.handle(request)
                text = await consumed(response)
                shown = (
                    seed,
                    number,
                    request.method,
                    request.path,
                    request.query.raw[:200],
                    dict(request.headers),
                )
                failures = [record for record in caplog.records if record.exc_info]
                assert not [each for each in failures if each.name.startswith("kubewright.")], (
                    shown,
                    caplog.text[-3000:],
                )
                assert response.status < 500 or b"Error: " not in text, (shown, text)
            seed += 1
            if time.monotonic() >= ends:
                break


def _type(resource: Any) -> tuple[str, str]:
    version = resource.versions[0].name
    return (f"{resource.group}/{version}" if resource.group else version), resource.kind
