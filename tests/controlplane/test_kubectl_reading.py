"""kubectl commands that read: get, describe, explain, api-resources, auth."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from typing import Any

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.reading.example.com}
spec:
  group: reading.example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, shortNames: [crt], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Schedule, type: string, jsonPath: .spec.schedule}
    - {name: Image, type: string, jsonPath: .spec.image, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        description: Something that runs at times.
        properties:
          spec:
            type: object
            required: [schedule]
            properties:
              schedule: {type: string, description: When it runs.}
              image: {type: string}
              history: {type: array, items: {type: object, properties: {limit: {type: integer}}}}
"""


def rows(table: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip()) for line in table.splitlines()]


def manifest(api_version: str, kind: str, name: str, **rest: Any) -> str:
    return json.dumps({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **rest})


def test_discovery(kubectl: Any) -> None:
    assert {"v1", "apps/v1", "rbac.authorization.k8s.io/v1"} <= set(kubectl("api-versions").split())
    table = rows(kubectl("api-resources"))
    assert table[0] == ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"]
    assert ["deployments", "deploy", "apps/v1", "true", "Deployment"] in table
    assert ["priorityclasses", "pc", "scheduling.k8s.io/v1", "false", "PriorityClass"] in table
    assert kubectl("api-resources", "--api-group=apps", "-o", "name").split()[-1] == "statefulsets.apps"
    wide = kubectl("api-resources", "--namespaced=false", "--verbs=list", "-o", "wide")
    assert re.search(r"^nodes .*create,delete,deletecollection,get,list,patch,update,watch", wide, re.M)
    assert "pods" not in wide.split()


def test_explain(kubectl: Any) -> None:
    assert "A group of containers that run together on one node." in kubectl("explain", "pods")
    finalizers = kubectl("explain", "pods.metadata.finalizers")
    assert "Names of components that must finish their cleanup" in finalizers
    assert "Seconds between checks; 10 by default." in kubectl(
        "explain", "pods.spec.containers.livenessProbe.periodSeconds"
    )
    text = kubectl("explain", "deployment.spec.template.spec.containers.ports")
    assert "GROUP:      apps" in text
    assert re.search(r"containerPort\s+<integer> -required-", text)
    assert re.search(
        r"^ {6}matchLabels\s+<map\[string\]string>", kubectl("explain", "deploy", "--recursive"), re.M
    )
    assert "does not exist" in kubectl.fails("explain", "pod.spec.nothing")
    assert "the server doesn't have a resource type" in kubectl.fails("explain", "nothings")
    kubectl("apply", "-f", kubectl.file("crd.yaml", CRD))
    kubectl("wait", "--for=condition=Established", "crd/crontabs.reading.example.com", "--timeout=60s")
    assert "Something that runs at times." in kubectl("explain", "crontab")
    field = kubectl("explain", "crontab.spec.schedule")
    assert "FIELD: schedule <string>" in field
    assert "When it runs." in field
    assert re.search(
        r"history\s+<\[\]Object>\n\s+limit\s+<integer>", kubectl("explain", "crt", "--recursive")
    )


