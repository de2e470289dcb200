"""Every option of the model is a flag of `kubewright up` and a key of its config file, with one meaning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner
from tests.options.samples import sample, samples_beside, value_of, write_files

from kubewright.cli import main
from kubewright.cli.clusters.up import up_command
from kubewright.cli.clusters.up_options import OPTIONS, UpOptions
from kubewright.envtest.kube_apiserver_flags import IGNORED
from kubewright.options.model import Option, concerns, options_of

BY_NAME = [pytest.param(one, id=one.name) for one in OPTIONS]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)


def parsed(*arguments: str) -> UpOptions:
    options: UpOptions = up_command.make_context("up", list(arguments)).params["options"]
    return options


def configured(text: str, *arguments: str) -> UpOptions:
    Path("up.yaml").write_text(text)
    return parsed("--config", "up.yaml", *arguments)


@pytest.mark.parametrize("option", BY_NAME)
def test_a_flag_and_a_key_have_the_same_value(option: Option) -> None:
    texts = samples_beside(UpOptions, option)
    expected = value_of(UpOptions, texts, option.keyword)
    assert expected != getattr(UpOptions(), option.keyword)
    flags = parsed(*(f"--{name}={text}" for name, text in texts.items()))
    assert getattr(flags, option.keyword) == expected
    as_texts = configured("".join(f"{name}: {text!r}\n" for name, text in texts.items()))
    assert getattr(as_texts, option.keyword) == expected
    natural = {}
    for name, text in texts.items():
        kind = next(one.kind for one in OPTIONS if one.name == name)
        if kind.is_repeated and "=" in kind.metavar:
            pairs = [text] if kind.type == "array" else text.split(",")
            natural[name] = {
                key: yaml.safe_load(each) for key, _, each in (pair.partition("=") for pair in pairs)
            }
        elif kind.is_repeated:
            natural[name] = text.split(",") if kind.type == "list" else [text]
        else:
            natural[name] = yaml.safe_load(text)
    in_yaml = configured(yaml.safe_dump(natural))
    assert getattr(in_yaml, option.keyword) == expected


@pytest.mark.parametrize("option", BY_NAME)
def test_a_flag_takes_precedence_over_the_config_file_and_that_over_the_default(option: Option) -> None:
    texts = samples_beside(UpOptions, option)
    default = value_of(UpOptions, {**texts, option.name: default_text(option)}, option.keyword)
    expected = value_of(UpOptions, texts, option.keyword)
    file = "".join(
        f"{name}: {text!r}\n" for name, text in {**texts, option.name: default_text(option)}.items()
    )
    assert getattr(configured(file), option.keyword) == default
    options = configured(file, f"--{option.name}={sample(option)}")
    assert getattr(options, option.keyword) == expected


def default_text(option: Option) -> str:
    """Return a valid text other than the sample; the default, if there is one."""
    return option.kind.text(option.default) or sample(option)


@pytest.mark.parametrize("option", BY_NAME)
def test_wrong_values_name_the_flag_or_the_line_of_the_key(option: Option) -> None:
    wrong = {"int": "x", "float": "x", "bool": "x", "duration": "x"}.get(option.kind.type)
    if wrong is None:
        Path("up.yaml").write_text(f"\n{option.name}: {{a: [b]}}\n")
    else:
        result = CliRunner().invoke(main, ["up", f"--{option.name}={wrong}"])
        assert result.exit_code == 2
        assert result.output.startswith(f"Error: Invalid value for '--{option.name}': 'x'")
        assert result.output.count("\n") == 1
        Path("up.yaml").write_text(f"\n{option.name}: {wrong}\n")
    result = CliRunner().invoke(main, ["up", "--config", "up.yaml"])
    assert result.exit_code == 2
    assert result.output.startswith(f"Error: up.yaml:2: {option.name}: ")
    assert result.output.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("port: 1\nstroe: 'memory:'\n", "up.yaml:2: unknown option 'stroe'; did you mean store?"),
        ("secure-port: 1\n", "up.yaml:1: unknown option 'secure-port'; use port"),
        (
            "service_account_key_files: []\n",
            "unknown option 'service_account_key_files'; use service-account-key-file",
        ),
        ("port: 1\nport: 2\n", "up.yaml:2: port is set twice; see up.yaml:1"),
        ("port: 70000\n", "up.yaml:1: port: 70000 is not in the range 0<=x<=65535"),
        ("port:\n", "up.yaml:1: port: expected a value, as in port: 0"),
        ("port: [1]\n", "up.yaml:1: port: expected a value, as in port: 0"),
        ("host: {a: b}\n", "up.yaml:1: host: expected a list of values, as in host: a"),
        ("feature-gates: {Nope: true}\n", "up.yaml:1: feature-gates: unrecognized feature gate: Nope"),
        ("tls-cert-file: a\n", "--tls-cert-file and --tls-private-key-file must be specified together"),
        ("- port\n", "up.yaml: expected options by name, as in port: 6443"),
        ("port: {\n", "up.yaml:2: not valid YAML: expected the node content"),
        ("port: 1\n---\nport: 2\n", "not valid YAML: but found another document"),
        ("port: !!python/object/apply:os.getpid []\n", "up.yaml:1: port: expected a value"),
        ("[" * 5000, "up.yaml: not valid YAML: RecursionError"),
        ("#" * 2_000_000, "up.yaml: the file has more than 1048576 bytes"),
    ],
)
def test_errors_of_the_config_file(text: str, message: str) -> None:
    Path("up.yaml").write_text(text)
    result = CliRunner().invoke(main, ["up", "--config", "up.yaml"])
    assert result.exit_code == 2
    assert result.output.startswith("Error: ")
    assert message in result.output
    assert result.output.count("\n") == 1


def test_a_config_file_that_others_can_write_is_not_used() -> None:
    Path("up.yaml").write_text("auth: always-allow\n")
    Path("up.yaml").chmod(0o666)
    result = CliRunner().invoke(main, ["up", "--config", "up.yaml"])
    assert result.exit_code == 2
    assert "up.yaml: " in result.output


def test_an_empty_config_file_sets_nothing() -> None:
    assert configured("# nothing\n").given == frozenset()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--secure-port", "1"], "No such option --secure-port; use --port;"),
        (["--authorization-mode=RBAC"], "No such option --authorization-mode; use --auth;"),
        (["--bind_address=::"], "No such option --bind_address; use --bind;"),
        (["--etcd-servers=a"], "No such option --etcd-servers; use --store etcd://HOST:PORT;"),
        (["--prot", "1"], "No such option --prot; did you mean --port?"),
        (
            ["--anonymous-auth=maybe"],
            "Invalid value for '--anonymous-auth': 'maybe': expected true or false;",
        ),
    ],
)
def test_flags_with_another_spelling_have_a_hint(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["up", *arguments])
    assert result.exit_code == 2
    assert result.output.startswith(f"Error: {message}")


def test_every_flag_of_kube_apiserver_is_accepted_or_has_a_hint() -> None:
    names = {one.name for one in OPTIONS}
    for flag in (*IGNORED, *(one.flag for one in OPTIONS if one.flag not in ("", *names))):
        result = CliRunner().invoke(main, ["up", f"--{flag}=1"])
        assert f"No such option --{flag}; use --" in result.output or "has no effect here" in result.output


@pytest.mark.parametrize(
    ("arguments", "http2"),
    [
        ([], False),
        (["--http2"], True),
        (["--http2=true"], True),
        (["--http2", "false"], False),
        (["--http2=false"], False),
        (["--http2", "--no-http2"], False),
    ],
)
def test_booleans_have_the_forms_of_kube_apiserver_too(arguments: list[str], http2: bool) -> None:
    assert parsed(*arguments).http2 is http2


def test_the_help_has_a_section_for_each_concern_and_every_common_option() -> None:
    output = CliRunner().invoke(main, ["up", "--help"]).output
    sections = [
        line.removesuffix(":") for line in output.splitlines() if line.endswith(":") and line[:1] != " "
    ]
    titles = [(each.__doc__ or "").partition(":")[0] for each in concerns(UpOptions) if options_of(each)]
    assert sections == [*titles, "Other"]
    for one in OPTIONS:
        assert one.is_rare == (f"  --{one.name}" not in output.replace("=", " "))


@pytest.fixture
def context() -> Iterator[click.Context]:
    with up_command.make_context("up", ["--event-ttl=2h", "--no-controllers"]) as made:
        yield made


def test_flagz_has_given_values_and_defaults(context: click.Context) -> None:
    flags = context.params["options"].flags
    assert flags["event-ttl"] == "2h"
    assert (flags["controllers"], flags["nodes"]) == ("false", "0")
    assert flags["service-cluster-ip-range"] == "10.0.0.0/24"
    assert "token-auth-file" not in flags
