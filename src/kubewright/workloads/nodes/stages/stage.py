"""`Stage`: a parsed Stage object: which objects it matches, after which delay, and what it does."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.values.times import Duration, parse_time
from kubewright.workloads.nodes.objects import Object

from .go_templates import Template
from .jq_paths import Filter, compile_expression

OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
PATCH_TYPES: Final = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


class StageError(ValueError):
    """A Stage object cannot be used."""


@dataclass(frozen=True, slots=True)
class StageStep:
    """One action of a stage; only one field is set."""

    template: Template | None = None
    root: str = ""
    subresource: str = ""
    patch_type: str = ""
    event: Object | None = None
    finalizers: Object | None = None
    delete: bool = False


class Stage:
    """A stage."""

    def __init__(self, obj: Object) -> None:
        spec: Object = obj.get("spec") or {}
        self.name: str = obj["metadata"]["name"]
        reference = spec.get("resourceRef") or {}
        self.kind = GroupVersionKind.from_api_version(
            reference.get("apiGroup") or "v1", reference.get("kind") or ""
        )
        self._requirements = [*_requirements(spec.get("selector") or {})]
        self._weight = int(spec.get("weight") or 0)
        self._weight_from = _expression(spec.get("weightFrom"))
        delay: Object = spec.get("delay") or {}
        self._duration = delay.get("durationMilliseconds")
        self._duration_from = _expression(delay.get("durationFrom"))
        self._jitter = delay.get("jitterDurationMilliseconds")
        self._jitter_from = _expression(delay.get("jitterDurationFrom"))
        self.steps = _steps(spec)

    def matches(self, obj: Object) -> bool:
        """Whether the stage applies to an object."""
        return all(requirement(obj) for requirement in self._requirements)

    def weight(self, obj: Object) -> int:
        """Return the weight of the stage for an object."""
        found = _first(self._weight_from, obj)
        try:
            return int(found) if found is not None else self._weight
        except (TypeError, ValueError):
            return self._weight

    def delay(self, obj: Object, now: datetime, rng: random.Random) -> float:
        """Return the delay in seconds, with jitter."""
        duration = _seconds(_first(self._duration_from, obj), now)
        if duration is None:
            duration = (self._duration or 0) / 1000
        jitter = _seconds(_first(self._jitter_from, obj), now)
        if jitter is None:
            jitter = self._jitter / 1000 if self._jitter is not None else None
        if jitter is None:
            return max(0.0, duration)
        return max(0.0, jitter if jitter < duration else rng.uniform(duration, jitter))


def choose(stages: list[Stage], obj: Object, rng: random.Random) -> Stage | None:
    """Return one of the stages that match an object, at random by their weights."""
    matching = [stage for stage in stages if stage.matches(obj)]
    if len(matching) < 2:
        return matching[0] if matching else None
    weights = [max(0, stage.weight(obj)) for stage in matching]
    return rng.choices(matching, weights)[0] if any(weights) else rng.choice(matching)


def _has_value(field: str, key: str, value: Any, obj: Object) -> bool:
    """Return whether a label or annotation of an object has a value."""
    return bool(((obj.get("metadata") or {}).get(field) or {}).get(key) == value)


def _requirements(selector: Object) -> list[Callable[[Object], bool]]:
    found: list[Callable[[Object], bool]] = []
    for field in ("labels", "annotations"):
        for key, value in (selector.get(f"match{field.capitalize()}") or {}).items():
            found.append(partial(_has_value, field, key, value))
    for one in selector.get("matchExpressions") or ():
        if one.get("cel"):
            raise StageError("selectors in CEL are not supported; use jq")
        jq = one.get("jq") or {}
        expression = jq.get("expression") or one.get("key") or "."
        operator = jq.get("operator") or one.get("operator") or "In"
        if operator not in OPERATORS:
            raise StageError(f"operator {operator!r} is not supported")
        values = frozenset(jq.get("values") or one.get("values") or ())
        found.append(_requirement(compile_expression(expression), operator, values))
    return found


def _requirement(read: Filter, operator: str, values: frozenset[str]) -> Callable[[Object], bool]:
    def check(obj: Object) -> bool:
        found = {_text(value) for value in read(obj) if value is not None}
        if operator == "Exists":
            return bool(found)
        if operator == "DoesNotExist":
            return not found
        return bool(found & values) == (operator == "In")

    return check


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _expression(source: Object | None) -> Filter | None:
    if not source:
        return None
    text = source.get("expressionFrom") or (source.get("jq") or {}).get("expression")
    return compile_expression(text) if text else None


def _first(read: Filter | None, obj: Object) -> Any:
    return next((value for value in read(obj) if value is not None), None) if read is not None else None


def _seconds(value: Any, now: datetime) -> float | None:
    """Convert a Go duration, or a time in the future, to seconds."""
    if not isinstance(value, str) or not value:
        return None
    try:
        return Duration(value).total_seconds()
    except ValueError:
        try:
            return (parse_time(value) - now).total_seconds()
        except ValueError:
            return None


def _steps(spec: Object) -> list[StageStep]:
    steps: list[StageStep] = []
    following: Object = spec.get("next") or {}
    if following.get("event"):
        steps.append(StageStep(event=following["event"]))
    if following.get("finalizers"):
        steps.append(StageStep(finalizers=following["finalizers"]))
    if following.get("statusTemplate"):
        subresource = following.get("statusSubresource")
        status = {"template": following["statusTemplate"], "root": "status"}
        steps.append(_patch_step({**status, "subresource": "status" if subresource is None else subresource}))
    steps += [_patch_step(patch) for patch in following.get("patches") or ()]
    if following.get("delete"):
        steps.append(StageStep(delete=True))
    for step in spec.get("steps") or ():
        if step.get("patch"):
            steps.append(_patch_step(step["patch"]))
        elif step.get("event"):
            steps.append(StageStep(event=step["event"]))
        elif step.get("finalizers"):
            steps.append(StageStep(finalizers=step["finalizers"]))
        elif step.get("delete"):
            steps.append(StageStep(delete=True))
        elif step.get("apply"):
            raise StageError("steps with apply are not supported; use patch")
    return steps


def _patch_step(patch: Object) -> StageStep:
    kind = patch.get("type") or ""
    if kind and kind not in PATCH_TYPES:
        raise StageError(f"patch type {kind!r} is not supported; use one of {', '.join(PATCH_TYPES)}")
    return StageStep(
        template=Template(patch.get("template") or ""),
        root=patch.get("root") or "",
        subresource=patch.get("subresource") or "",
        patch_type=PATCH_TYPES[kind] if kind else "",
    )
