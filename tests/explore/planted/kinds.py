"""The kinds that the planted operators manage, and what a planted operator consists of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from kubewright import CustomResource, ObjectMeta, Operator, Spec, Status, resource
from kubewright.api.markers import Ge
from kubewright.explore import ClusterState, Scenario, at_end
from kubewright.manifests.crds import crd

GROUP = "planted.example.com"
NAMESPACE = "default"
EXTERNAL = "external"
"""Namespace of objects that stand for resources outside of the cluster: they cannot have owners."""


class AppSpec(Spec):
    """Desired state of an app."""

    replicas: Annotated[int, Ge(0)] = 1
    settings: dict[str, str] | None = None
    part_name: str | None = None


class AppStatus(Status):
    """Observed state of an app."""

    observed_generation: int | None = None
    part: str | None = None
    phase: str | None = None
    count: int | None = None


@resource(group=GROUP, version="v1")
class App(CustomResource[AppSpec, AppStatus]):
    """An app that has parts."""


class PartSpec(Spec):
    """Desired state of a part."""

    size: int = 0
    settings: dict[str, str] = {}


@resource(group=GROUP, version="v1")
class Part(CustomResource[PartSpec, None]):
    """A part of an app."""


def app(name: str = "a", **spec: Any) -> App:
    """Return an app."""
    return App(metadata=ObjectMeta(name=name, namespace=NAMESPACE), spec=AppSpec(**spec))


def part(name: str, *, of: App | None = None, namespace: str = NAMESPACE, **spec: Any) -> Part:
    """Return a part with a label that names its app."""
    labels = {"app": of.name, "app-uid": of.metadata.uid or ""} if of is not None else None
    return Part(metadata=ObjectMeta(name=name, namespace=namespace, labels=labels), spec=PartSpec(**spec))


def generated(prefix: str, *, of: App, **spec: Any) -> Part:
    """Return a part whose name the API server generates."""
    metadata = ObjectMeta(generate_name=prefix, namespace=NAMESPACE, labels={"app": of.name})
    return Part(metadata=metadata, spec=PartSpec(**spec))


CRDS: list[dict[str, Any]] = [dict(crd(App)), dict(crd(Part))]
EXTERNAL_NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": EXTERNAL}}


@at_end
def no_records_without_apps(state: ClusterState) -> list[str]:
    """Require that external resources do not outlive their apps."""
    apps = {each.name for each in state.of_kind(App)}
    parts = state.of_kind(Part, namespace=EXTERNAL)
    return [f"{each} exists without an app" for each in parts if each.name not in apps]


@dataclass(frozen=True, kw_only=True)
class Planted:
    """An operator with one bug, and its corrected twin."""

    build: Callable[[bool], Operator]
    """Returns the corrected operator if its argument is true, else the one with the bug."""
    scenario: Scenario
    families: Sequence[str] = ()
    """Fault families of which at least one finds the bug; empty if the bug needs no fault."""
    finding: str
    """Part of the text of the violation that is expected."""
    variation: str = ""
    """Variation that finds the bug, such as `restart`, if no fault is needed."""
    topic: str = "faults"
    """Class of the bug, for the table in `docs/explore.md`."""
