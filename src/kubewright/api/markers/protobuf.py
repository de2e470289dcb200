"""`FieldNumber`: the number of a field in protobuf."""

from __future__ import annotations

from dataclasses import dataclass

from .base import Marker


@dataclass(frozen=True)
class FieldNumber(Marker):
    """The number of a field in the protobuf message of its class; it has no effect on the schema.

    An API server serves a kind in protobuf if all of its fields, and those of the structs that it contains,
    have a number. Numbers identify fields on the connection: never change one, and never use one again.
    """

    number: int

    def __post_init__(self) -> None:
        if not 0 < self.number < 1 << 29 or 19000 <= self.number < 20000:
            raise ValueError(
                f"field number {self.number} is not between 1 and 536870911, or is reserved (19000 to 19999)"
            )
