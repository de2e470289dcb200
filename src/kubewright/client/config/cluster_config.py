"""`ClusterConfig`: the address of an API server and the credentials of one user.

`load_config()` finds a configuration as kubectl does: an explicit file, `KUBECONFIG`, `~/.kube/config`, then
the service account of the pod. The result is plain data; `credentials` creates headers and TLS contexts from
it and renews them when tokens expire or files change.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kubewright.client.errors import ConfigError

from .kubeconfig import Kubeconfig, KubeconfigEntry

SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")
ROOT_VARIABLE = "KUBEWRIGHT_ROOT"
"""The directory with the mount paths of a container that is a local process without a mount namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PEMData:
    """PEM data, inline or in a file; a file is read again when it changes."""

    data: bytes | None = field(default=None, repr=False)
    file: str | None = None

    def read(self) -> bytes:
        """Return the current bytes."""
        if self.data is not None:
            return self.data
        assert self.file is not None
        try:
            return Path(self.file).read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot read {self.file}: {error.strerror}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A program that prints credentials (`client.authentication.k8s.io`)."""

    api_version: str
    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Impersonation:
    """Impersonate another user; needs the impersonate permission."""

    user: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """Connection parameters of one API server and one user. `repr` does not contain secrets."""

    server: str
    namespace: str = "default"
    ca: PEMData | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = field(default="", repr=False)
    disable_compression: bool = False
    client_certificate: PEMData | None = field(default=None, repr=False)
    client_key: PEMData | None = field(default=None, repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    exec: ExecPlugin | None = field(default=None, repr=False)
    oidc: Mapping[str, str] | None = field(default=None, repr=False)
    impersonation: Impersonation | None = None
    cluster_extension: Any = field(default=None, repr=False)
    """The `client.authentication.k8s.io/exec` extension of the cluster, passed to exec plug-ins."""
    source: str = ""
    """The file and context of this configuration, for messages."""

    def with_impersonation(self, impersonation: Impersonation) -> ClusterConfig:
        """Return a copy that impersonates another user."""
        return replace(self, impersonation=impersonation)


def load_config(
    kubeconfig: str | os.PathLike[str] | None = None,
    *,
    context: str = "",
    environ: Mapping[str, str] = os.environ,
    service_account_dir: Path | None = None,
) -> ClusterConfig:
    """Find the configuration as kubectl does; raise `ConfigError` if it does not exist."""
    service_account_dir = service_account_dir or find_service_account_dir(environ)
    if kubeconfig is not None:
        return from_kubeconfig(Kubeconfig.load([kubeconfig], must_exist=True), context=context)
    merged = Kubeconfig.load(Kubeconfig.paths(environ))
    if merged.contexts or merged.clusters or context:
        return from_kubeconfig(merged, context=context)
    if environ.get("KUBERNETES_SERVICE_HOST") and (service_account_dir / "token").exists():
        return in_cluster(environ=environ, service_account_dir=service_account_dir)
    paths = ", ".join(str(path) for path in Kubeconfig.paths(environ))
    raise ConfigError(
        f"no cluster configured: {paths} has no context and this process does not run in a pod; "
        "set KUBECONFIG, or start a local control plane with `kubewright up`"
    )


def find_service_account_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of the service account of this pod, whether or not it exists."""
    root = environ.get(ROOT_VARIABLE)
    return Path(root, *SERVICE_ACCOUNT_DIR.parts[1:]) if root else SERVICE_ACCOUNT_DIR


def in_cluster(
    *, environ: Mapping[str, str] = os.environ, service_account_dir: Path | None = None
) -> ClusterConfig:
    """Return the service account of this pod; token and CA are read again when they change."""
    service_account_dir = service_account_dir or find_service_account_dir(environ)
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError("not running in a cluster: KUBERNETES_SERVICE_HOST is not set")
    if not (service_account_dir / "token").exists():
        raise ConfigError(f"not running in a cluster: {service_account_dir / 'token'} does not exist")
    namespace_file = service_account_dir / "namespace"
    return ClusterConfig(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=namespace_file.read_text().strip() if namespace_file.exists() else "default",
        ca=PEMData(file=str(service_account_dir / "ca.crt")),
        token_file=str(service_account_dir / "token"),
        source="the pod's service account",
    )


