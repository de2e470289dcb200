"""An allocator of IP addresses: a new claim gets a free address of a pool, which no other claim has.

Atomicity comes from storage: an address is reserved by creating the AllocatedAddress with its name, which
succeeds once, also with several replicas of the server on one etcd. The order of writes makes it safe to end
the server at any time:

    create a claim:  create the AllocatedAddress, then store the claim (a failure deletes the former)
    delete a claim:  remove the claim, then delete the AllocatedAddress

A server that ends in between leaves an AllocatedAddress without a claim, never a claim without its address
or two claims with the same one. `collect` deletes such addresses at start and when a pool is exhausted.
Kubernetes allocates the addresses of Services in the same way.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from kubewright import (
    APIServerApp,
    Client,
    Column,
    CustomResource,
    Denied,
    FieldError,
    ObjectMeta,
    Spec,
    resource,
)
from kubewright.api import AlreadyExists, NotFound, now
from kubewright.api.errors import invalid
from kubewright.apiserver import SYSTEM, APIServer, Operation, ResourceStore, Strategy, User
from kubewright.apiserver.in_process import InProcessTransport
from kubewright.extension import ObjectReader

GROUP = "ipam.example.com"
POOL_LABEL = f"{GROUP}/pool"
AGE = Column("Age", ".metadata.creationTimestamp", "date")
GRACE = timedelta(seconds=120)
"""Age at which an address without a claim is not that of a claim which is being created."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class IPPoolSpec(Spec):
    """The addresses of a pool."""

    cidr: str
    """Network of the addresses, such as 10.1.0.0/24."""
    reserved: list[str] = []
    """Addresses that are never allocated."""


@resource(group=GROUP, version="v1", scope="Cluster", columns=(Column("CIDR", ".spec.cidr"), AGE))
class IPPool(CustomResource[IPPoolSpec, None]):
    """A pool of addresses."""


class IPClaimSpec(Spec):
    """The pool, and the address that the server sets."""

    pool: str
    """Name of the IPPool."""
    address: str = ""
    """The allocated address; a claim can request one when it is created."""


@resource(
    group=GROUP,
    version="v1",
    selectable_fields=(".spec.address",),
    columns=(Column("Pool", ".spec.pool"), Column("Address", ".spec.address"), AGE),
)
class IPClaim(CustomResource[IPClaimSpec, None]):
    """A request for an address; it has the address until it is deleted."""


class AllocatedAddressSpec(Spec):
    """The claim of an address."""

    namespace: str
    """Namespace of the IPClaim."""
    claim: str
    """Name of the IPClaim."""


@resource(
    group=GROUP,
    version="v1",
    scope="Cluster",
    plural="allocatedaddresses",
    columns=(Column("Namespace", ".spec.namespace"), Column("Claim", ".spec.claim"), AGE),
)
class AllocatedAddress(CustomResource[AllocatedAddressSpec, None]):
    """An allocated address; its name is the address. Only the server writes them."""


def addresses(pool: IPPool) -> tuple[int, int, set[str]]:
    """Return the first address of a pool as a number, how many there are, and those that are reserved."""
    network = ipaddress.ip_network(pool.spec.cidr)
    reserved = {str(ipaddress.ip_address(each)) for each in pool.spec.reserved}
    if network.num_addresses > 2:
        reserved |= {str(network.network_address), str(network.broadcast_address)}
    return int(network.network_address), network.num_addresses, reserved


