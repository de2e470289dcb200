"""Selectors of access reviews: text or requirements, given to authorizers as text.

An unknown requirement is ignored, not rejected: the remaining selector matches more objects, so that allowing
it also allows the original. The response reports ignored requirements.
"""

from __future__ import annotations

from collections.abc import Callable

from kubewright.api.field_errors import FieldError
from kubewright.api.selectors.field_selectors import escape_value, parse_field_selector
from kubewright.api.selectors.label_selectors import parse_selector
from kubewright.api.values.names import check_label_value, check_qualified_name
from kubewright.apiserver.resources.objects import Object

_IN = ("In", "NotIn")
_EXISTS = ("Exists", "DoesNotExist")


def selector_errors(selector: Object, path: str) -> list[FieldError]:
    """Return validation errors of the selector at `path`; unknown operators of newer clients are valid."""
    raw, requirements = selector.get("rawSelector"), selector.get("requirements")
    errors = []
    if raw and requirements:
        text = "may not specified at the same time as requirements"
        errors.append(FieldError.invalid(f"{path}.rawSelector", raw, text))
    if not raw and not requirements:
        text = f"when {path} is specified, requirements or rawSelector is required"
        errors.append(FieldError.required(f"{path}.requirements", text))
    labels = path.endswith(".labelSelector")
    for index, requirement in enumerate(requirements or ()):
        errors += _requirement_errors(requirement, f"{path}.requirements[{index}]", labels)
    return errors


def _requirement_errors(requirement: Object, path: str, labels: bool) -> list[FieldError]:
    key, operator = requirement.get("key") or "", requirement.get("operator") or ""
    values = requirement.get("values") or ()
    errors = []
    if not labels and not key:
        errors.append(FieldError.required(f"{path}.key", "must be specified"))
    if operator in _IN and not values:
        text = "must be specified when `operator` is 'In' or 'NotIn'"
        errors.append(FieldError.required(f"{path}.values", text))
    if operator in _EXISTS and values:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.append(FieldError.forbidden(f"{path}.values", text))
    if labels:
        errors += [FieldError.invalid(f"{path}.key", key, text) for text in check_qualified_name(key)]
        for index, value in enumerate(values):
            where = f"{path}.values[{index}]"
            errors += [FieldError.invalid(where, value, text) for text in check_label_value(value)]
    return errors


def read_label_selector(selector: Object | None) -> tuple[str, str]:
    """Return the selector as text, and the requirements that were ignored."""
    return _read(selector, "labelSelector", parse_selector, _label_term)


def read_field_selector(selector: Object | None) -> tuple[str, str]:
    """Return the selector as text, and the requirements that were ignored."""
    return _read(selector, "fieldSelector", parse_field_selector, _field_term)


def _read(
    selector: Object | None, field: str, parse: Callable[[str], object], term: Callable[[Object], str]
) -> tuple[str, str]:
    if not selector:
        return "", ""
    raw = selector.get("rawSelector")
    if raw:
        try:
            parse(raw)
        except ValueError:
            return "", f"spec.resourceAttributes.{field} ignored due to parse error"
        return raw, ""
    wanted = [term(requirement) for requirement in selector.get("requirements") or ()]
    kept = [text for text in wanted if text]
    if len(kept) == len(wanted):
        return ",".join(kept), ""
    how = "partially ignored" if kept else "ignored"
    return ",".join(kept), f"spec.resourceAttributes.{field} {how} due to parse error"


def _label_term(requirement: Object) -> str:
    key, operator = requirement.get("key") or "", requirement.get("operator") or ""
    values = ",".join(requirement.get("values") or ())
    written = {
        "In": f"{key} in ({values})",
        "NotIn": f"{key} notin ({values})",
        "Exists": key,
        "DoesNotExist": f"!{key}",
    }
    return written.get(operator, "")


def _field_term(requirement: Object) -> str:
    symbol = {"In": "=", "NotIn": "!="}.get(requirement.get("operator") or "")
    values = requirement.get("values") or []
    if symbol is None or len(values) != 1:
        return ""
    return f"{requirement.get('key') or ''}{symbol}{escape_value(values[0])}"
