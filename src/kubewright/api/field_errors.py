"""Validation errors of fields, with the wording of Kubernetes.

A `FieldError` has a reason (`FieldValueInvalid`), the path of the field (`spec.ports[0].name`) and a message
that contains the value: `Invalid value: "x": must be ...`. Validation collects them, and `errors.invalid`
turns a list of them into a 422 response. Create them with the class methods:

    FieldError.invalid("spec.size", 11, "must be at most 10")
    FieldError.required("spec.image")
    FieldError.not_supported("spec.type", "Fax", ["Phone", "Address"])
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from .values.go_format import format_invalid_value, quote


class _Omit:
    """Type of `OMIT`."""

    def __repr__(self) -> str:
        return "OMIT"


OMIT: Final = _Omit()
"""Pass this as the value to omit it from the message."""


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@dataclass(frozen=True, slots=True)
class FieldError:
    """A validation error of one field.

    `message` is the text that clients see, such as `Invalid value: 11: must be at most 10`; `detail` is its
    last part, without the kind of the error and the value.
    """

    reason: str
    field: str
    message: str
    detail: str = ""

    def cause(self) -> dict[str, str]:
        """Return the entry for `details.causes`."""
        return {"reason": self.reason, "message": self.message, "field": self.field}

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    @classmethod
    def _with_value(cls, reason: str, label: str, field: str, value: Any, detail: str) -> FieldError:
        message = label if value is OMIT else f"{label}: {format_invalid_value(value)}"
        return cls(reason, field, f"{message}: {detail}" if detail else message, detail)

    @classmethod
    def _plain(cls, reason: str, label: str, field: str, detail: str) -> FieldError:
        return cls(reason, field, f"{label}: {detail}" if detail else label, detail)

    @classmethod
    def invalid(cls, field: str, value: Any, detail: str) -> FieldError:
        """Report a malformed value."""
        return cls._with_value("FieldValueInvalid", "Invalid value", field, value, detail)

    @classmethod
    def type_invalid(cls, field: str, value: Any, detail: str) -> FieldError:
        """Report a value of the wrong type."""
        return cls._with_value("FieldValueTypeInvalid", "Invalid value", field, value, detail)

    @classmethod
    def required(cls, field: str, detail: str = "") -> FieldError:
        """Report a missing required value."""
        return cls._plain("FieldValueRequired", "Required value", field, detail)

    @classmethod
    def forbidden(cls, field: str, detail: str) -> FieldError:
        """Report a well-formed value that is not allowed here."""
        return cls._plain("FieldValueForbidden", "Forbidden", field, detail)

    @classmethod
    def duplicate(cls, field: str, value: Any) -> FieldError:
        """Report a value that must be unique and is not."""
        return cls._with_value("FieldValueDuplicate", "Duplicate value", field, value, "")

    @classmethod
    def not_found(cls, field: str, value: Any) -> FieldError:
        """Report a reference to something that does not exist."""
        return cls._with_value("FieldValueNotFound", "Not found", field, value, "")

    @classmethod
    def not_supported(cls, field: str, value: Any, supported: Iterable[str]) -> FieldError:
        """Report a value that is not in an enumeration."""
        listed = ", ".join(quote(one) for one in supported)
        detail = f"supported values: {listed}" if listed else ""
        return cls._with_value("FieldValueNotSupported", "Unsupported value", field, value, detail)

    @classmethod
    def too_long(cls, field: str, limit: int) -> FieldError:
        """Report a string of more than `limit` bytes; the message omits the value."""
        detail = f"may not be more than {_counted(limit, 'byte')}"
        return cls._plain("FieldValueTooLong", "Too long", field, detail)

    @classmethod
    def too_short(cls, field: str, limit: int) -> FieldError:
        """Report a string of fewer than `limit` characters."""
        detail = f"must be at least {_counted(limit, 'character')}"
        return cls._plain("FieldValueTooShort", "Too short", field, detail)

    @classmethod
    def too_many(cls, field: str, count: int, limit: int) -> FieldError:
        """Report a list of more than `limit` items."""
        detail = f"must have at most {_counted(limit, 'item')}"
        return cls._with_value("FieldValueTooMany", "Too many", field, count, detail)

    @classmethod
    def too_few(cls, field: str, count: int, limit: int) -> FieldError:
        """Report a list of fewer than `limit` items."""
        detail = f"must have at least {_counted(limit, 'item')}"
        return cls._with_value("FieldValueTooFew", "Too few", field, count, detail)

    @classmethod
    def internal(cls, field: str, detail: str) -> FieldError:
        """Report an internal error."""
        return cls._plain("InternalError", "Internal error", field, detail)


def aggregate(errors: Iterable[object]) -> str:
    """Join the messages of several errors without duplicates, in brackets if there is more than one."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
