"""Strategy of `customresourcedefinitions`: defaults, validation, deletion.

`CustomResourceDefinitions` is notified after every write and serves the defined resource.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from kubewright import schema as rules
from kubewright.api.field_errors import FieldError
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.resource import Version
from kubewright.apiserver.resources.strategy import Operation, Strategy
from kubewright.schema.crd.defaults import prune_embedded_defaults

from . import conditions

if TYPE_CHECKING:
    from .definitions import CustomResourceDefinitions

CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer of a definition until its instances are deleted."""


_NOT_KEPT: Final = (CLEANUP, "orphan", "foregroundDeletion")
"""Propagation policies do not apply to definitions: their instances are always deleted first."""


class DefinitionStrategy(Strategy):
    """Strategy of `customresourcedefinitions`."""

    custom_delete_preconditions = True

    def __init__(self, owner: CustomResourceDefinitions) -> None:
        self._owner = owner

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """Accept any name; `validate` checks that it matches the spec."""
        return []

    def default(self, version: Version, obj: Object) -> None:
        """Default names, conversion and stored versions."""
        rules.default_crd(obj)

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """Reset the status of a new definition."""
        _prune_defaults(obj)
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": None,
        }
        _remember_storage_version(obj)

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Ignore spec changes through `status`; otherwise record the storage version."""
        if op.subresource == "status":
            obj["spec"] = old["spec"]
        else:
            _prune_defaults(obj)
            _remember_storage_version(obj)

    def generation_changes(self, op: Operation, obj: Object, old: Object) -> bool:
        """Whether the spec has changed."""
        return bool(obj.get("spec") != old.get("spec"))

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """Validate a new definition and its name."""
        return rules.validate_crd(obj, metadata=False)

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """Validate an update."""
        if op.subresource == "status":
            return rules.validate_crd_status(obj)
        return rules.validate_crd(obj, old)

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """Return warnings about fields without effect."""
        return () if op.subresource == "status" else rules.crd_warnings(obj, old)

    def reset_fields(self, subresource: str) -> tuple[str, ...]:
        """Metadata may be changed through `status`, as by the controllers of Kubernetes."""
        return ("spec",) if subresource == "status" else ("status",)

    def before_delete(self, op: Operation, obj: Object) -> None:
        """Add the finalizer and the Terminating condition at the first deletion."""
        if conditions.find(obj, "Terminating") is not None:
            return
        metadata = obj["metadata"]
        metadata.pop("deletionGracePeriodSeconds", None)
        if metadata.get("generation"):
            metadata["generation"] -= 1
        finalizers = [name for name in metadata.get("finalizers") or () if name not in _NOT_KEPT]
        metadata["finalizers"] = [*finalizers, CLEANUP]
        conditions.put(
            obj,
            "Terminating",
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        )

    async def after_store(self, op: Operation, obj: Object, old: Object | None) -> None:
        """Serve the resource before the client receives the response."""
        await self._owner.definition_stored(op, obj)

    async def after_delete(self, op: Operation, obj: Object) -> None:
        """Stop serving the resource."""
        await self._owner.definition_deleted(obj)


def _prune_defaults(crd: Object) -> None:
    for version in crd["spec"].get("versions") or ():
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if isinstance(schema, dict):
            prune_embedded_defaults(schema)


def _remember_storage_version(crd: Object) -> None:
    stored = list(crd["status"].get("storedVersions") or ())
    for version in crd["spec"].get("versions") or ():
        if version.get("storage"):
            if version.get("name") not in stored:
                stored.append(version.get("name"))
            break
    crd["status"]["storedVersions"] = stored or None
