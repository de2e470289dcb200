"""The scheduler: a library with the extension points of kube-scheduler's scheduling framework.

    class PreferQuiet(Plugin):
        def score(self, state, pod, node):
            return max(0, 100 - len(node.pods))

    add_scheduler(manager, [Profile(), Profile(scheduler_name="quiet", plugins=[PreferQuiet])])
    await manager.run()

- `algorithm`: select a node for a pod: filter the nodes, score those that fit, take one with the highest
  score
- `core`: `SchedulerCore`: queue, cache, plug-ins and the scheduling and binding cycles, without informers
- `extender`: `HTTPExtender`: a process that filters, scores and binds pods over HTTP, as kube-scheduler calls
  it
- `framework`: the scheduling framework: plug-ins, profiles and what plug-ins use
- `metrics`: metrics of schedulers, with the names of kube-scheduler
- `plugins`: the built-in plug-ins, with the names, weights and arguments of kube-scheduler
- `pod_status`: writes of pod status: conditions and nominated nodes
- `queue`: `SchedulingQueue`: pods that wait to be scheduled
- `scheduler`: `Scheduler`: a component of a manager that schedules the pods of a cluster
- `state`: what a scheduling cycle reads: nodes, pods, resources
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, renamed={"Status": "SchedulingStatus"})
