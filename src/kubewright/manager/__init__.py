"""The process of an operator: lifecycle, leader election, events, probes, metrics, and `Operator`.

    operator = Operator("shop")

    @operator.reconcile(Shop, owns=(Deployment,))
    async def reconcile(shop: Shop, ctx: Context) -> None: ...

- `manager`: `Manager`, which starts and stops components; `cluster`: client and cache; `signals`
- `leader_election`: leader election with a Lease; `coordinated_election`: with LeaseCandidates
- `events`: event recorder; `probes`, `http`: health probes and metrics server; `logs`, `log_handler`: log
  formatting
- `operator`: `Operator`; `object_functions`: its decorators for objects; `declared_functions`,
  `registration`, `injection`: its decorated functions;
  `operator_runtime`, `cluster_runtime`, `operator_webhooks`: the manager, the controllers and the webhook
  server that are built from it
- `fleet`: `Fleet`, functions for many clusters; `cluster_providers`: where clusters come from; `clusters`:
  `Clusters`, the connected ones; `fleet_runtime`, `fleet_metrics`: a manager for each cluster
- `field_managers`: the names under which functions apply objects
- `context`: `Context`; `sync_context`: `SyncContext` for plain functions; `unawaited`: calls without await;
  `object_memories`: `ctx.memory`
- `change_handlers`: handlers for changes with old and new state; `failure_events`: events about errors
- `template_folder`, `rendered_kinds`: objects from templates, behind `Operator.render`; `composed_kinds`:
  from a graph, behind `Operator.compose`; `set_status`: the status of both
- `services`: objects of the program that functions receive by type
- `settings`: `Settings`; `rbac`: the RBAC rules that an operator requires
- `installation`: CRDs and webhook configurations during development
- `trace_feed`: spans and queue samples for the dashboard; `trace_server`: over HTTP
- `console`: live view of a running operator in a terminal
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
