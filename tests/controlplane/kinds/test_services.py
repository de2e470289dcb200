"""Services and the allocation of addresses and node ports."""

from __future__ import annotations

import asyncio
from typing import Any

SERVICES = "/api/v1/namespaces/ns/services"
PORTS = [{"port": 80}]


async def test_an_address_is_allocated(cluster: Any) -> None:
    made = await cluster.create(SERVICES, "s", spec={"ports": PORTS})
    spec = made["spec"]
    assert spec["clusterIP"].startswith("10.0.0.")
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert made["status"] == {"loadBalancer": {}}
    address = f"/apis/networking.k8s.io/v1/ipaddresses/{spec['clusterIP']}"
    _, record = await cluster.call("GET", address)
    assert record["spec"]["parentRef"] == {"resource": "services", "namespace": "ns", "name": "s"}
    await cluster.call("DELETE", f"{SERVICES}/s")
    assert (await cluster.call("GET", address))[0] == 404


async def test_an_address_is_allocated_once(cluster: Any) -> None:
    await cluster.create(SERVICES, "a", spec={"ports": PORTS, "clusterIP": "10.0.0.50"})
    wrong = await cluster.rejected(SERVICES, "b", spec={"ports": PORTS, "clusterIP": "10.0.0.50"})
    assert wrong["spec.clusterIPs"].endswith(
        "failed to allocate IP 10.0.0.50: provided IP is already allocated"
    )
    wrong = await cluster.rejected(SERVICES, "b", spec={"ports": PORTS, "clusterIP": "10.9.0.1"})
    assert "the provided network does not match the current range" in wrong["spec.clusterIPs"]
    status, error = await cluster.patch(f"{SERVICES}/a", {"spec": {"clusterIP": "10.0.0.51"}})
    assert (status, error["details"]["causes"][0]["field"]) == (422, "spec.clusterIPs[0]")


async def test_all_addresses_can_be_allocated(cluster: Any) -> None:
    taken = set()
    for batch in range(0, 253, 23):
        made = await asyncio.gather(
            *(
                cluster.create(SERVICES, f"s{number}", spec={"ports": PORTS})
                for number in range(batch, batch + 23)
            )
        )
        taken |= {one["spec"]["clusterIP"] for one in made}
    assert len(taken) == 253
    status, error = await cluster.call(
        "POST", SERVICES, {"metadata": {"name": "x"}, "spec": {"ports": PORTS}}
    )
    assert status == 422
    assert "range is full" in error["message"]


async def test_a_failed_create_releases_its_address(cluster: Any) -> None:
    body = {"metadata": {"name": "s"}, "spec": {"ports": PORTS, "clusterIP": "10.0.0.77"}}
    dry, _ = await cluster.call("POST", f"{SERVICES}?dryRun=All", body)
    assert dry == 201
    assert (await cluster.call("POST", SERVICES, body))[0] == 201
    assert (await cluster.call("POST", SERVICES, {**body, "spec": {"ports": PORTS}}))[0] == 409


async def test_a_rejected_service_releases_everything(cluster: Any) -> None:
    addresses = "/apis/networking.k8s.io/v1/ipaddresses"
    made = await cluster.create(SERVICES, "a", spec={"ports": PORTS, "type": "NodePort"})
    before = (await cluster.call("GET", addresses))[1]["items"]
    again = {"metadata": {"name": "a"}, "spec": {"ports": PORTS, "type": "NodePort"}}
    assert (await cluster.call("POST", SERVICES, again))[0] == 409
    again["spec"]["clusterIP"] = made["spec"]["clusterIP"]
    assert (await cluster.call("POST", SERVICES, again))[0] == 422
    taken = made["spec"]["ports"][0]["nodePort"]
    for port in (taken, 80):
        await cluster.rejected(
            SERVICES, "b", spec={"ports": [{"port": 80, "nodePort": port}], "type": "NodePort"}
        )
    external = {"type": "ExternalName", "externalName": "a.b"}
    await cluster.create(SERVICES, "c", spec=external)
    change = {"type": "NodePort", "externalName": None, "ports": [{"port": 80, "nodePort": taken}]}
    assert (await cluster.patch(f"{SERVICES}/c", {"spec": change}))[0] == 422
    assert (await cluster.call("GET", addresses))[1]["items"] == before
    ports = await cluster.server.storage.list(f"{cluster.server.prefix}ranges/servicenodeports/")
    assert [int(item.key.rpartition("/")[2]) for item in ports.items] == [taken]


