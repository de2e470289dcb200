"""Credential plug-ins: requests and responses, and the whole way with our client and with kubectl."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import Namespace, ServiceAccount
from kubewright.api.errors import Forbidden
from kubewright.api.unstructured import Unstructured
from kubewright.client import Client, load_config
from kubewright.client.credential_plugin import (
    Credential,
    CredentialCache,
    CredentialError,
    CredentialPlugin,
    CredentialRequest,
)
from kubewright.client.errors import CredentialsError
from kubewright.testing.server import TestServer, start_test_server

V1 = "client.authentication.k8s.io/v1"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SOURCE = Path(__file__).parents[2] / "src"
PROGRAM = """\
#!{python}
import sys

sys.path.insert(0, {source!r})
import click
from datetime import UTC, datetime, timedelta
from pathlib import Path
from kubewright.client.credential_plugin import *


@click.command("login", cls=CredentialPlugin)
@click.option("--file", required=True)
def main(request: CredentialRequest, file: str) -> Credential:
    with open(file + ".runs", "a") as runs:
        runs.write(f"{{request.cluster.server}} {{request.cluster.config}} {{request.interactive}}\\n")
    token = Path(file).read_text()
    if not token:
        raise CredentialError("log in at https://login.example.com first")
    return Credential(token=token, expires=datetime.now(UTC) + timedelta(hours=1))


main()
"""


def exec_info(api_version: str = V1, **spec: Any) -> dict[str, str]:
    info = {"apiVersion": api_version, "kind": "ExecCredential", "spec": spec}
    return {"KUBERNETES_EXEC_INFO": json.dumps(info)}


def run(function: Callable[..., Any], environment: dict[str, str], **options: Any) -> Result:
    command = click.command("login", cls=CredentialPlugin)(function)
    return CliRunner(env=environment).invoke(command, [], **options)


def test_the_credential_has_the_version_of_the_request() -> None:
    def main(request: CredentialRequest) -> Credential:
        assert request.cluster is not None
        return Credential(token=request.cluster.config["audience"], expires=NOW)

    cluster = {
        "server": "https://example.com",
        "certificate-authority-data": "Q0E=",
        "config": {"audience": "a"},
    }
    for version in (V1, "client.authentication.k8s.io/v1beta1"):
        result = run(main, exec_info(version, cluster=cluster))
        assert json.loads(result.stdout) == {
            "apiVersion": version,
            "kind": "ExecCredential",
            "status": {"token": "a", "expirationTimestamp": "2026-01-01T12:00:00Z"},
        }


def test_requests_are_read_from_the_environment() -> None:
    cluster = {"server": "https://a", "certificate-authority-data": "Q0E=", "tls-server-name": "b"}
    request = CredentialRequest.from_environment(exec_info(cluster=cluster, interactive=True))
    assert request.interactive
    assert request.cluster is not None
    assert request.cluster.certificate_authority_data == b"CA"
    assert (request.cluster.tls_server_name, request.cluster.config) == ("b", None)
    assert CredentialRequest.from_environment({}).api_version == V1
    with pytest.raises(CredentialError, match="KUBERNETES_EXEC_INFO is not an ExecCredential"):
        CredentialRequest.from_environment({"KUBERNETES_EXEC_INFO": "[]"})
    with pytest.raises(CredentialError, match=r"apiVersion 'client.authentication.k8s.io/v1alpha1' is not"):
        CredentialRequest.from_environment(exec_info("client.authentication.k8s.io/v1alpha1"))


def test_prompts_use_the_terminal_and_not_the_output() -> None:
    def main(request: CredentialRequest) -> Credential:
        return Credential(token=request.prompt("Password", hide_input=True))

    result = run(main, exec_info(interactive=True), input="secret\n")
    assert json.loads(result.stdout)["status"] == {"token": "secret"}
    assert "Password:" in result.stderr
    result = run(main, exec_info(interactive=False))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(
        "Error: Password is required and there is no terminal; run the command in"
    )


def test_invalid_credentials_are_rejected() -> None:
    with pytest.raises(ValueError, match="requires a token or a client certificate"):
        Credential()
    with pytest.raises(ValueError, match="a client certificate requires its key"):
        Credential(certificate="PEM")
    with pytest.raises(ValueError, match="the expiry requires a time zone"):
        Credential(token="a", expires=datetime(2026, 1, 1))
    assert "secret" not in repr(Credential(token="secret"))
    result = run(lambda request: None, exec_info())
    assert isinstance(result.exception, TypeError)


def test_credentials_are_stored_until_they_expire(tmp_path: Path) -> None:
    times = [NOW]
    cache = CredentialCache("login", "https://a", "ann", directory=tmp_path, now=lambda: times[-1])
    assert cache.get() is None
    stored = cache.store(Credential(token="a", expires=NOW + timedelta(minutes=5)))
    assert cache.get() == stored
    assert stat.S_IMODE(cache.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.path.parent.stat().st_mode) == 0o700
    other = CredentialCache("login", "https://a", "bob", directory=tmp_path)
    assert other.get() is None
    times.append(NOW + timedelta(minutes=4, seconds=31))
    assert cache.get() is None
    times.append(NOW)
    cache.path.write_text("{")
    assert cache.get() is None
    cache.clear()
    cache.clear()
    other.store(Credential(token="without expiry"))
    assert not other.path.exists()


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async with start_test_server("tls", None, controllers=False) as made:
        yield made


async def kubeconfig(server: TestServer, tmp_path: Path) -> Path:
    """Write a plug-in, the token of a service account, and a kubeconfig that uses them."""
    client = server.client()
    await client.create(ServiceAccount(metadata=ObjectMeta(name="ann", namespace="default")))
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    account = client.subresource("token", ServiceAccount, "ann", namespace="default")
    response: Any = await account.create(Unstructured(request))
    (tmp_path / "token").write_text(response["status"]["token"])
    program = tmp_path / "login"
    program.write_text(PROGRAM.format(python=sys.executable, source=str(SOURCE)))
    program.chmod(0o755)
    config = yaml.safe_load(Path(server.plane.kubeconfig).read_text())
    config["users"] = [
        {
            "name": config["users"][0]["name"],
            "user": {
                "exec": {
                    "apiVersion": V1,
                    "command": str(program),
                    "args": ["--file", str(tmp_path / "token")],
                    "interactiveMode": "Never",
                    "provideClusterInfo": True,
                }
            },
        }
    ]
    config["clusters"][0]["cluster"]["extensions"] = [
        {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "shop"}}
    ]
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


async def test_our_client_runs_the_plugin_once(server: TestServer, tmp_path: Path) -> None:
    path = await kubeconfig(server, tmp_path)
    async with Client.connect(load_config(path)) as client:
        for _ in range(2):
            with pytest.raises(Forbidden, match='User "system:serviceaccount:default:ann" cannot list'):
                await client.list(Namespace)
    [line] = (tmp_path / "token.runs").read_text().splitlines()
    assert line.startswith("https://127.0.0.1:")
    assert line.endswith("{'audience': 'shop'} False")
    (tmp_path / "token").write_text("")
    async with Client.connect(load_config(path)) as client:
        with pytest.raises(CredentialsError, match="failed with exit code 1"):
            await client.list(Namespace)


async def test_kubectl_runs_the_plugin(server: TestServer, tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    path = await kubeconfig(server, tmp_path)
    done = await asyncio.to_thread(
        subprocess.run,
        [kubectl, "--kubeconfig", str(path), "auth", "whoami", "-o", "json"],
        capture_output=True,
        text=True,
        env={**os.environ, "HOME": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"]["userInfo"]["username"] == "system:serviceaccount:default:ann"
