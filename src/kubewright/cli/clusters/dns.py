"""`kubewright dns`: serves cluster DNS."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

import click

from kubewright.cli.kubeconfig_options import kubeconfig_options
from kubewright.cli.project_deployment import run_on_cluster

if TYPE_CHECKING:
    from kubewright.client import Client


@click.command("dns")
@click.option("--bind", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=53, show_default=True, help="UDP and TCP port."
)
@click.option("--domain", default="cluster.local", show_default=True, help="Cluster domain.")
@click.option(
    "--upstream",
    multiple=True,
    metavar="IP",
    help="Server for other names; can be repeated.  [default: those of /etc/resolv.conf]",
)
@click.option(
    "--publish",
    metavar="CLUSTER-IP",
    help="Write the Service kube-system/kube-dns with this cluster IP, and this server as its endpoint.",
)
@kubeconfig_options
def dns_command(
    bind: str,
    port: int,
    domain: str,
    upstream: tuple[str, ...],
    publish: str | None,
    kubeconfig: str | None,
    context: str,
) -> None:
    """Serve DNS for the Services and pods of a cluster, until SIGINT or SIGTERM.

    For clusters without CoreDNS; kubewright up --real-nodes does the same. Requires kubewright[dns].

    \b
    Example:
      kubewright dns --bind 192.0.2.10 --publish 10.0.0.10
      dig @192.0.2.10 kubernetes.default.svc.cluster.local
    """
    for address in (*upstream, *((publish,) if publish else ())):
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise click.UsageError(f"{address!r} is not an IP address") from None
    try:
        from kubewright.dns.cluster_dns import ClusterDNS
        from kubewright.dns.service import publish_dns_service
    except ModuleNotFoundError:
        raise click.ClickException(
            "cluster DNS requires dnspython; install it with: pip install 'kubewright[dns]'"
        ) from None

    async def run(client: Client) -> None:
        from kubewright.apiserver.shutdown import StopSignals

        signals = StopSignals()
        server = ClusterDNS(
            client, host=bind, port=port, domain=domain, address=publish or "", upstreams=upstream or None
        )
        try:
            await server.start()
        except OSError as error:
            raise click.ClickException(
                f"cannot listen on {bind} port {port}: {error.strerror}; choose another port with --port"
            ) from None
        try:
            if publish:
                await publish_dns_service(client, cluster_ip=publish, address=bind, port=server.server.port)
            click.echo(f"serving DNS for {domain} on {bind} port {server.server.port}")
            await signals.stop.wait()
        finally:
            await server.stop()

    run_on_cluster(run, kubeconfig=kubeconfig, context=context)
