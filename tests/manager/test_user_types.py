"""A user's operator type-checks with `mypy --strict`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kubewright

PROGRAM = '''
from collections.abc import Iterable

from kubewright import Client, Context, CustomResource, FieldError, ObjectMeta, Operator
from kubewright import Request, Result, Spec, Status, resource
from kubewright.api.core.v1 import ConfigMap, Secret
from kubewright.controller import StopEvent, generation_changed
from kubewright.testing import run_operator, start_test_server


class ShopSpec(Spec):
    size: int = 1


class ShopStatus(Status):
    ready: int = 0


@resource(group="types.example.com", version="v1")
class Shop(CustomResource[ShopSpec, ShopStatus]):
    """A shop."""


operator = Operator("shops")


@operator.reconcile(Shop, owns=(ConfigMap,), predicates=(generation_changed,), workers=2, timeout=30)
async def reconcile(shop: Shop, ctx: Context[Shop]) -> Result | None:
    await ctx.ensure([ConfigMap(metadata=ObjectMeta(name=shop.name), data={"size": str(shop.spec.size)})])
    shop.status.ready = shop.spec.size
    await ctx.update_status()
    return Result(requeue_after=60)


@operator.watches(Secret, metadata_only=False)
async def shops_of(secret: Secret, client: Client) -> list[Request]:
    return [Request.of(shop) for shop in await client.list(Shop, namespace=secret.namespace)]


@operator.timer(Shop, interval=3600, when=lambda shop: True)
def tick(shop: Shop) -> None: ...


@operator.daemon(Shop, stop_timeout=5)
async def serve(shop: Shop, stop: StopEvent) -> None:
    await stop.wait(5)


@operator.finalize(Shop)
async def clean_up(shop: Shop) -> None: ...


@operator.default(Shop, failure_policy="Ignore", timeout_seconds=5)
def set_defaults(shop: Shop) -> None:
    shop.spec.size = shop.spec.size or 1


@operator.validate(Shop, on=("create",))
def validate(new: Shop, old: Shop | None) -> Iterable[FieldError]:
    if new.spec.size > 10:
        yield FieldError.invalid("spec.size", new.spec.size, "must be at most 10")


async def test_shop() -> None:
    async with start_test_server("in-process", controllers=False) as server:
        async with run_operator(operator, server.client(), leader_election=False) as manager:
            await manager.client.get(Shop, "a", namespace="default")
'''


@pytest.mark.slow
def test_an_operator_type_checks_and_unknown_options_do_not(tmp_path: Path) -> None:
    (tmp_path / "shops.py").write_text(PROGRAM)
    (tmp_path / "misspelt.py").write_text(PROGRAM.replace("stop_timeout=5", "stop_timeot=5"))
    # Errors in an installed package are not reported to its users: `--follow-imports=silent` does the same
    # for a package in a source tree.
    result = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"),
            *("shops.py", "misspelt.py"),
        ],
        cwd=tmp_path,
        env={"PATH": "", "MYPYPATH": str(Path(kubewright.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line for line in result.stdout.splitlines() if ": error: " in line]
    (error,) = errors
    assert error.startswith("misspelt.py:")
    assert 'Unexpected keyword argument "stop_timeot"' in error
