"""The webhooks of a server, derived from the informers of their configurations.

A configuration is in force for the first request after its write was acknowledged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from .hook import Hook

if TYPE_CHECKING:
    from kubewright.controlplane.admission.sources import Object, ObjectInformer, ObjectSource

_GROUP: Final = "admissionregistration.k8s.io"


class HookIndex:
    """Every webhook of one configuration resource, in the order in which they are called."""

    def __init__(self, informers: ObjectSource, plural: str) -> None:
        self._informers = informers
        self._plural = plural
        self._informer: ObjectInformer | None = None
        self._generation = -1
        self._hooks: Sequence[Hook] = ()
        self._parsed: dict[str, tuple[str, Sequence[Hook]]] = {}
        """Webhooks by configuration name, with the resourceVersion they were read from."""

    @property
    def is_empty(self) -> bool:
        """Whether there is certainly no webhook."""
        informer = self._informer
        return (
            not self._hooks
            and informer is not None
            and informer.generation == self._generation
            and informer.is_fresh
        )

    async def hooks(self) -> Sequence[Hook]:
        """Return all webhooks, by the name of their configuration and their position in it."""
        informer = self._informer = await self._informers.informer(_GROUP, self._plural)
        if informer is None:
            return ()
        if informer.generation != self._generation:
            parsed = {}
            for configuration in informer.list():
                metadata = configuration["metadata"]
                known = self._parsed.get(metadata["name"])
                if known is None or known[0] != metadata["resourceVersion"]:
                    known = (metadata["resourceVersion"], _hooks_of(configuration))
                parsed[metadata["name"]] = known
            self._parsed = parsed
            self._hooks = [hook for _, hooks in parsed.values() for hook in hooks]
            self._generation = informer.generation
        return self._hooks


def _hooks_of(configuration: Object) -> list[Hook]:
    name = configuration["metadata"]["name"]
    counts: dict[str, int] = {}
    hooks = []
    for declared in configuration.get("webhooks") or ():
        position = counts.get(declared["name"], 0)
        counts[declared["name"]] = position + 1
        hooks.append(Hook.of(declared, name, position))
    return hooks
