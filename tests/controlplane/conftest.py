"""`kubewright up` in a process of its own, for tests of what people run against it."""

from __future__ import annotations

import os
import shutil
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
        output = self.process.communicate(timeout=120)[0]
        assert self.process.returncode == 0, output


def start_up(folder: Path, *options: str) -> Up:
    """Start `kubewright up` without nodes and wait until it is ready."""
    kubeconfig, ready, log = folder / "kubeconfig", folder / "ready", folder / "log"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "kubewright.cli", "up", "--nodes", "0", *options]
    command += ["--kubeconfig", str(kubeconfig), "--ready-file", str(ready)]
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
    deadline = time.monotonic() + 120
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise AssertionError(f"kubewright up did not start:\n{log.read_text()}")
        time.sleep(0.02)
    return Up(process, kubeconfig)


@pytest.fixture
def start() -> Iterator[Callable[..., Up]]:
    """Start a server in this folder with these options; the test ends it, or it is killed."""
    running: list[Up] = []

    def started(folder: Path, *options: str) -> Up:
        running.append(start_up(folder, *options))
        return running[-1]

    yield started
    for each in running:
        each.process.kill()
        each.process.wait()


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


class Kubectl:
    """The kubectl on PATH, in a namespace of its own."""

    def __init__(self, program: str, kubeconfig: Path, home: Path, namespace: str) -> None:
        self.program = program
        self.namespace = namespace
        self.home = home
        self.environment = os.environ | {"KUBECONFIG": str(kubeconfig), "HOME": str(home)}

    def command(self, *arguments: str) -> list[str]:
        """The command line for these arguments."""
        return [self.program, "--namespace", self.namespace, *arguments]

    def run(
        self, *arguments: str, given: str | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run it, whatever comes out."""
        return subprocess.run(
            self.command(*arguments),
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
            env=self.environment | variables,
        )

    def __call__(self, *arguments: str, given: str | None = None, **variables: str) -> str:
        """What it prints. It has to end well."""
        done = self.run(*arguments, given=given, **variables)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def fails(self, *arguments: str, given: str | None = None, code: int = 1) -> str:
        """What it says about an error."""
        done = self.run(*arguments, given=given)
        assert done.returncode == code, f"kubectl {' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done.stderr or done.stdout

    def file(self, name: str, text: str) -> str:
        """Write a file and return its path."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)


@pytest.fixture(scope="session")
def _kubectl_home(up: Up, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not installed")
    return program, tmp_path_factory.mktemp("kubectl")


@pytest.fixture
def kubectl(up: Up, _kubectl_home: tuple[str, Path], request: pytest.FixtureRequest) -> Kubectl:
    """kubectl, in a new namespace that is named after the test."""
    program, home = _kubectl_home
    name = request.node.name.removeprefix("test_").replace("_", "-")[:60]
    made = Kubectl(program, up.kubeconfig, home, name)
    made("create", "namespace", name)
    # A controller creates the service account, without which pods are rejected after a second.
    deadline = time.monotonic() + 60
    while not made("get", "serviceaccount", "default", "--ignore-not-found", "-o", "name"):
        assert time.monotonic() < deadline, f"the namespace {name} has no service account"
        time.sleep(0.05)
    return made
