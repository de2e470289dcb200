"""Property-based tests of a whole operator.

    def test_properties() -> None:
        check_operator(operator, Shop)

hypothesis generates objects of the kind from its schema and rules, and each of them is created in a control
plane in this process with the operator running, in simulated time. Checked are:

- `converges`: the operator stops writing, and no reconcile fails in the end
- `idempotent`: another reconcile of the same object writes nothing
- `restores`: after a change of the spec and a change back, all objects are as before
- `cleans_up`: when the object is deleted, everything that was created for it is deleted

A failure is an `AssertionError` that names the property and the requests or objects, for the smallest object
that hypothesis finds. Requires hypothesis.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from kubewright.api.core.v1 import Namespace
from kubewright.api.encoding import codec
from kubewright.api.errors import NotFound
from kubewright.api.meta import MetaObject, ObjectMeta
from kubewright.client import Client, is_deleted
from kubewright.client.rest.request import APIRequest, CallNext
from kubewright.client.transport.interface import APIResponse, ResponseStream
from kubewright.controller import Controller
from kubewright.controller.request import Request
from kubewright.webhook import Converter, lost_fields
from kubewright.webhook.conversion import kind_of, lost_in_round_trips
from kubewright.webhook.conversion_checks import examples_of

from .operators import run_operator
from .server import start_test_server
from .strategies import field_paths, field_strategy, from_kind, updates_of
from .time import FakeTimeLoop

if TYPE_CHECKING:
    from kubewright.manager import Manager, Operator
    from kubewright.storage.contract import KeyValue

    from .server import TestServer

Property = Literal["converges", "idempotent", "restores", "cleans_up"]
PROPERTIES: tuple[Property, ...] = ("converges", "idempotent", "restores", "cleans_up")
MAX_WRITES = 200
"""Writes after which an operator counts as one that does not converge, if it never pauses in between."""
ObjectT = TypeVar("ObjectT", bound=MetaObject)

_READS = frozenset(("get", "list", "watch"))
_IGNORED_RESOURCES = frozenset(("events", "leases"))
_KEPT_FIELDS = frozenset(("api_version", "kind", "metadata", "status"))
"""Fields that an update of the desired state does not change."""
_VOLATILE_METADATA = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
)
_VOLATILE_STATUS = frozenset(
    ("observedGeneration", "lastTransitionTime", "lastUpdateTime", "lastProbeTime", "lastHeartbeatTime")
)


def check_operator(
    operator: Operator,
    kind: type[ObjectT],
    *,
    objects: SearchStrategy[tuple[ObjectT, ObjectT]] | None = None,
    fields: Mapping[str, SearchStrategy[Any]] | None = None,
    properties: Sequence[Property] = PROPERTIES,
    examples: int = 20,
    quiet_seconds: float = 60.0,
    timeout: float = 3600.0,
) -> None:
    """Check properties of an operator for generated objects of a kind.

    `objects` generates pairs of an object and a valid update of it; by default they are
    `updates_of(kind, fields=fields)`. The operator has converged when it has written nothing for
    `quiet_seconds`, and must do so within `timeout`; both are simulated seconds. Events and Leases are not
    compared.
    """
    unknown = sorted(set(properties) - set(PROPERTIES))
    if unknown:
        raise ValueError(f"unknown property {unknown[0]!r}; properties are: {', '.join(PROPERTIES)}")
    pairs = objects if objects is not None else updates_of(kind, name="example", fields=fields)
    with asyncio.Runner(loop_factory=FakeTimeLoop) as runner:
        running = AsyncExitStack()
        checker = runner.run(running.enter_async_context(_start(operator, quiet_seconds, timeout)))
        try:

            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                phases=(Phase.explicit, Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
            )
            @given(pairs)
            def check(pair: tuple[ObjectT, ObjectT]) -> None:
                runner.run(checker.check(*pair, properties=properties))

            check()
        finally:
            runner.run(running.aclose())


def check_conversion(
    converter: Converter, *, fields: Mapping[str, SearchStrategy[Any]] | None = None, examples: int = 20
) -> None:
    """Check that objects of every version are the same after a round trip through every other version.

    Every field of every version is checked, with its default and with other values, alone and together with
    all others; then `examples` random objects of each version. `fields` has strategies for values that no
    schema describes. Raises `AssertionError` with the lost fields, or with fields that have no valid example.
    """
    unknown = sorted(set(fields or ()) - {path for kind in converter.types for path in field_paths(kind)})
    if unknown:
        raise ValueError(f"no version has a field {unknown[0]}; fields are named as in manifests")
    for kind in converter.types:
        known = field_paths(kind)
        chosen = {path: strategy for path, strategy in (fields or {}).items() if path in known}
        _check_every_field(converter, kind, chosen)

        @settings(
            max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        @given(from_kind(kind, fields={path: each for path, each in chosen.items() if path[:6] != "status"}))
        def check(obj: MetaObject) -> None:
            lost = lost_fields(converter, obj)
            assert not lost, f"lost in a round trip: {', '.join(lost)}"

        check()


def _check_every_field(
    converter: Converter, kind: type[MetaObject], fields: Mapping[str, SearchStrategy[Any]]
) -> None:
    examples = examples_of(kind, _drawn(fields))
    documents = [*examples.documents()]
    matching = {path: each for path in examples.uncovered if (each := field_strategy(kind, path)) is not None}
    if matching:
        # Strings that must match a pattern, for example: hypothesis finds some.
        examples = examples_of(kind, _drawn({**matching, **fields}))
        documents = [*examples.documents()]
    for path, document in documents:
        lost = lost_in_round_trips(converter, document, kind)
        assert not lost, f"lost in a round trip: {', '.join(lost)}; {_example(document, path)}"
    version = kind_of(kind).version
    assert not examples.uncovered, (
        f"no example of {examples.uncovered[0]} is valid in {version}; pass a strategy for it: "
        f'fields={{"{examples.uncovered[0]}": ...}}'
    )


def _example(document: dict[str, Any], path: str) -> str:
    """Return a short description of an example object."""
    content = {name: value for name, value in document.items() if name not in ("apiVersion", "metadata")}
    text = codec.encode(content).decode() if path else "an object with all fields"
    return f"for {text} in {document['apiVersion'].rpartition('/')[2]}"


def _drawn(fields: Mapping[str, SearchStrategy[Any]]) -> dict[str, list[Any]]:
    """Return a few different values of each strategy, the same in every run."""
    return {path: _some_values(strategy) for path, strategy in fields.items()}


def _some_values(strategy: SearchStrategy[Any]) -> list[Any]:
    values: list[Any] = []

    @settings(max_examples=10, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def draw(value: Any) -> None:
        if value not in values:
            values.append(value)

    draw()
    return values


@asynccontextmanager
async def _start(operator: Operator, quiet_seconds: float, timeout: float) -> AsyncIterator[_Checker]:
    async with start_test_server("in-process") as server:
        checker = _Checker(server, quiet_seconds, timeout)
        client = server.client().with_interceptor(checker.record)
        async with run_operator(operator, client) as manager:
            checker.manager = manager
            yield checker


@dataclass(slots=True)
class _Checker:
    """A running operator, and the writes that it sends."""

    server: TestServer
    quiet_seconds: float
    timeout: float
    manager: Manager = field(init=False)
    writes: list[str] = field(default_factory=list)
    write_limit: int = MAX_WRITES
    limit_reached: asyncio.Event = field(default_factory=asyncio.Event)
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def record(self, call: APIRequest, proceed: CallNext) -> APIResponse | ResponseStream:
        resource = call.resource.resource if call.resource is not None else ""
        if resource and call.verb not in _READS and resource not in _IGNORED_RESOURCES:
            subresource = f"/{call.subresource}" if call.subresource else ""
            self.writes.append(f"{call.verb} {resource}{subresource} {call.name}".rstrip())
            if len(self.writes) >= self.write_limit:
                self.limit_reached.set()
        return await proceed(call)

    async def check(self, first: Any, second: Any, *, properties: Sequence[Property]) -> None:
        """Check the properties for one object and an update of it."""
        client = self.server.client()
        namespace = f"example-{next(self.numbers)}"
        first, second = copy.deepcopy(first), copy.deepcopy(second)
        if first.metadata.namespace:
            await client.create(Namespace(metadata=ObjectMeta(name=namespace)))
            first.metadata.namespace = second.metadata.namespace = namespace
        await self._settle("the control plane")
        before = await self._objects()
        created = await client.create(first)
        try:
            await self._settle("the new object")
            if "idempotent" in properties:
                await self._check_second_pass(created)
            if "restores" in properties:
                await self._check_restored(client, first, second)
        finally:
            await client.delete(created, missing_ok=True)
            await self._delete_finished(client, created)
        await self._settle("the deleted object")
        if "cleans_up" in properties:
            remaining = sorted((await self._objects()).keys() - before.keys())
            assert not remaining, f"cleans_up: objects remain after deletion: {', '.join(remaining)}"

    async def _delete_finished(self, client: Client, obj: Any) -> None:
        try:
            await client.wait(obj, until=is_deleted, timeout=self.timeout)
        except TimeoutError:
            found = await client.get(type(obj), obj.metadata.name, namespace=obj.metadata.namespace)
            raise AssertionError(
                f"cleans_up: the object is not deleted after {self.timeout:g} s; its finalizers are "
                f"{', '.join(found.metadata.finalizers or ())}"
            ) from None
        except NotFound:
            pass

    async def _check_second_pass(self, obj: Any) -> None:
        self.writes.clear()
        for controller in self._controllers():
            if controller.queue is not None:
                controller.queue.add(Request(obj.metadata.namespace or "", obj.metadata.name))
        await self._settle("a second pass")
        assert not self.writes, f"idempotent: a second pass wrote: {', '.join(self.writes)}"

    async def _check_restored(self, client: Client, first: Any, second: Any) -> None:
        before = await self._objects()
        for version in (second, first):
            current = await client.get(type(first), first.metadata.name, namespace=first.metadata.namespace)
            for name in version.__struct_fields__:
                if name not in _KEPT_FIELDS:
                    setattr(current, name, copy.deepcopy(getattr(version, name)))
            await client.update(current)
            await self._settle("the updated object")
        after = await self._objects()
        differences = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
        assert not differences, (
            "restores: these objects differ after a change and a change back:\n  "
            + "\n  ".join(f"{key}: {before.get(key)} became {after.get(key)}" for key in differences)
        )

    async def _settle(self, what: str) -> None:
        """Wait until the operator is idle and has written nothing for `quiet_seconds`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout
        while True:
            state = await self._state()
            await self._wait_quiet_seconds()
            if not self._failing() and state == await self._state():
                return
            if loop.time() > deadline or self.limit_reached.is_set():
                failing = self._failing()
                last = ", ".join(self.writes[-5:]) or "none"
                reason = f"reconciles fail: {failing[0]}" if failing else "it still writes"
                raise AssertionError(
                    f"converges: the operator does not converge for {what} within {self.timeout:g} s or "
                    f"{MAX_WRITES} writes "
                    f"({reason}); last writes: {last}"
                )

    async def _wait_quiet_seconds(self) -> None:
        """Wait, but not if writes follow each other without a pause, in which simulated time stands still."""
        self.limit_reached.clear()
        self.write_limit = len(self.writes) + MAX_WRITES
        try:
            async with asyncio.timeout(self.quiet_seconds):
                await self.limit_reached.wait()
        except TimeoutError:
            for controller in self._controllers():
                if controller.queue is not None:
                    await controller.queue.wait_until_idle()

    async def _state(self) -> tuple[int, int, int]:
        """Return the numbers of writes and objects, and the revision of the last change."""
        items = [item for item in await self._items() if not _is_ignored(item.key)]
        return len(self.writes), len(items), max(item.mod_revision for item in items)

    async def _items(self) -> list[KeyValue]:
        return (await self.server.plane.storage.list(self.server.plane.server.prefix)).items

    def _controllers(self) -> list[Controller[Any]]:
        return [each for each in self.manager.runnables if isinstance(each, Controller)]

    def _failing(self) -> list[str]:
        return [error for controller in self._controllers() for error in controller.failing.values()]

    async def _objects(self) -> dict[str, Any]:
        """Return all objects by key, without the parts that differ between equal states."""
        start = len(self.server.plane.server.prefix)
        return {
            item.key[start:]: _stable(codec.loads(item.value))
            for item in await self._items()
            if not _is_ignored(item.key)
        }


def _is_ignored(key: str) -> bool:
    return not _IGNORED_RESOURCES.isdisjoint(key.split("/"))


def _stable(obj: Any) -> Any:
    """Return an object without metadata and status fields that change with every write."""
    if not isinstance(obj, dict):
        return obj
    stable = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        stable["metadata"] = {key: value for key, value in metadata.items() if key not in _VOLATILE_METADATA}
    if "status" in obj:
        stable["status"] = _without_times(obj["status"])
    return stable


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(child) for key, child in value.items() if key not in _VOLATILE_STATUS}
    if isinstance(value, list):
        return [_without_times(child) for child in value]
    return value