def test_get_in_every_format(kubectl: Any) -> None:
    for name in ("b", "a", "c"):
        kubectl("run", name, "--image=nginx:1", f"--labels=app={name},tier=web")
    head, first = rows(kubectl("get", "pods"))[:2]
    assert head == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert first[:4] == ["a", "0/1", "Pending", "0"]
    assert rows(kubectl("get", "pods", "-o", "wide"))[0][-2:] == ["NOMINATED NODE", "READINESS GATES"]
    assert rows(kubectl("get", "pods", "--show-labels"))[1][-1] == "app=a,tier=web"
    assert rows(kubectl("get", "pods", "-L", "app"))[0][-1] == "APP"
    assert kubectl("get", "pods", "-o", "name").split() == ["pod/a", "pod/b", "pod/c"]
    by_time = kubectl("get", "pods", "--sort-by=.metadata.labels.app", "--no-headers")
    assert [row[0] for row in rows(by_time)] == ["a", "b", "c"]
    assert kubectl("get", "pods", "-l", "app in (a,c),tier=web", "-o", "name").split() == ["pod/a", "pod/c"]
    assert kubectl("get", "pods", "--field-selector=metadata.name!=a,status.phase=Pending", "-o", "name") == (
        "pod/b\npod/c\n"
    )
    everywhere = rows(kubectl("get", "pods", "-A", "-l", "app=b"))
    assert everywhere[1][:2] == [kubectl.namespace, "b"]
    assert kubectl("get", "pod", "a", "-o", "jsonpath={.spec.containers[0].image}") == "nginx:1"
    columns = kubectl("get", "pods", "-o", "custom-columns=N:.metadata.name,I:.spec.containers[*].image")
    assert rows(columns) == [["N", "I"], ["a", "nginx:1"], ["b", "nginx:1"], ["c", "nginx:1"]]
    assert kubectl("get", "pods", "-o", "go-template={{range .items}}{{.metadata.name}} {{end}}") == "a b c "
    listed = json.loads(kubectl("get", "pods", "-o", "json"))
    assert (listed["kind"], len(listed["items"])) == ("List", 3)
    yaml = kubectl("get", "pod", "a", "-o", "yaml", "--show-managed-fields")
    assert "kind: Pod" in yaml
    assert "manager: kubectl-run" in yaml
    assert 'pods "nope" not found' in kubectl.fails("get", "pod", "nope")
    assert kubectl("get", "pod", "nope", "--ignore-not-found") == ""
    assert kubectl.run("get", "jobs").stderr == f"No resources found in {kubectl.namespace} namespace.\n"
    assert "doesn't have a resource type" in kubectl.fails("get", "nothings")
    assert "found '=', expected" in kubectl.fails("get", "pods", "-l", "a=b=c")
    assert kubectl("get", "pods", "--chunk-size=1", "-o", "name").count("pod/") == 3


def test_get_watches(kubectl: Any) -> None:
    kubectl("create", "configmap", "zero")
    kubectl("label", "configmap", "zero", "shown=yes")
    command = kubectl.command("get", "configmaps", "-w", "--output-watch-events", "-l", "shown=yes")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=kubectl.environment) as watching:
        try:
            assert watching.stdout is not None
            lines = [watching.stdout.readline().split()[:2] for _ in range(2)]
            kubectl("create", "configmap", "first")
            kubectl("label", "configmap", "first", "shown=yes")
            kubectl("label", "configmap", "first", "other=1")
            kubectl("delete", "configmap", "first")
            lines += [watching.stdout.readline().split()[:2] for _ in range(3)]
        finally:
            watching.terminate()
    assert lines[:2] == [["EVENT", "NAME"], ["ADDED", "zero"]]
    assert lines[2:] == [["ADDED", "first"], ["MODIFIED", "first"], ["DELETED", "first"]]


def test_describe(kubectl: Any) -> None:
    kubectl("create", "deployment", "web", "--image=nginx", "--port=80", "--replicas=2")
    kubectl("expose", "deployment", "web", "--port=8080", "--target-port=80")
    kubectl("run", "single", "--image=nginx", "--env=A=b", "--overrides", '{"spec":{"nodeName":"somewhere"}}')
    kubectl("apply", "-f", kubectl.file("crd.yaml", CRD))
    spec = {"schedule": "0 1 * * *", "history": [{"limit": 3}]}
    kubectl("apply", "-f", "-", given=manifest("reading.example.com/v1", "CronTab", "nightly", spec=spec))
    kubectl("apply", "-f", "-", given=manifest("v1", "Node", "describe-node"))
    pod = kubectl("describe", "pod", "single")
    assert re.search(r"Node:\s+somewhere/", pod)
    assert re.search(r"A:\s+b", pod)
    assert re.search(r"Service Account:\s+default", pod)
    assert re.search(r"Replicas:\s+2 desired", kubectl("describe", "deployment", "web"))
    service = kubectl("describe", "service", "web")
    assert re.search(r"Port:\s+<unset>\s+8080/TCP", service)
    assert re.search(r"IP:\s+10\.0\.0\.\d+", service)
    assert re.search(r"Unschedulable:\s+false", kubectl("describe", "node", "describe-node"))
    assert re.search(r"Schedule:\s+0 1 \* \* \*", kubectl("describe", "crontab", "nightly"))
    for_all = kubectl("get", "all")
    assert "crontab.reading.example.com/nightly" in for_all
    assert "deployment.apps/web" in for_all
    assert rows(kubectl("get", "crt", "-o", "wide"))[0] == ["NAME", "SCHEDULE", "IMAGE"]


