"""API errors and field errors."""

import pickle
from typing import Any

import pytest

from kubewright.api import CustomResource, Spec, errors, resource
from kubewright.api.core.v1 import Pod
from kubewright.api.errors import APIError
from kubewright.api.field_errors import FieldError
from kubewright.api.gvk import GroupKind, GroupResource
from kubewright.api.values.go_format import marshal_json, quote

PODS = GroupResource("", "pods")
PIZZAS = GroupResource("restaurant.example.com", "pizzas")


@pytest.mark.parametrize("cls", errors._CLASSES, ids=lambda cls: cls.__name__)
def test_class_of_every_reason(cls: type[APIError]) -> None:
    error = cls("why", details={"name": "x", "retryAfterSeconds": 3})
    status = error.to_status()
    again = APIError.from_status(status)
    assert type(again) is cls
    assert again.to_status() == status
    assert status["reason"] == cls.reason
    assert status["code"] == cls.code
    assert again.retry_after == 3
    assert str(pickle.loads(pickle.dumps(again))) == "why"


def test_status_round_trip() -> None:
    assert errors.not_found(PIZZAS, "four").to_status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'pizzas.restaurant.example.com "four" not found',
        "reason": "NotFound",
        "details": {"name": "four", "group": "restaurant.example.com", "kind": "pizzas"},
        "code": 404,
    }


def test_errors_of_classes_are_those_of_their_resources() -> None:
    @resource(group="restaurant.example.com", version="v1")
    class Pizza(CustomResource[Spec, None]):
        """A pizza."""

    assert errors.not_found(Pizza, "four").to_status() == errors.not_found(PIZZAS, "four").to_status()
    assert str(errors.conflict(Pod, "a", errors.MODIFIED)) == str(errors.conflict(PODS, "a", errors.MODIFIED))
    kind = GroupKind("restaurant.example.com", "Pizza")
    problem = FieldError.required("spec.toppings")
    assert str(errors.invalid(Pizza, "a", [problem])) == str(errors.invalid(kind, "a", [problem]))
    with pytest.raises(TypeError, match="Spec is not a kind"):
        errors.invalid(Spec, "a", [])


def test_unknown_reason_uses_the_code() -> None:
    assert type(APIError.from_status({"code": 404})) is errors.NotFound
    assert type(APIError.from_status({}, http_code=409)) is errors.Conflict
    unknown = APIError.from_status({"reason": "Odd", "code": 409, "message": "m"})
    assert type(unknown) is errors.Conflict
    assert unknown.status_reason == "Odd"
    assert type(APIError.from_status({"code": 418})) is APIError
    assert issubclass(errors.AlreadyExists, errors.Conflict)
    assert issubclass(errors.Gone, errors.Expired)


def test_retry_after_comes_from_body_or_header() -> None:
    assert errors.too_many_requests("slow down", 5).retry_after == 5
    assert APIError.from_status({"code": 429}, headers={"retry-after": "7"}).retry_after == 7
    assert errors.from_response(503, headers={"Retry-After": "2"}).retry_after == 2
    assert errors.from_response(503, headers={"Retry-After": "soon"}).retry_after is None
    assert errors.NotFound("x").retry_after is None


