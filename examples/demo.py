"""`make demo`: a control plane and an operator, broken on purpose and healed before your eyes.

Two real processes, `kubewright up` and `kubewright run`, and this one, which plays the user. Each step says
what it does and checks that it came true. With `CI=1`, or without a terminal, the demo ends by itself, with
exit code 0 only if all of it did; otherwise it leaves everything running until Ctrl-C.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent / "guestbook"))

from guestbook import Guestbook
from kubewright import Client
from kubewright.api.apps.v1 import Deployment
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.errors import APIError, Invalid
from kubewright.api.unstructured import Unstructured
from kubewright.client import patches
from kubewright.client.wait import condition

HERE = Path(__file__).parent / "guestbook"
CI = os.environ.get("CI", "") not in ("", "0", "false") or not sys.stdout.isatty()
PATIENCE = 30.0

console = Console(highlight=False)


class Demo:
    """The running parts and what has come true so far."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.kubeconfig = scratch / "kubeconfig"
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self.failures = 0
        self.client: Client

    async def start(self, name: str, *arguments: str) -> asyncio.subprocess.Process:
        """Start a part of Kubewright as a process of its own; its output goes to a file."""
        log = (self.scratch / f"{name}.log").open("ab")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "kubewright.cli",
            *arguments,
            cwd=HERE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        self.processes[name] = process
        return process

    async def start_operator(self) -> None:
        """Start the operator."""
        await self.start(
            "operator",
            "run",
            "guestbook",
            "--kubeconfig",
            str(self.kubeconfig),
            "--development",
            "--log",
            "console",
        )

    async def stop(self) -> None:
        """Stop what still runs."""
        for process in self.processes.values():
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
        await asyncio.gather(*(process.wait() for process in self.processes.values()))

    async def step(self, title: str, true: Callable[[], Awaitable[Any]]) -> None:
        """Try until something is true, or patience runs out; say which."""
        started = time.monotonic()
        why = ""
        with console.status(title):
            while True:
                try:
                    if await true():
                        break
                    why = "it is not so"
                except (APIError, OSError) as error:
                    why = str(error)
                if time.monotonic() - started > PATIENCE:
                    self.failures += 1
                    console.print(f"  [red]✗[/] {title}: {why}")
                    return
                await asyncio.sleep(0.02)
        console.print(f"  [green]✓[/] {title} [dim]{(time.monotonic() - started) * 1000:.0f} ms[/]")

    async def refused(self, title: str, write: Awaitable[Any]) -> None:
        """A write that must be refused; show what the server says."""
        try:
            await write
        except Invalid as error:
            console.print(f"  [green]✓[/] {title}")
            console.print(f"    [dim]{error.message}[/]", soft_wrap=True)
            return
        self.failures += 1
        console.print(f"  [red]✗[/] {title}: it was accepted")

    async def show(self, *kinds: str) -> None:
        """Print objects as kubectl would: the server makes the table."""
        for kind in kinds:
            for line in await table(self.client, kind):
                console.print(f"    [cyan]{line}[/]")


async def table(client: Client, kind: str) -> list[str]:
    """The table that the server makes of a kind in the default namespace."""
    made = await client.table(kind, namespace="default")
    columns = [each["name"].upper() for each in made["columnDefinitions"] if not each.get("priority")]
    rows = [[str(cell) for cell in row["cells"][: len(columns)]] for row in made["rows"]]
    widths = [max(len(row[n]) for row in [columns, *rows]) for n in range(len(columns))]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in [columns, *rows]
    ]


