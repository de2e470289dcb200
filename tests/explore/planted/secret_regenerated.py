"""A password is generated again if the status was not written: applications keep the old one."""

from __future__ import annotations

import secrets

from kubewright import Context, ObjectMeta, Operator
from kubewright.api import AlreadyExists
from kubewright.api.core.v1 import Secret
from kubewright.explore import Steps, scenario, secrets_keep_values

from .kinds import NAMESPACE, App, Planted, app


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App, owns=(Secret,))
    async def reconcile(app: App, ctx: Context[App]) -> None:
        if app.status.phase == "Ready":
            return
        metadata = ObjectMeta(name=f"{app.name}-password", namespace=NAMESPACE)
        secret = Secret(metadata=metadata, data={"password": secrets.token_hex(8).encode()})
        if fixed:
            try:
                await ctx.client.create(ctx.own(secret))
            except AlreadyExists:
                ctx.log.debug("the password exists")
        else:
            await ctx.apply(secret)
        app.status.phase = "Ready"
        await ctx.update_status()

    return operator


@scenario(invariants=[secrets_keep_values()])
async def steps(steps: Steps) -> None:
    await steps.apply(app())
    await steps.wait(App, "a", condition="{.status.phase}=Ready")


PLANTED = Planted(
    build=build, scenario=steps, families=("crash", "conflict"), finding="new value of password"
)
