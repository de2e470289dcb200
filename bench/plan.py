"""Plans: CPU and memory of `kubewright plan` on an export of 10,000 objects.

The operator is that of the documentation: a Shop has a Deployment and a Service. The export has 1,000 Shops,
each with its Deployment, ReplicaSet, three pods, Service, EndpointSlice, Secret and ConfigMap, as a cluster
would return them after the operator became idle. The command is run as a process: once with the version that
the cluster runs, so that nothing changes, and once with a version that changes every Service.
"""

from __future__ import annotations

import functools
import json
import os
import resource as system_resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import Benchmark

SHOPS = 1_000
OBJECTS = 10_000
SECONDS = 20.0
MEGABYTES = 300.0
CREATED = "2026-03-01T10:00:00Z"
MODULE = '''
import os

from kubewright import Context, CustomResource, ObjectMeta, Operator, Spec, Status, resource
from kubewright.api.apps.v1 import Deployment, DeploymentSpec
from kubewright.api.core.v1 import Container, PodSpec, PodTemplateSpec, Service, ServicePort, ServiceSpec
from kubewright.api.meta import LabelSelector


class ShopSpec(Spec):
    image: str
    replicas: int = 1


@resource(group="example.com", version="v1")
class Shop(CustomResource[ShopSpec, Status]):
    """A shop."""


operator = Operator("shop")
PORT = int(os.environ.get("SHOP_PORT", "80"))


@operator.reconcile(Shop, owns=(Deployment, Service))
async def reconcile(shop: Shop, ctx: Context[Shop]) -> None:
    labels = {"app": shop.name}
    container = Container(name="web", image=shop.spec.image)
    pod = PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[container]))
    spec = DeploymentSpec(
        replicas=shop.spec.replicas, selector=LabelSelector(match_labels=labels), template=pod
    )
    service = ServiceSpec(selector=labels, ports=[ServicePort(port=PORT, target_port=8080)])
    await ctx.ensure(
        [
            Deployment(metadata=ObjectMeta(name=shop.name), spec=spec),
            Service(metadata=ObjectMeta(name=shop.name), spec=service),
        ]
    )
'''


def export(directory: Path) -> Path:
    """Write the module and the export: what a plan of one Shop creates, repeated for all of them."""
    from kubewright.explore.simulation.factories import ModuleFactory
    from kubewright.manager.operators.installation import definitions_of
    from kubewright.rehearse import ClusterSnapshot, write_export
    from kubewright.rehearse.plans.planner import plan_operator

    (directory / "shop.py").write_text(MODULE)
    sys.path.insert(0, str(directory))
    factory = ModuleFactory("shop:operator")
    [definition] = definitions_of(factory().kinds)
    spec = {"image": "web:1", "replicas": 3}
    shop = {
        "apiVersion": "example.com/v1",
        "kind": "Shop",
        "metadata": {"name": "shop-0000", "namespace": "default", "uid": "0000-shop", "generation": 1}
        | {"creationTimestamp": CREATED, "resourceVersion": "5"},
        "spec": spec,
    }
    definition["metadata"] |= {"uid": "crd", "resourceVersion": "2", "creationTimestamp": CREATED}
    first = plan_operator(factory, ClusterSnapshot.of([definition, shop], kubernetes_version="1.36")).final
    shared, own = [], []
    for each in first:
        (own if "shop-0000" in each["metadata"]["name"] else shared).append(each)
    uids = {each["metadata"]["uid"]: f"0000-{index}" for index, each in enumerate(own)}
    text = json.dumps(own)
    for uid, short in uids.items():
        text = text.replace(uid, short)
    extra: list[Any] = [
        {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"name": "shop-0000", "namespace": "default", "uid": f"0000-{kind}"}
            | {"creationTimestamp": CREATED, "resourceVersion": "6"},
            "data": {"password": "cGFzc3dvcmQ="},
        }
        for kind in ("Secret", "ConfigMap")
    ]
    text = json.dumps([*json.loads(text), *extra])
    objects = list(shared)
    for number in range(SHOPS):
        copies = json.loads(text.replace("0000", f"{number:04}"))
        for each in copies:
            if each["kind"] == "Service":
                address = f"10.96.{number // 200 + 1}.{number % 200 + 10}"
                each["spec"] |= {"clusterIP": address, "clusterIPs": [address]}
        objects += copies
    path = directory / "export.json"
    write_export(ClusterSnapshot.of(objects, kubernetes_version="1.36"), path)
    return path


@functools.cache
def measured() -> dict[str, tuple[float, float]]:
    """Return CPU seconds and megabytes of the command, by name."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        path = export(directory)
        for what, port, code in (("nothing changes", "80", 0), ("1,000 Services change", "81", 3)):
            before = system_resource.getrusage(system_resource.RUSAGE_CHILDREN)
            report = directory / "plan.json"
            command = [
                sys.executable,
                "-c",
                _CHILD,
                "shop:operator",
                "--from",
                str(path),
                "--json",
                str(report),
            ]
            done = subprocess.run(
                command,
                cwd=directory,
                env={**os.environ, "SHOP_PORT": port},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != code:
                raise RuntimeError(f"exit code {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
            after = system_resource.getrusage(system_resource.RUSAGE_CHILDREN)
            assert json.loads(report.read_text())["objects"] >= OBJECTS
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            found[what] = cpu, float(done.stderr.split()[-1]) / 1024
    return found


_CHILD = """
import resource, sys
from kubewright.cli import main
try:
    main(["plan", *sys.argv[1:]])
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def benchmarks() -> list[Benchmark]:
    """Return the benchmarks."""

    def value(name: str, index: int) -> Callable[[], object]:
        return lambda: measured()[name][index]

    found = []
    for name in ("nothing changes", "1,000 Services change"):
        found += [
            Benchmark(
                name=f"plan of 10,000 objects, {name}",
                run=value(name, 0),
                target_ms=SECONDS * 1e3,
                self_timed=True,
            ),
            Benchmark(name=f"memory of it, {name}", run=value(name, 1), target_mb=MEGABYTES),
        ]
    return found
