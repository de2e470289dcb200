"""Amounts of resources: what pods request and what nodes can allocate.

The request of a pod is the larger of what its containers request together and what its init containers
request one after another, with sidecars (restartable init containers) counted in both; pod-level requests
replace the sum for CPU, memory and huge pages; overhead is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubewright.api.core.v1 import Container, ContainerStatus, Pod
from kubewright.api.values.quantity import Quantity

CPU, MEMORY, EPHEMERAL_STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
DEFAULT_MILLI_CPU = 100
"""CPU that a container without a request is counted with when nodes are scored."""
DEFAULT_MEMORY = 200 * 1024 * 1024
"""Memory that a container without a request is counted with when nodes are scored."""

Amounts = dict[str, int]
"""Resource name to amount: CPU in thousandths, other resources in units."""


def amount_of(name: str, quantity: Quantity) -> int:
    """Return a quantity as a whole number: thousandths for CPU, units for other resources."""
    return quantity.as_int(-3) if name == CPU else quantity.as_int()


def amounts_of(quantities: Mapping[str, Quantity] | None) -> Amounts:
    """Return a resource list as whole numbers."""
    return {name: amount_of(name, quantity) for name, quantity in (quantities or {}).items()}


class Resources:
    """Amounts of the usual resources as attributes, and the others by name."""

    __slots__ = ("ephemeral_storage", "memory", "milli_cpu", "pods", "scalars")

    def __init__(self, amounts: Mapping[str, int] | None = None) -> None:
        self.milli_cpu = 0
        self.memory = 0
        self.ephemeral_storage = 0
        self.pods = 0
        self.scalars: Amounts = {}
        """Extended resources, huge pages and attachable volumes."""
        for name, amount in (amounts or {}).items():
            if name == CPU:
                self.milli_cpu = amount
            elif name == MEMORY:
                self.memory = amount
            elif name == EPHEMERAL_STORAGE:
                self.ephemeral_storage = amount
            elif name == PODS:
                self.pods = amount
            elif is_scalar(name):
                self.scalars[name] = amount

    def add(self, other: Resources) -> None:
        """Add the amounts of another one, except for the number of pods."""
        self.milli_cpu += other.milli_cpu
        self.memory += other.memory
        self.ephemeral_storage += other.ephemeral_storage
        for name, amount in other.scalars.items():
            self.scalars[name] = self.scalars.get(name, 0) + amount

    def subtract(self, other: Resources) -> None:
        """Subtract the amounts of another one, except for the number of pods."""
        self.milli_cpu -= other.milli_cpu
        self.memory -= other.memory
        self.ephemeral_storage -= other.ephemeral_storage
        for name, amount in other.scalars.items():
            self.scalars[name] = self.scalars.get(name, 0) - amount

    def copy(self) -> Resources:
        """Return an independent copy."""
        new = Resources()
        new.milli_cpu = self.milli_cpu
        new.memory = self.memory
        new.ephemeral_storage = self.ephemeral_storage
        new.pods = self.pods
        if self.scalars:
            new.scalars = dict(self.scalars)
        return new

    def get(self, name: str) -> int:
        """Return the amount of a resource by its name; 0 if it is not set."""
        if name == CPU:
            return self.milli_cpu
        if name == MEMORY:
            return self.memory
        if name == EPHEMERAL_STORAGE:
            return self.ephemeral_storage
        if name == PODS:
            return self.pods
        return self.scalars.get(name, 0)

    @property
    def is_empty(self) -> bool:
        """Whether no resource is requested."""
        return not (self.milli_cpu or self.memory or self.ephemeral_storage or self.scalars)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Resources):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        amounts = {name: getattr(self, name) for name in self.__slots__ if name != "scalars"}
        return f"Resources({ {**amounts, **self.scalars} })"


def is_scalar(name: str) -> bool:
    """Whether a resource is an extended resource, huge pages, or a number of attachable volumes."""
    if name.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return is_extended(name)


def is_extended(name: str) -> bool:
    """Whether a resource belongs to another domain than kubernetes.io, such as `example.com/gpu`."""
    if "/" not in name or name.startswith("requests."):
        return False
    return not name.partition("/")[0].endswith("kubernetes.io") or name.startswith("scheduling.k8s.io/")


def pod_amounts(pod: Pod, *, defaults: Mapping[str, int] | None = None) -> Amounts:
    """Return what a pod requests, with overhead.

    `defaults` are the amounts of containers that do not request a resource. For containers that were resized
    in place, the largest of the requested, allocated and actual amount counts.
    """
    spec, status = pod.spec, pod.status
    if spec is None:
        return {}
    statuses = _resized(status.container_statuses if status else None)
    statuses.update(_resized(status.init_container_statuses if status else None))
    total: Amounts = {}
    for container in spec.containers or ():
        _add(total, _container_amounts(container, statuses, defaults))
    if spec.init_containers:
        _add_init_containers(total, spec.init_containers, statuses, defaults)
    if spec.resources is not None and spec.resources.requests:
        for name, quantity in spec.resources.requests.items():
            if name in (CPU, MEMORY) or name.startswith("hugepages-"):
                total[name] = amount_of(name, quantity)
    if spec.overhead:
        _add(total, amounts_of(spec.overhead))
    return total


def _resized(statuses: Iterable[ContainerStatus] | None) -> dict[str, ContainerStatus]:
    return {status.name or "": status for status in statuses or () if status.resources is not None}


def _container_amounts(
    container: Container, statuses: Mapping[str, ContainerStatus], defaults: Mapping[str, int] | None
) -> Amounts:
    requests = container.resources.requests if container.resources is not None else None
    amounts = amounts_of(requests)
    status = statuses.get(container.name or "")
    if status is not None and status.resources is not None:
        _take_maximum(amounts, amounts_of(status.resources.requests))
        _take_maximum(amounts, amounts_of(status.allocated_resources))
    for name, amount in (defaults or {}).items():
        amounts.setdefault(name, amount)
    return amounts


def _add_init_containers(
    total: Amounts,
    containers: Iterable[Container],
    statuses: Mapping[str, ContainerStatus],
    defaults: Mapping[str, int] | None,
) -> None:
    sidecars: Amounts = {}
    largest: Amounts = {}
    for container in containers:
        amounts = _container_amounts(container, statuses, defaults)
        if container.restart_policy == "Always":
            _add(total, amounts)
            _add(sidecars, amounts)
            amounts = sidecars
        else:
            _add(amounts, sidecars)
        _take_maximum(largest, amounts)
    _take_maximum(total, largest)


def _add(total: Amounts, amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _take_maximum(total: Amounts, amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        if amount > total.get(name, 0):
            total[name] = amount
