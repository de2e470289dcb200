"""Connections of the API server to kubelets and pods, and the usage that kubelets report.

- `html_links`: links in HTML pages of pods, which become paths of the proxy
- `kubelet_usage`: usage of nodes and pods as kubelets report it, for the API group metrics.k8s.io
- `kubelets`: connections of the API server to kubelets: logs, exec, attach, port-forward and the node proxy
- `local_nodes`: the machine of a control plane as its node
- `log_websockets`: logs over WebSockets: the log of a container as messages, binary or in base64
- `metrics_api`: the API group metrics.k8s.io, which `kubectl top` reads: usage of pods and nodes at the time
  of a request
- `pod_connections`: connections of the API server to pods, for the `proxy` subresources of pods and services
"""
