"""Two workers take the next free number from memory, with an await between the look-up and the assignment.

App `b` does more before its look-up, so that the assignments do not overlap unless a task is delayed between
two awaits. No other fault family does that: faults delay requests and events, and this await is neither.
"""

from __future__ import annotations

import asyncio

from kubewright import Context, Operator
from kubewright.api.core.v1 import ConfigMap
from kubewright.explore import ClusterState, Steps, at_end, scenario

from .kinds import CRDS, NAMESPACE, App, Part, Planted, app, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")
    numbers: dict[str, int] = {}
    has_started = False
    start = asyncio.Lock()

    @operator.reconcile(App, workers=2)
    async def reconcile(app: App, ctx: Context[App]) -> None:
        nonlocal has_started
        async with start:
            if not has_started:
                for each in await ctx.client.uncached.list(Part, namespace=NAMESPACE):
                    numbers[each.name] = each.spec.size
                has_started = True
        for name in (app.spec.settings or {}).values():
            await ctx.client.uncached.get_or_none(ConfigMap, name, namespace=NAMESPACE)
        if await ctx.client.uncached.get_or_none(Part, app.name, namespace=NAMESPACE) is not None:
            return
        free = next(each for each in range(1, 100) if each not in numbers.values())
        number = numbers.get(app.name, free)
        if fixed:
            numbers[app.name] = number
        await asyncio.sleep(0)  # stands for any await that usually returns without a delay
        numbers[app.name] = number
        await ctx.client.create(ctx.own(part(app.name, of=app, size=number)))

    return operator


@at_end
def numbers_are_unique(state: ClusterState) -> list[str]:
    """Require that no two parts have the same number."""
    seen: dict[int, str] = {}
    problems = []
    for each in state.of_kind(Part):
        number = each.get("spec", "size")
        if number in seen:
            problems.append(f"{seen[number]} and {each.name} have the number {number}")
        seen[number] = each.name
    return problems


@scenario(setup=CRDS, invariants=[numbers_are_unique], tolerate=["Part:spec.size"])
async def steps(steps: Steps) -> None:
    await steps.apply(app("a"))
    await steps.apply(app("b", settings={str(each): "shop" for each in range(6)}))
    await steps.wait(Part, "a", namespace=NAMESPACE, absent=False)
    await steps.wait(Part, "b", namespace=NAMESPACE, absent=False)
    await steps.advance("1m")


PLANTED = Planted(build=build, scenario=steps, families=("schedule",), finding="a and b have the number 1")
