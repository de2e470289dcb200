"""A project with an operator, a CRD and webhooks, in a temporary directory."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kubewright.cli import main

_numbers = itertools.count(1)

PROGRAM = '''
from typing import Annotated

from kubewright.api import Condition, CustomResource, FieldError, ObjectMeta, Spec, Status, resource
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.markers import Ge
from kubewright.manager import Context, Operator


class ShopSpec(Spec):
    """Desired state of a shop."""

    replicas: Annotated[int, Ge(0)] = 1
    owner: str = ""


class ShopStatus(Status):
    """Observed state of a shop."""

    conditions: list[Condition] = []
    replicas: int = 0


@resource(group="store.example.com", version="v1")
class Shop(CustomResource[ShopSpec, ShopStatus]):
    """A shop."""


operator = Operator("shop")


@operator.reconcile(Shop, owns=(ConfigMap,))
async def reconcile(shop: Shop, ctx: Context[Shop]) -> None:
    await ctx.ensure([ConfigMap(metadata=ObjectMeta(name=shop.name), data={"owner": shop.spec.owner})])
    shop.status = ShopStatus(replicas=shop.spec.replicas)
    await ctx.update_status()
    ctx.event("Normal", "Opened", "the shop is open")


@operator.finalize(Shop)
async def close(shop: Shop) -> None: ...


@operator.default(Shop)
def set_owner(shop: Shop) -> None:
    shop.spec.owner = shop.spec.owner or "default-owner"


@operator.validate(Shop)
def check(new: Shop, old: Shop | None) -> list[FieldError]:
    too_many = new.spec.replicas >= 100
    return [FieldError.invalid("spec.replicas", new.spec.replicas, "at most 99")] if too_many else []
'''


@dataclass
class ShopProject:
    """The files of the project, and the name of its module."""

    directory: Path
    module: str

    def settings(self, deployment: str = "", project: str = "") -> None:
        """Write `pyproject.toml` with these lines in its tables."""
        (self.directory / "pyproject.toml").write_text(
            f'[tool.kubewright]\nname = "shop"\nmodules = ["{self.module}"]\ndomain = "example.com"\n'
            f"{project}\n[tool.kubewright.deployment]\n{deployment}\n"
        )

    def program(self, text: str) -> None:
        """Write the module."""
        (self.directory / f"{self.module}.py").write_text(text)

    def run(self, *arguments: str, exit_code: int = 0) -> Result:
        """Run a command in the directory of the project."""
        result = CliRunner().invoke(main, list(arguments))
        assert result.exit_code == exit_code, result.output + str(result.exception)
        return result


def make_project(directory: Path, monkeypatch: pytest.MonkeyPatch, program: str = PROGRAM) -> ShopProject:
    """Write a project and make its directory the current one."""
    project = ShopProject(directory, f"shop_module_{next(_numbers)}")
    monkeypatch.chdir(directory)
    monkeypatch.syspath_prepend(str(directory))
    project.program(program)
    project.settings()
    return project
