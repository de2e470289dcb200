"""Programs in Python are started from a template that has imported their libraries."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from kubewright.explore.foreign import preloading
from kubewright.explore.foreign.preloading import ProgramTemplates, program_environment, python_command
from kubewright.explore.foreign.template import libraries

PROGRAM = """
import os
import sys

import click

assert "click.testing" not in sys.modules
print(os.environ["KUBECONFIG"], sys.argv[1:], __name__, "prompt" in vars(click), os.getppid(), flush=True)
sys.exit(3)
"""


def test_commands_of_python_are_recognised(tmp_path: Path) -> None:
    script = tmp_path / "tool"
    script.write_text(f"#!{sys.executable}\nprint()\n")
    script.chmod(0o700)
    assert python_command(f"{sys.executable} shop.py --fast") == [sys.executable, "shop.py", "--fast"]
    assert python_command(f"{sys.executable} -m kopf run") == [sys.executable, "-m", "kopf", "run"]
    assert python_command(f"{script} run shop.py") == [sys.executable, str(script), "run", "shop.py"]
    for other in ("/bin/ls", "sh -c 'python shop.py'", f"{sys.executable} -c pass", "does-not-exist", "'"):
        assert python_command(other) is None, other


def test_a_program_does_not_find_the_cluster_of_its_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBERNETES_PORT_443_TCP"):
        monkeypatch.setenv(name, "10.96.0.1")
    monkeypatch.setenv("KUBECONFIG", "/elsewhere")
    found = program_environment(tmp_path / "kubeconfig")
    assert not [name for name in found if name.startswith("KUBERNETES_")]
    assert (found["KUBECONFIG"], found["PATH"]) == (str(tmp_path / "kubeconfig"), os.environ["PATH"])


def test_only_installed_libraries_are_imported_in_advance(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import os, click\nfrom rich.console import Console\nimport neighbour\n")
    (tmp_path / "neighbour.py").write_text("raise RuntimeError('imported')\n")
    assert libraries([str(program), str(tmp_path / "missing.py")]) == ["click", "rich.console"]


def test_a_template_starts_a_program_again_and_again(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    log = tmp_path / "log"

    async def start_twice() -> tuple[list[int], set[int]]:
        templates = ProgramTemplates(
            f"{sys.executable} program.py --fast", directory=tmp_path, scratch=tmp_path
        )
        codes, pids = [], set()
        try:
            for _ in range(2):
                async with templates.borrowed() as template:
                    assert template is not None
                    process = await template.start(log)
                    assert process is not None
                    pids.add(process.pid)
                    codes.append(await process.wait())
        finally:
            await templates.aclose()
        return codes, pids

    codes, pids = asyncio.run(start_twice())
    assert codes == [3, 3]
    assert len(pids) == 2
    lines = log.read_text().splitlines()
    assert len(lines) == 2
    kubeconfig, *rest = lines[0].rsplit(maxsplit=1)[0].split(" ", 1)
    assert kubeconfig == str(tmp_path / "kubeconfig-1")
    assert rest == ["['--fast'] __main__ True"]
    parents = {line.rsplit(maxsplit=1)[1] for line in lines}
    assert len(parents) == 1
    assert parents != {str(os.getpid())}


def test_a_template_that_does_not_respond_is_not_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its late response would be that of the next start, with another log."""
    (tmp_path / "program.py").write_text(PROGRAM)

    async def start_twice() -> list[object]:
        command = f"{sys.executable} program.py"
        templates = ProgramTemplates(command, directory=tmp_path, scratch=tmp_path)
        found: list[object] = []
        try:
            for seconds in (0.0, preloading.IMPORT_SECONDS):
                monkeypatch.setattr(preloading, "IMPORT_SECONDS", seconds)
                async with templates.borrowed() as template:
                    assert template is not None
                    found.append(await template.start(tmp_path / "log"))
        finally:
            await templates.aclose()
        return found

    assert asyncio.run(start_twice()) == [None, None]
