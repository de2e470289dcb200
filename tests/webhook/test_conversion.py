"""Conversion through a hub version."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api import CustomResource, ObjectMeta, Spec, resource
from kubewright.webhook import ConversionError, Converter, InvalidReviewError, lost_fields
from kubewright.webhook.conversion import ConversionHandler


class TimeSpec(Spec):
    schedule: str
    comment: str | None = None


class Parts(Spec):
    minute: str | None = None
    hour: str | None = None


class PartsSpec(Spec):
    schedule: Parts
    comment: str | None = None


@resource(group="conv.example.com", version="v1", storage=True, hub=True)
class JobV1(CustomResource[TimeSpec, None], kw_only=True):
    """Text."""


@resource(group="conv.example.com", version="v2", kind="JobV1", storage=False)
class JobV2(CustomResource[PartsSpec, None], kw_only=True):
    """Parts."""


def to_hub(job: JobV2) -> JobV1:
    parts = (job.spec.schedule.minute or "*", job.spec.schedule.hour or "*")
    return JobV1(metadata=job.metadata, spec=TimeSpec(schedule=" ".join(parts), comment=job.spec.comment))


def from_hub(job: JobV1) -> JobV2:
    parts = job.spec.schedule.split()
    if len(parts) != 2:
        raise ConversionError(f"{job.spec.schedule!r} does not have two parts")
    minute, hour = (None if part == "*" else part for part in parts)
    return JobV2(
        metadata=job.metadata,
        spec=PartsSpec(schedule=Parts(minute=minute, hour=hour), comment=job.spec.comment),
    )


@pytest.fixture
def converter() -> Converter:
    made = Converter(JobV1)
    made.spoke(JobV2, to_hub=to_hub, from_hub=from_hub)
    return made


def job(version: str, schedule: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"conv.example.com/{version}",
        "kind": "JobV1",
        "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "labels": {"x": "y"}},
        "spec": {"schedule": schedule},
    }


def ask(converter: Converter, wanted: str, *objects: dict[str, Any]) -> dict[str, Any]:
    conversions = ConversionHandler()
    conversions.add(converter)
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {"uid": "r", "desiredAPIVersion": f"conv.example.com/{wanted}", "objects": list(objects)},
    }
    reply: dict[str, Any] = json.loads(conversions.convert_review(json.dumps(body).encode()))
    assert reply["response"]["uid"] == "r"
    response: dict[str, Any] = reply["response"]
    return response


def test_objects_are_converted_in_order_with_their_metadata(converter: Converter) -> None:
    response = ask(converter, "v2", job("v1", "5 *"), job("v2", {"hour": "3"}), job("v1", "* 4"))
    assert response["result"]["status"] == "Success"
    assert [each["spec"]["schedule"] for each in response["convertedObjects"]] == [
        {"minute": "5"},
        {"hour": "3"},
        {"hour": "4"},
    ]
    assert all(each["metadata"] == job("v1", "")["metadata"] for each in response["convertedObjects"])
    assert all(each["apiVersion"] == "conv.example.com/v2" for each in response["convertedObjects"])


def test_failed_conversion_of_one_object_fails_the_review(converter: Converter) -> None:
    response = ask(converter, "v2", job("v1", "5 *"), job("v1", "@hourly"))
    assert response["result"] == {
        "metadata": {},
        "status": "Failure",
        "message": "'@hourly' does not have two parts",
    }
    assert "convertedObjects" not in response


def test_unknown_versions_and_kinds_are_named(converter: Converter) -> None:
    assert "v3" in ask(converter, "v3", job("v1", "* *"))["result"]["message"]
    other = {**job("v1", "* *"), "kind": "Other"}
    assert "Other" in ask(converter, "v2", other)["result"]["message"]


def test_exception_in_a_converter_is_reported(converter: Converter) -> None:
    broken = Converter(JobV1)
    broken.spoke(JobV2, to_hub=to_hub, from_hub=lambda hub: 1 / 0)  # type: ignore[arg-type, return-value]
    assert "ZeroDivisionError" in ask(broken, "v2", job("v1", "* *"))["result"]["message"]


@pytest.mark.parametrize("body", [b"", b"{}", b'{"kind":"ConversionReview","apiVersion":"v1"}'])
def test_malformed_reviews_are_rejected(converter: Converter, body: bytes) -> None:
    with pytest.raises(InvalidReviewError):
        ConversionHandler().convert_review(body)


def test_a_kind_has_one_converter(converter: Converter) -> None:
    conversions = ConversionHandler()
    conversions.add(converter)
    with pytest.raises(ValueError, match="already"):
        conversions.add(Converter(JobV1))


@given(
    st.builds(
        lambda minute, hour, comment: JobV2(
            metadata=ObjectMeta(name="a"),
            spec=PartsSpec(schedule=Parts(minute=minute, hour=hour), comment=comment),
        ),
        st.none() | st.from_regex(r"[0-9]{1,2}", fullmatch=True),
        st.none() | st.from_regex(r"[0-9]{1,2}", fullmatch=True),
        st.none() | st.text(),
    )
)
def test_round_trip_through_the_hub(obj: JobV2) -> None:
    converter = Converter(JobV1)
    converter.spoke(JobV2, to_hub=to_hub, from_hub=from_hub)
    assert lost_fields(converter, obj) == []


def test_lost_fields_are_reported() -> None:
    forgetful = Converter(JobV1)
    forgetful.spoke(
        JobV2,
        to_hub=lambda obj: JobV1(metadata=obj.metadata, spec=TimeSpec(schedule="* *")),
        from_hub=from_hub,
    )
    obj = JobV2(spec=PartsSpec(schedule=Parts(minute="1"), comment="keep"))
    assert lost_fields(forgetful, obj) == [
        "spec.schedule.minute (through v1)",
        "spec.comment (through v1)",
    ]
