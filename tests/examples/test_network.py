"""The `Network` example: reconciles a network of an external system."""

import pytest
from hypothesis import strategies as st

from kubewright.api.errors import Invalid
from kubewright.client import condition, is_deleted
from kubewright.testing import check_operator, run_operator
from network import Network, NetworkBackend, NetworkConfig, NetworkSpec, operator


class RecordingBackend(NetworkBackend):
    """Records changes of the external system; fails a given number of times."""

    def __init__(self, path, failures=0):
        super().__init__(path)
        self.calls = []
        self.failures = failures

    async def apply(self, id, config):
        self.calls.append(("apply", id, config))
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the network system is unavailable")
        await super().apply(id, config)

    async def delete(self, id):
        self.calls.append(("delete", id))
        await super().delete(id)


@pytest.fixture
def backend(tmp_path):
    backend = RecordingBackend(tmp_path / "networks.json")
    with operator.override(NetworkBackend, backend):
        yield backend


def network(world, cidr="192.168.0.0/16", gateway="192.168.0.1"):
    return Network(metadata=world.meta("a"), spec=NetworkSpec(cidr=cidr, gateway=gateway))


async def test_network_is_created_updated_and_deleted(world, backend):
    id = f"{world.namespace}-a"
    async with run_operator(operator, world.client):
        created = await world.client.create(network(world))
        ready = await world.client.wait(created, until=condition("Ready"), timeout=60)
        assert ready.status.id == id
        assert await backend.find(id) == NetworkConfig("192.168.0.0/16", "192.168.0.1")
        await world.wait_for_event("Created")

        ready.spec.gateway = "192.168.0.2"
        await world.client.update(ready)
        await world.wait_for_event("Updated")
        assert await backend.find(id) == NetworkConfig("192.168.0.0/16", "192.168.0.2")

        await world.client.delete(created)
        await world.wait_for(Network, "a", is_deleted)
        assert await backend.find(id) is None
    assert [call[0] for call in backend.calls] == ["apply", "apply", "delete"]


async def test_failures_of_the_outside_system_are_retried(world, backend):
    backend.failures = 3
    async with run_operator(operator, world.client):
        created = await world.client.create(network(world))
        await world.client.wait(created, until=condition("Ready"), timeout=60)
    assert len(backend.calls) == 4


async def test_restart_restores_a_network_that_was_changed_outside(world, backend):
    id = f"{world.namespace}-a"
    async with run_operator(operator, world.client):
        created = await world.client.create(network(world))
        await world.client.wait(created, until=condition("Ready"), timeout=60)
    await NetworkBackend(backend.path).apply(id, NetworkConfig("10.0.0.0/8", "10.0.0.1"))
    async with run_operator(operator, world.client):
        await world.wait_for_event("Updated")
        assert await backend.find(id) == NetworkConfig("192.168.0.0/16", "192.168.0.1")


@pytest.mark.parametrize(
    ("cidr", "gateway", "message"),
    [
        ("192.168.0.0", "192.168.0.1", "cidr must be a network"),
        ("192.168.0.0/16", "10.0.0.1", "gateway must be an address in cidr"),
        ("192.168.0.0/16", "gateway", "gateway must be an address in cidr"),
    ],
)
async def test_invalid_networks_are_rejected(world, cidr, gateway, message):
    await world.install(operator)
    with pytest.raises(Invalid, match=message):
        await world.client.create(network(world, cidr, gateway))


def test_properties(backend):
    ranges = {"10.0.0.0/8": "10.0.0.1", "192.168.0.0/16": "192.168.0.1"}
    check_operator(
        operator,
        Network,
        fields={
            "spec.cidr": st.sampled_from(list(ranges)),
            "spec.gateway": st.sampled_from(list(ranges.values())),
        },
        examples=4,
    )
    assert backend._read() == {}
