"""Every option with a flag of kube-apiserver has it here, with the same meaning as in `kubewright up`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.options.samples import samples_beside, value_of, write_files

from kubewright.cli.clusters.up import up_command
from kubewright.cli.clusters.up_options import UpOptions
from kubewright.envtest import kube_apiserver
from kubewright.envtest.flags import parse_flags
from kubewright.envtest.kube_apiserver import translate
from kubewright.envtest.kube_apiserver_flags import TYPES, ServerOptions
from kubewright.options.model import Option, options_of

OPTIONS = [pytest.param(one, id=one.flag) for one in options_of(ServerOptions) if one.flag]
ETCD = "--etcd-servers=http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)


@pytest.mark.parametrize("option", OPTIONS)
def test_a_flag_has_the_meaning_that_it_has_in_up(option: Option) -> None:
    texts = samples_beside(ServerOptions, option)
    flags = {one.name: one.flag for one in options_of(ServerOptions)}
    settings = translate(
        parse_flags([ETCD, *(f"--{flags[name]}={text}" for name, text in texts.items())], TYPES)
    )
    value = getattr(settings.options, option.keyword)
    assert value == value_of(ServerOptions, texts, option.keyword)
    if any(option.name == one.name for one in options_of(UpOptions)):
        arguments = [f"--{name}={text}" for name, text in texts.items()]
        up = up_command.make_context("up", arguments).params["options"]
        assert getattr(up, option.keyword) == value


@pytest.mark.parametrize("option", OPTIONS)
def test_wrong_values_name_the_flag(option: Option, capsys: pytest.CaptureFixture[str]) -> None:
    if option.kind.type not in ("int", "float", "bool", "duration"):
        return
    with pytest.raises(SystemExit):
        kube_apiserver.main([ETCD, f"--{option.flag}=x"])
    error = capsys.readouterr().err
    assert error.startswith(f'Error: invalid argument "x" for "--{option.flag}" flag: expected ')
    assert error.count("\n") == 1
