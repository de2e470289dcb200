"""Admission: order, reinvocation, rejection."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.errors import Forbidden
from kubewright.api.gvk import GroupVersionKind, GroupVersionResource
from kubewright.apiserver import AdmissionAttributes, AdmissionPlugin, AdmissionRule
from kubewright.apiserver.admission import AdmissionChain
from kubewright.apiserver.authentication.user import SYSTEM

MERGE = "application/merge-patch+json"


class Stamp(AdmissionPlugin):
    """Adds its name to an annotation."""

    mutating = True

    def __init__(self, name: str, reinvoke: bool = False) -> None:
        self.name = name
        self.reinvoke = reinvoke

    async def mutate(self, request: AdmissionAttributes) -> bool:
        if request.object is None:
            return False
        annotations = request.object["metadata"].setdefault("annotations", {})
        annotations["seen"] = annotations.get("seen", "") + self.name
        return True


class Log(AdmissionPlugin):
    """Records requests; rejects objects named `bad`."""

    name = "log"
    validating = True

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, bool, bool]] = []

    async def validate(self, request: AdmissionAttributes) -> None:
        self.seen.append(
            (
                request.operation,
                request.name,
                request.subresource,
                request.object is not None,
                request.old_object is not None,
            )
        )
        if request.name == "bad":
            raise Forbidden("no bad ones")


async def test_the_chain(new_server, talk_to, widget, base):
    log = Log()
    async with new_server(admission=[Stamp("a", reinvoke=True), Stamp("b"), log]) as server:
        talk = talk_to(server)
        made = await talk.ok("POST", base, widget("x"))
        assert made["metadata"]["annotations"]["seen"] == "aba"
        assert (await talk("POST", base, widget("bad")))[0] == 403
        await talk.ok("PATCH", f"{base}/x", {"spec": {"size": 1}}, Content_Type=MERGE)
        await talk.ok("PATCH", f"{base}/x/status", {"status": {"ready": 1}}, Content_Type=MERGE)
        await talk.ok("DELETE", f"{base}/x")
        assert log.seen == [
            ("CREATE", "x", "", True, False),
            ("CREATE", "bad", "", True, False),
            ("UPDATE", "x", "", True, True),
            ("UPDATE", "x", "status", True, True),
            ("DELETE", "x", "", False, True),
        ]
        server.admission.remove("log")
        await talk.ok("POST", base, widget("bad"))


async def test_names_are_generated_after_mutation(new_server, talk_to, widget, base):
    names = []

    class Look(Stamp):
        async def mutate(self, request: AdmissionAttributes) -> bool:
            names.append(request.object["metadata"].get("name"))
            return False

    async with new_server(admission=[Look("look")]) as server:
        await talk_to(server).ok("POST", base, widget(metadata={"generateName": "w-"}))
    assert names == [None]


@pytest.mark.parametrize(
    ("resources", "write", "expected"),
    [
        (("pods",), ("CREATE", "", "pods", ""), True),
        (("pods",), ("CREATE", "", "pods", "status"), False),
        (("pods",), ("UPDATE", "", "pods", ""), False),
        (("pods",), ("CREATE", "apps", "pods", ""), False),
        (("pods/status",), ("CREATE", "", "pods", "status"), True),
        (("pods/*",), ("CREATE", "", "pods", "status"), True),
        (("pods/*",), ("CREATE", "", "pods", ""), False),
        (("*",), ("CREATE", "", "services", ""), True),
        (("*",), ("CREATE", "", "services", "status"), False),
        (("*/*",), ("CREATE", "", "services", "status"), True),
    ],
)
def test_rules_match_operations_groups_resources_and_subresources(
    resources: tuple[str, ...], write: tuple[Any, str, str, str], expected: bool
) -> None:
    assert AdmissionRule(("CREATE",), "", resources).matches(*write) is expected


async def test_a_plugin_is_not_asked_about_writes_outside_of_its_rules() -> None:
    asked: list[str] = []

    class Counting(AdmissionPlugin):
        name = "counting"
        mutating = True
        rules = (AdmissionRule(("CREATE",), "", ("configmaps",)),)

        def handles(self, request: AdmissionAttributes) -> bool:
            asked.append(request.resource.resource)
            return True

    chain = AdmissionChain([Counting()])
    for resource, operation in (("configmaps", "CREATE"), ("configmaps", "UPDATE"), ("pods", "CREATE")):
        await chain.mutate(
            AdmissionAttributes(
                operation,  # type: ignore[arg-type]
                SYSTEM,
                GroupVersionResource("", "v1", resource),
                *("", GroupVersionKind("", "v1", "Kind"), "default", "a", {}, None, None, False, None, None),
            )
        )
    assert asked == ["configmaps"]