def test_events(kubectl: Any) -> None:
    kubectl("run", "single", "--image=nginx")
    uid = kubectl("get", "pod", "single", "-o", "jsonpath={.metadata.uid}")
    event = f"""
apiVersion: v1
kind: Event
metadata: {{name: single.1, namespace: {kubectl.namespace}}}
involvedObject: {{apiVersion: v1, kind: Pod, name: single, uid: {uid}, namespace: {kubectl.namespace}}}
reason: Pulled
message: The image is here.
type: Normal
count: 3
firstTimestamp: "2026-01-01T00:00:00Z"
lastTimestamp: "2026-01-01T00:01:00Z"
source: {{component: kubelet}}
"""
    kubectl("create", "-f", "-", given=event)
    assert rows(kubectl("events", "--for=pod/single"))[1][1:] == [
        "Normal",
        "Pulled",
        "Pod/single",
        "The image is here.",
    ]
    assert rows(kubectl("get", "events"))[1][1:4] == ["Normal", "Pulled", "pod/single"]
    assert "The image is here." in kubectl("get", "events.events.k8s.io", "-o", "yaml")
    described = kubectl("describe", "pod", "single")
    assert "The image is here." in described


def test_auth_can_i(kubectl: Any) -> None:
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods,deployments.apps")
    kubectl("create", "rolebinding", "reader", "--role=reader", "--user=jane", "--serviceaccount=x:y")
    assert kubectl("auth", "can-i", "delete", "nodes") == "yes\n"
    assert kubectl("auth", "can-i", "list", "pods", "--as=jane") == "yes\n"
    assert kubectl.fails("auth", "can-i", "delete", "pods", "--as=jane", "--quiet") == ""
    assert kubectl("auth", "can-i", "get", "pods", "--as=system:serviceaccount:x:y") == "yes\n"
    mine = kubectl("auth", "can-i", "--list", "--as=jane")
    assert re.search(r"^pods\s+\[\]\s+\[\]\s+\[get list\]$", mine, re.M)
    assert re.search(r"^deployments\.apps\s+\[\]\s+\[\]\s+\[get list\]$", mine, re.M)
    assert 'User "jane" cannot list resource "secrets"' in kubectl.fails("get", "secrets", "--as=jane")
    who = kubectl("auth", "whoami", "--as=jane", "--as-group=team", "-o", "json")
    assert json.loads(who)["status"]["userInfo"]["groups"] == ["team", "system:authenticated"]
    assert re.search(r"^Groups\s+\[system:masters system:authenticated\]$", kubectl("auth", "whoami"), re.M)
    kubectl("create", "serviceaccount", "robot")
    token = kubectl("create", "token", "robot", "--duration=20m").strip()
    account = f"system:serviceaccount:{kubectl.namespace}:robot"
    assert account in kubectl("auth", "whoami", f"--token={token}")
    server = kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
    bare = ("--kubeconfig=/dev/null", "--insecure-skip-tls-verify", f"--server={server}")
    assert account in kubectl.fails("get", "pods", *bare, f"--token={token}")
    assert "Unauthorized" in kubectl.fails("get", "--raw", "/api/v1/pods", *bare, "--token=wrong")
    anonymous = ("--as=system:anonymous", "--as-group=system:unauthenticated")
    assert "system:anonymous" in kubectl.fails("get", "--raw", "/api/v1/pods", *anonymous)
    rule = kubectl(
        "create", "clusterrole", "escalate", "--verb=*", "--resource=*", "--dry-run=client", "-o", "yaml"
    )
    kubectl("create", "clusterrole", "role-maker", "--verb=create", "--resource=clusterroles")
    kubectl("create", "clusterrolebinding", "role-maker", "--clusterrole=role-maker", "--user=jane")
    assert "attempting to grant RBAC permissions" in kubectl.fails(
        "create", "-f", "-", "--as=jane", given=rule
    )


