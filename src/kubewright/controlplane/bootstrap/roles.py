"""Bootstrap RBAC: the roles and bindings of a new cluster, in a compact notation.

A role is its name and, indented below it, one rule per line: `glw apps|extensions:deployments` allows get,
list and watch of deployments in two groups; `=` adds resource names; a rule that begins with `/` is a
non-resource rule. Verbs are letters as in `kubewright.api.builtin.resources`, or names that follow a `+`.
`EVENTS` is the rule of components that write events. A line with deeper indentation continues the line above.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubewright.api.builtin.resources import VERBS
from kubewright.apiserver.resources.objects import Object

RBAC: Final = "rbac.authorization.k8s.io"
_EVENTS: Final = "cpu core|events.k8s.io:events"

CLUSTER_ROLES: Final = """
cluster-admin
  +* *:*
  +* *
system:aggregate-to-admin
  c authorization.k8s.io:localsubjectaccessreviews
  cdDglpuw rbac.authorization.k8s.io:rolebindings,roles
system:aggregate-to-edit
  glw core:pods/attach,pods/exec,pods/portforward,pods/proxy,secrets,services/proxy
  +impersonate core:serviceaccounts
  cdDpu core:pods,pods/attach,pods/exec,pods/portforward,pods/proxy
  c core:pods/eviction
  cdDpu core:configmaps,persistentvolumeclaims,replicationcontrollers,replicationcontrollers/scale,
    secrets,serviceaccounts,services,services/proxy
  c core:serviceaccounts/token
  cdDpu core|events.k8s.io:events
  cdDpu apps:daemonsets,deployments,deployments/rollback,deployments/scale,replicasets,
    replicasets/scale,statefulsets,statefulsets/scale
  cdDpu autoscaling:horizontalpodautoscalers
  cdDpu batch:cronjobs,jobs
  cdDpu extensions:daemonsets,deployments,deployments/rollback,deployments/scale,ingresses,
    networkpolicies,replicasets,replicasets/scale,replicationcontrollers/scale
  cdDpu policy:poddisruptionbudgets
  cdDpu networking.k8s.io:ingresses,networkpolicies
  cdDglpuw coordination.k8s.io:leases
  cdDpu resource.k8s.io:resourceclaims,resourceclaimtemplates
system:aggregate-to-view
  glw core:configmaps,endpoints,persistentvolumeclaims,persistentvolumeclaims/status,pods,
    replicationcontrollers,replicationcontrollers/scale,serviceaccounts,services,services/status
  glw core:bindings,limitranges,namespaces/status,pods/log,pods/status,replicationcontrollers/status,
    resourcequotas,resourcequotas/status
  glw core:namespaces
  glw core|events.k8s.io:events
  glw discovery.k8s.io:endpointslices
  glw apps:controllerrevisions,daemonsets,daemonsets/status,deployments,deployments/scale,
    deployments/status,replicasets,replicasets/scale,replicasets/status,statefulsets,statefulsets/scale,
    statefulsets/status
  glw autoscaling:horizontalpodautoscalers,horizontalpodautoscalers/status
  glw batch:cronjobs,cronjobs/status,jobs,jobs/status
  glw extensions:daemonsets,daemonsets/status,deployments,deployments/scale,deployments/status,
    ingresses,ingresses/status,networkpolicies,replicasets,replicasets/scale,replicasets/status,
    replicationcontrollers/scale
  glw policy:poddisruptionbudgets,poddisruptionbudgets/status
  glw networking.k8s.io:ingresses,ingresses/status,networkpolicies
  glw resource.k8s.io:resourceclaims,resourceclaims/status,resourceclaimtemplates
system:auth-delegator
  c authentication.k8s.io:tokenreviews
  c authorization.k8s.io:subjectaccessreviews
system:basic-user
  c authorization.k8s.io:selfsubjectaccessreviews,selfsubjectrulesreviews
  c authentication.k8s.io:selfsubjectreviews
system:certificates.k8s.io:certificatesigningrequests:nodeclient
  c certificates.k8s.io:certificatesigningrequests/nodeclient
system:certificates.k8s.io:certificatesigningrequests:selfnodeclient
  c certificates.k8s.io:certificatesigningrequests/selfnodeclient
system:certificates.k8s.io:kube-apiserver-client-approver
  +approve certificates.k8s.io:signers=kubernetes.io/kube-apiserver-client
system:certificates.k8s.io:kube-apiserver-client-kubelet-approver
  +approve certificates.k8s.io:signers=kubernetes.io/kube-apiserver-client-kubelet
system:certificates.k8s.io:kubelet-serving-approver
  +approve certificates.k8s.io:signers=kubernetes.io/kubelet-serving
