"""The last failure and the last success of each object survive any amount of other traffic."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.encoding.codec import encode
from kubewright.dashboard import TraceStore
from kubewright.dashboard.operators.object_evidence import ObjectEvidence


def span(number: int, name: str, *, error: str = "", retry: float | None = None) -> dict[str, Any]:
    return {
        "id": str(number),
        "controller": "shop",
        "group": "example.com",
        "version": "v1",
        "kind": "Shop",
        "namespace": "default",
        "name": name,
        "request": f"default/{name}",
        "queued": number * 1000.0,
        "started": number * 1000.0,
        "ended": number * 1000.0 + 1,
        "causes": [],
        "reads": [],
        "writes": [],
        "result": "error" if error else "success",
        "requeueAfter": retry,
        "error": error,
        "traceback": "",
        "events": [],
    }


def test_healthy_traffic_does_not_displace_a_failure() -> None:
    store = TraceStore()
    store.add("reconcile", span(1, "broken", error="no connection", retry=900.0))
    for number in range(2, 3000):
        store.add("reconcile", span(number, f"busy-{number % 7}"))
    failed = store.reconciles(errors=True)["spans"]
    assert [each["id"] for each in failed] == ["1"]
    of_object = store.reconciles(kind="Shop", namespace="default", name="broken")
    assert [each["error"] for each in of_object["spans"]] == ["no connection"]
    (known,) = of_object["objects"]
    assert (known["failing"], known["failuresInRow"], known["reconciles"]) == (True, 1, 1)
    assert known["nextRetry"] == 1001.0 + 900_000
    assert known["lastSuccess"] is None
    everything = store.reconciles(limit=10)
    assert "1" in [each["id"] for each in everything["spans"]]
    assert everything["objects"][0]["name"] == "broken"
    # Responses say from when on they are complete.
    assert everything["completeSince"] == 2499_000.0
    assert everything["since"] is not None


def test_objects_count_as_failed_after_two_failures_in_a_row() -> None:
    reported: list[tuple[str, str]] = []
    evidence = ObjectEvidence()
    evidence.add_listener(lambda key, error: reported.append((key.name, error)))

    def add(each: dict[str, Any]) -> None:
        evidence.add(each, encode(each))

    add(span(1, "a", error="conflict"))
    add(span(2, "a"))
    assert reported == []
    add(span(3, "a", error="first"))
    add(span(4, "a", error="second"))
    add(span(5, "a", error="second"))
    add(span(6, "a"))
    add({**span(7, "a", error="never"), "result": "terminal"})
    assert reported == [("a", "second"), ("a", ""), ("a", "never")]


@given(st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=60), st.integers(2, 6))
def test_evidence_is_bounded_by_objects_and_forgets_healthy_ones_first(
    steps: list[tuple[int, bool]], limit: int
) -> None:
    evidence = ObjectEvidence(max_objects=limit)
    last: dict[str, bool] = {}
    for number, (name, fails) in enumerate(steps):
        each = span(number, f"o{name}", error="broken" if fails else "")
        evidence.add(each, encode(each))
        last[f"o{name}"] = fails
        assert len(evidence) <= limit
    failing = {each["name"] for each in evidence.failing()}
    assert failing <= {name for name, fails in last.items() if fails}
    known = evidence.summaries(lambda key: True, 100)
    if len(failing) < limit and any(fails for fails in last.values()):
        assert {name for name, fails in last.items() if fails} - failing == set() or evidence.forgotten > 0
    # A healthy object is kept only if every failing one that is known has a place.
    assert [each["failing"] for each in known] == sorted((each["failing"] for each in known), reverse=True)
    assert len(known) == min(limit, len(last)) or evidence.forgotten > 0
