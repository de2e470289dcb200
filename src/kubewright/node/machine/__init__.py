"""A node on this machine: kubelet, kube-proxy and containerd as programs, with the files that they read.

    node = LocalNode(programs, settings, directory=Path("/var/lib/kubewright/laptop"))
    await node.start(client)

Modules:

- `configuration`: configuration files of kubelet, kube-proxy, containerd and the network plug-ins
- `programs`: which programs a node needs, and the packages that have them
- `supervisor`: child processes that are restarted
- `local_node`: `LocalNode`, all of them together
- `images`: import of image archives into containerd
"""
