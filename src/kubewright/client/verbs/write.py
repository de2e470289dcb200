"""Write verbs: create, update, patch, apply, delete.

An object that is created, updated or patched is updated in place from the response and returned, so the next
write starts from the current resource version. A dry run returns another object and leaves yours unchanged.

`update` sends the changes since the object was read, as a merge patch with the resource version: `Conflict`
if the object has changed. Fields that this program does not declare, or that a cache has dropped, are
therefore never lost. It needs the patch permission; for an object that was not read from the server, update.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, overload

from kubewright.api.encoding import codec
from kubewright.api.errors import NotFound
from kubewright.api.meta import DeleteOptions, MetaObject, PartialObjectMetadata, Preconditions
from kubewright.api.partial_objects import Partial
from kubewright.api.unstructured import Unstructured
from kubewright.client.decoding import class_of, decode_object, kind_of, update_in_place
from kubewright.client.kind_types import (
    KIND_FORMS,
    AnyKind,
    KindOf,
    MetadataKind,
    ObjectT,
)
from kubewright.client.patches import Patch, base_and_changed, changes_since_read, former_patch_order, to_dict
from kubewright.client.rest.expected_object import ExpectedObject
from kubewright.client.rest.request import APIRequest
from kubewright.deprecation import adapted, renamed_parameter

from .base import JSON, METADATA, BaseClient, ResourceLocation

if TYPE_CHECKING:
    from kubewright.client.arguments import DeleteArguments, FieldValidation, PatchArguments, Propagation
    from kubewright.client.selectors import Fields, Labels

WritableT = TypeVar("WritableT", bound=MetaObject | Unstructured | dict[str, Any])

APPLY = "application/apply-patch+yaml"


class WriteVerbs(BaseClient):
    """Verbs that change objects."""

    @renamed_parameter("field_owner", "field_manager")
    async def create(
        self,
        obj: WritableT,
        *,
        namespace: str | None = None,
        dry_run: bool = False,
        field_manager: str = "",
        field_validation: FieldValidation | None = None,
    ) -> WritableT:
        """Create an object; raise `AlreadyExists` if it exists."""
        _reject_metadata(obj, "created")
        location = await self.locate(obj, None, namespace)
        query = self.write_query(
            dry_run=dry_run, field_manager=field_manager, field_validation=field_validation
        )
        collection = ResourceLocation(location.resource, location.namespace, "")
        body = codec.encode(obj)
        request = self.build_request("create", "POST", collection, query=query, content_type=JSON, body=body)
        request.name = location.name
        return await self._write(request, obj, location)

    @renamed_parameter("field_owner", "field_manager")
    async def update(
        self,
        obj: WritableT,
        *,
        dry_run: bool = False,
        field_manager: str = "",
        field_validation: FieldValidation | None = None,
    ) -> WritableT:
        """Send the changes since the object was read; raise `Conflict` if it has changed on the server."""
        _reject_metadata(obj, "updated")
        query = self.write_query(
            dry_run=dry_run, field_manager=field_manager, field_validation=field_validation
        )
        return await self._update(obj, "", query)

    @renamed_parameter("field_owner", "field_manager")
    async def update_status(
        self,
        obj: WritableT,
        *,
        dry_run: bool = False,
        field_manager: str = "",
        field_validation: FieldValidation | None = None,
    ) -> WritableT:
        """Send the changes of `status` to the status subresource.

        Raises `UnsentChangesError` if other fields have changed since the object was read: the subresource
        ignores them, and the response would replace them.
        """
        _reject_metadata(obj, "updated")
        query = self.write_query(
            dry_run=dry_run, field_manager=field_manager, field_validation=field_validation
        )
        return await self._update(obj, "status", query)

    async def _update(self, obj: WritableT, subresource: str, query: dict[str, Any]) -> WritableT:
        location = await self.locate(obj)
        if not location.name:
            raise ValueError("the object to update has no metadata.name")
        patch = None
        if not isinstance(obj, dict) and obj.metadata.resource_version:
            patch = changes_since_read(obj, optimistic_lock=True, part=subresource)
        if patch is None:
            request = self.build_request(
                "update",
                "PUT",
                location,
                subresource=subresource,
                query=query,
                content_type=JSON,
                body=codec.encode(_full_object(obj)),
            )
        else:
            request = self._patch_request(location, subresource, query, patch)
        # The server compares the uid of a PUT, and the resourceVersion of this patch, with the stored object.
        return await self._write(request, obj, location, uid=_uid(obj))

    def _patch_request(
        self,
        location: ResourceLocation,
        subresource: str,
        query: dict[str, Any],
        patch: Patch,
        accept: str = JSON,
    ) -> APIRequest:
        return self.build_request(
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
        self, target: KindOf[ObjectT], name: str, patch: Patch, **arguments: Unpack[PatchArguments]
    ) -> ObjectT: ...
    @overload
    async def patch(
        self, target: str, name: str, patch: Patch, **arguments: Unpack[PatchArguments]
    ) -> Unstructured: ...
    @overload
    async def patch(
        self, target: WritableT, patch: Patch | None = None, **arguments: Unpack[PatchArguments]
    ) -> WritableT: ...
    @renamed_parameter("field_owner", "field_manager")
    @adapted(former_patch_order)
    async def patch(
        self,
        target: Any,
        name: Any = None,
        patch: Any = None,
        *,
        namespace: str | None = None,
        subresource: str = "",
        optimistic_lock: bool = False,
        dry_run: bool = False,
        field_manager: str = "",
        field_validation: FieldValidation | None = None,
    ) -> Any:
        """Patch an object, `patch(obj, patch)`, or one of a kind, `patch(kind, name, patch)`.

        A patch is a `merge_patch`, `json_patch`, `strategic_merge_patch` or `merge_from`.
        Without one, the changes since the object was read are sent; changes of other clients to other fields
        stay. With `optimistic_lock`, `Conflict` if the object has changed at all.
        """
        if patch is None and not isinstance(name, str):
            name, patch = None, name
        if patch is not None and not isinstance(patch, Patch):
            raise TypeError(
                f"patch must be merge_patch({{...}}), strategic_merge_patch({{...}}), json_patch([...]) or "
                f"merge_from(before, after), not {type(patch).__name__}"
            )
        location = await self.locate(target, name, namespace)
        if not location.name:
            raise ValueError("patch requires the name of an object: patch(kind, name, patch)")
        if patch is None:
            if not isinstance(target, MetaObject | Unstructured):
                raise TypeError("patch() without a patch requires an object that was read from the server")
            part = "status" if subresource == "status" else ""
            patch = changes_since_read(target, optimistic_lock=optimistic_lock, part=part)
            if patch is None:
                raise ValueError("cannot compute a patch: the object was not read from the server")
        query = self.write_query(
            dry_run=dry_run, field_manager=field_manager, field_validation=field_validation
        )
        partial = isinstance(target, MetadataKind | PartialObjectMetadata)
        request = self._patch_request(location, subresource, query, patch, METADATA if partial else JSON)
        if isinstance(target, KIND_FORMS):
            request.expects = ExpectedObject(location.resource.gvk, partial=partial)
            response = await self.send(request)
            return decode_object(response.body, class_of(target), location.resource.gvk)
        return await self._write(request, target, location)

    @renamed_parameter("field_owner", "field_manager")
    async def apply(
        self,
        obj: WritableT,
        *,
        namespace: str | None = None,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str = "",
        field_validation: FieldValidation | None = None,
    ) -> WritableT:
        """Server-side apply: set and own the fields of `obj`, remove owned fields that it no longer has.

        `obj` is a `partial(...)`, an unstructured or a typed object; it is not changed, and the full object
        is returned. `Conflict` has the fields that other managers own, unless `force` takes them over. A
        field manager is required, here or from `client.with_field_manager(...)`.
        """
        owner = field_manager or self.options.field_manager
        if not owner:
            raise ValueError('apply requires a field manager: apply(..., field_manager="my-controller")')
        location = await self.locate(obj, None, namespace)
        if not location.name:
            raise ValueError("the object to apply has no metadata.name")
        query = self.write_query(dry_run=dry_run, field_manager=owner, field_validation=field_validation)
        query["force"] = force or None
        body = codec.encode(_apply_configuration(obj, location))
        request = self._patch_request(location, subresource, query, Patch(APPLY, body))
        request.expects = ExpectedObject(location.resource.gvk)
        response = await self.send(request)
        cls = obj.type if isinstance(obj, Partial) else _class(obj)
        applied = decode_object(response.body, cls, location.resource.gvk)
        return cast(WritableT, applied.raw if isinstance(obj, dict) else applied)

    @overload
    async def delete(
        self,
        target: KindOf[ObjectT] | ObjectT,
        name: str | None = None,
        **arguments: Unpack[DeleteArguments],
    ) -> ObjectT | None: ...
    @overload
    async def delete(
        self,
        target: str | dict[str, Any],
        name: str | None = None,
        **arguments: Unpack[DeleteArguments],
    ) -> Unstructured | None: ...
    async def delete(
        self,
        target: Any,
        name: str | None = None,
        *,
        namespace: str | None = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        preconditions: Preconditions | None = None,
        missing_ok: bool = False,
        dry_run: bool = False,
    ) -> Any:
        """Delete an object. Returns the object if the server returns it, `None` if it is deleted.

        An object with finalizers only gets a deletion timestamp; `wait(obj, until=is_deleted)` waits for the
        deletion. With `missing_ok`, an object that does not exist is not an error.
        """
        location = await self.locate(target, name, namespace)
        if not location.name:
            raise ValueError("delete requires a name; delete_all deletes a collection")
        request = self._delete_request(
            "delete", location, None, propagation, grace_period, preconditions, dry_run
        )
        request.expects = ExpectedObject(location.resource.gvk)
        try:
            response = await self.send(request)
        except NotFound:
            if missing_ok:
                return None
            raise
        if codec.decoder(codec.ObjectHeader).decode(response.body).kind == "Status":
            return None
        return decode_object(response.body, _class(target), location.resource.gvk)

    async def delete_all(
        self,
        kind: AnyKind,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete all objects of a kind, in one namespace if it has namespaces, that match the selectors."""
        from kubewright.client.selectors import format_fields, format_labels

        location = await self.locate(kind, None, namespace)
        query: dict[str, Any] = {
            "labelSelector": format_labels(labels),
            "fieldSelector": format_fields(fields),
        }
        await self.send(
            self._delete_request(
                "deletecollection", location, query, propagation, grace_period, None, dry_run
            )
        )

    def _delete_request(
        self,
        verb: str,
        location: ResourceLocation,
        query: dict[str, Any] | None,
        propagation: str | None,
        grace_period: int | None,
        preconditions: Preconditions | None,
        dry_run: bool,
    ) -> APIRequest:
        body = DeleteOptions(
            grace_period_seconds=grace_period,
            preconditions=preconditions,
            propagation_policy=propagation,
            dry_run=["All"] if dry_run or self.options.dry_run else None,
        )
        return self.build_request(
            verb, "DELETE", location, query=query, content_type=JSON, body=codec.encode(body)
        )

    async def _write(
        self, request: APIRequest, obj: WritableT, location: ResourceLocation, *, uid: str = ""
    ) -> WritableT:
        gvk = location.resource.gvk
        request.expects = ExpectedObject(gvk, uid, isinstance(obj, PartialObjectMetadata))
        response = await self.send(request)
        if isinstance(obj, Partial):
            return cast(WritableT, decode_object(response.body, obj.type, gvk))
        current = decode_object(response.body, _class(obj), gvk)
        if "dryRun=All" in request.query:
            return cast(WritableT, current.raw if isinstance(obj, dict) else current)
        update_in_place(obj, current, response.body)
        return obj


def _class(target: Any) -> type[Any]:
    if isinstance(target, PartialObjectMetadata):
        return PartialObjectMetadata
    if isinstance(target, Unstructured | dict):
        return Unstructured
    return type(target) if isinstance(target, MetaObject) else class_of(kind_of(target))


def _uid(obj: Any) -> str:
    if isinstance(obj, MetaObject):
        return obj.metadata.uid or ""
    metadata = (obj.raw if isinstance(obj, Unstructured) else to_dict(obj)).get("metadata") or {}
    return metadata.get("uid") or ""


def _reject_metadata(obj: Any, verb: str) -> None:
    if isinstance(obj, PartialObjectMetadata):
        raise TypeError(f"PartialObjectMetadata cannot be {verb}; patch it, or read the full object")


def _full_object(obj: Any) -> Any:
    """Return the object to PUT; one that was read from the server keeps fields that its class lacks."""
    if isinstance(obj, dict):
        return obj
    pair = base_and_changed(obj)
    return obj if pair is None else {"apiVersion": obj.api_version, "kind": obj.kind, **pair[1]}


def _apply_configuration(obj: Any, location: ResourceLocation) -> dict[str, Any]:
    """Return the body of an apply request, without the metadata that the server manages."""
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
