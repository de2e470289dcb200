"""What a component gets: the shared manager and cache, with a client and an event recorder of its own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kubewright.cache import Cache, CachedClient
from kubewright.manager.events import EventRecorder

if TYPE_CHECKING:
    from kubewright.manager.manager import Manager
    from kubewright.runnable import Runnable

    from .pods import PodLister
    from .workloads import Workloads


class ComponentManager:
    """A manager as one component sees it; `ControllerBuilder` accepts it.

    Reads of all components share one cache. Writes and events have the identity of the component.
    """

    def __init__(
        self,
        manager: Manager,
        client: CachedClient,
        recorder: EventRecorder,
        *,
        pods: PodLister,
        workloads: Workloads,
    ) -> None:
        self.manager = manager
        self.client = client
        """Reads from the shared cache, including own writes; writes as the user of the component."""
        self.recorder = recorder
        """Records events in the name of the component."""
        self.pods = pods
        """Lists of cached pods, decoded once for all components."""
        self.workloads = workloads
        """The assembly, for components that need its options or other users (`workloads.connection`)."""

    @property
    def cache(self) -> Cache:
        """The shared cache."""
        return self.manager.cache

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)

    def add(self, runnable: Runnable) -> None:
        """Run a component with the manager."""
        self.manager.add(runnable)
