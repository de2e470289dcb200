"""Plug-ins for pods that are disabled by default.

AlwaysPullImages, ExtendedResourceToleration, LimitPodHardAntiAffinityTopology, PodNodeSelector and
PodTolerationRestriction. The last two read annotations of the namespace; there is no configuration file for
the whole cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kubewright.api.errors import APIError
from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin, AdmissionRule
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.admission.rejection import reject
from kubewright.controlplane.informers import Informers

HOSTNAME = "kubernetes.io/hostname"
NODE_SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"
DEFAULT_TOLERATIONS = "scheduler.alpha.kubernetes.io/defaultTolerations"
ALLOWED_TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"


class _Pods(AdmissionPlugin):
    """Base of plug-ins for writes of pods."""

    rules = (AdmissionRule(("CREATE", "UPDATE"), "", ("pods",)),)


class _NamespacedPods(_Pods):
    """Base of plug-ins that read annotations of the namespace."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers

    async def _annotation(self, request: AdmissionAttributes, name: str) -> str | None:
        namespace = await self._informers.namespace(request.namespace)
        annotations = ((namespace or {}).get("metadata") or {}).get("annotations") or {}
        value: str | None = annotations.get(name)
        return value


def _spec(request: AdmissionAttributes) -> Object:
    assert request.object is not None
    spec: Object = request.object.setdefault("spec", {})
    return spec


def _containers(spec: Object) -> Iterator[tuple[str, Object]]:
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(part) or ()):
            yield f"spec.{part}[{index}]", container


class AlwaysPullImages(_Pods):
    """Sets `imagePullPolicy: Always`."""

    name = "AlwaysPullImages"
    mutating = True
    validating = True
    reinvoke = True

    def handles(self, request: AdmissionAttributes) -> bool:
        """Handle new pods and updates with new images."""
        if request.operation == "CREATE":
            return True
        old = (request.old_object or {}).get("spec") or {}
        known = {container.get("image") for _, container in _containers(old)}
        return any(container.get("image") not in known for _, container in _containers(_spec(request)))

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Set the policy of all containers and image volumes."""
        spec = _spec(request)
        changed = False
        for _, container in _containers(spec):
            changed |= container.get("imagePullPolicy") != "Always"
            container["imagePullPolicy"] = "Always"
        for volume in spec.get("volumes") or ():
            if volume.get("image") is not None:
                changed |= volume["image"].get("pullPolicy") != "Always"
                volume["image"]["pullPolicy"] = "Always"
        return changed

    async def validate(self, request: AdmissionAttributes) -> None:
        """Reject policies that a later plug-in changed."""
        spec = _spec(request)
        found = [(f"{path}.imagePullPolicy", each.get("imagePullPolicy")) for path, each in _containers(spec)]
        found += [
            (f"spec.volumes[{index}].image.pullPolicy", volume["image"].get("pullPolicy"))
            for index, volume in enumerate(spec.get("volumes") or ())
            if volume.get("image") is not None
        ]
        for path, policy in found:
            if policy != "Always":
                why = f'{path}: Unsupported value: "{policy or ""}": supported values: "Always"'
                raise reject(request, why)


class ExtendedResourceToleration(_Pods):
    """Tolerates the taints of nodes that are reserved for the extended resources of a pod."""

    name = "ExtendedResourceToleration"
    mutating = True
    reinvoke = True

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Add a toleration per extended resource."""
        spec = _spec(request)
        requested = {
            name
            for part in ("containers", "initContainers")
            for container in spec.get(part) or ()
            for name in (container.get("resources") or {}).get("requests") or ()
        }
        tolerations: list[Object] = spec.get("tolerations") or []
        missing = [
            {"key": name, "operator": "Exists", "effect": "NoSchedule"}
            for name in sorted(filter(_is_extended, requested))
        ]
        missing = [each for each in missing if each not in tolerations]
        if missing:
            spec["tolerations"] = tolerations + missing
        return bool(missing)


def _is_extended(resource: str) -> bool:
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


class LimitPodHardAntiAffinityTopology(_Pods):
    """Rejects required anti-affinity beyond nodes."""

    name = "LimitPodHardAntiAffinityTopology"
    validating = True

    async def validate(self, request: AdmissionAttributes) -> None:
        """Check the topology keys."""
        affinity = (_spec(request).get("affinity") or {}).get("podAntiAffinity") or {}
        for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            key = term.get("topologyKey") or ""
            if key != HOSTNAME:
                raise reject(
                    request,
                    f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key "
                    f"{HOSTNAME} is allowed",
                )


