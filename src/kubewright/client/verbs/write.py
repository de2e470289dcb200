"""The writing half of a client: create, update, patch, apply, delete, and subresources.

An object that is created, updated or patched is brought up to date with the server's answer and returned, so
the next write goes on from there. In a dry run nothing has happened: the answer is another object.

`update` sends what you changed since the object was read, as a merge patch that the server refuses
(`Conflict`) if the object has changed meanwhile. Fields that this program does not know, or that a cache has
left out, are therefore never lost. Permissions: patch; for an object that was not read but made here, update.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar, cast, overload

from kubewright.api import codec
from kubewright.api.errors import NotFound
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import DeleteOptions, MetaObject, PartialObjectMetadata, Preconditions
from kubewright.api.partial_objects import Partial
from kubewright.api.unstructured import Unstructured
from kubewright.client.kind_types import MetadataKind, UnstructuredKind
from kubewright.client.patches import Patch, base_and_changed, changes_since_read, to_dict
from kubewright.client.rest.rest_client import APIRequest

from .base import (
    JSON,
    METADATA,
    BaseClient,
    Fields,
    Labels,
    ObjectOrKind,
    ResourceLocation,
    class_of,
    format_field_selector,
    format_label_selector,
    kind_of,
    update_in_place,
)
from .base import decode_object as read_object

WrittenT = TypeVar("WrittenT", bound=MetaObject | Unstructured | dict[str, Any])
TypedT = TypeVar("TypedT", bound=MetaObject)
Propagation = Literal["Background", "Foreground", "Orphan"]

APPLY = "application/apply-patch+yaml"


class WriteVerbs(BaseClient):
    """Verbs that change something."""

    async def create(
        self,
        obj: WrittenT,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
        field_owner: str = "",
        field_validation: str = "",
    ) -> WrittenT:
        """Make an object that is not there yet; `AlreadyExists` if it is."""
        _refuse_metadata(obj, "created")
        location = await self.locate(obj, "", namespace)
        query = self.write_options(
            dry_run=dry_run, field_owner=field_owner, field_validation=field_validation
        )
        collection = ResourceLocation(location.resource, location.namespace, "")
        body = codec.encode(obj)
        call = self.call("create", "POST", collection, query=query, content_type=JSON, body=body)
        call.name = location.name
        return await self._written(call, obj, location)

    async def update(
        self,
        obj: WrittenT,
        *,
        dry_run: bool = False,
        field_owner: str = "",
        field_validation: str = "",
    ) -> WrittenT:
        """Write what you changed; `Conflict` if the object changed since you read it. See the module."""
        _refuse_metadata(obj, "updated")
        query = self.write_options(
            dry_run=dry_run, field_owner=field_owner, field_validation=field_validation
        )
        return await self._update(obj, "", query)

    async def update_status(
        self, obj: WrittenT, *, dry_run: bool = False, field_owner: str = "", field_validation: str = ""
    ) -> WrittenT:
        """Write what you changed in `status`, and nothing else."""
        _refuse_metadata(obj, "updated")
        query = self.write_options(
            dry_run=dry_run, field_owner=field_owner, field_validation=field_validation
        )
        return await self._update(obj, "status", query)

    async def _update(self, obj: WrittenT, subresource: str, query: dict[str, Any]) -> WrittenT:
        location = await self.locate(obj)
        if not location.name:
            raise ValueError("the object to update has no name")
        change = None
        if not isinstance(obj, dict) and obj.metadata.resource_version:
            change = changes_since_read(obj, optimistic_lock=True, part=subresource)
        if change is None:
            call = self.call(
                "update",
                "PUT",
                location,
                subresource=subresource,
                query=query,
                content_type=JSON,
                body=codec.encode(_whole(obj)),
            )
        else:
            call = self._patch_call(location, subresource, query, change)
        return await self._written(call, obj, location)

    def _patch_call(
        self,
        location: ResourceLocation,
        subresource: str,
        query: dict[str, Any],
        patch: Patch,
        accept: str = JSON,
    ) -> APIRequest:
        return self.call(
            "patch",
            "PATCH",
            location,
            subresource=subresource,
            query=query,
            accept=accept,
            content_type=patch.content_type,
            body=patch.body,
        )

    @overload
    async def patch(
        self,
        target: type[TypedT],
        patch: Patch,
        *,
        name: str,
        namespace: str | None = None,
        subresource: str = "",
        optimistic_lock: bool = False,
        dry_run: bool = False,
        field_owner: str = "",
        field_validation: str = "",
    ) -> TypedT: ...
    @overload
    async def patch(
        self,
        target: UnstructuredKind,
        patch: Patch,
        *,
        name: str,
        namespace: str | None = None,
        subresource: str = "",
        optimistic_lock: bool = False,
        dry_run: bool = False,
        field_owner: str = "",
        field_validation: str = "",
    ) -> Unstructured: ...
    @overload
    async def patch(
        self,
        target: WrittenT,
        patch: Patch | None = None,
        *,
        name: str = "",
        namespace: str | None = None,
        subresource: str = "",
        optimistic_lock: bool = False,
        dry_run: bool = False,
        field_owner: str = "",
        field_validation: str = "",
    ) -> WrittenT: ...
    async def patch(
        self,
        target: Any,
        patch: Patch | None = None,
        *,
        name: str = "",
        namespace: str | None = None,
        subresource: str = "",
        optimistic_lock: bool = False,
        dry_run: bool = False,
        field_owner: str = "",
        field_validation: str = "",
    ) -> Any:
        """Send a patch (`merge`, `json_patch`, `strategic`, `merge_from`) for an object, or a kind and name.

        Without a patch: what you changed in the object since it was read, whatever others have changed in
        other fields; with `optimistic_lock` only if nobody has.
        """
        if patch is not None and not isinstance(patch, Patch):
            raise TypeError(
                f"a patch says of which kind it is: merge({{...}}), strategic({{...}}), json_patch([...]) or "
                f"merge_from(before, after), not {type(patch).__name__}"
            )
        location = await self.locate(target, name, namespace)
        if not location.name:
            raise ValueError("a patch needs the name of an object")
        if patch is None:
            if not isinstance(target, MetaObject | Unstructured):
                raise TypeError("without a patch, patch() needs an object that was read from the server")
            part = "status" if subresource == "status" else ""
            patch = changes_since_read(target, optimistic_lock=optimistic_lock, part=part)
            if patch is None:
                raise ValueError("what changed cannot be told: the object was not read from the server")
        query = self.write_options(
            dry_run=dry_run, field_owner=field_owner, field_validation=field_validation
        )
        partial = isinstance(target, MetadataKind | PartialObjectMetadata)
        call = self._patch_call(location, subresource, query, patch, METADATA if partial else JSON)
        if isinstance(target, type | GroupVersionKind | str | MetadataKind):
            answer = await self.send(call)
            return read_object(answer.body, class_of(target), location.resource.gvk)
        return await self._written(call, target, location)

    async def apply(
        self,
        obj: WrittenT,
        namespace: str | None = None,
        *,
        field_owner: str = "",
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
        field_validation: str = "",
    ) -> WrittenT:
        """Server-side apply: make the fields of `obj` so, own them, and give up those you no longer send.

        `obj` is an intent: a `partial(...)`, an unstructured or a typed object; it is left as it is and the
        whole object is returned. `Conflict` names fields that others own, unless `force` takes them over. A
        field owner is needed, here or from `client.with_field_owner(...)`.
        """
        owner = field_owner or self.settings.field_owner
        if not owner:
            raise ValueError('apply needs a field owner: apply(..., field_owner="my-controller")')
        location = await self.locate(obj, "", namespace)
        if not location.name:
            raise ValueError("the object to apply has no name")
        query = self.write_options(dry_run=dry_run, field_owner=owner, field_validation=field_validation)
        query["force"] = force or None
        call = self._patch_call(
            location, subresource, query, Patch(APPLY, codec.encode(_intent(obj, location)))
        )
        answer = await self.send(call)
        cls = obj.type if isinstance(obj, Partial) else _class(obj)
        applied = read_object(answer.body, cls, location.resource.gvk)
        return cast(WrittenT, applied.raw if isinstance(obj, dict) else applied)

    @overload
    async def delete(
        self,
        target: type[TypedT] | TypedT,
        name: str = "",
        namespace: str | None = None,
        *,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        preconditions: Preconditions | None = None,
        missing_ok: bool = False,
        dry_run: bool = False,
    ) -> TypedT | None: ...
    @overload
    async def delete(
        self,
        target: UnstructuredKind | MetadataKind | Unstructured | dict[str, Any],
        name: str = "",
        namespace: str | None = None,
        *,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        preconditions: Preconditions | None = None,
        missing_ok: bool = False,
        dry_run: bool = False,
    ) -> Unstructured | PartialObjectMetadata | None: ...
    async def delete(
        self,
        target: ObjectOrKind,
        name: str = "",
        namespace: str | None = None,
        *,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        preconditions: Preconditions | None = None,
        missing_ok: bool = False,
        dry_run: bool = False,
    ) -> Any:
        """Ask for the end of an object. What remains of it for a while, where the server shows that.

        An object with finalizers is only marked; `wait(..., until=deleted)` waits for the end.
        """
        location = await self.locate(target, name, namespace)
        if not location.name:
            raise ValueError("delete needs a name; delete_all deletes many")
        call = self._delete_call("delete", location, None, propagation, grace_period, preconditions, dry_run)
        try:
            answer = await self.send(call)
        except NotFound:
            if missing_ok:
                return None
            raise
        if codec.decoder(codec.ObjectHeader).decode(answer.body).kind == "Status":
            return None
        return read_object(answer.body, _class(target), location.resource.gvk)

    async def delete_all(
        self,
        kind: type[MetaObject] | UnstructuredKind | MetadataKind,
        namespace: str | None = None,
        *,
        labels: Labels | None = None,
        fields: Fields | None = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete every object of a kind, in one namespace if it has namespaces, that the selectors choose."""
        location = await self.locate(kind, "", namespace)
        query: dict[str, Any] = {
            "labelSelector": format_label_selector(labels),
            "fieldSelector": format_field_selector(fields),
        }
        await self.send(
            self._delete_call("deletecollection", location, query, propagation, grace_period, None, dry_run)
        )

    def _delete_call(
        self,
        verb: str,
        location: ResourceLocation,
        query: dict[str, Any] | None,
        propagation: str | None,
        grace_period: int | None,
        preconditions: Preconditions | None,
        dry_run: bool,
    ) -> APIRequest:
        options = DeleteOptions(
            grace_period_seconds=grace_period,
            preconditions=preconditions,
            propagation_policy=propagation,
            dry_run=["All"] if dry_run or self.settings.dry_run else None,
        )
        return self.call(verb, "DELETE", location, query=query, content_type=JSON, body=codec.encode(options))

    async def _written(self, call: APIRequest, obj: WrittenT, location: ResourceLocation) -> WrittenT:
        answer = await self.send(call)
        gvk = location.resource.gvk
        if isinstance(obj, Partial):
            return cast(WrittenT, read_object(answer.body, obj.type, gvk))
        written = read_object(answer.body, _class(obj), gvk)
        if "dryRun=All" in call.query:
            return cast(WrittenT, written.raw if isinstance(obj, dict) else written)
        update_in_place(obj, written, answer.body)
        return obj


