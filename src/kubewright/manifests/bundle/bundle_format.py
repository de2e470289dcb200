"""Names and rules of the bundle format `registry+v1` of OLM."""

from __future__ import annotations

import re
from typing import Final

API_VERSION: Final = "operators.coreos.com/v1alpha1"
KIND: Final = "ClusterServiceVersion"
INSTALL_MODES: Final = ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
ANNOTATIONS_FILE: Final = "metadata/annotations.yaml"
BUNDLE: Final = "operators.operatorframework.io.bundle"
METRICS: Final = "operators.operatorframework.io.metrics"
SEMVER: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z.-]+)?"
)
SUPPORTED_KINDS: Final = {
    "ClusterServiceVersion": True,
    "CustomResourceDefinition": False,
    "ClusterRole": False,
    "ClusterRoleBinding": False,
    "Role": True,
    "RoleBinding": True,
    "Service": True,
    "ServiceAccount": True,
    "Secret": True,
    "ConfigMap": True,
    "ServiceMonitor": True,
    "PrometheusRule": True,
    "PodDisruptionBudget": True,
    "PriorityClass": False,
    "VerticalPodAutoscaler": False,
    "ConsoleYAMLSample": False,
    "ConsoleQuickStart": False,
    "ConsoleCLIDownload": False,
    "ConsoleLink": False,
    "ConsolePlugin": False,
    "NetworkPolicy": True,
}
"""Kinds that OLM installs from a bundle, and whether they are namespaced."""
