"""Expired objects are deleted by name: after a stale read, one that has been renewed is deleted as well."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api import Preconditions
from kubewright.explore import Steps, scenario

from .kinds import Part, Planted, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.timer(Part, interval=60, initial_delay=60)
    async def delete_expired(part: Part, ctx: Context[Part]) -> None:
        if part.spec.settings.get("expired") == "yes":
            seen = Preconditions(uid=part.metadata.uid, resource_version=part.metadata.resource_version)
            await ctx.client.delete(
                Part,
                part.name,
                namespace=part.metadata.namespace,
                preconditions=seen if fixed else None,
                missing_ok=True,
            )

    return operator


@scenario(allow=["writes"])  # nothing is to be deleted without a fault
async def steps(steps: Steps) -> None:
    await steps.apply(part("report", settings={"expired": "no"}))
    await steps.advance("10s")
    await steps.patch(Part, "report", {"spec": {"settings": {"expired": "yes"}}})
    await steps.advance("20s")
    await steps.patch(Part, "report", {"spec": {"settings": {"expired": "no"}}})
    await steps.advance("2m")


PLANTED = Planted(build=build, scenario=steps, families=("stale",), finding="report does not exist")
