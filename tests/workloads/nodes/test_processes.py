"""Containers as local processes: commands, variables, exits, restarts, signals, probes and hooks."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from bench._ports import unused_port
from tests.workloads.nodes.process_cluster import ProcessCluster, linux_only, start_process_cluster
from tests.workloads.nodes.simulated_cluster import condition

from kubewright.api.errors import NotFound
from kubewright.api.gvk import GroupVersionResource
from kubewright.api.values.quantity import Quantity
from kubewright.workloads.nodes.processes.environment import expand, service_variables
from kubewright.workloads.nodes.registration.node_spec import NodeSpecError, load_image_commands

pytestmark = linux_only

PRINT_ENVIRONMENT = "import json, os; print(json.dumps(dict(os.environ)))"


@pytest.fixture
async def cluster() -> AsyncIterator[ProcessCluster]:
    async with start_process_cluster() as started:
        yield started


# Environment


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)-$(B)", "one-$(B)"),
        ("$$(A)", "$(A)"),
        ("$(A", "$(A"),
        ("cost $5 $", "cost $5 $"),
        ("$(A)$(A)", "oneone"),
    ],
)
def test_expand(text: str, expected: str) -> None:
    assert expand(text, {"A": "one"}) == expected


def test_service_variables() -> None:
    service = {
        "metadata": {"name": "red-db"},
        "spec": {"clusterIP": "10.0.0.9", "ports": [{"port": 6379, "name": "main"}]},
    }
    headless = {"metadata": {"name": "h"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}}
    assert service_variables([service, headless]) == {
        "RED_DB_SERVICE_HOST": "10.0.0.9",
        "RED_DB_SERVICE_PORT": "6379",
        "RED_DB_SERVICE_PORT_MAIN": "6379",
        "RED_DB_PORT": "tcp://10.0.0.9:6379",
        "RED_DB_PORT_6379_TCP": "tcp://10.0.0.9:6379",
        "RED_DB_PORT_6379_TCP_PROTO": "tcp",
        "RED_DB_PORT_6379_TCP_PORT": "6379",
        "RED_DB_PORT_6379_TCP_ADDR": "10.0.0.9",
    }


async def test_variables_of_a_container(cluster: ProcessCluster) -> None:
    await cluster.create("ConfigMap", "settings", data={"COLOR": "red", "SIZE": "xl"})
    await cluster.create("Secret", "login", stringData={"user": "admin"})
    await cluster.create("Service", "db", spec={"ports": [{"port": 5432}], "clusterIP": "10.0.0.77"})
    await cluster.run_pod(
        "env",
        sys.executable,
        "-c",
        PRINT_ENVIRONMENT,
        envFrom=[
            {"configMapRef": {"name": "settings"}, "prefix": "P_"},
            {"secretRef": {"name": "missing", "optional": True}},
        ],
        env=[
            {"name": "USER_NAME", "valueFrom": {"secretKeyRef": {"name": "login", "key": "user"}}},
            {"name": "GREETING", "value": "hello $(USER_NAME) at $(DB_SERVICE_HOST) $(UNKNOWN)"},
            {"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "COLOR"}}},
            {
                "name": "NONE",
                "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "NONE", "optional": True}},
            },
            {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {
                "name": "MEMORY",
                "valueFrom": {"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}},
            },
        ],
        resources={"limits": {"cpu": "1500m"}, "requests": {"memory": "100Mi"}},
        spec={"restartPolicy": "Never"},
    )
    assert (await cluster.exit_of("env"))["exitCode"] == 0
    found = json.loads(await cluster.logs("env"))
    expected = {
        "P_COLOR": "red",
        "P_SIZE": "xl",
        "USER_NAME": "admin",
        "GREETING": "hello admin at 10.0.0.77 $(UNKNOWN)",
        "COLOR": "red",
        "LABEL": "env",
        "NODE": "node-0",
        "POD_IP": (await cluster.status("env"))["podIP"],
        "CPU": "2",
        "MEMORY": "100",
        "DB_SERVICE_PORT": "5432",
        "HOSTNAME": "env",
    }
    assert {name: found.get(name) for name in expected} == expected
    assert "NONE" not in found
    assert "KUBECONFIG" not in found
    assert found["KUBERNETES_SERVICE_HOST"] == "127.0.0.1"


async def test_missing_reference_is_a_config_error_until_it_exists(cluster: ProcessCluster) -> None:
    variable = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "later", "key": "a"}}}
    await cluster.run_pod("config", "sh", "-c", "echo $A; sleep 600", env=[variable])
    assert await cluster.waiting("config", "CreateContainerConfigError") == 'configmap "later" not found'
    await cluster.create("ConfigMap", "later", data={"b": "1"})
    message = "couldn't find key a in ConfigMap default/later"
    await cluster.container(
        "config", lambda status: (status["state"].get("waiting") or {}).get("message") == message
    )
    configmap = await cluster.client.get("configmaps", "later")
    configmap.raw["data"] = {"a": "found"}
    await cluster.client.update(configmap)
    await cluster.wait_ready("config")
    await cluster.wait_for_log("config", "found")


async def test_container_without_a_command(cluster: ProcessCluster) -> None:
    await cluster.run_pod("none", image="nginx:1")
    message = await cluster.waiting("none", "CreateContainerError")
    assert message.startswith('container "app" has no command, and the entrypoint of image "nginx:1"')


async def test_commands_of_images_come_from_the_nodes_file(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text("nodes: [{name: node-0}]\nimages: {registry.local:5000/tool: [echo, from-image]}\n")
    async with start_process_cluster(nodes=file) as cluster:
        spec = {"restartPolicy": "Never"}
        await cluster.run_pod("tool", image="registry.local:5000/tool:v2", args=["x"], spec=spec)
        await cluster.exit_of("tool")
        assert await cluster.logs("tool") == "from-image x\n"
    file.write_text("nodes: []\nimages: {tool: echo}\n")
    with pytest.raises(NodeSpecError, match="expected a command"):
        load_image_commands(file)


# Exits and restarts


async def test_exit_codes_signals_and_messages(cluster: ProcessCluster) -> None:
    never = {"restartPolicy": "Never"}
    await cluster.run_pod("exit", "sh", "-c", "echo out; echo err >&2; exit 3", spec=never)
    await cluster.run_pod("killed", "sh", "-c", "kill -9 $$$$", spec=never)
    await cluster.run_pod("missing", "no-such-program", spec=never)
    await cluster.run_pod(
        "fallback",
        "sh",
        "-c",
        "echo reason; exit 1",
        terminationMessagePolicy="FallbackToLogsOnError",
        spec=never,
    )
    found = await cluster.exit_of("exit")
    assert (found["exitCode"], found["reason"]) == (3, "Error")
    assert sorted((await cluster.logs("exit")).split()) == ["err", "out"]
    assert (await cluster.exit_of("killed"))["exitCode"] == 137
    assert (await cluster.exit_of("fallback"))["message"] == "reason\n"
    found = await cluster.exit_of("missing")
    assert (found["exitCode"], found["reason"]) == (128, "StartError")
    assert 'exec: "no-such-program": executable file not found in $PATH' in found["message"]
    assert (await cluster.status("exit"))["phase"] == "Failed"


async def test_crash_loop_and_log_of_the_previous_run(cluster: ProcessCluster) -> None:
    await cluster.run_pod("loop", "sh", "-c", "echo run; exit 1")
    found = await cluster.container("loop", lambda status: status["restartCount"] >= 2)
    assert found["lastState"]["terminated"]["exitCode"] == 1
    assert "back-off" in await cluster.waiting("loop", "CrashLoopBackOff")
    assert await cluster.logs("loop", previous=True) == "run\n"
    await cluster.wait_for_reasons("loop", "BackOff")


async def test_init_containers_sidecars_and_shared_volume(cluster: ProcessCluster) -> None:
    mount = [{"name": "shared", "mountPath": "/shared-data"}]
    shell = ["sh", "-c"]
    root = "${KUBEWRIGHT_ROOT:-}/shared-data"
    await cluster.create_pod(
        "job",
        restartPolicy="Never",
        terminationGracePeriodSeconds=60,
        initContainers=[
            {
                "name": "first",
                "image": "x",
                "command": [*shell, f"echo data > {root}/file"],
                "volumeMounts": mount,
            },
            {
                "name": "sidecar",
                "image": "x",
                "restartPolicy": "Always",
                "command": [
                    *shell,
                    f"trap 'exit 0' TERM; touch {root}/handles-signals; while true; do sleep 0.05; done",
                ],
                "volumeMounts": mount,
            },
        ],
        containers=[
            {
                "name": "app",
                "image": "x",
                # The sidecar gets its signal when this container has ended.
                "command": [
                    *shell,
                    f"until [ -e {root}/handles-signals ]; do sleep 0.05; done; cat {root}/file",
                ],
                "volumeMounts": mount,
            }
        ],
        volumes=[{"name": "shared", "emptyDir": {}}],
    )
    status = await cluster.wait_for("job", lambda status: status.get("phase") == "Succeeded")
    assert await cluster.logs("job") == "data\n"
    assert status["initContainerStatuses"][1]["state"]["terminated"]["exitCode"] == 0


async def test_crash_of_a_process(cluster: ProcessCluster) -> None:
    await cluster.run_pod("app", "sleep", "600")
    await cluster.wait_ready("app")
    process = cluster.nodes.runtime.process_of(cluster.current_run("app"))  # type: ignore[attr-defined]
    assert cluster.nodes.pods.crash("app", exit_code=42) == 1
    found = await cluster.container("app", lambda status: status["restartCount"] == 1 and status["ready"])
    assert found["lastState"]["terminated"]["exitCode"] == 42
    await process.ended.wait()


async def test_containers_are_restarted_with_the_control_plane(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'cluster.db'}"
    async with start_process_cluster(store=store) as cluster:
        await cluster.run_pod("app", "sleep", "600")
        await cluster.wait_ready("app")
    async with start_process_cluster(store=store) as cluster:
        found = await cluster.container("app", lambda status: status["restartCount"] == 1 and status["ready"])
        terminated = found["lastState"]["terminated"]
        assert (terminated["exitCode"], terminated["reason"]) == (255, "Unknown")
        assert cluster.current_run("app").ended is False


async def test_usage_is_measured(cluster: ProcessCluster) -> None:
    await cluster.run_pod("busy", sys.executable, "-c", "data = bytearray(64 << 20)\nwhile True: pass")
    await cluster.wait_ready("busy")
    metrics = GroupVersionResource("metrics.k8s.io", "v1beta1", "pods")
    async with asyncio.timeout(120):
        while True:
            found = await cluster.nodes.registration.client.get(metrics, "busy", namespace="default")
            usage = found["containers"][0]["usage"]
            if Quantity(usage["memory"]) > Quantity("64Mi") and Quantity(usage["cpu"]) > Quantity("20m"):
                break
            await asyncio.sleep(0.1)


# Termination


async def test_termination_runs_the_hook_and_sends_sigterm(cluster: ProcessCluster, tmp_path: Path) -> None:
    record = tmp_path / "record"
    program = f"trap 'echo term >> {record}; exit 0' TERM; echo ready; while true; do sleep 0.05; done"
    hook = {"preStop": {"exec": {"command": ["sh", "-c", f"echo hook >> {record}"]}}}
    await cluster.run_pod("stop", "sh", "-c", program, lifecycle=hook)
    await cluster.wait_for_log("stop", "ready")
    await cluster.client.delete("pods", "stop")
    async with asyncio.timeout(120):
        while True:
            try:
                await cluster.client.get("pods", "stop")
            except NotFound:
                break
            await asyncio.sleep(0.05)
    assert record.read_text() == "hook\nterm\n"


async def test_process_that_ignores_sigterm_is_killed(cluster: ProcessCluster) -> None:
    await cluster.run_pod(
        "stubborn",
        "sh",
        "-c",
        "trap '' TERM; echo ready; while true; do sleep 0.05; done",
        spec={"terminationGracePeriodSeconds": 1},
    )
    await cluster.wait_for_log("stubborn", "ready")
    process = cluster.nodes.runtime.process_of(cluster.current_run("stubborn"))  # type: ignore[attr-defined]
    await cluster.client.delete("pods", "stubborn")
    async with asyncio.timeout(120):
        await process.ended.wait()
    assert not Path(f"/proc/{process.pid}").exists()


# Probes and hooks


async def test_readiness_follows_the_http_server(cluster: ProcessCluster) -> None:
    port = unused_port()
    program = (
        "import http.server, os\n"
        "class Handler(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200 if os.path.exists('ready') else 503)\n"
        "        self.end_headers()\n"
        f"http.server.HTTPServer(('127.0.0.1', {port}), Handler).serve_forever()\n"
    )
    await cluster.run_pod(
        "web",
        sys.executable,
        "-c",
        program,
        ports=[{"name": "http", "containerPort": port}],
        readinessProbe={
            "httpGet": {"path": "/", "port": "http"},
            "periodSeconds": 1,
            "timeoutSeconds": 60,
            "failureThreshold": 1,
        },
    )
    await cluster.wait_for_reasons("web", "Unhealthy")
    assert condition(await cluster.status("web"), "Ready")[0] == "False"
    assert await cluster.exec("web", "touch", "ready") == (0, "")
    await cluster.wait_ready("web")


async def test_failed_liveness_probe_restarts_the_container(cluster: ProcessCluster) -> None:
    # The probe fails once, when the first process handles signals.
    program = "trap 'exit 0' TERM; [ -e failed ] || touch started; while true; do sleep 0.05; done"
    probe = "if [ -e started ]; then mv started failed; echo broken; exit 1; fi"
    await cluster.run_pod(
        "live",
        "sh",
        "-c",
        program,
        livenessProbe={
            "exec": {"command": ["sh", "-c", probe]},
            "periodSeconds": 1,
            "timeoutSeconds": 60,
            "failureThreshold": 1,
        },
    )
    found = await cluster.container("live", lambda status: status["restartCount"] >= 1)
    assert found["lastState"]["terminated"]["exitCode"] == 0
    await cluster.wait_for_reasons("live", "Unhealthy")
    events = [each.raw for each in await cluster.client.list("events", namespace="default")]
    assert any(event["message"] == "Liveness probe failed: broken\n" for event in events)


async def test_failed_post_start_hook_restarts_the_container(cluster: ProcessCluster) -> None:
    hook = {"postStart": {"exec": {"command": ["false"]}}}
    await cluster.run_pod("hook", "sleep", "600", lifecycle=hook)
    await cluster.container("hook", lambda status: status["restartCount"] >= 1)
    await cluster.wait_for_reasons("hook", "FailedPostStartHook")
