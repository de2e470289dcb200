"""`make demo`: runs a control plane, an operator, a dashboard, and pods on simulated nodes.

It shows how the operator restores its desired state, pods that become ready, a crash and a rollout. It starts
three processes, `kubewright up`, `kubewright run` and `kubewright dashboard`, and acts as a client. Each step
prints what it does and checks the result; owner trees come from the dashboard, whose address it prints. With
`CI=1`, or without a terminal, the demo exits at the end, with code 0 if every step succeeded; otherwise the
processes keep running until Ctrl-C.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.tree import Tree

sys.path.insert(0, str(Path(__file__).parent / "guestbook"))

from guestbook import Guestbook
from kubewright import Client
from kubewright.api import APIError, Invalid, Unstructured
from kubewright.api.apps.v1 import Deployment
from kubewright.api.core.v1 import ConfigMap, Pod
from kubewright.client import condition, patches

HERE = Path(__file__).parent / "guestbook"
CI = os.environ.get("CI", "") not in ("", "0", "false") or not sys.stdout.isatty()
STEP_TIMEOUT = 30.0

console = Console(highlight=False)


class Demo:
    """The running processes and the number of failed steps."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.kubeconfig = scratch / "kubeconfig"
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self.failures = 0
        self.client: Client
        self.page: Page
        self.browser_address = ""
        """Signs in one browser to the dashboard."""
        self.trace_port = free_port()
        self.environment = {**os.environ, "KUBEWRIGHT_TRACE_TOKEN": secrets.token_urlsafe()}
        """The operator and the dashboard share a token."""

    async def start(self, name: str, *arguments: str) -> asyncio.subprocess.Process:
        """Start a kubewright command as a process; its output is written to a file."""
        log = (self.scratch / f"{name}.log").open("ab")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "kubewright.cli",
            *arguments,
            cwd=HERE,
            env=self.environment,
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
            "--trace-port",
            str(self.trace_port),
            "--log",
            "console",
        )

    async def start_dashboard(self) -> None:
        """Start the dashboard, and sign in."""
        await self.start(
            "dashboard",
            "dashboard",
            "--kubeconfig",
            str(self.kubeconfig),
            "--operator",
            f"http://127.0.0.1:{self.trace_port}",
        )
        self.page = Page(await self._address("Dashboard: "))
        await self.page.sign_in()
        self.browser_address = await self._address("Dashboard for another browser: ")
        console.print(f"  dashboard: [bold]{self.browser_address}[/]", soft_wrap=True)

    async def _address(self, prefix: str) -> str:
        """Wait for a line of the dashboard."""
        async with asyncio.timeout(STEP_TIMEOUT):
            while True:
                for line in (self.scratch / "dashboard.log").read_text().splitlines():
                    if line.startswith(prefix):
                        return line.removeprefix(prefix)
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        """Stop the running processes."""
        for process in self.processes.values():
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
        await asyncio.gather(*(process.wait() for process in self.processes.values()))

    async def step(self, title: str, condition_met: Callable[[], Awaitable[Any]]) -> None:
        """Wait until a condition is met, and print the result."""
        started = time.monotonic()
        reason = ""
        with console.status(title):
            while True:
                try:
                    if await condition_met():
                        break
                    reason = "the condition is not met"
                except (APIError, OSError, aiohttp.ClientError) as error:
                    reason = str(error)
                if time.monotonic() - started > STEP_TIMEOUT:
                    self.failures += 1
                    console.print(f"  [red]✗[/] {title}: {reason}")
                    return
                await asyncio.sleep(0.02)
        console.print(f"  [green]✓[/] {title} [dim]{(time.monotonic() - started) * 1000:.0f} ms[/]")

    async def rejected(self, title: str, write: Awaitable[Any]) -> None:
        """Send a write that must be rejected, and print the message of the API server."""
        try:
            await write
        except Invalid as error:
            console.print(f"  [green]✓[/] {title}")
            console.print(f"    [dim]{error.message}[/]", soft_wrap=True)
            return
        self.failures += 1
        console.print(f"  [red]✗[/] {title}: the request was accepted")

    async def show(self, *kinds: str) -> None:
        """Print objects as kubectl does, with the table of the API server."""
        for kind in kinds:
            for line in await table(self.client, kind):
                console.print(f"    [cyan]{line}[/]")


