"""Validation of cron schedules: five fields, or a descriptor such as `@hourly`."""

from __future__ import annotations

from kubewright.api.field_errors import quote

_MONTHS = {
    name: number
    for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), start=1)  # noqa: SIM905
}
_DAYS = {name: number for number, name in enumerate("sun mon tue wed thu fri sat".split())}  # noqa: SIM905
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_DESCRIPTORS = frozenset(("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"))


def schedule_error(schedule: str) -> str:
    """Return the error of a schedule, or an empty string."""
    text = schedule
    if text.startswith(("TZ=", "CRON_TZ=")):
        text = text.partition(" ")[2].strip()
    if text.startswith("@"):
        if text in _DESCRIPTORS:
            return ""
        if text.startswith("@every "):
            from kubewright.api.times import Duration

            length = text.removeprefix("@every ")
            try:
                Duration(length)
            except ValueError:
                return f"failed to parse duration {text}: time: invalid duration {quote(length)}"
            return ""
        return f"unrecognized descriptor: {text}"
    fields = text.split()
    if len(fields) != 5:
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    for field, (low, high, names) in zip(fields, _FIELDS, strict=True):
        for part in field.split(","):
            error = _range_error(part, low, high, names)
            if error:
                return error
    return ""


def _range_error(part: str, low: int, high: int, names: dict[str, int]) -> str:
    span, slash, step_text = part.partition("/")
    if "/" in step_text:
        return f"too many slashes: {part}"
    first, dash, last = span.partition("-")
    step = 1
    if slash:
        parsed = _number(step_text, {})
        if isinstance(parsed, str):
            return parsed
        step = parsed
    if first in ("*", "?") and not dash:
        start, end = low, high
    else:
        begin = _number(first, names)
        if isinstance(begin, str):
            return begin
        start = begin
        if "-" in last:
            return f"too many hyphens: {part}"
        finish = _number(last, names) if dash else (high if slash else start)
        if isinstance(finish, str):
            return finish
        end = finish
    if start < low:
        return f"beginning of range ({start}) below minimum ({low}): {part}"
    if end > high:
        return f"end of range ({end}) above maximum ({high}): {part}"
    if start > end:
        return f"beginning of range ({start}) beyond end of range ({end}): {part}"
    return f"step of range should be a positive number: {part}" if step == 0 else ""


def _number(text: str, names: dict[str, int]) -> int | str:
    if text.lower() in names:
        return names[text.lower()]
    if not (text.isascii() and text.lstrip("+-").isdigit()):
        return f"failed to parse int from {text}: strconv.Atoi: parsing {quote(text)}: invalid syntax"
    number = int(text)
    return f"negative number ({number}) not allowed: {text}" if number < 0 else number