class PodNodeSelector(_NamespacedPods):
    """Adds the node selector of the namespace annotation to pods."""

    name = "PodNodeSelector"
    mutating = True
    validating = True
    rules = (AdmissionRule(("CREATE",), "", ("pods",)),)

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Merge both selectors."""
        spec = _spec(request)
        required = await self._required(request)
        own: dict[str, str] = spec.get("nodeSelector") or {}
        _check_selectors(request, own, required)
        merged = {**required, **own}
        if merged == own:
            return False
        spec["nodeSelector"] = merged
        return True

    async def validate(self, request: AdmissionAttributes) -> None:
        """Reject selectors that a later plug-in changed."""
        _check_selectors(request, _spec(request).get("nodeSelector") or {}, await self._required(request))

    async def _required(self, request: AdmissionAttributes) -> dict[str, str]:
        text = await self._annotation(request, NODE_SELECTOR)
        labels: dict[str, str] = {}
        for part in text.split(",") if text else ():
            name, equals, value = part.partition("=")
            if not equals or "=" in value:
                raise APIError(f"invalid selector: [{' '.join(part.split('='))}]", code=500)
            labels[name.strip()] = value.strip()
        return labels


def _check_selectors(request: AdmissionAttributes, own: dict[str, str], required: dict[str, str]) -> None:
    if any(own.get(name, value) != value for name, value in required.items()):
        raise reject(request, "pod node label selector conflicts with its namespace node label selector")


class PodTolerationRestriction(_NamespacedPods):
    """Adds the default tolerations of a namespace and rejects those that it does not allow."""

    name = "PodTolerationRestriction"
    mutating = True
    validating = True

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Merge the tolerations, then check them."""
        from kubewright.controlplane.kinds.core.podspec.resources import qos_class

        spec = _spec(request)
        extra: list[Object] = []
        if request.operation == "CREATE":
            extra = await self._tolerations(request, DEFAULT_TOLERATIONS) or []
        if qos_class(spec) != "BestEffort":
            extra = [
                *extra,
                {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"},
            ]
        own: list[Object] = spec.get("tolerations") or []
        merged = _merge(own, extra) if extra else own
        if merged != own:
            spec["tolerations"] = merged
        await self.validate(request)
        return merged != own

    async def validate(self, request: AdmissionAttributes) -> None:
        """Check all tolerations against the allowed ones of the namespace."""
        allowed = await self._tolerations(request, ALLOWED_TOLERATIONS)
        for toleration in _spec(request).get("tolerations") or () if allowed else ():
            if not any(_is_superset(each, toleration) for each in allowed or ()):
                raise APIError(
                    "pod tolerations (possibly merged with namespace default tolerations) conflict with its "
                    "namespace whitelist",
                    code=500,
                )

    async def _tolerations(self, request: AdmissionAttributes, name: str) -> list[Object] | None:
        text = await self._annotation(request, name)
        if not text:
            return None if text is None else []
        try:
            return msgspec.json.decode(text, type=list[dict[str, Any]])
        except msgspec.DecodeError as error:
            raise APIError(str(error), code=500) from None


def _merge(own: list[Object], extra: list[Object]) -> list[Object]:
    """Merge tolerations; those that another one includes are dropped."""
    every = own + extra
    merged: list[Object] = []
    for index, toleration in enumerate(every):
        later = [each for each in every[index + 1 :] if each != toleration]
        if not any(_is_superset(each, toleration) for each in (*merged, *later)):
            merged.append(toleration)
    return merged


def _is_superset(wide: Object, toleration: Object) -> bool:
    """Return whether `wide` tolerates everything that the other one does."""
    if wide == toleration:
        return True
    key, operator = wide.get("key") or "", wide.get("operator") or "Equal"
    if (toleration.get("key") or "") != key and (key or operator != "Exists"):
        return False
    effect = wide.get("effect") or ""
    if effect and (toleration.get("effect") or "") != effect:
        return False
    limit = wide.get("tolerationSeconds")
    if effect == "NoExecute" and limit is not None:
        seconds = toleration.get("tolerationSeconds")
        if seconds is None or seconds > limit:
            return False
    if operator == "Exists":
        return True
    same_value = (toleration.get("value") or "") == (wide.get("value") or "")
    return operator == "Equal" and toleration.get("operator") == "Equal" and same_value
