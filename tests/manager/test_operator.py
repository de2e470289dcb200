"""`Operator`: registration, parameters, and the running operator."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterable
from typing import Any

import pytest

from kubewright.api import (
    CustomResource,
    FieldError,
    ObjectMeta,
    PartialObjectMetadata,
    Spec,
    Status,
    resource,
)
from kubewright.api.core.v1 import ConfigMap, Pod
from kubewright.api.declaring.declarations import Rbac, Webhook
from kubewright.client import Client
from kubewright.controller import Request, Result
from kubewright.controller.daemons import StopEvent
from kubewright.manager import Context, EventRecorder, InjectionError, Manager, Operator
from kubewright.manager.operators.installation import install_definitions
from kubewright.testing.permissions import PermissionRecorder


class BoxSpec(Spec):
    size: int = 1
    colour: str = ""


class BoxStatus(Status):
    seen: int = 0


@resource(group="operator.example.com", version="v1")
class Box(CustomResource[BoxSpec, BoxStatus]):
    """A box."""


async def box(client: Client, name: str = "a", **spec: Any) -> Box:
    return await client.create(Box(metadata=ObjectMeta(name=name, namespace="default"), spec=BoxSpec(**spec)))


class Run:
    """Runs an operator; `stop` ends it."""

    def __init__(self, operator: Operator, client: Client) -> None:
        self.operator, self.client = operator, client
        self.stop = asyncio.Event()

    async def __aenter__(self) -> Run:
        await install_definitions(self.client, [Box])
        self.task = asyncio.create_task(self.operator.run(self.client, stop=self.stop))
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.stop.set()
        await self.task


@pytest.fixture
def operator() -> Operator:
    return Operator("boxes")


async def test_functions_receive_parameters_by_type(operator, client, eventually) -> None:
    seen: dict[str, Any] = {}

    @operator.reconcile(Box)
    async def reconcile(
        request: Request,
        ctx: Context[Box],
        thing: Box,
        log: logging.Logger,
        events: EventRecorder,
        manager: Manager,
        any_client: Client,
        extra: int = 3,
    ) -> None:
        seen.update(locals())

    async with Run(operator, client):
        await box(client)
        await eventually(lambda: seen)
    assert isinstance(seen["ctx"], Context)
    assert seen["thing"] is seen["ctx"].object
    assert seen["request"] == Request("default", "a")
    assert seen["events"] is seen["ctx"].recorder
    assert seen["any_client"] is seen["manager"].client
    assert seen["extra"] == 3


async def test_sync_functions_run_in_threads(operator, client, eventually) -> None:
    import threading

    threads: list[str] = []

    @operator.reconcile(Box)
    def reconcile(thing: Box, ctx: Context[Box]) -> Result | None:
        threads.append(threading.current_thread().name)
        ctx.event("Normal", "Seen", thing.metadata.name or "")
        return None

    async with Run(operator, client):
        await box(client)
        await eventually(lambda: threads)
    assert threads[0] != threading.main_thread().name


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (
            lambda: lambda thing: None,
            "'thing' has no annotation; a reconciler can have parameters of type Box",
        ),
        (lambda: _wants_int, r"_wants_int: parameter 'number' has annotation int; a reconciler can have"),
        (lambda: _wants_many, "'things' must be a named parameter"),
        (lambda: _wants_unknown, "an annotation cannot be resolved: name 'Missing' is not defined"),
    ],
)
def test_unsupported_parameters_fail_at_registration_with_file_and_line(operator, make, complaint) -> None:
    with pytest.raises(InjectionError, match=complaint) as caught:
        operator.reconcile(Box)(make())
    assert "test_operator.py:" in str(caught.value)


def _wants_int(number: int) -> None: ...
def _wants_many(*things: Box) -> None: ...
def _wants_unknown(thing: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def test_other_usage_errors_fail_at_registration(operator) -> None:
    class Odd:
        gvk = None

    with pytest.raises(TypeError, match="Odd is not a kind"):
        operator.reconcile(Odd)
    with pytest.raises(ValueError, match="greater than 0 seconds"):
        operator.timer(Box, interval=0)
    with pytest.raises(
        InjectionError,
        match=r"test_operator\.py:\d+: .*: a validating function takes the new and the old object",
    ):
        operator.validate(Box)(lambda one: None)
    with pytest.raises(InjectionError, match="takes the object"):
        operator.default(Box)(lambda: None)
    with pytest.raises(InjectionError, match="name the finalizer"):
        operator.finalize(ConfigMap)(lambda: None)
    with pytest.raises(InjectionError, match="stop: StopEvent"):
        operator.daemon(Box)(_plain_daemon)
    operator.default(Box)(lambda one: None)
    with pytest.raises(InjectionError, match="Box already has a defaulting function"):
        operator.default(Box)(lambda one: None)


@pytest.mark.parametrize(
    ("register", "complaint"),
    [
        (lambda o: o.reconcile(_wants_int), "_wants_int: pass the kind to the decorator"),
        (lambda o: o.reconcile(Box, own=(Pod,)), "@operator.reconcile: unknown argument 'own'; write owns="),
        (
            lambda o: o.reconcile(Box, zebra=1),
            "unknown argument 'zebra'; the arguments are .*predicates.*workers",
        ),
        (lambda o: o.reconcile(Box, owns=Pod), r"owns=Pod: expected a sequence: owns=\(Pod,\)"),
        (lambda o: o.reconcile(Box, owns=(BoxSpec,)), "BoxSpec is not a kind"),
        (lambda o: o.reconcile(Box, predicates=[1]), "1 is not a predicate"),
        (lambda o: o.reconcile(Box, watches=[Pod]), "watches: expected pairs of a kind and a function"),
        (lambda o: o.reconcile(Box, watches=[(Pod, 3)]), "watches: expected pairs of a kind and a function"),
        (
            lambda o: o.reconcile(Box, watches=[(Pod, _maps_with_number)]),
            "'number' has annotation int; a map function can have parameters of type Cache, CachedClient",
        ),
        (
            lambda o: o.timer(Box, interval=1, interval_s=3),
            "timer: unknown argument 'interval_s'; did you mean interval=",
        ),
        (
            lambda o: o.daemon(Box, finaliser="x"),
            "daemon: unknown argument 'finaliser'; did you mean finalizer=",
        ),
        (
            lambda o: o.default(Box, failurePolicy="Ignore"),
            "unknown argument 'failurePolicy'; write failure_",
        ),
        (lambda o: o.validate(Box, short_name="b"), "'short_name'; short_names= is an argument of @resource"),
        (lambda o: o.index(Box, "size", by="x"), "@operator.index: unknown argument 'by'"),
        (lambda o: Operator("a", namespace="b"), "Operator: unknown argument 'namespace'; write namespaces="),
    ],
)
def test_invalid_options_fail_at_the_decorator(operator, register, complaint) -> None:
    with pytest.raises(TypeError, match=complaint):
        register(operator)


def _maps_with_number(pod: Pod, number: int) -> list[Request]:
    return []


async def test_mapping_uses_an_index_through_the_client(operator, client, eventually) -> None:
    seen: list[str] = []
    kinds: set[str] = set()

    @operator.index(Box, "colour")
    def by_colour(thing: Box) -> list[str]:
        return [thing.spec.colour]

    async def boxes_of(config: PartialObjectMetadata, client: Client) -> list[Request]:
        kinds.add(type(config).__name__)
        found = await client.list(
            Box, namespace=config.metadata.namespace, fields={"colour": config.metadata.name or ""}
        )
        return [Request.of(each) for each in found]

    @operator.reconcile(Box, watches=[(ConfigMap, boxes_of)])
    async def reconcile(thing: Box) -> None:
        seen.append(thing.metadata.name or "")

    rules = [each for each in operator.declarations() if isinstance(each, Rbac)]
    assert any(rule.resources == ("configmaps",) for rule in rules)
    async with Run(operator, client):
        await box(client, "a", colour="red")
        await box(client, "b", colour="blue")
        await eventually(lambda: sorted(seen) == ["a", "b"])
        seen.clear()
        red = ConfigMap(metadata=ObjectMeta(name="red", namespace="default"), data={"x": "y"})
        await client.create(red)
        await eventually(lambda: seen == ["a"])
    assert kinds == {"PartialObjectMetadata"}


async def test_mapping_receives_full_config_maps(operator, client, eventually) -> None:
    seen: list[Request] = []
    operator.settings.allow = (ConfigMap,)

    def named_in(config: ConfigMap) -> list[Request]:
        return [Request("default", (config.data or {}).get("box", "none"))]

    @operator.reconcile(Box, watches=[(ConfigMap, named_in)])
    async def reconcile(request: Request) -> None:
        seen.append(request)

    async with Run(operator, client):
        await box(client, "a")
        await eventually(lambda: seen)
        seen.clear()
        await client.create(ConfigMap(metadata=ObjectMeta(name="c", namespace="default"), data={"box": "a"}))
        await eventually(lambda: seen == [Request("default", "a")])


async def test_traceback_starts_in_the_users_function(operator, client, eventually, caplog) -> None:
    @operator.reconcile(Box)
    async def reconcile(thing: Box) -> Any:
        if thing.metadata.name == "a":
            raise ValueError("no")
        return 5

    async with Run(operator, client):
        await box(client, "a")
        await box(client, "b")
        await eventually(lambda: any("not int" in getattr(each, "error", "") for each in caplog.records))
    own = [record for record in caplog.records if record.name.startswith("kubewright.")]
    shown = [record for record in own if record.exc_info]
    assert {str(record.exc_info[1]) for record in shown if record.exc_info} == {"no"}
    frame = shown[0].exc_info[2].tb_frame  # type: ignore[index,union-attr]
    assert (frame.f_code.co_name, frame.f_code.co_filename) == ("reconcile", __file__)
    errors = {getattr(record, "error", "") for record in caplog.records}
    assert any("reconcile: a reconciler must return a Result or None, not int" in each for each in errors)


def _plain_daemon(thing: Box) -> None: ...


async def test_the_finalizer_is_stored_before_the_first_reconcile_and_cleans_up(
    operator, client, eventually
) -> None:
    log: list[str] = []
    ready = False

    @operator.reconcile(Box)
    async def reconcile(thing: Box) -> None:
        stored = await client.get(Box, thing.metadata.name, namespace="default")
        log.append(f"reconcile {stored.metadata.finalizers}")

    @operator.finalize(Box)
    def clean_up(thing: Box, ctx: Context[Box]) -> Result | None:
        log.append("clean" if ready else "wait")
        return None if ready else Result(requeue_after=5)

    async with Run(operator, client):
        await box(client)
        await eventually(lambda: log)
        assert set(log) == {"reconcile ['operator.example.com/boxes']"}
        await client.delete(Box, "a", namespace="default")
        await eventually(lambda: "wait" in log)
        assert (await client.get(Box, "a", namespace="default")).metadata.deletion_timestamp
        ready = True

        async def gone() -> bool:
            return not [each async for each in client.list(Box, namespace="default")]

        await eventually(gone)
        assert log[-1] == "clean"
        assert log.count("clean") == 1


async def test_finalizer_without_reconciler(operator, client, eventually) -> None:
    log: list[str] = []

    @operator.finalize(Box)
    async def clean_up(thing: Box) -> None:
        log.append(thing.metadata.name or "")

    async with Run(operator, client):
        await box(client)

        async def marked() -> bool:
            return bool((await client.get(Box, "a", namespace="default")).metadata.finalizers)

        await eventually(marked)
        await client.delete(Box, "a", namespace="default")
        await eventually(lambda: log == ["a"])


async def test_timers_and_daemons(operator, client, eventually) -> None:
    ticks: list[float] = []
    ended: list[str] = []

    @operator.timer(Box, interval=60)
    async def tick(thing: Box, ctx: Context[Box]) -> None:
        ctx.memory["ticks"] = ctx.memory.get("ticks", 0) + 1
        ticks.append(ctx.memory["ticks"])

    @operator.daemon(Box)
    async def follow(thing: Box, stop: StopEvent, ctx: Context[Box]) -> None:
        await stop.wait()
        ended.append(stop.reason)

    async with Run(operator, client):
        await box(client)
        await eventually(lambda: ticks)
        await client.delete(Box, "a", namespace="default")
        await eventually(lambda: ended)
    assert ended == ["the object was deleted"]


async def test_timer_interval(operator, client, eventually) -> None:
    times: list[float] = []

    @operator.timer(Box, interval=60)
    async def tick(thing: Box) -> None:
        times.append(asyncio.get_running_loop().time())

    async with Run(operator, client):
        await box(client)
        await eventually(lambda: len(times) == 4, 600)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert all(60 <= gap < 62 for gap in gaps)


async def test_memory_is_removed_with_the_object(operator, client, eventually) -> None:
    seen: list[tuple[str | None, int]] = []

    @operator.reconcile(Box)
    async def reconcile(thing: Box, ctx: Context[Box]) -> None:
        ctx.memory["n"] = ctx.memory.get("n", 0) + 1
        seen.append((thing.metadata.uid, ctx.memory["n"]))

    async with Run(operator, client):
        first = await box(client)
        await eventually(lambda: seen)
        first.spec.size = 2
        await client.update(first)
        await eventually(lambda: len(seen) == 2)
        await client.delete(Box, "a", namespace="default")
        second = await box(client)
        await eventually(lambda: any(uid == second.metadata.uid for uid, _ in seen))
    assert [n for uid, n in seen if uid == first.metadata.uid] == [1, 2]
    assert next(n for uid, n in seen if uid == second.metadata.uid) == 1


async def test_startup_and_cleanup_order(operator, client, eventually) -> None:
    log: list[str] = []

    @operator.on_startup
    async def begin(live: Client, events: EventRecorder) -> None:
        log.append("startup")
        thing = await live.create(Box(metadata=ObjectMeta(name="a", namespace="default"), spec=BoxSpec()))
        events.event(thing, "Normal", "Begun", "from startup")

    @operator.on_cleanup
    def end(manager: Manager) -> None:
        log.append("cleanup")

    @operator.reconcile(Box)
    async def reconcile(thing: Box) -> None:
        log.append("reconcile")

    async with Run(operator, client):
        await eventually(lambda: "reconcile" in log)
    assert log[0] == "startup"
    assert log[-1] == "cleanup"
    from kubewright.api.gvk import GroupVersionKind

    events = client.list(GroupVersionKind("events.k8s.io", "v1", "Event"), namespace="default")
    assert [each.raw["note"] async for each in events] == ["from startup"]


async def test_lists_use_indexes(operator, client, eventually) -> None:
    found: list[str] = []

    @operator.index(Box, "colour")
    def colour(thing: Box) -> str:
        return thing.spec.colour

    @operator.reconcile(Box)
    async def reconcile(thing: Box, ctx: Context[Box]) -> None:
        if thing.metadata.name == "c":
            found[:] = [
                each.metadata.name or "" async for each in ctx.client.list(Box, fields={"colour": "red"})
            ]

    async with Run(operator, client):
        for name, shade in (("a", "red"), ("b", "blue"), ("c", "red")):
            await box(client, name, colour=shade)
        await eventually(lambda: sorted(found) == ["a", "c"])


async def test_leadership_changes_between_replicas(client, eventually) -> None:
    await install_definitions(client, [Box])
    log: list[str] = []

    def replica(name: str) -> Operator:
        made = Operator("boxes")
        made.settings.leader_election = True
        made.settings.leader_election_namespace = "default"

        @made.on_startup
        async def use_simulated_time(manager: Manager) -> None:
            assert manager.elector is not None
            manager.elector.clock = asyncio.get_running_loop().time

        @made.reconcile(Box)
        async def reconcile(thing: Box) -> None:
            log.append(name)

        return made

    await box(client)
    async with Run(replica("one"), client):
        await eventually(lambda: log == ["one"])
        async with Run(replica("two"), client) as second:
            await asyncio.sleep(100)
            assert log == ["one"]
            del log[:]
            assert not second.task.done()
            second.stop.set()
            await second.task
    async with Run(replica("three"), client):
        await eventually(lambda: log == ["three"])


def test_permissions_and_webhooks_are_derived_from_declarations(operator) -> None:
    @operator.reconcile(Box, owns=(ConfigMap,), watches=[(Pod, lambda pod: ())])
    async def reconcile(thing: Box) -> None: ...

    @operator.default(Box, failure_policy="Ignore")
    def fill(thing: Box) -> None: ...

    @operator.validate(Pod, on=("create",))
    def check(new: Pod, old: Pod | None) -> Iterable[FieldError]:
        return ()

    operator.settings.webhook_certificates = "/certs"
    declared = list(operator.declarations())
    rules = {(each.groups, each.resources): set(each.verbs) for each in declared if isinstance(each, Rbac)}
    group = ("operator.example.com",)
    assert rules == {
        (group, ("boxes",)): {"get", "list", "watch", "patch", "update"},
        (group, ("boxes/status",)): {"get", "patch", "update"},
        (group, ("boxes/finalizers",)): {"update"},
        (("core",), ("configmaps",)): {"get", "list", "watch", "create", "delete", "patch", "update"},
        (("core",), ("pods",)): {"get", "list", "watch"},
        (("core", "events.k8s.io"), ("events",)): {"create", "patch"},
    }
    first, second = [each for each in declared if isinstance(each, Webhook)]
    assert (first.of, first.mutating, first.failure_policy) == (Box, True, "Ignore")
    assert (second.path, second.resources, second.verbs) == ("/validate--v1-pod", ("pods",), ("create",))
    assert "test_operator.py:" in first.where


@resource(group="operator.example.com", version="v1")
class Bare(CustomResource[BoxSpec, None]):
    """A kind without a status."""


async def test_status_update_of_a_kind_without_status(operator, client, eventually, caplog) -> None:
    @operator.reconcile(Bare)
    async def reconcile(thing: Bare, ctx: Context[Bare]) -> None:
        await ctx.update_status()

    resources = {
        name for each in operator.declarations() if isinstance(each, Rbac) for name in each.resources
    }
    assert resources == {"bares", "bares/finalizers", "events"}
    await install_definitions(client, [Bare])
    async with Run(operator, client):
        await client.create(Bare(metadata=ObjectMeta(name="a", namespace="default"), spec=BoxSpec()))
        await eventually(
            lambda: any(
                "Bare has no status: declare it as" in getattr(each, "error", "") for each in caplog.records
            )
        )


def test_settings_add_permissions(operator) -> None:
    operator.default(Box)(lambda thing: None)
    operator.settings.leader_election = True
    operator.settings.metrics_port = 8443
    rules = [each for each in operator.declarations() if isinstance(each, Rbac)]
    resources = {resource for rule in rules for resource in rule.resources}
    assert resources == {
        "leases",
        "tokenreviews",
        "subjectaccessreviews",
        "secrets",
        "mutatingwebhookconfigurations",
    }
    assert {rule.namespace for rule in rules if "leases" in rule.resources} == {"system"}


async def test_operator_requests_match_declared_permissions(operator, client, eventually) -> None:
    done: list[str] = []

    @operator.reconcile(Box, owns=(ConfigMap,))
    async def reconcile(thing: Box, ctx: Context[Box]) -> None:
        await ctx.ensure([ConfigMap(metadata=ObjectMeta(name=f"{thing.metadata.name}-settings"))])
        thing.status = BoxStatus(seen=1)
        await ctx.update_status()
        ctx.event("Normal", "Done", "done")
        done.append("x")

    @operator.finalize(Box)
    async def clean_up(thing: Box) -> None: ...

    recorder = PermissionRecorder(operator)
    await install_definitions(client, [Box])
    stop = asyncio.Event()
    task = asyncio.create_task(operator.run(recorder.wrap(client), stop=stop))
    await box(client)
    await eventually(lambda: done)
    stop.set()
    await task
    assert recorder.missing() == []
    recorder.check(unused=False)


def test_webhook_address_in_development_and_in_a_cluster(operator, client) -> None:
    from kubewright.manager.operators.operator_webhooks import build_webhook_server

    operator.default(Box)(lambda thing: None)
    operator.settings.webhook_certificates = "/certs"
    made = build_webhook_server(operator, client)
    assert (made.host, made.port, made.paths) == ("0.0.0.0", 9443, ["/mutate-operator-example-com-v1-box"])
    operator.settings.development = True
    made = build_webhook_server(operator, client)
    assert (made.host, made.port) == ("127.0.0.1", 0)
