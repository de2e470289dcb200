"""Pod failure policy and success policy of a Job."""

from __future__ import annotations

from typing import NamedTuple

from kubewright.api.batch.v1 import (
    Job,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyRule,
    SuccessPolicyRule,
)
from kubewright.api.core.v1 import ContainerStatus, Pod, PodCondition

from .pod_states import parse_indexes


class FailureMatch(NamedTuple):
    """What the pod failure policy says about a failed pod."""

    counts: bool
    """Whether the failure counts towards the backoff limit."""
    action: str = ""
    """The action of the rule that matched; empty if none did."""
    job_failure: str = ""
    """The message of the failure of the Job, for the action FailJob."""


def match_failure_policy(job: Job, pod: Pod) -> FailureMatch:
    """Return the result of the first rule that matches a failed pod."""
    assert job.spec is not None
    policy = job.spec.pod_failure_policy
    for index, rule in enumerate((policy.rules if policy is not None else None) or ()):
        reason = _match_rule(rule, pod)
        if not reason:
            continue
        action = rule.action or ""
        if action == "FailJob":
            return FailureMatch(True, action, f"{reason} matching {action} rule at index {index}")
        return FailureMatch(action != "Ignore", action)
    return FailureMatch(True)


def _match_rule(rule: PodFailurePolicyRule, pod: Pod) -> str:
    """Return what matched, as text; empty if the rule does not match."""
    place = f"{pod.namespace}/{pod.name}"
    if rule.on_exit_codes is not None:
        container = _failed_container(rule.on_exit_codes, pod)
        if container is None:
            return ""
        assert container.state is not None
        assert container.state.terminated is not None
        code = container.state.terminated.exit_code
        return f"Container {container.name} for pod {place} failed with exit code {code}"
    if rule.on_pod_conditions is not None:
        for condition in _conditions(pod):
            if any(
                condition.type == each.type and condition.status == (each.status or "True")
                for each in rule.on_pod_conditions
            ):
                return f"Pod {place} has condition {condition.type}"
    return ""


def _conditions(pod: Pod) -> list[PodCondition]:
    return (pod.status.conditions if pod.status is not None else None) or []


def _failed_container(
    requirement: PodFailurePolicyOnExitCodesRequirement, pod: Pod
) -> ContainerStatus | None:
    status = pod.status
    if status is None:
        return None
    containers: list[ContainerStatus] = [
        *(status.container_statuses or ()),
        *(status.init_container_statuses or ()),
    ]
    for container in containers:
        terminated = container.state.terminated if container.state is not None else None
        if terminated is None or not terminated.exit_code:
            continue
        if requirement.container_name is not None and requirement.container_name != container.name:
            continue
        listed = terminated.exit_code in (requirement.values or ())
        if listed == (requirement.operator == "In"):
            return container
    return None


def match_success_policy(job: Job, succeeded: set[int]) -> str:
    """Return the message of the first rule that the succeeded indexes meet; empty without a match."""
    assert job.spec is not None
    policy, completions = job.spec.success_policy, job.spec.completions or 0
    if policy is None or not succeeded:
        return ""
    for index, rule in enumerate(policy.rules or ()):
        if _meets(rule, completions, succeeded):
            return f"Matched rules at index {index}"
    return ""


def _meets(rule: SuccessPolicyRule, completions: int, succeeded: set[int]) -> bool:
    count = rule.succeeded_count
    if rule.succeeded_indexes is None:
        return count is not None and len(succeeded) >= count
    required = parse_indexes(rule.succeeded_indexes, completions)
    found = len(required & succeeded)
    return bool(required) and (found == len(required) or (count is not None and found >= count))
