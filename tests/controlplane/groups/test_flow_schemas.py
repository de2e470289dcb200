"""Tables of FlowSchemas."""

from __future__ import annotations

from typing import Any

SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"


async def test_rows_are_sorted_by_matching_precedence(api: Any) -> None:
    for name, precedence in (("a", 300), ("b", 100), ("c", 100)):
        level = {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": precedence}
        await api.ok("POST", SCHEMAS, {"metadata": {"name": name}, "spec": level})
    table = await api.ok("GET", SCHEMAS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    names = [row["cells"][0] for row in table["rows"]]
    assert [name for name in names if len(name) == 1] == ["b", "c", "a"]
    assert names[-1] == "catch-all"
    listed = await api.ok("GET", SCHEMAS)
    assert [item["metadata"]["name"] for item in listed["items"]] == sorted(names)
