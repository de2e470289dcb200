"""The example in the documentation runs, and does what the page says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kubewright import Client, ObjectMeta
from kubewright.api.errors import Forbidden
from kubewright.testing import RunningApp

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "api-servers.md"
EXAMPLES_PAGE = ROOT / "docs" / "api-server-examples.md"


def test_line_counts_of_the_examples() -> None:
    rows = re.findall(r"^\| \[(\w+)\]\(#[\w-]+\) \|[^|]*\| (\d+) \|", EXAMPLES_PAGE.read_text(), re.MULTILINE)
    assert len(rows) == 6
    for name, lines in rows:
        source = (ROOT / "examples" / name / f"{name}.py").read_text()
        assert (name, source.count("\n")) == (name, int(lines))


@pytest.mark.control_plane(controllers=False)
async def test_restaurant_of_the_page(client: Client, running_app: RunningApp) -> None:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    module = ModuleType("restaurant_of_the_page")
    sys.modules[module.__name__] = module
    exec(compile(found[1], str(PAGE), "exec"), module.__dict__)
    await running_app(module.app)
    for name, cost in (("mozzarella", 1.5), ("salami", 2.0), ("tomato", 0.5)):
        spec = module.ToppingSpec(cost=cost)
        await client.create(module.Topping(metadata=ObjectMeta(name=name), spec=spec))
    metadata = ObjectMeta(name="margherita", namespace="default")
    spec = module.PizzaSpecV1Alpha1(toppings=["mozzarella", "tomato"])
    await client.create(module.PizzaV1Alpha1(metadata=metadata, spec=spec))
    bill = await client.subresource("bill", module.Pizza, "margherita").get()
    assert bill["cost"] == 6.0
    metadata = ObjectMeta(name="hawaii", namespace="default")
    spec = module.PizzaSpecV1Alpha1(toppings=["tomato", "pineapple"])
    with pytest.raises(Forbidden, match='"hawaii" is forbidden: unknown topping: pineapple'):
        await client.create(module.PizzaV1Alpha1(metadata=metadata, spec=spec))


def test_the_page_shows_the_number_of_lines() -> None:
    example = PAGE.parents[1] / "examples" / "restaurant" / "restaurant.py"
    assert f"The example has {len(example.read_text().splitlines())} lines of Python" in PAGE.read_text()
