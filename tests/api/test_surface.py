"""The public face of `kubewright.api`."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import kubewright.api as api


def test_every_name_is_there_and_is_where_types_say() -> None:
    tree = ast.parse(Path(api.__file__).read_text())
    typed = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
    }
    assert sorted(typed) == sorted(api.__all__)
    for name, module in typed.items():
        assert getattr(api, name) is getattr(import_module(f"kubewright.api.{module}"), name)
    assert set(api.__all__) <= set(dir(api))
    assert not hasattr(api, "nope")


def test_importing_it_loads_nothing_heavy() -> None:
    program = (
        "import sys, kubewright.api; print('msgspec' in sys.modules, 'kubewright.api.meta' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_every_public_thing_is_explained() -> None:
    for name in api.__all__:
        value = getattr(api, name)
        if callable(value):
            assert value.__doc__, name
