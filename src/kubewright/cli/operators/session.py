"""A control plane for one run of an operator, if no cluster is configured.

`kubewright run` starts it in its own process; with `--reload`, in a process beside the operator, so that
objects outlive the restarts of the operator.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubewright.cli.kubeconfig_file import find_running

if TYPE_CHECKING:
    from kubewright.client import ClusterConfig
    from kubewright.controlplane import ControlPlane

START_SECONDS = 60.0
"""Time that the process of a control plane has to start."""


def needs_session(options: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> bool:
    """Whether no cluster is configured by options, variables or files, and development is possible."""
    if options["kubeconfig"] or options["context"] or options["development"] is False:
        return False
    if environ.get("KUBECONFIG") or environ.get("KUBERNETES_SERVICE_HOST"):
        return False
    home = environ.get("HOME")
    return not (Path(home) if home else Path.home()).joinpath(".kube", "config").exists()


@asynccontextmanager
async def start_session(planes: list[ControlPlane] | None = None) -> AsyncIterator[ClusterConfig]:
    """Start a control plane in this process, and write its kubeconfig to the current directory.

    A control plane that is running with this kubeconfig is used instead. A started one is added to `planes`.
    """
    from kubewright.client import load_config
    from kubewright.controlplane import ControlPlane

    path = Path("kubeconfig")
    if server := find_running(path):
        click.echo(f"Using the control plane at {server} (./{path}).", err=True)
        yield load_config(path)
        return
    plane = ControlPlane(kubeconfig=path, nodes=1)
    with _quiet_controllers():
        await plane.start()
    try:
        _announce(plane.url, path)
        if planes is not None:
            planes.append(plane)
        yield load_config(path)
    finally:
        await plane.stop()


@contextmanager
def _quiet_controllers() -> Iterator[None]:
    """Omit the log lines of the controllers of the control plane; those of the operator come later."""
    logger = logging.getLogger("kubewright.controller")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def session_process(options: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Start a control plane in a process if it is needed; return the variables for the operator."""
    if not needs_session(options):
        yield {}
        return
    path = Path("kubeconfig").absolute()
    if find_running(path):
        yield {"KUBECONFIG": str(path), "KUBEWRIGHT_DEVELOPMENT": "true"}
        return
    with tempfile.TemporaryDirectory() as directory:
        ready = Path(directory) / "ready"
        command = [sys.executable, "-m", "kubewright.cli", "up", "--quiet", "--kubeconfig", str(path)]
        # A session of its own: Ctrl-C stops the operator first, then this process stops the control plane.
        process = subprocess.Popen([*command, "--ready-file", str(ready)], start_new_session=True)  # noqa: S603
        try:
            _wait_for(ready, process)
            _announce(ready.read_text().strip(), Path("kubeconfig"))
            yield {"KUBECONFIG": str(path), "KUBEWRIGHT_DEVELOPMENT": "true"}
        finally:
            process.terminate()
            process.wait()


def _wait_for(ready: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not ready.exists():
        if process.poll() is not None:
            raise click.ClickException("the control plane did not start")
        if time.monotonic() > deadline:
            raise click.ClickException(f"the control plane did not start within {START_SECONDS:g} s")
        time.sleep(0.05)


def _announce(url: str, path: Path) -> None:
    click.echo(
        f"No cluster is configured: started a control plane for this session at {url}.\n"
        f"Use it in another terminal: kubectl --kubeconfig {path} api-resources",
        err=True,
    )
