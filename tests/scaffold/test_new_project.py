"""What a new user does: from an empty directory to a running operator, with the commands of the tutorial."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from kubewright.client import Client, condition, load_config

SOURCE = Path(__file__).parents[2] / "src"
PYTEST_PLUGIN = ("-p", "no:cacheprovider")
if not any(each.name == "kubewright" for each in entry_points(group="pytest11")):
    PYTEST_PLUGIN += ("-p", "kubewright.testing.pytest_plugin")  # the package is not installed
MAX_FILES, MAX_LINES = 22, 600


class Shell:
    """Runs commands in the directory of a project, without a configured cluster."""

    def __init__(self, directory: Path, home: Path) -> None:
        self.directory = directory
        unset = ("KUBECONFIG", "KUBERNETES_SERVICE_HOST")
        self.environment = {name: value for name, value in os.environ.items() if name not in unset}
        self.environment |= {"PYTHONPATH": str(SOURCE), "HOME": str(home)}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str) -> str:
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=600)
        assert process.returncode == 0, output
        return output

    def kubewright(self, *arguments: str) -> str:
        return self.run("kubewright.cli", *arguments)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    root = tmp_path_factory.mktemp("new-user")
    (root / "shop").mkdir()
    shell = Shell(root / "shop", root)
    shell.kubewright("init", "--domain", "example.com", "--name", "shop")
    created = shell.kubewright("create", "api", "--group", "store", "--version", "v1", "--kind", "Shop")
    assert "created src/shop/shop_v1.py\n" in created
    assert "created config/crd/store.example.com_shops.yaml\n" in created
    assert created.rstrip().endswith("pytest")
    kind = ("--group", "store", "--version", "v1", "--kind", "Shop")
    printed = shell.kubewright("create", "webhook", *kind, "--defaulting", "--validation", "--output", "json")
    assert json.loads(printed)["created"][0] == "src/shop/shop_v1_webhook.py"
    return shell


def files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def test_size_of_the_project(shell: Shell) -> None:
    found = files(shell.directory)
    assert len(found) <= MAX_FILES
    assert sum(len(path.read_text().splitlines()) for path in found) <= MAX_LINES


def test_edit_check_and_run(shell: Shell) -> None:
    """The user adds a field and uses it; then lint, tests, manifests and the operator work."""
    source = shell.directory / "src" / "shop"
    types, controller = source / "shop_v1.py", source / "shop_controller.py"
    types.write_text(types.read_text().replace("    size: Annotated", "    city: str\n\n    size: Annotated"))
    controller.write_text(
        controller.read_text().replace('"the current state is as declared"', 'f"opened in {shop.spec.city}"')
    )
    for test in (shell.directory / "tests").glob("*.py"):
        test.write_text(test.read_text().replace("ShopSpec()", 'ShopSpec(city="Rome")'))
    shell.run("ruff", "check", "--no-cache", ".")
    shell.run("ruff", "format", "--no-cache", "--check", ".")
    assert "4 passed" in shell.run("pytest", "-q", *PYTEST_PLUGIN)
    outdated = shell.start("kubewright.cli", "manifests", "--check")
    assert "+              city:" in outdated.communicate()[0]
    assert outdated.returncode == 1
    assert "config/samples/store_v1_shop.yaml:5: spec.city: Required value" in shell.kubewright("manifests")
    shell.kubewright("manifests", "--update-samples")
    shell.kubewright("manifests", "--check")
    process = shell.start("kubewright.cli", "run", "--log", "console")
    try:
        lines = []
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if "started controller controller=shop" in line:
                break
        assert "started a control plane for this session" in "".join(lines)
        assert "kubectl --kubeconfig kubeconfig" in "".join(lines)
        assert len([line for line in lines if "started controller" in line]) == 1
        _use(shell.directory)
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0


def _use(directory: Path) -> None:
    import asyncio

    shop = {
        "apiVersion": "store.example.com/v1",
        "kind": "Shop",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"city": "Rome"},
    }

    async def main() -> None:
        async with Client.connect(load_config(directory / "kubeconfig")) as client:
            [created] = await client.apply_yaml(json.dumps(shop))
            assert created.raw["metadata"]["labels"] == {"app.kubernetes.io/part-of": "shop"}
            ready = await client.wait(created, until=condition("Ready"), timeout=60)
            assert ready is not None
            assert ready.raw["status"]["conditions"][0]["message"] == "opened in Rome"

    asyncio.run(main())


def test_settings_are_edited_and_manifests_follow(shell: Shell) -> None:
    project = shell.directory / "pyproject.toml"
    project.write_text(project.read_text().replace("image =", "# of the user\nimage ="))
    output = shell.kubewright("edit", "--image", "registry.test/shop:1", "--network-policy", "--no-metrics")
    assert "changed pyproject.toml\n" in output
    text = project.read_text()
    assert '# of the user\nimage = "registry.test/shop:1"\n' in text
    assert "network-policy = true\nmetrics = false\n" in text
    shell.kubewright("manifests", "--check")
    manager = (shell.directory / "config" / "manager" / "manager.yaml").read_text()
    assert "registry.test/shop:1" in manager
    assert "metrics-port" not in manager


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("init",), "is already a project; change it with kubewright edit"),
        (("create", "api", "--version", "v1", "--kind", "Shop", "--group", "store"), "Shop already exists"),
        (
            ("create", "api", "--version", "v1", "--kind", "Bill", "--group", "pay"),
            "kubewright edit --multigroup",
        ),
        (("create", "api", "--version", "1", "--kind", "Bill"), "'1' is not a version such as v1"),
        (("create", "api", "--version", "v1", "--kind", "bill-run"), "not a CamelCase name such as BillRun"),
        (
            ("create", "api", "--version", "v1", "--kind", "Pod", "--group", "apps", "--no-resource"),
            "Pod is not a built-in kind of apps/v1",
        ),
        (("create", "webhook", "--group", "store", "--version", "v1", "--kind", "Shop"), "no webhook chosen"),
        (
            ("create", "webhook", "--group", "store", "--version", "v1", "--kind", "Shop", "--validation"),
            "already has validation",
        ),
        (
            ("create", "webhook", "--group", "store", "--version", "v1", "--kind", "Shop", "--conversion"),
            "has only one version; create one with kubewright create api --version v2",
        ),
        (("edit",), "nothing to change"),
        (("crate", "api"), "No such command 'crate'; did you mean create? see"),
        (("create", "webhok"), "did you mean webhook? see"),
        (("create", "api", "--knd", "Shop"), "No such option --knd; did you mean --kind? see"),
        (("up", "--prot", "1"), "did you mean --port? see"),
    ],
)
def test_errors_are_one_line_and_change_nothing(
    shell: Shell,
    arguments: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from kubewright.cli import main

    before = {path: path.read_bytes() for path in files(shell.directory)}
    monkeypatch.chdir(shell.directory)
    with pytest.raises(SystemExit) as caught:
        main.main(list(arguments), prog_name="kubewright")
    assert caught.value.code in (1, 2)
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert {path: path.read_bytes() for path in files(shell.directory)} == before


def test_production_needs_a_cluster(shell: Shell) -> None:
    process = shell.start("kubewright.cli", "run", "--production")
    assert "no cluster configured" in process.communicate()[0]
    assert process.returncode == 1
