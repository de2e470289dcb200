"""kubectl commands that write: create, apply, replace, edit, patch, delete."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, labels: {{app: web}}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers:
      - name: web
        image: {image}
        ports: [{{containerPort: 80}}]
"""

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.writing.example.com}
spec:
  group: writing.example.com
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, shortNames: [gd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 1}
              replicas: {type: integer, default: 1}
              tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""


def gadget(name: str = "one", **spec: Any) -> str:
    return json.dumps(
        {"apiVersion": "writing.example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": spec}
    )


@pytest.fixture
def gadgets(kubectl: Any) -> Any:
    kubectl("apply", "-f", "-", given=CRD)
    kubectl("wait", "--for=condition=Established", "crd/gadgets.writing.example.com", "--timeout=60s")
    return kubectl


def test_create_commands(kubectl: Any) -> None:
    ways = {
        "configmap c --from-literal=a=1": "configmap/c",
        "secret generic s --from-literal=password=secret": "secret/s",
        "secret docker-registry dr --docker-username=u --docker-password=p --docker-server=x": "secret/dr",
        "deployment d --image=nginx --replicas=2": "deployment.apps/d",
        "service clusterip cip --tcp=80:8080": "service/cip",
        "service nodeport np --tcp=80": "service/np",
        "service externalname en --external-name=example.com": "service/en",
        "role r --verb=get --resource=pods": "role.rbac.authorization.k8s.io/r",
        "rolebinding rb --role=r --user=u": "rolebinding.rbac.authorization.k8s.io/rb",
        "clusterrole tcr --verb=get --resource=pods": "clusterrole.rbac.authorization.k8s.io/tcr",
        "clusterrolebinding tour-crb --clusterrole=tcr --group=g": (
            "clusterrolebinding.rbac.authorization.k8s.io/tour-crb"
        ),
        "job j --image=busybox -- true": "job.batch/j",
        "cronjob cj --image=busybox --schedule=@hourly -- true": "cronjob.batch/cj",
        "job j2 --from=cronjob/cj": "job.batch/j2",
        "ingress i --rule=a.example.com/x*=cip:80 --class=front": "ingress.networking.k8s.io/i",
        "quota q --hard=pods=5,services=10": "resourcequota/q",
        "poddisruptionbudget pdb --selector=app=d --min-available=1": "poddisruptionbudget.policy/pdb",
        "priorityclass tour-pc --value=10": "priorityclass.scheduling.k8s.io/tour-pc",
        "serviceaccount sa": "serviceaccount/sa",
    }
    for command, made in ways.items():
        assert kubectl("create", *command.split()) == f"{made} created\n"
    encoded = kubectl("get", "secret", "s", "-o", "jsonpath={.data.password}")
    assert base64.b64decode(encoded) == b"secret"
    assert kubectl("get", "job", "j2", "-o", "jsonpath={.metadata.ownerReferences[0].name}") == "cj"
    assert re.search(r"^np\s+NodePort\s+10\.\S+\s+<none>\s+80:3\d{4}/TCP", kubectl("get", "svc"), re.M)
    assert "already exists" in kubectl.fails("create", "configmap", "c")
    assert "is forbidden" in kubectl.fails("create", "quota", "x", "--hard=pods=1", "--as=jane")
    assert "Invalid value" in kubectl.fails("create", "configmap", "Bad_Name")
    assert kubectl("create", "configmap", "dry", "--dry-run=server", "-o", "name") == "configmap/dry\n"
    assert "not found" in kubectl.fails("get", "configmap", "dry")
    namespaced = kubectl.fails("create", "configmap", "c", "-n", "not-there")
    assert 'namespaces "not-there" not found' in namespaced


