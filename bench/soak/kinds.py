"""The kinds of the load, with functions that build and change their objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
NAMESPACE = "soak"
GROUP = "soak.example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True)
class Kind:
    """One kind: its path, and functions from a number to a body and to a merge patch."""

    api_version: str
    name: str
    plural: str
    fill: Callable[[int], Object]
    change: Callable[[int], Object]
    hooked: bool = False

    @property
    def path(self) -> str:
        """The path of the collection."""
        root = "/apis" if "/" in self.api_version else "/api"
        return f"{root}/{self.api_version}/namespaces/{NAMESPACE}/{self.plural}"

    def make(self, name: str, number: int, **metadata: Any) -> Object:
        """A new object."""
        head = {"apiVersion": self.api_version, "kind": self.name, "metadata": {"name": name, **metadata}}
        return {**head, **self.fill(number)}


def _template(number: int) -> Object:
    container = {"name": "main", "image": f"app:{number}", "ports": [{"containerPort": 8080}]}
    return {
        "template": {"metadata": {"labels": {"app": "soak"}}, "spec": {"containers": [container]}},
    }


def _label(number: int) -> Object:
    return {"template": {"metadata": {"labels": {"number": str(number)}}}}


GEARS = Kind(
    f"{GROUP}/v1",
    "Gear",
    "gears",
    lambda number: {"spec": {"teeth": number, "tags": [f"t{number % 5}"], "note": "x" * 900}},
    lambda number: {"spec": {"teeth": number}},
    hooked=True,
)
CONFIG_MAPS = Kind(
    "v1",
    "ConfigMap",
    "configmaps",
    lambda number: {"data": {"number": str(number), "text": "x" * 500}},
    lambda number: {"data": {"number": str(number)}},
)
POD_TEMPLATES = Kind("v1", "PodTemplate", "podtemplates", _template, _label)
SERVICES = Kind(
    "v1",
    "Service",
    "services",
    lambda number: {
        "spec": {"selector": {"app": "soak"}, "ports": [{"port": 80, "targetPort": 8000 + number % 900}]}
    },
    lambda number: {"metadata": {"annotations": {"number": str(number)}}},
)
KINDS = (GEARS, GEARS, CONFIG_MAPS, CONFIG_MAPS, POD_TEMPLATES, SERVICES)
"""Kinds that workers write: no controller writes them."""


def definition(plural: str, kind: str, *, fields: int = 0) -> Object:
    """A CRD whose schema has a number of additional, unused fields."""
    spec = {
        "type": "object",
        "properties": {
            "teeth": {"type": "integer", "minimum": 0},
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "note": {"type": "string"},
            "size": {"type": "string", "default": "small"},
            **{f"extra{number}": {"type": "string"} for number in range(fields)},
        },
        "x-kubernetes-validations": [{"rule": "!has(self.teeth) || self.teeth < 2000000000"}],
    }
    schema = {
        "type": "object",
        "properties": {
            "spec": spec,
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    columns = [{"name": "Teeth", "type": "integer", "jsonPath": ".spec.teeth"}]
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns * (1 + fields % 2),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [version],
        },
    }
