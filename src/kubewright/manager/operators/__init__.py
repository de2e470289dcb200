"""`Operator`: its decorators, its settings, and what is built from them when it runs.

- `change_handlers`: handlers for changes, as kopf has them: a thin layer on a reconciler
- `cluster_runtime`: the functions of an operator, or of a fleet, in one cluster: the controllers that call
  them
- `crd_checks`: checks before development changes a CustomResourceDefinition
- `declared_functions`: what an `Operator` stores about its decorated functions, and the types that their
  parameters can have
- `failure_events`: warning events about failed functions, so that `kubectl describe` shows why an object is
  not ready
- `field_managers`: the field managers of the functions of an operator
- `injection`: arguments by type: a function declares parameters, and receives the values that match their
  annotations
- `installation`: installs CRDs and webhook configurations during development
- `installed_kinds`: the kinds of an operator: those whose CRDs it installs, and those that must be served
- `object_functions`: `ObjectFunctions`: the decorators that declare functions for the objects of a cluster
- `operator`: `Operator`: declares an operator with decorated functions
- `operator_runtime`: builds and runs the manager of an operator from its declarations
- `operator_webhooks`: the webhook server of an operator, and its registration with the API server during
  development
- `rbac`: RBAC rules that an operator requires, derived from its declarations and settings
- `registration`: checks of what decorators of an operator receive, with messages that name the source line or
  the option
- `services`: services of an operator: objects of the program that functions receive by their type
- `settings`: settings of an operator: everything that differs between a development machine and a cluster
"""
