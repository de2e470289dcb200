"""Kubernetes' own controllers and scheduler on `kubewright up` with simulated nodes.

    python -m tests.workloads.scenarios.kube_components DIRECTORY

runs all scenarios with the programs kube-controller-manager and kube-scheduler in a directory, and records
their histories in `data/kubernetes.json`.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kubewright.client import Client

from .scenarios import NODES, SCENARIOS, run_scenario

BINARIES = "KUBEWRIGHT_KUBE_BINARIES"
"""Environment variable: the directory with kube-controller-manager and kube-scheduler."""
RECORDED = Path(__file__).parent / "data" / "kubernetes.json"
START_SECONDS = 60.0


@asynccontextmanager
async def start_kube_components(binaries: Path) -> AsyncIterator[Client]:
    """Run a control plane whose controllers and scheduler are those of Kubernetes."""
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig, ready = Path(directory, "kubeconfig"), Path(directory, "ready")
        up = [sys.executable, "-m", "kubewright.cli", "up", "--quiet", "--nodes", str(NODES)]
        up += ["--disable-controllers", "*", "--disable-controllers", "kube-scheduler"]
        up += ["--kubeconfig", str(kubeconfig), "--ready-file", str(ready)]
        options = ["--kubeconfig", str(kubeconfig), "--leader-elect=false", "--secure-port=0"]
        processes = [subprocess.Popen(up)]
        try:
            async with asyncio.timeout(START_SECONDS):
                while not ready.exists():
                    await asyncio.sleep(0.05)
            for program, extra in (
                ("kube-controller-manager", ["--controllers=*,-nodeipam", "--kube-api-qps=200"]),
                ("kube-scheduler", ["--kube-api-qps=200"]),
            ):
                with Path(directory, f"{program}.log").open("wb") as log:
                    command = [str(binaries / program), *options, *extra]
                    processes.append(subprocess.Popen(command, stdout=log, stderr=log))
            async with Client.connect(str(kubeconfig)) as client:
                yield client
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait()


async def record(binaries: Path) -> None:
    """Run all scenarios and write their histories."""
    histories: dict[str, Any] = {}
    async with start_kube_components(binaries) as client:
        for scenario in SCENARIOS:
            histories[scenario.__name__] = await run_scenario(client, scenario)
            print(scenario.__name__, "recorded", flush=True)
    RECORDED.write_text(json.dumps(histories, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    asyncio.run(record(Path(sys.argv[1])))
