"""Tests without a cluster, without waiting and without mocks.

- `served`: a control plane in this process, one over TLS, or a real kube-apiserver (`server`)
- `running`: an operator for the length of a test (`operators`)
- `fake_time`, `FakeTimeLoop`: a loop whose time jumps (`time`)
- `PermissionRecorder`: are the declared permissions the needed ones? (`permissions`)
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
