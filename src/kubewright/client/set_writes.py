"""Writes of the objects of sets: the loop that applies them, and how members are removed.

`Client.apply_yaml`, `ApplySet`, `DesiredState`, `ObjectSets` and `GraphSets` differ in what they know of an
object before they write it, from the cache or from the API server, and in what they report. An object is
applied and removed here, under the field manager that is its inventory (see `membership`): it is deleted by
the last manager that gives it up, never because of its owner alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from kubewright.api.apply_order import phase_of
from kubewright.api.errors import Conflict, NotFound
from kubewright.api.gvk import GroupKind, GroupVersionKind
from kubewright.api.meta import MetaObject, Preconditions
from kubewright.api.unstructured import Unstructured

from .kind_types import metadata_of
from .membership import OWNER_MARK, SET_MARK, FieldManager, Mark, SetMember, appliers, member_of
from .wait import condition

if TYPE_CHECKING:
    from .client import Client

CRD: Final = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
CRD_TIMEOUT: Final = 30.0
_ATTEMPTS: Final = 5

ObjectT = TypeVar("ObjectT")
ResultT = TypeVar("ResultT")


async def apply_each(
    objects: Sequence[ObjectT],
    apply: Callable[[ObjectT], Awaitable[ResultT]],
    *,
    describe: Callable[[ObjectT], str] = str,
) -> AsyncIterator[ResultT]:
    """Apply objects in order; yield each result. A note of an error says how many objects were applied."""
    for number, each in enumerate(objects):
        try:
            result = await apply(each)
        except Exception as error:
            error.add_note(
                f"while applying {describe(each)}; {number} of {len(objects)} objects were applied"
            )
            raise
        yield result


async def apply_member(
    client: Client,
    manifest: dict[str, Any],
    manager: FieldManager,
    mark: Mark,
    *,
    force: bool,
    dry_run: bool = False,
) -> Unstructured:
    """Apply an object that has the mark of a set; return the response of the API server.

    Former names of the manager are removed from the object, and the kind of a CRD is served afterwards.
    """
    applied = await client.apply(
        Unstructured(manifest), field_manager=manager.name, force=force, dry_run=dry_run
    )
    if not dry_run:
        await take_over(client, applied, manager, mark)
        await wait_for_definition(client, manifest)
    return applied


async def wait_for_definition(client: Client, applied: Mapping[str, Any]) -> None:
    """Wait until the kind of an applied CRD is served; other objects need no wait."""
    gvk = GroupVersionKind.from_api_version(applied["apiVersion"], applied["kind"])
    if gvk.group_kind == CRD:
        name = applied["metadata"]["name"]
        await client.wait(gvk, name, until=condition("Established"), timeout=CRD_TIMEOUT)
        client.mapper.invalidate()


async def take_over(
    client: Client, applied: MetaObject | Unstructured, manager: FieldManager, mark: Mark
) -> None:
    """Remove the former names of a manager from an object that was applied under its current name.

    Fields that were applied only under a former name are removed with it.
    """
    metadata = applied.metadata
    for name in appliers(metadata.managed_fields, mark) & (manager.former | manager.ambiguous):
        gvk = GroupVersionKind.from_api_version(applied.api_version, applied.kind)
        await _release(client, member_of(gvk, metadata), name)


class Removal(NamedTuple):
    """Result of `remove_member`."""

    deleted: bool = False
    kept: bool = False
    """Whether the object stays, because this manager has not applied it or others have too."""
    others: frozenset[str] = frozenset()
    """Other managers that have applied the object."""


def deletion_order(members: Iterable[SetMember]) -> list[list[SetMember]]:
    """Return members in groups: the reverse of the order in which they are applied."""
    groups: dict[int, list[SetMember]] = {}
    for each in members:
        groups.setdefault(phase_of(str(each.gvk.group_version), each.gvk.kind), []).append(each)
    return [groups[phase] for phase in sorted(groups, reverse=True)]


async def remove_member(client: Client, member: SetMember, manager: FieldManager, mark: Mark) -> Removal:
    """Delete an object that only this manager has applied; of one that others have too, give up the fields.

    Nothing is done with an object that this manager has not applied, that is being deleted, or that has
    another uid. `client` must read from the API server.
    """
    kind, name, namespace = metadata_of(member.gvk), member.name, member.namespace or None
    for attempt in range(1, _ATTEMPTS + 1):
        live = await client.get_or_none(kind, name, namespace=namespace)
        if live is None or live.metadata.uid != member.uid or live.metadata.deletion_timestamp is not None:
            return Removal()
        own = appliers(live.metadata.managed_fields, mark) & manager.names
        others = appliers(live.metadata.managed_fields, OWNER_MARK, SET_MARK) - manager.names
        # The resource version: another controller can apply the object after it was read.
        unchanged = Preconditions(uid=member.uid, resource_version=live.metadata.resource_version)
        try:
            if own and not others:
                await client.delete(
                    member.gvk, name, namespace=namespace, preconditions=unchanged, propagation="Background"
                )
                return Removal(deleted=True)
            for each in own:
                await _release(client, member, each)
            return Removal(kept=True, others=others)
        except NotFound:
            break
        except Conflict:
            if attempt == _ATTEMPTS:
                raise
    return Removal()


async def _release(client: Client, member: SetMember, manager: str) -> None:
    """Remove a field manager from an object, with the fields that no other manager has.

    Raises `Conflict` if the object does not exist, or another one has its name.
    """
    metadata = {"name": member.name, "uid": member.uid}
    if member.namespace:
        metadata["namespace"] = member.namespace
    nothing = {"apiVersion": member.gvk.api_version, "kind": member.gvk.kind, "metadata": metadata}
    await client.apply(nothing, field_manager=manager, force=True)
