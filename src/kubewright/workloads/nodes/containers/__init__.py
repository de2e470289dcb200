"""Containers of simulated pods: their states, runtime, logs and commands.

- `commands`: built-in commands of simulated containers, on a file system in memory
- `container_log`: `ContainerLog`: the output of one run of a container, and the selection of lines that log
  requests make
- `container_starts`: starts and restarts of the containers of a simulated pod: images, runtime errors and
  back-off
- `container_state`: `ContainerState`: the state of one container of a simulated pod, and its status
- `container_stops`: stops of the containers of a simulated pod: exits, kills and the order of termination
- `printed_environments`: `PrintedEnvironments`: the variables of containers that print them (`env`, `sh -c
  env`)
- `probe_checks`: probes of simulated containers: declared to succeed or fail, never sent
- `resize`: in-place resize of simulated containers: requests and limits change, or the node does not have
  enough
- `runtime`: `ContainerRuntime`: what runs the containers of a pod, and the simulated one
- `shell_syntax`: the part of the shell language that simulated containers understand
- `simple_commands`: what a container does whose command is simple enough to know without running it
"""
