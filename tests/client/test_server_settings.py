"""Server settings that clients meet: 429 while caches of the server initialize, constrained impersonation."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from multidict import CIMultiDict

from kubewright.api import Forbidden, ObjectMeta, Unstructured
from kubewright.api.core.v1 import ConfigMap, ServiceAccount
from kubewright.api.rbac.v1 import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from kubewright.cache import Cache
from kubewright.client import Client, ClusterConfig, Impersonation
from kubewright.client.transport.interface import APIResponse, Transport
from kubewright.testing.server import TestServer, start_test_server

RBAC = "rbac.authorization.k8s.io"
INITIALIZING = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "message": "storage is (re)initializing",
    "reason": "TooManyRequests",
    "details": {"retryAfterSeconds": 1},
    "code": 429,
}


class ErrorStream:
    """The streamed form of a response."""

    def __init__(self, response: APIResponse) -> None:
        self.status, self.headers, self._body = response.status, response.headers, response.body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body

    async def aclose(self) -> None:
        """Do nothing."""


class InitializingTransport:
    """Returns 429 with `Retry-After` for `remaining` requests of ConfigMaps, then forwards."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.remaining = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _error(self, path: str) -> APIResponse | None:
        if not self.remaining or "/configmaps" not in path:
            return None
        self.remaining -= 1
        headers = CIMultiDict({"Retry-After": "1", "Content-Type": "application/json"})
        return APIResponse(429, headers, json.dumps(INITIALIZING).encode())

    async def send(self, method: str, path: str, *arguments: Any) -> APIResponse:
        return self._error(path) or await self._inner.send(method, path, *arguments)

    async def stream(self, method: str, path: str, *arguments: Any) -> Any:
        error = self._error(path)
        return ErrorStream(error) if error else await self._inner.stream(method, path, *arguments)


async def test_initializing_caches_of_the_server_are_retried(
    client: Client, server: TestServer, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0)

    transport = InitializingTransport(server.transport)
    retrying = Client.from_transport(cast(Transport, transport), sleep=sleep)
    created = await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace=namespace)))

    async def watch_one() -> str:
        async with retrying.watch(ConfigMap, namespace=namespace, resource_version=version) as watch:
            event = await anext(watch)
            return str(event.type)

    async def fill_cache() -> int:
        async with Cache(retrying, namespaces=[namespace]) as cache:
            return len([each async for each in cache.list(ConfigMap, namespace=namespace)])

    version = str(created.metadata.resource_version)
    await client.delete(created)
    await client.create(ConfigMap(metadata=ObjectMeta(name="b", namespace=namespace)))
    with caplog.at_level(logging.INFO, "kubewright"):
        for request in (
            lambda: retrying.get(ConfigMap, "b", namespace=namespace),
            lambda: retrying.create(ConfigMap(metadata=ObjectMeta(name="c", namespace=namespace))),
            watch_one,
            fill_cache,
        ):
            transport.remaining, done = 8, len(slept)
            caplog.clear()
            async with asyncio.timeout(60):
                await request()
            assert transport.remaining == 0
            assert all(1 <= each <= 1.5 for each in slept[done:])
            assert len(slept) - done == 8
            assert [
                record.getMessage() for record in caplog.records if "API server" in record.getMessage()
            ] == [
                "API server is unavailable, retrying",
                "API server is available again",
            ]
            warnings = [each for each in caplog.records if each.levelno >= logging.WARNING]
            assert len([each for each in warnings if each.name.startswith("kubewright.")]) == 1


async def grant(client: Client, name: str, account: str, *rules: PolicyRule) -> None:
    await client.create(ClusterRole(metadata=ObjectMeta(name=name), rules=list(rules)))
    subject = (
        Subject(kind="ServiceAccount", name=account, namespace="default")
        if account != "jane"
        else Subject(kind="User", name="jane", api_group=RBAC)
    )
    await client.create(
        ClusterRoleBinding(
            metadata=ObjectMeta(name=name),
            role_ref=RoleRef(api_group=RBAC, kind="ClusterRole", name=name),
            subjects=[subject],
        )
    )


async def token_of(client: Client, name: str) -> str:
    await client.create(ServiceAccount(metadata=ObjectMeta(name=name, namespace="default")))
    account = client.subresource("token", ServiceAccount, name, namespace="default")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token: str = (await account.create(Unstructured(request))).raw["status"]["token"]
    return token


async def test_constrained_impersonation() -> None:
    async with start_test_server("tls", controllers=False) as server:
        client = server.client()
        await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
        await grant(
            client,
            "jane",
            "jane",
            PolicyRule(api_groups=[""], resources=["configmaps"], verbs=["get", "list"]),
        )
        identity = PolicyRule(
            api_groups=["authentication.k8s.io"],
            resources=["users"],
            resource_names=["jane"],
            verbs=["impersonate:user-info"],
        )
        on_get = PolicyRule(api_groups=[""], resources=["configmaps"], verbs=["impersonate-on:user-info:get"])
        await grant(client, "gateway", "gateway", identity, on_get)
        await grant(client, "other", "other", on_get)
        address = server.config
        assert address is not None

        def impersonating(token: str) -> ClusterConfig:
            config = ClusterConfig(server=address.server, ca=address.ca, token=token)
            return config.with_impersonation(Impersonation(user="jane"))

        async with Client.connect(impersonating(await token_of(client, "gateway"))) as gateway:
            assert (await gateway.get(ConfigMap, "a", namespace="default")).name == "a"
            with pytest.raises(Forbidden, match='cannot impersonate-on:user-info:list resource "configmaps"'):
                await gateway.list(ConfigMap, namespace="default")
        async with Client.connect(impersonating(await token_of(client, "other"))) as other:
            with pytest.raises(
                Forbidden,
                match='"system:serviceaccount:default:other" cannot impersonate:user-info resource "users"',
            ):
                await other.get(ConfigMap, "a", namespace="default")
