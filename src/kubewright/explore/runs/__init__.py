"""Single runs of a scenario, and what they violated.

- `forks`: forked processes, and values that they send to their parent
- `line_coverage`: lines of the operator's code that runs reach
- `other_process`: a reference run in another Python process, with another hash seed
- `reference_checks`: checks of a reference run: a run in which nothing happens proves nothing
- `run`: `run_once`: one run of a scenario with planned faults, and what it violated
- `run_result`: `Run`: the result of a run, which can be sent to another Python process, and its `Finding`s
- `session`: `Session`: a prepared cluster, from which runs are forked
- `trace`: `Trace`: the numbered events of one run
- `warm_up`: `warm_up`: import and build what runs need, before processes are forked for them
"""
