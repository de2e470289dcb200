"""The group `apps`: deployments, replica sets, stateful sets, daemon sets and their revisions."""

from __future__ import annotations

from typing import Any

from kubewright.apiserver.objects import Object
from kubewright.apiserver.subresource import StatusSubresource
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import (
    AGE,
    CONTAINERS,
    IMAGES,
    NAME,
    NONE,
    age_of,
    column,
    container_cells,
    label_selector_text,
    labels_text,
    name_of,
)
from kubewright.controlplane.kinds.workload import scale_subresource

from .daemon_set import DaemonSetStrategy
from .stateful_set import ControllerRevisionStrategy, StatefulSetStrategy

STATUS = StatusSubresource(keeps_metadata=False)


def _counts(obj: Object) -> tuple[Object, Object, Object]:
    spec = obj.get("spec") or {}
    return spec, obj.get("status") or {}, spec.get("template") or {}


def _stateful_set_cells(obj: Object) -> list[Any]:
    spec, status, template = _counts(obj)
    ready = f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}"
    return [name_of(obj), ready, age_of(obj), *container_cells(template)]


def _daemon_set_cells(obj: Object) -> list[Any]:
    spec, status, template = _counts(obj)
    return [
        name_of(obj),
        status.get("desiredNumberScheduled") or 0,
        status.get("currentNumberScheduled") or 0,
        status.get("numberReady") or 0,
        status.get("updatedNumberScheduled") or 0,
        status.get("numberAvailable") or 0,
        labels_text((template.get("spec") or {}).get("nodeSelector")),
        age_of(obj),
        *container_cells(template),
        label_selector_text(spec.get("selector")),
    ]


def _revision_cells(obj: Object) -> list[Any]:
    owner = next((one for one in obj["metadata"].get("ownerReferences") or () if one.get("controller")), None)
    controller = NONE
    if owner is not None:
        group = (owner.get("apiVersion") or "").rpartition("/")[0]
        kind = (owner.get("kind") or "").lower()
        controller = f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"
    return [name_of(obj), controller, obj.get("revision") or 0, age_of(obj)]


_SELECTOR = column("Selector", description="Label selector of the pods.", wide=True)

KINDS = {
    "statefulsets": Kind(
        strategy=StatefulSetStrategy,
        columns=(
            NAME,
            column("Ready", description="Number of the pod with ready state"),
            AGE,
            CONTAINERS,
            IMAGES,
        ),
        cells=_stateful_set_cells,
        subresources={"status": STATUS, "scale": scale_subresource()},
    ),
    "daemonsets": Kind(
        strategy=DaemonSetStrategy,
        columns=(
            NAME,
            column("Desired", description="How many nodes should run the pod.", type="integer"),
            column("Current", description="How many nodes run at least one pod.", type="integer"),
            column("Ready", description="How many nodes have a ready pod.", type="integer"),
            column(
                "Up-to-date", description="How many nodes run a pod of the current template.", type="integer"
            ),
            column("Available", description="How many nodes have an available pod.", type="integer"),
            column("Node Selector", description="Labels that nodes must have."),
            AGE,
            CONTAINERS,
            IMAGES,
            _SELECTOR,
        ),
        cells=_daemon_set_cells,
        subresources={"status": STATUS},
    ),
    "controllerrevisions": Kind(
        strategy=ControllerRevisionStrategy,
        columns=(
            NAME,
            column("Controller", description="Controller of the object"),
            column("Revision", description="The number of the revision."),
            AGE,
        ),
        cells=_revision_cells,
        checks_whole_on_update=True,
    ),
}
