"""Containers as local processes: `kubewright up --run-processes`.

    runtime = ProcessRuntime(
        registration.sender, manager.cache, clock=registration.clock, nodes=registration.nodes
    )
    manager.add(SimulatedNodes(manager, registration=registration, runtime=runtime))

The command of a container runs in a session of its own, with the rights of the user of this process. Where
the kernel allows it, each container has a mount namespace with its volumes at their mount paths.

Modules:

- `runtime`: `ProcessRuntime`, a `ContainerRuntime`; `container_process`: one process and its streams
- `launcher`: the program that sets up the mount namespace and executes the command; `launch`: starts it
- `environment`, `downward_api`: variables; `cluster_reader`: the objects they refer to
- `volumes`, `volume_sources`: volumes as directories; `atomic_directory`: updates of their files
- `probes`, `handlers`: probes and lifecycle hooks
- `usage`: CPU and memory of containers
- `state_directory`: the files of all containers, and processes that an earlier run has left behind
"""
