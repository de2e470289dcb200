"""The group without a name: the oldest kinds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubewright.api.field_errors import FieldError
from kubewright.apiserver.objects import Object
from kubewright.apiserver.resource import Version
from kubewright.apiserver.strategy import Operation
from kubewright.apiserver.subresource import StatusSubresource
from kubewright.controlplane.kinds.events.event import CORE_EVENT
from kubewright.controlplane.kinds.kind import Kind, KindStrategy, check_complete_name
from kubewright.controlplane.kinds.printing import (
    AGE,
    CONTAINERS,
    IMAGES,
    NAME,
    age_of,
    column,
    container_cells,
    labels_text,
    name_of,
)
from kubewright.controlplane.kinds.validation.formats import Errors, non_negative
from kubewright.controlplane.kinds.workload import count_errors, scale_subresource
from kubewright.schema import field_errors as fe

from . import component_status as component_statuses
from . import endpoints
from . import namespace as namespaces
from . import node as nodes
from . import resource_quota as quotas
from .config_map import ConfigMapStrategy, SecretStrategy
from .pod import printing as pod_printing
from .pod import strategy as pods
from .pod import subresources as pod_subresources
from .podspec.defaults import default_template
from .service import strategy as services

STATUS = StatusSubresource(keeps_metadata=False)
_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"


class ReplicationControllerStrategy(KindStrategy):
    """Replication controllers: replica sets with a plain selector."""

    tracks_generation = True
    default_propagation = "Orphan"

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """A prefix alone is not judged."""
        return check_complete_name(name, prefix=prefix)

    def default(self, version: Version, obj: Object) -> None:
        """Selector and labels follow from the template."""
        spec: Object = obj.setdefault("spec", {})
        template = spec.get("template")
        default_template(template)
        labels = ((template or {}).get("metadata") or {}).get("labels")
        if labels:
            if not spec.get("selector"):
                spec["selector"] = dict(labels)
            if not obj["metadata"].get("labels"):
                obj["metadata"]["labels"] = dict(labels)
        spec.setdefault("replicas", 1)
        spec.setdefault("minReadySeconds", 0)
        if not spec["minReadySeconds"]:
            spec.pop("minReadySeconds")

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """A new controller."""
        return _controller_errors(obj["spec"])

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """Names that make bad host names, unwise templates."""
        if op.subresource or (old is not None and old["spec"] == obj["spec"]):
            return
        from .podspec.warnings import host_name_warnings, pod_warnings

        if old is None:
            yield from host_name_warnings(obj)
        yield from pod_warnings(obj["spec"].get("template") or {}, "spec.template")

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """A changed controller, or a new status of one."""
        if op.subresource == "status":
            counts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
            return count_errors(obj.get("status") or {}, counts, counts, "readyReplicas")
        return _controller_errors(obj["spec"])


def _controller_errors(spec: Object) -> Errors:
    from .podspec.template import labels_of, mismatch, running_for_ever_errors, template_errors

    errors = non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    selector, template = spec.get("selector") or {}, spec.get("template")
    if not selector:
        errors.append(fe.required("spec.selector", ""))
    errors += non_negative(spec.get("replicas"), "spec.replicas")
    if template is None:
        return [*errors, fe.required("spec.template", "")]
    labels = labels_of(template)
    if any(labels.get(key) != value for key, value in selector.items()):
        errors.append(mismatch(template, "spec.template"))
    errors += template_errors(template, "spec.template")
    return errors + running_for_ever_errors(template, "spec.template", "ReplicationController")


def _controller_cells(obj: Object) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return [
        name_of(obj),
        spec.get("replicas") or 0,
        status.get("replicas") or 0,
        status.get("readyReplicas") or 0,
        age_of(obj),
        *container_cells(spec.get("template")),
        labels_text(spec.get("selector")),
    ]


class PodTemplateStrategy(KindStrategy):
    """Pod templates."""

    tracks_generation = True
    returns_deleted_object = True

    def default(self, version: Version, obj: Object) -> None:
        """Fill the template in."""
        default_template(obj.setdefault("template", {}))

    def generation_changes(self, op: Operation, obj: Object, old: Object) -> bool:
        """A new template is a new generation."""
        return bool(obj.get("template") != old.get("template"))

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """The rules of templates."""
        from .podspec.template import template_errors

        return template_errors(obj["template"], "template")

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """The same."""
        return self.validate(op, obj)

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """What is unwise about the template."""
        if old is None or old.get("template") != obj.get("template"):
            from .podspec.warnings import pod_warnings

            yield from pod_warnings(obj["template"], "template")


class ServiceAccountStrategy(KindStrategy):
    """Service accounts."""

    returns_deleted_object = True

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """Secrets are those of the namespace: their names are enough."""
        if obj.get("secrets"):
            obj["secrets"] = [{"name": one["name"]} if one.get("name") else {} for one in obj["secrets"]]

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """As for a new one."""
        self.prepare_for_create(op, obj)

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """An annotation that is going away."""
        notes, before = ((one or {"metadata": {}})["metadata"].get("annotations") or {} for one in (obj, old))
        if _MOUNTABLE in notes and _MOUNTABLE not in before:
            text = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
            yield f"metadata.annotations[{_MOUNTABLE}]: {text}"


def _template_cells(obj: Object) -> list[Any]:
    template = obj.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    return [name_of(obj), *container_cells(template), labels_text(labels)]


def _secret_cells(obj: Object) -> list[Any]:
    return [name_of(obj), obj.get("type") or "", len(obj.get("data") or ()), age_of(obj)]


def _config_map_cells(obj: Object) -> list[Any]:
    return [name_of(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), age_of(obj)]


def _account_cells(obj: Object) -> list[Any]:
    return [name_of(obj), age_of(obj)]


def _replicas(obj: Object) -> str:
    return str((obj.get("status") or {}).get("replicas") or 0)


KINDS = {
    "bindings": Kind(
        verbs={"create": pod_subresources.bind},
    ),
    "componentstatuses": component_statuses.KIND,
    "configmaps": Kind(
        strategy=ConfigMapStrategy,
        columns=(NAME, column("Data", description="How many keys there are."), AGE),
        cells=_config_map_cells,
        checks_whole_on_update=True,
    ),
    "endpoints": Kind(
        strategy=endpoints.EndpointsStrategy,
        columns=endpoints.COLUMNS,
        cells=endpoints.cells,
        checks_whole_on_update=True,
        display_prefix="services/endpoints",
        deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    "events": CORE_EVENT,
    "limitranges": Kind(
        strategy=quotas.LimitRangeStrategy,
    ),
    "namespaces": Kind(
        strategy=namespaces.NamespaceStrategy,
        columns=namespaces.COLUMNS,
        cells=namespaces.cells,
        field_selectors={"status.phase": ".status.phase"},
        subresources={"status": STATUS, "finalize": namespaces.FINALIZE},
        checks_whole_on_update=True,
    ),
    "nodes": Kind(
        strategy=nodes.NodeStrategy,
        columns=nodes.COLUMNS,
        cells=nodes.cells,
        field_selectors=nodes.FIELD_SELECTORS,
        subresources={"status": STATUS, "proxy": nodes.PROXY},
        checks_whole_on_update=True,
        display_prefix="minions",
    ),
    "pods": Kind(
        strategy=pods.PodStrategy,
        columns=pod_printing.COLUMNS,
        cells=pod_printing.cells,
        field_selectors=pods.FIELD_SELECTORS,
        subresources={"status": STATUS, **pod_subresources.SUBRESOURCES},
        checks_whole_on_update=True,
    ),
    "podtemplates": Kind(
        strategy=PodTemplateStrategy,
        columns=(
            NAME,
            column("Containers", description=CONTAINERS.description),
            column("Images", description=IMAGES.description),
            column("Pod Labels", description="The labels for the pod template."),
        ),
        cells=_template_cells,
    ),
    "replicationcontrollers": Kind(
        strategy=ReplicationControllerStrategy,
        columns=(
            NAME,
            column("Desired", description="How many pods are wanted.", type="integer"),
            column("Current", description="How many pods there are.", type="integer"),
            column("Ready", description="How many pods are ready.", type="integer"),
            AGE,
            CONTAINERS,
            IMAGES,
            column("Selector", description="Labels of the pods.", wide=True),
        ),
        cells=_controller_cells,
        field_selectors={"status.replicas": _replicas},
        subresources={"status": STATUS, "scale": scale_subresource(plain_selector=True)},
        display_prefix="controllers",
    ),
    "resourcequotas": Kind(
        strategy=quotas.ResourceQuotaStrategy,
        columns=quotas.QUOTA_COLUMNS,
        cells=quotas.quota_cells,
        subresources={"status": STATUS},
    ),
    "secrets": Kind(
        strategy=SecretStrategy,
        columns=(
            NAME,
            column("Type", description="What the secret is for."),
            column("Data", description="How many keys there are."),
            AGE,
        ),
        cells=_secret_cells,
        field_selectors={"type": ".type"},
        checks_whole_on_update=True,
    ),
    "serviceaccounts": Kind(
        strategy=ServiceAccountStrategy,
        columns=(NAME, AGE),
        cells=_account_cells,
        checks_whole_on_update=True,
    ),
    "services": Kind(
        strategy=services.ServiceStrategy,
        columns=services.COLUMNS,
        cells=services.cells,
        field_selectors={"spec.clusterIP": ".spec.clusterIP", "spec.type": ".spec.type"},
        subresources={"status": STATUS, "proxy": services.PROXY},
        display_prefix="services/specs",
    ),
}
