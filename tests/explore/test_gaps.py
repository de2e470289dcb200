"""Gaps of the family `unobserved` hide only what an operator could have seen, and outlast no wait."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.explore import Steps, run_once, scenario
from kubewright.explore.families import enumerate_faults
from kubewright.explore.runs.run_result import Run

from .planted.kinds import App, Part, app, part


def build() -> Operator:
    operator = Operator("gaps")

    @operator.reconcile(App, owns=(Part,))
    async def reconcile(app: App, ctx: Context[App]) -> None:
        await ctx.ensure([part(app.name, of=app, size=app.spec.replicas)])

    return operator


def gaps(run: Run) -> list[str]:
    assert run.ok, run.findings
    points = {each.point: each for each in run.trace.points("delivery")}
    found = enumerate_faults(run, ["unobserved"])["unobserved"]
    return [points[each.point].text for each in found if "apps." in points[each.point].text]


@scenario
async def short_life(steps: Steps) -> None:
    await steps.apply(app())
    await steps.advance("10s")
    await steps.delete(App, "a")


@scenario
async def change(steps: Steps) -> None:
    await steps.apply(app())
    await steps.advance("10s")
    await steps.patch(App, "a", {"spec": {"replicas": 2}})
    await steps.wait(Part, "a", condition="{.spec.size}=2")


@scenario
async def short_timeout(steps: Steps) -> None:
    await steps.apply(app())
    await steps.wait(Part, "a", absent=False, timeout="5s")
    await steps.advance("10s")
    await steps.patch(App, "a", {"spec": {"replicas": 2}})


def test_a_gap_hides_changes_of_an_object_that_outlives_it() -> None:
    assert gaps(run_once(build, change)) == ["ADDED apps.planted.example.com default/a"]
    assert gaps(run_once(build, short_life)) == []


def test_a_gap_is_not_longer_than_the_timeout_of_a_wait() -> None:
    assert gaps(run_once(build, short_timeout)) == []
