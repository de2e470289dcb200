from __future__ import annotations

from pathlib import Path

import pytest

from kubewright.manifests import ProjectSettings, ProjectSettingsError


def write(directory: Path, text: str, name: str = "pyproject.toml") -> Path:
    (directory / name).write_text(text)
    return directory


def test_defaults(tmp_path: Path) -> None:
    directory = tmp_path / "shop"
    directory.mkdir()
    settings = ProjectSettings.load(directory)
    assert settings.path is None
    assert settings.name == "shop"
    assert settings.modules == ()
    assert settings.deployment.image == "shop:latest"
    assert settings.deployment.leader_election
    assert settings.manifests.output == "config"


def test_all_tables_are_read(tmp_path: Path) -> None:
    text = """
    [project]
    name = "shop"
    [tool.kubewright]
    modules = ["shop"]
    domain = "example.com"
    [tool.kubewright.deployment]
    replicas = 2
    network-policy = true
    certificates = "cert-manager"
    env = {SHOP_IMAGE = "nginx"}
    [tool.kubewright.manifests]
    max-description = 0
    """
    settings = ProjectSettings.load(write(tmp_path, text))
    assert settings.path == tmp_path / "pyproject.toml"
    assert (settings.name, settings.modules, settings.domain) == ("shop", ("shop",), "example.com")
    assert settings.deployment.replicas == 2
    assert settings.deployment.network_policy
    assert settings.deployment.certificates == "cert-manager"
    assert settings.deployment.env == {"SHOP_IMAGE": "nginx"}
    assert settings.manifests.max_description == 0


def test_kubewright_toml_is_the_table_itself(tmp_path: Path) -> None:
    write(tmp_path, 'name = "shop"\n[deployment]\nreplicas = 3\n', "kubewright.toml")
    settings = ProjectSettings.load(tmp_path)
    assert settings.path == tmp_path / "kubewright.toml"
    assert (settings.name, settings.deployment.replicas) == ("shop", 3)
    write(tmp_path, "[tool.kubewright]\n")
    with pytest.raises(ProjectSettingsError, match="both exist; delete one of them"):
        ProjectSettings.load(tmp_path)


def test_find_searches_parent_directories(tmp_path: Path) -> None:
    write(tmp_path, '[tool.kubewright]\nname = "shop"\n')
    inner = tmp_path / "src" / "shop"
    inner.mkdir(parents=True)
    assert ProjectSettings.find(inner).directory == tmp_path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[tool.kubewright]\nmodule = []\n",
            r"\[tool.kubewright\] has no setting 'module'; did you mean 'modules'",
        ),
        ("[tool.kubewright.deployment]\nreplica = 1\n", r"kubewright.deployment\] .*did you mean 'replicas'"),
        ("[tool.kubewright.deployment]\nnetwork_policy = true\n", "did you mean 'network-policy'"),
        ("[tool.kubewright]\nqqq = 1\n", "settings are: name, modules, domain"),
        ("[tool.kubewright]\npath = 'x'\n", "no setting 'path'"),
        (
            '[tool.kubewright]\nmodules = "shop"\n',
            "tool.kubewright.modules = 'shop' must be a list of strings",
        ),
        ("[tool.kubewright.deployment]\nreplicas = true\n", "replicas = True must be of type int"),
        ('[tool.kubewright.deployment]\ncertificates = "vault"\n', 'must be "self-signed" or "cert-manager"'),
        ("[tool.kubewright]\ndeployment = 1\n", "tool.kubewright.deployment must be a table"),
        ("[tool.kubewright.deployment.env]\nA = 1\n", "deployment.env must be a table of strings"),
        ("[tool", "pyproject.toml: "),
    ],
)
def test_errors_name_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ProjectSettingsError, match=message) as caught:
        ProjectSettings.load(write(tmp_path, text))
    assert str(caught.value).startswith(str(tmp_path / "pyproject.toml"))
