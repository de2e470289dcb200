"""Fleets: functions for the objects of many clusters.

- `cluster_providers`: which clusters are part of a fleet, and how to connect to them
- `clusters`: `Clusters`: the connected clusters of all fleets of a running operator
- `fleet`: `Fleet`: functions for the objects of many clusters, which join and leave while the operator runs
- `fleet_metrics`: metrics of fleets: the state of each cluster, and the reconciles in it
- `fleet_runtime`: runs a fleet: a manager for each cluster, from when it joins until it leaves
"""
