"""How definitions themselves are written: defaults, validation, what clients may set, deletion.

A definition goes through the API like any object of Kubernetes. What happens to the resource that it defines
is up to `CustomResourceDefinitions`, which is told after every write.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from kubewright import schema as rules
from kubewright.api.field_errors import FieldError
from kubewright.apiserver.objects import Object
from kubewright.apiserver.resource import Version
from kubewright.apiserver.strategy import Operation, Strategy

from . import conditions

if TYPE_CHECKING:
    from .definitions import CustomResourceDefinitions

CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that keeps a definition until its instances are gone."""


_NOT_KEPT: Final = (CLEANUP, "orphan", "foregroundDeletion")
"""The policy of a deletion does not matter for definitions: their instances always go with them."""


class DefinitionStrategy(Strategy):
    """The rules of `customresourcedefinitions`."""

    custom_delete_preconditions = True

    def __init__(self, owner: CustomResourceDefinitions) -> None:
        self._owner = owner

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """The whole name follows from the spec; `validate` says how."""
        return []

    def default(self, version: Version, obj: Object) -> None:
        """Names, conversion and stored versions that can be told from the rest."""
        rules.default_crd(obj)

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """A new definition has no history."""
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": None,
        }
        _remember_storage_version(obj)

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Through `status` nothing of the spec changes; otherwise the storage version is remembered."""
        if op.subresource == "status":
            obj["spec"] = old["spec"]
        else:
            _remember_storage_version(obj)

    def generation_changes(self, op: Operation, obj: Object, old: Object) -> bool:
        """A new spec is a new generation."""
        return bool(obj.get("spec") != old.get("spec"))

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """Everything that is wrong with a new definition and its name."""
        return rules.validate_crd(obj, metadata=False)

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """Everything that is wrong with a change."""
        if op.subresource == "status":
            return rules.validate_crd_status(obj)
        return rules.validate_crd(obj, old)

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """What a definition says in vain."""
        return () if op.subresource == "status" else rules.crd_warnings(obj, old)

    def reset_fields(self, subresource: str) -> tuple[str, ...]:
        """Metadata may be changed through `status`, as by the controllers of Kubernetes."""
        return ("spec",) if subresource == "status" else ("status",)

    def before_delete(self, op: Operation, obj: Object) -> None:
        """The first deletion leaves the definition to the clean-up of its instances."""
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
        """Serve what is defined before the client hears that it is."""
        await self._owner.definition_stored(op, obj)

    async def after_delete(self, op: Operation, obj: Object) -> None:
        """Serve it no more."""
        await self._owner.definition_deleted(obj)


def _remember_storage_version(crd: Object) -> None:
    stored = list(crd["status"].get("storedVersions") or ())
    for version in crd["spec"].get("versions") or ():
        if version.get("storage"):
            if version.get("name") not in stored:
                stored.append(version.get("name"))
            break
    crd["status"]["storedVersions"] = stored or None
