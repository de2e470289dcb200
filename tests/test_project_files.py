"""Files of the project: workflows, the image, pre-commit, issue templates name what exists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kubewright.cli import main

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def steps(path: Path) -> list[dict]:
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_what_exists(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    commands = "\n".join(step.get("run", "") for step in steps(path))
    assert set(re.findall(r"\bmake ([a-z-]+)", commands)) <= targets
    for name in re.findall(r"(?<![\w/.])((?:tests|tools|\.ci)/[\w./-]+)", commands):
        assert (ROOT / name).exists(), name
    assert all(re.search(r"@v\d+$|@release/v\d+$", step["uses"]) for step in steps(path) if "uses" in step)


def test_workflows_have_the_least_permissions() -> None:
    for path in WORKFLOWS:
        assert yaml.safe_load(path.read_text(encoding="utf-8"))["permissions"] == {"contents": "read"}
    assert "secrets." not in re.sub(
        r"secrets\.GITHUB_TOKEN", "", "".join(path.read_text() for path in WORKFLOWS)
    )


def test_the_image_runs_without_root_and_its_command_is_valid() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    stages = text.split("\nFROM ")
    assert len(stages) == 3, "a comment, the build and the image"
    assert re.search(r"^USER (?!0|root)\d+", stages[-1], re.MULTILINE)
    found = re.search(r"^CMD (.+)$", text, re.MULTILINE)
    assert found is not None
    arguments = json.loads(found[1])
    # `--help` after the arguments: they are parsed, and nothing is started.
    result = CliRunner().invoke(main, [*arguments, "--help"])
    assert result.exit_code == 0, result.output
    options = {each for each in arguments if each.startswith("--")}
    assert options <= set(re.findall(r"--[a-z-]+", result.output))


def test_pre_commit_runs_the_tools_of_lint() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    lint = (ROOT / "Makefile").read_text(encoding="utf-8").split("\nlint:")[1].split("\n\n")[0]
    for hook in hooks:
        tool = hook["entry"].split()[0].rpartition("/")[2]
        assert tool == "python" or f"$(BIN)/{tool}" in lint, tool


def test_issue_templates_are_forms() -> None:
    for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert path.name == "config.yml" or {"name", "description", "body"} <= form.keys()