def test_apply(kubectl: Any) -> None:
    path = kubectl.file("web.yaml", DEPLOYMENT.format(replicas=2, image="nginx:1"))
    assert kubectl("apply", "-f", path) == "deployment.apps/web created\n"
    assert kubectl("apply", "-f", path) == "deployment.apps/web unchanged\n"
    assert kubectl("diff", "-f", path) == ""
    kubectl.file("web.yaml", DEPLOYMENT.format(replicas=3, image="nginx:2"))
    difference = kubectl.run("diff", "-f", path)
    assert difference.returncode == 1
    assert re.search(r"^-\s+replicas: 2\n\+\s+replicas: 3$", difference.stdout, re.M)
    assert kubectl("apply", "-f", path) == "deployment.apps/web configured\n"
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas} {.metadata.generation}") == "3 2"
    assert "last-applied" in kubectl("get", "deploy", "web", "-o", "yaml")
    assert '"image":"nginx:2"' in kubectl("apply", "view-last-applied", "deploy/web", "-o", "json").replace(
        " ", ""
    )
    wrong = DEPLOYMENT.format(replicas=3, image="nginx:2").replace("replicas", "replicaz")
    assert 'unknown field "spec.replicaz"' in kubectl.fails("apply", "-f", "-", given=wrong)
    assert "unchanged" in kubectl(
        "apply", "-f", "-", "--validate=ignore", given=DEPLOYMENT.format(replicas=3, image="nginx:2")
    )
    assert "is invalid" in kubectl.fails("apply", "-f", "-", given=DEPLOYMENT.format(replicas=-1, image="x"))


def test_server_side_apply(gadgets: Any) -> None:
    kubectl = gadgets
    apply = ("apply", "--server-side", "-f", "-")
    assert kubectl(*apply, given=gadget(size=1, tags=["a"])) == (
        "gadget.writing.example.com/one serverside-applied\n"
    )
    kubectl(*apply, "--field-manager=other", given=gadget(size=1, tags=["b"]))
    assert kubectl("get", "gd", "one", "-o", "jsonpath={.spec.tags}") == '["a","b"]'
    conflict = kubectl.fails(*apply, "--field-manager=other", given=gadget(size=2))
    assert 'conflict with "kubectl": .spec.size' in conflict
    kubectl(*apply, "--field-manager=other", "--force-conflicts", given=gadget(size=2))
    assert kubectl("get", "gd", "one", "-o", "jsonpath={.spec.size} {.spec.tags}") == '2 ["a"]'
    assert "should be greater than or equal to 1" in kubectl.fails(*apply, given=gadget("two", size=0))
    assert "field not declared in schema" in kubectl.fails(*apply, given=gadget("two", size=1, colour="red"))
    different = kubectl.run(
        "diff", "--server-side", "--force-conflicts", "-f", "-", given=gadget(size=7, tags=["a"])
    )
    assert different.returncode == 1, different.stderr
    assert "+  size: 7" in different.stdout


def test_apply_a_folder_with_kustomize_and_prune(kubectl: Any) -> None:
    kubectl.file("kustom/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: y}\n")
    folder = kubectl.file(
        "kustom/kustomization.yaml",
        "resources: [a.yaml]\nnamePrefix: pre-\n"
        "configMapGenerator: [{name: made, literals: [k=v]}]\nlabels: [{pairs: {team: blue}}]\n",
    ).rpartition("/")[0]
    out = kubectl("apply", "-k", folder)
    assert re.search(r"^configmap/pre-a created\nconfigmap/pre-made-\w+ created$", out, re.M)
    assert len(kubectl("get", "cm", "-l", "team=blue", "-o", "name").split()) == 2
    assert kubectl("delete", "-k", folder).count("deleted") == 2
    many = "\n---\n".join(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: p{i}, labels: {{set: one}}}}" for i in range(3)
    )
    kubectl("apply", "-f", "-", given=many)
    prune = ("apply", "--prune", "-l", "set=one", "--prune-allowlist=core/v1/ConfigMap", "-f", "-")
    out = kubectl(*prune, given=many.rpartition("---")[0])
    assert "configmap/p2 pruned" in out


