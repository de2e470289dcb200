"""What `kubectl explain` says about built-in kinds: a line for each kind and for the fields that all share.

The fields below `spec` and `status` speak through their names and types.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

API_VERSION = "APIVersion defines the group and version of this object's schema."
KIND = "The kind of this object, in CamelCase; it cannot be changed."
METADATA = (
    "Standard object's metadata. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)

_FIELDS = {
    "apiVersion": API_VERSION,
    "kind": KIND,
    "metadata": METADATA,
    "spec": "What is wanted.",
    "status": "What there is, as it was last observed. The system writes it.",
}

_LIST_FIELDS = {**_FIELDS, "items": "The objects of the list."}

_STATUS_FIELDS = {
    **_FIELDS,
    "code": "The code of the answer.",
    "details": "What the reason says in words, for programs.",
    "message": "What happened, for people.",
    "reason": "Why it failed, in one word.",
    "status": "Success or Failure.",
}

_METADATA_FIELDS = {
    "annotations": "Any text for tools and people, by key; nothing is selected by it.",
    "creationTimestamp": "CreationTimestamp is a timestamp: when the object was created. The server sets it.",
    "deletionGracePeriodSeconds": "How long the object may take to end. The server sets it on deletion.",
    "deletionTimestamp": "When deletion was asked for; the object goes when it has no finalizers any more.",
    "finalizers": "Who has to do something before the object may go.",
    "generateName": "The beginning of a name to which the server adds random characters.",
    "generation": "Counts the changes of what is wanted. The server sets it.",
    "labels": "Short texts by key that objects are selected and grouped by.",
    "managedFields": "Which fields were last set by whom.",
    "name": "The name, unique among the objects of a kind in a namespace. It cannot be changed.",
    "namespace": "The namespace that the object is in; empty for kinds that are not in one.",
    "ownerReferences": "The objects that this one depends on; when all of them are gone, it goes, too.",
    "resourceVersion": "Changes with every write. Send it back to fail when somebody else was faster.",
    "selfLink": "Not used any more.",
    "uid": "Unique over all objects and all time. The server sets it.",
}

_KINDS = {
    "APIService": "A group and version of the API, and the server that answers for it.",
    "CSIDriver": "What a storage driver can do.",
    "CSINode": "The storage drivers on a node.",
    "CertificateSigningRequest": "Asks for a certificate, to be approved or denied.",
    "ClusterRole": "What may be done, in all namespaces and outside of them.",
    "ClusterRoleBinding": "Who has a cluster role everywhere.",
    "ConfigMap": "Settings for programs, by key.",
    "ControllerRevision": "An earlier state of a workload, to go back to.",
    "CronJob": "Makes a job whenever a schedule says so.",
    "CustomResourceDefinition": "Adds a kind to the API.",
    "DaemonSet": "Runs a pod on every node that fits.",
    "Deployment": "Runs a number of equal pods and replaces them step by step when their template changes.",
    "EndpointSlice": "Addresses behind a service.",
    "Endpoints": "Addresses behind a service, all in one object; endpoint slices come after it.",
    "Event": "Something happened to an object. Events are forgotten after a while.",
    "FlowSchema": "Sorts requests into priority levels.",
    "HorizontalPodAutoscaler": "Scales a workload by what is measured.",
    "Ingress": "Brings HTTP from outside to services, by host and path.",
    "IngressClass": "Who takes care of ingresses.",
    "Job": "Runs pods until enough of them have succeeded.",
    "Lease": "Who holds something, and until when.",
    "LimitRange": "Defaults and limits of what single objects in a namespace may ask for.",
    "MutatingAdmissionPolicy": "Changes objects on their way in, by expressions.",
    "MutatingWebhookConfiguration": "Which webhooks may change objects on their way in.",
    "Namespace": "A room for names; deleting it deletes what is in it.",
    "NetworkPolicy": "Which connections pods may have.",
    "Node": "A machine that runs pods.",
    "PersistentVolume": "A piece of storage.",
    "PersistentVolumeClaim": "Asks for a piece of storage.",
    "Pod": "Containers that run together on one node.",
    "PodDisruptionBudget": "How many pods have to stay when some are evicted.",
    "PodTemplate": "A template that pods are made from.",
    "PriorityClass": "How important pods are.",
    "PriorityLevelConfiguration": "How many requests of a level are answered at a time.",
    "ReplicaSet": "Keeps a number of equal pods running; usually a deployment owns it.",
    "ReplicationController": "Keeps a number of equal pods running; deployments come after it.",
    "ResourceQuota": "Limits what all objects in a namespace may ask for together.",
    "Role": "What may be done in a namespace.",
    "RoleBinding": "Who has a role in a namespace.",
    "RuntimeClass": "How containers are run.",
    "Secret": "Confidential data, by key.",
    "SelfSubjectAccessReview": "May I?",
    "SelfSubjectReview": "Who am I?",
    "SelfSubjectRulesReview": "What may I do in a namespace?",
    "Service": "One address for the pods that a selector finds.",
    "ServiceAccount": "Who programs in pods are.",
    "Status": "What became of a request that has no object to answer with.",
    "StatefulSet": "Runs pods that keep their names and storage.",
    "StorageClass": "A sort of storage, and how it is made.",
    "SubjectAccessReview": "May somebody do something?",
    "TokenReview": "Whose token is this?",
    "ValidatingAdmissionPolicy": "Refuses objects on their way in, by expressions.",
    "ValidatingAdmissionPolicyBinding": "Where a validating policy holds, and with which parameters.",
    "ValidatingWebhookConfiguration": "Which webhooks may refuse objects on their way in.",
    "VolumeAttachment": "Attaches a volume to a node.",
}


def describe(name: str, schema: Schema) -> None:
    """Put words into a published definition that has none."""
    kind = name.rpartition(".")[2]
    properties: Schema = schema.get("properties") or {}
    if kind == "ObjectMeta":
        words = _METADATA_FIELDS
    elif kind == "Patch":
        schema["description"] = "A patch of the kind that the content type names."
        return
    elif "x-kubernetes-group-version-kind" in schema and "apiVersion" in properties:
        words = _LIST_FIELDS if "items" in properties else _STATUS_FIELDS if kind == "Status" else _FIELDS
        if kind in _KINDS:
            schema.setdefault("description", _KINDS[kind])
    else:
        return
    for field, part in properties.items():
        if field in words:
            part.setdefault("description", words[field])
