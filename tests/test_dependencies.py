"""What the package imports is what it declares: no more, and no less."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
TYPE_CHECKERS = ("_typeshed", "typing_extensions")
"""Modules that every type checker has; imported under `TYPE_CHECKING` only."""
LATER_STANDARD_LIBRARY = ("annotationlib",)
"""Modules of the standard library that the oldest supported Python does not have."""
MODULES = {
    "PyYAML": "yaml",
    "google-re2": "re2",
    "PyJWT": "jwt",
    "prometheus-client": "prometheus_client",
    "PyNaCl": "nacl",
    "dnspython": "dns",
    "grpcio": "grpc",
    "opentelemetry-api": "opentelemetry",
    "pytest-asyncio": "pytest_asyncio",
}


def _modules(requirements: list[str]) -> set[str]:
    names = [re.match(r"[A-Za-z0-9._-]+", each) for each in requirements]
    return {MODULES.get(name[0], name[0]) for name in names if name is not None}


def _imported() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for name in names:
                top = name.partition(".")[0]
                beside = path.with_name(f"{top}.py")
                if beside != path and beside.exists():
                    continue  # a program that is started by its path, and imports the modules beside it
                if top not in {
                    *sys.stdlib_module_names,
                    "kubewright",
                    *TYPE_CHECKERS,
                    *LATER_STANDARD_LIBRARY,
                }:
                    found.setdefault(top, set()).add(str(path.relative_to(ROOT)))
    return found


def test_imports_are_declared_and_declarations_are_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    used = [
        each
        for name in ("dns", "encryption", "etcd", "http2", "node", "postgresql", "tracing", "testing")
        for each in extras[name]
    ]
    declared = _modules([*project["dependencies"], *used])
    imported = _imported()
    assert {name: imported[name] for name in imported.keys() - declared} == {}
    assert declared - imported.keys() == set()


def test_what_is_optional_is_imported_in_few_places() -> None:
    """Elsewhere a missing extra would break those who do not want it."""
    imported = _imported()
    assert imported["aetcd"] == {"src/kubewright/storage/etcd/connection.py"}
    assert imported["grpc"] - imported["aetcd"] == {
        "src/kubewright/apiserver/tracing/otlp.py",
        "src/kubewright/node/rpc.py",
    }
    assert imported["nacl"] == {"src/kubewright/controlplane/encryption/providers.py"}
    assert imported["h2"] | imported["hpack"] | imported["hyperframe"] == {
        "src/kubewright/apiserver/http/http2.py",
        "src/kubewright/apiserver/http/http2_stream.py",
    }
