"""At: runs a command once at a given time. One Pod, three phases, and a clock that tests can replace.

The phase is written before the Pod is created, and the Pod has the name of the object: a restarted controller
finds the Pod instead of creating a second one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from kubewright import Column, Context, CustomResource, ObjectMeta, Operator, Result, Spec, Status, resource
from kubewright.api import AlreadyExists, MinLen, NotFound, Time, is_controlled_by
from kubewright.api import now as utc_now
from kubewright.api.core.v1 import Container, Pod, PodSpec


class Phase(StrEnum):
    """Phase of the command."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    DONE = "DONE"


class AtSpec(Spec):
    """Desired state of an At."""

    schedule: Time
    """Time of the run, in UTC."""

    command: Annotated[str, MinLen(1)]
    """Command to run; arguments are separated by spaces."""


class AtStatus(Status):
    """Observed state of an At."""

    phase: Phase | None = None


@resource(
    group="cnat.programming-kubernetes.info",
    version="v1alpha1",
    columns=(Column("Schedule", ".spec.schedule"), Column("Phase", ".status.phase")),
)
class At(CustomResource[AtSpec, AtStatus]):
    """Runs a command once at a given time."""


def pod_for(at: At) -> Pod:
    """Return the Pod that runs the command."""
    container = Container(name="busybox", image="busybox", command=at.spec.command.split())
    return Pod(
        metadata=ObjectMeta(
            name=f"{at.metadata.name}-pod",
            namespace=at.metadata.namespace,
            labels={"app": at.name},
        ),
        spec=PodSpec(containers=[container], restart_policy="OnFailure"),
    )


class AtReconciler:
    """Reconciles objects through their phases."""

    def __init__(self, now: Callable[[], datetime] = utc_now) -> None:
        self.now = now

    async def reconcile(self, at: At, ctx: Context[At]) -> Result | None:
        """Wait for the time, create the Pod, wait for its completion."""
        phase = at.status.phase
        if phase is None:
            phase = await self._move(at, Phase.PENDING, ctx)
        if phase is Phase.PENDING:
            left = at.spec.schedule - self.now()
            if left.total_seconds() > 0:
                return Result(requeue_after=left)
            phase = await self._move(at, Phase.RUNNING, ctx)
        if phase is Phase.RUNNING:
            pod = await self._pod(at, ctx)
            if pod.status is not None and pod.status.phase in ("Succeeded", "Failed"):
                await self._move(at, Phase.DONE, ctx)
                ctx.event("Normal", "Done", f"Pod {pod.metadata.name} has {pod.status.phase.lower()}")
        return None

    async def _move(self, at: At, phase: Phase, ctx: Context[At]) -> Phase:
        at.status.phase = phase
        await ctx.update_status()
        return phase

    async def _pod(self, at: At, ctx: Context[At]) -> Pod:
        wanted = ctx.own(pod_for(at))
        name, namespace = wanted.name, wanted.metadata.namespace
        try:
            pod = await ctx.client.get(Pod, name, namespace=namespace)
        except NotFound:
            try:
                return await ctx.client.create(wanted)
            except AlreadyExists:
                pod = await ctx.client.uncached.get(Pod, name, namespace=namespace)
        if not is_controlled_by(pod, at):
            raise RuntimeError(f"pod {pod.metadata.name} has another owner")
        return pod


def make_operator(now: Callable[[], datetime] = utc_now) -> Operator:
    """Return the operator with a clock."""
    at_operator = Operator("at")
    at_operator.reconcile(At, owns=(Pod,))(AtReconciler(now).reconcile)
    return at_operator


operator = make_operator()
