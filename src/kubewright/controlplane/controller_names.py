"""Names of the controllers that can be disabled: those of kube-controller-manager."""

from __future__ import annotations

from collections.abc import Iterable

ALL = "*"
"""Name that disables all controllers."""

BUILT_IN = (
    "clusterrole-aggregation-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "persistentvolumeclaim-protection-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "storage-version-migrator-controller",
    "validatingadmissionpolicy-status-controller",
)
"""Controllers of `kubewright.controlplane.controllers`."""


def controller_names() -> list[str]:
    """Return all names, sorted."""
    from kubewright.workloads.controllers import component_names

    return sorted({*BUILT_IN, *component_names()})


def check_controller_names(names: Iterable[str]) -> None:
    """Raise `ValueError` for a name that does not exist."""
    wrong = set(names) - {ALL}
    if wrong and (wrong := wrong.difference(controller_names())):
        raise ValueError(
            f"unknown controllers {', '.join(sorted(wrong))}; expected some of "
            f"{', '.join(controller_names())}, or {ALL} for all"
        )


def disabled_components(names: frozenset[str], *, controllers: bool) -> frozenset[str]:
    """Return the disabled components of `kubewright.workloads`; without `controllers`, all controllers."""
    disabled = names.difference(BUILT_IN)
    return disabled if controllers else disabled | {ALL}