class Page:
    """Reads the dashboard as its page does."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._session = aiohttp.ClientSession()

    async def sign_in(self) -> None:
        """Exchange the token of the address for a session, which the page contains."""
        async with self._session.get(self._address) as response:
            found = re.search(r'<meta name="session" content="([^"]+)">', await response.text())
        if found is None:
            raise OSError(f"the dashboard returned {response.status} without a session")
        self._session.headers["X-Kubewright-Dashboard"] = found.group(1)

    async def get(self, path: str, **query: str) -> Any:
        """Return the data of a path."""
        async with self._session.get(self._address.partition("/?")[0] + path, params=query) as response:
            response.raise_for_status()
            return await response.json()

    async def nodes(self) -> list[dict[str, Any]]:
        """Return the owner tree of the Guestbook."""
        about = {"group": "webapp.my.domain", "kind": "Guestbook", "namespace": "default", "name": "visitors"}
        nodes: list[dict[str, Any]] = (await self.get("/api/tree", **about))["nodes"]
        return nodes

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()


HEALTH_COLORS = {"Current": "green", "InProgress": "yellow", "Failed": "red", "Terminating": "yellow"}


def draw_tree(nodes: list[dict[str, Any]]) -> Tree:
    """Return the owner tree with the health of each object."""

    def label(node: dict[str, Any]) -> str:
        color = HEALTH_COLORS.get(node["health"], "white")
        message = f" [dim]{escape(node['message'])}[/]" if node["message"] else ""
        return f"{node['kind']} {node['name']} [{color}]{node['health']}[/]{message}"

    def add(parent: Tree, owner: str) -> None:
        for node in nodes:
            if owner in [each["id"] for each in node["owners"]]:
                add(parent.add(label(node)), node["id"])

    (root,) = [node for node in nodes if not node["owners"]]
    tree = Tree(label(root))
    add(tree, root["id"])
    return tree


def free_port() -> int:
    """Return a port that no process uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def table(client: Client, kind: str) -> list[str]:
    """Return the table of a kind in the default namespace, formatted by the API server."""
    response = await client.table(kind, namespace="default")
    columns = [each["name"].upper() for each in response["columnDefinitions"] if not each.get("priority")]
    rows = [[str(cell) for cell in row["cells"][: len(columns)]] for row in response["rows"]]
    widths = [max(len(row[n]) for row in [columns, *rows]) for n in range(len(columns))]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in [columns, *rows]
    ]


