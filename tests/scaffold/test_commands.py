"""Files that `init_project`, `create_api`, `create_webhook` and `edit_project` keep, extend or reject."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from kubewright.manifests import ProjectSettings
from kubewright.scaffold import (
    ProjectInputs,
    ResourceInput,
    ScaffoldError,
    ScaffoldLock,
    create_api,
    create_apiserver,
    create_credential_plugin,
    create_credential_plugin_project,
    create_kubectl_plugin,
    create_kubectl_plugin_project,
    create_webhook,
    edit_project,
    init_project,
    plan_upgrade,
)

SHOP = ResourceInput(group="store", version="v1", kind="Shop")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    init_project(tmp_path, ProjectInputs(name="shop"))
    return tmp_path


def texts(directory: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in directory.rglob("*") if path.is_file()}


def test_existing_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"  # kept\n')
    changes = init_project(tmp_path, ProjectInputs(name="shop", domain="corp.test"))
    assert changes.kept == ["README.md"]
    assert changes.changed == ["pyproject.toml"]
    assert (tmp_path / "README.md").read_text() == "mine"
    assert (tmp_path / "pyproject.toml").read_text().startswith('[project]\nname = "mine"  # kept\n')
    settings = ProjectSettings.load(tmp_path)
    assert (settings.name, settings.modules, settings.domain) == ("shop", ("shop",), "corp.test")
    assert settings.has_deployment
    assert "README.md" not in ScaffoldLock.read(tmp_path).files


@pytest.mark.parametrize(("license_name", "line"), [("mit", "MIT License"), ("apache2", "Apache License")])
def test_licenses(tmp_path: Path, license_name: str, line: str) -> None:
    init_project(tmp_path, ProjectInputs(name="shop", license=license_name, owner='Ann "X" Doe'))
    assert line in (tmp_path / "LICENSE").read_text()
    table = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert table["authors"] == [{"name": 'Ann "X" Doe'}]
    assert table["license"] in ("MIT", "Apache-2.0")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Shop", "not a lower-case name"),
        ("json", "would hide another Python package"),
        ("class", "a Python keyword"),
        ("kubewright", "would hide"),
    ],
)
def test_names_of_projects(name: str, message: str) -> None:
    with pytest.raises(ScaffoldError, match=message):
        ProjectInputs(name=name)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"kind": "Condition"}, "would import another class of that name"),
        ({"kind": "Service", "image": "nginx"}, "would import another class of that name"),
        ({"kind": "Web", "image": "nginx", "scope": "Cluster"}, "needs a namespaced kind"),
        ({"kind": "shop"}, "not a CamelCase name such as Shop"),
        ({"kind": "Shop", "group": "Store"}, "not a lower-case name such as store"),
    ],
)
def test_names_of_kinds(inputs: dict[str, str], message: str) -> None:
    with pytest.raises(ScaffoldError, match=message):
        ResourceInput(**{"version": "v1", **inputs})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "stem", "variable"),
    [
        ("HTTPRoute", "http_route", "http_route"),
        ("CronJob", "cron_job", "cron_job"),
        ("Type", "type", "type_"),
        ("Class", "class", "class_"),
        ("Port", "port", "port_"),
        ("Service", "service", "service"),
    ],
)
def test_names_of_modules_and_variables(kind: str, stem: str, variable: str) -> None:
    resource = ResourceInput(version="v1", kind=kind)
    assert (resource.stem, resource.variable) == (stem, variable)


@pytest.mark.parametrize(("kind", "article"), [("Shop", "a"), ("At", "an"), ("Unicorn", "a")])
def test_articles_of_kinds(kind: str, article: str) -> None:
    assert ResourceInput(group="store", version="v1", kind=kind).article == article


def test_an_error_writes_nothing(project: Path) -> None:
    (project / "tests").mkdir()
    (project / "tests" / "test_shop_controller.py").write_text("mine")
    before = texts(project)
    with pytest.raises(
        ScaffoldError, match=r"tests/test_shop_controller.py already exists; nothing was written"
    ):
        create_api(project, SHOP)
    assert texts(project) == before


def test_webhooks_extend_the_changed_module(project: Path) -> None:
    create_api(project, SHOP)
    create_webhook(project, SHOP, defaulting=True)
    path = project / "src" / "shop" / "shop_v1_webhook.py"
    changed = path.read_text().replace("    labels =", "    # of the user\n    labels =")
    path.write_text(changed)
    create_webhook(project, SHOP, defaulting=True, validation=True)
    extended = path.read_text()
    assert "    # of the user\n" in extended
    assert extended.count("def set_defaults") == extended.count("def validate") == 1
    recorded = ScaffoldLock.read(project).files["src/shop/shop_v1_webhook.py"].base
    assert recorded == extended.replace("    # of the user\n", "")


def test_a_further_version_is_a_copy_of_the_changed_type(project: Path) -> None:
    create_api(project, SHOP)
    path = project / "src" / "shop" / "shop_v1.py"
    path.write_text(
        path.read_text().replace("    size: Annotated[int, Ge(0)] = 1\n", "    stadt: str = 'Köln'\n")
    )
    changes = create_api(project, ResourceInput(group="store", version="v2", kind="Shop"))
    assert changes.created == [
        "src/shop/shop_v2.py",
        "src/shop/shop_conversion.py",
        "tests/test_shop_conversion.py",
    ]
    copy = (project / "src" / "shop" / "shop_v2.py").read_text()
    assert "    stadt: str = 'Köln'\n" in copy
    assert '    version="v2",\n    conversion=WebhookConversion(),\n    columns=' in copy
    assert copy.startswith('"""Shop store.example.com/v2."""\n')
    assert re.search(r"^from kubewright.api import .*\bWebhookConversion\b", copy, re.MULTILINE)


def test_a_version_without_storage_argument(project: Path) -> None:
    create_api(project, SHOP)
    path = project / "src" / "shop" / "shop_v1.py"
    path.write_text(path.read_text().replace("    storage=True,\n", ""))
    create_api(project, ResourceInput(group="store", version="v2", kind="Shop"))
    copy = (project / "src" / "shop" / "shop_v2.py").read_text()
    assert 'version="v2", conversion=WebhookConversion(),' in copy


def test_multigroup_and_back(project: Path) -> None:
    create_api(project, SHOP)
    create_webhook(project, SHOP, defaulting=True, validation=True)
    before = texts(project)
    changes = edit_project(project, {"multigroup": True})
    assert changes.moved["src/shop/shop_v1.py"] == "src/shop/store/shop_v1.py"
    test = (project / "tests" / "store" / "test_shop_controller.py").read_text()
    assert "from shop.operator import operator\nfrom shop.store.shop_v1 import Shop, ShopSpec\n" in test
    edit_project(project, {"multigroup": False})
    after = texts(project)
    name = str(project / "pyproject.toml")
    assert after.pop(name) == before.pop(name).replace(
        'domain = "example.com"\n', 'domain = "example.com"\nmultigroup = false\n'
    )
    lock = str(project / ".kubewright" / "scaffold.lock")
    del after[lock], before[lock]
    assert after == before


def test_multigroup_is_kept_with_several_groups(project: Path) -> None:
    edit_project(project, {"multigroup": True})
    create_api(project, SHOP)
    create_api(project, ResourceInput(group="pay", version="v1", kind="Bill"))
    with pytest.raises(ScaffoldError, match=r"2 API groups \(pay, store\)"):
        edit_project(project, {"multigroup": False})


def test_the_operand_image_is_a_setting(project: Path) -> None:
    create_api(project, ResourceInput(group="cache", version="v1", kind="Memcached", image="memcached:1.6"))
    assert ProjectSettings.load(project).deployment.env == {"MEMCACHED_IMAGE": "memcached:1.6"}


def test_a_damaged_lock_and_a_missing_one(project: Path, tmp_path: Path) -> None:
    lock = project / ".kubewright" / "scaffold.lock"
    lock.write_text("{")
    with pytest.raises(ScaffoldError, match="damaged"):
        create_api(project, SHOP)
    lock.unlink()
    with pytest.raises(ScaffoldError, match="not a scaffolded project"):
        create_api(project, SHOP)


def test_kubectl_plugins(project: Path) -> None:
    with pytest.raises(ScaffoldError, match="has no kind; create one with kubewright create api"):
        create_kubectl_plugin(project, "shop")
    create_api(project, SHOP)
    changes = create_kubectl_plugin(project, "shop-list")
    assert changes.created == ["src/shop/kubectl_shop_list.py", "tests/test_kubectl_shop_list.py"]
    assert changes.next[-1] == "kubectl shop list"
    table = tomllib.loads((project / "pyproject.toml").read_text())["project"]["scripts"]
    assert table == {
        "kubectl-shop-list": "shop.kubectl_shop_list:main",
        "kubectl_complete-shop-list": "shop.kubectl_shop_list:main.complete",
    }
    assert plan_upgrade(project).files == []
    before = texts(project)
    for name, options, message in (
        ("shop-list", {}, "kubectl shop-list already exists"),
        ("Shop", {}, "'Shop' is not a lower-case name"),
        ("bill", {"kind": "Bill"}, "no such kind; its kinds are: Shop v1"),
    ):
        with pytest.raises(ScaffoldError, match=message):
            create_kubectl_plugin(project, name, **options)
    assert texts(project) == before


def test_credential_plugins(project: Path) -> None:
    changes = create_credential_plugin(project, "shop-login")
    assert changes.created == [
        "src/shop/credential_shop_login.py",
        "tests/test_credential_shop_login.py",
    ]
    assert "--exec-command=shop-login" in changes.next[-1]
    table = tomllib.loads((project / "pyproject.toml").read_text())["project"]["scripts"]
    assert table == {"shop-login": "shop.credential_shop_login:main"}
    assert plan_upgrade(project).files == []
    for name, message in (("shop-login", "shop-login already exists"), ("Shop", "not a lower-case name")):
        with pytest.raises(ScaffoldError, match=message):
            create_credential_plugin(project, name)


def test_a_project_for_a_credential_plugin(tmp_path: Path) -> None:
    changes = create_credential_plugin_project(tmp_path, "shop-login")
    assert changes.created[-1] == "tests/test_credential_shop_login.py"
    assert not (tmp_path / ".kubewright").exists()
    with pytest.raises(ScaffoldError, match="is not a project of Kubewright"):
        create_credential_plugin_project(tmp_path, "other")


def test_kinds_of_an_api_server_have_no_crd_and_no_webhooks(project: Path) -> None:
    create_apiserver(project, SHOP)
    assert ProjectSettings.load(project).deployment.env == {"KUBEWRIGHT_STORAGE": "sqlite:/data/shop.db"}
    before = texts(project)
    for call, message in (
        (
            lambda: create_webhook(project, SHOP, validation=True),
            "use @app.default and @app.validate in shop_api",
        ),
        (
            lambda: create_api(project, ResourceInput(group="store", version="v2", kind="Shop")),
            "a CRD cannot serve it",
        ),
        (lambda: create_apiserver(project, SHOP), "already exists"),
    ):
        with pytest.raises(ScaffoldError, match=message):
            call()
    assert texts(project) == before


def test_a_further_version_of_an_api_server(project: Path) -> None:
    create_apiserver(project, SHOP)
    changes = create_apiserver(project, ResourceInput(group="store", version="v2", kind="Shop"))
    assert changes.created == [
        "src/shop/shop_v2.py",
        "src/shop/shop_conversion.py",
        "tests/test_shop_conversion.py",
    ]
    text = (project / "src/shop/shop_v2.py").read_text()
    assert 'version="v2"' in text
    assert "hub" not in text
    assert "WebhookConversion" not in text
    assert "app.convert(Converter(shop_v1.Shop))" in (project / "src/shop/shop_conversion.py").read_text()


def test_a_crd_cannot_be_served_by_an_api_server_too(project: Path) -> None:
    create_api(project, SHOP)
    with pytest.raises(ScaffoldError, match="Shop has a CRD in the project"):
        create_apiserver(project, ResourceInput(group="store", version="v2", kind="Shop"))


def test_a_project_for_a_kubectl_plugin(tmp_path: Path) -> None:
    with pytest.raises(
        ScaffoldError, match="kubectl has a command 'rollout', which a plug-in cannot replace"
    ):
        create_kubectl_plugin_project(tmp_path, "rollout-state")
    changes = create_kubectl_plugin_project(tmp_path, "states")
    assert changes.created[-2:] == ["src/kubectl_states/kubectl_states.py", "tests/test_kubectl_states.py"]
    table = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert table["scripts"] == {
        "kubectl-states": "kubectl_states.kubectl_states:main",
        "kubectl_complete-states": "kubectl_states.kubectl_states:main.complete",
    }
    assert not (tmp_path / ".kubewright").exists()
    with pytest.raises(ScaffoldError, match="is not a project of Kubewright; create the plug-in in an empty"):
        create_kubectl_plugin_project(tmp_path, "other")
