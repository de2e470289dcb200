"""Errors of requests that no handler accepts."""

from __future__ import annotations

import pytest

from kubewright.api.errors import APIError
from kubewright.apiserver.routing_errors import (
    NoRepresentation,
    NoSuchMethod,
    NoSuchResource,
    UnknownMediaType,
    Unrouted,
)


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (NoSuchMethod(), 405, "MethodNotAllowed"),
        (NoSuchResource(), 404, "NotFound"),
        (NoRepresentation("application/json"), 406, "NotAcceptable"),
        (UnknownMediaType(), 415, "UnsupportedMediaType"),
    ],
)
def test_they_have_the_status_of_their_kind(error: APIError, code: int, reason: str) -> None:
    assert isinstance(error, Unrouted)
    assert (error.to_status()["code"], error.to_status()["reason"]) == (code, reason)
