"""Addresses and CA bundles of webhooks."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

from kubewright.controlplane.webhooks import CallError, ServiceResolver, Target, WebhookClient
from kubewright.tls.certificates import CertificateAuthority

SERVICES = "/api/v1/namespaces/default/services"


def target(hooks, **config):
    return Target.of({"url": hooks.url("see"), "caBundle": hooks.bundle, **config})


def echo(body):
    return {"kind": "Echo", "body": body}


@pytest.fixture
async def client(plane):
    made = WebhookClient(ServiceResolver(plane.server))
    yield made
    await made.close()


def test_paths_are_cleaned():
    shown = [
        Target.of({"url": url}).url
        for url in ("https://h:1//mutate", "https://h:1/a/../b/", "https://h", "https://h/")
    ]
    assert shown == ["https://h:1/mutate", "https://h:1/b", "https://h/", "https://h/"]
    service = {"namespace": "n", "name": "s", "path": "//x"}
    assert Target.of({"service": service}).url == "https://s.n.svc:443/x"


async def test_a_url(hooks, client):
    hooks.handlers["see"] = echo
    assert (await client.post(target(hooks), b'{"a":1}'))["body"] == {"a": 1}


async def test_server_certificate_as_ca_bundle(hooks, client):
    hooks.handlers["see"] = echo
    leaf = b64encode(hooks.pair.certificate).decode()
    assert (await client.post(target(hooks, caBundle=leaf), b"{}"))["kind"] == "Echo"


async def test_untrusted_certificate(hooks, client):
    hooks.handlers["see"] = echo
    other = b64encode(CertificateAuthority.create("other").certificate).decode()
    with pytest.raises(CallError, match="x509: certificate signed by unknown authority"):
        await client.post(target(hooks, caBundle=other), b"{}")
    with pytest.raises(CallError, match="x509"):
        await client.post(target(hooks, caBundle=""), b"{}")
    with pytest.raises(CallError, match="unable to parse bytes as PEM block"):
        await client.post(target(hooks, caBundle=b64encode(b"nonsense").decode()), b"{}")
    assert hooks.asked == []


async def test_host_name_mismatch(hooks, client):
    hooks.handlers["see"] = echo
    wrong = Target.of({"url": hooks.url("see").replace("127.0.0.1", "localhost"), "caBundle": hooks.bundle})
    with pytest.raises(CallError, match=r"x509: certificate is valid for svc\.default\.svc, not localhost"):
        await client.post(wrong, b"{}")


async def test_an_unknown_host(client):
    with pytest.raises(CallError, match="no such host"):
        await client.post(Target.of({"url": "https://nosuch.invalid/"}), b"{}")


def service(name="svc", **spec):
    ports = [{"name": "web", "port": 443, "targetPort": 9443}]
    spec = {"clusterIP": "None", "selector": None, "ports": ports, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def slice_of(name, address, port):
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"{name}-1", "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["127.0.0.99"], "conditions": {"ready": False}},
            {"addresses": [address], "conditions": {"ready": True}},
        ],
        "ports": [{"name": "web", "port": port, "protocol": "TCP"}],
    }


async def test_a_service_through_its_endpoints(hooks, client, talk, plane):
    hooks.handlers["see"] = echo
    place = Target.of(
        {"service": {"namespace": "default", "name": "svc", "path": "/see"}, "caBundle": hooks.bundle}
    )
    with pytest.raises(CallError, match='service "svc" not found'):
        await client.post(place, b"{}")
    await talk.ok("POST", SERVICES, service())
    with pytest.raises(CallError, match='cannot route to service with ClusterIP "None"'):
        await client.post(place, b"{}")
    store = plane.server.store("discovery.k8s.io", "endpointslices")
    part = slice_of("svc", "127.0.0.1", hooks.port)  # loopback addresses are invalid in endpoints
    await store.storage.create(store.key("default", "svc-1"), json.dumps(part).encode())
    assert (await client.post(place, b"{}"))["kind"] == "Echo"


async def test_service_address_from_settings(hooks, plane):
    hooks.handlers["see"] = echo
    client = WebhookClient(ServiceResolver(plane.server, {"svc.default": f"https://127.0.0.1:{hooks.port}"}))
    place = Target.of(
        {"service": {"namespace": "default", "name": "svc", "path": "/see"}, "caBundle": hooks.bundle}
    )
    assert (await client.post(place, b"{}"))["kind"] == "Echo"
    await client.close()


async def test_invalid_address(plane):
    client = WebhookClient(ServiceResolver(plane.server, {"svc.default": "https://:x"}))
    place = Target.of({"service": {"namespace": "default", "name": "svc"}})
    with pytest.raises(CallError, match="is not https://host:port"):
        await client.post(place, b"{}")
    await client.close()
