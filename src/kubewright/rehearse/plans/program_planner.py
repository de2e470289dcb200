"""Plans a program that is not an operator of Kubewright: kopf, a Go binary, and so on.

    planned = await plan_program("kopf run shop.py", snapshot, PlanOptions())

The control plane listens on this machine with the objects of the snapshot, the program runs as a process with
a kubeconfig for it, in real time, and every request passes through the recorder of `explore --command`. The
program has finished when it is idle. Calls of external systems over HTTP go to a proxy that rejects them.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubewright.api.errors import APIError
from kubewright.api.unstructured import Unstructured
from kubewright.client.wait import condition as condition_is
from kubewright.controlplane import ControlPlane
from kubewright.explore.foreign.activity import Activity
from kubewright.explore.foreign.injector import FaultInjector
from kubewright.explore.foreign.process import CommandError, ForeignProcess
from kubewright.rehearse.snapshot import ClusterSnapshot
from kubewright.rehearse.snapshot_storage import load_snapshot
from kubewright.storage.memory import MemoryStorage

from .assumptions import AssumedReadiness
from .blocking_proxy import BlockingProxy
from .change_log import ChangeLog, written_objects
from .declared_fakes import load_fakes
from .model import Plan
from .permissions import denied_requests, service_account_user
from .planned_webhooks import PlannedWebhooks
from .planner import (
    PlannedRun,
    PlanOptions,
    definitions_in,
    fill_plan,
    new_plan,
    note_loaded,
    note_webhooks,
    plan_text,
    plane_options,
    snapshot_of,
)
from .schema_checks import check_schemas

DELAY = 0.05
"""Seconds until a pod is ready."""
QUIET_SECONDS = 3.0
START_SECONDS = 60.0
"""Seconds within which the program must send its first request."""


async def plan_program(
    command: str,
    snapshot: ClusterSnapshot,
    options: PlanOptions | None = None,
    *,
    directory: Path | None = None,
    quiet: float = QUIET_SECONDS,
    limit: float = 120.0,
) -> PlannedRun:
    """Return what a program would do with the objects of a snapshot; raise `CommandError` if it does not run.

    `directory` is that in which it is started; `quiet` are the seconds after which it is idle, `limit` those
    after which it is not waited for.
    """
    options = options or PlanOptions()
    plan = new_plan(command, snapshot, options, options.service_account or "an administrator")
    if not options.service_account:
        plan.notes.append("permissions were not checked; name the ServiceAccount with --service-account")
    plan.schema, plan.rejected = check_schemas(snapshot, definitions_in(options.manifests))
    webhooks = PlannedWebhooks()
    storage = MemoryStorage()
    async with AsyncExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kubewright-plan-")))
        applications = load_fakes(options.fakes).applications
        for each in applications:
            await stack.enter_async_context(each.served())
        proxy = await stack.enter_async_context(BlockingProxy(applications))
        kubeconfig = scratch / "kubeconfig"
        settings: dict[str, Any] = {
            "port": 0,
            "store": storage,
            "kubeconfig": kubeconfig,
            "kubernetes_version": snapshot.supported_version,
            "webhook_client": webhooks,
            "nodes": 0,
            **plane_options(options),
        }
        plane = ControlPlane(**settings)
        loaded = load_snapshot(snapshot, plane.server, storage)
        assumed = AssumedReadiness(plane, delay=DELAY) if options.assume == "ready" else None
        if assumed is not None:
            assumed.start()
        await stack.enter_async_context(plane)
        note_loaded(plan, loaded)
        await plane.wait_until_idle()
        if options.service_account:
            user = service_account_user(options.service_account)
            plane.write_kubeconfig(kubeconfig, user=user.name, groups=user.groups)
        if not await _install(plane, plan, options):
            return PlannedRun(plan, snapshot)
        if assumed is not None:
            await assumed.prepare()
        process = ForeignProcess(
            command,
            kubeconfig=kubeconfig,
            log=scratch / "output.log",
            directory=directory,
            environment=proxy.environment,
        )
        run = _ProgramRun(plane, process, options)
        try:
            await run.run(plan, quiet=quiet, limit=limit)
        finally:
            await process.stop()
        run.log.stop()
        await fill_plan(plan, run.log, written_objects(run.injector.requests), plane.server)
        plan.permissions = denied_requests(run.injector.trace.events)
        plan.calls = list(dict.fromkeys(proxy.calls))
        note_webhooks(plan, webhooks)
        final = await snapshot_of(plane.server, snapshot)
        return PlannedRun(plan, replace(final, time=datetime.now(UTC)))


async def _install(plane: ControlPlane, plan: Plan, options: PlanOptions) -> bool:
    """Apply the manifests of the new version; return whether that is possible."""
    client = plane.client(user_agent="deploy")
    try:
        for each in options.manifests:
            made = Unstructured(dict(each))
            await client.apply(made, force=True, field_manager="deploy")
            if made.kind == "CustomResourceDefinition":
                await client.wait(made, until=condition_is("Established"), timeout=60)
    except (APIError, TimeoutError) as error:
        plan.errors.append(f"the new version cannot be installed: {error}")
        return False
    await plane.wait_until_idle()
    return True


class _ProgramRun:
    """A running program, and what is recorded of it."""

    def __init__(self, plane: ControlPlane, process: ForeignProcess, options: PlanOptions) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self.activity = Activity()
        self.revision = 0
        self.injector = FaultInjector(process, self.activity, revision=lambda: self.revision, plan={})
        self.log = ChangeLog(
            plane.server, clock=self._loop.time, redactor=options.redactor, on_change=self.activity.changed
        )
        self._redact = plan_text(options.redactor)
        plane.server.add_middleware(self.injector.wrap)

    async def run(self, plan: Plan, *, quiet: float, limit: float) -> None:
        """Run the program until it is idle."""
        process, command = self._process, " ".join(self._process.arguments)
        began = self._loop.time()
        self.log.start()
        await process.start()
        while True:
            await self.activity.poll(process.pid)
            seconds = self._loop.time() - began
            if process.failures:
                lines = [each for each in process.output().splitlines() if each.strip()]
                last = f": {lines[-1].strip()}" if lines else ""
                if not self.injector.has_requests:
                    raise CommandError(f"{command} ended with {process.exit_text}{last}")
                plan.errors.append(self._redact(f"the program ended with {process.exit_text}{last}"))
                break
            if not self.injector.has_requests:
                if seconds > START_SECONDS:
                    raise CommandError(
                        f"{command} sent no request to the API server within {START_SECONDS:g} s; it must "
                        "use the kubeconfig in KUBECONFIG"
                    )
                continue
            if self.activity.idle_seconds >= quiet:
                break
            if seconds > limit:
                plan.notes.append(f"the program was not idle after {limit:g} s")
                break
        plan.seconds = max(self.log.changed_at - began, 0.0)
