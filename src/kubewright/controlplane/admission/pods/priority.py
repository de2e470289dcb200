"""Priority: resolves the priority class of pods."""

from __future__ import annotations

from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin, AdmissionRule
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.admission.rejection import reject
from kubewright.controlplane.informers import Informers

GROUP = "scheduling.k8s.io"


class Priority(AdmissionPlugin):
    """Sets the priority of pods; rejects a second default class."""

    name = "Priority"
    mutating = True
    validating = True
    reinvoke = True
    rules = (
        AdmissionRule(("CREATE", "UPDATE"), "", ("pods",)),
        AdmissionRule(("CREATE", "UPDATE"), GROUP, ("priorityclasses",)),
    )

    def __init__(self, informers: Informers) -> None:
        self._informers = informers

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Set priority and preemption policy."""
        if request.resource.resource != "pods":
            return False
        assert request.object is not None
        spec: Object = request.object.setdefault("spec", {})
        if request.operation == "UPDATE":
            old: Object = (request.old_object or {}).get("spec") or {}
            kept = {
                field: old[field]
                for field in ("priority", "preemptionPolicy")
                if spec.get(field) is None and old.get(field) is not None
            }
            spec.update(kept)
            return bool(kept)
        name, priority, policy = await self._establish(request, spec.get("priorityClassName") or "")
        given = spec.get("priority")
        if given is not None and given != priority:
            raise reject(
                request,
                f"the integer value of priority ({given}) must not be provided in pod spec; priority "
                f"admission controller computed {priority} from the given PriorityClass name",
            )
        given = spec.get("preemptionPolicy")
        if policy and given is not None and given != policy:
            raise reject(
                request,
                f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority "
                f"admission controller computed {policy} from the given PriorityClass name",
            )
        wanted: Object = {"priority": priority}
        if name:
            wanted["priorityClassName"] = name
        if policy:
            wanted["preemptionPolicy"] = policy
        changed = any(spec.get(field) != value for field, value in wanted.items())
        spec.update(wanted)
        return changed

    async def _establish(self, request: AdmissionAttributes, name: str) -> tuple[str, int, str]:
        if not name:
            found = await self._default()
            if found is None:
                return "", 0, "PreemptLowerPriority"
        else:
            found = await self._informers.get(GROUP, "priorityclasses", name)
            if found is None:
                raise reject(request, f"no PriorityClass with name {name} was found")
        return found["metadata"]["name"], found.get("value") or 0, found.get("preemptionPolicy") or ""

    async def _default(self) -> Object | None:
        classes = [
            each for each in await self._informers.list(GROUP, "priorityclasses") if each.get("globalDefault")
        ]
        return min(classes, key=lambda each: each.get("value") or 0) if classes else None

    async def validate(self, request: AdmissionAttributes) -> None:
        """Reject a second default class."""
        obj = request.object
        if request.resource.resource != "priorityclasses" or obj is None or not obj.get("globalDefault"):
            return
        default = await self._default()
        if default is not None and (
            request.operation == "CREATE" or default["metadata"]["name"] != obj["metadata"].get("name")
        ):
            raise reject(
                request,
                f"PriorityClass {default['metadata']['name']} is already marked as default. "
                "Only one default can exist",
            )
