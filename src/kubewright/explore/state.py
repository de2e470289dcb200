"""`ClusterState`: all objects at one revision, with their owners, earlier states and requests.

Invariants are functions over it:

    state.of_kind("ConfigMap", namespace="default")     # StateObjects, sorted by namespace and name
    state.get("Shop.example.com", "a", namespace="default")
    state.children_of(shop), state.owners_of(child)     # the owner graph
    state.previous, state.history(child)                # what was true before
    state.writes()                                      # what the operator has written

A `StateRecorder` receives every change of the store and creates the states. Objects are decoded when they are
first read, once for all states in which they are the same. Objects that existed before the scenario (the
bootstrap objects of the control plane, CRDs) are in `state.baseline`, not in `state.objects`. Events and
Leases are not recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from kubewright.api.declaring.declarations import Rbac
from kubewright.api.encoding import codec
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject
from kubewright.storage.contract import KeyValue, Storage, StorageEvent

if TYPE_CHECKING:
    from kubewright.apiserver.http.request_info import RequestInfo

    from .runs.trace import TraceEvent

KindName = type[MetaObject] | GroupVersionKind | str
"""A class, a `GroupVersionKind`, or a name such as `"ConfigMap"` or `"Shop.example.com"`."""
Actor = Literal["operator", "scenario", "control-plane"]

IGNORED_RESOURCES: Final = frozenset(("events", "leases"))
"""Resources that are neither part of a state nor counted as writes."""
_USERS: Final = (b'"manager":"scenario"', b'"manager":"setup"')
"""Field managers of what a user creates, as they are stored."""
_READS: Final = frozenset(("get", "list", "watch"))


class StateKey(NamedTuple):
    """Group, kind, namespace and name of an object."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        kind = f"{self.kind}.{self.group}" if self.group else self.kind
        return f"{kind} {self.namespace}/{self.name}" if self.namespace else f"{kind} {self.name}"


