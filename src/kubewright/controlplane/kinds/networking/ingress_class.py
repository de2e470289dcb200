"""IngressClass."""

from __future__ import annotations

from typing import Any

from kubewright.api.values import names
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.defaults import Defaults
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, NONE, column, field, shown
from kubewright.controlplane.kinds.validation import (
    Enum,
    Errors,
    Forbidden,
    Immutable,
    MaxLength,
    Required,
    Rules,
    Switch,
    UpdateRules,
)
from kubewright.controlplane.kinds.validation.formats import dns_label
from kubewright.schema import field_errors as fe

from .ingress import REFERENCE

DEFAULT_CLASS_ANNOTATION = "ingressclass.kubernetes.io/is-default-class"


def _controller_errors(value: str, path: str) -> Errors:
    return [fe.invalid(path, part, text) for part, text in names.check_domain_prefixed_path(value)]


_SCOPES = {
    "Namespace": {
        "namespace": [Required("`parameters.scope` is set to 'Namespace'", pointer=True), dns_label]
    },
    "Cluster": {"namespace": Forbidden("`parameters.scope` is set to 'Cluster'", pointer=True)},
}
RULES = Rules(
    {
        "spec.controller": [Required(), MaxLength(250), _controller_errors],
        "spec.parameters?": {
            **REFERENCE,
            "scope": Enum("Cluster", "Namespace", absent=""),
            "": Switch("scope", _SCOPES),
        },
    }
)


def _parameters_text(obj: Object) -> str:
    parameters = field(obj, "spec.parameters")
    if parameters is None:
        return NONE
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") is not None else ""
    return f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"


COLUMNS = (
    column("Name", shown("metadata.name"), description="Name of the class.", format="name"),
    column("Controller", shown("spec.controller"), description="Controller of ingresses of this class."),
    column("Parameters", _parameters_text, description="Object with further configuration."),
    AGE,
)


def _cells(obj: Object) -> list[Any]:
    metadata = obj["metadata"]
    is_default = (metadata.get("annotations") or {}).get(DEFAULT_CLASS_ANNOTATION) == "true"
    name = f"{metadata['name']} (default)" if is_default else metadata["name"]
    return [name, *(column.value(obj) for column in COLUMNS[1:] if column.value)]


KINDS = {
    "ingressclasses": Kind(
        default=Defaults({"spec.parameters.scope": "Cluster"}),
        validate=RULES,
        validate_update=UpdateRules({"spec.controller": Immutable()}, RULES),
        generation_fields=("spec",),
        checks_whole_on_update=True,
        columns=COLUMNS,
        cells=_cells,
    ),
}
