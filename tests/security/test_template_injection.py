"""Values of an object cannot add objects or fields to what an operator renders from templates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.security.examples import examples

from kubewright.manager.expansion.injected_structure import find_difference
from kubewright.manager.expansion.template_folder import RenderError, TemplateFolder

TEMPLATE = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
  labels:
    title: {{ spec.title }}
data:
  title: {{ spec.title | to_json }}
  lines: |{{ spec.text | nindent(4) }}
"""
BINDING = """x
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: admin}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
"""


def folder_with(directory: Path, text: str) -> TemplateFolder:
    (directory / "a.yaml.j2").write_text(text)
    return TemplateFolder(directory)


def shop(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "namespace": "default"}, "spec": {"title": "t", "text": "t", **spec}}


@pytest.mark.parametrize(
    "title",
    [
        BINDING,
        BINDING.replace("\n", "\r\n"),
        "x\n    other: label",
        "x\ndata:\n  title: y",
        "x\n  annotations:\n    a: b",
        "x\u2028---\nkind: Secret",
    ],
)
async def test_a_value_cannot_add_objects_or_fields(title: str, tmp_path: Path) -> None:
    with pytest.raises(RenderError):
        await folder_with(tmp_path, TEMPLATE).render(shop(title=title))


async def test_values_with_line_breaks_can_be_written_with_filters(tmp_path: Path) -> None:
    text = TEMPLATE.replace("title: {{ spec.title }}\ndata", "a: b\ndata")
    [rendered] = await folder_with(tmp_path, text).render(
        shop(title="a\nb", text="one\ntwo\n---\nkind: Secret")
    )
    assert rendered["data"] == {"title": "a\nb", "lines": "one\ntwo\n---\nkind: Secret\n"}


async def test_lists_can_be_split_by_lines(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: A\nmetadata: {name: a}\nlines:\n{% for each in spec.text.splitlines() %}\n"
    [rendered] = await folder_with(tmp_path, text + "- {{ each }}\n{% endfor %}\n").render(shop(text="a\nb"))
    assert rendered["lines"] == ["a", "b"]


lines = st.text(st.sampled_from("ab:-{}[] \n\"'#&*!|>%\t"), max_size=30)


@given(value=lines)
@example(value=BINDING)
@example(value="x\n    other: label")
@example(value="'#")
@example(value='"')
@example(value="{a: ")
@settings(max_examples=examples(300), deadline=None)
async def test_rendered_fields_do_not_depend_on_line_breaks(
    value: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("templates")
    try:
        rendered = await folder_with(directory, TEMPLATE).render(shop(title=value))
    except RenderError:
        return
    assert [each["kind"] for each in rendered] == ["ConfigMap"]
    assert set(rendered[0]) == {"apiVersion", "kind", "metadata", "data"}
    assert set(rendered[0]["metadata"]) == {"name", "labels"}
    assert set(rendered[0]["metadata"]["labels"]) == {"title"}


def test_differences_are_named() -> None:
    assert find_difference([{"a": {"b": 1}}], [{"a": {}}]) == "[0].a.b"
    assert find_difference([{"a": 1}, {}], [{"a": 1}]) == "[1]"
    assert find_difference({"a": {"b": 1}}, {"a": "text"}) == ".a"
    assert find_difference({"a": "x"}, {"a": "y"}) is None
