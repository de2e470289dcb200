"""`kubewright up`: a control plane in the foreground."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kubewright.controlplane import ControlPlane

_FILE = click.Path(dir_okay=False, path_type=Path)


def _words(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word.strip() for text in value for word in text.split(",") if word.strip())


def _pairs(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in value:
        name, equals, url = text.partition("=")
        if not equals or "." not in name.strip(".") or not url.startswith("https://"):
            raise click.ClickException(
                f"--webhook-resolve: {text!r} is not SERVICE.NAMESPACE=URL, as in "
                "toys.default=https://127.0.0.1:8443"
            )
        found[name] = url
    return found


def _network(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    try:
        ipaddress.ip_network(value)
    except ValueError as error:
        raise click.ClickException(f"{parameter.opts[0]}: {error}; write it like 10.0.0.0/24") from None
    return value


def _new_file(ctx: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    if value is not None and not value.absolute().parent.is_dir():
        raise click.ClickException(
            f"{parameter.opts[0]}: there is no directory {value.parent} to write {value.name} to"
        )
    return value


@click.command("up")
@click.option("--bind", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=0, show_default="a free one", type=click.IntRange(0, 65535), help="Port.")
@click.option(
    "--store",
    default="memory:",
    show_default=True,
    help="Where objects are kept: memory:, sqlite:PATH or etcd://HOST:PORT.",
)
@click.option(
    "--kubeconfig",
    type=_FILE,
    callback=_new_file,
    help="Where to write an administrator's kubeconfig; ./kubeconfig or, with sqlite, beside the store.",
)
@click.option("--auth", type=click.Choice(["rbac", "always-allow"]), default="rbac", show_default=True)
@click.option("--controllers/--no-controllers", default=True, help="Run the control plane's own controllers.")
@click.option("--disable-admission-plugins", multiple=True, callback=_words, metavar="A,B")
@click.option("--enable-admission-plugins", multiple=True, callback=_words, metavar="A,B")
@click.option(
    "--ready-file",
    type=_FILE,
    callback=_new_file,
    help="Write the address to this file when requests are answered.",
)
@click.option("--cert-dir", type=click.Path(file_okay=False, path_type=Path), help="Serving certificates.")
@click.option("--host", "hosts", multiple=True, help="A further name or address in the serving certificate.")
@click.option("--token-auth-file", type=_FILE, help='Lines of token,user,uid,"group1,group2".')
@click.option(
    "--client-ca-file", type=_FILE, help="Authorities (PEM) whose client certificates are accepted."
)
@click.option("--anonymous-auth/--no-anonymous-auth", default=True, help="Let unknown clients in as nobody.")
@click.option("--requestheader-client-ca-file", type=_FILE, help="Authority (PEM) of front proxies.")
@click.option("--requestheader-allowed-names", multiple=True, callback=_words, metavar="A,B")
@click.option("--requestheader-username-headers", multiple=True, callback=_words, metavar="A,B")
@click.option("--requestheader-uid-headers", multiple=True, callback=_words, metavar="A,B")
@click.option("--requestheader-group-headers", multiple=True, callback=_words, metavar="A,B")
@click.option("--requestheader-extra-headers-prefix", multiple=True, callback=_words, metavar="A,B")
@click.option("--service-cluster-ip-range", default="10.0.0.0/24", show_default=True, callback=_network)
@click.option("--service-account-issuer", default="", help="What tokens name as their issuer.")
@click.option(
    "--service-account-key-file", type=_FILE, multiple=True, help="Keys that tokens are verified with."
)
@click.option("--service-account-signing-key-file", type=_FILE, help="The key that signs tokens.")
@click.option("--api-audiences", multiple=True, callback=_words, metavar="A,B")
@click.option(
    "--webhook-resolve",
    multiple=True,
    callback=_pairs,
    metavar="SVC.NS=URL",
    help="Where a service that webhooks or APIServices refer to can be reached.",
)
@click.option("--quiet", is_flag=True, help="Print nothing when ready.")
def up_command(**options: Any) -> None:
    """Run a Kubernetes control plane in the foreground.

    It needs nothing else: no Docker, no etcd, no download. It writes a kubeconfig with an administrator's
    certificate, prints one line when it is ready, and stops on SIGINT or SIGTERM.
    """
    started = time.monotonic()
    gc.disable()  # hardly anything that a start makes is garbage; `_serve` turns it on again
    try:
        _run(options, started)
    finally:
        gc.enable()


def _run(options: dict[str, Any], started: float) -> None:
    from kubewright.apiserver.http.server import run

    try:
        plane = _plane(options)
    except (OSError, ValueError) as error:
        raise click.ClickException(_explain(error)) from None
    run(lambda: _serve(plane, options, started))


def _explain(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)


def _plane(options: dict[str, Any]) -> Any:
    """A function that makes the control plane, once everything that it reads has been checked."""
    from kubewright.storage import StorageError

    settings = {
        name: options[name]
        for name in (
            "bind",
            "port",
            "auth",
            "controllers",
            "disable_admission_plugins",
            "enable_admission_plugins",
            "cert_dir",
            "hosts",
            "token_auth_file",
            "client_ca_file",
            "service_cluster_ip_range",
            "service_account_issuer",
            "service_account_signing_key_file",
            "api_audiences",
            "webhook_resolve",
            "store",
        )
    }
    settings["anonymous"] = options["anonymous_auth"]
    settings["service_account_key_files"] = options["service_account_key_file"]
    settings["kubeconfig"] = options["kubeconfig"] or _default_kubeconfig(options["store"])
    _spare_others(settings["kubeconfig"])
    settings["front_proxy"] = _front_proxy(options)
    from kubewright.controlplane import ControlPlane

    def make() -> ControlPlane:
        try:
            return ControlPlane(**settings)
        except StorageError as error:
            raise click.ClickException(str(error)) from None
        except (OSError, ValueError) as error:
            raise click.ClickException(_explain(error)) from None

    return make


def _default_kubeconfig(store: str) -> Path:
    scheme, _, path = store.partition(":")
    if scheme == "sqlite" and path.strip("/"):
        return Path(path[2:] if path.startswith("//") else path).with_suffix(".kubeconfig")
    return Path("kubeconfig")


def _spare_others(path: Path) -> None:
    """Refuse to write over a kubeconfig that is not one of ours: the way to another cluster would be lost."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return
    import yaml

    try:
        found = yaml.load(text, Loader=yaml.CSafeLoader)
        names = [each["name"] for each in found["clusters"]] if found else ["kubewright"]
    except (yaml.YAMLError, KeyError, TypeError):
        names = []
    if names != ["kubewright"]:
        known = f"for {', '.join(map(str, names))}" if names else "and is not one of ours"
        raise click.ClickException(
            f"{path} is there already, {known}, and would be lost: name another file with --kubeconfig"
        )


