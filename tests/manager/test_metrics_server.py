"""The metrics server: contents and authorization."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import REGISTRY, Counter

from kubewright.api import ObjectMeta, Unstructured
from kubewright.api.core.v1 import ConfigMap, ServiceAccount
from kubewright.cache import Cache
from kubewright.client import Client
from kubewright.client.rest.metrics import ClientMetrics
from kubewright.controller import ControllerBuilder, Request
from kubewright.manager import Cluster, LeaderElector, Manager, Operator
from kubewright.manager.observability.http import HTTPServer, MetricsAuthorizer, metrics_server
from kubewright.recording import RecordingRing
from kubewright.testing import run_operator
from kubewright.testing.server import TestServer
from kubewright.tls.certificates import CertificateAuthority
from kubewright.tracing import SpanSource
from kubewright.webhook import CertificateFiles, SelfSignedCertificates


async def token_of(client: Client, name: str) -> str:
    await client.create(ServiceAccount(metadata=ObjectMeta(name=name, namespace="default")))
    account = client.subresource("token", ServiceAccount, name, namespace="default")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    response = await account.create(Unstructured(request))
    token: str = response.raw["status"]["token"]
    return token


async def allow_metrics(client: Client, account: str, path: str = "/metrics") -> None:
    group = "rbac.authorization.k8s.io"
    await client.create(
        Unstructured(
            {
                "apiVersion": f"{group}/v1",
                "kind": "ClusterRole",
                "metadata": {"name": "metrics-reader"},
                "rules": [{"nonResourceURLs": [path], "verbs": ["get"]}],
            }
        )
    )
    await client.create(
        Unstructured(
            {
                "apiVersion": f"{group}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "metrics-reader"},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "metrics-reader"},
                "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
            }
        )
    )


async def get(url: str, authority: bytes, token: str = "", path: str = "/metrics") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    context = ssl.create_default_context(cadata=authority.decode())
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}{path}", headers=headers, ssl=context) as response,
    ):
        return response.status, await response.text()


async def test_metrics_require_permission(client: Client, running: Callable[..., Any]) -> None:
    certificates = SelfSignedCertificates()
    server = metrics_server(
        host="127.0.0.1", port=0, certificates=certificates, authorizer=MetricsAuthorizer(client)
    )
    reader, other = await token_of(client, "prometheus"), await token_of(client, "other")
    await allow_metrics(client, "prometheus")
    async with running(server):
        await server.wait_until_started()
        url, authority = f"https://127.0.0.1:{server.port}", certificates.ca_bundle
        assert await get(url, authority) == (401, "Unauthorized\n")
        assert (await get(url, authority, "nonsense"))[0] == 401
        assert await get(url, authority, other) == (
            403,
            "Forbidden: system:serviceaccount:default:other cannot get /metrics\n",
        )
        status, text = await get(url, authority, reader)
        assert status == 200
        assert "python_info" in text
        assert (await get(url, authority, reader, "/other"))[0] == 403


async def test_decisions_are_cached(client: Client) -> None:
    asked: list[str] = []

    async def counting(call: Any, proceed: Any) -> Any:
        asked.append(call.path)
        return await proceed(call)

    now = [0.0]
    check = MetricsAuthorizer(client.with_interceptor(counting), clock=lambda: now[0])
    token = await token_of(client, "prometheus")
    for _ in range(3):
        assert (await check.check(f"Bearer {token}", "/metrics") or (0,))[0] == 403
    assert len(asked) == 2
    await allow_metrics(client, "prometheus")
    now[0] = 61
    assert await check.check(f"bearer {token}", "/metrics") is None


async def test_unreachable_server_denies_access(client: Client) -> None:
    async def away(call: Any, proceed: Any) -> Any:
        raise TimeoutError("no response")

    verdict = await MetricsAuthorizer(client.with_interceptor(away)).check("Bearer x", "/metrics")
    assert verdict == (500, "Authentication failed")


async def test_metric_names_of_controller_runtime(
    server: TestServer, running: Callable[..., Any], eventually: Callable[..., Any], tmp_path: Path
) -> None:
    client = server.client(metrics=ClientMetrics("in-process"))
    authority = CertificateAuthority.create("test")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    authority.issue("m", hosts=["127.0.0.1"], server=True).write(certificate, key)
    metrics = metrics_server(host="127.0.0.1", port=0, certificates=CertificateFiles(certificate, key))
    elector = LeaderElector(client, "metrics", namespace="default")
    manager = Manager(Cluster(client, allow=[ConfigMap]), elector=elector, handle_signals=False)
    manager.add(metrics)
    seen: list[Request] = []

    async def reconcile(request: Request) -> None:
        seen.append(request)

    ControllerBuilder(manager, "observed").for_(ConfigMap).complete(reconcile)
    await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
    async with running(manager):
        await eventually(lambda: seen)
        _, text = await get(f"https://127.0.0.1:{metrics.port}", authority.certificate)
    for line in (
        'controller_runtime_reconcile_total{controller="observed",result="success"}',
        'controller_runtime_reconcile_errors_total{controller="observed"} 0.0',
        'controller_runtime_terminal_reconcile_errors_total{controller="observed"} 0.0',
        'controller_runtime_reconcile_panics_total{controller="observed"} 0.0',
        'controller_runtime_reconcile_timeouts_total{controller="observed"} 0.0',
        'controller_runtime_reconcile_time_seconds_count{controller="observed"}',
        'controller_runtime_max_concurrent_reconciles{controller="observed"} 1.0',
        'controller_runtime_active_workers{controller="observed"}',
        'workqueue_depth{controller="observed",name="observed",priority=',
        'workqueue_adds_total{controller="observed",name="observed"}',
        'workqueue_queue_duration_seconds_count{controller="observed",name="observed"}',
        'workqueue_work_duration_seconds_count{controller="observed",name="observed"}',
        'workqueue_unfinished_work_seconds{controller="observed",name="observed"}',
        'workqueue_longest_running_processor_seconds{controller="observed",name="observed"}',
        'workqueue_retries_total{controller="observed",name="observed"}',
        'leader_election_master_status{name="metrics"} 1.0',
        "rest_client_requests_total{",
        "certwatcher_read_certificate_total",
        "certwatcher_read_certificate_errors_total",
    ):
        assert line in text, line


@pytest.mark.parametrize("missing", ["tls.crt", "tls.key"])
async def test_a_missing_certificate_names_the_file(tmp_path: Path, missing: str) -> None:
    CertificateAuthority.create("x").issue("m", hosts=["localhost"], server=True).write(
        tmp_path / "tls.crt", tmp_path / "tls.key"
    )
    (tmp_path / missing).unlink()
    files = CertificateFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    with pytest.raises(OSError, match=missing):
        await metrics_server(port=0, certificates=files).run(asyncio.Event())


async def test_metrics_of_the_program_are_served(client: Client) -> None:
    backups = Counter("test_backups_total", "Finished backups.", ["database"])
    backups.labels("a").inc()
    try:
        async with (
            run_operator(Operator("backups"), client, metrics_port=0, metrics_secure=False) as manager,
            aiohttp.ClientSession() as session,
        ):
            (server,) = [each for each in manager.runnables if isinstance(each, HTTPServer)]
            async with session.get(f"http://127.0.0.1:{server.port}/metrics") as response:
                assert 'test_backups_total{database="a"} 1.0' in await response.text()
    finally:
        REGISTRY.unregister(backups)


async def test_recordings_require_permission(client: Client, running: Callable[..., Any]) -> None:
    certificates = SelfSignedCertificates()
    token = await token_of(client, "prometheus")
    await allow_metrics(client, "prometheus", "/recording")
    async with Cache(client) as cache:
        ring = RecordingRing(cache, SpanSource(), "shop", seconds=60)
        for authorizer, expected in ((MetricsAuthorizer(client), 200), (None, 404)):
            server = metrics_server(
                host="127.0.0.1", port=0, certificates=certificates, authorizer=authorizer, ring=ring
            )
            async with running(server):
                await server.wait_until_started()
                url = f"https://127.0.0.1:{server.port}/recording"
                context = ssl.create_default_context(cadata=certificates.ca_bundle.decode())
                headers = {"Authorization": f"Bearer {token}"}
                async with aiohttp.ClientSession() as session:
                    async with session.get(url, headers=headers, ssl=context) as response:
                        assert response.status == expected
                        body = await response.read()
                    if authorizer is not None:
                        assert b'"operator":"shop"' in gzip.decompress(body)
                        async with session.get(url, ssl=context) as response:
                            assert response.status == 401
