"""PodTopologyLabels: copies zone and region labels of a node to its pods.

The labels are copied when a pod is bound or created with a node name, and overwrite labels of the pod. Later
changes of the node are not copied.
"""

from __future__ import annotations

from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin, AdmissionRule
from kubewright.controlplane.informers import Informers

LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class TopologyLabels(AdmissionPlugin):
    """Copies the labels to pods and to bindings."""

    name = "PodTopologyLabels"
    mutating = True
    rules = (AdmissionRule(("CREATE",), "", ("pods", "pods/binding")),)

    def __init__(self, informers: Informers) -> None:
        self._informers = informers

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Copy the labels of the node, if it exists."""
        assert request.object is not None
        if request.subresource:
            target = request.object.get("target") or {}
            node = target.get("name") if target.get("kind") == "Node" else None
        else:
            node = (request.object.get("spec") or {}).get("nodeName")
        found = await self._informers.read("", "nodes", node) if node else None
        if found is None:
            return False
        labels = found["metadata"].get("labels") or {}
        copied = {name: labels[name] for name in LABELS if name in labels}
        if not copied:
            return False
        metadata = request.object.setdefault("metadata", {})
        before = metadata.get("labels") or {}
        metadata["labels"] = {**before, **copied}
        return bool(metadata["labels"] != before)
