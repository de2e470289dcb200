"""Recorded responses of kube-apiserver, and the tool that records and replays them.

    python -m tests.conformance list                              categories, cases, steps
    python -m tests.conformance check                             replay on the in-process control plane
    python -m tests.conformance check --kubeconfig KUBECONFIG     replay on a running server
    python -m tests.conformance record --kubeconfig KUBECONFIG    record the responses of a reference server
    python -m tests.conformance show crud/generate-name           one case as text

A case is a list of requests, watches and waits; a recording is the case and the normalised responses of the
reference server. `docs/conformance.md` describes the formats.

Modules:

- `cases`: the case format and the hand-written cases under `cases/`
- `generate`: cases that are built from the minimal valid object of each built-in kind
- `recordings`: the compressed files under `recordings/`; `exchange`: the same as readable files
- `version_differences`: what a version returns that the newest does not
- `paths`, `variables`: expressions in cases
- `http_client`, `webhook_server`: connections to and from the server under test
- `case_run`, `runner`: execution of one case, of many
- `normalise`, `compare`: what is stored of a response, and how two responses are compared
- `known`: the list of known differences
- `servers`: the servers that can be started for a run
- `cli`, `report`: the command line
"""
