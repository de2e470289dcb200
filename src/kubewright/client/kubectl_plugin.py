"""Plug-ins of kubectl: commands with the options of kubectl, tables and completion.

    @click.command("kubectl shop", cls=KubectlPlugin)
    @click.argument("names", nargs=-1, shell_complete=complete_names(Shop))
    def main(kubectl: KubectlContext, names: tuple[str, ...]) -> None:
        with kubectl.connect() as client:
            shops = client.list(Shop, namespace=kubectl.namespace)
        kubectl.print(shops, {"SIZE": lambda shop: shop.spec.size, "AGE": age})

kubectl runs an executable `kubectl-shop` for `kubectl shop`, and `kubectl_complete-shop` to complete its
arguments. Both are entry points of one command:

    [project.scripts]
    kubectl-shop = "shop.kubectl_shop:main"
    "kubectl_complete-shop" = "shop.kubectl_shop:main.complete"
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

import click

from kubewright.api.encoding.codec import to_plain
from kubewright.api.errors import APIError
from kubewright.api.meta import MetaObject
from kubewright.schema.crd.columns import human_duration

from .config.cluster_config import ClusterConfig, load_config
from .errors import ConfigError, ConnectionFailed, NoKindMatch
from .kind_types import ALL_NAMESPACES, metadata_of
from .readiness import readiness_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from .sync.sync_client import SyncClient

ObjectT = TypeVar("ObjectT", bound=MetaObject)
Column = Callable[[ObjectT], object]
Completion = Callable[[click.Context, click.Parameter, str], list[str]]

NO_FILE_COMPLETION: Final = ":4"
"""Last line of completions for kubectl: there are no file names to complete."""
FILE_COMPLETION: Final = ":0"


@dataclass(frozen=True)
class KubectlContext:
    """The options of kubectl, and what follows from them."""

    kubeconfig: str | None = None
    context: str = ""
    namespace_option: str = ""
    all_namespaces: bool = False
    output: str = "table"

    @property
    def namespace(self) -> str:
        """Argument `namespace` of `SyncClient.list`: the chosen one, or that of the kubeconfig."""
        return ALL_NAMESPACES if self.all_namespaces else self._config.namespace

    def connect(self) -> SyncClient:
        """Return a client of the chosen cluster, whose default is the chosen namespace."""
        from .sync.sync_client import SyncClient

        return SyncClient.connect(self._config)

    @cached_property
    def _config(self) -> ClusterConfig:
        config = load_config(self.kubeconfig, context=self.context)
        return replace(config, namespace=self.namespace_option) if self.namespace_option else config

    def print(self, objects: Iterable[ObjectT], columns: Mapping[str, Column[ObjectT]]) -> None:
        """Print objects in the chosen format; `columns` follow the name in a table."""
        found = list(objects)
        if self.output == "table":
            self._print_table(found, columns)
        elif self.output == "name":
            for each in found:
                click.echo(f"{_resource(each)}/{each.metadata.name}")
        else:
            documents = [to_plain(each) for each in found]
            document = documents[0] if len(documents) == 1 else _list_of(documents)
            if self.output == "json":
                click.echo(json.dumps(document, indent=4))
            else:
                import yaml

                click.echo(yaml.safe_dump(document, sort_keys=False), nl=False)

    def _print_table(self, objects: Sequence[ObjectT], columns: Mapping[str, Column[ObjectT]]) -> None:
        if not objects:
            click.echo("No resources found", err=True)
            return
        header = [*(["NAMESPACE"] if self.all_namespaces else []), "NAME", *columns]
        rows = [
            [
                *([each.metadata.namespace or ""] if self.all_namespaces else []),
                each.metadata.name or "",
                *(_cell(column(each)) for column in columns.values()),
            ]
            for each in objects
        ]
        print_table(header, rows)


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table as kubectl does: columns are separated by three spaces."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(header))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("   ".join(cells).rstrip())


def age(obj: MetaObject) -> str:
    """Return the age of an object as kubectl prints it: `5m12s`."""
    created = obj.metadata.creation_timestamp
    return human_duration(datetime.now(UTC) - created) if created is not None else "<unknown>"


def condition_status(type: str) -> Callable[[MetaObject], str]:
    """Return a column with the status of a condition: `True`, `False` or `Unknown`."""

    def column(obj: MetaObject) -> str:
        conditions = getattr(getattr(obj, "status", None), "conditions", None) or ()
        return next((str(each.status) for each in conditions if each.type == type), "Unknown")

    return column


def state(obj: MetaObject) -> str:
    """Return the state of an object by the rules of `readiness`: `Current`, `InProgress` or `Failed`."""
    return readiness_of(obj).state


def complete_names(kind: type[MetaObject]) -> Completion:
    """Return a completion of the names of objects, in the cluster and namespace that are chosen so far."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        given = ctx.params.get(parameter.name or "") or ()
        names = _names(ctx, kind, namespaced=True)
        return [each for each in names if each.startswith(incomplete) and each not in given]

    return complete


