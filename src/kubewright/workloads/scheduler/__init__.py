"""The scheduler: a library with the extension points of kube-scheduler's scheduling framework.

    class PreferQuiet(Plugin):
        def score(self, state, pod, node):
            return max(0, 100 - len(node.pods))

    add_scheduler(manager, [Profile(), Profile(scheduler_name="quiet", plugins=[PreferQuiet])])
    await manager.run()

Modules, lowest layer first:

- `status`: results of plug-ins; `cycle_state`: data of a scheduling cycle
- `resources`, `pod_info`, `node_info`: what scheduling needs of pods and nodes; `node_selectors`
- `cache`: nodes, pods and assumed pods, and the snapshot of a cycle; `listers`: other objects
- `cluster_events`: events and queueing hints; `nominator`, `waiting_pods`
- `plugin`: `Plugin`; `handle`: what plug-ins can use; `profile`: `Profile`; `framework`: runs plug-ins
- `plugins`: the built-in plug-ins
- `queue`: active, backoff, unschedulable and gated pods
- `extender`: extenders over HTTP; `algorithm`: filter and score nodes
- `core`: scheduling and binding cycles, also for simulations without a cluster
- `metrics`: metrics with the names of kube-scheduler
- `pod_status`: conditions; `scheduler`: `Scheduler`, a component of a manager
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, renamed={"Status": "SchedulingStatus"})
