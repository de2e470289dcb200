"""`kubewright up`: runs a control plane in the foreground.

Options are checked before anything starts, then the storage is opened and the `ControlPlane` created from
them. With `--workers`, this process also runs the controllers and nodes; the other processes only serve
requests on the same port (see `up_workers`).
"""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .access_options import ACCESS_SETTINGS, add_access_options, read_front_proxy, split_list
from .audit_options import add_audit_options, parse_duration, read_audit_options
from .dashboard_options import serve_dashboard
from .memory import enable_gc, trim_periodically
from .up_start import explain, start_plane
from .up_values import (
    check_directory,
    check_network,
    check_networks,
    parse_nodes,
    parse_runtime_config,
    parse_webhook_urls,
)
from .up_workers import (
    UpCommand,
    check_workers,
    connect_store,
    serve_worker,
    start_workers,
    use_own_files,
)

if TYPE_CHECKING:
    from kubewright.controlplane import ControlPlane

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("up", cls=UpCommand)
@click.option("--bind", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=0, show_default="a free port", type=click.IntRange(0, 65535), help="Port to listen on."
)
@click.option(
    "--workers",
    default=1,
    show_default=True,
    type=click.IntRange(1, 64),
    help="Processes that serve requests, on one port and one store (memory: or sqlite:); Linux only.",
)
@click.option("--worker", type=int, hidden=True)
@click.option("--http2", is_flag=True, help="Let clients use HTTP/2; requires the extra kubewright[http2].")
@click.option(
    "--store",
    default="memory:",
    show_default=True,
    help="Storage: memory:, sqlite:PATH, etcd://HOST:PORT or postgresql://HOST/DATABASE.",
)
@click.option(
    "--max-request-bytes",
    default=1_572_864,
    show_default=True,
    type=click.IntRange(min=1024),
    help="Size limit of a stored object; etcd has its own.",
)
@click.option(
    "--accept-data-loss",
    is_flag=True,
    help="Start with the intact part of a damaged SQLite store; the damaged file is renamed to PATH.damaged.",
)
@click.option(
    "--kubeconfig",
    type=_FILE,
    callback=check_directory,
    help="Administrator kubeconfig to write.  [default: ./kubeconfig, or next to the SQLite file]",
)
@click.option(
    "--controllers/--no-controllers",
    default=True,
    is_eager=True,  # the default of --nodes depends on it
    help="Whether to run the controllers of the control plane.",
)
@click.option(
    "--nodes",
    callback=parse_nodes,
    metavar="N|FILE",
    help="Simulated nodes: their number, or a YAML file. With 0, as in envtest, no pod and no workload "
    "controller runs.  [default: 1, or 0 with --no-controllers]",
)
@click.option(
    "--run-processes",
    is_flag=True,
    help="Run the commands of containers as processes of this machine, with the rights of this user.",
)
@click.option(
    "--kubelet-dir",
    "kubelet_directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory in which the kubelet of each simulated node listens for device plug-ins and CSI drivers, "
    "in DIR/NODE; requires the extra kubewright[node].",
)
@click.option(
    "--disable-controllers",
    multiple=True,
    callback=split_list,
    metavar="A,B",
    help="Controllers to disable, with the names of kube-controller-manager; * disables all.",
)
@click.option(
    "--load-balancer-range",
    default="203.0.113.0/24",
    show_default=True,
    callback=check_networks,
    metavar="CIDR[,CIDR]",
    help="Addresses of LoadBalancer services, with nodes; nothing listens on them.",
)
@click.option(
    "--disable-admission-plugins",
    multiple=True,
    callback=split_list,
    metavar="A,B",
    help="Admission plugins to disable.",
)
@click.option(
    "--enable-admission-plugins",
    multiple=True,
    callback=split_list,
    metavar="A,B",
    help="Admission plugins to enable in addition to the defaults.",
)
@click.option(
    "--ready-file",
    type=_FILE,
    callback=check_directory,
    help="File to write the URL to when the server is ready.",
)
@click.option(
    "--cert-dir", type=click.Path(file_okay=False, path_type=Path), help="Directory of the certificates."
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="Additional host name or IP address in the serving certificate; can be repeated.",
)
@click.option("--tls-cert-file", type=_FILE, help="Serving certificate (PEM), with its chain.")
@click.option("--tls-private-key-file", type=_FILE, help="Key (PEM) of --tls-cert-file.")
@click.option(
    "--tls-min-version",
    type=click.Choice(["VersionTLS12", "VersionTLS13"]),
    default="VersionTLS12",
    show_default=True,
    help="Minimum TLS version of clients.",
)
@click.option(
    "--runtime-config",
    multiple=True,
    callback=parse_runtime_config,
    metavar="KEY=BOOL,...",
    help="Built-in API versions to serve, as in api/beta=true,apps/v1=false.",
)
@click.option(
    "--service-cluster-ip-range",
    default="10.0.0.0/24",
    show_default=True,
    callback=check_network,
    help="CIDR of cluster IPs; for dual-stack services one of each IP family, as A,B.",
)
@add_access_options
@add_audit_options
@click.option(
    "--tracing-config-file", type=_FILE, help="TracingConfiguration file: the collector of spans of requests."
)
@click.option(
    "--encryption-provider-config",
    type=_FILE,
    help="EncryptionConfiguration file: which resources are encrypted in storage, and with which keys.",
)
@click.option(
    "--encryption-provider-config-automatic-reload",
    is_flag=True,
    help="Load the encryption configuration again when the file changes.",
)
@click.option(
    "--shutdown-delay-duration",
    default="0s",
    show_default=True,
    callback=parse_duration,
    metavar="DURATION",
    help="Time after SIGINT or SIGTERM in which requests are served while /readyz fails, so that load "
    "balancers choose other servers.",
)
@click.option(
    "--webhook-resolve",
    multiple=True,
    callback=parse_webhook_urls,
    metavar="SVC.NS=URL",
    help="URL of a Service that webhooks or APIServices refer to; can be repeated.",
)
@click.option(
    "--apply",
    "applied",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE|DIR",
    help="Manifests to apply when the server has started; can be repeated.",
)
@click.option("--dashboard", is_flag=True, help="Serve a web dashboard.")
@click.option(
    "--dashboard-port",
    default=0,
    show_default="a free port",
    type=click.IntRange(0, 65535),
    help="Port of the dashboard.",
)
@click.option("--quiet", is_flag=True, help="Print nothing when ready.")
def up_command(**options: Any) -> None:
    """Run a Kubernetes control plane in the foreground.

    It does not require Docker, etcd or a download. It writes a kubeconfig with an administrator certificate,
    prints one line when it is ready, and stops on SIGINT or SIGTERM.

    \b
    Example:
      kubewright up --store sqlite:cluster.db --apply config/crd
    """
    started = time.monotonic()
    gc.disable()  # the start-up creates hardly any garbage; `_serve` enables it again
    try:
        _run(options, started)
    finally:
        gc.enable()


