"""Command lines of kube-apiserver: syntax, translation, warnings and errors."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from kubewright.api.kubernetes_version import supported
from kubewright.apiserver.audit.flags import FLAGS as AUDIT_FLAGS
from kubewright.controlplane.configuration.feature_gates import (
    EFFECTIVE,
    default_gates,
)
from kubewright.envtest import etcd_connection, kube_apiserver
from kubewright.envtest.etcd import Etcd
from kubewright.envtest.etcd import main as etcd_main
from kubewright.envtest.etcd import start as start_etcd
from kubewright.envtest.etcd_connection import EtcdClientOptions, EtcdUnavailable, open_etcd, store_file_name
from kubewright.envtest.flags import FlagError, parse_flags
from kubewright.envtest.kube_apiserver import ServerSettings, translate
from kubewright.envtest.kube_apiserver_flags import ABBREVIATIONS, IGNORED, SATISFIED, SUPPORTED, TYPES
from kubewright.options.kinds import BOOLEAN, BY_TYPE, SECONDS
from kubewright.storage.etcd.storage import EtcdStorage
from kubewright.storage.sqlite.storage import SQLiteStorage

ETCD = "--etcd-servers=http://127.0.0.1:2379"


def translated(*arguments: str) -> ServerSettings:
    return translate(parse_flags([ETCD, *arguments], TYPES, abbreviations=ABBREVIATIONS))


def test_flags_have_the_syntax_of_pflag() -> None:
    types = {
        "a": "string",
        "list": "list",
        "array": "array",
        "on": "bool",
        "n": "int",
        "d": "duration",
        "m": "map",
    }
    flags = parse_flags(
        [
            "--a",
            "1",
            "--a=2",
            "--list=x,y",
            "--list",
            "z",
            "--array=x,y",
            "--on",
            "--n=-3",
            "-d1m30s",
            "--m=k=v,w",
        ],
        types,
        abbreviations={"d": "d"},
    )
    assert {name: flags.read(name, BY_TYPE[kind], None) for name, kind in types.items()} == {
        "a": "2",
        "list": ("x", "y", "z"),
        "array": ("x,y",),
        "on": True,
        "n": -3,
        "d": 90.0,
        "m": ("k=v", "w"),
    }
    assert not parse_flags(["--on=false"], types).read("on", BOOLEAN, True)
    assert parse_flags([], types).read("on", BOOLEAN, True)


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0.0), ("1h0m0s", 3600.0), ("1.5s", 1.5), ("-2ms", -0.002)]
)
def test_durations_have_the_syntax_of_go(text: str, seconds: float) -> None:
    assert parse_flags([f"--d={text}"], {"d": "duration"}).read("d", SECONDS, 7.0) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["5", "1x", ""])
def test_other_durations_are_rejected(text: str) -> None:
    with pytest.raises(FlagError, match="expected a duration such as 30s"):
        parse_flags([f"--d={text}"], {"d": "duration"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--no-such-flag=1"], "unknown flag: --no-such-flag"),
        (["--insecure-port=0"], "unknown flag: --insecure-port"),
        (["--port=1"], "unknown flag: --port; use --secure-port"),
        (["-x"], "unknown shorthand flag: 'x' in -x"),
        (["--secure-port"], "flag needs an argument: --secure-port"),
        (["--secure-port=high"], 'invalid argument "high" for "--secure-port" flag: expected a whole number'),
        (["--secure-port=0"], "--secure-port 0 must be between 1 and 65535, inclusive"),
        (["--anonymous-auth=maybe"], 'invalid argument "maybe" for "--anonymous-auth" flag'),
        (["--request-timeout=5"], "expected a duration such as 30s or 1m0s"),
        (["serve"], "unexpected argument 'serve': only flags are accepted"),
        (["--feature-gates=NoSuchGate=true"], "unrecognized feature gate: NoSuchGate"),
        (["--feature-gates=WatchList"], "missing bool value for WatchList"),
        (["--feature-gates=WatchList=maybe"], "invalid value of WatchList=maybe"),
        (
            ["--feature-gates=DRAAdminAccess=false"],
            "cannot set feature gate DRAAdminAccess to false, feature is locked to true",
        ),
        (["--service-node-port-range=0-70000"], "the port range cannot be greater than 65535: 0-70000"),
        (["--service-node-port-range=abc"], "'abc' is not a port range"),
        (["--oidc-issuer-url=https://a"], "oidc-issuer-url and oidc-client-id must be specified together"),
        (
            ["--oidc-issuer-url=https://a", "--oidc-client-id=a", "--authentication-config=a.yaml"],
            "authentication-config file and oidc-* flags are mutually exclusive",
        ),
        (["--kubelet-preferred-address-types=IP"], "--kubelet-preferred-address-types: unknown type 'IP'"),
        (["--service-account-max-token-expiration=1m"], "must be between 1 hour and 2^32 seconds"),
        (["--runtime-config=apps/v1=perhaps"], "--runtime-config: 'apps/v1=perhaps': expected KEY=true"),
        (["--authorization-mode=ABAC"], "--authorization-mode: ABAC is not supported"),
        (["--tls-cert-file=a.crt"], "--tls-cert-file and --tls-private-key-file must be specified together"),
        (["--tls-min-version=VersionTLS9"], "--tls-min-version: unknown tls version 'VersionTLS9'"),
        (["--logging-format=xml"], '--logging-format: unsupported log format "xml"'),
        (["--etcd-servers=127.0.0.1"], "--etcd-servers: '127.0.0.1' is not a URL"),
    ],
)
def test_errors_name_the_flag_and_exit_with_1(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit:
        kube_apiserver.main([ETCD, *arguments])
    assert exit.value.code == 1
    error = capsys.readouterr().err
    assert error.startswith("Error: ")
    assert message in error


def test_etcd_servers_are_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        kube_apiserver.main([])
    assert exit.value.code == 1
    assert capsys.readouterr().err == "Error: --etcd-servers must be specified\n"


def test_one_warning_names_all_flags_without_effect() -> None:
    settings = translated(
        "--allow-privileged=true",
        "--delete-collection-workers=2",
        "--profiling",
        "--goaway_chance=0",
        "--feature-gates=kube:APIServerIdentity=true,CSIVolumeHealth=true",
    )
    assert settings.warnings == [
        "ignored flags of kube-apiserver that have no effect here: --delete-collection-workers --profiling",
        "ignored feature gates that have no effect here: CSIVolumeHealth=true",
    ]


def test_flags_are_translated_to_settings(tmp_path: Path) -> None:
    settings = translated(
        "--secure-port=7443",
        "--bind-address=127.0.0.1",
        "--cert-dir",
        str(tmp_path),
        "--authorization-mode=Node,RBAC",
        "--anonymous-auth=false",
        "--service-account-issuer=https://a",
        "--service-account-issuer=https://b",
        "--enable-admission-plugins=PodNodeSelector",
        "--runtime-config=resource.k8s.io/v1beta2,api/alpha=false",
        "--max-requests-inflight=7",
        "--min-request-timeout=10",
        "--etcd-prefix=/other",
        "--event-ttl=2h",
        "--tls-min-version=VersionTLS13",
        "--encryption-provider-config=e.yaml",
        "-v4",
        "--logging-format=json",
    )
    expected: dict[str, Any] = {
        "controllers": False,
        "nodes": 0,
        "port": 7443,
        "bind": "127.0.0.1",
        "cert_dir": tmp_path,
        "kubeconfig": tmp_path / "kubewright.kubeconfig",
        "auth": ("node", "rbac"),
        "anonymous": False,
        "service_account_issuer": ("https://a", "https://b"),
        "enable_admission_plugins": ("PodNodeSelector",),
        "event_ttl": 7200,
        "tls_min_version": "1.3",
        "encryption_provider_config": Path("e.yaml"),
        "runtime_config": {"resource.k8s.io/v1beta2": True, "api/alpha": False},
    }
    assert {name: getattr(settings.options, name) for name in expected} == expected
    assert (settings.options.max_requests_inflight, settings.options.min_request_timeout) == (7, 10)
    assert settings.etcd.prefix == "/other"
    assert settings.flags["service-account-issuer"] == "https://a,https://b"
    assert settings.flags["secure-port"] == "7443"
    assert (settings.options.log_level, settings.options.log_format) == (logging.DEBUG, "json")


def test_audit_flags_are_translated(tmp_path: Path) -> None:
    settings = translated(
        "--audit-policy-file=p.yaml",
        "--audit-log-path=a.log",
        "--audit-log-maxsize=5",
        "--audit-log-compress",
        "--audit-webhook-batch-max-wait=5s",
        "--audit-webhook-batch-throttle-qps=0.5",
    )
    assert settings.options.audit is not None
    values = settings.options.audit.values
    assert values["audit-log-maxsize"] == 5
    assert values["audit-log-compress"] is True
    assert values["audit-webhook-batch-max-wait"] == 5.0
    assert values["audit-webhook-batch-throttle-qps"] == 0.5
    assert values["audit-log-mode"] == "blocking"
    assert not settings.warnings
    assert {flag.name: flag.kind.type for flag in AUDIT_FLAGS}.items() <= SUPPORTED.items()
    with pytest.raises(ValueError, match="invalid audit log mode x"):
        translated("--audit-log-mode=x")


def test_anonymous_requests_are_not_allowed_with_always_allow() -> None:
    assert not translated().options.anonymous
    settings = translated("--authorization-mode=AlwaysAllow", "--anonymous-auth=true")
    assert not settings.options.anonymous
    assert settings.warnings == [
        "--anonymous-auth is not allowed with the AlwaysAllow authorizer; reset to false"
    ]


def test_every_flag_is_either_supported_or_ignored() -> None:
    assert not SUPPORTED.keys() & IGNORED.keys()
    assert SATISFIED.keys() <= IGNORED.keys()


def test_the_documentation_lists_every_flag() -> None:
    """The two tables of docs/envtest.md name the flags that are honoured, and those that are ignored."""
    page = (Path(__file__).parents[2] / "docs" / "envtest.md").read_text()
    tables = page.partition("## Flags of kube-apiserver")[2].partition("### Feature gates")[0]
    honoured, _, ignored = tables.partition("| Ignored flags |")
    assert documented(ignored.partition("```")[0], IGNORED) == IGNORED.keys()
    assert documented(honoured, SUPPORTED) == SUPPORTED.keys()
    gates = page.partition("### Feature gates")[2].partition("```")[0]
    assert set(re.findall(r"`([A-Z]\w+)`", gates)) == EFFECTIVE.keys()


def documented(text: str, flags: dict[str, str]) -> set[str]:
    """Return the flags that the first column of a table names; `--audit-*` stands for all of that prefix."""
    found: set[str] = set()
    for row in re.findall(r"^\| (.*?) \|", text, re.MULTILINE):
        for name in re.findall(r"`--?([a-z0-9*-]+)`", row):
            prefix = name.removesuffix("*")
            found |= {flag for flag in flags if flag.startswith(prefix)} if name != prefix else {name}
    return found


def test_defaults_of_feature_gates_are_those_of_kube_apiserver() -> None:
    newest = supported()[-1].gates()
    assert {name: newest[name].enabled for name in EFFECTIVE} == default_gates(supported()[-1])
    assert [default_gates(version)["WatchList"] for version in supported()[:2]] == [False, True]


def test_etcd_rejects_a_directory_that_is_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = Etcd(tmp_path / "a", fsync=True, max_request_bytes=1)
    first.lock()
    with pytest.raises(FlagError, match="is in use by another etcd"):
        Etcd(tmp_path / "a", fsync=True, max_request_bytes=1).lock()
    (tmp_path / "real" / "member" / "snap").mkdir(parents=True)
    (tmp_path / "real" / "member" / "snap" / "db").touch()
    with pytest.raises(SystemExit) as exit:
        etcd_main(["-data-dir", str(tmp_path / "real"), "--listen-client-urls=http://127.0.0.1:0"])
    assert exit.value.code == 1
    assert "holds the data of a real etcd" in capsys.readouterr().err


async def test_the_store_is_found_through_the_etcd_url(tmp_path: Path, reserved_port: int) -> None:
    url = f"http://127.0.0.1:{reserved_port}"
    start_etcd([f"--data-dir={tmp_path}", f"--listen-client-urls={url}", "--max-request-bytes", "1000"])
    storage = await open_etcd(EtcdClientOptions(servers=(url,), prefix="/registry"))
    assert isinstance(storage, SQLiteStorage)
    assert storage.path == tmp_path / "registry.db"
    assert store_file_name("/a/b") == "a%2Fb.db"

    settings = translated("--etcd-servers", url)  # the last value of a list is appended
    assert settings.etcd.servers[-1] == url


@pytest.mark.parametrize(("prefix", "expected"), [("/registry", ""), ("/other", "/other")])
async def test_a_real_etcd_is_used_with_its_flags(
    monkeypatch: pytest.MonkeyPatch, prefix: str, expected: str
) -> None:
    async def not_found(server: str, options: EtcdClientOptions) -> tuple[int, bytes]:
        return 404, b""

    monkeypatch.setattr(etcd_connection, "_get", not_found)
    servers = "--etcd-servers=https://10.0.0.1:2379,https://10.0.0.2:2379"
    flags = [servers, f"--etcd-prefix={prefix}", "--etcd-cafile=ca.pem", "--etcd-compaction-interval=1m"]
    storage = await open_etcd(translate(parse_flags(flags, TYPES)).etcd)
    assert isinstance(storage, EtcdStorage)
    options = storage.options
    assert options.endpoints == ("10.0.0.1:2379", "10.0.0.2:2379")
    assert (options.prefix, options.cacert, options.compact_every) == (expected, "ca.pem", 60.0)


async def test_a_second_server_on_one_store_reports_why_it_cannot_start(
    tmp_path: Path, reserved_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://127.0.0.1:{reserved_port}"
    start_etcd([f"--data-dir={tmp_path}", f"--listen-client-urls={url}"])
    monkeypatch.setattr(kube_apiserver, "STORE_TIMEOUT", 0.0)
    flags = parse_flags([f"--etcd-servers={url}", f"--cert-dir={tmp_path}", "--secure-port=1"], TYPES)
    async with SQLiteStorage(tmp_path / "registry.db"):
        with pytest.raises(kube_apiserver.StartError, match="one API server per --etcd-prefix at a time"):
            await kube_apiserver.serve(translate(flags), kube_apiserver.LogHandler())


async def test_an_unreachable_etcd_is_an_error(reserved_port: int) -> None:
    options = EtcdClientOptions(servers=(f"http://127.0.0.1:{reserved_port}",))
    with pytest.raises(EtcdUnavailable, match=r"etcd does not respond: .*; check --etcd-servers"):
        await open_etcd(options, timeout=0.0)
    await asyncio.sleep(0)
