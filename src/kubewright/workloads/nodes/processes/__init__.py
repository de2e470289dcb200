"""Containers as local processes: `kubewright up --run-processes`.

    runtime = ProcessRuntime(
        registration.sender, manager.cache, clock=registration.clock, nodes=registration.nodes
    )
    manager.add(SimulatedNodes(manager, registration=registration, runtime=runtime))

The command of a container runs in a session of its own, below a supervisor, with the rights of the user of
this process. Where the kernel allows it, each container has a mount namespace with its volumes at their
mount paths.

Modules:

- `runtime`: `ProcessRuntime`, a `ContainerRuntime`; `container_process`: one process and its streams
- `supervisor`: the program that is the parent of the processes of a container, with `launcher` (mounts and
  command), `log_writer` (output to files) and `process_tree` (descendants); `launch`: what it executes
- `supervisor_client`: the connection to it; `log_files`: the lines of log requests; `cgroups`: where allowed
- `environment`, `downward_api`: variables; `cluster_reader`: the objects they refer to
- `volumes`, `volume_sources`: volumes as directories; `atomic_directory`: updates of their files
- `probes`, `handlers`: probes and lifecycle hooks
- `usage`: CPU and memory of containers
- `state_directory`: the files of all containers, and processes that an earlier run has left behind
"""