system:certificates.k8s.io:legacy-unknown-approver
  +approve certificates.k8s.io:signers=kubernetes.io/legacy-unknown
system:controller:attachdetach-controller
  lw core:persistentvolumeclaims,persistentvolumes
  glw core:nodes
  pu core:nodes/status
  lw core:pods
  EVENTS
  cdglw storage.k8s.io:volumeattachments
  glw storage.k8s.io:csidrivers
  glw storage.k8s.io:csinodes
system:controller:certificate-controller
  dglw certificates.k8s.io:certificatesigningrequests
  u certificates.k8s.io:certificatesigningrequests/approval,certificatesigningrequests/status
  +approve certificates.k8s.io:signers=kubernetes.io/kube-apiserver-client-kubelet
  +sign certificates.k8s.io:signers=kubernetes.io/kube-apiserver-client,
    kubernetes.io/kube-apiserver-client-kubelet,kubernetes.io/kubelet-serving,
    kubernetes.io/legacy-unknown
  c authorization.k8s.io:subjectaccessreviews
  EVENTS
system:controller:clusterrole-aggregation-controller
  +escalate+get+list+patch+update+watch rbac.authorization.k8s.io:clusterroles
system:controller:cronjob-controller
  gluw batch:cronjobs
  cdglpuw batch:jobs
  u batch:cronjobs/status
  u batch:cronjobs/finalizers
  dlw core:pods
  EVENTS
system:controller:daemon-set-controller
  glw apps|extensions:daemonsets
  u apps|extensions:daemonsets/status
  u apps|extensions:daemonsets/finalizers
  lw core:nodes
  cdlpw core:pods
  c core:pods/binding
  cdglpuw apps:controllerrevisions
  EVENTS
system:controller:deployment-controller
  gluw apps|extensions:deployments
  u apps|extensions:deployments/status
  u apps|extensions:deployments/finalizers
  cdglpuw apps|extensions:replicasets
  gluw core:pods
  EVENTS
system:controller:device-taint-eviction-controller
  dglw core:pods
  pu core:pods/status
  glw resource.k8s.io:resourceclaims
  glw resource.k8s.io:resourceslices
  glw resource.k8s.io:deviceclasses
  EVENTS
system:controller:disruption-controller
  glw apps|extensions:deployments
  glw apps|extensions:replicasets
  glw core:replicationcontrollers
  glw policy:poddisruptionbudgets
  glw apps:statefulsets
  u policy:poddisruptionbudgets/status
  pu core:pods/status
  g *:*/scale
  EVENTS
system:controller:endpoint-controller
  glw core:pods,services
  cdgluw core:endpoints
  c core:endpoints/restricted
  EVENTS
system:controller:endpointslice-controller
  glw core:nodes,pods,services
  u core:services/finalizers
  cdgluw discovery.k8s.io:endpointslices
  EVENTS
system:controller:endpointslicemirroring-controller
  glw core:endpoints,services
  u core:services/finalizers
  u core:endpoints/finalizers
  cdgluw discovery.k8s.io:endpointslices
  EVENTS
system:controller:ephemeral-volume-controller
  glw core:pods
  u core:pods/finalizers
  cglw core:persistentvolumeclaims
  EVENTS
system:controller:expand-controller
  glpuw core:persistentvolumes
  pu core:persistentvolumeclaims/status
  glw core:persistentvolumeclaims
  EVENTS
system:controller:generic-garbage-collector
  dglpuw *:*
  EVENTS
system:controller:horizontal-pod-autoscaler
  glw autoscaling:horizontalpodautoscalers
  u autoscaling:horizontalpodautoscalers/status
  gu *:*/scale
  lw core:pods
  lw metrics.k8s.io:pods
  glw custom.metrics.k8s.io:*
  glw external.metrics.k8s.io:*
  EVENTS
system:controller:job-controller
  glpuw batch:jobs
  u batch:jobs/status
  u batch:jobs/finalizers
  cdlpw core:pods
  EVENTS
system:controller:legacy-service-account-token-cleaner
  g core:configmaps=kube-apiserver-legacy-service-account-token-tracking
  dp core:secrets
system:controller:namespace-controller
  dglw core:namespaces
  u core:namespaces/finalize,namespaces/status
  dDglw *:*
system:controller:node-controller
  dglpuw core:nodes
  pu core:nodes/status
  pu core:pods/status
  dglw core:pods
  glw coordination.k8s.io:leases
  EVENTS
