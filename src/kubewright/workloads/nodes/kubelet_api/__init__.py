"""The HTTPS API of the simulated kubelets: logs, exec, attach, port-forward, statistics.

One local port serves all nodes. The API server connects to it through the Node objects, as to real kubelets:
`status.daemonEndpoints` has the port, and the `InternalDNS` address (`node-0.localhost`) the node.

- `listener`: the port, which is open from the start and served after the first connection
- `server`: paths and responses; `authentication`: clients; `statistics`: usage and metrics
- exec and port-forward over WebSockets and SPDY: `kubewright.apiserver.streams`
- `pod_proxy`: HTTP requests to ports of simulated pods, for the pod and service proxies of the API server
"""