async def run_steps(demo: Demo) -> None:
    """Run all steps."""
    console.rule("start a control plane")
    await demo.start("control-plane", "up", "--nodes", "2", "--kubeconfig", str(demo.kubeconfig))

    async def is_ready() -> bool:
        if not demo.kubeconfig.exists():
            return False
        demo.client = Client.connect(demo.kubeconfig)
        return bool((await demo.client.version())["gitVersion"])

    await demo.step("kubewright up: the API server is ready, without Docker or etcd", is_ready)

    console.rule("start an operator and the dashboard")
    await demo.start_operator()
    await demo.start_dashboard()

    async def connected() -> bool:
        return bool((await demo.page.get("/api/reconciles"))["traces"])

    await demo.step("the dashboard is connected to the operator", connected)
    client = demo.client
    sample = yaml.safe_load((HERE / "sample.yaml").read_text())

    async def defined() -> Any:
        name = "guestbooks.webapp.my.domain"
        found = await client.get("customresourcedefinitions", name)
        return condition("Established")(found)

    async def applied() -> Any:
        written = await client.apply(Unstructured(sample), namespace="default", field_manager="demo")
        return written.raw["spec"].get("type") == "Name"

    async def deployment_has(size: int) -> bool:
        found = await client.get(Deployment, "visitors", namespace="default")
        return found.spec is not None and found.spec.replicas == size

    async def settings_are(kind: str) -> bool:
        found = await client.get(ConfigMap, "visitors-conf", namespace="default")
        return found.data == {"type": kind}

    async def available() -> Any:
        return condition("Available")(await client.get(Guestbook, "visitors", namespace="default"))

    await demo.step("kubewright run: the operator installs its CRD", defined)
    await demo.step("apply a Guestbook: the defaulting webhook sets its type", applied)
    await demo.step("the controller creates a Deployment with 3 replicas", lambda: deployment_has(3))
    await demo.step("the controller creates a ConfigMap", lambda: settings_are("Name"))
    await demo.step("the controller sets the condition Available", available)
    await demo.show("guestbooks", "deployments", "configmaps")

    async def healthy() -> bool:
        nodes = await demo.page.nodes()
        kinds = [node["kind"] for node in nodes if node["health"] == "Current"]
        return len(kinds) == len(nodes) and kinds.count("Pod") == 3

    async def unhealthy() -> list[dict[str, Any]]:
        async with asyncio.timeout(STEP_TIMEOUT):
            while True:
                nodes = await demo.page.nodes()
                if any(node["health"] == "InProgress" for node in nodes):
                    return nodes
                await asyncio.sleep(0.002)

    await demo.step("the owner tree of the Guestbook in the dashboard is healthy", healthy)
    console.rule("change objects of the operator")
    old = await client.get(Deployment, "visitors", namespace="default")
    looking = asyncio.create_task(unhealthy())
    await client.delete(Deployment, "visitors", namespace="default")

    async def recreated() -> bool:
        new = await client.get(Deployment, "visitors", namespace="default")
        return new.metadata.uid != old.metadata.uid

    await demo.step("delete the Deployment: it is created again", recreated)
    console.print(Padding(draw_tree(await looking), (0, 0, 0, 4)))
    await demo.step("the owner tree heals", healthy)
    console.print(Padding(draw_tree(await demo.page.nodes()), (0, 0, 0, 4)))

    async def explained() -> bool:
        spans = (await demo.page.get("/api/reconciles", kind="Guestbook", name="visitors"))["spans"]
        causes = [cause["text"] for span in spans for cause in span["causes"]]
        return any("Deployment default/visitors deleted" in cause for cause in causes)

    await demo.step("the dashboard shows why it was reconciled: the Deployment was deleted", explained)
    change = patches.merge_patch({"spec": {"replicas": 9}})
    await client.patch(Deployment, "visitors", change, namespace="default")
    await demo.step("scale the Deployment to 9: it is scaled back to 3", lambda: deployment_has(3))
    await client.patch(
        ConfigMap,
        "visitors-conf",
        patches.merge_patch({"data": {"type": "Nonsense"}}),
        namespace="default",
    )
    await demo.step("edit the ConfigMap: the change is reverted", lambda: settings_are("Name"))

    def edit(spec: dict[str, Any]) -> Awaitable[Any]:
        return client.patch(Guestbook, "visitors", patches.merge_patch({"spec": spec}), namespace="default")

    await demo.rejected("size 11 is rejected by the schema", edit({"size": 11}))
    await demo.rejected("an unknown type is rejected by the schema", edit({"type": "Fax"}))
    await demo.rejected("another configMapName is rejected by the webhook", edit({"configMapName": "other"}))

    console.rule("kill the operator")
    operator = demo.processes["operator"]
    operator.kill()
    await operator.wait()
    await client.delete(ConfigMap, "visitors-conf", namespace="default")
    console.print("  killed the operator and deleted the ConfigMap")
    await demo.start_operator()
    await demo.step("after a restart the operator creates the ConfigMap again", lambda: settings_are("Name"))

    async def resized() -> Any:
        return await edit({"size": 5})

    await demo.step("change the size of the Guestbook to 5", resized)
    await demo.step("the Deployment is scaled to 5", lambda: deployment_has(5))
    await demo.show("guestbooks", "deployments", "configmaps")


