"""The simulated cluster: control plane, processes of the operator, requests and time in one event loop.

- `applications`: `Applications`: fake applications in the event loop, whose calls are points
- `cluster`: `SimulatedCluster`: a control plane, the processes of an operator and a scenario in one event
  loop
- `definition_finalizer`: `DefinitionFinalizer`: the deletion of CustomResourceDefinitions as a program to
  explore
- `determinism`: replaces the clocks and the sources of randomness of this process during a run
- `external`: `ExternalFake`: a system outside of the cluster (DNS, a cloud, a database) with the same fault
  points
- `factories`: operator factories: a new instance of the operator for each start of a process
- `local_webhooks`: calls the webhooks of an operator in process, instead of over TLS
- `loop`: event loop with virtual time, without threads or sockets, that can stop the tasks of a simulated
  process
- `memory_connections`: connections between two protocols in one event loop
- `process_target`: `ProcessTarget`: what a fault can do with a simulated process
- `processes`: `OperatorProcess`: one start of a replica of the operator in a simulated cluster
- `programs`: programs other than operators that can be explored: the controllers of workloads and of the
  control plane
- `reconcile_order`: `ReconcileOrder`: the start of each reconcile is a point, at which it can be deferred
- `replica`: `ReplicaServer`: the API server as controllers of the control plane see it in a process of their
  own
- `schedules`: `Schedule`: the order in which the tasks of reconciles in one process continue after an await
- `streams`: `WatchStream`: a watch of the operator, whose events can be delayed, lost or cut off
- `thread_calls`: plain functions of the operator: threads that run only while the event loop waits for them
- `transport`: transports of a simulated cluster: requests of the operator are points at which faults are
  injected
"""
