"""What is stored of a response: normalised, and reduced as the step declares."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml
from tests.conformance.cases import load_yaml
from tests.conformance.compare import Record
from tests.conformance.http_client import Headers, Response
from tests.conformance.normalise import UID, Normaliser, ResourceVersion
from tests.conformance.paths import locate, lookup


class ResponseFormat:
    """Turns the responses of one run of a case into records."""

    def __init__(self, normaliser: Normaliser, *, managed_fields: bool) -> None:
        """`managed_fields` is the default for steps that do not declare it."""
        self._normaliser = normaliser
        self._managed_fields = managed_fields

    def response(self, step: dict[str, Any], response: Response) -> Record:
        """Status, headers and body of a response."""
        record: Record = {"status": response.status, **self.headers(response.headers)}
        if step.get("any_content_type"):
            record["contentType"] = "{any}"
        for name in step.get("response_headers") or []:
            value = self._normaliser.message(response.headers.get(name, ""))
            record.setdefault("headers", {})[name] = value
        if step.get("layout"):
            record["layout"] = _layout(response.body)
        if not step.get("status_only"):
            record |= self.body(step, response.body, response.content_type)
        return record

    def headers(self, headers: Headers) -> Record:
        """Media type and warnings."""
        warnings = [self._normaliser.message(text) for text in headers.getall("Warning", [])]
        return {"contentType": headers.get("Content-Type", ""), "warnings": warnings}

    def body(self, step: dict[str, Any], body: bytes, content_type: str) -> Record:
        """A document as `body`, anything else as `text`."""
        document = None
        try:
            if "json" in content_type or body[:1] == b"{":
                document = json.loads(body)
            elif "yaml" in content_type:
                document = load_yaml(body.decode())
        except (ValueError, yaml.YAMLError):
            pass
        if document is not None:
            return {"body": self.shape(step, document)}
        if "protobuf" in content_type:
            return {"text": "{protobuf}" if body[:4] == b"k8s\x00" else "{not protobuf}"}
        return {"text": self._normaliser.message(body.decode("utf-8", "replace"))}

    def event(self, step: dict[str, Any], event: dict[str, Any]) -> Record:
        """A watch event."""
        body = event.get("object")
        if event.get("type") == "BOOKMARK" and isinstance(body, dict):
            body.setdefault("metadata", {})["resourceVersion"] = "{listrv}"
        return {"type": event.get("type"), "object": self.shape(step, body)}

    def shape(self, step: dict[str, Any], document: Any) -> Any:
        """Normalise a document, then apply `pick`, `mask`, `types` and `unordered`."""
        text = self._normaliser.text
        document = self._normaliser.value(
            document, managed_fields=bool(step.get("managedFields", self._managed_fields))
        )
        is_failure = (
            isinstance(document, dict)
            and document.get("kind") == "Status"
            and document.get("status") == "Failure"
        )
        if "ages" in step:
            _replace_ages(document, {"Age", *step["ages"]})
        pick = step.get("pick")
        if pick and not is_failure:
            if not isinstance(pick, dict):
                pick = {path: path for path in ([pick] if isinstance(pick, str) else pick)}
            document = {text(name): lookup(document, text(path)) for name, path in pick.items()}
        for path in step.get("mask") or []:
            for container, key, value in locate(document, text(path)):
                if container is not None and value not in (None, "", [], {}):
                    container[key] = "{masked}"
        for path in step.get("types") or []:
            for container, key, value in locate(document, text(path)):
                if container is not None:
                    container[key] = _type_name(value)
        for path in step.get("unordered") or []:
            for _, _, value in locate(document, text(path)):
                if isinstance(value, list):
                    value.sort(key=lambda item: json.dumps(item, sort_keys=True))
        return document


def _replace_ages(document: Any, columns: set[str]) -> None:
    """Replace durations in the cells of these table columns by `{age}`."""
    if not isinstance(document, dict) or document.get("kind") != "Table":
        return
    names = [column.get("name") for column in document.get("columnDefinitions") or []]
    for row in document.get("rows") or []:
        for index, name in enumerate(names):
            if name in columns and re.fullmatch(r"(\d+[smhdy])+", str(row["cells"][index])):
                row["cells"][index] = "{age}"


def _layout(body: bytes) -> str:
    """Line breaks of a body: `compact, 1 final newline`."""
    content = body.rstrip(b"\n")
    newlines = len(body) - len(content)
    style = "indented" if b"\n" in content else "compact"
    return f"{style}, {newlines} final newline{'' if newlines == 1 else 's'}"


def _type_name(value: Any) -> str:
    if isinstance(value, UID):
        return "{UID}"
    return "{RV}" if isinstance(value, ResourceVersion) else f"{{{type(value).__name__}}}"
