"""Fake applications: servers that an operator manages, behind a Service, with faults.

    database = FakeSQL("db", replicas=3)
    async with database.served(client):            # ports of this machine, a Service in the cluster
        database.replicas[0].restart()             # its data is lost

- `application`: `FakeApplication`, `FakeReplica`: replicas, states and faults; `FakeCall`: one call
- `http`: `FakeHTTP`, an application with an HTTP API
- `sql`: `FakeSQL`, a replicated database; `postgresql`: its wire protocol
- `publication`: ports of this machine, and the Service of an application in a cluster
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
