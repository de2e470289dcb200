"""Deletion: finalizers, preconditions, propagation, collections, grace."""

from __future__ import annotations

from typing import Any

from kubewright.apiserver import Operation, Resource, Strategy, Version

MERGE = "application/merge-patch+json"


async def test_deleted_object_does_not_exist(talk, widget, base):
    made = await talk.ok("POST", base, widget("a"))
    response = await talk.ok("DELETE", f"{base}/a")
    assert response["status"] == "Success"
    assert response["details"] == {
        "name": "a",
        "group": "example.com",
        "kind": "widgets",
        "uid": made["metadata"]["uid"],
    }
    assert (await talk("GET", f"{base}/a"))[0] == 404
    assert (await talk("DELETE", f"{base}/a"))[0] == 404


async def test_finalizers_delay_deletion(talk, widget, base):
    await talk.ok("POST", base, widget("a", metadata={"finalizers": ["example.com/x"]}))
    held = await talk.ok("DELETE", f"{base}/a")
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    assert held["metadata"]["generation"] == 2
    again = await talk.ok("DELETE", f"{base}/a")
    assert again["metadata"]["resourceVersion"] == held["metadata"]["resourceVersion"]
    patch = {"metadata": {"finalizers": ["example.com/x", "example.com/y"]}}
    assert (await talk("PATCH", f"{base}/a", patch, Content_Type=MERGE))[0] == 422
    status, error = await talk("POST", base, widget("a"))
    assert (status, error["message"].startswith("object is being deleted: ")) == (409, True)
    await talk.ok("PATCH", f"{base}/a", {"metadata": {"finalizers": None}}, Content_Type=MERGE)
    assert (await talk("GET", f"{base}/a"))[0] == 404


async def test_preconditions(talk, widget, base):
    made = await talk.ok("POST", base, widget("a"))
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "other"}}
    assert (await talk("DELETE", f"{base}/a", options))[0] == 409
    options["preconditions"] = {"resourceVersion": "1000"}
    assert (await talk("DELETE", f"{base}/a", options))[0] == 409
    options["preconditions"] = {"uid": made["metadata"]["uid"]}
    await talk.ok("DELETE", f"{base}/a", options)


async def test_propagation_policy_sets_a_finalizer(talk, widget, base):
    for policy, finalizer in (("Foreground", "foregroundDeletion"), ("Orphan", "orphan")):
        await talk.ok("POST", base, widget(policy.lower()))
        held = await talk.ok("DELETE", f"{base}/{policy.lower()}?propagationPolicy={policy}")
        assert held["metadata"]["finalizers"] == [finalizer]
    assert (await talk("DELETE", f"{base}/orphan?propagationPolicy=Sideways"))[0] == 422
    assert (await talk("DELETE", f"{base}/orphan", {"kind": "Widget", "apiVersion": "v1"}))[0] == 400


async def test_a_collection(talk, widget, base):
    for number in range(4):
        await talk.ok("POST", base, widget(f"w{number}", metadata={"labels": {"n": str(number % 2)}}))
    gone = await talk.ok("DELETE", f"{base}?labelSelector=n=1")
    assert [item["metadata"]["name"] for item in gone["items"]] == ["w1", "w3"]
    assert len((await talk.ok("GET", base))["items"]) == 2
    assert (await talk("DELETE", "/apis/example.com/v1/widgets"))[0] == 404


async def test_grace(talk, server):
    class Slow(Strategy):
        graceful = True
        returns_deleted_object = True

        def grace_period(self, op, obj, requested):
            return 30 if requested is None else requested

    server.add(
        Resource(group="g.io", kind="Pod", plural="pods", versions=[Version(name="v1")], strategy=Slow())
    )
    path = "/apis/g.io/v1/namespaces/d/pods"
    await talk.ok("POST", path, {"apiVersion": "g.io/v1", "kind": "Pod", "metadata": {"name": "p"}})
    grace = [
        (await talk.ok("DELETE", f"{path}/p{query}"))["metadata"]["deletionGracePeriodSeconds"]
        for query in ("", "?gracePeriodSeconds=10", "?gracePeriodSeconds=20", "?gracePeriodSeconds=0")
    ]
    assert grace == [30, 10, 10, 0]
    assert (await talk("GET", f"{path}/p"))[0] == 404
    made = await talk.ok("POST", path, {"apiVersion": "g.io/v1", "kind": "Pod", "metadata": {"name": "q"}})
    gone = await talk.ok("DELETE", f"{path}/q?gracePeriodSeconds=0")
    versions = [int(each["metadata"]["resourceVersion"]) for each in (made, gone)]
    assert versions[1] - versions[0] == 2, "marked, then removed: two changes for those who watch"


async def test_options_of_the_wrong_type(talk, base, widget):
    await talk.ok("POST", base, widget("a"))
    for body, text in (
        (
            {"gracePeriodSeconds": "x"},
            "string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
        (
            {"preconditions": 5},
            "number into Go struct field DeleteOptions.preconditions of type v1.Preconditions",
        ),
        ([], "couldn't get version/kind; json parse error: json: cannot unmarshal array"),
    ):
        status, error = await talk("DELETE", f"{base}/a", body)
        assert status == 400
        assert text in error["message"]
    assert (await talk("DELETE", f"{base}/a", b"null"))[0] == 200


async def test_a_collection_is_deleted_page_by_page(talk, base, widget):
    for name in "abc":
        await talk.ok("POST", base, widget(name))
    gone = await talk.ok("DELETE", f"{base}?limit=2")
    assert [item["metadata"]["name"] for item in gone["items"]] == ["a", "b"]
    assert gone["metadata"]["continue"]
    assert [item["metadata"]["name"] for item in (await talk.ok("GET", base))["items"]] == ["c"]


def test_a_strategy_with_a_grace_period_is_graceful() -> None:
    class Waits:
        def grace_period(self, op: Operation, obj: dict[str, Any], requested: int | None) -> int:
            return 5

    class Direct(Strategy):
        def grace_period(self, op: Operation, obj: dict[str, Any], requested: int | None) -> int:
            return 5

    class Mixed(Waits, Strategy): ...  # type: ignore[misc]

    class Inherited(Mixed): ...

    class Off(Direct):
        graceful = False

    class StillOff(Off): ...

    classes = (Strategy, Direct, Mixed, Inherited, Off, StillOff)
    assert [each.graceful for each in classes] == [False, True, True, True, False, False]
