"""Custom resource definitions in process: defining, serving, writing instances."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from itertools import count
from typing import Any

from bench import Benchmark
from kubewright.apiserver import SYSTEM, HTTPRequest
from kubewright.controlplane import ControlPlane

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_numbers = count()


def _definition(group: str) -> bytes:
    """A definition with a schema of 300 fields."""
    part = {"type": "object", "properties": {f"g{index}": {"type": "string"} for index in range(10)}}
    spec = {"type": "object", "properties": {f"f{index}": part for index in range(30)}}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "kind": "Widget"}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    return json.dumps(crd).encode()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


@cache
def _plane() -> ControlPlane:
    plane = ControlPlane(port=None, controllers=False, disable_admission_plugins=["ServiceAccount"])
    _loop().run_until_complete(plane.start())
    _post(plane, CRDS, _definition("bench.example.com"))
    return plane


def _post(plane: ControlPlane, path: str, body: bytes) -> None:
    request = HTTPRequest("POST", path, user=SYSTEM, body=body)
    response = _loop().run_until_complete(plane.server.handle(request))
    if response.status >= 400:
        raise RuntimeError(response.body.decode())


def _define() -> None:
    _post(_plane(), CRDS, _definition(f"g{next(_numbers)}.example.com"))


def _create() -> None:
    metadata = {"name": f"w{next(_numbers)}"}
    widget: dict[str, Any] = {"apiVersion": "bench.example.com/v1", "kind": "Widget", "metadata": metadata}
    widget["spec"] = {"f1": {"g1": "a"}, "f2": {"g2": "b"}}
    body = json.dumps(widget).encode()
    _post(_plane(), "/apis/bench.example.com/v1/namespaces/default/widgets", body)


def benchmarks() -> list[Benchmark]:
    """Benchmarks of creating definitions and of writing instances."""
    return [
        Benchmark(name="define a resource of 300 fields and serve it", run=_define, target_ms=15),
        Benchmark(name="create an instance, admission included", run=_create, target_us=250),
    ]