system:controller:persistent-volume-binder
  cdgluw core:persistentvolumes
  u core:persistentvolumes/status
  gluw core:persistentvolumeclaims
  u core:persistentvolumeclaims/status
  cdglw core:pods
  glw storage.k8s.io:storageclasses
  lw core:nodes
  EVENTS
  w core:events
system:controller:pod-garbage-collector
  dlw core:pods
  glw core:nodes
  p core:pods/status
system:controller:pv-protection-controller
  gluw core:persistentvolumes
  EVENTS
system:controller:pvc-protection-controller
  gluw core:persistentvolumeclaims
  u core:persistentvolumeclaims/status
  glw core:pods
  EVENTS
system:controller:replicaset-controller
  gluw apps|extensions:replicasets
  u apps|extensions:replicasets/status
  u apps|extensions:replicasets/finalizers
  cdlpw core:pods
  EVENTS
system:controller:replication-controller
  gluw core:replicationcontrollers
  u core:replicationcontrollers/status
  u core:replicationcontrollers/finalizers
  cdlpw core:pods
  EVENTS
system:controller:resource-claim-controller
  glw core:pods
  u core:pods/finalizers
  cdglw resource.k8s.io:resourceclaims
  pu resource.k8s.io:resourceclaims,resourceclaims/status
  pu core:pods/status
  EVENTS
  pu resource.k8s.io:resourceclaims/binding
system:controller:resourcequota-controller
  lw *:*
  u core:resourcequotas/status
  EVENTS
system:controller:root-ca-cert-publisher
  cu core:configmaps
  EVENTS
system:controller:route-controller
  lw core:nodes
  p core:nodes/status
  EVENTS
system:controller:selinux-warning-controller
  EVENTS
  glw core:persistentvolumes
  glw core:persistentvolumeclaims
  glw core:pods
  glw storage.k8s.io:csidrivers
system:controller:service-account-controller
  c core:serviceaccounts
  EVENTS
system:controller:service-cidrs-controller
  glpuw networking.k8s.io:servicecidrs
  pu networking.k8s.io:servicecidrs/finalizers
  pu networking.k8s.io:servicecidrs/status
  glw networking.k8s.io:ipaddresses
  EVENTS
system:controller:service-controller
  glw core:services
  pu core:services/status
  lw core:nodes
  EVENTS
system:controller:statefulset-controller
  lw core:pods
  glw apps:statefulsets
  u apps:statefulsets/status
  u apps:statefulsets/finalizers
  cdgpu core:pods
  cdglpuw apps:controllerrevisions
  cglw core:persistentvolumeclaims
  du core:persistentvolumeclaims
  u core:pods/finalizers
  EVENTS
system:controller:ttl-after-finished-controller
  dglw batch:jobs
  EVENTS
system:controller:ttl-controller
  lpuw core:nodes
  EVENTS
system:controller:validatingadmissionpolicy-status-controller
  glw admissionregistration.k8s.io:validatingadmissionpolicies
  gpu admissionregistration.k8s.io:validatingadmissionpolicies/status
  EVENTS
system:controller:volumeattributesclass-protection-controller
  glw core:persistentvolumeclaims
  glw core:persistentvolumes
  gluw storage.k8s.io:volumeattributesclasses
  EVENTS
