"""Plans: what an operator would do with the objects of a cluster, without changing it.

    planned = plan_operator(ModuleFactory("shop:operator"), read_export("staging.json"))
    print_plan(planned.plan, Console())

- `planner`: plans an operator of Kubewright in virtual time; `program_planner`: plans another program
- `versions`: the previous version of an operator; `old_version`: the process in which it runs
- `model`: `Plan`, what would happen
- `change_log`: `ChangeLog`, the objects that changed; `object_changes`: what differs in an object
- `disruptions`: which changes disrupt what runs
- `schema_checks`: new CRDs against those of the cluster and its stored objects
- `permissions`: the identity of the operator, and the requests that were denied
- `planned_webhooks`: `PlannedWebhooks`, the webhooks of the cluster
- `assumptions`: `AssumedReadiness`, pods, volumes and load balancers that become ready
- `blocking_proxy`: `BlockingProxy`, lists and rejects HTTP calls of programs
- `declared_fakes`: fakes of other systems that a project declares
- `policy`: `PlanPolicy`, expected and denied changes
- `change_tree`: the owner tree of changes; `text`, `markdown`, `html`: the reports
"""
