"""Fields of a pod as values of variables and files (downward API)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from kubewright.api.values.quantity import Quantity
from kubewright.workloads.nodes.objects import Object

_SUBSCRIPT: Final = re.compile(r"(metadata\.(?:labels|annotations))\['(.*)'\]")


class UnsupportedField(ValueError):
    """A field cannot be used as a value; the message is that of a kubelet."""


def field_value(pod: Object, path: str, *, pod_ip: str, host_ip: str) -> str:
    """Return the value of a `fieldRef`; raise `UnsupportedField`."""
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    if match := _SUBSCRIPT.fullmatch(path):
        values = metadata.get(match[1].removeprefix("metadata.")) or {}
        return str(values.get(match[2], ""))
    match path:
        case "metadata.labels" | "metadata.annotations":
            return format_map(metadata.get(path.removeprefix("metadata.")) or {})
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(metadata.get(path.removeprefix("metadata.")) or "")
        case "spec.nodeName" | "spec.serviceAccountName":
            return str(spec.get(path.removeprefix("spec.")) or "")
        case "status.podIP" | "status.podIPs":
            return pod_ip
        case "status.hostIP" | "status.hostIPs":
            return host_ip
    raise UnsupportedField(f"unsupported fieldPath: {path}")


def format_map(values: Mapping[str, str]) -> str:
    """Format labels or annotations as lines `key="value"`, sorted."""
    return "\n".join(f"{key}={json.dumps(values[key])}" for key in sorted(values))


def resource_value(container: Object, selector: Object, allocatable: Mapping[str, str]) -> str:
    """Return the value of a `resourceFieldRef`, in units of its divisor; raise `UnsupportedField`.

    A limit that is not set is the allocatable resource of the node.
    """
    which, _, name = str(selector.get("resource") or "").partition(".")
    if which not in ("limits", "requests") or (
        name not in ("cpu", "memory", "ephemeral-storage") and not name.startswith("hugepages-")
    ):
        raise UnsupportedField(f"unsupported container resource : {selector.get('resource')}")
    resources = container.get("resources") or {}
    text = (resources.get(which) or {}).get(name)
    if text is None and which == "limits":
        text = allocatable.get(name)
    divisor = Quantity(str(selector.get("divisor") or "1"))
    milli_divisor = divisor.as_int(-3) or 1000
    amount = Fraction(Quantity(str(text or "0")).as_int(-3), milli_divisor)
    return str(-(-amount.numerator // amount.denominator))
