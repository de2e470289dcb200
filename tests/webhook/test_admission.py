"""Defaulting and validating webhooks of typed objects."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

import pytest

from kubewright.api import CustomResource, FieldError, Spec, Status, resource
from kubewright.patch import json_patch
from kubewright.webhook import (
    AdmissionRequest,
    AdmissionResponse,
    Defaulter,
    Denied,
    InvalidReviewError,
    Validator,
)
from kubewright.webhook.admission import admit
from kubewright.webhook.review import encode_response, read_review


class Suite(Spec):
    name: str = ""
    beds: int | None = None


class HotelSpec(Spec):
    stars: int = 1
    suites: list[Suite] | None = None


class HotelStatus(Status):
    open: bool | None = None


@resource(group="webhook.example.com", version="v1")
class Hotel(CustomResource[HotelSpec, HotelStatus]):
    """A hotel."""


def review(obj: dict[str, Any] | None, old: dict[str, Any] | None = None, **fields: Any) -> bytes:
    request = {
        "uid": "u-1",
        "kind": {"group": "webhook.example.com", "version": "v1", "kind": "Hotel"},
        "resource": {"group": "webhook.example.com", "version": "v1", "resource": "hotels"},
        "name": "ritz",
        "namespace": "paris",
        "operation": "CREATE" if old is None else "UPDATE" if obj is not None else "DELETE",
        "userInfo": {"username": "anna", "groups": ["a"]},
        "object": obj,
        "oldObject": old,
        "dryRun": False,
        "options": {},
        **fields,
    }
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    ).encode()


def hotel(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "webhook.example.com/v1",
        "kind": "Hotel",
        "metadata": {"name": "ritz", "namespace": "paris"},
        "spec": spec,
    }


async def ask(handler: Any, body: bytes) -> dict[str, Any]:
    request = read_review(body)
    reply: dict[str, Any] = json.loads(encode_response(request, await admit(handler, request)))
    assert reply["kind"] == "AdmissionReview"
    response: dict[str, Any] = reply["response"]
    assert response["uid"] == "u-1"
    return response


def patched(obj: dict[str, Any], response: dict[str, Any]) -> Any:
    assert response["patchType"] == "JSONPatch"
    return json_patch.apply(obj, json.loads(base64.b64decode(response["patch"])))


async def test_changes_of_a_defaulter_become_a_patch() -> None:
    def fill(obj: Hotel) -> None:
        obj.spec.suites = [*(obj.spec.suites or []), Suite(name="101")]

    before = hotel(stars=5)
    assert patched(before, await ask(Defaulter(Hotel, fill), review(before)))["spec"] == {
        "stars": 5,
        "suites": [{"name": "101"}],
    }


async def test_defaulter_preserves_unknown_fields() -> None:
    async def fill(obj: Hotel) -> None:
        assert obj.spec.suites is not None
        obj.spec.suites[0].beds = 2

    before = hotel(stars=5, suites=[{"name": "101", "view": "sea"}], pool={"deep": True})
    before["extra"] = 1
    after = patched(before, await ask(Defaulter(Hotel, fill), review(before)))
    assert after["spec"] == {
        "stars": 5,
        "suites": [{"name": "101", "view": "sea", "beds": 2}],
        "pool": {"deep": True},
    }
    assert after["extra"] == 1


async def test_defaulter_may_return_an_object_and_read_the_request() -> None:
    def fill(obj: Hotel, request: AdmissionRequest) -> Hotel:
        request.warn(f"hello {request.user.username}")
        return Hotel(metadata=obj.metadata, spec=HotelSpec(stars=3))

    before = hotel(stars=5)
    response = await ask(Defaulter(Hotel, fill), review(before))
    assert response["warnings"] == ["hello anna"]
    assert patched(before, response)["spec"]["stars"] == 3


async def test_unchanged_object_has_no_patch() -> None:
    response = await ask(Defaulter(Hotel, lambda obj: None), review(hotel(stars=2)))
    assert response == {"uid": "u-1", "allowed": True}


async def test_deletions_are_not_defaulted() -> None:
    response = await ask(Defaulter(Hotel, lambda obj: pytest.fail("called")), review(None, hotel(stars=2)))
    assert response["allowed"]


async def test_field_errors_become_causes_of_one_status() -> None:
    def check(new: Hotel, old: Hotel | None) -> Iterable[FieldError]:
        yield FieldError.invalid("spec.stars", new.spec.stars, "at most 5")
        yield FieldError.required("spec.suites", "a hotel has suites")

    response = await ask(Validator(Hotel, check), review(hotel(stars=9)))
    assert not response["allowed"]
    status = response["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["message"].startswith('Hotel.webhook.example.com "ritz" is invalid: [')
    assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.stars", "spec.suites"]


async def test_validator_receives_old_and_new_object_of_its_operations() -> None:
    seen: list[tuple[int | None, int | None]] = []

    async def check(new: Hotel | None, old: Hotel | None) -> None:
        seen.append((new and new.spec.stars, old and old.spec.stars))

    validator = Validator(Hotel, check, operations=("update", "delete"))
    for body in (
        review(hotel(stars=1)),
        review(hotel(stars=2), hotel(stars=1)),
        review(None, hotel(stars=2)),
    ):
        assert (await ask(validator, body))["allowed"]
    assert seen == [(2, 1), (None, 2)]


@pytest.mark.parametrize("returned", [False, True, "no", ["no"], [FieldError.required("spec"), 3]])
async def test_invalid_return_values_reject_the_request(returned: Any) -> None:
    with pytest.raises(
        TypeError, match="must return or yield FieldErrors, return None or raise Denied, not "
    ):
        await ask(Validator(Hotel, lambda new, old: returned), review(hotel()))


async def test_a_single_field_error_is_enough() -> None:
    refusing: Any = lambda new, old: FieldError.required("spec.stars")  # noqa: E731
    reply = await ask(Validator(Hotel, refusing), review(hotel()))
    assert reply["status"]["details"]["causes"][0]["field"] == "spec.stars"


async def test_defaulter_with_invalid_return_value() -> None:
    with pytest.raises(TypeError, match="must modify the object or return one, not bool"):
        await ask(Defaulter(Hotel, lambda obj: True), review(hotel()))


async def test_denied_message() -> None:
    def check(new: Hotel, old: Hotel | None) -> None:
        raise Denied("the season is over")

    response = await ask(Validator(Hotel, check), review(hotel()))
    assert response["status"]["message"] == "the season is over"
    assert response["status"]["code"] == 403


async def test_object_of_another_type_is_rejected_with_the_reason() -> None:
    response = await ask(Validator(Hotel, lambda new, old: ()), review(hotel(stars="many")))
    assert not response["allowed"]
    assert "stars" in response["status"]["message"]
    assert response["status"]["code"] == 422


async def test_defaulter_skips_objects_that_do_not_match_the_type() -> None:
    response = await ask(Defaulter(Hotel, lambda obj: pytest.fail("called")), review(hotel(stars="many")))
    assert response == {"uid": "u-1", "allowed": True}


async def test_raw_handlers_return_any_response() -> None:
    async def handler(request: AdmissionRequest) -> AdmissionResponse:
        assert request.raw is not None
        return AdmissionResponse(audit_annotations={"seen": request.operation})

    response = await ask(handler, review(hotel()))
    assert response["auditAnnotations"] == {"seen": "CREATE"}


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "not an AdmissionReview"),
        (b"[]", "not an AdmissionReview"),
        (b'{"kind":"Pod","apiVersion":"v1"}', "expected an AdmissionReview"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v2","request":{"uid":"1"}}', "v2"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', "no request"),
    ],
)
def test_malformed_reviews_are_rejected(body: bytes, complaint: str) -> None:
    with pytest.raises(InvalidReviewError, match=complaint):
        read_review(body)


def test_v1beta1_review_returns_v1beta1() -> None:
    body = review(hotel()).replace(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1")
    reply = json.loads(encode_response(read_review(body), AdmissionResponse()))
    assert reply["apiVersion"] == "admission.k8s.io/v1beta1"
