"""Exploration of operators that are programs of their own: kopf, kubernetes_asyncio, Go.

    result = asyncio.run(explore_command("kopf run shop.py", scenarios))

The program runs as a process in real time, against an embedded control plane over TLS. What needs no control
of its event loop is explored: kill -9 before and after each recorded write, and what an API server can do to
a client: conflicts, errors, timeouts with and without the effect, stale lists, delayed events, expired and
broken watches.

- `injector`: `FaultInjector`, which numbers the requests of the program and injects faults in the server
- `process`: `ForeignProcess`, the program with its kubeconfig and log
- `foreign_run`: one run of a scenario
- `exploration`: the enumeration of faults, and their confirmation
"""
