"""What `kubewright manifests`, `check` and `run` report about versions and their conversion."""

from __future__ import annotations

from pathlib import Path

import pytest

from .in_process import kubewright

MODULE = '''
from kubewright import Context, Converter, CustomResource, ObjectMeta, Operator, Spec, resource
from kubewright.api import WebhookConversion
from kubewright.webhook import DefaultHub, Move

class OldSpec(Spec):
    size: int = 1
    schedule: str = ""

class NewSpec(Spec):
    replicas: int = 1
    schedule: str = ""
    class_name: str | None = None

@resource(group="store.example.com", version="v1", kind="Shop")
class OldShop(CustomResource[OldSpec, None]):
    """A shop."""

@resource(group="store.example.com", version="v2", storage=True, hub=True, conversion=WebhookConversion())
class Shop(CustomResource[NewSpec, None]):
    """A shop."""

operator = Operator("shop")

@operator.reconcile(Shop)
async def reconcile(shop: Shop, ctx: Context[Shop]) -> None: ...

converter = operator.convert(Converter(Shop))
converter.spoke(OldShop, rules=(Move("spec.size", "spec.replicas"), DefaultHub("spec.className")))
'''


RUN = ("shops", "--no-view", "--yes")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))  # without a cluster: `run` starts a control plane
    monkeypatch.delenv("KUBECONFIG", raising=False)
    (tmp_path / "pyproject.toml").write_text('[tool.kubewright]\nmodules = ["shops"]\n', encoding="utf-8")
    (tmp_path / "shops.py").write_text(MODULE, encoding="utf-8")
    return tmp_path


def edit(project: Path, *replacements: tuple[str, str]) -> None:
    text = (project / "shops.py").read_text(encoding="utf-8")
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    (project / "shops.py").write_text(text, encoding="utf-8")


def test_declared_fields_are_not_reported(project: Path) -> None:
    done = kubewright(project, "manifests")
    assert (done.returncode, done.stderr.count("Warning")) == (0, 0), done.stderr
    assert "no problems found" in kubewright(project, "check").stderr


def test_a_field_that_no_rule_names_is_reported(project: Path) -> None:
    edit(project, (', DefaultHub("spec.className")', ","))
    done = kubewright(project, "check")
    expected = "Shop v2.spec.className: v1 cannot represent this field, and no rule names it"
    assert expected in done.stdout
    assert 'declare DefaultHub("spec.className")' in done.stdout
    done = kubewright(project, "manifests")
    assert done.returncode == 0
    assert expected in done.stderr


def test_a_field_that_functions_lose_is_reported(project: Path) -> None:
    functions = """
    to_hub=lambda old: Shop(spec=NewSpec(replicas=old.spec.size, schedule=old.spec.schedule)),
    from_hub=lambda new: OldShop(spec=OldSpec(size=new.spec.replicas, schedule=new.spec.schedule)),
"""
    edit(project, ('rules=(Move("spec.size", "spec.replicas"), DefaultHub("spec.className"))', functions))
    done = kubewright(project, "check")
    assert "Shop v2.spec.className: lost in a round trip through v1" in done.stdout


def test_fields_of_different_types_are_errors(project: Path) -> None:
    edit(project, ('replicas: int = 1\n    schedule: str = ""', "replicas: int = 1\n    schedule: int = 0"))
    for command, code in (("check", 1), ("manifests", 0)):
        done = kubewright(project, command)
        assert done.returncode == code
        assert "objects of v1 cannot be converted to v2" in done.stdout + done.stderr
        assert "$.spec.schedule" in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["manifests", "check", "run"])
def test_versions_of_different_shape_need_a_converter(project: Path, command: str) -> None:
    edit(project, (", conversion=WebhookConversion()", ""), ("converter", "# converter"))
    extra = RUN if command == "run" else ()
    done = kubewright(project, command, *extra)
    assert done.returncode == 1
    output = done.stdout + done.stderr
    assert "v1 and v2 are served without conversion, but have different fields" in output
    assert "spec.size (only v1), spec.replicas (only v2), spec.className (only v2)" in output.replace(
        "\n", " "
    )


@pytest.mark.parametrize("command", ["manifests", "check"])
def test_a_declared_conversion_needs_a_converter(project: Path, command: str) -> None:
    edit(project, ("converter", "# converter"))
    done = kubewright(project, command)
    assert done.returncode == 1
    output = done.stdout + done.stderr
    assert "no operator has a converter for it" in output
    assert "the versions differ in spec.size (only v1), spec.replicas (only v2)" in output


@pytest.mark.parametrize("command", ["manifests", "check", "run"])
def test_a_converter_that_is_never_called_is_an_error(project: Path, command: str) -> None:
    old, new = (
        MODULE.index("class NewSpec"),
        MODULE.index('@resource(group="store.example.com", version="v1"'),
    )
    edit(
        project,
        (", conversion=WebhookConversion()", ""),
        (MODULE[old:new], "NewSpec = OldSpec\n\n"),
        ('rules=(Move("spec.size", "spec.replicas"), DefaultHub("spec.className"))', "rules=()"),
    )
    extra = RUN if command == "run" else ()
    done = kubewright(project, command, *extra)
    assert done.returncode == 1
    assert "declare conversion=WebhookConversion() on the hub" in done.stdout + done.stderr
