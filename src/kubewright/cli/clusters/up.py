"""`kubewright up`: runs a control plane in the foreground.

Options are checked before anything starts, then the storage is opened and the `ControlPlane` created from
them. With `--workers`, this process also runs the controllers and nodes; the other processes only serve
requests on the same port (see `up_workers`).
"""

from __future__ import annotations

import gc
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubewright.cli.operators.dashboard_options import serve_dashboard
from kubewright.cli.operators.memory import enable_gc, trim_in_background

from .up_node import check_programs, start_node
from .up_options import UpCommand, UpOptions
from .up_start import explain, raise_file_limit, start_plane
from .up_workers import check_workers, connect_store, serve_worker, start_workers

if TYPE_CHECKING:
    from kubewright.controlplane import ControlPlane


@click.command("up", cls=UpCommand)
def up_command(options: UpOptions) -> None:
    """Run a Kubernetes control plane in the foreground.

    It does not require Docker, etcd or a download. It writes a kubeconfig with an administrator certificate,
    prints one line when it is ready, and stops on SIGINT or SIGTERM.

    \b
    Example:
      kubewright up --store sqlite:cluster.db --apply config/crd

    Rarely used options are in the reference, docs/options.md. Boolean options have the form --no-NAME, too.
    """
    started = time.monotonic()
    gc.disable()  # the start-up creates hardly any garbage; `_serve` enables it again
    try:
        _run(options, started)
    finally:
        gc.enable()


def _run(options: UpOptions, started: float) -> None:
    from kubewright.apiserver.http.server import run
    from kubewright.manager.observability.log_handler import log_to_stderr

    log_to_stderr()
    if not options.run_processes:
        raise_file_limit()  # not for the commands of containers, which would inherit it
    options = _without_anonymous_administrators(options)
    is_worker = options.worker is not None
    if not is_worker:
        check_workers(options)
        _warn(options)
    make = _plane(options)
    run(lambda: serve_worker(make, options) if is_worker else _serve(make, options, started))


def _warn(options: UpOptions) -> None:
    from kubewright.controlplane.configuration.feature_gates import warn_of_gates

    for warning in warn_of_gates(options.feature_gates, options.kubernetes_version):
        click.echo(f"Warning: {warning}", err=True)
    if not options.run_processes:
        return
    if options.nodes == 0:
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


def _without_anonymous_administrators(options: UpOptions) -> UpOptions:
    """Disable anonymous requests with the mode always-allow.

    kube-apiserver does the same: otherwise every client that can connect would be an administrator.
    """
    if "always-allow" not in options.auth or not options.anonymous or options.authorization_config:
        return options
    if options.worker is None:
        click.echo("Warning: --auth always-allow disables anonymous requests", err=True)
    return replace(options, anonymous=False)


def _plane(options: UpOptions) -> Callable[[], ControlPlane]:
    """Return a factory of the control plane; files are checked first."""
    from kubewright.controlplane import ControlPlane
    from kubewright.storage import StorageError

    if options.audit is None and any(name.startswith("audit-") for name in options.given):
        raise click.UsageError(
            "audit options need --audit-policy-file, and --audit-log-path or --audit-webhook-config-file; "
            "nothing would be recorded"
        )
    if options.worker is None:
        from kubewright.cli.kubeconfig_file import check_overwrite

        kubeconfig = Path(options.kubeconfig or _default_kubeconfig(str(options.store)))
        check_overwrite(kubeconfig)
        options = replace(options, kubeconfig=kubeconfig, shares_port=options.workers > 1)

    def make() -> ControlPlane:
        try:
            if options.worker is None:
                plane = ControlPlane.from_options(options)
            else:
                store = connect_store()
                plane = ControlPlane.from_options(
                    replace(options, store=store, is_worker=True, kubeconfig=None)
                )
            plane.server.flags = dict(options.flags)
            return plane
        except (StorageError, OSError, ValueError) as error:
            raise click.ClickException(explain(error)) from None

    return make


def _default_kubeconfig(store: str) -> Path:
    scheme, _, path = store.partition(":")
    if scheme == "sqlite" and path.strip("/"):
        return Path(path[2:] if path.startswith("//") else path).with_suffix(".kubeconfig")
    return Path("kubeconfig")


async def _serve(make: Callable[[], ControlPlane], options: UpOptions, started: float) -> None:
    from kubewright.apiserver.shutdown import StopSignals

    signals = StopSignals()
    stop = signals.stop
    workers = node = None
    programs = check_programs(options)
    plane = await start_plane(make, stop)
    if plane is None:
        return
    try:
        enable_gc()
        workers = await start_workers(plane, options, stop)
        node = await start_node(plane, programs, options)
        for source in options.apply:
            await _apply(plane, source, quiet=options.quiet)
        if options.ready_file is not None:
            _write_atomically(options.ready_file, plane.url + "\n")
        if not options.quiet:
            seconds = time.monotonic() - started
            click.echo(f"{plane.url} is ready, kubeconfig {plane.kubeconfig}, started in {seconds:.2f} s")
        trimming = trim_in_background(lambda: plane.server.dispatcher.revision)
        if options.dashboard:
            await serve_dashboard(plane, stop, port=options.dashboard_port)
        await stop.wait()
        trimming.cancel()
        if options.shutdown_delay_duration > 0:
            if workers is not None:
                workers.terminate()
            await signals.drain(plane.server, options.shutdown_delay_duration)
    finally:
        if node is not None:
            await node.stop()
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
