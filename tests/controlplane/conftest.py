"""`kubewright up` in a process of its own, for tests of what people run against it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class Up:
    """A running `kubewright up`."""

    process: subprocess.Popen[str]
    kubeconfig: Path

    def stop(self) -> None:
        """End it as a user would; it has to end well."""
        self.process.send_signal(signal.SIGINT)
        output = self.process.communicate(timeout=20)[0]
        assert self.process.returncode == 0, output


def start_up(folder: Path, *options: str) -> Up:
    """Start `kubewright up` and wait until it is ready."""
    kubeconfig, ready, log = folder / "kubeconfig", folder / "ready", folder / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "kubewright.cli", "up", "--kubeconfig", str(kubeconfig)]
            + ["--ready-file", str(ready), *options],
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
    deadline = time.monotonic() + 60
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise AssertionError(f"kubewright up did not start:\n{log.read_text()}")
        time.sleep(0.02)
    return Up(process, kubeconfig)


@pytest.fixture(scope="session")
def up_with(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Up]]:
    """Start a server with these options."""
    running: list[Up] = []

    def start(*options: str) -> Up:
        running.append(start_up(tmp_path_factory.mktemp("up"), *options))
        return running[-1]

    yield start
    for each in running:
        each.stop()


@pytest.fixture(scope="session")
def up(up_with: Callable[..., Up]) -> Up:
    """A server that all tests of a session share: work in a namespace of your own."""
    return up_with()
