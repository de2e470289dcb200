"""Pod Security Standards: each check starts and changes at its own version."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.errors import Forbidden
from kubewright.controlplane.admission.pods.pod_security_checks import evaluate

NAMESPACE = "/api/v1/namespaces/ns"
LEVEL = "pod-security.kubernetes.io/"
SECURE = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def pod(
    *, context: dict[str, Any] | None = None, annotations: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    """Return a pod with the container c, which complies with `restricted` unless `context` changes it."""
    container = {"name": "c", "image": "i", "securityContext": {**SECURE, **(context or {})}}
    container.update(spec.pop("container", {}))
    return {"metadata": {"annotations": annotations or {}}, "spec": {"containers": [container], **spec}}


def without(field: str) -> dict[str, Any]:
    return {"container": {"securityContext": {name: SECURE[name] for name in SECURE if name != field}}}


APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/c"
SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
RESERVED_PORTS = {
    "securityContext": {"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports", "value": "1"}]}
}
WRITE_MEMORY = {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_wmem", "value": "1"}]}}
UNCONFINED = {"type": "Unconfined"}
PROBE = {"livenessProbe": {"httpGet": {"port": 80, "host": "10.0.0.1"}}}
HOOK = {"lifecycle": {"preStop": {"tcpSocket": {"port": 80, "host": "10.0.0.1"}}}}

VIOLATIONS = [
    # level, pod, first version that rejects, last version that rejects (None: still rejected)
    ("baseline", pod(annotations={APP_ARMOR: "unconfined"}), 0, None),
    ("baseline", pod(context={"appArmorProfile": UNCONFINED}), 0, None),
    ("baseline", pod(annotations={SECCOMP: "unconfined"}), 0, 18),
    ("baseline", pod(context={"seccompProfile": UNCONFINED}), 19, None),
    ("baseline", pod(container=PROBE), 34, None),
    ("baseline", pod(container=HOOK), 34, None),
    ("baseline", pod(context={"procMount": "Unmasked"}), 0, None),
    ("baseline", pod(context={"procMount": "Unmasked"}, hostUsers=False), 0, 34),
    ("baseline", pod(**RESERVED_PORTS), 0, 26),
    ("baseline", pod(**WRITE_MEMORY), 0, 31),
    ("baseline", pod(context={"seLinuxOptions": {"type": "container_engine_t"}}), 0, 30),
    ("baseline", pod(hostNetwork=True), 0, None),
    ("restricted", pod(**without("runAsNonRoot")), 0, None),
    ("restricted", pod(**without("runAsNonRoot"), hostUsers=False), 0, 34),
    ("restricted", pod(**without("allowPrivilegeEscalation")), 8, None),
    ("restricted", pod(**without("allowPrivilegeEscalation"), os={"name": "windows"}), 8, 24),
    ("restricted", pod(**without("seccompProfile")), 19, None),
    ("restricted", pod(**without("seccompProfile"), os={"name": "windows"}), 19, 24),
    ("restricted", pod(**without("capabilities")), 22, None),
    ("restricted", pod(context={"runAsUser": 0}), 23, None),
    ("restricted", pod(context={"runAsUser": 0}, hostUsers=False), 23, 34),
    ("restricted", pod(context={"procMount": "Unmasked"}, hostUsers=False), 0, None),
    ("restricted", pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]), 0, None),
]


@pytest.mark.parametrize(("level", "subject", "first", "last"), VIOLATIONS)
def test_a_check_applies_to_its_versions(
    level: str, subject: dict[str, Any], first: int, last: int | None
) -> None:
    rejecting = [minor for minor in range(40) if evaluate(level, f"v1.{minor}", subject)]
    assert rejecting == list(range(first, 40 if last is None else last + 1))
    assert bool(evaluate(level, "latest", subject)) == (last is None)


def test_a_secure_pod_complies_with_all_versions() -> None:
    assert not any(evaluate("restricted", f"v1.{minor}", pod()) for minor in range(40))


def test_messages_name_who_sets_which_value() -> None:
    annotated = pod(annotations={APP_ARMOR: "unconfined"}, context={"appArmorProfile": UNCONFINED})
    assert evaluate("baseline", "latest", annotated) == (
        'forbidden AppArmor profiles (container "c" and annotation must not set AppArmor profile type to '
        f'"Unconfined", "{APP_ARMOR}="unconfined"")'
    )
    assert evaluate("baseline", "latest", pod(container=PROBE)) == (
        'probe or lifecycle host (container "c" uses probe or lifecycle host "10.0.0.1")'
    )
    assert evaluate("baseline", "v1.18", pod(annotations={SECCOMP: "unconfined"})) == (
        f'seccompProfile (forbidden annotation {SECCOMP}="unconfined")'
    )
    labelled = pod(context={"seLinuxOptions": {"type": "spc_t", "user": "u"}})
    assert evaluate("baseline", "latest", labelled) == (
        'seLinuxOptions (container "c" set forbidden securityContext.seLinuxOptions: '
        'type "spc_t"; user may not be set)'
    )


async def test_the_version_label_selects_the_rules(cluster: Any) -> None:
    labels = {f"{LEVEL}enforce": "restricted", f"{LEVEL}enforce-version": "v1.0"}
    await cluster.client.merge(NAMESPACE, {"metadata": {"labels": labels}})
    spec = {"containers": [{"name": "c", "image": "i", "securityContext": {"runAsNonRoot": True}}]}
    await cluster.pod("old-rules", spec=spec)
    labels = {f"{LEVEL}enforce-version": "v1.8"}
    await cluster.client.merge(NAMESPACE, {"metadata": {"labels": labels}})
    with pytest.raises(Forbidden, match=r'violates PodSecurity "restricted:v1\.8": allowPrivilegeEscalation'):
        await cluster.pod("newer-rules", spec=spec)


async def test_updates_that_change_no_image_are_exempt(cluster: Any) -> None:
    await cluster.pod("p", spec={"hostNetwork": True, "automountServiceAccountToken": False})
    await cluster.client.merge(NAMESPACE, {"metadata": {"labels": {f"{LEVEL}enforce": "baseline"}}})
    path = f"{NAMESPACE}/pods/p"
    await cluster.client.merge(path, {"spec": {"activeDeadlineSeconds": 9}})
    with pytest.raises(Forbidden):
        await cluster.client.merge(path, {"spec": {"containers": [{"name": "c", "image": "j"}]}})