def from_kubeconfig(config: Kubeconfig, *, context: str = "") -> ClusterConfig:
    """Return the configuration of a context of a merged kubeconfig."""
    chosen = config.context(context)
    cluster = config.cluster_of(chosen)
    user = config.user_of(chosen)
    server = cluster.data.get("server")
    if not server:
        raise cluster.error("clusters", "has no server")
    if not str(server).startswith(("https://", "http://")):
        raise cluster.error("clusters", f"server {server!r} must begin with https:// or http://")
    insecure = bool(cluster.data.get("insecure-skip-tls-verify"))
    authority = _material(cluster, "clusters", "certificate-authority")
    if insecure and authority is not None:
        raise cluster.error(
            "clusters",
            "has certificate-authority and insecure-skip-tls-verify; remove one of them",
        )
    extensions = {each.get("name"): each.get("extension") for each in cluster.data.get("extensions") or ()}
    return ClusterConfig(
        server=str(server).rstrip("/"),
        namespace=chosen.data.get("namespace") or "default",
        ca=authority,
        insecure_skip_tls_verify=insecure,
        tls_server_name=cluster.data.get("tls-server-name") or "",
        proxy_url=cluster.data.get("proxy-url") or "",
        disable_compression=bool(cluster.data.get("disable-compression")),
        cluster_extension=extensions.get("client.authentication.k8s.io/exec"),
        source=f"{chosen.file} (context {chosen.name})",
        **(_user(user) if user is not None else {}),
    )


def _user(user: KubeconfigEntry) -> dict[str, Any]:
    data = user.data
    certificate = _material(user, "users", "client-certificate")
    key = _material(user, "users", "client-key")
    if (certificate is None) != (key is None):
        missing = "client-key" if key is None else "client-certificate"
        raise user.error(
            "users", f"client-certificate and client-key must be set together: {missing} is not set"
        )
    provider = data.get("auth-provider")
    if provider is not None and provider.get("name") != "oidc":
        raise user.error(
            "users",
            f"auth-provider {provider.get('name')!r} is not supported; use an exec plug-in",
        )
    impersonation = None
    if data.get("as") or data.get("as-groups") or data.get("as-uid") or data.get("as-user-extra"):
        impersonation = Impersonation(
            user=data.get("as") or "",
            groups=tuple(data.get("as-groups") or ()),
            uid=data.get("as-uid") or "",
            extra={key: tuple(values) for key, values in (data.get("as-user-extra") or {}).items()},
        )
    return {
        "client_certificate": certificate,
        "client_key": key,
        "token": data.get("token") or "",
        "token_file": data.get("tokenFile") or "",
        "username": data.get("username") or "",
        "password": data.get("password") or "",
        "exec": _exec(user) if data.get("exec") else None,
        "oidc": dict(provider.get("config") or {}) if provider is not None else None,
        "impersonation": impersonation,
    }


def _exec(user: KubeconfigEntry) -> ExecPlugin:
    data = user.data["exec"]
    version = str(data.get("apiVersion") or "")
    if version not in ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"):
        raise user.error(
            "users",
            f"exec apiVersion must be client.authentication.k8s.io/v1 or v1beta1, not {version!r}",
        )
    if not data.get("command"):
        raise user.error("users", "exec has no command")
    return ExecPlugin(
        api_version=version,
        command=data["command"],
        args=tuple(str(each) for each in data.get("args") or ()),
        env=tuple((each["name"], str(each["value"])) for each in data.get("env") or ()),
        install_hint=data.get("installHint") or "",
        provide_cluster_info=bool(data.get("provideClusterInfo")),
        interactive_mode=data.get("interactiveMode") or "IfAvailable",
    )


def _material(entry: KubeconfigEntry, section: str, key: str) -> PEMData | None:
    inline, file = entry.data.get(key + "-data"), entry.data.get(key)
    if inline:
        try:
            return PEMData(data=base64.b64decode(inline, validate=True))
        except (binascii.Error, ValueError):
            raise entry.error(section, f"{key}-data is not base64") from None
    if file:
        if not Path(file).exists():
            raise entry.error(section, f"{key} {file} does not exist")
        return PEMData(file=file)
    return None
