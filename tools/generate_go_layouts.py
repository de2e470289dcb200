"""Write the Go struct layouts that the pod template hash depends on.

    python tools/generate_go_layouts.py KUBERNETES_SOURCE

kube-controller-manager hashes a dump of the Go value of a pod template: names, types and order of the fields
are part of the hash. This writes them, for all types that a `PodTemplateSpec` contains, to
`src/kubewright/workloads/go_layouts.json`: `{"v1.PodSpec": [["Volumes", "volumes", "[]v1.Volume"], ...]}`.
An empty JSON name means that the fields of an embedded struct are inlined. A named type that is not a struct
has its underlying type: `{"v1.Protocol": "string"}`.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

STAGING = "staging/src/k8s.io"
SOURCES = {
    "core": f"{STAGING}/api/core/v1/types.go",
    "metav1": f"{STAGING}/apimachinery/pkg/apis/meta/v1/types.go",
}
OUTPUT = Path(__file__).resolve().parent.parent / "src" / "kubewright" / "workloads" / "go_layouts.json"
ROOT = "v1.PodTemplateSpec"
BASIC = {"string", "bool", "int32", "int64", "float64", "byte", "uint8", "int"}
OPAQUE = {"resource.Quantity", "intstr.IntOrString", "v1.Time", "v1.MicroTime", "v1.FieldsV1"}
NAMED = {"types.UID": "string"}

_struct = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.S | re.M)
_named = re.compile(r"^type (\w+) ((?!struct|interface)[^\n{=]+)$", re.M)
_field = re.compile(r'^\s*(?:(\w+)\s+)?([\w.\[\]*]+)\s+`json:"([^"]*)"')

Layout = list[list[str]] | str


def qualify(go_type: str) -> str:
    """Return a type as Go prints it: with the package name, which is v1 for both packages."""
    match = re.fullmatch(r"(\[\]|\*|map\[([\w.]+)\])?(.*)", go_type)
    assert match is not None
    prefix, key, rest = match.groups()
    if prefix:
        shown = f"map[{qualify(key)}]" if key else prefix
        return shown + qualify(rest)
    if rest in BASIC:
        return "uint8" if rest == "byte" else rest
    package, _, name = rest.rpartition(".")
    return f"{'v1' if package in ('', 'metav1') else package}.{name}"


def parse(text: str) -> dict[str, Layout]:
    """Return the layouts of the types of a file."""
    found: dict[str, Layout] = {}
    for name, target in _named.findall(text):
        found[f"v1.{name}"] = qualify(target.split("//")[0].strip())
    for name, body in _struct.findall(text):
        fields = []
        for line in body.splitlines():
            match = _field.match(line)
            if match is None:
                continue
            field, go_type, tag = match.groups()
            json_name, *options = tag.split(",")
            shown = qualify(go_type)
            fields.append(
                [field or shown.rpartition(".")[2], "" if "inline" in options else json_name, shown]
            )
        found[f"v1.{name}"] = fields
    return found


def main(source: Path) -> None:
    """Write the layouts of the types that are reachable from the pod template."""
    layouts: dict[str, Layout] = {}
    for path in SOURCES.values():
        layouts.update(parse((source / path).read_text()))
    layouts.update(NAMED)
    reachable: dict[str, Layout] = {}
    queue = [ROOT]
    while queue:
        name = re.sub(r"^(\[\]|\*)+", "", queue.pop())
        if name.startswith("map["):
            key, _, value = name[4:].partition("]")
            queue += [key, value]
            continue
        if name in reachable or name in BASIC or name in OPAQUE:
            continue
        layout = layouts[name]
        reachable[name] = layout
        queue += [layout] if isinstance(layout, str) else [field[2] for field in layout]
    lines = [f"{json.dumps(name)}: {json.dumps(reachable[name])}" for name in sorted(reachable)]
    OUTPUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
