"""ServiceAccount: sets the service account of pods and mounts a token.

The default service account is `default`. Unless pod or service account disable it, a volume with a token, the
CA of the API server and the namespace is added and mounted into every container.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubewright.api.values.names import generate_name
from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin, AdmissionRule
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.admission.rejection import reject
from kubewright.controlplane.informers import Informers

MIRROR = "kubernetes.io/config.mirror"
ENFORCE = "kubernetes.io/enforce-mountable-secrets"
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
VOLUME = "kube-api-access-"
TOKEN_SECONDS = 3607
_CONTAINERS = (
    ("initContainers", "init container"),
    ("containers", "container"),
    ("ephemeralContainers", "ephemeral container"),
)


class ServiceAccounts(AdmissionPlugin):
    """Sets service account and token of pods; rejects pods whose service account does not exist."""

    name = "ServiceAccount"
    mutating = True
    validating = True
    reinvoke = True
    rules = (
        AdmissionRule(("CREATE",), "", ("pods",)),
        AdmissionRule(("UPDATE",), "", ("pods/ephemeralcontainers",)),
    )

    def __init__(self, informers: Informers, *, timeout: float = 1.0) -> None:
        self._informers = informers
        self._timeout = timeout

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Set service account, token volume and image pull secrets."""
        pod = request.object
        assert pod is not None
        spec: Object = pod.setdefault("spec", {})
        if request.operation != "CREATE" or _is_mirror(pod):
            return False
        before = (spec.get("serviceAccountName"), len(spec.get("volumes") or ()))
        if not spec.get("serviceAccountName"):
            spec["serviceAccountName"] = spec["serviceAccount"] = "default"
        account = await self._account(request, spec["serviceAccountName"])
        automount = spec.get("automountServiceAccountToken")
        if automount is None:
            automount = account.get("automountServiceAccountToken")
        mounted = automount is not False and _mount(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": each.get("name")} for each in account["imagePullSecrets"]]
            mounted = True
        return mounted or before != (spec["serviceAccountName"], len(spec.get("volumes") or ()))

    async def validate(self, request: AdmissionAttributes) -> None:
        """Check that the service account exists and references the secrets of the pod."""
        pod = request.object
        assert pod is not None
        spec: Object = pod.get("spec") or {}
        if request.operation == "CREATE" and _is_mirror(pod):
            _check_mirror(request, spec)
            return
        name = spec.get("serviceAccountName")
        if not name:
            shown = pod["metadata"].get("name") or ""
            raise reject(request, f"no service account specified for pod {request.namespace}/{shown}")
        account = await self._account(request, name)
        annotations = account["metadata"].get("annotations") or {}
        if annotations.get(ENFORCE) in ("true", "True", "TRUE", "t", "T", "1"):
            _check_secrets(request, spec, account)

    async def _account(self, request: AdmissionAttributes, name: str) -> Object:
        # The default service account of a new namespace is created asynchronously by a controller.
        timeout = self._timeout if name == "default" else 0.0
        account = await self._informers.wait_for_object(
            "", "serviceaccounts", name, namespace=request.namespace, timeout=timeout
        )
        if account is None:
            raise reject(
                request,
                f"error looking up service account {request.namespace}/{name}: "
                f'serviceaccount "{name}" not found',
            )
        return account


def _is_mirror(pod: Object) -> bool:
    return MIRROR in ((pod.get("metadata") or {}).get("annotations") or {})


def _mount(spec: Object) -> bool:
    volumes: list[Object] = spec.get("volumes") or []
    found = next((each["name"] for each in volumes if str(each.get("name", "")).startswith(VOLUME)), "")
    name = found or generate_name(VOLUME)
    needed = False
    for part in ("initContainers", "containers"):
        for container in spec.get(part) or ():
            mounts = container.get("volumeMounts") or []
            if all(mount.get("mountPath") != MOUNT_PATH for mount in mounts):
                container["volumeMounts"] = [
                    *mounts,
                    {"name": name, "readOnly": True, "mountPath": MOUNT_PATH},
                ]
                needed = True
    if needed and not found:
        spec["volumes"] = [*volumes, {"name": name, "projected": _token_volume()}]
    return needed


def _token_volume() -> Object:
    namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
        ],
        "defaultMode": 0o644,
    }


def _check_mirror(request: AdmissionAttributes, spec: Object) -> None:
    if spec.get("serviceAccountName"):
        raise reject(request, "a mirror pod may not reference service accounts")
    volumes = spec.get("volumes") or ()
    if any("secret" in volume for volume in volumes) or next(_environment_secrets(spec), None) is not None:
        raise reject(request, "a mirror pod may not reference secrets")
    for volume in volumes:
        for source in (volume.get("projected") or {}).get("sources") or ():
            if "serviceAccountToken" in source:
                raise reject(request, "a mirror pod may not use ServiceAccountToken volume projections")


def _environment_secrets(spec: Object) -> Iterator[tuple[str, str]]:
    """Yield the secrets in container environments, with their place for messages."""
    for part, label in _CONTAINERS:
        for container in spec.get(part) or ():
            for variable in container.get("env") or ():
                reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
                if reference:
                    yield (
                        f"{label} {container.get('name')} with envVar {variable.get('name')}",
                        reference.get("name", ""),
                    )
            for source in container.get("envFrom") or ():
                if source.get("secretRef"):
                    yield f"{label} {container.get('name')} with envFrom", source["secretRef"].get("name", "")


def _check_secrets(request: AdmissionAttributes, spec: Object, account: Object) -> None:
    name = account["metadata"]["name"]
    allowed = {each.get("name") for each in account.get("secrets") or ()}
    if request.operation == "CREATE":
        for volume in spec.get("volumes") or ():
            secret = (volume.get("secret") or {}).get("secretName")
            if secret and secret not in allowed:
                raise reject(
                    request,
                    f'volume with secret.secretName="{secret}" is not allowed because service account {name} '
                    "does not reference that secret",
                )
    for place, secret in _environment_secrets(spec):
        if secret not in allowed:
            raise reject(
                request,
                f'{place} referencing secret.secretName="{secret}" is not allowed because service account '
                f"{name} does not reference that secret",
            )
    pullable = {each.get("name") for each in account.get("imagePullSecrets") or ()}
    for position, reference in enumerate(spec.get("imagePullSecrets") or ()):
        if reference.get("name") not in pullable:
            raise reject(
                request,
                f'imagePullSecrets[{position}].name="{reference.get("name")}" is not allowed because service '
                f"account {name} does not reference that imagePullSecret",
            )
