"""`tools/affected_tests.py` selects the tests that a change can affect, nearest first."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("affected_tests", ROOT / "tools" / "affected_tests.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FILES = {
    "src/shop/__init__.py": "",
    "src/shop/__init__.pyi": "from .orders import Order as Order",
    "src/shop/orders.py": "from . import prices",
    "src/shop/prices.py": "def later():\n    import shop.taxes",
    "src/shop/taxes.py": "",
    "src/shop/prices.json": "{}",
    "tests/test_orders.py": "from shop import Order",
    "tests/test_prices.py": "import shop.prices",
    "tests/test_nothing.py": "import os",
    "tests/deep/test_taxes.py": "from shop.taxes import rate",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def chosen(tool: ModuleType, tree: Path, *files: str, seconds: float = 90.0) -> tuple[list[str], list[str]]:
    selected: tuple[list[str], list[str]] = tool.select(
        tool.ImportGraph(tree), [Path(file) for file in files], {"tests/test_prices.py": 2.0}, seconds
    )
    return selected


def test_tests_are_ordered_by_imports(tool: ModuleType, tree: Path) -> None:
    nearest = ["tests/deep/test_taxes.py", "tests/test_prices.py", "tests/test_orders.py"]
    assert chosen(tool, tree, "src/shop/taxes.py") == (nearest, [])


def test_names_of_a_stub_are_imports_of_their_module(tool: ModuleType, tree: Path) -> None:
    assert chosen(tool, tree, "src/shop/orders.py") == (["tests/test_orders.py"], [])


def test_changed_test_is_selected_itself(tool: ModuleType, tree: Path) -> None:
    assert chosen(tool, tree, "tests/test_nothing.py") == (["tests/test_nothing.py"], [])


def test_other_files_select_the_tests_of_project_files(tool: ModuleType, tree: Path) -> None:
    found, _ = chosen(tool, tree, "docs/index.md")
    assert found == ["tests/test_nothing.py", "tests/test_orders.py", "tests/test_prices.py"]


def test_what_takes_too_long_is_left_out_and_reported(tool: ModuleType, tree: Path) -> None:
    found, left = chosen(tool, tree, "src/shop/taxes.py", seconds=2.0)
    assert found == ["tests/deep/test_taxes.py", "tests/test_orders.py"]
    assert left == ["tests/test_prices.py"]


def test_every_module_of_the_project_is_in_the_graph(tool: ModuleType) -> None:
    graph = tool.ImportGraph(ROOT)
    distances = graph.distances(["kubewright.controller.queues.rate_limiters"])
    assert distances["tests.controller.test_rate_limiters"] == 1
    assert distances["tests.manager.test_manager"] > 1
    assert "tests.cel.test_language" not in distances
