"""Comparison of a response with the recorded one, at three levels.

L1: status code, `Status.reason`, types of watch events. L2: also media type, number of warnings, structure
and values of the body. L3: also messages, causes, texts of warnings.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from tests.conformance.normalise import UID, ResourceVersion

Record = dict[str, Any]
"""The normalised response to one step: `step`, `request`, `status`, `body`, ..."""

_REVIEW_TEXTS = ("reason", "error", "evaluationError")


class Difference(NamedTuple):
    """One difference; it counts from its level on."""

    level: int
    path: str
    text: str


class Comparer:
    """Compares the steps of one case in order.

    It binds each `{rvN}` and `{uidN}` of the recording to the value that takes its place.
    """

    def __init__(self) -> None:
        self._versions: dict[int, int] = {}
        self._uids: dict[str, str] = {}
        self._placeholders: dict[str, str] = {}
        self._found: list[Difference] = []

    def compare(self, expected: Record, actual: Record) -> list[Difference]:
        """Return the differences of one step."""
        self._found = found = list[Difference]()
        self._compare_head(expected, actual)
        body, actual_body = expected.get("body"), actual.get("body")
        if "text" in expected:
            if expected["text"] != actual.get("text"):
                text = str(actual.get("text", shorten(actual_body)))
                self._add(3 if expected["status"] >= 400 else 2, "text", expected["text"], text)
        elif "body" in expected:
            if "body" not in actual:
                self._add(2, "body", "a document", str(actual.get("text", "nothing"))[:200])
            else:
                self._diff(body, actual_body, "", 2)
        events = zip(expected.get("events", ()), actual.get("events", ()), strict=False)
        for number, (event, actual_event) in enumerate(events):
            wanted, got = event["object"], actual_event["object"]
            if event["type"] == "BOOKMARK":
                wanted, got = _without_versions(wanted), _without_versions(got)
            self._diff(wanted, got, f"event[{number}]", 2)
        return found

    def _add(self, level: int, path: str, expected: Any, actual: Any) -> None:
        self._found.append(Difference(level, path, f"want {shorten(expected)}, got {shorten(actual)}"))

    def _compare_head(self, expected: Record, actual: Record) -> None:
        if actual.get("timeout") and not expected.get("timeout"):
            self._found.append(Difference(1, "wait", "the condition was not met within the timeout"))
        if expected["status"] != actual["status"]:
            self._found.append(
                Difference(1, "status", f"want {expected['status']}, got {actual['status']}{_reason(actual)}")
            )
        body, actual_body = expected.get("body"), actual.get("body")
        if isinstance(body, dict) and body.get("kind") == "Status":
            reason = actual_body.get("reason") if isinstance(actual_body, dict) else None
            if body.get("reason") != reason:
                self._add(1, "reason", body.get("reason"), reason)
        if "events" in expected:
            types = [event["type"] for event in expected["events"]]
            actual_types = [event["type"] for event in actual.get("events", ())]
            if types != actual_types:
                self._add(1, "events", types, actual_types)
        for key in ("closed", "noBookmark", "layout"):
            if expected.get(key) != actual.get(key):
                self._add(2, key, expected.get(key), actual.get(key))
        media = expected.get("contentType")
        if media != "{any}" and _media_type(media) != _media_type(actual.get("contentType")):
            self._add(2, "contentType", media, actual.get("contentType"))
        warnings, actual_warnings = expected.get("warnings", []), actual.get("warnings", [])
        if warnings != actual_warnings:
            self._add(
                2 if len(warnings) != len(actual_warnings) else 3, "warnings", warnings, actual_warnings
            )
        for name, value in expected.get("headers", {}).items():
            actual_value = actual.get("headers", {}).get(name)
            if actual_value != value:
                self._add(2, f"header {name}", value, actual_value)

    def _diff(self, expected: Any, actual: Any, path: str, level: int) -> None:
        if isinstance(expected, str) and isinstance(actual, (ResourceVersion, UID)):
            self._bind(expected, actual, path, level)
        elif isinstance(expected, dict) and isinstance(actual, dict):
            self._diff_objects(expected, actual, path, level)
        elif isinstance(expected, list) and isinstance(actual, list):
            if len(expected) != len(actual):
                text = f"want {len(expected)} items {shorten(expected)}, got {len(actual)} {shorten(actual)}"
                self._found.append(Difference(level, path, text))
            for index, (item, actual_item) in enumerate(zip(expected, actual, strict=False)):
                self._diff(item, actual_item, f"{path}[{index}]", level)
        elif _is_age(expected, path) and _is_age(actual, path):
            return
        elif expected != actual or _json_type(expected) is not _json_type(actual):
            self._add(level, path or "body", expected, actual)

    def _diff_objects(self, expected: Record, actual: Record, path: str, level: int) -> None:
        kind = expected.get("kind")
        is_review = kind == "TokenReview" or str(kind).endswith("AccessReview")
        for key in sorted(expected.keys() | actual.keys()):
            where = f"{path}.{key}" if path else key
            own_level = _level_of(expected, key, level)
            if key not in actual:
                self._found.append(
                    Difference(own_level, where, f"want {shorten(expected[key])}, got nothing")
                )
            elif key not in expected:
                self._found.append(Difference(own_level, where, f"want nothing, got {shorten(actual[key])}"))
            elif key == "details" and kind == "Status":
                self._diff_apart(expected[key], actual[key], where, own_level, ("causes",))
            elif key == "status" and is_review:
                self._diff_apart(expected[key], actual[key], where, own_level, _REVIEW_TEXTS)
            else:
                self._diff(expected[key], actual[key], where, own_level)

    def _diff_apart(self, expected: Any, actual: Any, path: str, level: int, texts: tuple[str, ...]) -> None:
        """Compare two objects of which some keys are text, to be compared at L3 only."""
        if not isinstance(expected, dict) or not isinstance(actual, dict):
            self._diff(expected, actual, path, level)
            return
        for key in texts:
            self._diff(expected.get(key), actual.get(key), f"{path}.{key}", 3)
        rest, actual_rest = (
            {key: value for key, value in each.items() if key not in texts} for each in (expected, actual)
        )
        self._diff(rest, actual_rest, path, level)

    def _bind(self, expected: str, actual: str, path: str, level: int) -> None:
        if isinstance(actual, UID):
            if not re.fullmatch(r"\{uid\d+\}", expected):
                self._add(level, path, expected, "a uid")
            elif self._uids.setdefault(expected, str(actual)) != actual:
                self._add(level, path, f"the uid bound to {expected}", "another uid")
            elif self._placeholders.setdefault(str(actual), expected) != expected:
                self._add(level, path, expected, f"the uid bound to {self._placeholders[str(actual)]}")
            return
        match = re.fullmatch(r"\{rv(\d+)\}", expected)
        if not match:
            self._add(level, path, expected, "a resourceVersion")
            return
        number, version = int(match[1]), int(actual)
        if number in self._versions:
            if self._versions[number] != version:
                self._add(level, path, f"resourceVersion {self._versions[number]}", version)
            return
        for other, bound in self._versions.items():
            if (other < number) != (bound < version) or bound == version:
                relation = "greater" if other < number else "less"
                self._add(level, path, f"a resourceVersion {relation} than {bound}", version)
                return
        self._versions[number] = version


def _without_versions(value: Any) -> Any:
    """Mask versions in a bookmark: they are those of the store, which other cases write too."""
    if isinstance(value, dict):
        return {
            key: "{listrv}" if key == "resourceVersion" else _without_versions(item)
            for key, item in value.items()
        }
    return [_without_versions(item) for item in value] if isinstance(value, list) else value


def _is_age(value: Any, path: str) -> bool:
    """Whether a cell of a table is an age in days or years, which differs from the recorded one."""
    return isinstance(value, str) and _AGE_CELL.search(path) is not None and _AGE.fullmatch(value) is not None


_AGE_CELL = re.compile(r"\.cells\[\d+\]$")
_AGE = re.compile(r"\d+d(\d+h)?|\d+y(\d+d)?")


def _json_type(value: Any) -> type:
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def _level_of(parent: Record, key: str, level: int) -> int:
    """Messages of statuses and conditions, and descriptions of table columns, count at L3 only."""
    if key == "message" and (parent.get("kind") == "Status" or {"type", "status"} <= parent.keys()):
        return 3
    if key == "description" and {"name", "type", "format", "priority"} <= parent.keys():
        return 3
    return level


def _media_type(value: str | None) -> str:
    return re.sub(r"\s*;\s*charset=.*$", "", value or "").lower()


def _reason(actual: Record) -> str:
    body = actual.get("body")
    if isinstance(body, dict) and body.get("kind") == "Status":
        return f" ({body.get('reason')}: {str(body.get('message'))[:160]})"
    return f" ({actual['text'][:100]!r})" if actual.get("text") else ""


def shorten(value: Any, length: int = 160) -> str:
    """JSON of a value, cut to a length."""
    text = json.dumps(value, default=str, sort_keys=True, ensure_ascii=False)
    return text if len(text) <= length else f"{text[: length - 3]}..."
