"""The example of docs/composition.md, on a control plane with a simulated node."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubewright.client import condition
from kubewright.testing.operators import run_operator
from kubewright.testing.server import start_test_server
from kubewright.testing.time import FakeTimeLoop

PAGE = Path(__file__).parents[2] / "docs" / "composition.md"
IMPORTS = """\
from kubewright import CustomResource, ObjectMeta, Operator, Spec, resource
from kubewright.api.apps.v1 import Deployment, DeploymentSpec
from kubewright.api.core.v1 import (
    Container, ContainerPort, PodSpec, PodTemplateSpec, Service, ServicePort, ServiceSpec
)
from kubewright.api.meta import LabelSelector
from kubewright.composition import CompositionStatus, Graph

"""


def pytest_asyncio_loop_factories(config: Any, item: Any) -> Any:
    return {"fake-time": FakeTimeLoop}


@pytest.fixture
def example() -> Iterator[Any]:
    """The first block of code of the page as a module."""
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert code is not None
    module = sys.modules["composed_app"] = types.ModuleType("composed_app")
    exec(compile(IMPORTS + code[1], "composed_app.py", "exec"), module.__dict__)
    yield module
    del sys.modules["composed_app"]


async def test_the_example_works(example: Any) -> None:
    async with start_test_server("in-process", controllers=True, nodes=1) as server:
        client = server.client()
        async with run_operator(example.operator, client):
            spec = example.AppSpec(image="nginx")
            await client.create(
                example.App(metadata=example.ObjectMeta(name="a", namespace="default"), spec=spec)
            )
            ready = await client.wait(
                example.App, "a", until=lambda app: condition("Ready")(app) and app.status.replicas == 2
            )
            assert ready.status.address.startswith("10.0.0.")


def test_the_line_counts_are_those_of_the_page() -> None:
    text = PAGE.read_text()
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert code is not None
    lines = [line for line in code[1].splitlines() if line.strip()]
    assert f"| one module | {len(lines) + 5} |" in text  # and five import statements
