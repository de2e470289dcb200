"""`warm_up`: import and build what runs need, before processes are forked for them.

A forked process inherits modules, compiled validators and caches of types. What the first run of a process
builds would otherwise be built again in each of the processes.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from kubewright.api.gvk import GroupVersionKind
from kubewright.client.errors import NoKindMatch
from kubewright.explore.scenarios.scenarios import Scenario
from kubewright.explore.simulation.factories import ModuleFactory
from kubewright.manager import Operator

from .run import run_once

if TYPE_CHECKING:
    from kubewright.explore.scenarios.steps import Steps
    from kubewright.explore.simulation.factories import OperatorFactory

_done: set[tuple[str, str]] = set()


def warm_up(factory: OperatorFactory, scenario: Scenario) -> None:
    """Run a scenario once in this process, or one without an operator.

    The operator must not leave anything in module globals, which forked runs would find there. A
    `ModuleFactory` imports its modules again for each instance; with other factories it does not run.
    """
    if asyncio._get_running_loop() is not None:
        return
    if not isinstance(factory, ModuleFactory):
        factory, scenario = _empty_operator, _ONE_OBJECT
    reference = factory.reference if isinstance(factory, ModuleFactory) else ""
    if (reference, scenario.name) not in _done:
        _done.add((reference, scenario.name))
        run_once(factory, scenario)


def _empty_operator() -> Operator:
    return Operator("warm-up")


async def _apply(steps: Steps) -> None:
    await steps.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "warm-up"}})
    with contextlib.suppress(NoKindMatch):  # discovery reads the declarations of all built-in kinds
        await steps.client.mapper.resource_for(GroupVersionKind("warm-up.example.com", "v1", "Missing"))


_ONE_OBJECT = Scenario(name="warm-up", steps=_apply, quiet_seconds=1.0)
