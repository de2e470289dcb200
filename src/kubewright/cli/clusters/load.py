"""`kubewright load`: brings images to the nodes of this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click


@click.group("load")
def load_command() -> None:
    """Load images into the containerd of a node of this machine.

    \b
    Example:
      kubewright load image app.tar
    """


@load_command.command("image")
@click.argument("archives", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--node", default="", help="Node of kubewright up --kubelet.  [default: the host name]")
@click.option(
    "--address",
    type=click.Path(path_type=Path),
    help="Socket of containerd.  [default: that of the node, or /run/containerd/containerd.sock]",
)
def image(archives: tuple[Path, ...], node: str, address: Path | None) -> None:
    """Import image archives, as docker save or buildah push oci-archive: write them.

    \b
    Example:
      docker save -o app.tar example.com/app:1
      kubewright load image app.tar
    """
    from kubewright.controlplane.kubelets.local_nodes import node_directory
    from kubewright.node.machine.images import ImageError, import_image
    from kubewright.node.machine.local_node import node_socket
    from kubewright.node.machine.programs import find_program

    program = find_program("ctr")
    if program is None:
        raise click.ClickException("ctr was not found; install with: apt-get install containerd")
    sockets = [address] if address else [node_socket(node_directory(node))]
    if not address and not node:
        sockets.append(Path("/run/containerd/containerd.sock"))
    socket = next((each for each in sockets if each.is_socket()), None)
    if socket is None:
        raise click.ClickException(
            f"no containerd listens on {' or '.join(map(str, sockets))}; "
            "start a node with kubewright up --kubelet, or set --address"
        )
    for archive in archives:
        if not archive.is_file():
            raise click.ClickException(
                f"{archive} is not a file; write one with: docker save -o {archive} IMAGE"
            )
        try:
            names = asyncio.run(import_image(program, socket, archive))
        except (ImageError, OSError) as error:
            raise click.ClickException(f"cannot import {archive}: {error}") from None
        for name in names:
            click.echo(f"loaded {name}")
