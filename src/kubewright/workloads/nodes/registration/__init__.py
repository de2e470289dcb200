"""Node objects: declaration, registration, heartbeats and resources.

- `drain`: eviction of all pods of a simulated node, as `kubectl drain --ignore-daemonsets --force` does
- `node_object`: node and Lease objects as a kubelet writes them
- `node_registration`: registration and heartbeats of the simulated nodes
- `node_spec`: declaration of simulated nodes: a number of equal nodes, or a YAML file
- `node_state`: what a simulated kubelet knows of its node: addresses, images, and the resources that pods use
"""