def _class(target: Any) -> type[Any]:
    if isinstance(target, PartialObjectMetadata):
        return PartialObjectMetadata
    if isinstance(target, Unstructured | dict):
        return Unstructured
    return type(target) if isinstance(target, MetaObject) else class_of(kind_of(target))


def _refuse_metadata(obj: Any, what: str) -> None:
    if isinstance(obj, PartialObjectMetadata):
        raise TypeError(f"metadata alone cannot be {what}; patch it, or read the whole object")


def _whole(obj: Any) -> Any:
    """An object to send whole; what was read from a server keeps the fields that are unknown here."""
    if isinstance(obj, dict):
        return obj
    pair = base_and_changed(obj)
    return obj if pair is None else {"apiVersion": obj.api_version, "kind": obj.kind, **pair[1]}


def _intent(obj: Any, location: ResourceLocation) -> dict[str, Any]:
    """What apply sends: bookkeeping of the server is no intent."""
    data = dict(to_dict(obj))
    data.setdefault("apiVersion", location.resource.gvk.api_version)
    data.setdefault("kind", location.resource.gvk.kind)
    metadata = dict(data.get("metadata") or {})
    for name in ("managedFields", "creationTimestamp", "generation", "selfLink"):
        metadata.pop(name, None)
    if location.namespace:
        metadata["namespace"] = location.namespace
    data["metadata"] = metadata
    return data


__all__ = ["Propagation", "WriteVerbs"]