def _run(options: dict[str, Any], started: float) -> None:
    from kubewright.apiserver.http.server import run
    from kubewright.manager.log_handler import log_to_stderr

    log_to_stderr()
    _check_modes(options)
    is_worker = options["worker"] is not None
    if is_worker:
        use_own_files(options)
    else:
        check_workers(options)
        if options["run_processes"]:
            _warn_of_processes(options)
    try:
        plane = _plane(options)
    except (OSError, ValueError) as error:
        raise click.ClickException(explain(error)) from None
    run(lambda: serve_worker(plane, options) if is_worker else _serve(plane, options, started))


def _warn_of_processes(options: dict[str, Any]) -> None:
    if options["nodes"] == 0:
        raise click.UsageError("--run-processes requires --nodes 1 or more")
    user = "root" if os.geteuid() == 0 else f"user {os.getuid()}"
    click.echo(
        f"Warning: --run-processes runs the commands of pods on this machine as {user}, without isolation; "
        "every client that can create pods can run programs here",
        err=True,
    )
    from kubewright.workloads.nodes.processes.launch import detect_namespaces

    if detect_namespaces():
        click.echo("Volumes are mounted at their mount paths, in a mount namespace per container.", err=True)
    else:
        click.echo(
            "Mount namespaces are not available: volumes are below $KUBEWRIGHT_ROOT of each container.",
            err=True,
        )


def _check_modes(options: dict[str, Any]) -> None:
    from kubewright.controlplane.access.modes import parse_modes

    try:
        modes = parse_modes(options["auth"])
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--auth'") from None
    if "always-allow" in modes and options["anonymous_auth"] and not options["authorization_config"]:
        # kube-apiserver does the same: otherwise every client that can connect would be an administrator.
        options["anonymous_auth"] = False
        if options["worker"] is None:
            click.echo("Warning: --auth always-allow disables anonymous requests", err=True)


