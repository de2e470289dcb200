"""What the controllers of a CSI driver share: the driver, the client and the events.

In a cluster of the CSI project each of them is a container of its own beside the driver
(external-provisioner, external-attacher and so on). Annotations, finalizers, events and names are those of
these containers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

from kubewright.api.meta import MetaObject
from kubewright.cache import CachedClient
from kubewright.controller import Controller, Request
from kubewright.controller.manager_protocol import ManagerProtocol
from kubewright.manager.events import EventRecorder

from .client import CSIClient
from .messages import ControllerCall

PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


class Sidecar(ABC):
    """Base class of the controllers of a driver."""

    def __init__(self, manager: ManagerProtocol, recorder: EventRecorder, driver: CSIClient) -> None:
        self._manager = manager
        self._recorder = recorder
        self._driver = driver

    @abstractmethod
    def add(self) -> list[Controller[Request]]:
        """Add the controllers to the manager."""

    @property
    def _client(self) -> CachedClient:
        client = self._manager.client
        assert isinstance(client, CachedClient)
        return client

    @property
    def _separates_writers(self) -> bool:
        return self._driver.supports(ControllerCall.SINGLE_NODE_MULTI_WRITER)

    def _event(
        self, about: MetaObject, type_: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        self._recorder.event(about, type_, reason, message)
