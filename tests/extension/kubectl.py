"""kubectl with the credentials of a test server."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from kubewright.testing import TestServer

KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl") or ""
requires_kubectl = pytest.mark.skipif(not KUBECTL, reason="kubectl is not installed")


class Output(NamedTuple):
    """What a command printed, and its exit code."""

    stdout: str
    stderr: str
    code: int

    @property
    def text(self) -> str:
        """Both streams."""
        return self.stdout + self.stderr


class Kubectl:
    """Runs kubectl against a test server."""

    def __init__(self, server: TestServer, directory: Path) -> None:
        self.kubeconfig = directory / "kubeconfig"
        self._environment = {"KUBECONFIG": str(self.kubeconfig), "HOME": str(directory)}
        assert server.config is not None
        self.server = server.config.server
        _write_kubeconfig(server, self.kubeconfig)

    async def __call__(self, *arguments: str, input: bytes | None = None, check: bool = True) -> str:
        """Run a command and return its output; fail the test if the exit code is not 0."""
        output = await self.run(*arguments, input=input)
        assert output.code == 0 or not check, output.text
        return output.text

    async def run(
        self, *arguments: str, input: bytes | None = None, environment: dict[str, str] | None = None
    ) -> Output:
        """Run a command."""
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            *arguments,
            stdin=asyncio.subprocess.PIPE if input is not None else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**self._environment, **(environment or {})},
        )
        async with asyncio.timeout(120):
            stdout, stderr = await process.communicate(input)
        return Output(stdout.decode(), stderr.decode(), process.returncode or 0)


def _write_kubeconfig(server: TestServer, path: Path) -> None:
    config = server.config
    assert config is not None
    if server.kind != "real":
        path.write_bytes(Path(server.plane.kubeconfig).read_bytes())
        return
    assert config.ca is not None
    authority = path.with_name("ca.crt")
    authority.write_bytes(config.ca.read())
    cluster = {"server": config.server, "certificate-authority": str(authority)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"token": config.token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    path.write_text(yaml.safe_dump(content))
