"""Packages export what their stubs declare, and import it at first use."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import kubewright

ROOT = Path(kubewright.__file__).parent
STUBS = sorted(ROOT.rglob("__init__.pyi"))
PACKAGES = [".".join(("kubewright", *stub.parent.relative_to(ROOT).parts)) for stub in STUBS]


@pytest.mark.parametrize("package", PACKAGES)
def test_package_exports_the_names_of_its_stub(package: str) -> None:
    module = import_module(package)
    tree = ast.parse(Path(module.__file__ or "").with_suffix(".pyi").read_text())
    declared = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            (alias,) = node.names
            assert alias.asname == alias.name
            declared[alias.name] = "." * node.level + (node.module or "")
    assert module.__all__ == sorted(declared)
    assert set(declared) <= set(dir(module))
    for name, home in declared.items():
        source = import_module(home if home != "." else f".{name}", package)
        assert getattr(module, name) is (getattr(source, name) if home != "." else source)


@pytest.mark.parametrize("package", PACKAGES)
def test_missing_names_are_attribute_errors(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module {package!r} has no attribute 'missing'"):
        _ = import_module(package).missing


def test_star_import_binds_the_exports() -> None:
    names: dict[str, object] = {}
    exec("from kubewright import *", names)
    assert names["Operator"] is kubewright.Operator


def test_import_reads_no_stub_and_no_modules() -> None:
    program = (
        "import sys, kubewright, kubewright.api, kubewright.lazy\n"
        "print(sorted(name for name in sys.modules if name.startswith('kubewright')))\n"
        "print('msgspec' in sys.modules, kubewright.lazy._exports)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (
        done.stdout.strip()
        == "['kubewright', 'kubewright.api', 'kubewright.lazy', 'kubewright.parts']\nFalse {}"
    )
