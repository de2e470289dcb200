"""Print the test files that a change can affect, nearest first, for `make quick`.

    python tools/affected_tests.py [--base REV] [--seconds 90]

A change is what differs from a revision (default: the last commit), with files that git does not track yet.
Imports of `src`, `tests`, `examples`, `bench` and `tools` are read from the source; a name that a package
exports lazily (`__init__.pyi`) is an import of the module that defines it. A test file is as far from the
change as the shortest path of imports between them. Files are printed until the given number of seconds is
used up by the durations of their last runs, which `tests/conftest.py` records; how many were left out is
reported on stderr, because `make test` still has to run them.

A file that is not Python counts as a change of the package that contains it. Tests that read documentation
and project files do not import them: they are those directly below `tests/`.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ("src", "tests", "examples", "bench", "tools")
DURATIONS = ROOT / ".pytest_cache" / "v" / "kubewright" / "durations"
DEFAULT_SECONDS = 1.0
"""Assumed duration of a test file that was never run here."""


def module_name(path: Path) -> str:
    """Return the name by which a file is imported."""
    parts = path.with_suffix("").parts
    parts = parts[1:] if parts[0] == "src" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read_modules(root: Path) -> dict[str, Path]:
    """Return the files of all modules by name, relative to the root."""
    found = (path.relative_to(root) for place in SOURCES for path in (root / place).rglob("*.py"))
    return {module_name(path): path for path in found if "__pycache__" not in path.parts}


def _absolute(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    """Return the name of the module that `from ... import` names."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    parts = parts[: len(parts) - node.level + is_package]
    return ".".join([*parts, *([node.module] if node.module else [])])


def imported_names(source: str, module: str, is_package: bool) -> Iterator[tuple[str, str]]:
    """Return the modules that a file imports, with the imported name (empty for `import x`)."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = _absolute(node, module, is_package)
            yield from ((home, alias.name) for alias in node.names)


class ImportGraph:
    """Which modules import a module."""

    def __init__(self, root: Path) -> None:
        self.modules = read_modules(root)
        self._exports: dict[str, dict[str, str]] = {}
        for name, path in self.modules.items():
            stub = root / path.with_suffix(".pyi")
            if path.name == "__init__.py" and stub.exists():
                pairs = imported_names(stub.read_text(), name, True)
                self._exports[name] = {alias: home for home, alias in pairs}
        self.importers: dict[str, set[str]] = {name: set() for name in self.modules}
        for name, path in self.modules.items():
            for home, alias in imported_names((root / path).read_text(), name, path.name == "__init__.py"):
                target = self.resolve(home, alias)
                if target is not None and target != name:
                    self.importers[target].add(name)

    def resolve(self, home: str, alias: str) -> str | None:
        """Return the module that an import loads, other than the packages that contain it."""
        if alias and f"{home}.{alias}" in self.modules:
            return f"{home}.{alias}"
        exported = self._exports.get(home, {}).get(alias)
        if exported is not None and exported != home:
            return self.resolve(exported, alias)
        while home and home not in self.modules:  # `import a.b.c` of a name in a module
            home = home.rpartition(".")[0]
        return home or None

    def distances(self, changed: Iterable[str]) -> dict[str, int]:
        """Return the number of imports between each module that is affected and the change."""
        found = dict.fromkeys(changed, 0)
        waiting = deque(found)
        while waiting:
            module = waiting.popleft()
            for importer in self.importers.get(module, ()):
                if importer not in found:
                    found[importer] = found[module] + 1
                    waiting.append(importer)
        return found


def changed_files(base: str) -> list[Path]:
    """Return the files that differ from a revision, relative to the root."""

    def git(*arguments: str) -> list[str]:
        command = ["git", "-C", str(ROOT), *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise SystemExit(f"Error: {result.stderr.strip()}")
        return result.stdout.splitlines()

    names = git("diff", "--name-only", base) + git("ls-files", "--others", "--exclude-standard")
    return [Path(name) for name in dict.fromkeys(names)]


def changed_modules(files: Iterable[Path], modules: Mapping[str, Path]) -> set[str]:
    """Return the modules of changed files; any other file belongs to the package above it."""
    by_path = {path: name for name, path in modules.items()}
    found = set()
    for file in files:
        places = (file, *(parent / "__init__.py" for parent in file.parents))
        found |= set([by_path[place] for place in places if place in by_path][:1])
    return found


def select(
    graph: ImportGraph, files: Iterable[Path], durations: Mapping[str, float], seconds: float
) -> tuple[list[str], list[str]]:
    """Return the test files to run, nearest first, and those for which the time does not suffice."""
    files = list(files)
    changed = changed_modules(files, graph.modules)
    packages = {module.split(".")[1] for module in changed if module.startswith("kubewright.")}
    reads_files = any(file.suffix != ".py" for file in files)
    candidates = []
    distances = graph.distances(changed)
    for name, path in graph.modules.items():
        if not path.name.startswith("test_"):
            continue
        distance = distances.get(name)
        if reads_files and path.parent == Path("tests"):
            distance = 0
        if distance is not None:
            candidates.append((distance, path.parts[1] not in packages, str(path)))
    chosen: list[str] = []
    left: list[str] = []
    for _, _, path_ in sorted(candidates):
        cost = durations.get(path_, DEFAULT_SECONDS)
        if cost <= seconds or not chosen:
            seconds -= cost
            chosen.append(path_)
        else:
            left.append(path_)
    return chosen, left


def main() -> None:
    """Print the affected test files."""
    parser = argparse.ArgumentParser(description="Print the test files that a change can affect.")
    parser.add_argument("--base", default="HEAD", help="what the working tree is compared with")
    parser.add_argument("--seconds", type=float, default=90.0, help="sum of the durations to select")
    arguments = parser.parse_args()
    durations = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    files = changed_files(arguments.base)
    chosen, left = select(ImportGraph(ROOT), files, durations, arguments.seconds)
    print("\n".join(chosen))
    note = f"{len(files)} changed files: {len(chosen)} test files selected"
    print(f"{note}, {len(left)} more for `make test`" if left else note, file=sys.stderr)


if __name__ == "__main__":
    main()
