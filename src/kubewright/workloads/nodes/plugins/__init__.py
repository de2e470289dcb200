"""Device plug-ins and CSI drivers of simulated nodes, connected over gRPC as with a kubelet (extra `node`).

Each node has the directory of a kubelet below one that the user chooses (`kubewright up --kubelet-dir`), so
that a plug-in for real nodes is tested by running it with `DIR/NODE` instead of `/var/lib/kubelet`.

- `node_plugins`: the plug-ins of all nodes; `pod_plugins`: what a pod waits for
- `plugin_watcher`: plug-ins that register with a socket in `plugins_registry`
- `csi_drivers`: the CSI drivers of a node and its CSINode; `csi_mounts`: volumes of pods
- `device_manager`: registration, capacity and allocation of devices; `device_endpoint`: one plug-in
"""
