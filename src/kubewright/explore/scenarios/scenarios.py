"""`Scenario`: the steps that an exploration repeats with different faults, and what must hold meanwhile.

    @scenario(invariants=[no_orphans(), at_most_writes(20)])
    async def resize(steps: Steps) -> None:
        await steps.apply(shop)
        await steps.patch(Shop, "a", {"spec": {"size": 3}})
        await steps.advance("10m")

`load_scenarios` (in `scenario_files`) reads the scenarios of Python files and YAML.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured
from kubewright.explore.invariants import Invariant
from kubewright.explore.runs.reference_checks import CHECKS, unknown_checks

from .steps import Steps

if TYPE_CHECKING:
    from kubewright.testing.applications.application import FakeApplication

StepFunction = Callable[[Steps], Awaitable[None]]
SetupObject = MetaObject | Unstructured | Mapping[str, Any]

QUIET_SECONDS = 60.0
TIMEOUT = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Steps, and the invariants that must hold while and after they are done."""

    name: str
    steps: StepFunction
    invariants: Sequence[Invariant] = ()
    setup: Sequence[SetupObject] = ()
    """Objects that are created before the operator starts, such as CRDs or objects of other users."""
    tolerate: Sequence[str] = ()
    """Fields that may differ from the reference run: `ConfigMap:data.startedAt`, or `status.attempts` for
    every kind. `Kind` alone tolerates all objects of a kind."""
    quiet_seconds: float = QUIET_SECONDS
    """Simulated seconds without a write after which the operator has converged."""
    timeout: float = TIMEOUT
    """Simulated seconds within which the operator must converge after the last step."""
    extra_writes: int | None = None
    """Writes of the operator that a run may have in addition to the reference run; `None`: the default."""
    allow: Sequence[str] = ()
    """Reference checks that do not apply: `failing`, `writes`, `steps` or `external` (`reference_checks`)."""
    controllers: bool = False
    """Whether the controllers of workloads (Deployments, Jobs, ...) run."""
    nodes: int = 0
    """Number of simulated nodes."""
    applications: Sequence[FakeApplication] = ()
    """Fake applications that the operator can connect to."""
    source: str = ""
    """File, and line or document, of the scenario."""

    @property
    def file(self) -> str:
        """The file of the scenario, without the line or document."""
        path, colon, line = self.source.rpartition(":")
        return path if colon and line.split()[0].isdecimal() else self.source

    async def __call__(self, steps: Steps) -> None:
        """Do the steps."""
        await self.steps(steps)

    def __str__(self) -> str:
        return f"{self.source}: {self.name}" if self.source else self.name


@overload
def scenario(function: StepFunction, /) -> Scenario: ...
@overload
def scenario(
    *,
    name: str = ...,
    invariants: Sequence[Invariant] = ...,
    setup: Sequence[SetupObject] = ...,
    tolerate: Sequence[str] = ...,
    quiet_seconds: float = ...,
    timeout: float = ...,
    extra_writes: int | None = ...,
    allow: Sequence[str] = ...,
    controllers: bool = ...,
    nodes: int = ...,
    applications: Sequence[FakeApplication] = ...,
) -> Callable[[StepFunction], Scenario]: ...
def scenario(
    function: StepFunction | None = None,
    /,
    *,
    name: str = "",
    invariants: Sequence[Invariant] = (),
    setup: Sequence[SetupObject] = (),
    tolerate: Sequence[str] = (),
    quiet_seconds: float = QUIET_SECONDS,
    timeout: float = TIMEOUT,
    extra_writes: int | None = None,
    allow: Sequence[str] = (),
    controllers: bool = False,
    nodes: int = 0,
    applications: Sequence[FakeApplication] = (),
) -> Scenario | Callable[[StepFunction], Scenario]:
    """Declare an async function with one parameter `steps` as a scenario; options are those of `Scenario`."""

    def declare(coroutine: StepFunction) -> Scenario:
        if not inspect.iscoroutinefunction(coroutine):
            raise TypeError(f"a scenario must be an async function, and {coroutine!r} is not")
        if len(inspect.signature(coroutine).parameters) != 1:
            raise TypeError(f"{coroutine.__name__}: a scenario has one parameter, steps: Steps")
        given: Sequence[object] = invariants
        for each in given:
            if not isinstance(each, Invariant):
                label = getattr(each, "__name__", repr(each))
                raise TypeError(
                    f"{coroutine.__name__}: {label} is not an invariant; call ready-made ones, as in "
                    "no_orphans(), and declare your own with @always or @at_end"
                )
        if unknown := unknown_checks(allow):
            raise ValueError(
                f"{coroutine.__name__}: allow has {', '.join(unknown)}; expected some of {', '.join(CHECKS)}"
            )
        code = coroutine.__code__
        return Scenario(
            name=name or coroutine.__name__,
            steps=coroutine,
            invariants=tuple(invariants),
            setup=tuple(setup),
            tolerate=tuple(tolerate),
            quiet_seconds=quiet_seconds,
            timeout=timeout,
            extra_writes=extra_writes,
            allow=tuple(allow),
            controllers=controllers,
            nodes=nodes,
            applications=tuple(applications),
            source=f"{code.co_filename}:{code.co_firstlineno}",
        )

    return declare if function is None else declare(function)
