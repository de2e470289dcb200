"""Limits of scaling: stabilization windows and rates, with `spec.behavior` or without it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from kubewright.api.autoscaling.v2 import HorizontalPodAutoscalerBehavior, HPAScalingRules

DOWNSCALE_STABILIZATION = 300.0
_WITHIN_RANGE = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_UP_LIMIT = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_DOWN_LIMIT = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
)
_HIGHER_BEFORE = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
_LOWER_BEFORE = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_MATCHES = ("ReadyForNewScale", "recommended size matches current size")

Reason = tuple[str, str]
"""Reason and message of a condition."""


class Decision(NamedTuple):
    """The number of replicas within the limits."""

    replicas: int
    able_to_scale: Reason
    limited: bool
    limit: Reason


class ScalingHistory:
    """Recommendations and changes of one autoscaler; times are seconds of any clock."""

    def __init__(self, replicas: int, now: float) -> None:
        self._recommendations: list[tuple[float, int]] = [(now, replicas)]
        self._changes: list[tuple[float, int]] = []

    def record_change(self, before: int, after: int, now: float) -> None:
        """Record that the number of replicas was changed."""
        self._changes.append((now, after - before))

    def decide(
        self,
        current: int,
        desired: int,
        minimum: int,
        maximum: int,
        behavior: HorizontalPodAutoscalerBehavior | None,
        now: float,
    ) -> Decision:
        """Return the number of replicas that the windows and rates allow."""
        up = behavior.scale_up if behavior is not None else None
        down = behavior.scale_down if behavior is not None else None
        if behavior is None or up is None or down is None:
            stable = max([desired, *self._since(now - DOWNSCALE_STABILIZATION)])
            reason = _MATCHES if stable == desired else _HIGHER_BEFORE
            replicas, limit = _apply_default_limits(current, stable, minimum, maximum)
        else:
            stable = self._stabilize(current, desired, up, down, now)
            lower = _LOWER_BEFORE if desired >= current else _HIGHER_BEFORE
            reason = _MATCHES if stable == desired else lower
            replicas, limit = self._apply_rates(current, stable, minimum, maximum, up, down, now)
        self._recommendations.append((now, desired))
        self._forget(up, down, now)
        return Decision(replicas, reason, replicas != stable, limit)

    def _since(self, cutoff: float) -> list[int]:
        return [replicas for moment, replicas in self._recommendations if moment >= cutoff]

    def _stabilize(
        self, current: int, desired: int, up: HPAScalingRules, down: HPAScalingRules, now: float
    ) -> int:
        lowest = min([desired, *self._since(now - _window(up, 0.0))]) if _window(up, 0.0) else desired
        highest = max([desired, *self._since(now - _window(down, DOWNSCALE_STABILIZATION))])
        if not _window(down, DOWNSCALE_STABILIZATION):
            highest = desired
        return min(max(current, lowest), highest)

    def _apply_rates(
        self,
        current: int,
        desired: int,
        minimum: int,
        maximum: int,
        up: HPAScalingRules,
        down: HPAScalingRules,
        now: float,
    ) -> tuple[int, Reason]:
        if desired > current:
            limit = max(self._limit(current, up, now, sign=1), current)
            allowed, reason = (limit, _UP_LIMIT) if maximum > limit else (maximum, _TOO_MANY)
            if desired > allowed:
                return allowed, reason
        elif desired < current:
            limit = min(self._limit(current, down, now, sign=-1), current)
            allowed, reason = (limit, _DOWN_LIMIT) if minimum < limit else (minimum, _TOO_FEW)
            if desired < allowed:
                return allowed, reason
        return desired, _WITHIN_RANGE

    def _limit(self, current: int, rules: HPAScalingRules, now: float, *, sign: int) -> int:
        """Return the most extreme number of replicas that the policies allow."""
        if rules.select_policy == "Disabled":
            return current
        limits = []
        for policy in rules.policies or ():
            start = current - self._change_since(now - (policy.period_seconds or 0))
            value = policy.value or 0
            if policy.type == "Pods":
                limits.append(start + sign * value)
            elif sign > 0:
                limits.append(math.ceil(start * (1 + value / 100)))
            else:
                limits.append(int(start * (1 - value / 100)))
        if not limits:
            return current
        largest_change = rules.select_policy != "Min"
        return max(limits) if (sign > 0) == largest_change else min(limits)

    def _change_since(self, cutoff: float) -> int:
        return sum(change for moment, change in self._changes if moment > cutoff)

    def _forget(self, up: HPAScalingRules | None, down: HPAScalingRules | None, now: float) -> None:
        window = max(_window(up, 0.0), _window(down, DOWNSCALE_STABILIZATION), DOWNSCALE_STABILIZATION)
        self._recommendations = [each for each in self._recommendations if each[0] >= now - window]
        period = max([0, *_periods(up), *_periods(down)])
        self._changes = [each for each in self._changes if each[0] > now - period]


def _window(rules: HPAScalingRules | None, default: float) -> float:
    seconds = rules.stabilization_window_seconds if rules is not None else None
    return default if seconds is None else float(seconds)


def _periods(rules: HPAScalingRules | None) -> Iterable[int]:
    policies = rules.policies if rules is not None else None
    return [policy.period_seconds or 0 for policy in policies or ()]


def _apply_default_limits(current: int, desired: int, minimum: int, maximum: int) -> tuple[int, Reason]:
    """Apply the limits without a behavior: at most twice as many replicas, or four."""
    limit = max(2 * current, 4)
    allowed, reason = (limit, _UP_LIMIT) if maximum > limit else (maximum, _TOO_MANY)
    if desired < minimum:
        return minimum, _TOO_FEW
    if desired > allowed:
        return allowed, reason
    return desired, _WITHIN_RANGE
