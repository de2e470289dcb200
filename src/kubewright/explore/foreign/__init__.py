"""Exploration of operators that are programs of their own: kopf, kubernetes_asyncio, Go.

    result = asyncio.run(explore_command(ForeignOptions(command="kopf run shop.py"), scenarios, jobs=4))

The program runs as a process in real time, against an embedded control plane over TLS. What needs no control
of its event loop is explored: kill -9 before and after each recorded write, and what an API server can do to
a client: conflicts, errors, timeouts with and without the effect, stale lists, delayed and missed events,
expired and broken watches. Faults, families, minimisation, replay tokens and reports are those of operators
of Kubewright.

- `exploration`: `explore_command`, all runs of some scenarios, and the violations
- `foreign_run`: one run of a scenario
- `activity`: whether the program is idle
- `injector`: `FaultInjector`, which names the requests of the program and injects faults in the server
- `watches`: the events of a watch on their way to the program
- `process`: `ForeignProcess`, the program with its kubeconfig and log
- `preloading`: `ProgramTemplate`, which starts a program in Python without importing its libraries again
- `template`: what a template runs in the interpreter of the program
- `replay`: repeats a run, and `check_command` for tests
"""
