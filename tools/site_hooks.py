"""Hooks of the documentation build: diagrams, search without network, and `llms.txt`.

The search of the theme runs in a web worker, which browsers do not start for pages from disk. There its work
is done in a frame by a small script, so `file:///.../site/index.html` has the same search as a web server.
`llms.txt` lists all pages with what they are about, in the order of the navigation, for assistants;
`llms-full.txt` contains the text of the pages.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

SUMMARY = re.compile(r"\A# (?P<title>[^\n]+)\n+(?P<text>(?:(?![#`|!<=])[^\n]+\n)+)", re.MULTILINE)
sys.path.insert(0, str(Path(__file__).parent))
diagrams = importlib.import_module("diagrams")


def on_config(config: Any) -> Any:
    """Draw diagrams, and use the worker of this repository where the plug-in `offline` would fetch one."""
    fences = [{"name": "mermaid", "class": "diagram", "format": diagrams.fence}]
    config.mdx_configs["pymdownx.superfences"] = {"custom_fences": fences}
    polyfills = [each for each in config.extra.get("polyfills", []) if "iframe-worker" not in each]
    config.extra["polyfills"] = [*polyfills, "assets/frame-worker.js?iframe-worker"]
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Keep the source of each page for `llms-full.txt`."""
    page.meta["source"] = markdown
    return markdown


def on_post_build(config: Any) -> None:
    """Write `llms.txt` and `llms-full.txt`."""
    site = Path(config.site_dir)
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    full = []
    for page in _pages:
        source = page.meta.get("source", "")
        found = SUMMARY.match(source)
        summary = " ".join(found["text"].split()) if found else ""
        summary = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", summary)
        lines.append(f"- [{page.title}]({page.url}): {summary}".rstrip(": "))
        if not page.url.startswith("reference/"):
            full.append(source.strip())
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (site / "llms-full.txt").write_text("\n\n".join(full) + "\n", encoding="utf-8")


_pages: list[Any] = []


def on_nav(nav: Any, config: Any, files: Any) -> Any:
    """Remember the order of the pages."""
    _pages[:] = nav.pages
    return nav
