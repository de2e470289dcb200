"""Configuration files of the programs on a node, as plain data.

The functions return what `kubeadm join` would write, or what a network plug-in would install, for machines
without them; `to_yaml`, `json` or `to_toml` encode them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kubewright.tls.certificates import KeyPair

Object = dict[str, Any]

CNI_DIRECTORIES: Final = ("/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni")
"""Where distributions install network plug-ins."""
BRIDGE: Final = "kubewright0"
"""Network interface that connects the pods of a node."""
NODE_GROUP: Final = "system:nodes"
NODE_USER_PREFIX: Final = "system:node:"
PROXY_USER: Final = "system:kube-proxy"


def server_kubeconfig(url: str, ca: bytes, *, client: KeyPair | None = None, token: str = "") -> Object:
    """Return a kubeconfig for a server; without credentials, as in the config map `cluster-info`."""
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(ca).decode()}
    config: Object = {"apiVersion": "v1", "kind": "Config", "preferences": {}}
    if client is None and not token:
        return {**config, "clusters": [{"name": "", "cluster": cluster}], "contexts": None, "users": None}
    user: Object = {"token": token} if token else {}
    if client is not None:
        user["client-certificate-data"] = base64.b64encode(client.certificate).decode()
        user["client-key-data"] = base64.b64encode(client.key).decode()
    name = "kubewright"
    return {
        **config,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def kubelet_configuration(*, dns: str, domain: str, ca_file: str) -> Object:
    """Return the configuration of a kubelet that only the API server can use, and that renews its
    certificates."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": ca_file},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDNS": [dns],
        "clusterDomain": domain,
        "rotateCertificates": True,
        "serverTLSBootstrap": True,
    }


def local_kubelet_settings(directory: Path, *, socket: Path, cgroup_root: str) -> Object:
    """Return the settings of a kubelet whose files are all below a directory."""
    settings: Object = {
        "cgroupDriver": "cgroupfs",
        "containerRuntimeEndpoint": f"unix://{socket}",
        "enforceNodeAllocatable": ["pods"],
        "failCgroupV1": False,
        "failSwapOn": False,
        "healthzBindAddress": "127.0.0.1",
        "podLogsDir": str(directory / "pod-logs"),
        "resolvConf": "/etc/resolv.conf",
        "staticPodPath": str(directory / "manifests"),
        "volumePluginDir": str(directory / "volume-plugins"),
    }
    return settings | ({"cgroupRoot": cgroup_root} if cgroup_root else {})


def kube_proxy_configuration(
    *, kubeconfig: str, cluster_cidr: str, node: str = "", changes_sysctls: bool = True
) -> Object:
    """Return the configuration of kube-proxy.

    Without `changes_sysctls` it leaves the limits of connection tracking of the machine alone.
    """
    config: Object = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "bindAddress": "0.0.0.0",  # noqa: S104 - decides the IP family; it listens nowhere
        "clientConnection": {"kubeconfig": kubeconfig},
        "clusterCIDR": cluster_cidr,
        "mode": "iptables",
    }
    if node:
        config["hostnameOverride"] = node
    if not changes_sysctls:
        zero = {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
        config["conntrack"] = zero
    return config


def network_configuration(pod_cidrs: Sequence[str], *, data: str = "/var/lib/cni/networks") -> Object:
    """Return a CNI configuration: a bridge for the pods of this node, host ports, and masquerading.

    Pods of other nodes need a route per node: `ip route add POD-CIDR via NODE-ADDRESS`.
    """
    routes = [{"dst": "::/0" if ":" in each else "0.0.0.0/0"} for each in pod_cidrs]
    ranges = [[{"subnet": each}] for each in pod_cidrs]
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "dataDir": data, "ranges": ranges, "routes": routes},
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "kubewright", "plugins": [bridge, ports]}


def containerd_configuration(
    directory: Path, *, socket: Path, cni_plugins: str, pause_image: str = "", runc: str = ""
) -> Object:
    """Return the configuration (version 2, which containerd 1 and 2 accept) of a containerd of its own."""
    runtime: Object = {"runtime_type": "io.containerd.runc.v2", "options": {"SystemdCgroup": False}}
    if runc:
        runtime["options"]["BinaryName"] = runc
    cri: Object = {
        "stream_server_address": "127.0.0.1",
        "stream_server_port": "0",
        "restrict_oom_score_adj": True,
        "tolerate_missing_hugetlb_controller": True,
        # Defaults of containerd 2: processes that are not root listen on ports below 1024, and ping.
        "enable_unprivileged_ports": True,
        "enable_unprivileged_icmp": True,
        "cni": {"bin_dir": cni_plugins, "conf_dir": str(directory / "cni")},
        "containerd": {"default_runtime_name": "runc", "runtimes": {"runc": runtime}},
    }
    if pause_image:
        cri["sandbox_image"] = pause_image
    if not Path("/sys/kernel/security/apparmor").exists():
        cri["disable_apparmor"] = True
    return {
        "version": 2,
        "root": str(directory / "containerd"),
        "state": str(directory / "run" / "containerd"),
        "grpc": {"address": str(socket)},
        "plugins": {
            "io.containerd.grpc.v1.cri": cri,
            "io.containerd.internal.v1.opt": {"path": str(directory / "containerd-opt")},
        },
    }


def to_toml(config: Mapping[str, Any]) -> str:
    """Encode tables of texts, numbers, booleans and further tables as TOML."""
    return "\n".join(_toml_lines(config, ())) + "\n"


def _toml_lines(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    values = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    lines = [f"[{'.'.join(map(json.dumps, path))}]"] if path and values else []
    # The texts of TOML and JSON are the same, apart from characters that no path or name here has.
    lines += [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in values.items()]
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += _toml_lines(value, (*path, key))
    return lines