def _plane(options: dict[str, Any]) -> Any:
    """Return a factory of the control plane; files and options are checked first."""
    from kubewright.storage import StorageError

    settings = {
        name: options[name]
        for name in (
            *ACCESS_SETTINGS,
            "bind",
            "port",
            "http2",
            "controllers",
            "nodes",
            "run_processes",
            "kubelet_directory",
            "disable_controllers",
            "load_balancer_range",
            "disable_admission_plugins",
            "enable_admission_plugins",
            "cert_dir",
            "hosts",
            "service_cluster_ip_range",
            "webhook_resolve",
            "encryption_provider_config",
            "encryption_provider_config_automatic_reload",
            "runtime_config",
            "tracing_config_file",
            "store",
        )
    }
    settings["tls_key_pair"] = _tls_key_pair(options)
    settings["tls_min_version"] = {"VersionTLS12": "1.2", "VersionTLS13": "1.3"}[options["tls_min_version"]]
    settings["audit"] = read_audit_options(options)
    settings["anonymous"] = options["anonymous_auth"]
    settings["service_account_key_files"] = options["service_account_key_file"]
    settings["shares_port"] = options["workers"] > 1
    settings["is_worker"] = is_worker = options["worker"] is not None
    if not is_worker:
        settings["kubeconfig"] = options["kubeconfig"] or _default_kubeconfig(options["store"])
        from .kubeconfig_file import check_overwrite

        check_overwrite(settings["kubeconfig"])
    settings["front_proxy"] = read_front_proxy(options)
    from kubewright.controlplane import ControlPlane

    def make() -> ControlPlane:
        try:
            settings["store"] = connect_store(options) if is_worker else _open_store(options)
            plane = ControlPlane(**settings)
            plane.server.flags = _flags(options)
            return plane
        except StorageError as error:
            raise click.ClickException(str(error)) from None
        except (OSError, ValueError) as error:
            raise click.ClickException(explain(error)) from None

    return make


def _flags(options: dict[str, Any]) -> dict[str, str]:
    """Return the options for `/flagz`, without those that are not set."""
    return {
        name.replace("_", "-"): ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for name, value in options.items()
        if value is not None and value != ()
    }


def _open_store(options: dict[str, Any]) -> Any:
    from kubewright.storage import open_storage

    url = options["store"]
    settings: dict[str, Any] = {}
    if options["accept_data_loss"]:
        if not url.startswith("sqlite:"):
            raise click.UsageError("--accept-data-loss requires --store sqlite:PATH")
        settings["accept_data_loss"] = True
    if not url.startswith("etcd:"):
        settings["max_request_bytes"] = options["max_request_bytes"]
    return open_storage(url, **settings)


def _default_kubeconfig(store: str) -> Path:
    scheme, _, path = store.partition(":")
    if scheme == "sqlite" and path.strip("/"):
        return Path(path[2:] if path.startswith("//") else path).with_suffix(".kubeconfig")
    return Path("kubeconfig")


def _tls_key_pair(options: dict[str, Any]) -> tuple[Path, Path] | None:
    certificate, key = options["tls_cert_file"], options["tls_private_key_file"]
    if (certificate is None) != (key is None):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file must be used together")
    return (certificate, key) if certificate is not None else None


async def _serve(make: Any, options: dict[str, Any], started: float) -> None:
    from kubewright.apiserver.shutdown import StopSignals

    signals = StopSignals()
    stop = signals.stop
    workers = None
    plane = await start_plane(make, stop)
    if plane is None:
        return
    try:
        enable_gc()
        workers = await start_workers(plane, options, stop)
        for source in options["applied"]:
            await _apply(plane, source, quiet=options["quiet"])
        if options["ready_file"] is not None:
            _write_atomically(options["ready_file"], plane.url + "\n")
        if not options["quiet"]:
            seconds = time.monotonic() - started
            click.echo(f"{plane.url} is ready, kubeconfig {plane.kubeconfig}, started in {seconds:.2f} s")
        trimming = asyncio.create_task(trim_periodically(lambda: plane.server.dispatcher.revision))
        if options["dashboard"]:
            await serve_dashboard(plane, stop, port=options["dashboard_port"])
        await stop.wait()
        trimming.cancel()
        if options["shutdown_delay_duration"] > 0:
            if workers is not None:
                workers.terminate()
            await signals.drain(plane.server, options["shutdown_delay_duration"])
    finally:
        if workers is not None:
            await workers.stop()
        await plane.stop()


async def _apply(plane: ControlPlane, source: Path, *, quiet: bool) -> None:
    """Apply manifests as an administrator, and print the number of objects."""
    from kubewright.api.errors import APIError
    from kubewright.client import Client, load_config
    from kubewright.client.errors import ManifestError, NoKindMatch

    try:
        async with Client.connect(load_config(plane.kubeconfig)) as client:
            objects = await client.apply_yaml(source)
    except (APIError, ManifestError, NoKindMatch) as error:
        raise click.ClickException(f"cannot apply {source}: {error}") from None
    if not quiet:
        click.echo(f"applied {len(objects)} object{'' if len(objects) == 1 else 's'} of {source}")


def _write_atomically(path: Path, text: str) -> None:
    """Replace a file by a new one: an existing file or symlink is not written to."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(descriptor, 0o644)
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
