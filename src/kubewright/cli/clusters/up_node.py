"""`--kubelet` of `kubewright up`: this machine as a node, beside the control plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kubewright.controlplane import ControlPlane
    from kubewright.node.machine.local_node import LocalNode
    from kubewright.node.machine.programs import Programs

    from .up_options import UpOptions


def check_programs(options: UpOptions) -> Programs | None:
    """Return the programs of the node; `None` without `--kubelet`. Raises `click.ClickException`."""
    if options.kubelet is None:
        return None
    from kubewright.node.machine.programs import MissingPrograms, find_programs

    try:
        programs = find_programs(options.kubelet, options.kube_proxy)
    except MissingPrograms as error:
        raise click.ClickException(str(error)) from None
    if programs.kube_proxy is None:
        click.echo(
            "Warning: kube-proxy was not found, so cluster IPs of Services are not reachable; "
            "set --kube-proxy to the one of the server files of Kubernetes",
            err=True,
        )
    return programs


async def start_node(plane: ControlPlane, programs: Programs | None, options: UpOptions) -> LocalNode | None:
    """Start the node of `--kubelet` and wait until it is ready. Raises `click.ClickException`."""
    if programs is None:
        return None
    from kubewright.controlplane.kubelets.local_nodes import create_local_node
    from kubewright.node.machine.local_node import NodeError

    try:
        node = create_local_node(
            plane,
            programs,
            name=options.node_name,
            directory=options.node_dir,
            pause_image=options.pause_image,
        )
        await node.start(plane.client())
    except (NodeError, OSError) as error:
        raise click.ClickException(str(error)) from None
    if not options.quiet:
        click.echo(f"node {node.settings.name} is ready, files and logs in {node.directory}")
    return node
