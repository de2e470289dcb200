from __future__ import annotations

import json
import subprocess
import sys

from click.testing import CliRunner

import kubewright
from kubewright.cli import COMMANDS, main
from kubewright.cli.projects.create import CREATE_COMMANDS


def test_help_lists_every_command_and_each_can_be_loaded() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for name in COMMANDS:
        assert name in result.output
        help_text = CliRunner().invoke(main, [name, "--help"])
        assert help_text.exit_code == 0
        assert "Example:\n" in help_text.output, name


def test_help_of_subcommands_has_an_example() -> None:
    for name in CREATE_COMMANDS:
        assert "Example:\n" in CliRunner().invoke(main, ["create", name, "--help"]).output


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys, click.testing, kubewright.cli as cli\n"
        "before = set(sys.modules)\n"
        "click.testing.CliRunner().invoke(cli.main, ['--help'])\n"
        "print([name for name in sys.modules if name.partition('.')[0] in "
        "('aiohttp', 'cryptography', 'jinja2', 'msgspec', 'yaml', 'rich')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_version() -> None:
    assert kubewright.__version__ in CliRunner().invoke(main, ["version"]).output
    printed = CliRunner().invoke(main, ["version", "-o", "json"]).output
    assert json.loads(printed)["kubewright"] == kubewright.__version__
    assert kubewright.__version__ in CliRunner().invoke(main, ["--version"]).output


def test_unknown_command_is_one_message() -> None:
    result = CliRunner().invoke(main, ["manifest"], prog_name="kubewright")
    assert result.exit_code == 2
    assert result.output == (
        "Error: No such command 'manifest'; did you mean manifests? see kubewright --help\n"
    )
    result = CliRunner().invoke(main, ["qqq"], prog_name="kubewright")
    assert result.output == "Error: No such command 'qqq'; see kubewright --help\n"


def test_unknown_options_are_not_compared_by_their_dashes() -> None:
    result = CliRunner().invoke(main, ["init", "--repo", "x"], prog_name="kubewright")
    assert result.output == "Error: No such option --repo; see kubewright init --help\n"
    result = CliRunner().invoke(main, ["init", "--ownr", "x"], prog_name="kubewright")
    assert result.output == "Error: No such option --ownr; did you mean --owner? see kubewright init --help\n"
