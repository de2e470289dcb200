from __future__ import annotations

import tomllib

import pytest

from kubewright.scaffold.errors import ScaffoldError
from kubewright.scaffold.source.toml_edits import rename_key, set_key

TEXT = """\
# settings of the team
[project]
name = "shop"  # the name

[tool.kubewright]
modules = [
    "shop",  # only one
]
domain = "example.com" # ours

[tool.kubewright.deployment]
image = "a#b:1"   # with a sharp

[tool.ruff]
line-length = 110
"""


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        (("project", "name"), "store", 'name = "shop"  # the name', 'name = "store"  # the name'),
        (("tool", "kubewright", "domain"), "x.y", '"example.com" # ours', '"x.y" # ours'),
        (("tool", "kubewright", "deployment", "image"), "c", '"a#b:1"   # with', '"c"   # with'),
        (
            ("tool", "kubewright", "modules"),
            ["a", "b"],
            'modules = [\n    "shop",  # only one\n]',
            'modules = ["a", "b"]',
        ),
        (
            ("tool", "kubewright", "multigroup"),
            True,
            '"example.com" # ours\n',
            '"example.com" # ours\nmultigroup = true\n',
        ),
        (
            ("tool", "kubewright", "deployment", "env", "SHOP_IMAGE"),
            "nginx",
            "# with a sharp\n",
            '# with a sharp\n\n[tool.kubewright.deployment.env]\nSHOP_IMAGE = "nginx"\n',
        ),
    ],
)
def test_only_the_key_changes(path: tuple[str, ...], value: str, old: str, new: str) -> None:
    assert set_key(TEXT, path, value, name="pyproject.toml") == TEXT.replace(old, new)


def test_new_table_in_an_empty_file_and_top_level_keys() -> None:
    text = set_key("", ("tool", "kubewright", "domain"), "a.b", name="x")
    assert text == '[tool.kubewright]\ndomain = "a.b"\n'
    assert set_key('name = "a"', ("name",), "b", name="x") == 'name = "b"\n'
    assert set_key("[a]\nb = 1\n", ("name",), "b", name="x") == 'name = "b"\n[a]\nb = 1\n'


def test_headers_within_strings_are_not_tables() -> None:
    text = 'text = """\n[tool.kubewright]\ndomain = "no"\n"""\n[tool.kubewright]\ndomain = "yes"\n'
    with pytest.raises(ScaffoldError, match='cannot be changed automatically; set domain = "new"'):
        set_key(text, ("tool", "kubewright", "domain"), "new", name="pyproject.toml")


def test_inline_tables_are_edited_by_hand() -> None:
    text = "[tool]\nkubewright = {deployment = {replicas = 1}}\n"
    with pytest.raises(ScaffoldError, match="set replicas = 2"):
        set_key(text, ("tool", "kubewright", "deployment", "replicas"), 2, name="pyproject.toml")


def test_escapes() -> None:
    text = set_key("", ("a", "b c"), 'say "x"\n', name="x")
    assert tomllib.loads(text) == {"a": {"b c": 'say "x"\n'}}


def test_keys_and_tables_are_renamed() -> None:
    old = ("tool", "kubewright", "domain")
    renamed = rename_key(TEXT, old, ("tool", "kubewright", "suffix"), name="pyproject.toml")
    assert renamed == TEXT.replace('domain = "example.com" # ours', 'suffix = "example.com" # ours')
    assert rename_key(renamed, old, ("tool", "kubewright", "suffix"), name="pyproject.toml") == renamed
    table = ("tool", "kubewright", "deployment")
    renamed = rename_key(TEXT, table, ("tool", "kubewright", "manager"), name="pyproject.toml")
    assert renamed == TEXT.replace("[tool.kubewright.deployment]", "[tool.kubewright.manager]")
    with pytest.raises(ScaffoldError, match="has domain and modules; delete domain, which was renamed"):
        rename_key(TEXT, old, ("tool", "kubewright", "modules"), name="pyproject.toml")
    inline = "tool = {kubewright = {domain = 'a'}}\n"
    with pytest.raises(ScaffoldError, match="rename domain to suffix, and run the command again"):
        rename_key(inline, old, ("tool", "kubewright", "suffix"), name="pyproject.toml")


def test_a_new_table_does_not_separate_a_comment_from_its_table() -> None:
    text = '[project]\nname = "shop"\n\n# What is deployed.\n[tool.kubewright]\nname = "shop"\n'
    changed = set_key(text, ("project", "scripts", "run"), "shop:main", name="pyproject.toml")
    assert changed == text.replace("\n\n#", '\n\n[project.scripts]\nrun = "shop:main"\n\n#')