class StateObject:
    """An object as it is stored at a revision. `data` is shared and must not be changed."""

    __slots__ = ("_data", "_key", "create_revision", "is_created_by_user", "raw", "revision", "storage_key")

    def __init__(self, storage_key: str, raw: bytes, *, create_revision: int, revision: int) -> None:
        self.storage_key = storage_key
        self.raw = raw
        self.create_revision = create_revision
        self.revision = revision
        self.is_created_by_user = False
        """Whether its first version was applied by the scenario or its setup; set by the recorder."""
        self._data: dict[str, Any] | None = None
        self._key: StateKey | None = None

    @property
    def data(self) -> dict[str, Any]:
        """The object as a dict with JSON names."""
        if self._data is None:
            found = codec.loads(self.raw)
            self._data = found if isinstance(found, dict) else {}
        return self._data

    @property
    def key(self) -> StateKey:
        """Group, kind, namespace and name."""
        if self._key is None:
            group, slash, _ = str(self.data.get("apiVersion", "")).rpartition("/")
            self._key = StateKey(
                group if slash else "", str(self.data.get("kind", "")), self.namespace, self.name
            )
        return self._key

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata."""
        return self.data.get("metadata") or {}

    @property
    def name(self) -> str:
        """The name."""
        return str(self.metadata.get("name", ""))

    @property
    def namespace(self) -> str:
        """The namespace; empty for cluster-scoped objects."""
        return str(self.metadata.get("namespace", ""))

    @property
    def uid(self) -> str:
        """The UID."""
        return str(self.metadata.get("uid", ""))

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels."""
        return self.metadata.get("labels") or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations."""
        return self.metadata.get("annotations") or {}

    @property
    def finalizers(self) -> Sequence[str]:
        """The finalizers."""
        return self.metadata.get("finalizers") or ()

    @property
    def is_deleting(self) -> bool:
        """Whether deletion was requested; finalizers remain."""
        return bool(self.metadata.get("deletionTimestamp"))

    @property
    def owner_references(self) -> Sequence[dict[str, Any]]:
        """The owner references."""
        return self.metadata.get("ownerReferences") or ()

    @property
    def controller_uid(self) -> str:
        """UID of the owner that controls the object; empty without one."""
        return next((str(each.get("uid")) for each in self.owner_references if each.get("controller")), "")

    def get(self, *path: str, default: Any = None) -> Any:
        """Return the value of a nested field: `obj.get("spec", "replicas", default=1)`."""
        value: Any = self.data
        for name in path:
            if not isinstance(value, dict) or name not in value:
                return default
            value = value[name]
        return value

    def __str__(self) -> str:
        return str(self.key)

    def __repr__(self) -> str:
        return f"StateObject({self.key}, revision={self.revision})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """A request that was sent during a run."""

    number: int
    """Number of the point of the run at which it was sent."""
    time: float
    """Simulated seconds since the start of the run."""
    actor: Actor
    replica: int = 0
    """Number of the replica of the operator; a restarted replica keeps its number."""
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    code: int = 0
    """HTTP status of the response; 0 without a response."""
    is_changed: bool = True
    """Whether a write changed the stored object."""

    @classmethod
    def of(
        cls,
        event: TraceEvent,
        info: RequestInfo,
        *,
        actor: Actor,
        code: int,
        name: str = "",
        replica: int = 0,
        is_changed: bool = True,
    ) -> RequestRecord:
        """Return the record of a request with a response; `name` is that of a created object."""
        return cls(
            number=event.number,
            time=event.time,
            actor=actor,
            replica=replica,
            verb=info.verb,
            group=info.group,
            resource=info.resource,
            subresource=info.subresource,
            namespace=info.namespace,
            name=name or info.name,
            code=code,
            is_changed=is_changed,
        )

    @property
    def is_write(self) -> bool:
        """Whether the request can change objects; writes of Events and Leases are not counted."""
        return self.verb not in _READS and bool(self.resource) and self.resource not in IGNORED_RESOURCES

    @property
    def is_applied(self) -> bool:
        """Whether the response reported success."""
        return 200 <= self.code < 300

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        subresource = f"/{self.subresource}" if self.subresource else ""
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.verb} {resource}{subresource} {where}".rstrip()


@dataclass(frozen=True, slots=True, eq=False)
class ClusterState:
    """All objects at one revision."""

    revision: int
    objects: Mapping[str, StateObject] = field(repr=False)
    """Objects that were created since the scenario started, by storage key."""
    baseline: Mapping[str, StateObject] = field(default_factory=dict, repr=False)
    """Objects that existed before the scenario started, as they are now, by storage key."""
    time: float = 0.0
    """Simulated seconds since the start of the run."""
    previous: ClusterState | None = field(default=None, repr=False)
    """The state before the last change."""
    converged: ClusterState | None = field(default=None, repr=False)
    """The state in which the operator first became idle after the last step; `None` before that."""
    declared: Sequence[Rbac] = field(default=(), repr=False)
    """RBAC rules that the operator declares."""
    _requests: Sequence[RequestRecord] = field(default=(), repr=False)
    _request_count: int = 0

    @property
    def requests(self) -> Sequence[RequestRecord]:
        """Requests up to this state, in order."""
        return self._requests[: self._request_count]

    def writes(self, actor: Actor = "operator") -> list[RequestRecord]:
        """Return the writes of the operator (or of the scenario) up to this state, in order."""
        return [each for each in self.requests if each.actor == actor and each.is_write]

    def __iter__(self) -> Iterator[StateObject]:
        return iter(self.objects.values())

    def __len__(self) -> int:
        return len(self.objects)

    def of_kind(
        self, kind: KindName, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> list[StateObject]:
        """Return the objects of a kind, sorted by namespace and name."""
        group, name = split_kind(kind)
        wanted = (labels or {}).items()
        found = [
            each
            for each in self.objects.values()
            if each.key.kind.lower() == name
            and (group is None or each.key.group == group)
            and (namespace is None or each.namespace == namespace)
            and wanted <= each.labels.items()
        ]
        return sorted(found, key=lambda each: each.key)

    def get(self, kind: KindName, name: str, *, namespace: str = "") -> StateObject | None:
        """Return an object, or `None` if it does not exist."""
        return next(
            (each for each in self.of_kind(kind) if each.name == name and each.namespace == namespace), None
        )

    def by_uid(self, uid: str) -> StateObject | None:
        """Return the object with a UID, also one that existed before the scenario."""
        for objects in (self.objects, self.baseline):
            for each in objects.values():
                if each.uid == uid:
                    return each
        return None

    def owners_of(self, obj: StateObject) -> list[StateObject]:
        """Return the existing owners of an object."""
        return [owner for each in obj.owner_references if (owner := self.by_uid(str(each.get("uid"))))]

    def children_of(self, owner: StateObject) -> list[StateObject]:
        """Return the objects that refer to an owner, sorted by kind, namespace and name."""
        uid = owner.uid
        found = [
            each
            for each in self.objects.values()
            if any(reference.get("uid") == uid for reference in each.owner_references)
        ]
        return sorted(found, key=lambda each: each.key)

    def roots(self) -> list[StateObject]:
        """Return the objects without an existing owner, sorted by kind, namespace and name."""
        uids = {each.uid for objects in (self.objects, self.baseline) for each in objects.values()}
        found = [
            each
            for each in self.objects.values()
            if not any(reference.get("uid") in uids for reference in each.owner_references)
        ]
        return sorted(found, key=lambda each: each.key)

    def changed(self, since: ClusterState | None = None) -> list[StateObject]:
        """Return the objects that were created or changed since a state, by default the previous one."""
        since = since if since is not None else self.previous
        before = since.objects if since is not None else {}
        return [each for key, each in self.objects.items() if before.get(key) is not each]

    def deleted(self, since: ClusterState | None = None) -> list[StateObject]:
        """Return the objects that were deleted since a state, by default the previous one."""
        since = since if since is not None else self.previous
        before = since.objects if since is not None else {}
        return [each for key, each in before.items() if key not in self.objects]

    def earlier(self) -> Iterator[ClusterState]:
        """Return the earlier states, newest first."""
        state = self.previous
        while state is not None:
            yield state
            state = state.previous

    def history(self, obj: StateObject) -> Iterator[StateObject]:
        """Return earlier versions of objects with the same kind and name, newest first."""
        last: StateObject | None = obj
        for state in self.earlier():
            found = state.objects.get(obj.storage_key)
            if found is not None and found is not last:
                yield found
            last = found if found is not None else last


def describe_change(change: StorageEvent) -> str:
    """Return the verb and the key of a change, for traces."""
    verb = "delete" if change.value is None else "create" if change.previous is None else "update"
    return f"{verb} {change.key}"


class StateRecorder:
    """Records the changes of a store and creates a `ClusterState` for each.

    Pass every change to `record` in the order of revisions, or call `read` for the current content of a
    store. `requests` is the list to which requests are appended while they are sent.
    """

    def __init__(self, *, requests: list[RequestRecord] | None = None, declared: Sequence[Rbac] = ()) -> None:
        self.requests: list[RequestRecord] = requests if requests is not None else []
        self.declared = declared
        self.state = ClusterState(0, {})
        """The last state."""
        self.converged: ClusterState | None = None
        self._objects: dict[str, StateObject] = {}
        self._baseline: dict[str, StateObject] = {}
        self._revision = 0
        self._is_dirty = False

    def start(self) -> None:
        """Make all current objects the baseline; objects that are created later belong to the scenario."""
        self._baseline = {**self._baseline, **self._objects}
        self._objects = {}
        self.state = ClusterState(self._revision, {}, self._baseline)
        self.converged = None

    def record(self, change: StorageEvent) -> None:
        """Record a change."""
        if change.value is None:
            self.delete(change.key, revision=change.revision)
        else:
            self.put(
                change.key, change.value, create_revision=change.create_revision, revision=change.revision
            )

    def put(self, key: str, value: bytes, *, create_revision: int, revision: int) -> None:
        """Record that an object was created or changed."""
        self._revision = max(self._revision, revision)
        if is_ignored(key):
            return
        obj = StateObject(key, value, create_revision=create_revision, revision=revision)
        known = self._baseline.get(key)
        first = known or self._objects.get(key)
        if first is not None and first.create_revision == create_revision:
            obj.is_created_by_user = first.is_created_by_user
        else:
            obj.is_created_by_user = any(each in value for each in _USERS)
        if known is not None and known.create_revision == create_revision:
            self._baseline = {**self._baseline, key: obj}
        else:
            self._objects[key] = obj
        self._is_dirty = True

    def delete(self, key: str, *, revision: int) -> None:
        """Record that an object was deleted."""
        self._revision = max(self._revision, revision)
        if self._objects.pop(key, None) is not None:
            self._is_dirty = True
        elif key in self._baseline:
            self._baseline = {name: each for name, each in self._baseline.items() if name != key}
            self._is_dirty = True

    async def read(self, storage: Storage, prefix: str) -> None:
        """Record the current content of a store."""
        page = await storage.list(prefix)
        self.replace(page.items, page.revision)

    def replace(self, items: Iterable[KeyValue], revision: int) -> None:
        """Record the complete content of a store at a revision."""
        found = set()
        for item in items:
            found.add(item.key)
            known = self._objects.get(item.key) or self._baseline.get(item.key)
            if known is None or known.revision != item.mod_revision:
                self.put(
                    item.key, item.value, create_revision=item.create_revision, revision=item.mod_revision
                )
        for key in [key for key in (*self._objects, *self._baseline) if key not in found]:
            self.delete(key, revision=revision)
        self._revision = max(self._revision, revision)

    def mark_converged(self, *, time: float) -> None:
        """Record that the operator is idle after the last step of the scenario."""
        self.converged = self.snapshot(time=time)

    def snapshot(self, *, time: float) -> ClusterState:
        """Return the current state; `previous` is the last one with other objects."""
        previous = self.state if self._is_dirty else self.state.previous
        self.state = ClusterState(
            self._revision,
            dict(self._objects) if self._is_dirty else self.state.objects,
            self._baseline,
            time,
            previous,
            self.converged,
            self.declared,
            self.requests,
            len(self.requests),
        )
        self._is_dirty = False
        return self.state


def is_of_user(obj: StateObject) -> bool:
    """Whether a user has created an object, in the setup or the steps of the scenario."""
    return obj.is_created_by_user and not obj.owner_references and obj.key.kind != "CustomResourceDefinition"


def is_ignored(key: str) -> bool:
    """Whether a storage key belongs to a resource that is not part of a state."""
    return not IGNORED_RESOURCES.isdisjoint(key.split("/", 4)[2:4])


def split_kind(kind: KindName) -> tuple[str | None, str]:
    """Return the group, `None` for any, and the lower-case kind."""
    if isinstance(kind, str):
        name, dot, group = kind.partition(".")
        return (group if dot else None), name.lower()
    gvk = kind if isinstance(kind, GroupVersionKind) else kind.gvk
    if gvk is None:
        raise TypeError(f"{kind!r} does not declare a kind; pass a name such as 'ConfigMap'")
    return gvk.group, gvk.kind.lower()
