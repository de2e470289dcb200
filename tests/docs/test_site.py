"""The built site from disk, without network: links, diagrams, search, accessibility, `llms.txt`."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUESTIONS = {
    "how do I run something on a schedule": {"operator.html", "cron.html"},
    "cron": {"cron.html"},
    "limit retries of a failing reconcile": {"queues.html", "troubleshooting.html"},
    "rate limiter": {"queues.html"},
    "secret in environment of a job": {"recipes.html"},
    "change the storage version": {"versions.html"},
    "debugger": {"debugging.html"},
    "kind of an object at run time": {"recipes.html"},
    "which way to write children": {"children.html"},
    "resync": {"queues.html", "cache.html"},
    "test without a cluster": {"testing.html", "book/07-tests.html"},
    "leader election": {"manager.html", "alerts.html", "deploying.html"},
    "finalizer": {"operator.html", "controllers-guide.html", "recipes.html"},
    "conversion webhook": {"versions.html", "webhooks.html", "book/06-versions.html"},
    "compare with kopf": {"comparison.html", "coming-from-kopf.html"},
}
"""Questions of a newcomer, and the pages for them; one of these is among the first three results."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site once; `KUBEWRIGHT_SITE` names one that is built already."""
    if built := os.environ.get("KUBEWRIGHT_SITE"):
        return Path(built)
    pytest.importorskip("material", reason="the docs extra is not installed: pip install 'kubewright[docs]'")
    directory = tmp_path_factory.mktemp("site")
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(directory)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return directory


@pytest.fixture(scope="module")
def page(site: Path) -> Iterator[Any]:
    """A page of Chromium that has no network."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed; install it with `apt-get install chromium`")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_context(offline=True).new_page()
        page.set_default_timeout(60_000)
        failures: list[str] = []
        # A file that is still being read when the next page is opened is aborted.
        page.on("requestfailed", lambda each: each.url.startswith("file:") or failures.append(each.url))
        page.on("pageerror", lambda error: failures.append(str(error)))
        yield page
        browser.close()
        assert failures == [], "the site loads something from the network, or fails"


def anchors(text: str) -> set[str]:
    return {html.unescape(each) for each in re.findall(r'\sid="([^"]*)"', text)}


def test_links_and_anchors_exist(site: Path) -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    assert len(texts) > 60
    names = {path: anchors(text) for path, text in texts.items()}
    broken = []
    for path, text in texts.items():
        if path.name == "404.html":
            continue
        for reference in re.findall(r'\s(?:href|src)="([^"]*)"', text):
            target, fragment = urldefrag(html.unescape(reference))
            if re.match(r"[a-z]+:", target):
                continue
            file = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path
            if not file.is_file():
                broken.append(f"{path.name}: {reference}")
            elif fragment and file in names and unquote(fragment) not in names[file]:
                broken.append(f"{path.name}: {reference} (no such section)")
    assert broken == []


def test_nothing_is_loaded_from_the_network(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r'<(?:script|img|iframe)[^>]*\ssrc="(?:https?:)?//', text), path
        assert not re.search(r'<link[^>]*rel="(?:stylesheet|preload|icon)"[^>]*href="(?:https?:)?//', text), (
            path
        )


def test_diagrams_are_drawn_in_both_themes(site: Path, page: Any) -> None:
    colours = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto(f"{site.as_uri()}/architecture.html")
        box = page.locator(".diagram svg").first.bounding_box()
        assert box is not None
        assert box["width"] > 100
        assert box["height"] > 100
        colours.append(
            page.evaluate("getComputedStyle(document.body).getPropertyValue('--diagram-text').trim()")
        )
    page.emulate_media(color_scheme="light")
    assert colours[0] != colours[1]


def results(page: Any, query: str) -> list[str]:
    """Return the links that the search of the site finds, best first."""
    read = "() => [...document.querySelectorAll('.md-search-result__link')].map(each => each.href)"
    before = page.evaluate(read)
    box = page.locator("[data-md-component=search-query]")
    box.fill(query)
    box.press("End")  # the theme searches when a key is released
    page.wait_for_function(
        f"before => {{ const now = ({read})(); return now.length && '' + now !== before; }}",
        arg=",".join(before),
    )
    found: list[str] = page.evaluate(read)
    return found


def test_search_finds_the_pages_for_newcomers(site: Path, page: Any) -> None:
    page.goto(f"{site.as_uri()}/index.html")
    page.wait_for_function("document.querySelector('[data-md-component=search-query]') !== null")
    prefix = f"{site.as_uri()}/"
    wrong = {}
    for question, wanted in QUESTIONS.items():
        found = [
            each.removeprefix(prefix).partition("?")[0].partition("#")[0] for each in results(page, question)
        ]
        first = list(dict.fromkeys(found))[:3]
        if not wanted & set(first):
            wrong[question] = first
    assert wrong == {}


def test_pages_have_no_serious_accessibility_findings(site: Path, page: Any) -> None:
    script = os.environ.get("AXE")
    if not script:
        pytest.skip("AXE does not name axe.min.js of the npm package axe-core")
    serious = []
    for name in (
        "index.html",
        "ten-minutes.html",
        "architecture.html",
        "options.html",
        "reference/client.html",
    ):
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.goto(f"{site.as_uri()}/{name}")
            page.add_script_tag(path=script)
            found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            serious += [
                f"{name} ({scheme}): {each['id']}: {each['nodes'][0]['html'][:150]}"
                for each in found["violations"]
                if each["impact"] in ("serious", "critical")
            ]
    page.emulate_media(color_scheme="light")
    assert serious == []


def test_llms_txt_lists_every_page(site: Path) -> None:
    listed = re.findall(
        r"^- \[.+?\]\((\S+?)\)", (site / "llms.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(listed) > 80
    assert all((site / each).is_file() for each in listed)
    assert "# Build an operator in ten minutes" in (site / "llms-full.txt").read_text(encoding="utf-8")


def test_search_index_is_complete(site: Path) -> None:
    index = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    pages = {each["location"].partition("#")[0] for each in index["docs"]}
    assert {"index.html", "operator.html", "reference/client.html"} <= pages
