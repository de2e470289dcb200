"""Tests of operators: servers, running operators, fake time and RBAC checks, without mocks.

    async with start_test_server("in-process") as server, run_operator(operator, server.client()):
        ...

- `server`: `start_test_server` starts a control plane in this process, one over TLS, or a real kube-apiserver
- `applications`: `FakeHTTP` and `FakeSQL`, applications that an operator manages, with faults
- `operators`: `run_operator` runs an operator for the duration of a test
- `apiservers`: `run_app` runs an extension API server behind a control plane
- `time`: `fake_time` and `FakeTimeLoop`, an event loop with a simulated clock
- `simulated_clock`: the same clock for `datetime`, `time`, threads and, in `simulated_tls`, certificates;
  `replaced_functions` and `captured_references` replace the functions of the standard library
- `loop_connections`: counts the bytes that a loop sends to itself
- `pytest_plugin`: the fixtures `control_plane`, `client`, `running_operator` and `running_app`, which pytest
  finds by itself
- `real_nodes`: tests on a real kubelet of this machine
- `strategies`: `from_kind` and `updates_of`, hypothesis strategies for valid objects of a kind
- `properties`: `check_operator` checks that an operator converges, is idempotent, restores and cleans up
- `linearizability`: `find_violations` checks histories of concurrent requests to an API server
- `request_recorder`: `RequestRecorder` compares the requests that were sent with versions of Kubernetes
- `permissions`: `PermissionRecorder` compares declared RBAC rules with the requests that were sent
- `pytest_client_fixture`: the fixture `client`, apart from the others because pytest plug-ins for web
  frameworks have one as well
- `pytest_fixtures`: fixtures of the pytest plug-in that need an event loop
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
