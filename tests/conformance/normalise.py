"""Normalisation: replace what differs from run to run by placeholders.

| placeholder | replaces |
|---|---|
| `{id}` | the identity of the case in names |
| `{rvN}` | a resourceVersion; compared by order |
| `{uidN}` | a uid; compared by identity |
| `{listrv}`, `{continue}`, `{token}` | version of a list or bookmark, continue token, bearer token |
| `{time}`, `{microtime}` | a time within two days of now |
| `{randomN}` | N random characters of a generated name |
| `{me}`, `{ca}`, `{port}` | the user of the kubeconfig, the webhook CA, a port |
| `{rv}`, `{uid}` | the same inside a message |
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

UID_PATTERN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)")
_VERSION_IN_MESSAGE = re.compile(
    r"(?i)(resource ?version\W{0,3}(?:in [a-z ]+)?\W{0,3})(?!0\b)\d+(?: \(\d+\))?(, current: \d+)?"
)
_PORT = re.compile(r"\b(127\.0\.0\.1|localhost):\d+")
_RECENT = timedelta(days=2)
_RECORDED_USER = "admin"
"""The user name of the kubeconfig in recordings, whatever it is on the server of a run."""
_MANAGED_FIELDS_ORDER = ("operation", "manager", "subresource", "apiVersion")


class ResourceVersion(str):
    """A resourceVersion of a response, before it is numbered."""

    __slots__ = ()


class UID(str):
    """A uid of a response, before it is numbered."""

    __slots__ = ()


class Normaliser:
    """Replaces the identity of one run of a case in its responses."""

    def __init__(self, case_id: str, user: str | None = None, now: datetime | None = None) -> None:
        """`user` is the name of the kubeconfig's user, if it is known."""
        self._literals = [(case_id, "{id}")]
        self._user = user
        self._now = now or datetime.now(UTC)

    def add_literal(self, value: str, placeholder: str) -> None:
        """Replace this value from now on; longer values are replaced first."""
        if value and all(known != value for known, _ in self._literals):
            self._literals.append((value, placeholder))
            self._literals.sort(key=lambda literal: -len(literal[0]))

    def text(self, text: str) -> str:
        """Replace names, times and ports."""
        for value, placeholder in self._literals:
            if value in text:
                text = text.replace(value, placeholder)
        if "T" in text:
            text = _TIMESTAMP.sub(self._time, text)
        if ":" in text:
            text = _PORT.sub(r"\1:{port}", text)
        return text

    def message(self, text: str) -> str:
        """Replace uids and resource versions inside a text as well."""
        return _VERSION_IN_MESSAGE.sub(r"\1{rv}", UID_PATTERN.sub("{uid}", self.text(text)))

    def value(self, value: Any, *, managed_fields: bool = False, list_metadata: bool = False) -> Any:
        """Normalise a JSON document."""
        if isinstance(value, str):
            return UID(value) if UID_PATTERN.fullmatch(value) else self.message(value)
        if isinstance(value, list):
            return [self.value(item, managed_fields=managed_fields) for item in value]
        if isinstance(value, dict):
            return self._object(value, managed_fields, list_metadata)
        return value

    def _time(self, match: re.Match[str]) -> str:
        try:
            time = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
        except ValueError:
            return match[0]
        if abs(time - self._now) > _RECENT:
            return match[0]
        return "{microtime}" if match[2] else "{time}"

    def _object(self, value: dict[str, Any], managed_fields: bool, list_metadata: bool) -> dict[str, Any]:
        kind = str(value.get("kind", ""))
        is_list = (kind.endswith("List") and "items" in value) or kind == "Table"
        result: dict[str, Any] = {}
        for key, item in value.items():
            if key == "managedFields" and isinstance(item, list):
                if not managed_fields:
                    continue
                item = sorted(item, key=_managed_fields_key)
            result[self.text(key)] = self._field(key, item, managed_fields, list_metadata, is_list)
        if result.get("kind") == "Status" and isinstance(result.get("details"), dict):
            causes = result["details"].get("causes")
            if isinstance(causes, list):
                causes.sort(key=lambda cause: json.dumps(cause, sort_keys=True))
        return result

    def _field(self, key: str, item: Any, managed_fields: bool, list_metadata: bool, is_list: bool) -> Any:
        if isinstance(item, str):
            if key == "resourceVersion" and item.isdigit() and item != "0":
                return "{listrv}" if list_metadata else ResourceVersion(item)
            if key == "continue" and item:
                return "{continue}"
            if key == "token" and len(item) > 100:
                return "{token}"
            if key == "username" and item == self._user:
                return _RECORDED_USER
        elif key == "userInfo" and isinstance(item, dict) and self._user in (None, item.get("username")):
            return "{me}"
        elif key == "verbs" and isinstance(item, list):
            return sorted(item, key=str)
        elif key == "cells" and isinstance(item, list) and self._user:
            item = [_RECORDED_USER if cell == self._user else cell for cell in item]
        return self.value(item, managed_fields=managed_fields, list_metadata=is_list and key == "metadata")


def _managed_fields_key(entry: Any) -> tuple[str, ...]:
    return tuple(str(entry.get(field, "")) for field in _MANAGED_FIELDS_ORDER) if entry else ()


def number_identities(records: Any) -> Any:
    """Replace resource versions by `{rvN}` (N by order) and uids by `{uidN}` (N by first occurrence)."""
    versions: set[int] = set()
    uids: dict[str, int] = {}

    def collect(value: Any) -> None:
        if isinstance(value, ResourceVersion):
            versions.add(int(value))
        elif isinstance(value, UID):
            uids.setdefault(str(value), len(uids) + 1)
        elif isinstance(value, dict):
            for item in value.values():
                collect(item)
        elif isinstance(value, list):
            for item in value:
                collect(item)

    collect(records)
    rank = {version: number for number, version in enumerate(sorted(versions), 1)}

    def replace(value: Any) -> Any:
        if isinstance(value, ResourceVersion):
            return f"{{rv{rank[int(value)]}}}"
        if isinstance(value, UID):
            return f"{{uid{uids[str(value)]}}}"
        if isinstance(value, dict):
            return {key: replace(item) for key, item in value.items()}
        if isinstance(value, list):
            return [replace(item) for item in value]
        return value

    return replace(records)
