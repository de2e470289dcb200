"""Rehearsals: run operators on the objects of a real cluster, in an embedded control plane and virtual time.

    rehearsal = Rehearsal(read_export("cluster.json"))
    with rehearsal.started():
        rehearsal.run(rehearsal.cluster.install(factory()))
        rehearsal.start_operator(factory)
        rehearsal.run(rehearsal.settle())

- `snapshot`: `ClusterSnapshot`, the objects of a cluster at one moment
- `export_files`: files and directories with the objects of a cluster
- `snapshot_storage`: the storage of a control plane that starts with the objects of a snapshot
- `kind_selection`: `KindSelection`, which resources of a cluster are read
- `cluster_reader`: reads the objects of a cluster with lists
- `external_calls`: blocks connections and programs that plain functions of an operator start
- `plans`: what an operator would do with the objects of a cluster
- `replays`: recordings that are replayed with an operator
- `rehearsal`: `Rehearsal`, a control plane with these objects and operators in one event loop
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
