"""Containers as local processes: `kubewright up --run-processes`.

    runtime = ProcessRuntime(
        registration.client, manager.cache, clock=registration.clock, nodes=registration.nodes
    )
    manager.add(SimulatedNodes(manager, registration=registration, runtime=runtime))

The command of a container runs in a session of its own, below a supervisor, with the rights of the user of
this process. Where the kernel allows it, each container has a mount namespace with its volumes at their
mount paths.

- `cluster_reader`: `ClusterReader`: the objects of the API server that containers use
- `container_process`: `ContainerProcess`: the process of one run of a container, its streams, and commands
  beside it
- `environment`: the variables and the command of a container
- `handlers`: actions of probes and lifecycle hooks: commands, HTTP requests, connections and pauses
- `launch`: what the supervisor of a container executes, and the start of the supervisor
- `launcher`: sets up the mount namespace of a container, and executes its command, in a child of the
  supervisor
- `log_files`: `FileLog`: the log files of one run of a container that is a process, and the requests for
  their lines
- `log_writer`: writes the output of a container to files, in the format of container runtimes
- `probes`: `ProcessProbes`: startup, readiness and liveness probes of containers that are processes
- `process_tree`: the descendants of a process, and their cgroup
- `runtime`: `ProcessRuntime`: runs the containers of pods as processes of this machine
- `state_directory`: `StateDirectory`: the files of all containers, and what an earlier run has left behind
- `supervisor`: the parent of the processes of one container
- `supervisor_client`: `SupervisorClient`: the connection of the server to the supervisor of one container
- `usage`: `ProcessMetrics`: CPU and memory of the processes of containers, for `kubectl top` and autoscaling
- `volumes`: volumes of containers that are processes, as directories
"""
