"""Connection of the workload components to the control plane of this process, without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from kubewright.apiserver.authentication.user import AUTHENTICATED, MASTERS, User

from .in_process_clients import controller_user, ignore_warning, in_process_client

if TYPE_CHECKING:
    from kubewright.cache.informers.informer_handlers import ResourceEventHandler
    from kubewright.cache.stores.store import ObjectChange
    from kubewright.client import Client

    from .plane import ControlPlane

USER_AGENTS = {"system:kube-scheduler": "kube-scheduler", "system:node": "kubelet"}
"""User agents, which become field managers, by the first two parts of the user name."""
DEFAULT_USER_AGENT = "kube-controller-manager"
OWN_OBJECTS = {
    ("", "services"): ("default", "kubernetes"),
    ("", "endpoints"): ("default", "kubernetes"),
    ("networking.k8s.io", "servicecidrs"): ("", "kubernetes"),
}
"""Objects that the control plane creates when it starts; they need no workload component."""


class EmbeddedConnection:
    """A `kubewright.workloads.connection.ClusterConnection` to a `ControlPlane`."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._handlers: list[tuple[str, str, ResourceEventHandler]] = []

    def client(self, user: str) -> Client:
        """Return a client of a user."""
        return in_process_client(
            self._plane.server, _user(user), user_agent=_user_agent(user), on_warning=ignore_warning
        )

    def on_first_object(self, resource: str, callback: Callable[[], object], *, containing: str = "") -> None:
        """Call `callback` once, as soon as an object of the resource exists that contains the text."""
        text = containing.encode()
        plural, _, group = resource.partition(".")
        called = False
        own = OWN_OBJECTS.get((group, plural))

        def handle(change: ObjectChange) -> None:
            nonlocal called
            if called or change.type == "DELETED" or own == (change.namespace, change.name):
                return
            if text and text not in change.entry.raw:
                return
            called = True
            # The informer iterates its handlers now.
            asyncio.get_running_loop().call_soon(self._remove, group, plural, handle)
            callback()

        self._handlers.append((group, plural, handle))
        self._plane.informers.add_handler(group, plural, handle, needs="events" if text else "metadata")

    def _remove(self, group: str, plural: str, handle: ResourceEventHandler) -> None:
        if (group, plural, handle) in self._handlers:
            self._handlers.remove((group, plural, handle))
            self._plane.informers.remove_handler(group, plural, handle)

    def signing_key_pair(self) -> tuple[bytes, bytes] | None:
        """Return certificate and key (PEM) of the control plane's authority."""
        pair = self._plane.authority.pair
        return pair.certificate, pair.key

    def serving_authority(self) -> bytes | None:
        """Return the certificate (PEM) with which clients verify the control plane."""
        return self._plane.ca

    def close(self) -> None:
        """Drop the callbacks."""
        for handler in list(self._handlers):
            self._remove(*handler)


def _user(name: str) -> User:
    return controller_user(name) if ":" not in name else User(name, (AUTHENTICATED, MASTERS))


def _user_agent(name: str) -> str:
    return USER_AGENTS.get(":".join(name.split(":")[:2]), DEFAULT_USER_AGENT)
