"""The built front end: its size, its references and its licences."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

from kubewright.dashboard.assets import STATIC

DASHBOARD = Path(__file__).parents[2] / "dashboard"


def _first_load() -> set[Path]:
    """Return the files of the first load: those of index.html, and their static imports."""
    page = (STATIC / "index.html").read_text()
    waiting = {STATIC / name for name in re.findall(r'(?:src|href)="/static/([^"]+)"', page)}
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        found.add(path)
        if path.suffix == ".js":
            imports = re.findall(r'(?:from|import)\s*"(\.{1,2}/[^"]+\.js)"', path.read_text())
            waiting |= {(path.parent / name).resolve() for name in imports} - found
    return found | {STATIC / "index.html"}


def test_the_first_load_is_small() -> None:
    files = _first_load()
    assert STATIC / "app.js" in files
    assert not [path.name for path in files if path.name.startswith(("editor", "terminal"))]
    size = sum(len(gzip.compress(path.read_bytes(), 9)) for path in files)
    assert 50_000 < size < 300_000


def test_the_page_loads_nothing_from_other_hosts_and_has_no_inline_script() -> None:
    page = (STATIC / "index.html").read_text()
    assert re.findall(r"https?:", page) == []
    assert re.findall(r"<script(?![^>]*src=)", page) == []
    assert re.findall(r"<style| style=| on\w+=", page) == []
    styles = (STATIC / "styles.css").read_text()
    assert re.findall(r"url\(|@import", styles) == []


def test_licences_of_all_libraries_are_included() -> None:
    text = (STATIC / "THIRD-PARTY-LICENSES.txt").read_text()
    declared = json.loads((DASHBOARD / "package.json").read_text())["dependencies"]
    assert [name for name in declared if f"\n{name} {declared[name]} (" not in text] == []


def test_the_lock_file_names_no_host() -> None:
    text = (DASHBOARD / "package-lock.json").read_text()
    lock = json.loads(text)
    assert "resolved" not in text
    packages = [each for name, each in lock["packages"].items() if name]
    assert len(packages) > 20
    assert all(each["integrity"].startswith("sha512-") for each in packages)


def test_no_source_inserts_html() -> None:
    pattern = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\("
    )
    found = [path.name for path in (DASHBOARD / "src").rglob("*.ts*") if pattern.search(path.read_text())]
    assert found == []
