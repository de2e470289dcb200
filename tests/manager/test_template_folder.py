"""Rendering of template folders: Jinja, Helm, errors with file and line, and the kinds of templates."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kubewright.api.gvk import GroupVersionKind
from kubewright.manager.expansion.template_folder import RenderError, TemplateFolder, merge_values

OBJECT = {
    "apiVersion": "store.example.com/v1",
    "kind": "Shop",
    "metadata": {"name": "main", "namespace": "berlin", "labels": {"team": "a"}},
    "spec": {"items": ["apple", "pear: 1"], "image": {"tag": "2"}},
}
CONFIG = """\
{% from "_macros.j2" import labels %}
{% for item in spec.items %}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ metadata.name }}-{{ loop.index }}
  labels: {{ labels(metadata) | nindent(4) }}
data:
  item: {{ item | quote }}
  image: {{ Values.image.repository }}:{{ Values.image.tag }}
  encoded: {{ item | b64encode }}
  release: {{ Release.Name }}/{{ Release.Namespace }}
  absent: {{ spec.absent | default("none") }}
  values: |
{{ spec.image | to_yaml | indent(4, first=True) }}
{% endfor %}
"""


def folder_of(directory: Path, **files: str) -> TemplateFolder:
    for name, text in files.items():
        path = directory / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return TemplateFolder(directory)


async def render(directory: Path, template: str, **spec: Any) -> list[dict[str, Any]]:
    folder = folder_of(directory, config_dot_yaml_dot_j2=template)
    return await folder.render({**OBJECT, "spec": spec})


async def test_jinja(tmp_path: Path) -> None:
    (tmp_path / "_macros.j2").write_text("{% macro labels(meta) %}{{ meta.labels | to_yaml }}{% endmacro %}")
    folder = folder_of(
        tmp_path,
        nested__config_dot_yaml_dot_j2=CONFIG,
        values_dot_yaml="image: {repository: nginx, tag: '1'}\n",
    )
    apple, pear = await folder.render(OBJECT)
    assert apple["metadata"] == {"name": "main-1", "labels": {"team": "a"}}
    assert pear["data"] == {
        "item": "pear: 1",
        "image": "nginx:2",
        "encoded": "cGVhcjogMQ==",
        "release": "main/berlin",
        "absent": "none",
        "values": "repository: nginx\ntag: '2'\n",
    }


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (
            "kind: ConfigMap\nname: {{ spec.size }}\n",
            "config.yaml.j2:2: 'dict object' has no attribute 'size'",
        ),
        ("{% if x %}\n{{\n", "config.yaml.j2:2: unexpected 'end of template'"),
        ("{{ spec.tag | nothing }}\n", "config.yaml.j2:1: No filter named 'nothing'."),
        ("a: b\n{% include 'missing.j2' %}\n", "config.yaml.j2:2: no template 'missing.j2'"),
        ("a: 1\n\nb: {{ 1 // 0 }}\n", "config.yaml.j2:3: integer division or modulo by zero"),
        ("{{ ().__class__.__mro__ }}\n", "access to attribute '__class__' of 'tuple' object is unsafe."),
        ("kind: [\n", "config.yaml.j2: line 2 of the rendered text: not valid YAML"),
        ("- a\n", "config.yaml.j2: document 1: expected a mapping, not list"),
        ("apiVersion: v1\n", "config.yaml.j2: document 1: kind is not set"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: 3}\n", "config.yaml.j2: Pod has no metadata.name"),
    ],
)
async def test_errors_name_the_file_and_the_line(tmp_path: Path, template: str, message: str) -> None:
    with pytest.raises(RenderError) as caught:
        await render(tmp_path, template, tag="1")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_values_are_merged_as_helm_does() -> None:
    defaults = {"a": {"b": 1, "c": [1]}, "d": 2, "e": 3}
    assert merge_values(defaults, {"a": {"c": [2]}, "d": None, "f": {"g": None}}) == {
        "a": {"b": 1, "c": [2]},
        "e": 3,
        "f": {"g": None},
    }


def test_kinds_include_those_in_conditions(tmp_path: Path) -> None:
    text = """\
{% if spec.web %}
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
---
{% endif %}
{% if spec.new %}
apiVersion: "example.com/v2"
{% else %}
apiVersion: 'example.com/v1'
{% endif %}
kind: Shop
spec:
  kind: Ignored
---
apiVersion: {{ spec.version }}
kind: HorizontalPodAutoscaler
---
apiVersion: v1
kind: {{ spec.kind }}
"""
    folder = folder_of(tmp_path, all_dot_yaml=text)
    assert folder.kinds() == [
        GroupVersionKind("apps", "v1", "Deployment"),
        GroupVersionKind("example.com", "v2", "Shop"),
        GroupVersionKind("example.com", "v1", "Shop"),
        GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler"),
    ]


def test_a_folder_without_templates(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        TemplateFolder(tmp_path / "missing")
    with pytest.raises(
        FileNotFoundError, match=r"contains no templates; expected files such as deployment.yaml.j2"
    ):
        folder_of(tmp_path, values_dot_yaml="a: 1\n")


HELM = """\
#!{python}
import json, sys
arguments = sys.argv[1:]
values = json.load(sys.stdin)
if "fail" in values:
    sys.exit("Error: execution error at (shop/templates/web.yaml:3:4): " + values["fail"])
print("---\\n# Source: shop/templates/web.yaml")
print(json.dumps({{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": arguments[1]}},
                  "data": {{"arguments": " ".join(arguments[3:]), "size": str(values["size"])}}}}))
"""


@pytest.fixture
def chart(tmp_path: Path) -> TemplateFolder:
    return folder_of(
        tmp_path / "shop",
        Chart_dot_yaml="apiVersion: v2\nname: shop\nversion: 1.0.0\n",
        templates__web_dot_yaml="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n",
    )


async def test_a_chart_is_rendered_by_helm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chart: TemplateFolder
) -> None:
    program = tmp_path / "helm"
    program.write_text(HELM.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    [rendered] = await chart.render({**OBJECT, "spec": {"size": 3}})
    assert rendered["metadata"] == {"name": "main"}
    assert rendered["data"] == {"arguments": "--values - --no-hooks --namespace berlin", "size": "3"}
    with pytest.raises(
        RenderError, match=r"helm template: Error: execution error at .*web.yaml:3:4\): no size"
    ):
        await chart.render({**OBJECT, "spec": {"fail": "no size"}})
    assert chart.kinds() == [GroupVersionKind("", "v1", "ConfigMap")]


async def test_a_chart_without_helm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chart: TemplateFolder
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RenderError, match="the program helm is not installed; add it to the image"):
        await chart.render(OBJECT)
