"""What was done is remembered by name: an app that is deleted and created again counts as done."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.explore import ClusterState, Steps, at_end, scenario

from .kinds import App, Part, Planted, app, part


class Done:
    """Apps whose part was created by this process."""

    def __init__(self) -> None:
        self.apps: set[str] = set()


def build(fixed: bool) -> Operator:
    operator = Operator("planted")
    operator.provide(Done)

    @operator.reconcile(App)
    async def reconcile(app: App, ctx: Context[App], done: Done) -> None:
        identity = app.metadata.uid or "" if fixed else app.name
        if identity in done.apps:
            return
        await ctx.apply(part(app.name, of=app))
        done.apps.add(identity)

    return operator


@at_end
def apps_have_parts(state: ClusterState) -> str | None:
    return "the app has no part" if state.of_kind(App) and not state.of_kind(Part) else None


@scenario(invariants=[apps_have_parts])
async def steps(steps: Steps) -> None:
    await steps.apply(app())
    await steps.wait(Part, "a", absent=False)
    await steps.delete(App, "a")
    await steps.wait(Part, "a", absent=True)
    await steps.apply(app())
    await steps.advance("1m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    families=(),
    finding="has no part",
)
