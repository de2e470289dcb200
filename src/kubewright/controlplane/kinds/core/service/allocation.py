"""Allocation of cluster IPs and node ports.

A cluster IP is allocated by creating an `IPAddress` object, a node port by creating a record in storage;
both fail if the key exists, so no lock is needed. Allocations of a write that storage has rejected are
released. The records of a write whose outcome is unknown (the request timed out, the server was killed)
stay; the next allocation reuses them if no service has them, and `repair` releases them.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

from kubewright.apiserver.resources.objects import Object, current_timestamp
from kubewright.apiserver.resources.strategy import Operation
from kubewright.apiserver.rest.store import ResourceStore
from kubewright.storage.contract import KeyExists, KeyValue, RevisionMismatch

logger = logging.getLogger("kubewright.controlplane")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

DEFAULT_NETWORK = "10.0.0.0/24"
DEFAULT_CIDR = "kubernetes"
"""Name of the ServiceCIDR with the ranges of `--service-cluster-ip-range`."""

_REUSE_DELAY_SECONDS = 30.0
"""Time after which the records of a service that does not exist can be reused."""
_RANDOM_ATTEMPTS = 8


class ServiceAllocator:
    """Allocator of addresses and node ports for the services of one server."""

    def __init__(self, services: ResourceStore, ports: range) -> None:
        self.services = services
        self.server = services.server
        self.networks: list[Network] = []
        """All ranges; those of the ServiceCIDR `kubernetes` come first."""
        self.families: tuple[str, ...] = ()
        """The configured families, `IPv4` or `IPv6`; the first one is the default."""
        self.ports = ports
        self.rng = self.server.rng

    async def load(self) -> None:
        """Read the ranges of the ServiceCIDR objects, except those that are being deleted."""
        store = self.server.store("networking.k8s.io", "servicecidrs")
        defaults: list[str] = []
        others: list[str] = []
        if store is not None:
            for item in (await store.storage.list(store.prefix)).items:
                record = json.loads(item.value)
                is_default = record["metadata"]["name"] == DEFAULT_CIDR
                if is_default or "deletionTimestamp" not in record["metadata"]:
                    (defaults if is_default else others).extend(record["spec"].get("cidrs") or ())
        if not defaults and not others:
            defaults = [DEFAULT_NETWORK]
        self.networks = [ipaddress.ip_network(one) for one in (*defaults, *others)]
        families = (f"IPv{network.version}" for network in self.networks[: len(defaults) or 1])
        self.families = tuple(dict.fromkeys(families))

    def ranges(self, family: str) -> list[Network]:
        """Return the ranges of a family."""
        return [network for network in self.networks if f"IPv{network.version}" == family]

    def contains(self, address: str) -> bool:
        """Return whether an address is in a range."""
        try:
            value = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(
            value in network
            and value != network.network_address
            and (value != network.broadcast_address or value.version == 6)
            for network in self.networks
        )

    async def allocate_any_address(self, family: str, owner: str, op: Operation) -> str | None:
        """Allocate an address of a family, preferably of the upper part of a range; `None` if it is full."""
        for network in self.ranges(family):
            size = network.num_addresses - 2
            reserved = min(max(16, size // 16), 256) if size > 32 else 0
            for offset in self._offsets(size, reserved):
                address = str(network.network_address + 1 + offset)
                if await self.allocate_address(address, owner, op):
                    return address
        return None

    def _offsets(self, size: int, reserved: int) -> Iterator[int]:
        for _ in range(_RANDOM_ATTEMPTS):
            yield self.rng.randrange(reserved, size)
        start = self.rng.randrange(reserved, size)
        yield from range(start, size)
        yield from range(reserved, start)
        yield from range(reserved)

    async def allocate_address(self, address: str, owner: str, op: Operation) -> bool:
        """Allocate an address for a service (`namespace/name`); false if it is in use."""
        store = self.server.store("networking.k8s.io", "ipaddresses")
        assert store is not None, "addresses of services are IPAddress objects"
        value = await self._address_record(address, owner)
        return await self._allocate_key(store.key("", address), value, owner, op)

    async def _address_record(self, address: str, owner: str) -> bytes:
        store = self.server.store("networking.k8s.io", "ipaddresses")
        assert store is not None, "addresses of services are IPAddress objects"
        namespace, _, name = owner.partition("/")
        record: Object = {
            "kind": "IPAddress",
            "apiVersion": "networking.k8s.io/v1",
            "metadata": {
                "name": address,
                "uid": str(uuid.uuid4()),
                "creationTimestamp": current_timestamp(),
                "labels": {
                    "ipaddress.kubernetes.io/ip-family": "IPv6" if ":" in address else "IPv4",
                    "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
                },
            },
            "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": name}},
        }
        version = store.resource.hub_version or store.resource.storage_version
        return await store.pack(record, version)

    async def allocate_port(self, port: int, owner: str, op: Operation) -> bool:
        """Allocate a node port; false if it is in use."""
        return await self._allocate_key(self._port_key(port), _port_record(owner), owner, op)

    async def allocate_any_port(self, owner: str, op: Operation) -> int | None:
        """Allocate any node port; `None` if all are in use."""
        candidates = (self.ports[self.rng.randrange(len(self.ports))] for _ in range(_RANDOM_ATTEMPTS))
        port: int
        for port in chain(candidates, self.ports):
            if await self.allocate_port(port, owner, op):
                return port
        return None

    async def release(self, addresses: list[str], ports: list[int], owner: str) -> None:
        """Release addresses and ports of a service."""
        store = self.server.store("networking.k8s.io", "ipaddresses")
        assert store is not None, "addresses of services are IPAddress objects"
        keys = [self._port_key(port) for port in ports] + [store.key("", address) for address in addresses]
        for key in keys:
            item = await self.server.storage.get(key)
            if item is not None and _owner(item)[0] == owner:
                await self._release(key, item.mod_revision)

    async def repair(self) -> None:
        """Make the records equal to the addresses and ports of the stored services.

        Missing records are created, records of services that do not use them are deleted after
        `_REUSE_DELAY_SECONDS`, and duplicate addresses are logged.
        """
        addresses = self.server.store("networking.k8s.io", "ipaddresses")
        assert addresses is not None, "addresses of services are IPAddress objects"
        storage = self.server.storage
        records = {item.key: item for item in (await addresses.storage.list(addresses.prefix)).items}
        records |= {item.key: item for item in (await storage.list(self._port_key(""))).items}
        # Services are read after the records, so that the service of every complete write is included.
        used: dict[str, str] = {}
        # A service that cannot be decoded keeps its records: the list fails.
        for item in (await self.services.storage.list(self.services.prefix)).items:
            service = json.loads(item.value)
            owner = item.key.removeprefix(self.services.prefix)
            held_addresses, held_ports = allocations(service)
            for address in held_addresses:
                await self._restore_record(addresses.key("", address), owner, used, records)
            for port in held_ports:
                await self._restore_record(self._port_key(port), owner, used, records)
        for key, item in records.items():
            if key not in used and _is_managed(item) and await self._is_unused(item, ""):
                await self._release(key, item.mod_revision)
                logger.info("released an unused service allocation", extra={"key": key})

    async def _restore_record(
        self, key: str, owner: str, used: dict[str, str], records: dict[str, KeyValue]
    ) -> None:
        """Create the record of a service, or replace that of a service that does not use the value."""
        other = used.setdefault(key, owner)
        if other != owner:
            logger.error(
                "two services have the same cluster IP or node port",
                extra={"key": key, "service": owner, "other": other},
            )
            return
        item = records.get(key)
        if item is not None and _owner(item)[0] == owner:
            return
        held = key.rpartition("/")[2]
        address = not key.startswith(self._port_key(""))
        value = await self._address_record(held, owner) if address else _port_record(owner)
        try:
            if item is None:
                await self.server.storage.create(key, value)
            elif await self._is_unused(item, _owner(item)[0]):
                await self.server.storage.update(key, value, expected=item.mod_revision)
            else:
                return
        except (KeyExists, RevisionMismatch):
            return
        logger.warning("restored a service allocation", extra={"key": key, "service": owner})

    def _port_key(self, port: int | str) -> str:
        return f"{self.server.prefix}ranges/servicenodeports/{port}"

    async def _allocate_key(self, key: str, value: bytes, owner: str, op: Operation) -> bool:
        storage = self.server.storage
        if op.dry_run:
            taken = await storage.get(key)
            return taken is None or await self._is_unused(taken, owner)
        try:
            revision = await storage.create(key, value)
            op.on_failure(lambda: self._release(key, revision))
        except KeyExists as error:
            if not await self._is_unused(error.current, owner):
                return False
            try:
                await storage.update(key, value, expected=error.current.mod_revision)
            except RevisionMismatch:
                return False
        return True

    async def _release(self, key: str, revision: int) -> None:
        with suppress(RevisionMismatch):
            await self.server.storage.delete(key, expected=revision)

    async def _is_unused(self, item: KeyValue, owner: str) -> bool:
        """Return whether the service of a record does not use it."""
        holder, age = _owner(item)
        if holder != owner and age < _REUSE_DELAY_SECONDS:
            return False
        namespace, _, name = holder.partition("/")
        service = await self.services.storage.get(self.services.key(namespace, name))
        if service is None:
            return True
        spec = json.loads(service.value).get("spec") or {}
        held = item.key.rpartition("/")[2]
        ports = [str(port.get("nodePort")) for port in spec.get("ports") or ()]
        return held not in (spec.get("clusterIPs") or ()) and held not in (
            *ports,
            str(spec.get("healthCheckNodePort")),
        )


def allocations(service: Object) -> tuple[list[str], list[int]]:
    """Return the addresses and node ports of a service."""
    spec = service.get("spec") or {}
    addresses = [one for one in spec.get("clusterIPs") or () if one != "None"]
    ports = {port.get("nodePort") for port in spec.get("ports") or ()} | {spec.get("healthCheckNodePort")}
    return addresses, sorted(port for port in ports if port)


def _port_record(owner: str) -> bytes:
    return json.dumps({"owner": owner, "time": time.time()}).encode()


def _is_managed(item: KeyValue) -> bool:
    """Return whether a record was written by this allocator; users can create other IPAddress objects."""
    record = json.loads(item.value)
    labels = (record.get("metadata") or {}).get("labels") or {}
    return "owner" in record or labels.get("ipaddress.kubernetes.io/managed-by") == "ipallocator.k8s.io"


def _owner(item: KeyValue) -> tuple[str, float]:
    """Return the service of a record, and its age in seconds."""
    record = json.loads(item.value)
    if "owner" in record:
        return record["owner"], time.time() - record["time"]
    from kubewright.api.values.times import now, parse_time

    parent = (record.get("spec") or {}).get("parentRef") or {}
    created = (record.get("metadata") or {}).get("creationTimestamp")
    age = (now() - parse_time(created)).total_seconds() if created else _REUSE_DELAY_SECONDS
    return f"{parent.get('namespace') or ''}/{parent.get('name') or ''}", age
