"""Getting started: a server-side default and conditions."""

from __future__ import annotations

from typing import Annotated

from kubewright.api import Condition, CustomResource, Ge, Int32, Le, ListMap, Spec, Status, resource


class MemcachedSpec(Spec):
    """Desired state of memcached."""

    size: Annotated[Int32, Ge(0)] = 1
    """Number of instances."""

    container_port: Annotated[Int32, Ge(1), Le(65535)]
    """Port of the container."""


class MemcachedStatus(Status):
    """Observed state of memcached."""

    conditions: Annotated[list[Condition], ListMap("type")] | None = None
    """Available, Progressing and Degraded."""


@resource(group="cache.example.com", version="v1alpha1")
class Memcached(CustomResource[MemcachedSpec, MemcachedStatus]):
    """A group of memcached instances."""
