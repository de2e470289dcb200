"""CSIDriver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.defaults import Defaults, IfEmpty
from kubewright.controlplane.kinds.kind import Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, NONE, UNSET, column, field, shown
from kubewright.controlplane.kinds.validation import (
    Enum,
    Errors,
    Immutable,
    Maximum,
    Minimum,
    Rules,
    Unique,
    UpdateRules,
)
from kubewright.controlplane.kinds.validation.formats import dns_subdomain, immutable
from kubewright.schema import field_errors as fe

LIFECYCLE_MODES = ("Persistent", "Ephemeral")


def driver_name_errors(name: str, path: str) -> Errors:
    """Validate the required name of a CSI or DRA driver."""
    if not name:
        return [fe.required(path, "")]
    errors: Errors = [fe.too_long(path, 63)] if len(name) > 63 else []
    lower = dns_subdomain(name.lower(), path)
    return errors + [fe.invalid(path, name, error.message.split(": ", 2)[2]) for error in lower]


def _mode_errors(modes: list[str], path: str) -> Errors:
    return [fe.not_supported(path, mode, LIFECYCLE_MODES) for mode in modes if mode not in LIFECYCLE_MODES]


def _token_errors(spec: Object, path: str) -> Errors:
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    if in_secrets is None or spec.get("tokenRequests"):
        return []
    text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
    return [fe.invalid(f"{path}.serviceAccountTokenInSecrets", in_secrets, text)]


_EXPIRATION = [
    Minimum(600, "may not specify a duration less than 10 minutes"),
    Maximum(1 << 32, "may not specify a duration larger than 2^32 seconds"),
]
RULES = Rules(
    {
        "spec": {
            "fsGroupPolicy": Enum("File", "None", "ReadWriteOnceWithFSType"),
            "tokenRequests[*]": [Unique("audience", stop=True), {"expirationSeconds": _EXPIRATION}],
            "volumeLifecycleModes": _mode_errors,
            "nodeAllocatableUpdatePeriodSeconds": Minimum(10, "must be greater than or equal to 10 seconds"),
            "": _token_errors,
        }
    }
)


def _attach_required_unchanged(new: Any, old: Any, path: str) -> Errors:
    return immutable(new, old, "spec.attachedRequired")  # The path in the message of kube-apiserver.


def _warnings(obj: Object, old: Object | None) -> Iterable[str]:
    spec = obj.get("spec") or {}
    requests = spec.get("tokenRequests")
    is_new = requests != field(old or {}, "spec.tokenRequests")
    if requests and spec.get("serviceAccountTokenInSecrets") is None and is_new:
        yield (
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to "
            "prevent possible logging of tokens in volume attributes"
        )


class CSIDriverStrategy(KindStrategy):
    """Sets the generation with the first update."""

    def initial_generation(self, obj: Object) -> int | None:
        """Return no generation."""
        return None


def _audiences(obj: Object) -> str:
    requests = field(obj, "spec.tokenRequests")
    return UNSET if requests is None else ",".join(one.get("audience") or "" for one in requests)


def _modes(obj: Object) -> str:
    return ",".join(field(obj, "spec.volumeLifecycleModes", ())) or NONE


def _flag(name: str, path: str, description: str, *, default: bool = False) -> Any:
    return column(name, shown(path, default), type="boolean", description=description)


DEFAULTS: dict[str, Any] = {
    "spec.attachRequired": True,
    "spec.podInfoOnMount": False,
    "spec.storageCapacity": False,
    "spec.fsGroupPolicy": "ReadWriteOnceWithFSType",
    "spec.requiresRepublish": False,
    "spec.seLinuxMount": False,
    "spec.volumeLifecycleModes": IfEmpty(["Persistent"]),
}

KINDS = {
    "csidrivers": Kind(
        strategy=CSIDriverStrategy,
        default=Defaults({**DEFAULTS, "spec.preventPodSchedulingIfMissing": False}),
        # VolumeLimitScaling is enabled since 1.37; serviceAccountTokenInSecrets exists since 1.35.
        former={"-1.36": {"default": Defaults(DEFAULTS)}, "-1.34": {"warnings": None}},
        validate=RULES,
        validate_update=UpdateRules(
            RULES,
            {"spec.attachRequired": _attach_required_unchanged, "spec.volumeLifecycleModes": Immutable()},
        ),
        warnings=_warnings,
        generation_fields=("spec",),
        allow_unconditional_update=False,
        returns_deleted_object=True,
        columns=(
            _flag("AttachRequired", "spec.attachRequired", "Whether volumes must be attached.", default=True),
            _flag("PodInfoOnMount", "spec.podInfoOnMount", "Whether the driver receives pod information."),
            _flag("StorageCapacity", "spec.storageCapacity", "Whether the driver reports its capacity."),
            column("TokenRequests", _audiences, description="Audiences of the requested tokens."),
            _flag("RequiresRepublish", "spec.requiresRepublish", "Whether volumes are republished."),
            column("Modes", _modes, description="Supported volume lifecycle modes."),
            AGE,
        ),
    ),
}
