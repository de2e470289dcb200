"""Objects that are nested too deeply are rejected."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from kubewright.patch import FieldManager, MalformedPatch, json_patch, merge_patch, strategic_merge_patch

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def nested(levels: int, bottom: Any) -> dict[str, Any]:
    value = bottom
    for _ in range(levels):
        value = {"a": value}
    return {"apiVersion": "v1", "kind": "Deep", "metadata": {"name": "d"}, "spec": value}


DEEP = nested(50_000, 1)
OTHER = nested(50_000, 2)
MANAGER = FieldManager("v1", "Deep", None)


@pytest.mark.parametrize(
    "run",
    [
        lambda: merge_patch.apply(DEEP, OTHER),
        lambda: strategic_merge_patch.apply(DEEP, OTHER, None),
        lambda: json_patch.apply(DEEP, [{"op": "test", "path": "/spec", "value": OTHER["spec"]}]),
        lambda: MANAGER.apply(DEEP, OTHER, "one", NOW),
    ],
)
def test_deep_patches_are_rejected(run: Callable[[], Any]) -> None:
    with pytest.raises(MalformedPatch, match="nested too deeply"):
        run()


def test_deep_updates_keep_managed_fields() -> None:
    live = MANAGER.update(None, nested(3, 1), "creator", NOW)
    deep = {**OTHER, "metadata": live["metadata"]}
    assert MANAGER.update(live, deep, "x", NOW)["metadata"] == live["metadata"]


def test_long_json_patch_paths() -> None:
    patch = [{"op": "replace", "path": "/spec" + "/a" * 50_000, "value": 2}]
    result: Any = json_patch.apply(DEEP, patch)["spec"]
    for _ in range(50_000):
        result = result["a"]
    assert result == 2