MESSAGES: list[tuple[APIError, str]] = [
    (errors.already_exists(PODS, "x"), 'pods "x" already exists'),
    (errors.already_exists(PODS, "x", deleting=True), 'object is being deleted: pods "x" already exists'),
    (
        errors.generate_name_conflict(PODS, "x"),
        'pods "x" already exists, the server was not able to generate a unique name for the object',
    ),
    (
        errors.conflict(PODS, "x", errors.MODIFIED),
        'Operation cannot be fulfilled on pods "x": the object has been modified; please apply your changes '
        "to the latest version and try again",
    ),
    (errors.forbidden(PODS, "x", "no"), 'pods "x" is forbidden: no'),
    (errors.forbidden(PODS, "", "no"), "pods is forbidden: no"),
    (errors.forbidden(GroupResource("", ""), "", "no"), "forbidden: no"),
    (errors.method_not_allowed(PIZZAS, "update"),
     'update is not supported on resources of kind "pizzas.restaurant.example.com"'),
    (errors.internal_error("boom"), "Internal error occurred: boom"),
    (errors.timeout("late"), "Timeout: late"),
    (errors.too_large_resource_version(9, 3), "Timeout: Too large resource version: 9, current: 3"),
    (
        errors.server_timeout(PODS, "list", 1),
        "The list operation against pods could not be completed at this time, please try again.",
    ),
    (
        errors.from_response(404, "404 page not found", verb="GET", resource=PODS, name="x"),
        "the server could not find the requested resource (get pods x)",
    ),
    (
        errors.from_response(502, "bad"),
        'an error on the server ("bad") has prevented the request from succeeding',
    ),
    (errors.from_response(403, "you may not"), "you may not"),
    (
        errors.from_response(418),
        "the server responded with the status code 418 but did not return more information",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("error", "message"), MESSAGES, ids=lambda value: type(value).__name__)
def test_messages(error: APIError, message: str) -> None:
    assert str(error) == message
    assert APIError.from_status(error.to_status()).to_status() == error.to_status()


def test_responses_without_status_have_the_right_class() -> None:
    assert type(errors.from_response(409, verb="POST")) is errors.AlreadyExists
    assert type(errors.from_response(409, verb="PUT")) is errors.Conflict
    assert type(errors.from_response(599)) is errors.InternalError
    assert errors.from_response(404, "body").causes == [
        {"reason": "UnexpectedServerResponse", "message": "body"}
    ]


def test_invalid_lists_its_causes() -> None:
    size = FieldError.invalid("spec.size", 11, "must be at most 10")
    error = errors.invalid(GroupKind("g.io", "Thing"), "x", [size])
    assert str(error) == 'Thing.g.io "x" is invalid: spec.size: Invalid value: 11: must be at most 10'
    assert error.details == {
        "name": "x",
        "group": "g.io",
        "kind": "Thing",
        "causes": [
            {
                "reason": "FieldValueInvalid",
                "message": "Invalid value: 11: must be at most 10",
                "field": "spec.size",
            }
        ],
    }
    twice = errors.invalid(GroupKind("", "Thing"), "x", [size, FieldError.required("spec.a"), size])
    assert str(twice) == (
        'Thing "x" is invalid: [spec.size: Invalid value: 11: must be at most 10, spec.a: Required value]'
    )
    assert len(twice.causes) == 3
    assert str(errors.invalid(GroupKind("", "Thing"), "", [])) == 'Thing "" is invalid'


FIELD_ERRORS: list[tuple[FieldError, str, str]] = [
    (FieldError.invalid("f", {"b": 1, "a": "<"}, "no"), "FieldValueInvalid",
     'Invalid value: {"a":"\\u003c","b":1}: no'),
    (FieldError.invalid("f", "a\"b\n\x01é", "no"), "FieldValueInvalid",
     'Invalid value: "a\\"b\\n\\x01é": no'),
    (FieldError.invalid("f", True, ""), "FieldValueInvalid", "Invalid value: true"),
    (FieldError.type_invalid("f", "x", "must be integer"), "FieldValueTypeInvalid",
     'Invalid value: "x": must be integer'),
    (FieldError.required("f", "say it"), "FieldValueRequired", "Required value: say it"),
    (FieldError.forbidden("f", "never"), "FieldValueForbidden", "Forbidden: never"),
    (FieldError.duplicate("f", "x"), "FieldValueDuplicate", 'Duplicate value: "x"'),
    (FieldError.not_found("f", 3), "FieldValueNotFound", "Not found: 3"),
    (FieldError.not_supported("f", "c", ["a", "b"]), "FieldValueNotSupported",
     'Unsupported value: "c": supported values: "a", "b"'),
    (FieldError.too_long("f", 1), "FieldValueTooLong", "Too long: may not be more than 1 byte"),
    (FieldError.too_short("f", 2), "FieldValueTooShort", "Too short: must be at least 2 characters"),
    (FieldError.too_many("f", 5, 3), "FieldValueTooMany", "Too many: 5: must have at most 3 items"),
    (FieldError.too_few("f", 0, 1), "FieldValueTooFew", "Too few: 0: must have at least 1 item"),
    (FieldError.internal("f", "oops"), "InternalError", "Internal error: oops"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "reason", "message"), FIELD_ERRORS)
def test_field_errors(error: FieldError, reason: str, message: str) -> None:
    assert (error.reason, error.message) == (reason, message)
    assert str(error) == f"f: {message}"
    assert error.cause() == {"reason": reason, "message": message, "field": "f"}


def test_field_error_detail() -> None:
    error = FieldError.invalid("spec.size", 11, "must be at most 10")
    assert error.message == "Invalid value: 11: must be at most 10"
    assert error.detail == "must be at most 10"
    assert FieldError.required("spec.image").detail == ""


def test_quoting() -> None:
    assert quote("plain") == '"plain"'
    assert quote("\u2028\U000e0001\t\\") == '"\\u2028\\U000e0001\\t\\\\"'
    samples: list[tuple[Any, str]] = [(None, "null"), (1.5, "1.5"), (["é", 1], '["é",1]')]
    for value, text in samples:
        assert marshal_json(value) == text
