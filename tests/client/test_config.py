"""Kubeconfig files, contexts, in-cluster configuration, and their errors."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright.client import ConfigError, load_config
from kubewright.client.config.cluster_config import ClusterConfig
from kubewright.client.transport.proxy import parse_proxy, proxy_for


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def kubeconfig(name: str = "one", **changes: Any) -> dict[str, Any]:
    return {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "shop"}}],
        "clusters": [
            {"name": name, "cluster": {"server": f"https://{name}:6443/", **changes.get("cluster", {})}}
        ],
        "users": [{"name": name, "user": changes.get("user", {"token": "secret"})}],
    }


def test_first_kubeconfig_file_wins(tmp_path: Path) -> None:
    first = write(tmp_path / "a", {**kubeconfig("one"), "current-context": "two"})
    second = write(tmp_path / "b", kubeconfig("two"))
    environ = {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"}
    config = load_config(environ=environ)
    assert (config.server, config.namespace, config.token) == ("https://two:6443", "shop", "secret")
    assert load_config(environ=environ, context="one").server == "https://one:6443"
    assert "secret" not in repr(config)


def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    write(tmp_path / "kube" / "pki" / "ca.crt", "CA")
    user = {"tokenFile": "token", "exec": None}
    path = write(
        tmp_path / "kube" / "config", kubeconfig(cluster={"certificate-authority": "pki/ca.crt"}, user=user)
    )
    config = load_config(path)
    assert config.ca is not None
    assert config.ca.read() == b"CA"
    assert config.token_file == str(tmp_path / "kube" / "token")


def test_inline_data_overrides_files(tmp_path: Path) -> None:
    data = base64.b64encode(b"PEM").decode()
    cluster = {"certificate-authority": "nowhere", "certificate-authority-data": data}
    config = load_config(write(tmp_path / "c", kubeconfig(cluster=cluster)))
    assert config.ca is not None
    assert config.ca.read() == b"PEM"


def test_all_cluster_and_user_fields_are_read(tmp_path: Path) -> None:
    cluster = {
        "tls-server-name": "inside",
        "proxy-url": "http://proxy:3128",
        "insecure-skip-tls-verify": True,
    }
    user = {"username": "u", "password": "p", "as": "jane", "as-groups": ["g"], "as-user-extra": {"k": ["v"]}}
    config = load_config(write(tmp_path / "c", kubeconfig(cluster=cluster, user=user)))
    assert config.tls_server_name == "inside"
    assert config.insecure_skip_tls_verify
    assert config.impersonation is not None
    assert config.impersonation.groups == ("g",)
    proxy = proxy_for(config, {})
    assert proxy is not None
    assert (proxy.host, proxy.port) == ("proxy", 3128)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "not YAML"),
        ("- 1", "must be a mapping with clusters"),
        ({"clusters": {}}, "clusters must be a list"),
        ({"clusters": [{"cluster": {}}]}, r"clusters\[0\] needs a name"),
        ({**kubeconfig(), "current-context": ""}, "no current-context is set"),
        ({**kubeconfig(), "current-context": "x"}, "context 'x' does not exist; available: one"),
        ({**kubeconfig(), "clusters": []}, "context 'one': cluster 'one' does not exist"),
        ({**kubeconfig(), "users": []}, "context 'one': user 'one' does not exist"),
        (kubeconfig(cluster={"server": ""}), "cluster 'one': has no server"),
        (kubeconfig(cluster={"server": "one:6443"}), "must begin with https:// or http://"),
        (
            kubeconfig(cluster={"certificate-authority": "nope"}),
            "certificate-authority .*nope does not exist",
        ),
        (kubeconfig(cluster={"certificate-authority-data": "%"}), "certificate-authority-data is not base64"),
        (kubeconfig(user={"client-certificate-data": "QQ=="}), "must be set together: client-key is not set"),
        (kubeconfig(user={"auth-provider": {"name": "gcp"}}), "auth-provider 'gcp' is not supported"),
        (kubeconfig(user={"exec": {"apiVersion": "v0", "command": "x"}}), "exec apiVersion must be"),
    ],
)
def test_kubeconfig_errors_name_file_and_entry(tmp_path: Path, content: Any, complaint: str) -> None:
    path = write(tmp_path / "config", content)
    with pytest.raises(ConfigError, match=complaint) as caught:
        load_config(path)
    assert str(path) in str(caught.value)


def test_service_account_is_used_without_kubeconfig(tmp_path: Path) -> None:
    account = tmp_path / "sa"
    write(account / "token", "t")
    write(account / "namespace", "inside\n")
    environ = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    config = load_config(environ=environ, service_account_dir=account)
    assert (config.server, config.namespace) == ("https://[fd00::1]:443", "inside")
    assert config.token_file == str(account / "token")
    write(tmp_path / ".kube" / "config", kubeconfig())
    assert load_config(environ=environ, service_account_dir=account).server == "https://one:6443"


def test_missing_config_error_lists_paths(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r"\.kube/config has no context and this process does not run in a pod.*kubewright up",
    ):
        load_config(environ={"HOME": str(tmp_path)}, service_account_dir=tmp_path)


def test_proxies_of_the_environment() -> None:
    far, near = ClusterConfig(server="https://far:6443"), ClusterConfig(server="https://127.0.0.1:6443")
    environ = {"HTTPS_PROXY": "user:pass%40@proxy:8080", "NO_PROXY": ".internal"}
    proxy = proxy_for(far, environ)
    assert proxy is not None
    assert (proxy.host, proxy.port, proxy.password) == ("proxy", 8080, "pass@")
    assert "pass" not in str(proxy)
    assert proxy_for(near, environ) is None
    assert proxy_for(ClusterConfig(server="https://a.internal"), environ) is None
    with pytest.raises(ConfigError, match="is not a proxy"):
        parse_proxy("ftp://x", "here")
