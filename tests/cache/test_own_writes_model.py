"""Own writes are visible for any order of responses and watch events: checked against a model.

The machine is a server with a history, a watch that may lag behind it by any number of events, lists that are
read at one time and delivered at another, and responses to our writes that arrive in any order. The invariant
after each step: the store has no version older than a write that has returned, and no object that we deleted.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from kubewright.api.encoding.codec import ObjectHeader, decoder
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.selectors.label_selectors import parse_selector
from kubewright.cache.informers.informer import Informer
from kubewright.cache.stores.store import ObjectChange, ObjectKey
from kubewright.client.listwatch.raw import RawEvent

THING = GroupVersionKind("example.com", "v1", "Thing")
NAMES = st.sampled_from(["a", "b"])
_read_header = decoder(ObjectHeader).decode


class OwnWrites(RuleBasedStateMachine):
    selector: str | None = None
    responses = Bundle("responses")

    def __init__(self) -> None:
        super().__init__()
        self.revision = 10
        self.uids = 0
        self.objects: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.delivered = 0
        self.listed: tuple[int, int, list[dict[str, Any]]] | None = None
        self.returned: dict[str, tuple[int, bool]] = {}
        self.deleted_uids: set[str] = set()
        labels = parse_selector(self.selector) if self.selector else None
        self.informer = Informer(THING, {"": _nowhere()}, labels=labels)
        self.reflector = self.informer._feeds[0]
        self.picture: dict[ObjectKey, int] = {}
        self.informer.add_handler(self.handle)
        self.reflector.begin()
        self.reflector.replace("10")

    def handle(self, change: ObjectChange) -> None:
        if change.new is None:
            del self.picture[change.key]
        else:
            assert change.new.revision > self.picture.get(change.key, 0)
            self.picture[change.key] = change.new.revision

    def matches(self, obj: dict[str, Any]) -> bool:
        return self.selector is None or obj["metadata"]["labels"] == {"in": "yes"}

    def change(self, name: str, inside: bool) -> dict[str, Any]:
        self.revision += 1
        known = self.objects.get(name)
        if known is None:
            self.uids += 1
        obj = {
            "apiVersion": "example.com/v1",
            "kind": "Thing",
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": known["metadata"]["uid"] if known else f"uid-{self.uids}",
                "resourceVersion": str(self.revision),
                "labels": {"in": "yes"} if inside else {"in": "no"},
            },
        }
        self.objects[name] = obj
        was, now = known is not None and self.matches(known), self.matches(obj)
        if was or now:
            type_ = "MODIFIED" if was and now else "ADDED" if now else "DELETED"
            self.history.append((self.revision, type_, obj))
        return obj

    def remove(self, name: str) -> str:
        self.revision += 1
        obj = self.objects.pop(name)
        if self.matches(obj):
            metadata = {**obj["metadata"], "resourceVersion": str(self.revision)}
            self.history.append((self.revision, "DELETED", {**obj, "metadata": metadata}))
        return str(obj["metadata"]["uid"])

    @rule(name=NAMES, inside=st.booleans())
    def another_client_writes(self, name: str, inside: bool) -> None:
        self.change(name, inside)

    @rule(name=NAMES)
    def another_client_deletes(self, name: str) -> None:
        if name in self.objects:
            self.remove(name)

    @rule(target=responses, name=NAMES, inside=st.booleans())
    def we_write(self, name: str, inside: bool) -> Any:
        return ("written", name, self.change(name, inside))

    @rule(target=responses, name=NAMES)
    def we_delete(self, name: str) -> Any:
        if name not in self.objects:
            return ("nothing", name, None)
        return ("deleted", name, self.remove(name))

    @rule(response=responses)
    def a_response_arrives(self, response: Any) -> None:
        kind, name, what = response
        if kind == "written":
            assert self.informer.record_write(json.dumps(what).encode())
            revision = int(what["metadata"]["resourceVersion"])
            self.returned[name] = max(self.returned.get(name, (0, False)), (revision, self.matches(what)))
        elif kind == "deleted":
            self.informer.record_deletion(ObjectKey("ns", name), what)
            self.deleted_uids.add(what)

    @rule(count=st.integers(1, 4))
    def the_watch_delivers(self, count: int) -> None:
        if self.listed is not None:
            return
        for revision, type_, obj in self.history[self.delivered : self.delivered + count]:
            raw = json.dumps(obj).encode()
            self.reflector.event(RawEvent(type_, raw, _read_header(raw)))
            self.reflector.progress(str(revision))
            self.delivered += 1

    @precondition(lambda self: self.listed is None)
    @rule()
    def a_list_begins(self) -> None:
        items = [obj for obj in self.objects.values() if self.matches(obj)]
        self.listed = (self.revision, len(self.history), items)
        self.reflector.begin()

    @precondition(lambda self: self.listed is not None and self.listed[2])
    @rule()
    def the_list_delivers_one(self) -> None:
        assert self.listed is not None
        raw = json.dumps(self.listed[2].pop()).encode()
        self.reflector.initial(RawEvent("ADDED", raw, _read_header(raw)))

    @precondition(lambda self: self.listed is not None)
    @rule()
    def the_list_completes(self) -> None:
        assert self.listed is not None
        revision, position, items = self.listed
        for obj in items:
            raw = json.dumps(obj).encode()
            self.reflector.initial(RawEvent("ADDED", raw, _read_header(raw)))
        assert self.reflector.replace(str(revision))
        self.listed, self.delivered = None, position

    @invariant()
    def own_writes_are_read(self) -> None:
        if not hasattr(self, "informer"):
            return
        for name, (revision, inside) in self.returned.items():
            entry = self.informer.store.get(ObjectKey("ns", name))
            if self.informer.has_pending_writes("ns", name):
                continue
            if entry is not None:
                assert entry.revision >= revision, f"{name}: {entry.revision} after our write at {revision}"
            else:
                assert not inside or self.deleted_since(name, revision), f"{name} is missing after {revision}"
        for key, entry in self.informer.store.entries():
            assert entry.uid not in self.deleted_uids, f"{key} was deleted by us"
        assert self.picture == {key: entry.revision for key, entry in self.informer.store.entries()}

    def deleted_since(self, name: str, revision: int) -> bool:
        """Whether the object was deleted, or stopped matching the selector, at or after a revision."""
        current = self.objects.get(name)
        if current is None or not self.matches(current):
            return True
        return any(
            type_ == "DELETED" and at >= revision and obj["metadata"]["name"] == name
            for at, type_, obj in self.history
        )

    def teardown(self) -> None:
        """After all events are delivered the store equals the state of the server."""
        if not hasattr(self, "informer"):
            return
        if self.listed is not None:
            self.the_list_completes()
        self.the_watch_delivers(len(self.history))
        self.reflector.progress(str(self.revision))
        wanted = {
            name: int(obj["metadata"]["resourceVersion"])
            for name, obj in self.objects.items()
            if self.matches(obj)
        }
        assert {key.name: entry.revision for key, entry in self.informer.store.entries()} == wanted
        assert not self.informer.own_writes.floors


class OwnWritesWithSelector(OwnWrites):
    selector = "in=yes"


class _nowhere:
    has_delivered_writes = True

    def request_progress(self, revision: int) -> None:
        raise NotImplementedError

    async def list(self, **_: Any) -> Any:
        raise NotImplementedError

    async def watch(self, **_: Any) -> Any:
        raise NotImplementedError


TestOwnWrites = OwnWrites.TestCase
TestOwnWrites.settings = settings(max_examples=250, stateful_step_count=40, deadline=None)
TestOwnWritesWithSelector = OwnWritesWithSelector.TestCase
TestOwnWritesWithSelector.settings = settings(max_examples=250, stateful_step_count=40, deadline=None)


def test_a_restored_object_is_stored_again() -> None:
    """A deletion that the watch has delivered before its response hides nothing that follows."""
    informer = Informer(THING, {"": _nowhere()})
    feed = informer._feeds[0]
    feed.begin()
    feed.replace("10")
    key = ObjectKey("ns", "a")

    def deliver(type_: str, revision: int) -> None:
        metadata = {"name": "a", "namespace": "ns", "uid": "uid-1", "resourceVersion": str(revision)}
        raw = json.dumps({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata}).encode()
        feed.event(RawEvent(type_, raw, _read_header(raw)))
        feed.progress(str(revision))

    deliver("ADDED", 11)
    deliver("DELETED", 12)
    informer.record_deletion(key, "uid-1")
    deliver("ADDED", 13)  # a backup was restored
    assert informer.store.get(key) is not None
