"""Streams of running pods: logs, exec, attach, port forwarding and file copies.

- `exec`: commands in containers, over a WebSocket with one channel per stream
- `pod_log`: `PodLog`: the log of a container, as text or line by line
- `port_forward`: `PortForward`: forward a local port to a port of a pod
- `tar_archive`: tar archives of files and directories that are copied into and out of containers
"""
