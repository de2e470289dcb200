"""`kubewright node`: what a machine needs to be a node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubewright.cli.kubeconfig_options import kubeconfig_options
from kubewright.cli.project_deployment import run_on_cluster

if TYPE_CHECKING:
    from kubewright.client import Client


@click.group("node")
def node_command() -> None:
    """Prepare machines as nodes, without kubeadm.

    \b
    Example:
      kubewright node config worker-1 -o worker-1/
    """


@node_command.command("config")
@click.argument("name")
@click.option("--output-dir", "-o", type=click.Path(file_okay=False, path_type=Path), required=True)
@click.option(
    "--directory",
    default="/etc/kubernetes",
    show_default=True,
    help="Where the files will be on the machine.",
)
@click.option("--ttl", default="24h", show_default=True, help="Time in which the kubelet has to join.")
@click.option(
    "--pod-cidr",
    multiple=True,
    help="Pod CIDR of the node in the network configuration.  [default: that of the Node object]",
)
@click.option(
    "--containerd-socket", default="/run/containerd/containerd.sock", show_default=True, help="Its socket."
)
@kubeconfig_options
def config(
    name: str,
    output_dir: Path,
    directory: str,
    ttl: str,
    pod_cidr: tuple[str, ...],
    containerd_socket: str,
    kubeconfig: str | None,
    context: str,
) -> None:
    """Write configuration files of kubelet, kube-proxy, containerd and network plug-ins for a machine.

    The kubelet joins with a bootstrap token, which is one of the files; copy them over a secure connection.
    A node gets its pod CIDR when it has joined: run the command again, or set --pod-cidr, for the network.

    \b
    Example:
      kubewright node config worker-1 -o worker-1/
      scp -r worker-1/* root@worker-1:/etc/kubernetes/
    """
    from datetime import timedelta

    from kubewright.api.core.v1 import Node
    from kubewright.api.values.times import now
    from kubewright.options.kinds import parse_seconds
    from kubewright.workloads.bootstrap_token import BootstrapToken

    try:
        seconds = parse_seconds(ttl)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--ttl'") from None

    async def run(client: Client) -> None:
        cluster = await read_cluster(client)
        token = BootstrapToken.generate()
        expiration = now() + timedelta(seconds=seconds) if seconds else None
        await client.create(token.to_secret(description=f"node {name}", expiration=expiration))
        cidrs = list(pod_cidr)
        if not cidrs:
            found = await client.get_or_none(Node, name)
            cidrs = list(
                (found.spec.pod_cidrs if found is not None and found.spec is not None else None) or ()
            )
        files = node_files(
            cluster,
            token=str(token),
            name=name,
            directory=directory,
            pod_cidrs=cidrs,
            socket=containerd_socket,
        )
        write_files(output_dir, files)
        for path in files:
            click.echo(output_dir / path)
        click.echo(
            f"start it with: kubelet --config={directory}/kubelet.yaml "
            f"--bootstrap-kubeconfig={directory}/bootstrap-kubelet.conf "
            f"--kubeconfig={directory}/kubelet.conf "
            f"--hostname-override={name}",
            err=True,
        )
        if not cidrs:
            click.echo("the node has no pod CIDR yet; run the command again when it has joined", err=True)

    run_on_cluster(run, kubeconfig=kubeconfig, context=context)


async def read_cluster(client: Client) -> dict[str, Any]:
    """Return what `kubewright up --real-nodes` publishes: `kubeconfig`, `kubelet` and `kube-proxy`."""
    import yaml

    from kubewright.api.core.v1 import ConfigMap

    found: dict[str, Any] = {}
    for key, namespace, name, entry in (
        ("kubeconfig", "kube-public", "cluster-info", "kubeconfig"),
        ("kubelet", "kube-system", "kubelet-config", "kubelet"),
        ("kube-proxy", "kube-system", "kube-proxy", "config.conf"),
    ):
        config_map = await client.get_or_none(ConfigMap, name, namespace=namespace)
        text = ((config_map.data if config_map is not None else None) or {}).get(entry)
        if text is None:
            raise click.ClickException(
                f"the cluster has no config map {namespace}/{name}; start it with: kubewright up --real-nodes"
            )
        found[key] = yaml.safe_load(text)
    return found


def node_files(
    cluster: dict[str, Any],
    *,
    token: str,
    name: str,
    directory: str,
    pod_cidrs: list[str],
    socket: str,
) -> dict[str, str]:
    """Return the texts of the configuration files of a node, by path."""
    import base64

    import yaml

    from kubewright.node.machine.configuration import (
        CNI_DIRECTORIES,
        containerd_configuration,
        network_configuration,
        server_kubeconfig,
        to_toml,
    )

    server = cluster["kubeconfig"]["clusters"][0]["cluster"]
    ca = base64.b64decode(server["certificate-authority-data"])
    bootstrap = server_kubeconfig(server["server"], ca, token=token)
    kubelet = {**cluster["kubelet"], "containerRuntimeEndpoint": f"unix://{socket}"}
    kubelet["authentication"] = {
        **kubelet.get("authentication", {}),
        "x509": {"clientCAFile": f"{directory}/pki/ca.crt"},
    }
    proxy = {**cluster["kube-proxy"], "hostnameOverride": name}
    proxy["clientConnection"] = {"kubeconfig": f"{directory}/kubelet.conf"}
    containerd = containerd_configuration(
        Path("/var/lib/containerd"), socket=Path(socket), cni_plugins=CNI_DIRECTORIES[0]
    )
    containerd["plugins"]["io.containerd.grpc.v1.cri"]["cni"]["conf_dir"] = "/etc/cni/net.d"
    for key in ("root", "state"):
        del containerd[key]
    del containerd["plugins"]["io.containerd.internal.v1.opt"]
    files = {
        "bootstrap-kubelet.conf": yaml.safe_dump(bootstrap),
        "kubelet.yaml": yaml.safe_dump(kubelet),
        "kube-proxy.yaml": yaml.safe_dump(proxy),
        "pki/ca.crt": ca.decode(),
        "containerd/config.toml": to_toml(containerd),
    }
    if pod_cidrs:
        network = network_configuration(pod_cidrs)
        files["cni/net.d/10-kubewright.conflist"] = json.dumps(network, indent=2) + "\n"
    return files


def write_files(directory: Path, files: dict[str, str]) -> None:
    """Write files that only their owner can read."""
    from kubewright.tls.certificates import write_private

    try:
        for name, text in files.items():
            path = directory / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(path, text.encode())
    except OSError as error:
        raise click.ClickException(f"cannot write {error.filename or directory}: {error.strerror}") from None
