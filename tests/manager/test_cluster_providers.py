"""Cluster providers: clusters from Secrets, Cluster API and files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright.api import CustomResource, ObjectMeta, Spec, Status, resource
from kubewright.api.core.v1 import Namespace, Secret
from kubewright.client import Client, merge_patch
from kubewright.client.config.cluster_config import ClusterConfig
from kubewright.manager import ClusterAPI, ClusterProvider, KubeconfigFiles, KubeconfigSecrets, Operator
from kubewright.manager.fleets.cluster_providers import KUBECONFIG_LABEL, ClusterSet
from kubewright.manager.operators.installation import install_definitions
from kubewright.manager.operators.rbac import rules_of


def kubeconfig(server: str, **user: Any) -> str:
    """Return a kubeconfig for a server."""
    return yaml.safe_dump(
        {
            "current-context": "admin",
            "contexts": [{"name": "admin", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": user or {"token": "secret"}}],
        }
    )


def secret(name: str, text: str, *, key: str = "kubeconfig", **metadata: Any) -> Secret:
    metadata.setdefault("labels", {KUBECONFIG_LABEL: "true"})
    meta = ObjectMeta(name=name, namespace="fleet", **metadata)
    return Secret(metadata=meta, data={key: text.encode()})


class Sets:
    """The sets of clusters of a provider."""

    def __init__(self, sets: AsyncIterator[ClusterSet]) -> None:
        self._sets = sets

    async def next(self) -> dict[str, str]:
        """Return the servers of the next set by cluster name."""
        async with asyncio.timeout(60):
            found = await anext(self._sets)
        return {name: each.server for name, each in found.items() if isinstance(each, ClusterConfig)}


@asynccontextmanager
async def sets_of(provider: ClusterProvider, client: Client) -> AsyncIterator[Sets]:
    sets: Any = provider.clusters(client)
    try:
        yield Sets(sets)
    finally:
        await sets.aclose()


@pytest.fixture
async def fleet(client: Client) -> Client:
    await client.create(Namespace(metadata=ObjectMeta(name="fleet")))
    return client


async def test_kubeconfig_secrets(fleet: Client, caplog: pytest.LogCaptureFixture) -> None:
    await fleet.create(secret("a", kubeconfig("https://a:6443")))
    await fleet.create(secret("other", kubeconfig("https://other"), labels={}))
    async with sets_of(KubeconfigSecrets("fleet"), fleet) as sets:
        assert await sets.next() == {"a": "https://a:6443"}
        added = await fleet.create(secret("b", kubeconfig("https://b:6443")))
        assert await sets.next() == {"a": "https://a:6443", "b": "https://b:6443"}

        # An invalid kubeconfig is reported, and the last valid one stays in use.
        with caplog.at_level(logging.ERROR):
            await fleet.apply(secret("b", "contexts: 5"), field_manager="test", force=True)
            assert await sets.next() == {"a": "https://a:6443", "b": "https://b:6443"}
        (line,) = [each for each in caplog.records if each.message == "invalid kubeconfig"]
        assert vars(line)["cluster"] == "b"
        assert vars(line)["source"] == "Secret fleet/b"

        await fleet.delete(added)
        assert await sets.next() == {"a": "https://a:6443"}


@pytest.mark.parametrize(
    ("user", "found"),
    [
        (
            {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh"}},
            "exec",
        ),
        ({"tokenFile": "/var/run/secrets/token"}, "tokenFile"),
        ({"client-certificate": "/a.crt", "client-key": "/a.key"}, "client-certificate, client-key"),
    ],
)
async def test_secrets_cannot_run_programs_or_read_files(
    fleet: Client, caplog: pytest.LogCaptureFixture, user: dict[str, Any], found: str
) -> None:
    await fleet.create(secret("a", kubeconfig("https://a:6443", **user)))
    async with sets_of(KubeconfigSecrets("fleet"), fleet) as sets:
        assert await sets.next() == {}
    (line,) = [each for each in caplog.records if each.message == "invalid kubeconfig"]
    assert f"Secret fleet/a: contains {found}; " in vars(line)["error"]
    if "client-key" not in user:
        async with sets_of(KubeconfigSecrets("fleet", trusted=True), fleet) as sets:
            assert await sets.next() == {"a": "https://a:6443"}


class CAPISpec(Spec):
    paused: bool = False


class CAPIStatus(Status):
    phase: str = ""


@resource(group="cluster.x-k8s.io", version="v1beta2", plural="clusters", kind="Cluster")
class CAPICluster(CustomResource[CAPISpec, CAPIStatus]):
    """The part of a `Cluster` of Cluster API that the provider reads."""


async def test_cluster_api(fleet: Client) -> None:
    await install_definitions(fleet, [CAPICluster])
    made = await fleet.create(
        CAPICluster(
            metadata=ObjectMeta(name="prod", namespace="fleet", finalizers=["example.com/keep"]),
            spec=CAPISpec(),
        )
    )
    labels = {"cluster.x-k8s.io/cluster-name": "prod"}
    for suffix in ("kubeconfig", "ca"):
        each = secret(f"prod-{suffix}", kubeconfig("https://prod:6443"), key="value", labels=labels)
        each.type = "cluster.x-k8s.io/secret"
        await fleet.create(each)
    async with sets_of(ClusterAPI(), fleet) as sets:
        assert await sets.next() == {}, "not provisioned yet"
        status = merge_patch({"status": {"phase": "Provisioned"}})
        await fleet.subresource("status", made).patch(status)
        assert await sets.next() == {"fleet/prod": "https://prod:6443"}
        await fleet.delete(made)
        assert await sets.next() == {}, "its deletion has started"


async def test_kubeconfig_files(client: Client, tmp_path: Path) -> None:
    directory = tmp_path / "clusters"
    async with sets_of(KubeconfigFiles(directory), client) as sets:
        assert await sets.next() == {}, "the directory does not exist yet"
        directory.mkdir()
        (directory / "a.yaml").write_text(kubeconfig("https://a"))
        (directory / ".hidden").write_text("not a kubeconfig")
        assert await sets.next() == {"a": "https://a"}
        (directory / "b").write_text(kubeconfig("https://b"))
        (directory / "a.yaml").write_text(kubeconfig("https://a.example.com"))
        assert await sets.next() == {"a": "https://a.example.com", "b": "https://b"}
        (directory / "b").unlink()
        assert await sets.next() == {"a": "https://a.example.com"}


async def test_contexts_of_one_file(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    config = yaml.safe_load(kubeconfig("https://a"))
    config["clusters"].append({"name": "d", "cluster": {"server": "https://d"}})
    config["contexts"].append({"name": "dev", "context": {"cluster": "d", "user": "u"}})
    config["contexts"].append({"name": "broken", "context": {"cluster": "missing", "user": "u"}})
    file.write_text(yaml.safe_dump(config))
    async with sets_of(KubeconfigFiles(file), client) as sets:
        assert await sets.next() == {"admin": "https://a", "dev": "https://d"}
        file.write_text("[]")
        assert await sets.next() == {"admin": "https://a", "dev": "https://d"}, "the last valid one"


async def test_permissions_of_providers() -> None:
    operator = Operator("fleet")
    operator.fleet(KubeconfigSecrets("fleet-system"))
    operator.fleet(ClusterAPI())
    rules = [(rule.namespace, rule.resources, rule.verbs) for rule in rules_of(operator)]
    read = ("get", "list", "watch")
    assert rules == [
        ("fleet-system", ("secrets",), read),
        ("", ("clusters",), read),
        ("", ("secrets",), read),
    ]
    bound = next(iter(rules_of(operator)))
    assert (bound.role, bound.service_account) == ("fleet-clusters-role", "fleet-system/fleet-manager")