async def test_an_unused_address_is_reused(cluster: Any) -> None:
    record = {
        "metadata": {
            "name": "10.0.0.99",
            "labels": {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"},
        },
        "spec": {"parentRef": {"resource": "services", "namespace": "ns", "name": "gone"}},
    }
    addresses = cluster.server.store("networking.k8s.io", "ipaddresses")
    old = {**record, "metadata": {**record["metadata"], "creationTimestamp": "2020-01-01T00:00:00Z"}}
    await addresses.storage.create(addresses.key("", "10.0.0.99"), await addresses.pack(old, "v1"))
    made = await cluster.create(SERVICES, "s", spec={"ports": PORTS, "clusterIP": "10.0.0.99"})
    assert made["spec"]["clusterIP"] == "10.0.0.99"
    _, taken = await cluster.call("GET", "/apis/networking.k8s.io/v1/ipaddresses/10.0.0.99")
    assert taken["spec"]["parentRef"]["name"] == "s"


async def test_node_ports(cluster: Any) -> None:
    made = await cluster.create(SERVICES, "n", spec={"type": "NodePort", "ports": PORTS})
    port = made["spec"]["ports"][0]["nodePort"]
    assert 30000 <= port <= 32767
    assert made["spec"]["externalTrafficPolicy"] == "Cluster"
    wrong = await cluster.rejected(
        SERVICES, "m", spec={"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}
    )
    assert wrong["spec.ports[0].nodePort"] == f"Invalid value: {port}: provided port is already allocated"
    wrong = await cluster.rejected(
        SERVICES, "m", spec={"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}
    )
    assert wrong["spec.ports[0].nodePort"].endswith("The range of valid ports is 30000-32767")
    _, made = await cluster.patch(f"{SERVICES}/n", {"spec": {"type": "ClusterIP"}})
    assert "nodePort" not in made["spec"]["ports"][0]
    await cluster.create(SERVICES, "m", spec={"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]})


async def test_an_update_keeps_allocated_values(cluster: Any) -> None:
    made = await cluster.create(SERVICES, "s", spec={"type": "NodePort", "ports": PORTS})
    status, kept = await cluster.call(
        "PUT", f"{SERVICES}/s", {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": PORTS}}
    )
    assert status == 200
    for field in ("clusterIP", "clusterIPs", "ports", "ipFamilies"):
        assert kept["spec"][field] == made["spec"][field]


async def test_headless_and_external_services(cluster: Any) -> None:
    made = await cluster.create(SERVICES, "h", spec={"clusterIP": "None", "selector": {"a": "b"}})
    assert made["spec"]["clusterIPs"] == ["None"]
    made = await cluster.create(SERVICES, "e", spec={"type": "ExternalName", "externalName": "a.b"})
    assert "clusterIP" not in made["spec"]
    wrong = await cluster.rejected(SERVICES, "x", spec={"type": "ExternalName"})
    assert wrong == {"spec.externalName": "Required value"}
    wrong = await cluster.rejected(SERVICES, "x", spec={})
    assert wrong == {"spec.ports": "Required value"}


async def test_ip_families_that_are_not_configured(cluster: Any) -> None:
    for spec, field in (
        ({"clusterIP": "fd00::1"}, "spec.clusterIPs[0]"),
        ({"ipFamilies": ["IPv4", "IPv6"]}, "spec.ipFamilyPolicy"),
        ({"ipFamilies": ["IPv6"]}, "spec.ipFamilies[0]"),
        ({"ipFamilyPolicy": "RequireDualStack"}, "spec.ipFamilyPolicy"),
    ):
        assert set(await cluster.rejected(SERVICES, "x", spec={"ports": PORTS, **spec})) == {field}
    made = await cluster.create(SERVICES, "h", spec={"clusterIP": "None", "ipFamilies": ["IPv6"]})
    assert made["spec"]["ipFamilies"] == ["IPv6", "IPv4"]
    assert made["spec"]["ipFamilyPolicy"] == "RequireDualStack"


async def test_an_update_keeps_absent_values(cluster: Any) -> None:
    made = await cluster.create(SERVICES, "a", spec={"ports": PORTS, "type": "NodePort"})
    status, kept = await cluster.patch(f"{SERVICES}/a", {"spec": {"clusterIPs": [], "ports": [{"port": 81}]}})
    assert status == 200
    assert kept["spec"]["clusterIPs"] == made["spec"]["clusterIPs"]
    assert kept["spec"]["ports"][0]["nodePort"] == made["spec"]["ports"][0]["nodePort"]


async def test_a_health_check_port_is_released_with_the_policy(cluster: Any) -> None:
    spec = {"ports": PORTS, "type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    made = await cluster.create(SERVICES, "a", spec=spec)
    assert made["spec"]["healthCheckNodePort"]
    status, changed = await cluster.patch(f"{SERVICES}/a", {"spec": {"externalTrafficPolicy": "Cluster"}})
    assert status == 200
    assert "healthCheckNodePort" not in changed["spec"]


async def test_annotations_of_services(cluster: Any) -> None:
    ranges = "service.beta.kubernetes.io/load-balancer-source-ranges"
    notes = {"annotations": {ranges: "10.0.0.0/8, x"}}
    wrong = await cluster.rejected(
        SERVICES, "a", metadata=notes, spec={"ports": PORTS, "type": "LoadBalancer"}
    )
    assert set(wrong) == {f"metadata.annotations[{ranges}]"}
    notes = {"annotations": {"service.kubernetes.io/topology-aware-hints": "auto"}}
    await cluster.create(SERVICES, "a", metadata=notes, spec={"ports": PORTS})
    assert cluster.warnings[0].endswith("please use service.kubernetes.io/topology-mode instead")


async def test_default_mode_of_load_balancer_addresses(cluster: Any) -> None:
    await cluster.create(SERVICES, "s", spec={"ports": PORTS, "type": "LoadBalancer"})
    change = {"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}]}}}
    status, patched = await cluster.patch(f"{SERVICES}/s/status", change)
    assert (status, patched["status"]["loadBalancer"]["ingress"]) == (
        200,
        [{"ip": "203.0.113.1", "ipMode": "VIP"}],
    )


async def test_node_ports_of_load_balancers_are_released(cluster: Any) -> None:
    """Without allocation, a removed node port is not restored, and one that is set is allocated."""
    port = {"name": "http", "port": 80, "protocol": "TCP"}
    spec: dict[str, Any] = {"type": "LoadBalancer", "ports": [port]}
    _, created = await cluster.call("POST", SERVICES, {"metadata": {"name": "lb"}, "spec": spec})
    number = created["spec"]["ports"][0]["nodePort"]
    created["spec"]["allocateLoadBalancerNodePorts"] = False
    status, kept = await cluster.call("PUT", f"{SERVICES}/lb", created)
    assert (status, kept["spec"]["ports"][0]["nodePort"]) == (200, number)
    other = {
        "metadata": {"name": "other"},
        "spec": {"type": "NodePort", "ports": [{**port, "nodePort": number}]},
    }
    assert (await cluster.call("POST", SERVICES, other))[0] == 422
    del kept["spec"]["ports"][0]["nodePort"]
    status, released = await cluster.call("PUT", f"{SERVICES}/lb", kept)
    assert (status, "nodePort" in released["spec"]["ports"][0]) == (200, False)
    assert (await cluster.call("POST", SERVICES, other))[0] == 201
    released["spec"]["ports"][0]["nodePort"] = number
    status, error = await cluster.call("PUT", f"{SERVICES}/lb", released)
    assert (status, "provided port is already allocated" in error["message"]) == (422, True)


async def test_node_ports_are_dropped_with_the_type(cluster: Any) -> None:
    """Also if a port was removed in the same update."""
    ports = [{"name": name, "port": number} for name, number in (("a", 80), ("b", 81))]
    spec: dict[str, Any] = {"type": "NodePort", "ports": ports}
    _, created = await cluster.call("POST", SERVICES, {"metadata": {"name": "np"}, "spec": spec})
    created["spec"].update(type="ClusterIP", ports=created["spec"]["ports"][1:])
    status, changed = await cluster.call("PUT", f"{SERVICES}/np", created)
    assert (status, "nodePort" in changed["spec"]["ports"][0]) == (200, False)
