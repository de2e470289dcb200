"""Commands that run, explore and show operators.

- `dashboard`: `kubewright dashboard`: serves the dashboard of a cluster
- `dashboard_options`: `--dashboard` of `kubewright run` and `kubewright up`: a dashboard in the same process
- `diagnose`: `kubewright diagnose`: writes a redacted archive for a bug report
- `diagnosis`: what that archive contains
- `explore`: `kubewright explore`: runs scenarios of an operator with faults at every point
- `explore_program`: `kubewright explore --command`: explores a program that is not an operator of Kubewright
- `memory`: returning freed memory to the operating system
- `plan`: `kubewright plan`: shows what an operator would do with the objects of a cluster
- `record`: `kubewright record`: records what happens in a cluster, to replay it
- `replay`: `kubewright replay`: runs an operator on a recording
- `run`: `kubewright run`: runs an operator or an API server
- `run_app`: `kubewright run` of an API server: settings, and the confirmation of its registration
- `session`: A control plane for one run of an operator, if no cluster is configured
"""