def test_replace_and_edit(kubectl: Any) -> None:
    kubectl("create", "configmap", "c", "--from-literal=a=1")
    live = json.loads(kubectl("get", "configmap", "c", "-o", "json"))
    live["data"] = {"b": "2"}
    assert kubectl("replace", "-f", "-", given=json.dumps(live)) == "configmap/c replaced\n"
    assert "the object has been modified" in kubectl.fails("replace", "-f", "-", given=json.dumps(live))
    del live["metadata"]["resourceVersion"]
    assert kubectl("replace", "--force", "-f", "-", given=json.dumps(live)).endswith("configmap/c replaced\n")
    editor = kubectl.file("editor.sh", '#!/bin/sh\nsed -i \'s/b: "2"/b: "3"/\' "$1"\n')
    assert "edited" in kubectl("edit", "configmap", "c", EDITOR=f"sh {editor}")
    assert kubectl("get", "configmap", "c", "-o", "jsonpath={.data.b}") == "3"
    unchanged = kubectl.run("edit", "configmap", "c", EDITOR="true")
    assert "no changes made" in unchanged.stdout + unchanged.stderr


def test_patch_label_annotate(gadgets: Any) -> None:
    kubectl = gadgets
    kubectl("create", "-f", "-", given=DEPLOYMENT.format(replicas=1, image="nginx"))
    strategic = '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"busybox"}]}}}}'
    assert kubectl("patch", "deploy", "web", "-p", strategic) == "deployment.apps/web patched\n"
    names = kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.template.spec.containers[*].name}")
    assert names == "side web"
    assert "no change" in kubectl("patch", "deploy", "web", "-p", strategic)
    kubectl("patch", "deploy", "web", "--type=merge", "-p", '{"metadata":{"labels":{"x":"1"}}}')
    kubectl("patch", "deploy", "web", "--type=json", "-p", '[{"op":"remove","path":"/metadata/labels/x"}]')
    status = ("patch", "deploy", "web", "--subresource=status", "--type=merge", "-p")
    kubectl(*status, '{"status":{"replicas":1,"readyReplicas":1},"spec":{"replicas":9}}')
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas} {.status.readyReplicas}") == "1 1"
    kubectl("apply", "-f", "-", given=gadget(size=1))
    assert "is not supported by" in kubectl.fails("patch", "gd", "one", "--type=strategic", "-p", '{"a":{}}')
    assert "patched" in kubectl("patch", "gd", "one", "--type=merge", "-p", '{"spec":{"size":5}}')
    invalid = kubectl.fails("patch", "gd", "one", "--type=merge", "-p", '{"spec":{"size":"big"}}')
    assert 'spec.size in body must be of type integer: "string"' in invalid
    assert kubectl("label", "gd", "one", "x=y") == "gadget.writing.example.com/one labeled\n"
    assert "--overwrite is false" in kubectl.fails("label", "gd", "one", "x=z")
    assert kubectl("label", "gd", "--all", "x=z", "--overwrite") == "gadget.writing.example.com/one labeled\n"
    assert kubectl("label", "gd", "one", "x-") == "gadget.writing.example.com/one unlabeled\n"
    assert "invalid label value" in kubectl.fails("label", "gd", "one", "x=not allowed")
    assert kubectl("annotate", "gd", "-l", "!x", "note=some text") == (
        "gadget.writing.example.com/one annotated\n"
    )


