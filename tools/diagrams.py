"""Diagrams of the documentation: mermaid sources in the pages, rendered to SVG files in `docs/diagrams`.

    python tools/diagrams.py            # renders diagrams that are missing, removes those that are not used
    python tools/diagrams.py --check    # fails if that would change something

The site is built without network, browser and Node.js: `fence` puts the SVG of a diagram into the page, where
the colours of the theme apply to it. Files are named after a hash of the source, so a changed diagram that
was not rendered again is an error of `make docs` and of the tests. Rendering needs Chromium and
`mermaid.min.js` of the npm package mermaid (`MERMAID=path`, or it is installed into a temporary directory
with npm).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DIAGRAMS = ROOT / "docs" / "diagrams"
MERMAID = "mermaid@11.17.2"
FENCE = re.compile(r"^( *)```mermaid\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
COLOURS = {
    "#010101": "var(--diagram-text)",
    "#020202": "var(--diagram-line)",
    "#030303": "var(--diagram-fill)",
    "#040404": "var(--diagram-group)",
    "#050505": "var(--diagram-page)",
}
"""Colours that mermaid draws with, and the variables of the style sheet that replace them."""
SETTINGS = {
    "startOnLoad": False,
    "theme": "base",
    "htmlLabels": False,
    "flowchart": {"htmlLabels": False, "curve": "basis"},
    "fontFamily": "system-ui, sans-serif",
    "themeVariables": {
        "fontSize": "14px",
        **dict.fromkeys(
            (
                "primaryTextColor",
                "secondaryTextColor",
                "tertiaryTextColor",
                "textColor",
                "nodeTextColor",
                "titleColor",
                "actorTextColor",
                "signalTextColor",
                "labelTextColor",
                "loopTextColor",
                "noteTextColor",
                "classText",
                "transitionLabelColor",
                "stateLabelColor",
            ),
            "#010101",
        ),
        **dict.fromkeys(
            (
                "lineColor",
                "primaryBorderColor",
                "secondaryBorderColor",
                "tertiaryBorderColor",
                "clusterBorder",
                "actorBorder",
                "actorLineColor",
                "signalColor",
                "labelBoxBorderColor",
                "noteBorderColor",
                "activationBorderColor",
                "transitionColor",
                "specialStateColor",
                "defaultLinkColor",
                "nodeBorder",
            ),
            "#020202",
        ),
        **dict.fromkeys(
            ("primaryColor", "mainBkg", "actorBkg", "labelBoxBkgColor", "activationBkgColor", "stateBkg"),
            "#030303",
        ),
        **dict.fromkeys(
            ("secondaryColor", "tertiaryColor", "clusterBkg", "noteBkgColor", "altBackground"), "#040404"
        ),
        **dict.fromkeys(
            ("background", "edgeLabelBackground", "labelBackground", "labelBackgroundColor"), "#050505"
        ),
    },
}


def name_of(source: str) -> str:
    """Return the name of the file of a diagram."""
    return hashlib.sha256(source.strip().encode()).hexdigest()[:16]


def sources() -> dict[str, str]:
    """Return the diagrams of all pages by name."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    found = {}
    for page in pages:
        for fence in FENCE.finditer(page.read_text(encoding="utf-8")):
            source = re.sub(rf"^{fence[1]}", "", fence[2], flags=re.MULTILINE)
            found[name_of(source)] = source
    return found


def fence(source: str, language: str, css_class: str, options: Any, md: Any, **kwargs: Any) -> str:
    """Return the HTML of a diagram; the formatter of mermaid blocks in `mkdocs.yml`."""
    path = DIAGRAMS / f"{name_of(source)}.svg"
    if not path.is_file():
        first = source.strip().splitlines()[0]
        raise FileNotFoundError(f"the diagram {first!r} is not rendered; run python tools/diagrams.py")
    return f'<div class="diagram" role="img" aria-label="Diagram">{path.read_text(encoding="utf-8")}</div>'


def adapt(svg: str, name: str) -> str:
    """Return an SVG whose colours are those of the page, and whose identifiers are unique in it."""
    for colour, variable in COLOURS.items():
        red = int(colour[1:3], 16)
        svg = re.sub(rf"{colour}\b|rgb\({red}, ?{red}, ?{red}\)", variable, svg, flags=re.IGNORECASE)
    return svg.replace("<br>", "<br/>").strip() + "\n"


def render(diagrams: dict[str, str], mermaid: Path) -> dict[str, str]:
    """Return the SVG of each diagram, drawn by Chromium without network."""
    from playwright.sync_api import Error, sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_content("<html><body></body></html>")
        page.add_script_tag(path=str(mermaid))
        page.evaluate("settings => mermaid.initialize(settings)", SETTINGS)
        drawn = {}
        for name, source in diagrams.items():
            try:
                found = page.evaluate(
                    "([id, text]) => mermaid.render(id, text).then(({svg}) => svg)", [f"d{name}", source]
                )
            except Error as error:
                raise SystemExit(
                    f"Error: cannot draw this diagram: {error.message[:300]}\n{source}"
                ) from None
            drawn[name] = adapt(found, name)
        browser.close()
    return drawn


def install_mermaid(directory: Path) -> Path:
    """Install mermaid with npm and return its script."""
    subprocess.run(
        [
            "npm",
            "install",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--prefix",
            str(directory),
            MERMAID,
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return directory / "node_modules/mermaid/dist/mermaid.min.js"


def main() -> int:
    """Render missing diagrams."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail if a diagram is missing or unused"
    )
    parser.add_argument("--all", action="store_true", help="render all diagrams again")
    arguments = parser.parse_args()
    wanted = sources()
    existing = {path.stem for path in DIAGRAMS.glob("*.svg")}
    missing = {name: text for name, text in wanted.items() if arguments.all or name not in existing}
    unused = existing - wanted.keys()
    if arguments.check:
        for name in missing:
            print(f"not rendered: {wanted[name].splitlines()[0]} ({name})")
        for name in sorted(unused):
            print(f"not used: docs/diagrams/{name}.svg")
        if missing or unused:
            print("Error: run python tools/diagrams.py", file=sys.stderr)
        return bool(missing or unused)
    if missing:
        with tempfile.TemporaryDirectory() as directory:
            script = os.environ.get("MERMAID")
            for name, svg in render(
                missing, Path(script) if script else install_mermaid(Path(directory))
            ).items():
                (DIAGRAMS / f"{name}.svg").write_text(svg, encoding="utf-8")
                print(f"wrote docs/diagrams/{name}.svg")
    for name in sorted(unused):
        (DIAGRAMS / f"{name}.svg").unlink()
        print(f"removed docs/diagrams/{name}.svg")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
