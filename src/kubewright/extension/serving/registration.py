"""Registration of a running extension API server with its cluster.

The cluster forwards a group version to the Service that its APIService names. In development there are no
pods behind that Service: it is of type ExternalName and names the address of this process.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from kubewright.api.apiregistration.v1 import APIService
from kubewright.api.core.v1 import Service, ServiceSpec
from kubewright.api.errors import APIError, Conflict, NotFound
from kubewright.api.meta import ObjectMeta
from kubewright.apiserver.delegation import SIMULATED_ANNOTATION, api_services
from kubewright.client.errors import ConnectionFailed
from kubewright.manager.operators.crd_checks import OWNER_ANNOTATION
from kubewright.manager.operators.installation import InstallationError, installing

if TYPE_CHECKING:
    from kubewright.apiserver.http.server import HTTPServer
    from kubewright.client import Client

logger = logging.getLogger(__name__)

TIMEOUT = 30.0
"""Seconds until the cluster must have reached the server."""


class Registration:
    """The APIServices of a server and, with `address`, their ExternalName Service."""

    def __init__(
        self,
        cluster: Client,
        owner: str,
        https: HTTPServer,
        *,
        service: str,
        namespace: str,
        address: tuple[str, int] | None = None,
        group_priority: int = 1000,
        sets_ca_bundle: bool = True,
    ) -> None:
        """`sets_ca_bundle` is false if another component writes the CA bundle."""
        self._cluster = cluster.with_field_manager(owner)
        self._owner = owner
        self._address = address
        self._service = service
        self._namespace = namespace
        self._port = address[1] if address is not None else 443
        self.objects: list[APIService] = api_services(
            https, service=service, namespace=namespace, port=self._port, group_priority=group_priority
        )
        for each in self.objects:
            each.metadata.annotations = {OWNER_ANNOTATION: owner}
            if each.spec is not None and not sets_ca_bundle:
                each.spec.ca_bundle = None

    async def register(self) -> None:
        """Apply the APIServices; raise `InstallationError` if another server has a group version."""
        token = installing.set(True)
        try:
            for each in self.objects:
                await self._check(each)
            if self._address is not None:
                await self._apply_service(self._address[0])
            for each in self.objects:
                await self._cluster.apply(each, force=True)
        finally:
            installing.reset(token)
        logger.info("registered API services", extra={"api_services": [each.name for each in self.objects]})

    async def wait_until_available(self, timeout: float = TIMEOUT) -> None:
        """Wait until the cluster forwards requests; raise `InstallationError` with its reason otherwise."""
        for each in self.objects:
            message = "no condition was set"

            def is_available(found: APIService | None) -> bool:
                nonlocal message
                conditions = (found.status.conditions if found and found.status else None) or []
                current = next((one for one in conditions if one.type == "Available"), None)
                if current is not None:
                    message = f"{current.reason}: {current.message}"
                return current is not None and current.status == "True"

            try:
                await self._cluster.wait(APIService, each.name, until=is_available, timeout=timeout)
            except TimeoutError:
                raise InstallationError(
                    f"APIService {each.name} is not available after {timeout:g} s ({message}); if the API "
                    "server of the cluster cannot reach this machine, set KUBEWRIGHT_EXTERNAL_ADDRESS to the "
                    "host:port of a tunnel"
                ) from None
        self._cluster.mapper.invalidate()

    async def _check(self, wanted: APIService) -> None:
        try:
            found = await self._cluster.get(APIService, wanted.name)
        except NotFound:
            return
        if (found.metadata.annotations or {}).get(OWNER_ANNOTATION) == self._owner:
            return
        service = found.spec.service if found.spec else None
        if service is None and SIMULATED_ANNOTATION in (found.metadata.annotations or {}):
            return
        if service is None:
            raise InstallationError(
                f"the cluster serves {wanted.name} itself, for example from a CRD; delete that CRD, or "
                "choose another group or version"
            )
        if (service.namespace, service.name) != (self._namespace, self._service):
            raise InstallationError(
                f"APIService {wanted.name} belongs to the Service {service.namespace}/{service.name}; delete "
                "it, or choose another group or version"
            )

    async def _apply_service(self, host: str) -> None:
        metadata = ObjectMeta(
            name=self._service, namespace=self._namespace, annotations={OWNER_ANNOTATION: self._owner}
        )
        try:
            found = await self._cluster.get(Service, self._service, namespace=self._namespace)
        except NotFound:
            pass
        else:
            if (found.metadata.annotations or {}).get(OWNER_ANNOTATION) != self._owner:
                raise InstallationError(
                    f"Service {self._namespace}/{self._service} was not created by {self._owner}; choose "
                    "another name with KUBEWRIGHT_SERVICE"
                )
        spec = ServiceSpec(type="ExternalName", external_name=host)
        await self._cluster.apply(Service(metadata=metadata, spec=spec), force=True)

    async def unregister(self) -> None:
        """Delete the APIServices and the Service that still belong to this process."""
        token = installing.set(True)
        try:
            async with asyncio.timeout(10.0):
                for each in self.objects:
                    await self._delete(each.name)
                if self._address is not None:
                    await self._delete_service()
        except (APIError, ConnectionFailed, TimeoutError) as error:
            logger.warning(
                "could not delete API services; the cluster responds with 503 for them",
                extra={"api_services": [each.name for each in self.objects], "error": str(error)},
            )
        finally:
            installing.reset(token)

    async def _delete(self, name: str) -> None:
        try:
            found = await self._cluster.get(APIService, name)
            service: Any = found.spec.service if found.spec else None
            if service is not None and (service.name, service.port) == (self._service, self._port):
                await self._cluster.delete(found)
        except (NotFound, Conflict):
            return

    async def _delete_service(self) -> None:
        try:
            found = await self._cluster.get(Service, self._service, namespace=self._namespace)
            if (found.metadata.annotations or {}).get(OWNER_ANNOTATION) == self._owner:
                await self._cluster.delete(found)
        except (NotFound, Conflict):
            return
