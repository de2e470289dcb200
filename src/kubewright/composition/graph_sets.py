"""`GraphSets`: applies graphs of objects in the order of their dependencies.

    sets = GraphSets(client, cache, owns=(ConfigMap, Service), field_manager="platform")

    async def reconcile(app: WebApp) -> None:
        result = await sets.apply(app, graph_for(app))
        ready = all(each.readiness.is_ready for each in result.states)

    async def clean_up(app: WebApp) -> Result | None:
        return Result(requeue_after=10) if await sets.delete(app) else None

Every object is a member of the ApplySet of its owner, as in `ObjectSets`, and stores its place in the graph:
the label `composition.kubewright.dev/node` and the annotation `composition.kubewright.dev/after` with the
names of the nodes that it depends on. So objects of a node that is removed from the graph, and all objects of
a deleted owner, are deleted in reverse order without a call of the function that built the graph: by a new
version of the program, or after a change of the spec that the function depends on.

`apply` visits each node once. A node whose dependencies are not ready waits: its existing objects stay as
they are. After an error of one node, those that do not depend on it are applied nevertheless. Changes of
members call the controller again (`source`), so nothing polls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from kubewright.api.declaring.declarations import is_resource
from kubewright.api.encoding import codec
from kubewright.api.gvk import GroupKind, GroupVersionKind
from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured
from kubewright.cache import Cache
from kubewright.cache.kind_options import RESTRICTED_KINDS
from kubewright.cache.stores.store import ObjectChange, ObjectKey
from kubewright.client import Client
from kubewright.client.applyset_inventory import Inventory
from kubewright.client.membership import FieldManager, SetMember
from kubewright.client.patches import to_dict
from kubewright.client.readiness import CURRENT, Readiness, readiness_of
from kubewright.controller.children.desired_state import EnsureResult, OwnedKind, apply_configuration, gvk_of
from kubewright.controller.children.object_sets import ObjectSets, inventory_of
from kubewright.controller.request import Request
from kubewright.deprecation import renamed_parameter

from .graph import DesiredObject, ExternalObject, Graph, GraphError, NotReady, ReadyTest

NODE_LABEL: Final = "composition.kubewright.dev/node"
AFTER_ANNOTATION: Final = "composition.kubewright.dev/after"

_UNREPORTED: Final = Readiness("InProgress", "its controller has not reported conditions yet")
_NOT_READY: Final = "the condition of the composition is not met yet"


class MemberState(NamedTuple):
    """State of an object."""

    gvk: GroupVersionKind
    key: ObjectKey
    readiness: Readiness


@dataclass(frozen=True)
class NodeState:
    """State of a node: that of its objects, or what it waits for."""

    name: str
    members: tuple[MemberState, ...] = ()
    waiting: str = ""
    """What the node waits for before its objects are applied; empty if they are applied."""
    error: Exception | None = None

    @property
    def is_ready(self) -> bool:
        """Whether all objects are applied and ready."""
        return not self.waiting and self.error is None and all(m.readiness.is_ready for m in self.members)

    @property
    def is_failed(self) -> bool:
        """Whether an object could not be applied, or has failed."""
        return self.error is not None or any(m.readiness.is_failed for m in self.members)


@dataclass(frozen=True)
class GraphResult:
    """Result of `GraphSets.apply`."""

    states: list[NodeState] = field(default_factory=list)
    """States of all nodes, in the order in which they were applied."""
    changes: EnsureResult = field(default_factory=EnsureResult)
    observed: dict[str, Any] = field(default_factory=dict)
    """The objects of each node as the API server returned them, if they exist."""

    @property
    def errors(self) -> list[Exception]:
        """Errors of nodes that could not be applied."""
        return [each.error for each in self.states if each.error is not None]


class GraphSets(ObjectSets):
    """Applies and deletes the objects of graphs; one instance for all owners of a controller.

    Permissions: get, list, watch, patch, create and delete of the owned kinds, and patch of the owner.
    """

    @renamed_parameter("field_owner", "field_manager")
    def __init__(
        self,
        client: Client,
        cache: Cache,
        *,
        owns: Iterable[OwnedKind],
        reads: Iterable[OwnedKind] = (),
        field_manager: str | FieldManager,
        force: bool = True,
    ) -> None:
        """`owns`: kinds of the objects of graphs. `reads`: kinds of external objects."""
        super().__init__(client, cache, field_manager=field_manager, force=force)
        self._owned = {_gvk(kind) for kind in owns}
        self._readable = self._owned | {_gvk(kind) for kind in reads}
        self._readers: dict[ObjectKey, dict[str, Request]] = {}
        """Requests of owners, by the id of their set, that read an external object with this key."""
        self._owned_kinds = frozenset(each.group_kind for each in self._owned)

    async def apply(self, owner: MetaObject | Unstructured, graph: Graph) -> GraphResult:
        """Apply the nodes whose dependencies are ready, and delete objects of nodes that were removed.

        Raises `GraphError` before anything is applied; other errors are those of nodes, in the result.
        """
        order = graph.order()
        run = _Run(self, owner, graph)
        await self._parent_of(owner).extend(Inventory(self._owned_kinds))
        for name in order:
            await run.apply_node(name)
        self._set_reads(run.set_id, run.reads)
        result = run.result
        if not result.errors:
            kept: list[SetMember] = []
            unwanted = [each for each in await self._members(owner, run.keys) if not run.wants(each)]
            while others := await self._remove(owner, self._last_members(unwanted), result.changes):
                kept += others  # of other controllers: their dependencies do not count
                unwanted = [each for each in unwanted if each not in others]
            if not kept and not any(each.waiting for each in result.states):
                target = Inventory(self._owned_kinds) | inventory_of(run.keys, owner)
                await self._parent_of(owner).reduce(target)
        return result

    def _last_members(self, members: Sequence[SetMember]) -> list[SetMember]:
        """Return the members that no other member depends on; the others follow when these are deleted."""
        needed = {
            node
            for each in members
            for node in each.annotations.get(AFTER_ANNOTATION, "").split(",")
            if node and node != each.labels.get(NODE_LABEL)
        }
        found = [each for each in members if each.labels.get(NODE_LABEL, "") not in needed]
        return found or list(members)

    def _forget(self, set_id: str) -> None:
        super()._forget(set_id)
        self._set_reads(set_id, ())

    def _set_reads(self, set_id: str, keys: Collection[ObjectKey]) -> None:
        """Remember which external objects an owner reads, so that their changes call the controller."""
        for key in [key for key, readers in self._readers.items() if set_id in readers and key not in keys]:
            del self._readers[key][set_id]
            if not self._readers[key]:
                del self._readers[key]
        for key in keys:
            self._readers.setdefault(key, {})[set_id] = self._requests[set_id]

    def _owners_of(self, change: ObjectChange) -> Iterable[Request]:
        # An object of another kind with the same name is one needless request.
        readers = self._readers.get(change.key)
        owners = super()._owners_of(change)
        return owners if readers is None else dict.fromkeys((*owners, *readers.values()))

    async def read_object(
        self, run: _Run, name: str, obj: ExternalObject
    ) -> tuple[GroupVersionKind, ObjectKey, Any]:
        """Read an external object; return its kind, its key and the object, or `None`."""
        gvk = _gvk(obj.kind)
        if gvk not in self._readable:
            raise GraphError(
                f"node {name!r} reads the kind {gvk.kind} ({gvk.api_version}); add it to reads=(...) of the "
                "composition, so that the operator gets the permission"
            )
        namespace = (obj.namespace or run.home) if await self._is_namespaced(gvk) else ""
        key = ObjectKey(namespace, obj.name)
        run.reads.add(key)
        await self._informer(gvk)
        if gvk.group_kind in RESTRICTED_KINDS:  # only its metadata is cached
            live = await self._uncached.get_or_none(gvk, key.name, namespace=key.namespace or None)
        else:
            live = await self._read(gvk, key)
        return gvk, key, to_dict(live) if live is not None else None

    async def apply_object(
        self, run: _Run, name: str, obj: DesiredObject
    ) -> tuple[GroupVersionKind, ObjectKey, Any]:
        """Apply an object of a node if needed; return its kind, its key and the stored object."""
        gvk = gvk_of(obj)
        if gvk not in self._owned:
            raise GraphError(
                f"node {name!r} is of the kind {gvk.kind} ({gvk.api_version}); add it to owns=(...) of the "
                "composition, so that the operator gets the permissions"
            )
        manifest = apply_configuration(obj, gvk)
        metadata = manifest["metadata"]
        metadata["labels"] = {**(metadata.get("labels") or {}), NODE_LABEL: name}
        dependencies = run.graph.dependencies_of(name)
        if dependencies:
            after = {AFTER_ANNOTATION: ",".join(dependencies)}
            metadata["annotations"] = {**(metadata.get("annotations") or {}), **after}
        intent, key = await self._member(run.owner, manifest, gvk)
        run.claim(gvk, key, name)
        if key.namespace not in ("", run.home):
            await self._parent_of(run.owner).extend(Inventory(namespaces=frozenset((key.namespace,))))
        response = await self._apply_member(run.owner, gvk, key, intent, run.result.changes)
        if response is not None:
            return gvk, key, to_dict(response)
        is_needed = name in run.read or run.graph.nodes[name].ready is not None
        if is_needed and gvk.group_kind in RESTRICTED_KINDS:  # only its metadata is cached
            live = await self._uncached.get_or_none(gvk, key.name, namespace=key.namespace or None)
        else:
            live = await self._read(gvk, key)
        return gvk, key, to_dict(live) if live is not None else None


class _Run:
    """One application of a graph for an owner."""

    def __init__(self, sets: GraphSets, owner: MetaObject | Unstructured, graph: Graph) -> None:
        self.sets = sets
        self.owner = owner
        self.graph = graph
        self.set_id = sets._register(owner)
        self.home = owner.metadata.namespace or ""
        self.result = GraphResult()
        self.read = graph.read_nodes()
        self.keys: dict[tuple[GroupKind, ObjectKey], GroupVersionKind] = {}
        self._nodes: dict[tuple[GroupKind, ObjectKey], str] = {}
        self.states: dict[str, NodeState] = {}
        self.reads: set[ObjectKey] = set()

    def claim(self, gvk: GroupVersionKind, key: ObjectKey, name: str) -> None:
        """Reserve a key for a node; raise `GraphError` if another one has it."""
        self.keys[gvk.group_kind, key] = gvk
        other = self._nodes.setdefault((gvk.group_kind, key), name)
        if other != name:
            raise GraphError(f"nodes {other!r} and {name!r} are the same object, {gvk.kind} {key}")

    def wants(self, member: SetMember) -> bool:
        """Return whether a member belongs to a node of the graph."""
        if (member.gvk.group_kind, ObjectKey(member.namespace, member.name)) in self.keys:
            return True
        state = self.states.get(member.labels.get(NODE_LABEL, ""))
        # The objects of a node that waits are not known; those of a previous call stay.
        return state is not None and bool(state.waiting)

    async def apply_node(self, name: str) -> None:
        """Apply the objects of a node if its dependencies are ready."""
        state = await self._apply(name)
        self.states[name] = state
        self.result.states.append(state)

    async def _apply(self, name: str) -> NodeState:
        missing = [each for each in self.graph.dependencies_of(name) if not self.states[each].is_ready]
        if missing:
            return NodeState(name, waiting=f"waits for {', '.join(missing)}")
        observed: list[Any] = []
        state = NodeState(name)
        try:
            objects, is_list = self.graph.build_objects(name, self.result.observed)
            for obj in objects:
                if isinstance(obj, ExternalObject):
                    gvk, key, data = await self.sets.read_object(self, name, obj)
                else:
                    gvk, key, data = await self.sets.apply_object(self, name, obj)
                readiness = _readiness(data, obj, self.graph.nodes[name].ready)
                state = replace(state, members=(*state.members, MemberState(gvk, key, readiness)))
                if data is not None:
                    observed.append(_typed(data, obj))
        except NotReady as error:
            return NodeState(name, waiting=str(error) or "waits for a value that is not set yet")
        except Exception as error:
            return replace(state, error=error)
        if is_list:
            self.result.observed[name] = observed
        elif observed:
            self.result.observed[name] = observed[0]
        return state


def _gvk(kind: OwnedKind) -> GroupVersionKind:
    gvk = kind if isinstance(kind, GroupVersionKind) else kind.gvk
    assert gvk is not None
    return gvk


def _typed(data: dict[str, Any], obj: DesiredObject | ExternalObject) -> Any:
    """Return an object of the same type as the desired one."""
    if isinstance(obj, ExternalObject):
        return codec.from_plain(data, obj.kind) if isinstance(obj.kind, type) else Unstructured(data)
    if isinstance(obj, MetaObject):
        return codec.from_plain(data, type(obj))
    return data if isinstance(obj, dict) else Unstructured(data)


def _readiness(
    data: Mapping[str, Any] | None, obj: DesiredObject | ExternalObject, ready: ReadyTest | None
) -> Readiness:
    if data is None:
        return Readiness("InProgress", "does not exist")
    state = readiness_of(dict(data))
    if state.state == "Terminating":
        return state
    if ready is None:
        return _UNREPORTED if state.is_ready and _is_unreported(data, obj) else state
    verdict = ready(_typed(dict(data), obj))
    if verdict is True:
        return CURRENT
    return Readiness("InProgress", verdict if isinstance(verdict, str) and verdict else _NOT_READY)


def _is_unreported(data: Mapping[str, Any], obj: DesiredObject | ExternalObject) -> bool:
    """Return whether the class of a custom resource has conditions, and its controller has set none yet.

    By the rules of kstatus such an object is current, also before its controller has seen it.
    """
    cls = obj.kind if isinstance(obj, ExternalObject) else type(obj)
    if not isinstance(cls, type) or not is_resource(cls):
        return False
    fields = getattr(type(getattr(_typed(dict(data), obj), "status", None)), "__struct_fields__", ())
    return "conditions" in fields and not (data.get("status") or {}).get("conditions")
