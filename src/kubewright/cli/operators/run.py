"""`kubewright run`: runs an operator or an API server.

Settings in the program are overridden by variables named `KUBEWRIGHT_<SETTING>`, and these by flags. With
`--reload` this process only watches files; the operator runs in a child process, which is restarted.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubewright.cli.kubeconfig_options import kubeconfig_options
from kubewright.cli.project_modules import load_program, relative_paths

from .dashboard_options import operator_dashboard, restart_environment
from .run_app import configure_app, confirm_registration, is_local
from .session import needs_session, session_process, start_session

if TYPE_CHECKING:
    from kubewright.client import Client, ClusterConfig
    from kubewright.controlplane import ControlPlane
    from kubewright.extension import APIServerApp
    from kubewright.manager import Operator

    Program = Operator | APIServerApp

logger = logging.getLogger(__name__)

_PORT = click.IntRange(0, 65535)
_POLL_SECONDS = 0.5
"""Interval of checks for changed files."""


@click.command("run")
@click.argument("target", metavar="[MODULE[:NAME]]", default="")
@kubeconfig_options
@click.option(
    "--development/--production",
    default=None,
    help="Whether to install CRDs and serve webhooks from this machine.",
)
@click.option(
    "--yes", "-y", is_flag=True, help="Install in a cluster other than `kubewright up` without asking."
)
@click.option("--adopt-crds", is_flag=True, help="Replace CRDs that another program installed (development).")
@click.option(
    "--namespace", "namespaces", multiple=True, help="Namespace to watch; can be repeated.  [default: all]"
)
@click.option("--leader-elect", is_flag=True, help="Enable leader election among replicas.")
@click.option(
    "--leader-elect-coordinated",
    is_flag=True,
    help="Enable leader election in which the API server chooses the leader (LeaseCandidate).",
)
@click.option("--shards", is_flag=True, help="Share the objects among replicas, instead of leader election.")
@click.option(
    "--leader-election-namespace",
    default="",
    help="Namespace of the Leases of leader election or shards.  [default: the namespace of the pod]",
)
@click.option(
    "--resync",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Reconcile every object again within this time; 0 for never.  [default: 10 hours]",
)
@click.option("--probe-port", type=_PORT, help="Port of /healthz and /readyz.")
@click.option("--metrics-port", type=_PORT, help="Port of /metrics.")
@click.option(
    "--metrics-insecure", is_flag=True, help="Serve metrics without TLS and without authentication."
)
@click.option(
    "--trace-port",
    type=_PORT,
    help="Port of the trace endpoint for `kubewright dashboard`; requires $KUBEWRIGHT_TRACE_TOKEN.",
)
@click.option("--webhook-port", type=_PORT, help="Port of the webhook server.  [default: 9443]")
@click.option("--webhook-certificates", default="", help="Directory with tls.crt and tls.key.")
@click.option("--log", type=click.Choice(["console", "json"]), default=None, help="Log format.")
@click.option("--log-level", default="INFO", show_default=True, help="Minimum level of log lines.")
@click.option("--reload", "reloads", is_flag=True, help="Restart when a Python file changes.")
@click.option(
    "--view/--no-view",
    default=None,
    help="Show a live view of controllers and events.  [default: on a terminal]",
)
@click.option("--dashboard", is_flag=True, help="Serve a web dashboard with the reconciles of the operator.")
@click.option(
    "--dashboard-port", default=0, show_default="a free port", type=_PORT, help="Port of the dashboard."
)
def run_command(target: str, reloads: bool, **options: Any) -> None:
    """Run the operator or API server NAME of a module, package or file until Ctrl-C.

    NAME is `operator` or, for an API server, `app` by default.

    The default is the program of `modules` in [tool.kubewright] of pyproject.toml. If no cluster is
    configured (no --kubeconfig, --context, $KUBECONFIG or ~/.kube/config, and not in a pod), the command
    starts a control plane in this process, for as long as it runs.

    With --development, CRDs are installed and webhooks are served from this machine; an API server is
    registered with the cluster (APIService) while it runs. This is the default on a
    terminal with an API server on this machine; otherwise nothing is installed. In a cluster that is not a
    `kubewright up`, the command lists what it will install and asks before the first installation.

    \b
    Example:
      kubewright run
      kubewright run shop --context kind-kind --development
      kubewright run restaurant:app --development
    """
    if reloads and not os.environ.get("KUBEWRIGHT_RELOADED"):
        with session_process(options) as environment:
            _supervise({**environment, **restart_environment(options)})
        return
    program = load_program(target)
    from kubewright.manager import Operator
    from kubewright.manager.observability import logs

    if isinstance(program, Operator):
        _configure(program, options)
    else:
        configure_app(program, options)

    style: Any = options["log"] or ("console" if sys.stderr.isatty() else "json")
    try:
        logs.setup(style, options["log_level"].upper())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--log-level") from None
    session = needs_session(options)
    _run(program, None if session else _find_cluster(program, options), options)


def _configure(operator: Operator, options: dict[str, Any]) -> None:
    settings = operator.settings
    try:
        settings.update_from_environment()
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    settings.adopt_crds = settings.adopt_crds or options["adopt_crds"]
    coordinated = settings.leader_election_coordinated or options["leader_elect_coordinated"]
    settings.leader_election_coordinated = coordinated
    settings.leader_election = settings.leader_election or options["leader_elect"] or coordinated
    if options["shards"] and options["leader_elect"]:
        raise click.UsageError("--shards and --leader-elect exclude each other: all shards are active")
    settings.shards = settings.shards or options["shards"]
    settings.metrics_secure = settings.metrics_secure and not options["metrics_insecure"]
    given = {
        "namespaces": options["namespaces"] or None,
        "leader_election_namespace": options["leader_election_namespace"] or None,
        "resync": options["resync"],
        "probe_port": options["probe_port"],
        "metrics_port": options["metrics_port"],
        "trace_port": options["trace_port"],
        "webhook_port": options["webhook_port"],
        "webhook_certificates": options["webhook_certificates"] or None,
    }
    for name, value in given.items():
        if value is not None:
            setattr(settings, name, value)


def _find_cluster(program: Program, options: dict[str, Any]) -> ClusterConfig:
    """Load the cluster configuration; development is the default only for a server on this machine."""
    from kubewright.client import load_config
    from kubewright.client.errors import ConfigError

    try:
        config = load_config(options["kubeconfig"], context=options["context"])
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    _choose_mode(program, config, options)
    return config


def _choose_mode(program: Program, config: ClusterConfig, options: dict[str, Any]) -> None:
    from kubewright.manager import Operator

    settings = program.settings
    if options["development"] is not None:
        settings.development = options["development"]
    elif not settings.development:
        settings.development = sys.stderr.isatty() and is_local(config.server)
    mode = "development" if settings.development else "production"
    logger.info(
        "starting operator" if isinstance(program, Operator) else "starting API server",
        extra={
            "operator" if isinstance(program, Operator) else "app": program.name,
            "mode": mode,
            "server": config.server,
            "kubeconfig": config.source,
        },
    )


def _run(program: Program, config: ClusterConfig | None, options: dict[str, Any]) -> None:
    """Run a program in a cluster; without one, in a control plane of this process."""
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
        Operator,
        SettingsError,
        ShutdownTimeout,
    )
    from kubewright.manifests import DeclarationError

    expected: tuple[type[Exception], ...] = (
        APIError,
        BuildError,
        CacheError,
        ConfigError,
        ConnectionFailed,
        DeclarationError,
        ShutdownTimeout,
        InjectionError,
        InstallationError,
        LeadershipLost,
        OSError,
        SettingsError,
        SyncTimeout,
    )
    if not isinstance(program, Operator):
        from kubewright.storage import StorageError

        expected += (StorageError,)
    gc.set_threshold(50_000, 20, 50)
    runnables = [_view(program.name)] if _wants_view(options) else []

    planes: list[ControlPlane] = []

    async def main() -> None:
        if config is None:
            async with start_session(planes) as own:
                program.settings.development = True
                _choose_mode(program, own, options)
                await run_in(own)
        else:
            await run_in(config)

    async def run_in(config: ClusterConfig) -> None:
        async with Client.connect(config) as client:
            confirms = program.settings.development and not options["yes"]
            if isinstance(program, Operator):
                if confirms:
                    await _confirm_installation(program, client, config)
                async with operator_dashboard(program.name, config, options, planes) as added:
                    monitor = _monitor(program.settings.development)
                    await program.run(client, runnables=[*runnables, *added, monitor])
            else:
                await confirm_registration(program, client, config, confirms=confirms)
                await program.run(client)

    try:
        asyncio.run(main())
    except Unauthorized as error:
        source = config.source if config is not None else "this session"
        raise click.ClickException(
            f"the API server rejected the credentials of {source} ({error}); check the token or certificate"
        ) from None
    except ConnectionFailed as error:
        raise click.ClickException(
            f"{error}; start a control plane with `kubewright up`, or choose another kubeconfig"
        ) from None
    except expected as error:
        raise click.ClickException(relative_paths(error)) from None
    except KeyboardInterrupt:
        pass


async def _confirm_installation(operator: Operator, client: Client, config: ClusterConfig) -> None:
    """Ask before the first installation in a cluster that others may use."""
    from kubewright.manager.operators.installation import is_kubewright, plan_installation

    if await is_kubewright(client):
        return
    plan = await plan_installation(
        client.with_field_manager(operator.name), operator.kinds, operator.webhooks()
    )
    if not plan.is_first:
        return
    lines = [f"  CRD {name} (new)" for name in plan.new]
    lines += [f"  webhook configuration {name} (removed at the end)" for name in plan.webhooks]
    click.echo(f"Operator {operator.name} will install in {config.server} ({config.source}):", err=True)
    click.echo("\n".join(lines), err=True)
    if not sys.stdin.isatty():
        raise click.ClickException(
            f"{config.server} is not a control plane of `kubewright up`; confirm the installation with "
            "--yes, or run with --production"
        )
    if not click.confirm("Continue?", err=True):
        raise click.ClickException("nothing was installed; use --production to run without installing")


def _wants_view(options: dict[str, Any]) -> bool:
    """Whether to show the live view: only on a terminal, and with JSON logs only if requested."""
    if not sys.stdout.isatty():
        return False
    if options["view"] is None:
        return options["log"] != "json" and importlib.util.find_spec("rich") is not None
    return bool(options["view"])


def _view(name: str) -> Any:
    try:
        from rich.console import Console
    except ImportError:
        raise click.ClickException("--view requires rich: pip install 'rich>=13.7,<16'") from None

    from kubewright.manager.observability.console import ConsoleView

    return lambda manager, recorder: ConsoleView(name, manager, recorder, Console())


def _monitor(development: bool) -> Any:
    """Return a factory of the monitor of the event loop, which checks it more often in development."""
    from kubewright.manager.observability.event_loop_monitor import (
        DEVELOPMENT_INTERVAL,
        PRODUCTION_INTERVAL,
        EventLoopMonitor,
    )

    interval = DEVELOPMENT_INTERVAL if development else PRODUCTION_INTERVAL
    return lambda manager, recorder: EventLoopMonitor(interval=interval)


def _supervise(variables: dict[str, str]) -> None:
    """Run the command in a child process, restarted when a Python file in the current directory changes."""
    environment = {**os.environ, **variables, "KUBEWRIGHT_RELOADED": "1"}
    signal.signal(signal.SIGTERM, _raise_terminated)
    while True:
        before = dict(_modification_times(Path.cwd()))
        command = [sys.executable, "-m", "kubewright.cli", *sys.argv[1:]]
        process = subprocess.Popen(command, env=environment)  # noqa: S603 - this program itself
        try:
            changed = _wait_for_change(process, before)
            if changed is None:
                sys.exit(process.returncode)
            click.echo(f"{changed} changed, restarting", err=True)
        except KeyboardInterrupt:
            process.wait()  # the operator has received Ctrl-C as well
            return
        except _Terminated:
            process.terminate()
            process.wait()
            return
        process.terminate()
        process.wait()


class _Terminated(Exception):
    """This process received SIGTERM, the child process did not."""


def _raise_terminated(*_: object) -> None:
    raise _Terminated


def _wait_for_change(process: subprocess.Popen[bytes], before: dict[Path, int]) -> Path | None:
    """Return the file that changed, or `None` if the program exited with 0.

    If it exited with another code, wait for a change.
    """
    failed = False
    while True:
        if failed:
            time.sleep(_POLL_SECONDS)
        else:
            try:
                if process.wait(timeout=_POLL_SECONDS) == 0:
                    return None
                failed = True
                click.echo(f"operator exited with code {process.returncode}, waiting for a change", err=True)
            except subprocess.TimeoutExpired:
                pass
        now = dict(_modification_times(Path.cwd()))
        for path in now.keys() | before.keys():
            if now.get(path) != before.get(path):
                return path


def _modification_times(root: Path) -> Iterator[tuple[Path, int]]:
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
