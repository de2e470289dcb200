"""Load balancers of Services (`service-lb-controller`).

A service of the type LoadBalancer gets a load balancer of the cloud, whose addresses are written to its
status. A finalizer keeps the service until the load balancer is deleted. When nodes are added or removed, the
load balancers are updated.

Changes of a service and of nodes use one queue: a load balancer is never changed concurrently.

Permissions: get, list and watch of Services, patch of their status; list and watch of Nodes; create and patch
of Events.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kubewright.api.core.v1 import LoadBalancerIngress, LoadBalancerStatus, Node, Service
from kubewright.api.encoding.codec import to_plain
from kubewright.api.errors import APIError, NotFound
from kubewright.api.finalizers import has_finalizer
from kubewright.cache.stores.store import ObjectChange
from kubewright.client import patches
from kubewright.controller import Controller, ControllerBuilder, Request
from kubewright.controller.manager_protocol import ManagerProtocol
from kubewright.controller.queues.rate_limiters import ExponentialFailureRateLimiter
from kubewright.manager.events import EventRecorder, EventType

from .provider import ImplementedElsewhere, LoadBalancers, RetryAfter
from .service_fields import (
    FINALIZER,
    affects_load_balancers,
    needs_cleanup,
    needs_update,
    provider_ids,
    select_nodes,
    wants_load_balancer,
)

logger = logging.getLogger(__name__)

NAME: Final = "service-lb-controller"
EVENT_SOURCE: Final = "service-controller"
MIN_RETRY_DELAY: Final = 5.0
MAX_RETRY_DELAY: Final = 300.0
MAX_NODE_NAMES: Final = 20
"""Number of node names in an event about a failed update."""
_NO_NODES: Final = "There are no available nodes for LoadBalancer"


class SyncError(Exception):
    """A load balancer could not be synced."""


class ServiceController:
    """Reconciles the load balancers of services."""

    def __init__(
        self,
        manager: ManagerProtocol,
        recorder: EventRecorder,
        load_balancers: LoadBalancers,
        *,
        cluster: str = "kubernetes",
        workers: int = 1,
    ) -> None:
        """`workers`: number of load balancers that are synced concurrently."""
        self._manager = manager
        self._client = manager.client
        self._recorder = recorder
        self._load_balancers = load_balancers
        self._cluster = cluster
        self._workers = workers
        self._known: dict[Request, Service] = {}
        """Services that have, or may have, a load balancer."""
        self._synced_nodes: dict[Request, Mapping[str, str]] = {}
        self._changed: set[Request] = set()
        """Services that need a complete sync; others in the queue only need the current nodes."""

    def add(self) -> Controller[Request]:
        """Add the controller to the manager."""
        builder: ControllerBuilder[Request] = ControllerBuilder(self._manager, NAME)
        builder.watches(Service, handler=self._on_service).watches(Node, handler=self._on_node)
        limiter = ExponentialFailureRateLimiter[Request](MIN_RETRY_DELAY, MAX_RETRY_DELAY)
        return builder.with_options(workers=self._workers, rate_limiter=limiter).complete(self.reconcile)

    def _on_service(self, change: ObjectChange) -> Iterable[Request]:
        request = Request(change.key.namespace, change.key.name)
        if change.new is None:
            return (request,) if request in self._known else ()
        new = change.new.decode(Service)
        old = change.old.decode(Service) if change.old is not None else None
        wanted = wants_load_balancer(new) if old is None else needs_update(old, new)
        if not wanted and not needs_cleanup(new):
            return ()
        self._changed.add(request)
        return (request,)

    def _on_node(self, change: ObjectChange) -> Iterable[Request]:
        old = change.old.decode(Node) if change.old is not None else None
        new = change.new.decode(Node) if change.new is not None else None
        return tuple(self._known) if affects_load_balancers(old, new) else ()

    async def reconcile(self, request: Request) -> None:
        """Sync the load balancer of one service."""
        service = await self._client.get_or_none(Service, request.name, namespace=request.namespace)
        before = self._known.get(request)
        if before is not None and (service is None or service.metadata.uid != before.metadata.uid):
            # Only without the finalizer, which another client must have removed.
            await self._delete(before)
            self._forget(request)
        if service is None:
            self._changed.discard(request)
            return
        complete = request in self._changed
        self._changed.discard(request)
        if not complete and await self._sync_nodes(request, service):
            return
        self._known[request] = service
        try:
            if wants_load_balancer(service) and not needs_cleanup(service):
                await self._ensure(request, service)
            else:
                await self._clean_up(service)
                self._forget(request)
        except Exception as error:
            self._changed.add(request)
            self._event(service, "SyncLoadBalancerFailed", f"Error syncing load balancer: {error}", "Warning")
            raise

    def _forget(self, request: Request) -> None:
        self._known.pop(request, None)
        self._synced_nodes.pop(request, None)

    async def _nodes(self) -> list[Node]:
        return select_nodes(await self._client.list(Node))

    # Services

    async def _ensure(self, request: Request, service: Service) -> None:
        self._event(service, "EnsuringLoadBalancer", "Ensuring load balancer")
        if not has_finalizer(service, FINALIZER):
            change: dict[str, object] = {"metadata": {"finalizers": [FINALIZER]}}
            await self._patch(service, change, "failed to add load balancer cleanup finalizer")
        nodes = await self._nodes()
        if not nodes:
            self._event(service, "UnAvailableLoadBalancer", _NO_NODES, "Warning")
        self._synced_nodes[request] = provider_ids(nodes)
        try:
            status = await self._load_balancers.ensure(self._cluster, service, nodes)
        except ImplementedElsewhere:
            logger.debug("load balancer is implemented elsewhere", extra=self._log_fields(service))
            return
        except Exception as error:
            raise _wrap("failed to ensure load balancer", error) from error
        self._event(service, "EnsuredLoadBalancer", "Ensured load balancer")
        logger.info("ensured load balancer", extra=self._log_fields(service))
        await self._patch_status(service, status)

    async def _clean_up(self, service: Service) -> None:
        try:
            existing = await self._load_balancers.get(self._cluster, service)
        except Exception as error:
            raise _wrap("failed to check if load balancer exists before cleanup", error) from error
        if existing is not None:
            self._event(service, "DeletingLoadBalancer", "Deleting load balancer")
            try:
                await self._load_balancers.ensure_deleted(self._cluster, service)
            except ImplementedElsewhere:
                logger.debug("load balancer is implemented elsewhere", extra=self._log_fields(service))
            except Exception as error:
                raise _wrap("failed to delete load balancer", error) from error
        if has_finalizer(service, FINALIZER):
            change: dict[str, object] = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
            await self._patch(service, change, "failed to remove load balancer cleanup finalizer")
        self._event(service, "DeletedLoadBalancer", "Deleted load balancer")
        logger.info("deleted load balancer", extra=self._log_fields(service))
        await self._patch_status(service, LoadBalancerStatus())

    async def _delete(self, service: Service) -> None:
        """Delete the load balancer of a service that does not exist any more."""
        self._event(service, "DeletingLoadBalancer", "Deleting load balancer")
        try:
            await self._load_balancers.ensure_deleted(self._cluster, service)
        except Exception as error:
            self._event(
                service, "DeleteLoadBalancerFailed", f"Error deleting load balancer: {error}", "Warning"
            )
            raise
        self._event(service, "DeletedLoadBalancer", "Deleted load balancer")

    async def _patch_status(self, service: Service, status: LoadBalancerStatus) -> None:
        before = (
            service.status.load_balancer if service.status is not None else None
        ) or LoadBalancerStatus()
        if _comparable(before) == _comparable(status):
            return
        ingress = to_plain(status).get("ingress") or None
        change: dict[str, object] = {"status": {"loadBalancer": {"ingress": ingress}}}
        await self._patch(service, change, "failed to update load balancer status")

    async def _patch(self, service: Service, change: dict[str, object], failure: str) -> None:
        # The role of the controller allows to patch the status only; that includes metadata.
        patch = patches.strategic_merge_patch(change)
        try:
            await self._client.patch(
                Service, service.name, patch, namespace=service.namespace, subresource="status"
            )
        except NotFound:
            logger.debug("service does not exist any more", extra=self._log_fields(service))
        except APIError as error:
            raise SyncError(f"{failure}: {error}") from error

    # Nodes

    async def _sync_nodes(self, request: Request, service: Service) -> bool:
        """Update the nodes of a load balancer if they have changed; return whether that succeeded."""
        if not wants_load_balancer(service) or needs_cleanup(service):
            return True
        nodes = await self._nodes()
        current = provider_ids(nodes)
        if current == self._synced_nodes.get(request):
            return True
        self._synced_nodes[request] = current
        try:
            await self._load_balancers.update(self._cluster, service, nodes)
        except ImplementedElsewhere:
            return True
        except Exception as error:
            if await self._is_missing(service):
                return True
            names = _limited_names(nodes)
            self._event(
                service,
                "UpdateLoadBalancerFailed",
                f"Error updating load balancer with new hosts {names} "
                f"[node names limited, total number of nodes: {len(nodes)}], error: {error}",
                "Warning",
            )
            logger.warning(
                "could not update load balancer", extra={**self._log_fields(service), "error": str(error)}
            )
            return False
        if nodes:
            self._event(service, "UpdatedLoadBalancer", "Updated load balancer with new hosts")
        else:
            self._event(service, "UnAvailableLoadBalancer", _NO_NODES, "Warning")
        return True

    async def _is_missing(self, service: Service) -> bool:
        try:
            return await self._load_balancers.get(self._cluster, service) is None
        except Exception as error:
            logger.warning(
                "could not read load balancer", extra={**self._log_fields(service), "error": str(error)}
            )
            return False

    def _event(self, service: Service, reason: str, message: str, type: EventType = "Normal") -> None:
        self._recorder.event(service, type, reason, message)

    def _log_fields(self, service: Service) -> dict[str, object]:
        name = self._load_balancers.name(self._cluster, service)
        return {"namespace": service.namespace, "service": service.name, "load_balancer": name}


def _wrap(message: str, error: Exception) -> Exception:
    """Return an error with a prefix; the delay of `RetryAfter` is kept."""
    text = f"{message}: {error}"
    return RetryAfter(text, delay=error.delay) if isinstance(error, RetryAfter) else SyncError(text)


def _limited_names(nodes: Sequence[Node]) -> str:
    """Return node names as kube-controller-manager formats a list of strings."""
    names = sorted(node.name for node in nodes[:MAX_NODE_NAMES])
    if len(nodes) > MAX_NODE_NAMES:
        names.append(f"<{len(nodes) - MAX_NODE_NAMES} more>")
    return f"[{' '.join(names)}]"


def _comparable(status: LoadBalancerStatus) -> list[tuple[object, ...]]:
    def fields(one: LoadBalancerIngress) -> tuple[object, ...]:
        mode = one.ip_mode or ("VIP" if one.ip else None)  # the default of the API server
        return one.ip or "", one.hostname or "", mode, one.ports or []

    return [fields(one) for one in status.ingress or ()]
