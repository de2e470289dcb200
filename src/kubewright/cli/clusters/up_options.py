"""The options of `kubewright up`: flags and the config file, both derived from the model of options.

A flag takes precedence over the config file, that over the default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from kubewright.controlplane.options import ControlPlaneOptions, ShutdownOptions
from kubewright.options.config_file import Entry, read_config_file
from kubewright.options.kinds import (
    BOOLEAN,
    DIRECTORY,
    FILE,
    NEW_FILE,
    PORT,
    TEXT,
    Kind,
    integer,
    parse_boolean,
)
from kubewright.options.model import Option, concerns, keyword_arguments, option, options_of, suggestion

from .up_start import explain

DEFAULT_NODES = 1
"""Simulated nodes of a control plane with controllers."""
REAL_NODES_PORT = 6443
"""Port of a control plane that kubelets join."""


def _existing(text: str) -> Path:
    if not Path(text).exists():
        raise ValueError(f"Path {text!r} does not exist")
    return Path(text)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ProcessOptions:
    """Process: what `kubewright up` does besides serving requests."""

    workers: int = option(
        1,
        integer(1, 64),
        "Processes that serve requests, on one port and one store (memory: or sqlite:); Linux only.",
    )
    apply: Sequence[Path] = option(
        (),
        Kind("array", "FILE|DIR", ".", _existing),
        "Manifests to apply when the server has started; can be repeated.",
    )
    kubelet: Path | None = option(
        None,
        FILE,
        "Run this kubelet, kube-proxy and a containerd, so that this machine is a node; implies "
        "--real-nodes, and requires root.",
    )
    kube_proxy: Path | None = option(
        None, FILE, "kube-proxy for --kubelet.", shown_default="beside the kubelet, or in the search path"
    )
    node_name: str = option("", TEXT, "Name of the node of --kubelet.", shown_default="the host name")
    node_dir: Path | None = option(
        None,
        DIRECTORY,
        "Directory of the files, images and logs of the node of --kubelet.",
        shown_default="/var/lib/kubewright/NODE",
    )
    pause_image: str = option(
        "",
        TEXT,
        "Image of the first container of pods of --kubelet.",
        is_rare=True,
        shown_default="containerd's",
    )
    ready_file: Path | None = option(None, NEW_FILE, "File to write the URL to when the server is ready.")
    dashboard: bool = option(False, BOOLEAN, "Serve a web dashboard.")
    dashboard_port: int = option(0, PORT, "Port of the dashboard.", shown_default="a free port")
    quiet: bool = option(False, BOOLEAN, "Print nothing when ready.")
    worker: int | None = None
    """Number of this process, which another one with `workers` has started."""
    given: frozenset[str] = frozenset()
    """Names of the options that flags or the config file set."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """The options as texts, for `/flagz`."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class UpOptions(ControlPlaneOptions, ShutdownOptions, ProcessOptions):
    """The options of `kubewright up`."""


OPTIONS = options_of(UpOptions)
_SWITCHES = frozenset(f"--{one.name}" for one in OPTIONS if one.kind.type == "bool")


class _Switch(click.Option):
    """A boolean option; the help shows the form that changes the default."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the names and the text in the help."""
        record = super().get_help_record(ctx)
        return (record[0].partition(" / ")[0], record[1]) if record and not self.metavar else record


def _parameter(one: Option) -> click.Option:
    default = one.default_text if one.kind.type != "bool" else ""
    text = f"{one.help}  [default: {default}]" if default else one.help
    if one.kind.type == "bool":
        metavar = "BOOL" if one.default else None
        names = [f"--{one.name}/--no-{one.name}"]
        return _Switch(names, default=None, help=text, hidden=one.is_rare, metavar=metavar)
    file_types = {"FILE": click.Path(dir_okay=False), "DIRECTORY": click.Path(file_okay=False)}
    kind = file_types.get(one.kind.metavar, click.STRING)
    return click.Option(
        [f"--{one.name}"],
        multiple=True,
        type=kind,
        metavar=one.kind.metavar,
        help=text,
        hidden=one.is_rare,
    )


