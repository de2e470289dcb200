"""Drop-in for kube-apiserver: the API server of Kubewright with the flags of kube-apiserver.

It runs what the kube-apiserver process runs: no controller manager, no scheduler, no nodes. Data is stored
where the etcd stand-in, or a real etcd, of `--etcd-servers` stores it. It stops on SIGTERM and SIGINT.

Translation of the flags of kube-apiserver to the options of a `ControlPlane`. Flags with an effect here are
those of the model of options; only their defaults differ. Other known flags are accepted, so that command
lines written for kube-apiserver work.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from kubewright.api.kubernetes_version import KubernetesVersion
from kubewright.controlplane.configuration.feature_gates import check_gates, warn_of_gates
from kubewright.manager.observability.log_handler import LazyLogHandler
from kubewright.options.kinds import INTEGER, LIST
from kubewright.options.model import keyword_arguments

from .etcd_connection import EtcdClientOptions
from .executables import VERSION_VARIABLE
from .flags import FlagError, Flags, mentions_flag, parse_flags
from .kube_apiserver_flags import (
    ABBREVIATIONS,
    OPTIONS,
    OTHER_NAMES,
    TYPES,
    ServerOptions,
    flags_without_effect,
    help_text,
)

STORE_TIMEOUT = 5.0
"""Seconds in which another API server must release the store, such as one that is still stopping."""

STOP_TIMEOUT = 2.0
"""Seconds for requests in flight after SIGTERM; the process exits then in any case."""


class StartError(Exception):
    """The server cannot start; the text is for the user."""


class LogHandler(LazyLogHandler):
    """Failed health checks are expected until the server is ready, and not logged."""

    def __init__(self) -> None:
        super().__init__()
        self.is_ready = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log a record."""
        return self.is_ready or record.msg != "health check failed"


