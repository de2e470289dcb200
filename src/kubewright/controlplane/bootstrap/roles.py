"""Bootstrap RBAC: the roles and bindings of a new cluster, in a compact notation.

`roles.txt` has those of all supported versions of Kubernetes; `tools/generate_roles.py` writes it. A role is
its name and, indented below it, one rule per line: `glw apps|extensions:deployments` allows get, list and
watch of deployments in two groups; `=` adds resource names; a rule that begins with `/` is a non-resource
rule. Verbs are letters as in `kubewright.api.builtin.resources`, or names that follow a `+`. `EVENTS` is the
rule of components that write events. ` @1.36-` at the end is the range of versions that have the line. A line
with deeper indentation continues the line above.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Final

from kubewright.api.builtin.resources import VERBS
from kubewright.api.kubernetes_version import NEWEST, KubernetesVersion
from kubewright.apiserver.resources.objects import Object

RBAC: Final = "rbac.authorization.k8s.io"
_EVENTS: Final = "cpu core|events.k8s.io:events"

AGGREGATED: Final = {"admin": "", "edit": "admin", "view": "edit"}
"""Roles that gather others by label, and the role that in turn gathers them."""


def _rule(text: str) -> Object:
    letters, _, rest = (_EVENTS if text == "EVENTS" else text).partition(" ")
    verbs = letters[1:].split("+") if letters[0] == "+" else [VERBS[letter] for letter in letters]
    if rest[0] in "/*" and ":" not in rest:
        return {"verbs": verbs, "nonResourceURLs": rest.split(",")}
    groups, _, things = rest.partition(":")
    resources, _, names = things.partition("=")
    rule: Object = {
        "verbs": verbs,
        "apiGroups": ["" if group == "core" else group for group in groups.split("|")],
        "resources": resources.split(","),
    }
    if names:
        rule["resourceNames"] = names.split(",")
    return rule


def _entries(section: str, version: KubernetesVersion) -> Iterator[tuple[str, list[str]]]:
    """Return names, and the lines that are indented below them, of one section of the file."""
    text = (files(__package__) / "roles.txt").read_text("utf-8")
    table = text.partition(f"[{section}]\n")[2].partition("\n\n")[0]
    for entry in table.replace("\n    ", "").replace("\n  ", "\t").strip().split("\n"):
        (name, versions), *lines = (each.partition(" @")[::2] for each in entry.split("\t"))
        if version.includes(versions):
            yield name, [line for line, versions in lines if version.includes(versions)]


def _metadata(name: str, namespace: str = "", **labels: str) -> Object:
    metadata: Object = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {"kubernetes.io/bootstrapping": "rbac-defaults", **labels}
    metadata["annotations"] = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    return metadata


def _gathered_by(role: str) -> dict[str, str]:
    return {f"{RBAC}/aggregate-to-{role}": "true"}


def cluster_roles(version: KubernetesVersion = NEWEST) -> Iterator[Object]:
    """Return every ClusterRole of a version of Kubernetes."""
    for name, above in AGGREGATED.items():
        yield {
            "metadata": _metadata(name, **(_gathered_by(above) if above else {})),
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": _gathered_by(name)}]},
            "rules": None,
        }
    for name, rules in _entries("cluster roles", version):
        into = name.removeprefix("system:aggregate-to-")
        labels = _gathered_by(into) if into != name else {}
        yield {"metadata": _metadata(name, **labels), "rules": [_rule(text) for text in rules]}


def roles(version: KubernetesVersion = NEWEST) -> Iterator[Object]:
    """Return every Role of a version of Kubernetes."""
    for place, rules in _entries("roles", version):
        namespace, _, name = place.partition("/")
        yield {"metadata": _metadata(name, namespace), "rules": [_rule(text) for text in rules]}


def _subjects(lines: list[str]) -> list[Object]:
    found: list[Object] = []
    for line in lines:
        kind, _, name = line.partition(" ")
        if kind == "ServiceAccount":
            namespace, _, account = name.partition("/")
            found.append({"kind": kind, "name": account, "namespace": namespace})
        else:
            found.append({"kind": kind, "apiGroup": RBAC, "name": name})
    return found


def _binding(metadata: Object, kind: str, role: str, subjects: list[Object]) -> Object:
    binding: Object = {"metadata": metadata, "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role}}
    if subjects:
        binding["subjects"] = subjects
    return binding


def cluster_role_bindings(version: KubernetesVersion = NEWEST) -> Iterator[Object]:
    """Return every ClusterRoleBinding of a version of Kubernetes; it has the name of its role."""
    for name, lines in _entries("cluster role bindings", version):
        yield _binding(_metadata(name), "ClusterRole", name, _subjects(lines))


def role_bindings(version: KubernetesVersion = NEWEST) -> Iterator[Object]:
    """Return every RoleBinding of a version of Kubernetes."""
    for place, (role, *subjects) in _entries("role bindings", version):
        namespace, _, name = place.partition("/")
        yield _binding(_metadata(name, namespace), "Role", role, _subjects(subjects))