def test_workloads(gadgets: Any) -> None:
    kubectl = gadgets
    kubectl("create", "deployment", "web", "--image=nginx")
    assert kubectl("scale", "deploy", "web", "--replicas=3") == "deployment.apps/web scaled\n"
    assert "Expected replicas to be 9" in kubectl.fails(
        "scale", "deploy/web", "--replicas=1", "--current-replicas=9"
    )
    assert "image updated" in kubectl("set", "image", "deploy/web", "nginx=nginx:2")
    assert "env updated" in kubectl("set", "env", "deploy/web", "A=b")
    assert "requirements updated" in kubectl("set", "resources", "deploy/web", "--limits=cpu=1,memory=1Gi")
    kubectl("create", "serviceaccount", "robot")
    assert "serviceaccount updated" in kubectl("set", "serviceaccount", "deploy/web", "robot")
    container = json.loads(kubectl("get", "deploy", "web", "-o", "json"))["spec"]["template"]["spec"]
    assert container["serviceAccountName"] == "robot"
    assert container["containers"][0]["resources"] == {"limits": {"cpu": "1", "memory": "1Gi"}}
    assert "restarted" in kubectl("rollout", "restart", "deploy/web")
    assert "paused" in kubectl("rollout", "pause", "deploy/web")
    assert "resumed" in kubectl("rollout", "resume", "deploy/web")
    assert "No rollout history found" in kubectl("rollout", "history", "deploy/web")
    waiting = kubectl.run("rollout", "status", "deploy/web", "--timeout=5s")
    assert waiting.returncode == 1
    assert "Waiting for deployment spec update to be observed" in waiting.stdout
    assert "exposed" in kubectl("expose", "deploy", "web", "--port=80", "--type=NodePort")
    assert "autoscaled" in kubectl("autoscale", "deploy", "web", "--min=2", "--max=5")
    assert re.search(r"^web\s+Deployment/web\s+\S+.*\s2\s+5\s+0", kubectl("get", "hpa"), re.M)
    kubectl("apply", "-f", "-", given=gadget(size=1))
    assert "scaled" in kubectl("scale", "gadget", "one", "--replicas=4")
    assert kubectl("get", "gd", "one", "-o", "jsonpath={.spec.replicas}") == "4"


def test_delete_and_wait(gadgets: Any) -> None:
    kubectl = gadgets
    kubectl("apply", "-f", "-", given=gadget(size=1))
    patch = '{"status":{"conditions":[{"type":"Ready","status":"True"}],"phase":"Done"}}'
    kubectl("patch", "gd", "one", "--subresource=status", "--type=merge", "-p", patch)
    assert "condition met" in kubectl("wait", "--for=condition=Ready", "gd/one", "--timeout=60s")
    assert "condition met" in kubectl(
        "wait", "--for=jsonpath={.status.phase}=Done", "gd/one", "--timeout=60s"
    )
    kubectl("patch", "gd", "one", "--type=merge", "-p", '{"metadata":{"finalizers":["example.com/hold"]}}')
    assert "timed out" in kubectl.fails("delete", "gd", "one", "--timeout=300ms")
    assert "deleted" in kubectl("delete", "gd", "one", "--wait=false")
    kubectl("patch", "gd", "one", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    kubectl("wait", "--for=delete", "gd/one", "--timeout=60s")
    assert 'gadgets.writing.example.com "one" not found' in kubectl.fails("delete", "gd", "one")
    assert kubectl("delete", "gd", "one", "--ignore-not-found") == ""
    for name in ("a", "b", "c"):
        kubectl("create", "configmap", name)
    kubectl("label", "configmap", "a", "b", "go=away")
    assert kubectl("delete", "configmap", "-l", "go=away").count("deleted") == 2
    assert kubectl("delete", "configmap", "c", "--cascade=foreground", "--now").count("deleted") == 1
    kubectl("create", "deployment", "d", "--image=nginx")
    kubectl("run", "p", "--image=nginx")
    assert kubectl("delete", "deploy,pod", "--all").count("deleted") == 2
    kubectl("create", "namespace", "tour-short-life")
    kubectl("create", "configmap", "inside", "-n", "tour-short-life")
    assert "deleted" in kubectl("delete", "namespace", "tour-short-life", "--timeout=60s")
    assert "not found" in kubectl.fails("get", "namespace", "tour-short-life")