def _front_proxy(options: dict[str, Any]) -> Any:
    path = options["requestheader_client_ca_file"]
    if path is None:
        return None
    from kubewright.controlplane.credentials import read_certificates
    from kubewright.controlplane.plane import FrontProxy

    given = {
        "allowed_names": options["requestheader_allowed_names"],
        "username_headers": options["requestheader_username_headers"],
        "uid_headers": options["requestheader_uid_headers"],
        "group_headers": options["requestheader_group_headers"],
        "extra_prefixes": options["requestheader_extra_headers_prefix"],
    }
    return FrontProxy(
        client_ca=read_certificates(path), **{name: value for name, value in given.items() if value}
    )


async def _serve(make: Any, options: dict[str, Any], started: float) -> None:
    from kubewright.storage import StorageError

    from .memory import give_memory_back

    plane: ControlPlane = make()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        await plane.start()
    except (StorageError, OSError, ValueError) as error:
        raise click.ClickException(_explain(error)) from None
    try:
        gc.freeze()
        # Definitions and connections that are gone are cycles: looked for seldom, but not never.
        gc.set_threshold(20_000, 5, 4)
        gc.enable()
        if options["ready_file"] is not None:
            _write_whole(options["ready_file"], plane.url + "\n")
        if not options["quiet"]:
            seconds = time.monotonic() - started
            click.echo(f"{plane.url} is ready, kubeconfig {plane.kubeconfig}, started in {seconds:.2f} s")
        upkeep = asyncio.create_task(give_memory_back(lambda: plane.server.dispatcher.revision))
        await stop.wait()
        upkeep.cancel()
    finally:
        await plane.stop()


def _write_whole(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)
