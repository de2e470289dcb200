"""DeviceClass."""

from __future__ import annotations

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.core.podspec.resources import is_native
from kubewright.controlplane.kinds.kind import Kind, check_complete_name
from kubewright.controlplane.kinds.printing import AGE, field
from kubewright.controlplane.kinds.validation import Errors, MaxItems, Rules
from kubewright.controlplane.kinds.validation.formats import qualified_name
from kubewright.schema import field_errors as fe

from .claim_spec import CONFIGURATION, SELECTORS
from .resource_slice import STORED_FORMER


def _extended_resource_errors(name: str, path: str) -> Errors:
    if not (is_native(name) or name.startswith("requests.") or qualified_name(f"requests.{name}", path)):
        return []
    return [fe.invalid(path, name, "must be a valid extended resource name")]


SELECTOR_RULES = Rules({"spec.selectors": SELECTORS})
RULES = Rules(
    {
        "spec.config": MaxItems(32, stop=True),
        "spec.config[*]": CONFIGURATION,
        "spec.extendedResourceName": _extended_resource_errors,
    }
)


def _update_errors(new: Object, old: Object) -> Errors:
    unchanged = field(new, "spec.selectors") == field(old, "spec.selectors")
    return ([] if unchanged else SELECTOR_RULES(new)) + RULES(new)


KINDS = {
    "deviceclasses": Kind(
        former=STORED_FORMER,
        validate=Rules({"": [SELECTOR_RULES, RULES]}),
        validate_update=_update_errors,
        validate_name=check_complete_name,
        generation_fields=("spec",),
        returns_deleted_object=True,
        checks_whole_on_update=True,
        columns=(AGE,),
    ),
}
