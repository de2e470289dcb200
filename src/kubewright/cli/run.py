"""`kubewright run`: an operator in the foreground.

Settings come from the program, then from variables named `KUBEWRIGHT_<SETTING>`, then from flags. With
`--reload` this process only watches files: the operator runs in another one, which is started again.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from .project_modules import make_importable, shorten

if TYPE_CHECKING:
    from kubewright.client import ClusterConfig
    from kubewright.manager import Operator

logger = logging.getLogger(__name__)

_PORT = click.IntRange(0, 65535)
_LOOK_SECONDS = 0.5
"""How often to look whether a file has changed."""


@click.command("run")
@click.argument("target", metavar="MODULE[:NAME]")
@click.option(
    "--kubeconfig", type=click.Path(dir_okay=False), help="Instead of KUBECONFIG and ~/.kube/config."
)
@click.option("--context", default="", help="A context of the kubeconfig.")
@click.option(
    "--development/--production", default=None, help="Install definitions and serve webhooks from here."
)
@click.option(
    "--namespace", "namespaces", multiple=True, help="Work in this namespace only; may be repeated."
)
@click.option("--leader-elect", is_flag=True, help="Wait to be the leader among replicas.")
@click.option("--leader-election-namespace", default="", help="Where the lease is.")
@click.option("--probe-port", type=_PORT, help="Serve /healthz and /readyz.")
@click.option("--metrics-port", type=_PORT, help="Serve /metrics.")
@click.option(
    "--metrics-insecure", is_flag=True, help="Metrics without TLS and without a check of the reader."
)
@click.option("--webhook-port", type=_PORT, help="Serve webhooks here.")
@click.option("--webhook-certificates", default="", help="A directory with tls.crt and tls.key.")
@click.option("--log", type=click.Choice(["console", "json"]), default=None, help="Form of log lines.")
@click.option("--log-level", default="INFO", show_default=True)
@click.option("--reload", "reloads", is_flag=True, help="Start again when a Python file changes.")
@click.option("--view/--no-view", default=None, help="A live view of the work; by default on a terminal.")
def run_command(target: str, reloads: bool, **options: Any) -> None:
    """Run the operator NAME (by default `operator`) of a module, or of a file, until Ctrl-C.

    On a terminal, with a server on this machine, this means development: definitions are installed and
    webhooks are served from here. Elsewhere nothing is installed unless you say --development.
    """
    if reloads and not os.environ.get("KUBEWRIGHT_RELOADED"):
        _supervise()
        return
    operator = _load(target)
    _configure(operator, options)
    from kubewright.manager import logs

    style: Any = options["log"] or ("console" if sys.stderr.isatty() else "json")
    try:
        logs.setup(style, options["log_level"].upper())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--log-level") from None
    _run(operator, _find_cluster(operator, options), options)


def _load(target: str) -> Operator:
    from kubewright.manager import Operator
    from kubewright.manifests import ProjectError, import_module

    name, _, attribute = target.partition(":")
    make_importable()
    try:
        module = import_module(name)
    except ProjectError as error:
        raise click.ClickException(shorten(error)) from None
    found = getattr(module, attribute or "operator", None)
    if not isinstance(found, Operator):
        named = [key for key, value in vars(module).items() if isinstance(value, Operator)]
        advice = (
            f"it has {', '.join(f'{name}:{each}' for each in named)}"
            if named
            else 'write operator = Operator("name"), or name another module'
        )
        raise click.ClickException(f"{name} has no operator called {attribute or 'operator'!r}; {advice}")
    return found


def _configure(operator: Operator, options: dict[str, Any]) -> None:
    settings = operator.settings
    try:
        settings.take()
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    settings.leader_election = settings.leader_election or options["leader_elect"]
    settings.metrics_secure = settings.metrics_secure and not options["metrics_insecure"]
    given = {
        "namespaces": options["namespaces"] or None,
        "leader_election_namespace": options["leader_election_namespace"] or None,
        "probe_port": options["probe_port"],
        "metrics_port": options["metrics_port"],
        "webhook_port": options["webhook_port"],
        "webhook_certificates": options["webhook_certificates"] or None,
    }
    for name, value in given.items():
        if value is not None:
            setattr(settings, name, value)


def _find_cluster(operator: Operator, options: dict[str, Any]) -> ClusterConfig:
    """Where to work, and whether that is for development: never by itself on a server elsewhere."""
    from kubewright.client import load_config
    from kubewright.client.errors import ConfigError

    try:
        config = load_config(options["kubeconfig"], context=options["context"])
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    settings = operator.settings
    if options["development"] is not None:
        settings.development = options["development"]
    elif not settings.development:
        settings.development = sys.stderr.isatty() and is_local(config.server)
    mode = "development" if settings.development else "production"
    logger.info("%s: %s on %s, from %s", operator.name, mode, config.server, config.source)
    return config


def is_local(server: str) -> bool:
    """Whether an API server is on this machine."""
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _run(operator: Operator, config: ClusterConfig, options: dict[str, Any]) -> None:
    import gc

    from kubewright.api.errors import APIError, Unauthorized
    from kubewright.cache.errors import CacheError
    from kubewright.client import Client
    from kubewright.client.errors import ConfigError, ConnectionFailed
    from kubewright.controller import BuildError, SyncTimeout
    from kubewright.manager import (
        InjectionError,
        InstallationError,
        LeadershipLost,
        SettingsError,
        ShutdownTimeout,
    )

    mendable = (
        APIError,
        BuildError,
        CacheError,
        ConfigError,
        ConnectionFailed,
        ShutdownTimeout,
        InjectionError,
        InstallationError,
        LeadershipLost,
        OSError,
        SettingsError,
        SyncTimeout,
    )
    gc.set_threshold(50_000, 20, 50)
    also = [_view(operator.name)] if _wants_view(options) else []

    async def main() -> None:
        async with Client.connect(config) as client:
            await operator.run(client, also=also)

    try:
        asyncio.run(main())
    except Unauthorized as error:
        raise click.ClickException(
            f"the server does not know the user of {config.source} ({error}): check its token or certificate"
        ) from None
    except ConnectionFailed as error:
        raise click.ClickException(
            f"{error}; is it running? `kubewright up` starts a control plane"
        ) from None
    except mendable as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        pass


def _wants_view(options: dict[str, Any]) -> bool:
    """A view needs a terminal; lines for machines and a view do not go together unless asked for."""
    if not sys.stdout.isatty():
        return False
    return bool(options["log"] != "json" if options["view"] is None else options["view"])


def _view(name: str) -> Any:
    from rich.console import Console

    from kubewright.manager.console import ConsoleView

    return lambda manager, recorder: ConsoleView(name, manager, recorder, Console())


def _supervise() -> None:
    """Run the same command again whenever a Python file below the working directory changes."""
    environment = {**os.environ, "KUBEWRIGHT_RELOADED": "1"}
    signal.signal(signal.SIGTERM, _end)
    while True:
        before = dict(_stamps(Path.cwd()))
        command = [sys.executable, "-m", "kubewright.cli", *sys.argv[1:]]
        process = subprocess.Popen(command, env=environment)  # noqa: S603 - this very program again
        try:
            changed = _wait_for_change(process, before)
            if changed is None:
                sys.exit(process.returncode)
            click.echo(f"{changed} changed: starting again", err=True)
        except KeyboardInterrupt:
            process.wait()  # Ctrl-C has reached the operator as well
            return
        except _Terminated:
            process.terminate()
            process.wait()
            return
        process.terminate()
        process.wait()


class _Terminated(Exception):
    """SIGTERM came, to this process alone."""


def _end(*_: object) -> None:
    raise _Terminated


def _wait_for_change(process: subprocess.Popen[bytes], before: dict[Path, int]) -> Path | None:
    """The file that changed; `None` if the program ended well. One that failed waits for a change."""
    failed = False
    while True:
        if failed:
            time.sleep(_LOOK_SECONDS)
        else:
            try:
                if process.wait(timeout=_LOOK_SECONDS) == 0:
                    return None
                failed = True
                click.echo(f"ended with exit code {process.returncode}: waiting for a change", err=True)
            except subprocess.TimeoutExpired:
                pass
        now = dict(_stamps(Path.cwd()))
        for path in now.keys() | before.keys():
            if now.get(path) != before.get(path):
                return path


def _stamps(root: Path) -> Iterator[tuple[Path, int]]:
    skipped = {".venv", "venv", ".git", "node_modules", "__pycache__", ".mypy_cache"}
    for directory, names, files in os.walk(root):
        names[:] = [name for name in names if name not in skipped]
        for name in files:
            if name.endswith(".py"):
                path = Path(directory, name)
                try:
                    yield path, path.stat().st_mtime_ns
                except OSError:
                    continue
