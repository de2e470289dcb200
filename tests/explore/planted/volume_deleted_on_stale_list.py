"""Released volumes are deleted at the start, from a list that may be old: a volume in use is deleted.

The pattern of the bugs that Sieve found in operators of databases, with PersistentVolumeClaims.
"""

from __future__ import annotations

from kubewright import Client, Context, Operator
from kubewright.client.kind_types import ALL_NAMESPACES
from kubewright.explore import ClusterState, Steps, always, scenario

from .kinds import NAMESPACE, App, Part, Planted, app, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.on_startup
    async def delete_released(client: Client) -> None:
        # Version 0 accepts any state that the API server has in its cache.
        version = "" if fixed else "0"
        page = await client.list_raw(Part, namespace=ALL_NAMESPACES, resource_version=version)
        for raw in page.items:
            if b'"released"' in bytes(raw):
                await client.delete(Part, "volume", namespace=NAMESPACE, missing_ok=True)

    @operator.reconcile(App)
    async def claim(app: App, ctx: Context[App]) -> None:
        volume = await ctx.client.uncached.get_or_none(Part, "volume", namespace=NAMESPACE)
        if volume is None:
            await ctx.client.create(part("volume", settings={"state": app.name}))
        elif volume.spec.settings.get("state") != app.name:
            volume.spec.settings["state"] = app.name
            await ctx.client.update(volume)

    return operator


@always
def claimed_volumes_are_kept(state: ClusterState) -> list[str]:
    return [
        f"{volume} was deleted while it was claimed"
        for volume in state.deleted()
        if volume.get("spec", "settings", "state") == "a"
    ]


# Released volumes are deleted at the start, by design.
@scenario(invariants=[claimed_volumes_are_kept], allow=["restart", "deletions", "late"])
async def steps(steps: Steps) -> None:
    await steps.apply(part("volume", settings={"state": "released"}))
    await steps.apply(app())
    await steps.wait(Part, "volume", condition="{.spec.settings.state}=a")


PLANTED = Planted(build=build, scenario=steps, families=("stale",), finding="while it was claimed")