class UpCommand(click.Command):
    """A command whose options are those of the model; it calls its function with `UpOptions`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        config = click.Option(
            ["--config"],
            type=click.Path(dir_okay=False, path_type=Path),
            help="YAML file with options, by the names of flags; flags take precedence.",
        )
        self.params = [config, click.Option(["--worker"], type=int, hidden=True), *map(_parameter, OPTIONS)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read flags and config file; the arguments are in `ctx.obj`, to start workers with them."""
        ctx.obj = tuple(args)
        try:
            rest = super().parse_args(ctx, list(_plain_switches(ctx, args)))
        except click.NoSuchOption as error:
            hint = _hint(error.option_name)
            if not hint:
                raise
            raise click.UsageError(f"No such option {error.option_name}{hint}", ctx) from None
        if not ctx.resilient_parsing:
            ctx.params = {"options": _read(ctx)}
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by concern."""
        records = {each.name: each.get_help_record(ctx) for each in self.get_params(ctx)}
        names = {one.name.replace("-", "_"): one for one in OPTIONS}
        for concern in concerns(UpOptions):
            inside = [records[name] for name, one in names.items() if one.concern is concern]
            if any(inside):
                with formatter.section((concern.__doc__ or "").partition(":")[0]):
                    formatter.write_dl([each for each in inside if each])
        with formatter.section("Other"):
            formatter.write_dl([each for name, each in records.items() if each and name not in names])


def _plain_switches(ctx: click.Context, args: Sequence[str]) -> Iterator[str]:
    """Replace `--switch=false` and `--switch false`, as for kube-apiserver, with `--no-switch`."""
    rest = list(reversed(args))
    while rest:
        name, equals, text = rest.pop().partition("=")
        if name not in _SWITCHES:
            yield f"{name}{equals}{text}"
            continue
        if not equals and rest and rest[-1] in ("true", "false"):
            text = rest.pop()
        try:
            yield name if not text or parse_boolean(text) else f"--no-{name[2:]}"
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param_hint=repr(name)) from None


def _hint(name: str) -> str:
    """Return the remedy for a flag of kube-apiserver that `kubewright up` does not have."""
    from kubewright.envtest.kube_apiserver_flags import IGNORED

    flag = name.removeprefix("--").replace("_", "-")
    if flag == "etcd-servers":
        return "; use --store etcd://HOST:PORT"
    if flag in IGNORED:
        return ": this flag of kube-apiserver has no effect here; remove it"
    found = suggestion(flag, OPTIONS, "--")
    return found if found.startswith("; use") else ""


def _read(ctx: click.Context) -> UpOptions:
    """Return the options of a command line; raises `click.UsageError`."""
    texts: dict[str, Entry] = {}
    try:
        if ctx.params["config"] is not None:
            texts = read_config_file(ctx.params["config"], OPTIONS)
    except (OSError, ValueError) as error:
        raise click.UsageError(explain(error), ctx) from None
    for one in OPTIONS:
        name = one.name.replace("-", "_")
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            given = ctx.params[name]
            texts[one.name] = Entry([str(given).lower()] if isinstance(given, bool) else list(given), "")
    values: dict[str, Any] = {}
    for one in OPTIONS:
        if one.name in texts:
            entry = texts[one.name]
            try:
                values[one.name] = one.kind.read(entry.texts)
            except (OSError, ValueError) as error:
                if entry.where:
                    raise click.UsageError(f"{entry.where}: {explain(error)}", ctx) from None
                raise click.BadParameter(explain(error), ctx, param_hint=f"'--{one.name}'") from None
    for name, value in _defaults(values).items():
        values.setdefault(name, value)
    shown = {one.name: one.kind.text(one.default) for one in OPTIONS}
    shown |= {name: str(values[name]) for name in _defaults(values)} | {
        name: ",".join(each.texts) for name, each in texts.items()
    }
    try:
        return UpOptions(
            **keyword_arguments(UpOptions, _own_files(values, ctx.params["worker"])),
            given=frozenset(texts),
            worker=ctx.params["worker"],
            flags={name: text for name, text in shown.items() if text},
        )
    except (OSError, ValueError) as error:
        raise click.UsageError(explain(error), ctx) from None


def _defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return defaults that depend on other options."""
    if given.get("kubelet"):
        given = {"real-nodes": True, **given}
    if not given.get("real-nodes"):
        return {"nodes": DEFAULT_NODES if given.get("controllers", True) else 0}
    # Kubelets and pods connect from outside of this process, and after a restart to the same address.
    return {"real-nodes": True, "nodes": 0, "bind": "0.0.0.0", "port": REAL_NODES_PORT, "dns": True}  # noqa: S104


def _own_files(values: dict[str, Any], worker: int | None) -> dict[str, Any]:
    """Change the files of a worker so that no two processes write, and rotate, the same one.

    `audit.log` is `audit-worker-1.log` in worker 1.
    """
    path = values.get("audit-log-path")
    if worker is None or not path or path == "-":
        return values
    file = Path(path)
    return {**values, "audit-log-path": str(file.with_name(f"{file.stem}-worker-{worker}{file.suffix}"))}