async def play(demo: Demo) -> None:
    """The whole piece."""
    console.rule("a control plane")
    await demo.start("control-plane", "up", "--kubeconfig", str(demo.kubeconfig))

    async def answers() -> bool:
        if not demo.kubeconfig.exists():
            return False
        demo.client = Client.connect(demo.kubeconfig)
        return bool((await demo.client.version())["gitVersion"])

    await demo.step("kubewright up: Kubernetes answers, with no Docker and no etcd", answers)

    console.rule("an operator")
    await demo.start_operator()
    client = demo.client
    sample = yaml.safe_load((HERE / "sample.yaml").read_text())

    async def defined() -> Any:
        name = "guestbooks.webapp.my.domain"
        found = await client.get("customresourcedefinitions", name)
        return condition("Established")(found)

    async def applied() -> Any:
        written = await client.apply(Unstructured(sample), namespace="default", field_owner="demo")
        return written.raw["spec"].get("type") == "Name"

    async def deployment_has(size: int) -> bool:
        found = await client.get(Deployment, "visitors", namespace="default")
        return found.spec is not None and found.spec.replicas == size

    async def settings_are(kind: str) -> bool:
        found = await client.get(ConfigMap, "visitors-conf", namespace="default")
        return found.data == {"type": kind}

    async def available() -> Any:
        return condition("Available")(await client.get(Guestbook, "visitors", namespace="default"))

    await demo.step("kubewright run: the operator installs its API", defined)
    await demo.step("apply a guestbook; the defaulting webhook fills in its type", applied)
    await demo.step("the controller makes a Deployment of 3", lambda: deployment_has(3))
    await demo.step("and a ConfigMap", lambda: settings_are("Name"))
    await demo.step("and says so in the status", available)
    await demo.show("guestbooks", "deployments", "configmaps")

    console.rule("break things")
    old = await client.get(Deployment, "visitors", namespace="default")
    await client.delete(Deployment, "visitors", namespace="default")

    async def remade() -> bool:
        new = await client.get(Deployment, "visitors", namespace="default")
        return new.metadata.uid != old.metadata.uid

    await demo.step("delete the Deployment: it is made again", remade)
    change = patches.merge_patch({"spec": {"replicas": 9}})
    await client.patch(Deployment, change, name="visitors", namespace="default")
    await demo.step("scale it by hand to 9: it is put back to 3", lambda: deployment_has(3))
    await client.patch(
        ConfigMap,
        patches.merge_patch({"data": {"type": "Nonsense"}}),
        name="visitors-conf",
        namespace="default",
    )
    await demo.step("edit the ConfigMap by hand: it is put right", lambda: settings_are("Name"))

    def edit(spec: dict[str, Any]) -> Awaitable[Any]:
        return client.patch(
            Guestbook, patches.merge_patch({"spec": spec}), name="visitors", namespace="default"
        )

    await demo.refused("size 11 is refused by the schema", edit({"size": 11}))
    await demo.refused("another type is refused by the schema", edit({"type": "Fax"}))
    await demo.refused("moving the settings is refused by the webhook", edit({"configMapName": "other"}))

    console.rule("kill the operator")
    operator = demo.processes["operator"]
    operator.kill()
    await operator.wait()
    await client.delete(ConfigMap, "visitors-conf", namespace="default")
    console.print("  killed it, and deleted the ConfigMap behind its back")
    await demo.start_operator()
    await demo.step("started again, it puts right what happened meanwhile", lambda: settings_are("Name"))

    async def grown() -> Any:
        return await edit({"size": 5})

    await demo.step("change the guestbook to size 5", grown)
    await demo.step("the Deployment follows", lambda: deployment_has(5))
    await demo.show("guestbooks", "deployments", "configmaps")


async def main() -> int:
    """Play; stay if somebody is watching."""
    with tempfile.TemporaryDirectory(prefix="kubewright-demo-") as scratch:
        demo = Demo(Path(scratch))
        try:
            await play(demo)
            console.rule()
            if demo.failures:
                console.print(f"[red]{demo.failures} steps failed.[/] Logs:")
                for name in demo.processes:
                    console.print(
                        f"[bold]{name}[/]\n{(demo.scratch / f'{name}.log').read_text()[-3000:]}", markup=False
                    )
            elif not CI:
                console.print("Everything is still running. In another terminal:\n")
                console.print(f"  export KUBECONFIG={demo.kubeconfig}")
                console.print("  kubectl get guestbooks,deployments,configmaps")
                console.print("  kubectl edit guestbook visitors")
                console.print("  kubectl delete guestbook visitors   # and what it owns goes with it")
                console.print(f"  tail -f {demo.scratch}/operator.log\n\nCtrl-C ends it.")
                await asyncio.Event().wait()
            return 1 if demo.failures else 0
        finally:
            if hasattr(demo, "client"):
                await demo.client.aclose()
            await demo.stop()


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except KeyboardInterrupt:
        console.print("\nstopped")
