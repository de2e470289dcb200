"""Deployment of an extension API server: roles, pod, Service, APIServices and certificates.

The server issues its own certificate and writes the CA bundle into the APIServices; with cert-manager,
annotations request it from cert-manager's CA injector. Probes and metrics are on the port of the server.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.declaring.declarations import Rbac, has_status, resource_info
from kubewright.api.gvk import version_priority
from kubewright.manifests.project import (
    APIServerReference,
    DeployableAPIServer,
    OperatorDeployment,
)
from kubewright.manifests.rbac import DEFAULT_ROLE
from kubewright.manifests.settings import ProjectSettings
from kubewright.manifests.yaml_output import to_compact_yaml
from kubewright.schema.generation.errors import DeclarationError, Problem
from kubewright.schema.generation.from_types import schema_of

from . import manager, network, permissions
from .containers import container_limits, http_probe, pod_security_context
from .names import DeploymentNames, Manifest, service_hosts
from .samples import sample, sample_file
from .webhooks import INJECT_CA

if TYPE_CHECKING:
    from .tree import DeploymentTree

ROLES: Final = "apiserver/role.yaml"
SERVER: Final = "apiserver/apiserver.yaml"
API_SERVICES: Final = "apiserver/apiservices.yaml"
PORT: Final = 8443
"""Port of the container; the default of `APIServerSettings`."""
CERTIFICATES: Final = "/certificates/apiserver"
STORAGE: Final = "KUBEWRIGHT_STORAGE"
_PRE_STOP_SECONDS: Final = 5
_SHARED: Final = ("etcd:", "postgresql:", "postgres:")
"""Storages of several replicas."""


class APIServerNames(DeploymentNames):
    """Names of the objects of an extension API server."""

    @property
    def manager(self) -> str:
        """Deployment and ServiceAccount."""
        return f"{self.project}-apiserver"

    @property
    def selector(self) -> dict[str, str]:
        """Labels of the pods of the server."""
        return {"control-plane": "apiserver", "app.kubernetes.io/name": self.project}

    @property
    def certificate_secret(self) -> str:
        """Secret with the certificate of cert-manager."""
        return f"{self.manager}-cert"

    def prefixed(self, name: str) -> str:
        """Return the name of a role of the server."""
        return f"{self.manager}-role" if name == DEFAULT_ROLE else f"{self.manager}-{name}"


def add_api_server(
    tree: DeploymentTree,
    settings: ProjectSettings,
    reference: APIServerReference,
    problems: list[Problem],
    *,
    namespace: bool,
) -> None:
    """Add the deployment of an API server to a tree. `namespace`: whether to add the Namespace."""
    names = APIServerNames(settings.name, reference.app.name)
    storage = settings.deployment.env.get(STORAGE) or reference.app.storage
    try:
        definitions = served_definitions(reference.app)
    except DeclarationError as error:
        problems += error.problems
        return
    tree.objects[ROLES] = _roles(settings, names, reference, definitions, problems)
    tree.objects[SERVER] = [manager.namespace(names)] if namespace else []
    tree.objects[SERVER] += _server(settings, names, reference, storage)
    tree.objects[API_SERVICES] = _api_services(settings, names, reference)
    if storage.startswith("memory") and reference.app.stores_objects:
        tree.warnings.append(
            f"API server {reference.app.name} stores objects in memory, and a restart deletes them; set "
            f'{STORAGE} = "sqlite:/data/{reference.app.name}.db" or "etcd://..." in '
            "[tool.kubewright.deployment.env]"
        )
    elif settings.deployment.replicas > 1 and not storage.startswith((*_SHARED, "memory")):
        tree.warnings.append(
            f"replicas of an API server need a storage in etcd or PostgreSQL; {storage} has one replica"
        )
    for definition in definitions:
        for version in definition["spec"]["versions"]:
            if version["served"]:
                path = sample_file(definition, version["name"], settings.domain)
                tree.initial_files[path] = to_compact_yaml([sample(definition, version["name"])], width=0)


def served_definitions(app: DeployableAPIServer) -> list[Manifest]:
    """Return the kinds of an API server in the form of CRDs, for roles, samples and the API reference."""
    return list(_definitions(app))


def _definitions(app: DeployableAPIServer) -> Iterator[Manifest]:
    kinds = sorted(app.kinds, key=lambda kind: str(resource_info(kind).gvk.group_kind))
    for group_kind, versions in groupby(kinds, key=lambda kind: resource_info(kind).gvk.group_kind):
        listed = list(versions)
        info = resource_info(listed[0])
        yield {
            "spec": {
                "group": group_kind.group,
                "scope": info.scope,
                "names": {
                    "kind": info.gvk.kind,
                    "plural": info.plural,
                    "singular": info.singular,
                    "shortNames": list(info.short_names),
                },
                "versions": [
                    {
                        "name": resource_info(kind).gvk.version,
                        "served": resource_info(kind).served,
                        "additionalPrinterColumns": [
                            {"name": column.name} for column in resource_info(kind).columns
                        ],
                        "subresources": {"status": {}} if has_status(kind) else {},
                        "schema": {"openAPIV3Schema": schema_of(kind)},
                    }
                    for kind in listed
                ],
            }
        }


def _roles(
    settings: ProjectSettings,
    names: APIServerNames,
    reference: APIServerReference,
    definitions: list[Manifest],
    problems: list[Problem],
) -> list[Manifest]:
    deployment = OperatorDeployment(
        namespace=names.namespace,
        service_account=names.manager,
        managed_certificates=settings.deployment.certificates == "self-signed",
    )
    declared = reference.app.server_declarations(deployment)
    rules = [each for each in declared if isinstance(each, Rbac)]
    delegator = {"kind": "ClusterRole", "metadata": names.metadata("system:auth-delegator", namespaced=False)}
    reader = {
        "kind": "Role",
        "metadata": {
            **names.metadata("extension-apiserver-authentication-reader"),
            "namespace": "kube-system",
        },
    }
    objects = [
        permissions.service_account(names),
        *permissions.manager_roles(rules, names, problems),
        _named(permissions.bind(delegator, names), f"{names.manager}-auth-delegator"),
        _named(permissions.bind(reader, names), f"{names.manager}-auth-reader"),
    ]
    return objects + permissions.helper_roles(definitions, names)


def _named(obj: Manifest, name: str) -> Manifest:
    obj["metadata"]["name"] = name
    return obj


def _server(
    settings: ProjectSettings, names: APIServerNames, reference: APIServerReference, storage: str
) -> list[Manifest]:
    deployment = settings.deployment
    labels = names.selector
    path = PurePosixPath(storage.removeprefix("sqlite:"))
    volume = str(path.parent) if storage.startswith("sqlite:") and path.is_absolute() else ""
    spec: Manifest = {
        "replicas": deployment.replicas if storage.startswith(_SHARED) else 1,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {
                "annotations": {"kubectl.kubernetes.io/default-container": "apiserver"},
                "labels": labels,
            },
            "spec": _pod(settings, names, reference, volume),
        },
    }
    if volume:
        # A new pod must not open the file before the old one has closed it.
        spec["strategy"] = {"type": "Recreate"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**names.metadata(reference.app.service), "labels": labels},
        "spec": {"selector": labels, "ports": [{"name": "https", "port": 443, "targetPort": "https"}]},
    }
    objects: list[Manifest] = [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {**names.metadata(names.manager), "labels": labels},
            "spec": spec,
        },
        service,
    ]
    if volume:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        metadata = names.metadata(f"{names.manager}-data")
        objects.append(
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim}
        )
    if deployment.network_policy:
        rule = {"ports": [{"port": PORT, "protocol": "TCP"}]}
        objects.append(network.policy(names, "apiserver", rule))
    if deployment.monitor:
        # The certificate is for the name of the Service, and its authority differs from that of metrics.
        objects.append(network.service_monitor(names, certificates="self-signed"))
    return objects


def _pod(
    settings: ProjectSettings, names: APIServerNames, reference: APIServerReference, volume: str
) -> Manifest:
    deployment = settings.deployment
    issued = deployment.certificates == "cert-manager"
    variables = {"KUBEWRIGHT_CERTIFICATES": CERTIFICATES} if issued else {}
    environment = [{"name": name, "value": value} for name, value in {**variables, **deployment.env}.items()]
    mounts: list[Manifest] = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 - a volume of the pod
    volumes: list[Manifest] = [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}]
    security = pod_security_context()
    if issued:
        mounts.append({"name": "certificates", "mountPath": CERTIFICATES, "readOnly": True})
        volumes.append({"name": "certificates", "secret": {"secretName": names.certificate_secret}})
    if volume:
        mounts.append({"name": "data", "mountPath": volume})
        claim = {"claimName": f"{names.manager}-data"}
        volumes.append({"name": "data", "persistentVolumeClaim": claim})
        security["fsGroup"] = 65532
    container: dict[str, Any] = {
        "name": "apiserver",
        "image": deployment.image,
        "command": ["kubewright", "run", reference.target],
        "args": ["--production"],
    }
    if environment:
        container["env"] = environment
    container |= {
        "ports": [{"name": "https", "containerPort": PORT}],
        # Requests are served until no proxy forwards them to this pod any more.
        "lifecycle": {"preStop": {"sleep": {"seconds": _PRE_STOP_SECONDS}}},
        "livenessProbe": http_probe("/livez", "https", delay=15, period=20, scheme="HTTPS"),
        "readinessProbe": http_probe("/readyz", "https", delay=2, period=10, scheme="HTTPS"),
        **container_limits(),
        "volumeMounts": mounts,
    }
    return {
        "serviceAccountName": names.manager,
        "securityContext": security,
        "containers": [container],
        "volumes": volumes,
    }


def _api_services(
    settings: ProjectSettings, names: APIServerNames, reference: APIServerReference
) -> list[Manifest]:
    app, issued = reference.app, settings.deployment.certificates == "cert-manager"
    certificate = f"{names.manager}-serving-cert"
    objects = _certificates(names, app.service, certificate) if issued else []
    group_versions = sorted(
        app.group_versions(), key=lambda each: (each[0], version_priority(each[1])), reverse=True
    )
    for rank, (group, version) in enumerate(group_versions, 10):
        metadata = names.metadata(f"{version}.{group}", namespaced=False)
        if issued:
            metadata["annotations"] = {INJECT_CA: f"{names.namespace}/{certificate}"}
        objects.append(
            {
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": metadata,
                "spec": {
                    "group": group,
                    "version": version,
                    "groupPriorityMinimum": app.group_priority,
                    "versionPriority": rank,
                    "service": {"name": app.service, "namespace": names.namespace, "port": 443},
                },
            }
        )
    return objects


def _certificates(names: APIServerNames, service: str, certificate: str) -> list[Manifest]:
    issuer = f"{names.manager}-selfsigned-issuer"
    group = "cert-manager.io/v1"
    return [
        {
            "apiVersion": group,
            "kind": "Issuer",
            "metadata": names.metadata(issuer),
            "spec": {"selfSigned": {}},
        },
        {
            "apiVersion": group,
            "kind": "Certificate",
            "metadata": names.metadata(certificate),
            "spec": {
                "dnsNames": service_hosts(service, names.namespace),
                "issuerRef": {"kind": "Issuer", "name": issuer},
                "secretName": names.certificate_secret,
            },
        },
    ]