async def run_pods(demo: Demo) -> None:
    """Show the pods of the operator's Deployment: ready, after a crash, and during a rollout."""
    client = demo.client

    async def pods() -> list[Pod]:
        found = await client.list(Pod, namespace="default")
        return sorted(
            (pod for pod in found if pod.metadata.deletion_timestamp is None), key=lambda pod: pod.name
        )

    async def all_ready(count: int = 5) -> bool:
        ready = [condition("Ready")(pod) for pod in await pods()]
        return len(ready) == count and all(ready)

    console.rule("run pods on simulated nodes")
    await demo.step("5 pods are scheduled and become ready", all_ready)
    await demo.show("nodes", "pods")

    crashed = (await pods())[0]
    crash = {"sim.kubewright.dev/exit-code": "1", "sim.kubewright.dev/exit-count": "1"}
    await client.patch(
        Pod,
        crashed.name,
        patches.merge_patch({"metadata": {"annotations": crash}}),
        namespace="default",
    )

    async def has_restarted() -> bool:
        pod = await client.get(Pod, crashed.name, namespace="default")
        statuses = (pod.status.container_statuses if pod.status else None) or []
        return bool(statuses) and statuses[0].restart_count == 1 and await all_ready()

    await demo.step("a container exits with code 1: the kubelet restarts it", has_restarted)
    deleted = (await pods())[1]
    await client.delete(Pod, deleted.name, namespace="default")

    async def is_replaced() -> bool:
        return deleted.name not in [pod.name for pod in await pods()] and await all_ready()

    await demo.step("delete a pod: the ReplicaSet replaces it", is_replaced)
    await demo.show("pods")

    before = {pod.name for pod in await pods()}
    restart = {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}
    await client.patch(
        Deployment,
        "visitors",
        patches.merge_patch({"spec": {"template": {"metadata": restart}}}),
        namespace="default",
    )

    async def is_rolled_out() -> bool:
        return not before & {pod.name for pod in await pods()} and await all_ready()

    await demo.step("kubectl rollout restart: all pods are replaced, step by step", is_rolled_out)
    await demo.show("replicasets", "pods")
    events = await client.list("events", namespace="default")
    for event in events:
        if event.raw["reason"] == "ScalingReplicaSet":
            console.print(f"    [dim]{event.raw['message']}[/]", soft_wrap=True)


async def main() -> int:
    """Run the demo; on a terminal, keep the processes running."""
    with tempfile.TemporaryDirectory(prefix="kubewright-demo-") as scratch:
        demo = Demo(Path(scratch))
        try:
            await run_steps(demo)
            await run_pods(demo)
            console.rule()
            if demo.failures:
                console.print(f"[red]{demo.failures} steps failed.[/] Logs:")
                for name in demo.processes:
                    console.print(
                        f"[bold]{name}[/]\n{(demo.scratch / f'{name}.log').read_text()[-3000:]}", markup=False
                    )
            elif not CI:
                console.print("The processes are still running. In another terminal:\n")
                console.print(f"  export KUBECONFIG={demo.kubeconfig}")
                console.print("  kubectl get guestbooks,deployments,pods -o wide")
                console.print("  kubectl rollout restart deployment visitors")
                console.print("  kubectl edit guestbook visitors")
                console.print("  kubectl delete guestbook visitors   # deletes owned objects as well")
                console.print(f"  open {demo.browser_address}   # the dashboard", soft_wrap=True)
                console.print(f"  tail -f {demo.scratch}/operator.log\n\nPress Ctrl-C to stop.")
                await asyncio.Event().wait()
            return 1 if demo.failures else 0
        finally:
            if hasattr(demo, "client"):
                await demo.client.aclose()
            if hasattr(demo, "page"):
                await demo.page.close()
            await demo.stop()


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except KeyboardInterrupt:
        console.print("\nstopped")
