"""The navigation of the documentation: every page is in it, and no section is too long to read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
LONGEST_SECTION = 10


class _Loader(yaml.SafeLoader):
    """A safe loader that reads the `!!python/name` of mkdocs.yml as text."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/name:", lambda loader, suffix, node: suffix)


def _navigation() -> list[dict[str, Any]]:
    return yaml.load((ROOT / "mkdocs.yml").read_text(), _Loader)["nav"]


def _sections(entries: list[dict[str, Any]], title: str = "") -> Iterator[tuple[str, list[dict[str, Any]]]]:
    yield title, entries
    for entry in entries:
        for name, value in entry.items():
            if isinstance(value, list):
                yield from _sections(value, f"{title} > {name}")


def test_every_page_is_in_the_navigation_once() -> None:
    pages = [
        value
        for _, entries in _sections(_navigation())
        for entry in entries
        for value in entry.values()
        if isinstance(value, str)
    ]

    docs = ROOT / "docs"
    assert sorted(pages) == sorted(str(path.relative_to(docs)) for path in docs.rglob("*.md"))


def test_sections_are_short() -> None:
    too_long = {
        title: len(entries) for title, entries in _sections(_navigation()) if len(entries) > LONGEST_SECTION
    }

    assert not too_long, f"sections with more than {LONGEST_SECTION} entries: {too_long}"
