"""Tests on a real kubelet: `@pytest.mark.control_plane(nodes="real")`.

The control plane listens on an address of this machine, which is its node: kubelet, kube-proxy and a
containerd of its own run as long as the test. That changes the network of the machine, so it has to be
requested:

| Environment variable | Meaning |
|---|---|
| `KUBEWRIGHT_KUBELET` | path of a kubelet, kube-proxy beside it; without it, such tests are skipped |
| `KUBEWRIGHT_IMAGES` | image archives that are loaded, separated by colons, for machines without a registry |
| `KUBEWRIGHT_PAUSE_IMAGE` | image of the first container of pods, if that of containerd is not available |
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from .server import TestServer, start_test_server

KUBELET: Final = "KUBEWRIGHT_KUBELET"
IMAGES: Final = "KUBEWRIGHT_IMAGES"
PAUSE_IMAGE: Final = "KUBEWRIGHT_PAUSE_IMAGE"


def why_unavailable(environ: Mapping[str, str] = os.environ) -> str:
    """Return why there is no real node on this machine; empty if there can be one."""
    kubelet = environ.get(KUBELET)
    if not kubelet:
        return f"there is no real node: set {KUBELET} to the path of a kubelet"
    if os.geteuid() != 0:
        return "a real node requires root"
    from kubewright.node.machine.programs import MissingPrograms, find_programs

    try:
        find_programs(Path(kubelet))
    except MissingPrograms as error:
        return str(error)
    return ""


@asynccontextmanager
async def start_real_node_server(**options: Any) -> AsyncIterator[TestServer]:
    """Start a server and a node on this machine, which is ready; options are those of `start_test_server`."""
    from kubewright.controlplane.kubelets.local_nodes import create_local_node
    from kubewright.node.machine.images import import_image
    from kubewright.node.machine.programs import find_programs

    programs = find_programs(Path(os.environ[KUBELET]))
    defaults: dict[str, Any] = {"bind": "0.0.0.0", "dns": find_spec("dns") is not None}  # noqa: S104 - pods connect to it
    directory = Path(tempfile.mkdtemp(prefix="kubewright-node-"))
    try:
        options = defaults | options | {"kind": "tls", "real_nodes": True, "nodes": 0}
        async with start_test_server(**options) as server:
            plane = server.plane
            pause_image = os.environ.get(PAUSE_IMAGE, "")
            node = create_local_node(plane, programs, directory=directory, pause_image=pause_image)
            try:
                await node.start(plane.client())
                for archive in filter(None, os.environ.get(IMAGES, "").split(os.pathsep)):
                    await import_image(programs.ctr, node.socket, Path(archive))
                yield server
            finally:
                await node.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