class Allocator(Strategy):
    """The strategy of claims: reserves an address before a claim is stored, releases it after its removal."""

    client: Client

    def on_attach(self, store: ResourceStore) -> None:
        """Connect to the server itself."""
        self.client = Client.from_transport(InProcessTransport(store.server, SYSTEM))

    async def prepare_for_create(self, op: Operation, obj: dict[str, Any]) -> None:
        """Set the address of a new claim."""
        spec, name = obj["spec"], obj["metadata"]["name"]
        try:
            pool = await self.client.get(IPPool, spec["pool"])
        except NotFound:
            error = FieldError.not_found("spec.pool", spec["pool"])
            raise invalid(op.resource.group_kind, name, [error]) from None
        address = spec.get("address") or ""
        if op.dry_run:
            return
        wanted = AllocatedAddressSpec(namespace=op.namespace, claim=name)
        if address:
            found = address if await self._reserve(pool, address, wanted) else None
        else:
            found = await self._reserve_any(pool, wanted)
        if found is None:
            text = f"pool {pool.name} has no free address" if not address else "is not free in the pool"
            raise invalid(op.resource.group_kind, name, [FieldError.invalid("spec.address", address, text)])
        spec["address"] = found
        op.on_failure(lambda: self.release(found))

    async def after_delete(self, op: Operation, obj: dict[str, Any]) -> None:
        """Release the address of a removed claim."""
        await self.release(obj["spec"]["address"])

    async def _reserve_any(self, pool: IPPool, wanted: AllocatedAddressSpec) -> str | None:
        first, count, reserved = addresses(pool)
        for attempt in range(2):
            used = {
                each.name for each in await self.client.list(AllocatedAddress, labels={POOL_LABEL: pool.name})
            }
            start = random.randrange(count)
            for offset in range(min(count, len(used | reserved) + 64)):
                address = str(ipaddress.ip_address(first + (start + offset) % count))
                if address in used or address in reserved:
                    continue
                if await self._reserve(pool, address, wanted):
                    return address
            if attempt == 0 and not await self.collect():
                return None
        return None

    async def _reserve(self, pool: IPPool, address: str, wanted: AllocatedAddressSpec) -> bool:
        """Create the AllocatedAddress; return whether it was free."""
        first, count, reserved = addresses(pool)
        number = int(ipaddress.ip_address(address)) - first
        if not 0 <= number < count or address in reserved:
            return False
        metadata = ObjectMeta(name=address, labels={POOL_LABEL: pool.name})
        try:
            await self.client.create(AllocatedAddress(metadata=metadata, spec=wanted))
        except AlreadyExists:
            return False
        return True

    async def release(self, address: str) -> None:
        """Delete an AllocatedAddress."""
        await self.client.delete(AllocatedAddress, address, missing_ok=True)

    async def collect(self) -> int:
        """Delete addresses without a claim, except new ones; return how many there were."""
        claims = {each.spec.address async for each in self.client.list(IPClaim)}
        count = 0
        async for each in self.client.list(AllocatedAddress):
            created = each.metadata.creation_timestamp
            if each.name not in claims and created is not None and created < now() - GRACE:
                await self.client.delete(each, missing_ok=True)
                count += 1
        return count


class AddressStrategy(Strategy):
    """The strategy of AllocatedAddresses, whose names are addresses."""

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """Accept canonical addresses."""
        try:
            return [] if str(ipaddress.ip_address(name)) == name else ["must be a canonical IP address"]
        except ValueError:
            return ["must be a valid IP address"]


app = APIServerApp("ipam")
app.add(IPPool)
app.add(IPClaim, strategy=Allocator())
app.add(AllocatedAddress, strategy=AddressStrategy())


@app.configure
def collect_at_start(server: APIServer) -> None:
    claims = server.store(GROUP, "ipclaims")
    assert claims is not None
    assert isinstance(claims.resource.strategy, Allocator)
    server.add_start_hook(claims.resource.strategy.collect)


@app.validate(IPPool)
def validate_pool(new: IPPool, old: IPPool | None) -> Iterable[FieldError]:
    try:
        ipaddress.ip_network(new.spec.cidr)
    except ValueError as error:
        yield FieldError.invalid("spec.cidr", new.spec.cidr, str(error))
    for index, each in enumerate(new.spec.reserved):
        try:
            ipaddress.ip_address(each)
        except ValueError as error:
            yield FieldError.invalid(f"spec.reserved[{index}]", each, str(error))
    if old is not None and new.spec.cidr != old.spec.cidr:
        yield FieldError.invalid("spec.cidr", new.spec.cidr, "field is immutable")


@app.validate(IPClaim, on=("update",))
def validate_claim(new: IPClaim, old: IPClaim) -> Iterable[FieldError]:
    if new.spec != old.spec:
        yield FieldError.invalid("spec", new.spec.address, "field is immutable")


@app.admit(IPPool, on=("delete",))
async def keep_used_pools(pool: IPPool, objects: ObjectReader) -> None:
    async for claim in objects.list(IPClaim):
        if claim.spec.pool == pool.name:
            raise Denied(f"the pool is used by the claim {claim.namespace}/{claim.name}")


@app.admit(AllocatedAddress, on=("create", "update", "delete"))
def only_the_server(new: AllocatedAddress | None, old: AllocatedAddress | None, user: User) -> None:
    if user.name != SYSTEM.name:
        raise Denied("addresses are allocated with claims")


@app.subresource(IPPool, "usage")
async def usage(pool: IPPool, objects: ObjectReader) -> dict[str, object]:
    _, count, reserved = addresses(pool)
    used = sorted(
        [each.name async for each in objects.list(AllocatedAddress, labels={POOL_LABEL: pool.name})]
    )
    return {"kind": "PoolUsage", "apiVersion": f"{GROUP}/v1", "total": count - len(reserved), "used": used}