system:discovery
  g /api,/api/*,/apis,/apis/*,/healthz,/livez,/openapi,/openapi/*,/readyz,/version,/version/
system:heapster
  glw core:events,namespaces,nodes,pods
  glw extensions:deployments
system:kube-aggregator
  glw core:endpoints,services
system:kube-controller-manager
  EVENTS
  c coordination.k8s.io:leases
  gu coordination.k8s.io:leases=kube-controller-manager
  c core:secrets,serviceaccounts
  d core:secrets
  g core:configmaps,namespaces,secrets,serviceaccounts
  u core:secrets,serviceaccounts
  c authentication.k8s.io:tokenreviews
  c authorization.k8s.io:subjectaccessreviews
  lw *:*
  c core:serviceaccounts/token
system:kube-dns
  lw core:endpoints,services
system:kube-scheduler
  EVENTS
  c coordination.k8s.io:leases
  gluw coordination.k8s.io:leases=kube-scheduler
  cdDglpuw coordination.k8s.io:leasecandidates
  glw core:nodes
  dglw core:pods
  c core:bindings,pods/binding
  pu core:pods/status
  glw core:replicationcontrollers,services
  glw apps|extensions:replicasets
  glw apps:statefulsets
  glw policy:poddisruptionbudgets
  glw core:persistentvolumeclaims,persistentvolumes
  c authentication.k8s.io:tokenreviews
  c authorization.k8s.io:subjectaccessreviews
  glw storage.k8s.io:csinodes
  glw storage.k8s.io:volumeattachments
  glw core:namespaces
  glw storage.k8s.io:csidrivers
  glw storage.k8s.io:csistoragecapacities
  glw resource.k8s.io:deviceclasses
  glpuw resource.k8s.io:resourceclaims
  glpuw resource.k8s.io:resourceclaims/status
  u core:pods/finalizers
  glw resource.k8s.io:resourceslices
  cd resource.k8s.io:resourceclaims
  pu resource.k8s.io:resourceclaims/binding
system:kubelet-api-admin
  glw core:nodes
  +proxy core:nodes
  +* core:nodes/log,nodes/metrics,nodes/proxy,nodes/stats
  +* core:nodes/configz,nodes/healthz,nodes/pods
system:monitoring
  g /flagz,/healthz,/healthz/*,/livez,/livez/*,/metrics,/metrics/slis,/readyz,/readyz/*,/statusz
  g core:nodes/metrics
system:node
  c authentication.k8s.io:tokenreviews
  c authorization.k8s.io:localsubjectaccessreviews,subjectaccessreviews
  glw core:services
  cglw core:nodes
  pu core:nodes/status
  pu core:nodes
  EVENTS
  glw core:pods
  cd core:pods
  pu core:pods/status
  c core:pods/eviction
  glw core:configmaps,secrets
  g core:persistentvolumeclaims,persistentvolumes
  g core:endpoints
  cglw certificates.k8s.io:certificatesigningrequests
  cdgpu coordination.k8s.io:leases
  g storage.k8s.io:volumeattachments
  c core:serviceaccounts/token
  gpu core:persistentvolumeclaims/status
  glw storage.k8s.io:csidrivers
  cdgpu storage.k8s.io:csinodes
  glw node.k8s.io:runtimeclasses
  g resource.k8s.io:resourceclaims
  D resource.k8s.io:resourceslices
  g core:serviceaccounts
system:node-bootstrapper
  cglw certificates.k8s.io:certificatesigningrequests
system:node-problem-detector
  g core:nodes
  p core:nodes/status
  EVENTS
system:node-proxier
  lw core:endpoints,services
  glw core:nodes
  EVENTS
  lw networking.k8s.io:servicecidrs
  lw discovery.k8s.io:endpointslices
system:persistent-volume-provisioner
  cdglw core:persistentvolumes
  gluw core:persistentvolumeclaims
  glw storage.k8s.io:storageclasses
  w core:events
  EVENTS
system:public-info-viewer
  g /healthz,/livez,/readyz,/version,/version/
system:service-account-issuer-discovery
  g /.well-known/openid-configuration,/.well-known/openid-configuration/,/openid/v1/jwks,
    /openid/v1/jwks/
system:volume-scheduler
  glpuw core:persistentvolumes
  glw storage.k8s.io:storageclasses
  glpuw core:persistentvolumeclaims
"""

ROLES: Final = """
kube-public/system:controller:bootstrap-signer
  glw core:configmaps
  u core:configmaps=cluster-info
  EVENTS
kube-system/extension-apiserver-authentication-reader
  glw core:configmaps=extension-apiserver-authentication
kube-system/system::leader-locking-kube-controller-manager
  cgluw coordination.k8s.io:leases
  cgluw coordination.k8s.io:leasecandidates
kube-system/system::leader-locking-kube-scheduler
  cgluw coordination.k8s.io:leases
  cgluw coordination.k8s.io:leasecandidates
kube-system/system:controller:bootstrap-signer
  glw core:secrets
kube-system/system:controller:cloud-provider
  cglw core:configmaps
kube-system/system:controller:token-cleaner
  dglw core:secrets
  EVENTS
"""

AGGREGATED: Final = {"admin": "", "edit": "admin", "view": "edit"}
"""Roles that gather others by label, and the role that in turn gathers them."""

BINDINGS: Final = """
cluster-admin
  Group system:masters
system:basic-user
  Group system:authenticated
system:discovery
  Group system:authenticated
system:kube-controller-manager
  User system:kube-controller-manager
system:kube-dns
  ServiceAccount kube-system/kube-dns
system:kube-scheduler
  User system:kube-scheduler
system:monitoring
  Group system:monitoring
system:node
system:node-proxier
  User system:kube-proxy
system:public-info-viewer
  Group system:authenticated
  Group system:unauthenticated
system:service-account-issuer-discovery
  Group system:serviceaccounts
system:volume-scheduler
  User system:kube-scheduler
"""
"""ClusterRoleBindings, named as the role they bind. Every `system:controller:` role is bound to the service
account of that controller besides."""

ROLE_BINDINGS: Final = """
kube-public/system:controller:bootstrap-signer
  system:controller:bootstrap-signer
  ServiceAccount kube-system/bootstrap-signer
kube-system/system::extension-apiserver-authentication-reader
  extension-apiserver-authentication-reader
  User system:kube-controller-manager
  User system:kube-scheduler
kube-system/system::leader-locking-kube-controller-manager
  system::leader-locking-kube-controller-manager
  User system:kube-controller-manager
  ServiceAccount kube-system/kube-controller-manager
  ServiceAccount kube-system/leader-election-controller
kube-system/system::leader-locking-kube-scheduler
  system::leader-locking-kube-scheduler
  User system:kube-scheduler
  ServiceAccount kube-system/kube-scheduler
kube-system/system:controller:bootstrap-signer
  system:controller:bootstrap-signer
  ServiceAccount kube-system/bootstrap-signer
kube-system/system:controller:cloud-provider
  system:controller:cloud-provider
  ServiceAccount kube-system/cloud-provider
kube-system/system:controller:token-cleaner
  system:controller:token-cleaner
  ServiceAccount kube-system/token-cleaner
"""


def _rule(text: str) -> Object:
    letters, _, rest = (_EVENTS if text == "EVENTS" else text).partition(" ")
    verbs = letters[1:].split("+") if letters[0] == "+" else [VERBS[letter] for letter in letters]
    if rest[0] in "/*" and ":" not in rest:
        return {"verbs": verbs, "nonResourceURLs": rest.split(",")}
    groups, _, things = rest.partition(":")
    resources, _, names = things.partition("=")
    rule: Object = {
        "verbs": verbs,
        "apiGroups": ["" if group == "core" else group for group in groups.split("|")],
        "resources": resources.split(","),
    }
    if names:
        rule["resourceNames"] = names.split(",")
    return rule


def _entries(table: str) -> Iterator[tuple[str, list[str]]]:
    """Names and the lines that are indented below them."""
    for entry in table.replace("\n    ", "").replace("\n  ", "\t").strip().split("\n"):
        name, *lines = entry.split("\t")
        yield name, lines


def _metadata(name: str, namespace: str = "", **labels: str) -> Object:
    metadata: Object = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {"kubernetes.io/bootstrapping": "rbac-defaults", **labels}
    metadata["annotations"] = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    return metadata


def _gathered_by(role: str) -> dict[str, str]:
    return {f"{RBAC}/aggregate-to-{role}": "true"}


def cluster_roles() -> Iterator[Object]:
    """Every ClusterRole."""
    for name, above in AGGREGATED.items():
        yield {
            "metadata": _metadata(name, **(_gathered_by(above) if above else {})),
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": _gathered_by(name)}]},
            "rules": None,
        }
    for name, rules in _entries(CLUSTER_ROLES):
        into = name.removeprefix("system:aggregate-to-")
        labels = _gathered_by(into) if into != name else {}
        yield {"metadata": _metadata(name, **labels), "rules": [_rule(text) for text in rules]}


def roles() -> Iterator[Object]:
    """Every Role."""
    for place, rules in _entries(ROLES):
        namespace, _, name = place.partition("/")
        yield {"metadata": _metadata(name, namespace), "rules": [_rule(text) for text in rules]}


def _subjects(lines: list[str]) -> list[Object]:
    found: list[Object] = []
    for line in lines:
        kind, _, name = line.partition(" ")
        if kind == "ServiceAccount":
            namespace, _, account = name.partition("/")
            found.append({"kind": kind, "name": account, "namespace": namespace})
        else:
            found.append({"kind": kind, "apiGroup": RBAC, "name": name})
    return found


def _binding(metadata: Object, kind: str, role: str, subjects: list[Object]) -> Object:
    binding: Object = {"metadata": metadata, "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role}}
    if subjects:
        binding["subjects"] = subjects
    return binding


def cluster_role_bindings() -> Iterator[Object]:
    """Every ClusterRoleBinding."""
    for name, lines in _entries(BINDINGS):
        yield _binding(_metadata(name), "ClusterRole", name, _subjects(lines))
    for name, _ in _entries(CLUSTER_ROLES):
        controller = name.removeprefix("system:controller:")
        if controller != name:
            subjects = _subjects([f"ServiceAccount kube-system/{controller}"])
            yield _binding(_metadata(name), "ClusterRole", name, subjects)


def role_bindings() -> Iterator[Object]:
    """Every RoleBinding."""
    for place, (role, *subjects) in _entries(ROLE_BINDINGS):
        namespace, _, name = place.partition("/")
        yield _binding(_metadata(name, namespace), "Role", role, _subjects(subjects))
