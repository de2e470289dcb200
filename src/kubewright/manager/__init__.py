"""The process of an operator: lifecycle, leader election, events, probes, metrics, and `Operator`.

    operator = Operator("shop")

    @operator.reconcile(Shop, owns=(Deployment,))
    async def reconcile(shop: Shop, ctx: Context) -> None: ...

- `cluster`: connection to a cluster: a cache, and a client that reads from it
- `contexts`: what the functions of an operator receive: `Context`, its blocking form, and memory of objects
- `elections`: leader election: with a Lease, or coordinated by kube-apiserver
- `events`: event recorder: Kubernetes events about objects, shown by `kubectl describe`
- `expansion`: kinds whose objects expand to other objects: graphs and templates
- `fleets`: functions for the objects of many clusters
- `manager`: starts and stops the components of a process, and handles their failures
- `observability`: what a running operator shows: logs, probes, metrics, spans, a live view
- `operators`: `Operator`: its decorators, its settings, and what is built from them when it runs
- `sharding`: several replicas of an operator, each of which reconciles a part of the objects
- `signals`: graceful stop on SIGINT and SIGTERM
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
