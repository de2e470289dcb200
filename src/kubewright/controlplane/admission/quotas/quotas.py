"""ResourceQuota: limits the total resource usage of a namespace.

The additional usage of a write is charged to the quotas of its namespace before it is stored, by an update
of the quota with its resource version: of two servers that charge at the same time, one reads the quota
again. The quota controller (`controllers.quotas`) recalculates usage: after deletions, and after writes
that failed once they were charged. It does not lower the usage while charged writes may not be stored yet.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kubewright.api.errors import APIError, Conflict, NotFound
from kubewright.api.gvk import GroupResource
from kubewright.api.values.quantity import Quantity
from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin, AdmissionRule
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.admission.rejection import reject
from kubewright.controlplane.in_process_clients import server_client
from kubewright.controlplane.informers import Informers

from . import usage
from .usage import Amounts

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer

RESOURCE_QUOTAS = GroupResource("", "resourcequotas")
ATTEMPTS = 10


class ResourceQuotas(AdmissionPlugin):
    """Charges quotas; rejects writes that exceed one."""

    name = "ResourceQuota"
    validating = True
    final = True
    rules = (
        AdmissionRule(("CREATE",), "*", ("*",)),
        AdmissionRule(
            ("UPDATE",),
            "",
            ("services", "persistentvolumeclaims", "persistentvolumeclaims/status", "pods/resize"),
        ),
    )
    """Creates, and updates that can increase usage."""

    def __init__(self, server: APIServer, informers: Informers) -> None:
        self._server = server
        self._informers = informers
        self._client = server_client(server)
        self.locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.in_flight: Counter[str] = Counter()
        """Charged writes of this process that are neither stored nor failed, by namespace."""
        self.written: dict[tuple[str, str], Object] = {}
        """Usage that this process wrote last, by namespace and name of the quota."""

    def handles(self, request: AdmissionAttributes) -> bool:
        """Handle objects in namespaces."""
        namespaces = request.resource.resource == "namespaces" and not request.resource.group
        return bool(request.namespace) and not namespaces

    async def validate(self, request: AdmissionAttributes) -> None:
        """Charge the additional usage of the object."""
        if not await self._informers.list("", "resourcequotas", namespace=request.namespace):
            return
        async with self.locks[request.namespace]:
            for _ in range(ATTEMPTS):
                try:
                    await self._charge(request)
                    return
                except Conflict:
                    continue
        raise APIError("resource quota evaluation timed out", code=500, reason="InternalError")

    async def _charge(self, request: AdmissionAttributes) -> None:
        assert request.object is not None
        resource = request.resource.group_resource
        added = usage.usage(resource, request.object)
        charges: list[tuple[Object, Amounts]] = []
        for quota in await self._informers.read_all("", "resourcequotas", namespace=request.namespace):
            hard = usage.quantities((quota.get("status") or {}).get("hard"))
            names = [name for name in hard if usage.concerns(resource, name)]
            if not names or not usage.in_scope(quota, resource, request.object):
                continue
            charge = self._amounts(request, quota, names, added)
            used = usage.quantities((quota.get("status") or {}).get("used"))
            unknown = [name for name in names if name not in used]
            if unknown:
                listed = ",".join(sorted(names))
                raise reject(
                    request, f"status unknown for quota: {quota['metadata']['name']}, resources: {listed}"
                )
            total = {name: used[name].add(amount) for name, amount in charge.items()}
            exceeded = [name for name in total if total[name] > hard[name]]
            if exceeded and request.subresource != "status":
                raise reject(request, _exceeded(quota, exceeded, charge, used, hard))
            if total:
                charges.append((quota, total))
        if request.dry_run or not charges:
            return
        self._count_in_flight(request)
        for quota, total in charges:
            await self._write_status(quota, total)

    def _count_in_flight(self, request: AdmissionAttributes) -> None:
        if request.on_finish is None or request.state.get(self):
            return
        request.state[self] = True
        namespace = request.namespace
        self.in_flight[namespace] += 1

        def finished() -> None:
            self.in_flight[namespace] -= 1
            if not self.in_flight[namespace]:
                del self.in_flight[namespace]

        request.on_finish(finished)

    def _amounts(
        self, request: AdmissionAttributes, quota: Object, names: Iterable[str], added: Amounts
    ) -> Amounts:
        """Return the additional usage of a write; reject pods without the required requests and limits."""
        resource, obj = request.resource.group_resource, request.object
        assert obj is not None
        if resource.resource == "pods" and not resource.group and request.operation == "CREATE":
            missing = usage.missing_for(obj, names)
            if missing:
                raise reject(request, f"failed quota: {quota['metadata']['name']}: {missing}")
        before: Amounts = {}
        old = request.old_object if request.operation == "UPDATE" else None
        if old is not None and usage.in_scope(quota, resource, old):
            before = usage.usage(resource, old)
        charge: Amounts = {}
        for name in names:
            amount = added.get(name, Quantity(0)).sub(before.get(name, Quantity(0)))
            if amount > Quantity(0):
                charge[name] = amount
        return charge

    async def _write_status(self, quota: Object, total: Amounts) -> None:
        status = quota["status"]
        status["used"] = {**status.get("used", {}), **{name: str(amount) for name, amount in total.items()}}
        body = {"apiVersion": "v1", "kind": "ResourceQuota", **quota}
        try:
            await self._client.update_status(body)
        except NotFound:
            return
        metadata = quota["metadata"]
        self.written[metadata["namespace"], metadata["name"]] = status["used"]


def _exceeded(quota: Object, names: Iterable[str], charge: Amounts, used: Amounts, hard: Amounts) -> str:
    def shown(amounts: Mapping[str, Quantity]) -> str:
        return ",".join(f"{name}={amounts[name]}" for name in sorted(names))

    return (
        f"exceeded quota: {quota['metadata']['name']}, requested: {shown(charge)}, used: {shown(used)}, "
        f"limited: {shown(hard)}"
    )