def test_cluster_info(kubectl: Any) -> None:
    versions = json.loads(kubectl("version", "-o", "json"))
    assert versions["serverVersion"]["gitVersion"].startswith("v1.37")
    assert "is running at" in kubectl("cluster-info")
    assert kubectl("config", "current-context") == "kubewright\n"
    assert "DATA+OMITTED" in kubectl("config", "view")
    assert [row[1] for row in rows(kubectl("config", "get-contexts"))] == ["NAME", "kubewright"]
    assert kubectl("get", "--raw", "/readyz") == "ok"
    assert json.loads(kubectl("get", "--raw", "/api/v1/namespaces/default"))["metadata"]["name"] == "default"
    assert "the server could not find the requested resource" in kubectl.fails("get", "--raw", "/nothing")
    assert "Metrics API not available" in kubectl.fails("top", "pods")
    assert "Metrics API not available" in kubectl.fails("top", "nodes")
    assert "{" in kubectl("cluster-info", "dump")


def test_commands_that_need_a_node(kubectl: Any) -> None:
    kubectl("run", "waits", "--image=nginx")
    assert kubectl("logs", "waits") == ""
    assert "does not have a host assigned" in kubectl.fails("exec", "waits", "--", "ls")
    assert "pod is not running" in kubectl.fails("port-forward", "waits", "8000")
    assert "timed out" in kubectl.fails("wait", "--for=condition=Ready", "pod/waits", "--timeout=1s")


def test_proxy(kubectl: Any) -> None:
    command = kubectl.command("proxy", "--port=0")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=kubectl.environment) as proxy:
        try:
            assert proxy.stdout is not None
            address = proxy.stdout.readline().split()[-1]
            with urllib.request.urlopen(
                f"http://{address}/api/v1/namespaces/{kubectl.namespace}"
            ) as response:
                assert json.load(response)["kind"] == "Namespace"
        finally:
            proxy.terminate()


def test_nodes(kubectl: Any) -> None:
    kubectl("apply", "-f", "-", given=manifest("v1", "Node", "tour-node"))
    assert kubectl("cordon", "tour-node") == "node/tour-node cordoned\n"
    assert rows(kubectl("get", "node", "tour-node"))[1][1] == "Unknown,SchedulingDisabled"
    assert "node/tour-node drained" in kubectl("drain", "tour-node", "--ignore-daemonsets", "--timeout=60s")
    assert kubectl("uncordon", "tour-node") == "node/tour-node uncordoned\n"
    assert kubectl("taint", "nodes", "tour-node", "a=b:NoSchedule") == "node/tour-node tainted\n"
    assert re.search(r"Taints:\s+a=b:NoSchedule", kubectl("describe", "node", "tour-node"))
    assert kubectl("taint", "nodes", "tour-node", "a-") == "node/tour-node untainted\n"
    assert 'nodes "nope" not found' in kubectl.fails("drain", "nope")
    kubectl("run", "here", "--image=nginx", "--overrides", '{"spec":{"nodeName":"tour-node"}}')
    drained = kubectl("drain", "tour-node", "--force", "--grace-period=0", "--timeout=60s")
    assert "evicting pod nodes/here" in drained
    assert kubectl("delete", "node", "tour-node") == 'node "tour-node" deleted\n'