def _complete_namespaces(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from kubewright.api.core.v1 import Namespace

    return [each for each in _names(ctx, Namespace, namespaced=False) if each.startswith(incomplete)]


def _complete_contexts(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from .config.kubeconfig import Kubeconfig

    chosen = ctx.params.get("kubeconfig")
    try:
        found = Kubeconfig.load([chosen] if chosen else Kubeconfig.paths())
    except ConfigError:
        return []
    return [each for each in found.contexts if each.startswith(incomplete)]


def _names(ctx: click.Context, kind: type[MetaObject], *, namespaced: bool) -> list[str]:
    """Return names of objects; an unreachable cluster has no completions."""
    kubectl = _context(ctx.params)
    try:
        with kubectl.connect() as client:
            found = client.list(metadata_of(kind), namespace=kubectl.namespace if namespaced else None)
    except (APIError, ConfigError, ConnectionFailed, NoKindMatch, TimeoutError):
        return []
    return sorted({each.metadata.name or "" for each in found})


class ServerError(click.ClickException):
    """An error of the API server, printed as kubectl prints it."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message."""
        click.echo(self.message, err=True, file=file)


class KubectlPlugin(click.Command):
    """A click command with the options of kubectl; its function gets them as `kubectl`, a `KubectlContext`.

    Expected errors are printed in one line, as kubectl does.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("context_settings", {}).setdefault("help_option_names", ["-h", "--help"])
        super().__init__(*args, **kwargs)
        self.params += [
            click.Option(
                ["-n", "--namespace"], default="", help="Namespace.", shell_complete=_complete_namespaces
            ),
            click.Option(["-A", "--all-namespaces"], is_flag=True, help="All namespaces."),
            click.Option(["--context"], default="", help="Context.", shell_complete=_complete_contexts),
            click.Option(["--kubeconfig"], type=click.Path(dir_okay=False), help="Kubeconfig file."),
            click.Option(
                ["-o", "--output"],
                type=click.Choice(["table", "json", "yaml", "name"]),
                default="table",
                help="Output format.",
            ),
        ]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        kubectl = _context(ctx.params)
        for name in ("namespace", "all_namespaces", "context", "kubeconfig", "output"):
            ctx.params.pop(name)
        ctx.params["kubectl"] = kubectl
        try:
            return super().invoke(ctx)
        except APIError as error:
            raise ServerError(f"Error from server ({error.reason}): {error}") from None
        except (ConfigError, ConnectionFailed, NoKindMatch, TimeoutError) as error:
            raise click.ClickException(str(error)) from None

    def complete(self, words: Sequence[str] | None = None) -> None:
        """Print completions of the last word, by the protocol of kubectl: the entry point for it."""
        from click.shell_completion import ShellComplete

        given = list(sys.argv[1:] if words is None else words) or [""]
        found = ShellComplete(self, {}, self.name or "", "").get_completions(given[:-1], given[-1])
        for item in found:
            if item.type == "plain":
                click.echo(_completion(item))
        is_file = any(item.type in ("file", "dir") for item in found)
        click.echo(FILE_COMPLETION if is_file else NO_FILE_COMPLETION)


def _completion(item: CompletionItem) -> str:
    return f"{item.value}\t{item.help}" if item.help else str(item.value)


def _context(parameters: Mapping[str, Any]) -> KubectlContext:
    return KubectlContext(
        kubeconfig=parameters.get("kubeconfig"),
        context=parameters.get("context") or "",
        namespace_option=parameters.get("namespace") or "",
        all_namespaces=bool(parameters.get("all_namespaces")),
        output=parameters.get("output") or "table",
    )


def _cell(value: object) -> str:
    return "<none>" if value is None or value == "" else str(value)


def _resource(obj: MetaObject) -> str:
    """Return the resource as kubectl prints it: `shop.store.example.com`."""
    assert obj.gvk is not None
    kind, group = obj.gvk.kind.lower(), obj.gvk.group
    return f"{kind}.{group}" if group else kind


def _list_of(documents: list[Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": documents}
