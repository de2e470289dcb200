"""Status of custom resources: created when it is first read, not encoded while it is empty."""

from __future__ import annotations

from typing import Any

from kubewright.api import CustomResource, Spec, Status, resource
from kubewright.api.encoding import codec


class CupSpec(Spec):
    size: int = 1


class CupStatus(Status):
    phase: str = ""


class StrictStatus(Status):
    phase: str


@resource(group="status.example.com", version="v1")
class Cup(CustomResource[CupSpec, CupStatus]): ...


@resource(group="status.example.com", version="v1")
class PlainCup(CustomResource[CupSpec, None]): ...


@resource(group="status.example.com", version="v1")
class OptionalCup(CustomResource[CupSpec, CupStatus | None]): ...


@resource(group="status.example.com", version="v1")
class StrictCup(CustomResource[CupSpec, StrictStatus | None]): ...


@resource(group="status.example.com", version="v1")
class LooseCup(CustomResource[CupSpec, dict[str, Any]]): ...


RAW = b'{"apiVersion":"status.example.com/v1","kind":"Cup","metadata":{"name":"a"},"spec":{}}'


def test_fields_can_be_assigned_without_a_check() -> None:
    cup = codec.decode(RAW, Cup)
    cup.status.phase = "Full"
    assert codec.to_plain(cup)["status"] == {"phase": "Full"}
    assert b'"status":{"phase":"Full"}' in codec.encode(cup)
    loose = LooseCup(spec=CupSpec())
    loose.status["phase"] = "Full"
    assert codec.to_plain(loose)["status"] == {"phase": "Full"}


def test_reading_does_not_change_the_encoded_object() -> None:
    cup = codec.decode(RAW, Cup)
    before = codec.to_plain(cup)
    assert cup.status == CupStatus()
    assert codec.to_plain(cup) == before


def test_copies_and_representations_do_not_create_a_status() -> None:
    cup = codec.decode(RAW, Cup)
    copied = cup.copy()
    assert "status" not in repr(cup)
    assert b'"status"' not in codec.encode(cup) + codec.encode(copied)


def test_kinds_without_a_status_or_with_an_optional_one_read_none() -> None:
    for kind in (PlainCup, OptionalCup, StrictCup):
        assert kind(spec=CupSpec()).status is None
