"""Plans an operator of Kubewright: the operator and a control plane in one event loop, in virtual time.

    planned = plan_operator(ModuleFactory("shop:operator"), snapshot, PlanOptions())
    print(planned.plan.summary())

1. The control plane starts with the objects of the snapshot, and its controllers become idle.
2. CRDs, webhooks and permissions of the operator are installed. From now on changes are recorded.
3. The operator starts with its ServiceAccount, and runs until nothing changes for 30 virtual seconds.

`PlannedRun.final` is the snapshot at the end: a plan from it shows what another version does differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from kubewright.api.encoding import codec
from kubewright.api.errors import APIError
from kubewright.api.unstructured import Unstructured
from kubewright.client.readiness import readiness_of
from kubewright.explore.simulation.loop import Livelock
from kubewright.manager import Operator
from kubewright.manager.operators.installation import InstallationError, definitions_of
from kubewright.manifests.project import read_project
from kubewright.recording.redaction import Redactor
from kubewright.rehearse.rehearsal import LIMIT_SECONDS, QUIET_SECONDS, Rehearsal
from kubewright.rehearse.snapshot import ClusterSnapshot, ObjectName

from .assumptions import DISABLED, AssumedReadiness
from .change_log import ChangeLog, condition_changes, written_objects
from .declared_fakes import load_fakes
from .model import Plan, PlannedChange, Waiting
from .permissions import denied_requests, role_objects, service_account_user
from .planned_webhooks import PlannedWebhooks
from .schema_checks import check_schemas

if TYPE_CHECKING:
    from kubewright.api.declaring.declarations import Rbac
    from kubewright.apiserver.server import APIServer
    from kubewright.controlplane import ControlPlane
    from kubewright.explore.simulation.factories import ModuleFactory

MAX_MESSAGE = 600
"""Characters of an error message."""
DELAY = 1.0
"""Virtual seconds until a pod is ready."""
_DEFINITION = ("apiextensions.k8s.io", "CustomResourceDefinition")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """How a plan is made."""

    assume: Literal["ready", "nothing"] = "ready"
    """Whether pods, volumes and load balancers that are created become ready."""
    service_account: str = ""
    """Namespace and name of a ServiceAccount whose permissions in the source are used."""
    manifests: Sequence[Mapping[str, Any]] = ()
    """Objects that are applied before the operator starts."""
    quiet: float = QUIET_SECONDS
    limit: float = LIMIT_SECONDS
    redactor: Redactor = field(default_factory=Redactor)
    fakes: Sequence[str] = ()
    """Modules with fakes of other systems: `FakeHTTP`, `FakeSQL` and `replaced` functions."""


@dataclass(slots=True)
class PlannedRun:
    """A plan, and the state at its end."""

    plan: Plan
    final: ClusterSnapshot


def plan_operator(
    factory: ModuleFactory, snapshot: ClusterSnapshot, options: PlanOptions | None = None
) -> PlannedRun:
    """Return what an operator would do with the objects of a snapshot."""
    options = options or PlanOptions()
    operator = factory()
    account = options.service_account or f"{operator.name}-system/{operator.name}-manager"
    plan = new_plan(factory.reference, snapshot, options, account)
    definitions = [*definitions_of(operator.kinds), *definitions_in(options.manifests)]
    plan.schema, plan.rejected = check_schemas(snapshot, definitions)
    rules = [] if options.service_account else read_project(factory.modules).permissions
    return _PlannedOperator(factory, snapshot, options, plan).run(operator, rules, account)


class _PlannedOperator:
    """The parts of a plan."""

    def __init__(
        self, factory: ModuleFactory, snapshot: ClusterSnapshot, options: PlanOptions, plan: Plan
    ) -> None:
        self._factory = factory
        self._options = options
        self._plan = plan
        self._assumed: AssumedReadiness | None = None
        self._webhooks = PlannedWebhooks()
        self._fakes = load_fakes(options.fakes)
        self._rehearsal = Rehearsal(
            snapshot,
            applications=self._fakes.applications,
            webhooks=self._webhooks,
            options=plane_options(options),
            on_prepared=self._prepared if options.assume == "ready" else None,
        )

    def _prepared(self, plane: ControlPlane) -> None:
        self._assumed = AssumedReadiness(plane, delay=DELAY)
        self._assumed.start()

    def run(self, operator: Operator, rules: Iterable[Rbac], account: str) -> PlannedRun:
        """Run the operator."""
        plan, rehearsal, options = self._plan, self._rehearsal, self._options
        with rehearsal.started(), self._fakes.installed(self._factory) as factory:
            cluster = rehearsal.cluster
            cluster.operator_user = service_account_user(account)
            rehearsal.run(rehearsal.settle(quiet=options.quiet, limit=options.limit))
            note_loaded(plan, cluster.loaded)
            if not self._install(operator, rules, account):
                return PlannedRun(plan, rehearsal.snapshot)
            rehearsal.run(rehearsal.settle(quiet=1.0, limit=options.limit))
            if self._assumed is not None:
                rehearsal.run(self._assumed.prepare())
            cluster.start_recording()
            log = ChangeLog(cluster.plane.server, clock=rehearsal.loop.time, redactor=options.redactor)
            log.start()
            began = rehearsal.loop.now
            rehearsal.start_operator(factory)
            try:
                is_idle = rehearsal.run(rehearsal.settle(quiet=options.quiet, limit=options.limit))
            except Livelock as error:
                is_idle = False
                plan.errors.append(f"the operator does not become idle: {error}")
            log.stop()
            plan.seconds = max(log.changed_at - began, 0.0)
            if not is_idle and rehearsal.limit is None and not plan.errors:
                plan.notes.append(
                    f"the operator still changed objects after {options.limit:g} virtual seconds"
                )
            rehearsal.run(self._finish(log))
            final = rehearsal.run(snapshot_of(cluster.plane.server, rehearsal.snapshot))
            final.time = datetime.fromtimestamp(rehearsal.loop.epoch + rehearsal.loop.now, UTC)
            return PlannedRun(plan, final)

    def _install(self, operator: Operator, rules: Iterable[Rbac], account: str) -> bool:
        """Install what the deployment of the operator would; return whether that is possible."""
        cluster, plan = self._rehearsal.cluster, self._plan
        namespace = account.partition("/")[0]
        objects = [
            *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": each}} for each in (namespace,)),
            *self._options.manifests,
            *role_objects(rules, account),
        ]

        async def install() -> None:
            await cluster.install(operator)
            for each in objects:
                await cluster.client.apply(Unstructured(dict(each)), force=True, field_manager="deploy")

        try:
            self._rehearsal.run(install())
        except (APIError, InstallationError, TimeoutError) as error:
            text = str(error).partition("; fix the error, or apply")[0]
            plan.errors.append(f"the new version cannot be installed: {text}")
            return False
        return True

    async def _finish(self, log: ChangeLog) -> None:
        rehearsal, plan = self._rehearsal, self._plan
        cluster = rehearsal.cluster
        await fill_plan(plan, log, written_objects(cluster.requests), cluster.plane.server)
        plan.permissions = denied_requests(cluster.trace.events)
        plan.calls = list(dict.fromkeys(rehearsal.loop.blocked_connections))
        failing = [f"{each.controller} {each.request}: {each.message}" for each in rehearsal.failing()]
        ended = [str(each) for each in rehearsal.errors if not each.controller]
        limit = [str(rehearsal.limit)] if rehearsal.limit is not None else []
        redact = plan_text(self._options.redactor)
        plan.errors += [redact(each) for each in dict.fromkeys((*limit, *ended, *failing))]
        note_webhooks(plan, self._webhooks)


def plan_text(redactor: Redactor) -> Callable[[str], str]:
    """Return a function that redacts a message, and makes it one line."""
    return lambda text: redactor.text(" ".join(text.split()))[:MAX_MESSAGE]


def new_plan(name: str, snapshot: ClusterSnapshot, options: PlanOptions, account: str) -> Plan:
    """Return a plan without results."""
    plan = Plan(
        operator=name,
        source=snapshot.source,
        objects=len(snapshot),
        kubernetes_version=snapshot.supported_version,
        assume=options.assume,
        service_account=account,
        notes=list(snapshot.notes),
    )
    version = snapshot.kubernetes_version.removeprefix("v")
    if not version:
        plan.notes.append(f"the version of the source is not known: {plan.kubernetes_version} was used")
    elif not f"{version}.".startswith(f"{plan.kubernetes_version}."):
        plan.notes.append(f"the source has version {version}: {plan.kubernetes_version} was used")
    return plan


def plane_options(options: PlanOptions) -> dict[str, Any]:
    """Return the options of the control plane of a plan."""
    if options.assume == "nothing":
        return {"auth": "rbac"}
    return {"auth": "rbac", "nodes": 1, "disable_controllers": DISABLED}


def note_loaded(plan: Plan, loaded: Any) -> None:
    """Note what of the snapshot was not loaded."""
    for kind, count in loaded.unserved.items():
        plan.notes.append(f"{count} {kind} of the snapshot were left out: the kind is not served")


def note_webhooks(plan: Plan, webhooks: PlannedWebhooks) -> None:
    """Note the webhooks that were not called."""
    for url, count in webhooks.uncalled.items():
        plan.notes.append(f"the webhook {url} was not called; it was assumed to allow {count} requests")


async def fill_plan(plan: Plan, log: ChangeLog, written: set[Any], server: APIServer) -> None:
    """Add what was recorded to a plan."""
    groups = {each.resource.group for each in server.stores}
    groups = {each for each in groups if "." in each and not each.endswith(".k8s.io")}
    plan.changes = await log.changes(written, groups)
    disrupted = {each.name for each in plan.operator_changes if each.disruption}
    for each in plan.changes:
        if each.actor == "cluster" and not disrupted.isdisjoint(each.owners):
            each.disruption = ""  # the change of the owner names it already
    plan.events = log.events()
    plan.conditions = condition_changes(plan.changes)
    plan.waiting = waiting_objects(plan.changes, log)
    if log.uncertain:
        plan.notes.append(f"{log.uncertain} values were redacted in the source, and not compared")


def waiting_objects(changes: Iterable[PlannedChange], log: ChangeLog) -> list[Waiting]:
    """Return the objects that the operator wrote and that are not ready."""
    written = {each.name for each in changes if each.actor == "operator" and each.verb != "delete"}
    found = []
    for entry in log.changed.values():
        if entry.after is None:
            continue
        obj = codec.loads(entry.after)
        name = ObjectName.of(obj)
        if name in written:
            state = readiness_of(obj)
            if not state.is_ready:
                found.append(Waiting(object=str(name), message=state.message or state.state))
    return found


async def snapshot_of(server: APIServer, source: ClusterSnapshot) -> ClusterSnapshot:
    """Return everything that a control plane stores as a snapshot."""
    objects: list[bytes] = []
    for store in server.stores:
        page = await server.storage.list(store.prefix)
        for item in page.items:
            obj = codec.loads(item.value)
            if not isinstance(obj, dict) or "metadata" not in obj:
                continue
            obj["metadata"]["resourceVersion"] = str(item.mod_revision)
            objects.append(msgspec.json.encode(obj))
    return ClusterSnapshot(
        objects=objects,
        source=source.source,
        kubernetes_version=source.kubernetes_version,
        time=source.moment() + timedelta(seconds=1),
        is_redacted=source.is_redacted,
        notes=list(source.notes),
    )


def definitions_in(objects: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the CRDs among objects."""
    return [dict(each) for each in objects if ObjectName.of(each)[:2] == _DEFINITION]
