"""Laws of values and of apply, for generated types; on kube-apiserver with `KUBEBUILDER_ASSETS`.

- What was set is stored, and what was not set is not, except defaults of the schema. What was read is encoded
  as the server sent it, also after its defaults were read, and an update without a change changes nothing.
- Applied twice, the second time changes nothing. Drift in applied fields is reverted, also of values that are
  the default of their field. Fields that were not applied survive.
- What one controller has applied, no other deletes, whatever they apply, in whatever order they crash and
  restart, also if they apply the same objects. What no controller wants any more is deleted.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import types
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Annotated, Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kubewright.api import (
    CustomResource,
    ObjectMeta,
    Spec,
    Unstructured,
    encode,
    fields_set,
    resource,
    to_plain,
)
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.markers import AsIntOrString, ListMap, PreserveUnknownFields, Schemaless
from kubewright.api.presence import tracked_defaults
from kubewright.cache import Cache, CachedClient
from kubewright.client import ClusterConfig, condition, merge_patch
from kubewright.client.patches import to_dict
from kubewright.composition import Graph, GraphSets
from kubewright.controller import DesiredState, ObjectSets
from kubewright.manifests import crd
from kubewright.testing.server import server_kinds, start_test_server

Document = dict[str, Any]
_numbers = itertools.count()

few = settings(max_examples=40, suppress_health_check=list(HealthCheck))


class Bench:
    """A control plane with a cached client, in an event loop of its own."""

    def __init__(self, runner: asyncio.Runner, client: CachedClient, cache: Cache) -> None:
        self.run = runner.run
        self.client = client
        self.cache = cache

    async def owner(self) -> ConfigMap:
        name = f"owner-{next(_numbers)}"
        return await self.client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))

    async def read(self, kind: Any, name: str) -> Document:
        return to_dict(await self.client.uncached.get(kind.gvk, name, namespace="default"))


@pytest.fixture(scope="module")
def bench(real_config: ClusterConfig | None) -> Iterator[Bench]:
    async def start(stack: AsyncExitStack) -> tuple[CachedClient, Cache]:
        server = await stack.enter_async_context(
            start_test_server(server_kinds()[0], real_config, controllers=False)
        )
        live = server.client()
        cache = await stack.enter_async_context(Cache(live, allow=[ConfigMap]))
        client = CachedClient.from_client(live, cache).with_field_manager("other")
        for kind in KINDS:
            definition = await client.create(crd(kind))
            await client.wait(definition, until=condition("Established"), timeout=60)
        return client, cache

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        stack = AsyncExitStack()
        client, cache = runner.run(start(stack))
        yield Bench(runner, client, cache)
        runner.run(stack.aclose())


# Types and values


class Item(Spec):
    name: str
    weight: int = 1
    note: str | None = None


names = st.sampled_from(["a", "b", "c"])
texts = st.text("xyz", max_size=2)
numbers = st.integers(0, 3)
items = st.lists(
    st.builds(Item, name=names) | st.builds(Item, name=names, weight=numbers, note=texts),
    min_size=1,
    max_size=3,
    unique_by=lambda each: each.name,
)
FIELDS: list[tuple[Any, Any, Any]] = [
    (int, 1, numbers),
    (str, "x", texts),
    (bool, False, st.booleans()),
    (int | None, None, numbers),
    (Annotated[int | str, AsIntOrString], "1", st.sampled_from([1, 2, "1", "50%"])),
    (dict[str, str] | None, None, st.dictionaries(names, texts, min_size=1, max_size=2)),
    (list[int] | None, None, st.lists(numbers, max_size=3)),
    (Annotated[list[Item], ListMap("name")] | None, None, items),
    (
        Annotated[Document, Schemaless, PreserveUnknownFields] | None,
        None,
        st.dictionaries(names, numbers, min_size=1),
    ),
]
"""Annotation, default and values of a field."""


def make_type(choose: random.Random, depth: int) -> tuple[type[Spec], Any]:
    """Return a class with some fields, and a strategy for objects in which any of them are set."""
    annotations: dict[str, Any] = {}
    body: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for number in range(choose.randint(3, 5)):
        name = f"field{number}"
        annotations[name], body[name], values[name] = choose.choice(FIELDS)
    if depth:
        nested, nested_values = make_type(choose, depth - 1)
        annotations["nested"], body["nested"], values["nested"] = nested | None, None, nested_values
    body["__annotations__"] = annotations
    body["__module__"] = __name__
    made = types.new_class(f"Generated{next(_numbers)}", (Spec,), exec_body=lambda space: space.update(body))
    return made, st.fixed_dictionaries({}, optional=values).map(lambda fields: made(**fields))


def make_kind(seed: int) -> tuple[Any, Any]:
    spec, values = make_type(random.Random(seed), 2)
    base = CustomResource[spec, None]  # type: ignore[valid-type]
    body = {"__module__": __name__, "__doc__": "A generated kind."}
    made = types.new_class(f"Kind{seed}", (base,), exec_body=lambda space: space.update(body))
    return resource(group="laws.example.com", version="v1")(made), values


GENERATED = [make_kind(seed) for seed in range(4)]
KINDS = [kind for kind, _ in GENERATED]
objects = st.sampled_from(range(len(GENERATED))).flatmap(
    lambda number: GENERATED[number][1].map(lambda spec: (KINDS[number], spec))
)


def restores(wanted: Any, stored: Any) -> bool:
    """Whether a stored value has every field of an applied one, with its value."""
    if isinstance(wanted, dict):
        return isinstance(stored, dict) and all(
            name in stored and restores(value, stored[name]) for name, value in wanted.items()
        )
    if isinstance(wanted, list) and wanted and isinstance(wanted[0], dict):
        found = {each["name"]: each for each in stored or ()}
        return all(each["name"] in found and restores(each, found[each["name"]]) for each in wanted)
    return bool(wanted == stored and type(wanted) is type(stored))


def explicit(value: Any) -> Any:
    """Return the fields that were set, also those with the default of their field."""
    if isinstance(value, Spec):
        return {name: explicit(getattr(value, name)) for name in fields_set(value)}
    return [explicit(each) for each in value] if isinstance(value, list) else value


def paths(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield (*path, name)
            yield from paths(each, (*path, name))


def at(path: tuple[str, ...], value: Any) -> Document:
    for name in reversed(path):
        value = {name: value}
    return value  # type: ignore[no-any-return]


def other_value(value: Any) -> Any:
    """Return a value of the same type that is not the given one."""
    match value:
        case bool():
            return not value
        case int():
            return value + 7
        case str():
            return f"{value}7"
        case list():
            return [{"name": "d", "weight": 7}] if value and isinstance(value[0], dict) else [7]
        case _:
            return None


# Law 1


def adds_defaults_only(given: Any, stored: Any, of: Any) -> bool:
    """Whether a stored value has the fields of a written one, and no others than those with a default."""
    if isinstance(given, list) and len(given) == len(stored):
        return all(adds_defaults_only(one, other, of) for one, other in zip(given, stored, strict=True))
    if isinstance(of, type) and issubclass(of, Spec):
        fields = {each.encode_name: each for each in msgspec.structs.fields(of)}
        defaults = {name: tracked_defaults(of).get(each.name) for name, each in fields.items()}
        return given.keys() <= stored.keys() and all(
            adds_defaults_only(given[name], value, _struct_of(fields[name].type))
            if name in given
            else (default := defaults[name]) is not None and to_plain(default.create()) == value
            for name, value in stored.items()
        )
    return bool(given == stored and type(given) is type(stored))


def _struct_of(annotation: Any) -> Any:
    """The struct of an optional struct or of a list of structs, or `None`."""
    if isinstance(annotation, type):
        return annotation
    return next((found for each in get_args(annotation) if (found := _struct_of(each)) is not None), None)


@few
@given(drawn=objects)
def test_what_was_set_is_stored_and_what_was_read_is_encoded_as_it_was(
    bench: Bench, drawn: tuple[Any, Any]
) -> None:
    kind, spec = drawn
    name = f"x{next(_numbers)}"

    async def scenario() -> None:
        client = bench.client.uncached
        await client.create(kind(metadata=ObjectMeta(name=name, namespace="default"), spec=spec))
        raw = await bench.read(kind, name)
        assert adds_defaults_only(to_plain(spec), raw["spec"], type(spec)), (to_plain(spec), raw["spec"])
        typed = await client.get(kind, name, namespace="default")
        assert msgspec.json.decode(encode(typed)) == raw
        assert typed.spec == spec
        for field in type(spec).__struct_fields__:
            getattr(typed.spec, field)
        assert msgspec.json.decode(encode(typed)) == raw
        await client.update(typed)
        assert await bench.read(kind, name) == raw
        await client.delete(typed)

    bench.run(scenario())


# Law 2


@few
@given(drawn=objects, choice=st.integers(0, 1000), removes=st.booleans(), restarts=st.booleans())
def test_apply_is_idempotent_and_reverts_drift(
    bench: Bench, drawn: tuple[Any, Any], choice: int, removes: bool, restarts: bool
) -> None:
    kind, spec = drawn
    name = f"x{next(_numbers)}"

    async def scenario() -> None:
        owner = await bench.owner()
        obj = kind(metadata=ObjectMeta(name=name, namespace="default", labels={"a": "b"}), spec=spec)
        wanted: Document = {"metadata": {"labels": {"a": "b"}}, "spec": explicit(spec)}
        state = DesiredState(bench.client, bench.cache, kinds=KINDS, field_manager="laws")
        await state.ensure(owner, [obj])
        first = await bench.read(kind, name)
        assert restores(wanted, first)
        # Twice, also after a restart.
        assert not await state.ensure(owner, [obj])
        if restarts:
            state = DesiredState(bench.client, bench.cache, kinds=KINDS, field_manager="laws")
            await state.ensure(owner, [obj])
        assert await bench.read(kind, name) == first
        # Fields that are not applied.
        note = {"metadata": {"annotations": {"note": "1"}}}
        await bench.client.patch(kind, name, merge_patch(note), namespace="default")
        # Drift in one that is.
        every = [each for each in paths(wanted) if len(each) > 1]
        path = every[choice % len(every)]
        current: Any = wanted
        for step in path:
            current = current[step]
        drift = at(path, None if removes else other_value(current))
        await bench.client.patch(kind, name, merge_patch(drift), namespace="default")
        await state.ensure(owner, [obj])
        after = await bench.read(kind, name)
        assert restores(wanted, after), (drift, wanted, after)
        assert restores(note, after)
        assert not await state.ensure(owner, [obj])
        await state.ensure(owner, [])

    bench.run(scenario())


@few
@given(drawn=objects, data=st.data())
def test_fields_of_others_survive(bench: Bench, drawn: tuple[Any, Any], data: st.DataObject) -> None:
    kind, spec = drawn
    more = data.draw(GENERATED[KINDS.index(kind)][1])
    name = f"x{next(_numbers)}"

    async def scenario() -> None:
        owner = await bench.owner()
        mine, theirs = {"spec": explicit(spec)}, {"spec": explicit(more)}
        state = DesiredState(bench.client, bench.cache, kinds=KINDS, field_manager="laws")
        obj = kind(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)
        await state.ensure(owner, [obj])
        header = {"apiVersion": kind.gvk.api_version, "kind": kind.gvk.kind}
        full = {**header, "metadata": {"name": name, "namespace": "default"}, **without(theirs, mine)}
        await bench.client.apply(Unstructured(full), field_manager="user", force=True)
        await state.ensure(owner, [obj])
        after = await bench.read(kind, name)
        assert restores(mine, after)
        assert restores(without(theirs, mine), after)
        await state.ensure(owner, [])

    bench.run(scenario())


def without(value: Document, other: Document) -> Document:
    """Return the fields of a value that another one does not have."""
    found = {}
    for name, each in value.items():
        if name not in other:
            found[name] = each
        elif isinstance(each, dict) and isinstance(other[name], dict):
            found[name] = without(each, other[name])
    return found


# Law 5

CONTROLLERS = ("a", "b", "sets", "graph")
NAMES = ("one", "two", "three")
operations = st.lists(
    st.tuples(
        st.sampled_from(CONTROLLERS),
        st.integers(0, 1),
        st.sets(st.sampled_from(NAMES)),
        st.sampled_from(["ensure", "ensure", "add", "restart", "crash", "delete", "create"]),
        st.integers(1, 4),
    ),
    min_size=2,
    max_size=8,
)


class Crash(BaseException):
    """The end of a process."""


@few
@given(steps=operations)
@example(steps=[("a", 0, {"one"}, "ensure", 1), ("b", 0, {"two"}, "ensure", 1), ("a", 0, set(), "ensure", 1)])
@example(
    steps=[("a", 0, {"one"}, "ensure", 1), ("sets", 0, {"one"}, "ensure", 1), ("sets", 0, set(), "ensure", 1)]
)
@example(steps=[("a", 0, {"one"}, "crash", 1), ("a", 0, {"two"}, "ensure", 1)])
@example(steps=[("a", 0, {"one"}, "ensure", 1), ("a", 0, {"two"}, "add", 1), ("sets", 0, {"two"}, "add", 1)])
@example(steps=[("graph", 0, {"one"}, "ensure", 1), ("sets", 0, set(), "ensure", 1)])
@example(steps=[("sets", 0, {"one"}, "crash", 2), ("graph", 0, {"one"}, "ensure", 1)])
def test_no_controller_deletes_what_another_has_applied(bench: Bench, steps: list[Any]) -> None:
    bench.run(Several(bench).check(steps))


class Several:
    """Controllers that apply objects for the same owners; each sets a key of its own in the data."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.crash_at = 0
        self.client = bench.client.with_interceptor(self._crash)
        self.owners: list[ConfigMap] = []
        self.states = {name: self._start(name) for name in CONTROLLERS}
        self.wanted: dict[tuple[str, int], set[str]] = {}

    def _start(self, name: str) -> DesiredState:
        if name == "sets":
            return ObjectSets(self.client, self.bench.cache, field_manager=name)
        if name == "graph":
            return GraphSets(self.client, self.bench.cache, owns=[ConfigMap], field_manager=name)
        return DesiredState(self.client, self.bench.cache, kinds=[ConfigMap], field_manager=name)

    async def _crash(self, call: Any, proceed: Any) -> Any:
        response = await proceed(call)
        if call.method != "GET" and self.crash_at:
            self.crash_at -= 1
            if not self.crash_at:
                raise Crash
        return response

    async def ensure(
        self, state: DesiredState, owner: ConfigMap, children: list[ConfigMap], *, prune: bool
    ) -> None:
        if not isinstance(state, GraphSets):
            await state.ensure(owner, children, prune=prune)
            return
        graph = Graph()
        for each in children:
            graph.add(f"node-{each.name}".replace("-", "_"), each)
        assert not (await state.apply(owner, graph)).errors

    async def existing(self) -> dict[str, ConfigMap]:
        pager = self.bench.client.uncached.list(ConfigMap, namespace="default")
        uids = {each.metadata.uid for each in self.owners}
        return {
            each.name: each
            async for each in pager
            if any(reference.uid in uids for reference in each.metadata.owner_references or ())
        }

    async def check(self, steps: list[Any]) -> None:
        self.owners = [await self.bench.owner() for _ in range(2)]
        for controller, number, wanted, action, writes in steps:
            await self.step(controller, number, wanted, action, writes)
        for controller, number in itertools.product(CONTROLLERS, range(2)):
            await self.step(controller, number, set(), "ensure", 0)
        assert await self.existing() == {}

    async def step(self, controller: str, number: int, wanted: set[str], action: str, writes: int) -> None:
        before = await self.existing()
        owner = self.owners[number] = await self.bench.client.uncached.get(
            ConfigMap, self.owners[number].name, namespace="default"
        )
        if action == "delete":
            for name in wanted:
                await self.bench.client.delete(
                    ConfigMap, f"{owner.name}-{name}", namespace="default", missing_ok=True
                )
            return
        if action in ("restart", "create"):
            self.states[controller] = self._start(controller)
        known = self.wanted.get((controller, number), set())
        self.wanted[controller, number] = wanted | known if action in ("crash", "add") else wanted
        self.crash_at = writes if action == "crash" else 0
        children = [
            ConfigMap(metadata=ObjectMeta(name=f"{owner.name}-{each}"), data={controller: "1"})
            for each in sorted(wanted)
        ]
        try:
            await self.ensure(self.states[controller], owner, children, prune=action != "add")
        except Crash:
            self.states[controller] = self._start(controller)
        finally:
            self.crash_at = 0
        after = await self.existing()
        for name, each in before.items():
            others = set(each.data or {}) - {controller}
            if others:
                assert name in after, f"{controller} has deleted {name} of {others}"
                assert after[name].metadata.uid == each.metadata.uid
                assert {key: (after[name].data or {}).get(key) for key in others} == dict.fromkeys(
                    others, "1"
                )
        if action != "crash":
            own = {name for name, each in after.items() if controller in (each.data or {})}
            expected = {f"{owner.name}-{each}" for each in wanted}
            if action == "add" and controller != "graph":
                expected |= {
                    name
                    for name, each in before.items()
                    if controller in (each.data or {}) and name.startswith(f"{owner.name}-")
                }
            assert {each for each in own if each.startswith(f"{owner.name}-")} == expected