def _print(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def version_text() -> str:
    """Return the line of `--version`, in the form of kube-apiserver."""
    from kubewright.apiserver.version_info import VersionInfo

    return f"Kubernetes {VersionInfo.of(selected_version()).git_version}\n"


async def serve(settings: ServerSettings, log: LogHandler) -> None:
    """Run the server until a signal arrives; raises `StartError`."""
    from kubewright.apiserver.shutdown import StopSignals
    from kubewright.controlplane.plane import ControlPlane
    from kubewright.storage import StorageError
    from kubewright.storage.sqlite.store_lock import StoreInUse

    from .etcd_connection import EtcdUnavailable, open_etcd

    signals = StopSignals()
    deadline = time.monotonic() + STORE_TIMEOUT
    while True:
        try:
            plane = ControlPlane.from_options(replace(settings.options, store=await open_etcd(settings.etcd)))
            plane.server.flags = settings.flags
            await plane.start()
            break
        except StoreInUse as error:
            if time.monotonic() >= deadline:
                raise StartError(
                    f"{error}; the etcd stand-in serves one API server per --etcd-prefix at a time, "
                    "use a real etcd for several"
                ) from None
            await asyncio.sleep(0.05)
        except EtcdUnavailable as error:
            raise StartError(str(error)) from None
        except StorageError as error:
            raise StartError(f"cannot open the store: {error}") from None
        except OSError as error:
            why = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
            raise StartError(why) from None
        except ValueError as error:
            raise StartError(str(error)) from None
    gc.freeze()
    gc.set_threshold(20_000, 5, 4)
    gc.enable()
    log.is_ready = True
    _print(f"Serving securely on {plane.bind}:{plane.port}")
    await signals.stop.wait()
    await signals.drain(plane.server, settings.options.shutdown_delay_duration)
    try:
        async with asyncio.timeout(STOP_TIMEOUT):
            await plane.stop()
    except TimeoutError:
        _print("requests did not finish before shutdown")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the server of a command line."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if mentions_flag(arguments, "--help", "-h"):
        sys.stdout.write(help_text())
        sys.exit(0)
    if mentions_flag(arguments, "--version"):
        try:
            sys.stdout.write(version_text())
        except ValueError as error:
            _exit(str(error))
        sys.exit(0)
    log = LogHandler()
    logging.getLogger().addHandler(log)
    gc.disable()  # the start-up creates hardly any garbage; `serve` enables it again
    try:
        settings = translate(
            parse_flags(arguments, TYPES, abbreviations=ABBREVIATIONS, other_names=OTHER_NAMES)
        )
        log.is_json = settings.options.log_format == "json"
        logging.getLogger("kubewright").setLevel(settings.options.log_level)
        for warning in settings.warnings:
            _print(f"Warning: {warning}")
        from kubewright.apiserver.http.server import run

        run(lambda: serve(settings, log))
    except OSError as error:
        _exit(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (FlagError, StartError, ValueError) as error:
        _exit(str(error))
    sys.stderr.flush()
    os._exit(0)  # nothing is left to write, and the interpreter takes a while to clean up


def _exit(message: str) -> NoReturn:
    _print(f"Error: {message}")
    sys.exit(1)


DEFAULTS: dict[str, Any] = {
    "bind": "0.0.0.0",  # noqa: S104 - the default of kube-apiserver
    "port": 6443,
    "auth": ("always-allow",),
    "controllers": False,
    "cert_dir": Path("/var/run/kubernetes"),
}
"""What differs from the defaults of the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """What a command line asks for."""

    etcd: EtcdClientOptions
    options: ServerOptions
    """Without the storage."""
    warnings: list[str] = field(default_factory=list)
    flags: dict[str, str] = field(default_factory=dict)
    """The flags that were given, for `/flagz`."""


def translate(flags: Flags) -> ServerSettings:
    """Return the settings of a command line; raises `FlagError`, or `OSError` and `ValueError` for files."""
    port = flags.read("secure-port", INTEGER, 6443)
    if not 0 < port < 65536:
        raise FlagError(f"--secure-port {port} must be between 1 and 65535, inclusive")
    values = {}
    for one in OPTIONS:
        try:
            if one.flag in flags:
                values[one.name] = flags.read(one.flag, one.kind, one.default)
        except ValueError as error:
            raise FlagError(f"--{one.flag}: {error}") from None
    given = keyword_arguments(ServerOptions, values)
    version = selected_version()
    given["kubernetes_version"] = str(version)
    gates = given.get("feature_gates") or {}
    try:
        check_gates(gates, version)
    except ValueError as error:
        raise FlagError(f"--feature-gates: {error}") from None
    warnings = [*_warn_of_flags(flags), *warn_of_gates(gates, str(version))]
    if "authorization-config" in flags and "authorization-mode" in flags:
        raise FlagError("--authorization-config and --authorization-mode cannot be used together")
    if given.get("authentication_config") and "oidc" in given:
        raise FlagError("authentication-config file and oidc-* flags are mutually exclusive")
    plane = {**DEFAULTS, **given}
    if "always-allow" in plane["auth"] and not plane.get("authorization_config"):
        if given.get("anonymous"):
            warnings.append("--anonymous-auth is not allowed with the AlwaysAllow authorizer; reset to false")
        plane["anonymous"] = False
    if plane.get("tls_key_pair") is not None and "cert-dir" not in flags:
        plane["cert_dir"] = None
    else:
        # The kubeconfig of an administrator is beside the certificates, for debugging.
        plane["cert_dir"] = directory = plane["cert_dir"] or Path()
        plane["kubeconfig"] = directory / "kubewright.kubeconfig"
    plane["shutdown_delay_duration"] = max(0.0, plane.get("shutdown_delay_duration", 0.0))
    return ServerSettings(
        etcd=EtcdClientOptions(**keyword_arguments(EtcdClientOptions, values)),
        options=ServerOptions(**plane),
        warnings=warnings,
        flags={name: ",".join(flags.read(name, LIST, ())) for name in flags.names()},
    )


def selected_version() -> KubernetesVersion:
    """Return the version of Kubernetes of the environment; raises `ValueError`."""
    text = os.environ.get(VERSION_VARIABLE, "")
    try:
        return KubernetesVersion.parse(text)
    except ValueError as error:
        raise ValueError(f"{VERSION_VARIABLE}: {error}") from None


def _warn_of_flags(flags: Flags) -> list[str]:
    ignored = flags_without_effect(flags)
    return (
        [f"ignored flags of kube-apiserver that have no effect here: {' '.join(ignored)}"] if ignored else []
    )


if __name__ == "__main__":
    main()
