"""The diagram of docs/architecture.md draws the imports between packages that exist, and no others."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import grimp

PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"


def drawn_edges() -> set[tuple[str, str]]:
    match = re.search(r"```mermaid\nflowchart TB\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert match is not None
    edges = set()
    for line in match[1].splitlines():
        groups = [[name.strip() for name in group.split("&")] for group in line.split("-->")]
        for importers, imported in pairwise(groups):
            edges |= {(importer, name) for importer in importers for name in imported}
    return edges


def reachable(start: str, edges: set[tuple[str, str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        package = waiting.pop()
        following = {imported for importer, imported in edges if importer == package} - found
        found |= following
        waiting.extend(following)
    return found


def test_diagram_shows_the_imports_between_packages() -> None:
    graph = grimp.build_graph("kubewright")
    packages = {name for name in graph.find_children("kubewright") if graph.find_children(name)}
    existing = {
        (importer.removeprefix("kubewright."), imported.removeprefix("kubewright."))
        for importer in packages
        for imported in packages
        if importer != imported
        and graph.direct_import_exists(importer=importer, imported=imported, as_packages=True)
    }
    drawn = drawn_edges()
    assert drawn - existing == set()
    assert {edge for edge in existing if edge[1] not in reachable(edge[0], drawn)} == set()
