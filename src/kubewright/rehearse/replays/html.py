"""A replay as one HTML page with a time slider: no external files.

The page has the document of `moments` as JSON, and a script that shows the objects, the queues and the causes
at the selected moment. It only sets texts, never HTML: names and values come from a cluster.
"""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from typing import Any


def html_of(document: dict[str, Any]) -> str:
    """Return the page of a document."""
    # `<` within a script could end it.
    data = json.dumps(document).replace("<", "\\u003c")
    folder = files(__package__)
    style = (folder / "replay.css").read_text(encoding="utf-8")
    script = (folder / "replay.js").read_text(encoding="utf-8")
    title = escape(f"Replay of {document['operator']}")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{title}</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{style}</style></head><body>"
        f'<header><h1>{title}</h1><p id="summary"></p><ul id="violations"></ul></header>'
        '<nav><button id="back" aria-label="Step back">&#9664;</button>'
        '<input id="slider" type="range" min="-1" value="-1" aria-label="Moment">'
        '<button id="forward" aria-label="Step forward">&#9654;</button><output id="time"></output></nav>'
        '<main><section id="moments" aria-label="Moments"></section>'
        '<section id="objects" aria-label="Objects"></section>'
        '<section id="details" aria-label="Details"></section></main>'
        f'<script type="application/json" id="data">{data}</script><script>{script}</script></body></html>\n'
    )
