"""The files of a Helm chart, from the same objects as the kustomization.

Names and labels become expressions by placeholders: objects are written as YAML with names such as
`KWFULLNAME-manager-role`, and the placeholders are replaced in the text. What a value switches on is inside
of an `if`; for `rbac.namespaced` the roles of both modes are generated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from typing import Any, Final

from kubewright.api.presence import copy_value
from kubewright.manifests.deployment import alerts, apiserver, network, webhooks
from kubewright.manifests.deployment.names import Manifest
from kubewright.manifests.deployment.tree import DeploymentTree
from kubewright.manifests.project import ProjectError
from kubewright.manifests.settings import ProjectSettings
from kubewright.manifests.yaml_output import to_compact_yaml

_FULLNAME: Final = "KWFULLNAME"
_NAMESPACE: Final = "KWNAMESPACE"
_ACCOUNT: Final = "KWSERVICEACCOUNT"
_METRICS_PORT: Final = "KWMETRICSPORT"
_WEBHOOK_PORT: Final = "KWWEBHOOKPORT"
_ROLE_NAMESPACE: Final = "KWROLENAMESPACE"
_LABELS: Final = "kw-labels"
_SELECTOR: Final = "kw-selector"


@dataclass
class Chart:
    """Files by path relative to the directory of the chart."""

    user_files: dict[str, str] = field(default_factory=dict)
    """Files that belong to the user once they exist."""
    generated_files: dict[str, str] = field(default_factory=dict)
    """Files that are written each time."""


def build_chart(
    settings: ProjectSettings, tree: DeploymentTree, namespaced_tree: DeploymentTree, *, version: str
) -> Chart:
    """Return the chart of a deployment.

    Both trees have all webhooks and metrics; `namespaced_tree` has roles for an operator that watches only
    its own namespace.
    """
    if apiserver.SERVER in tree.objects:
        raise ProjectError(
            "Helm charts with an API server are not supported; use kubewright build-installer, or the "
            "kustomization of kubewright manifests"
        )
    builder = _ChartBuilder(settings, tree, namespaced_tree)
    chart = Chart()
    chart.user_files = {
        "Chart.yaml": builder.fill(template("Chart.yaml")).replace("VERSION", version),
        "values.yaml": builder.values(),
        ".helmignore": template("helmignore.txt"),
        "templates/_helpers.tpl": builder.fill(template("_helpers.tpl")),
        "templates/NOTES.txt": builder.fill(template("NOTES.txt")),
    }
    chart.generated_files = {
        **{
            f"templates/{name}": builder.definition(objects[0])
            for name, objects in tree.objects.items()
            if name.startswith("crd/")
        },
        "templates/rbac/role.yaml": builder.roles(),
        "templates/manager/manager.yaml": builder.manager(),
        "templates/certmanager/certificates.yaml": builder.certificates(),
    }
    if builder.has_webhooks:
        chart.generated_files["templates/webhook/manifests.yaml"] = builder.webhooks()
    return chart


def template(name: str) -> str:
    """Return a file of the folder `templates`, in which `CHART` stands for the name of the chart."""
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


class _ChartBuilder:
    def __init__(
        self, settings: ProjectSettings, tree: DeploymentTree, namespaced_tree: DeploymentTree
    ) -> None:
        self._settings = settings
        self._names = tree.names
        self._tree, self._namespaced = tree, namespaced_tree
        self.has_webhooks = "webhook/manifests.yaml" in tree.objects
        own = {each["metadata"]["name"] for objects in tree.objects.values() for each in objects}
        own |= {f"{self._names.operator}-webhook-certificates", self._names.serving_certificate}
        own |= {f"{self._names.project}-selfsigned-issuer", f"{self._names.project}-metrics-certs"}
        own |= {
            f"{self._names.manager}-{suffix}" for suffix in ("alerts", "metrics-monitor", "metrics-service")
        }
        prefixes = (self._names.project, self._names.operator)
        self._known = {
            name: f"{_FULLNAME}-{name.removeprefix(f'{prefix}-')}"
            for prefix in prefixes
            for name in own
            if name.startswith(f"{prefix}-") and name != self._names.namespace
        }
        self._pattern = re.compile(
            "|".join(
                rf"(?<![\w-]){re.escape(name)}(?![\w-])"
                for name in sorted((*self._known, self._names.namespace), key=len, reverse=True)
            )
        )

    # Text

    def fill(self, text: str) -> str:
        """Return a fixed text with the name of the chart."""
        return text.replace("CHART", self._settings.name)

    def _placeholders(self, value: Any) -> Any:
        """Return data in which names and namespace of the deployment are placeholders."""
        if isinstance(value, dict):
            return {key: self._placeholders(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._placeholders(item) for item in value]
        if isinstance(value, str):
            return self._pattern.sub(lambda found: self._known.get(found.group(), _NAMESPACE), value)
        return value

    def _object(self, manifest: Manifest) -> str:
        """Return an object as a template."""
        prepared: Manifest = copy_value(manifest)
        metadata = prepared["metadata"]
        metadata["labels"] = {_LABELS: ""}
        for subject in prepared.get("subjects", ()):
            subject["name"] = _ACCOUNT
        spec = prepared.get("spec")
        if isinstance(spec, dict):
            for holder, key in ((spec, "selector"), (spec, "podSelector")):
                selector = holder.get(key)
                if selector == self._names.selector:
                    holder[key] = {_SELECTOR: ""}
                elif isinstance(selector, dict) and selector.get("matchLabels") == self._names.selector:
                    selector["matchLabels"] = {_SELECTOR: ""}
        if prepared["kind"] == "Service" and metadata["name"] == self._names.metrics_service:
            # The ServiceMonitor selects this Service by the labels of the pods.
            metadata["labels"]["control-plane"] = "controller-manager"
        text = to_compact_yaml([self._placeholders(prepared)], width=0)
        return self._expressions(text)

    def _expressions(self, text: str) -> str:
        """Replace placeholders by template expressions."""
        name = self._settings.name
        text = text.replace("{{", '{{ "{{" }}')
        for key, helper in ((_LABELS, "labels"), (_SELECTOR, "selectorLabels")):
            text = re.sub(
                rf"^( *){key}: .*$",
                partial(_include_helper, f"{name}.{helper}"),
                text,
                flags=re.MULTILINE,
            )
        for token, expression in (
            (_FULLNAME, f'{{{{ include "{name}.fullname" . }}}}'),
            (_ACCOUNT, f'{{{{ include "{name}.serviceAccountName" . }}}}'),
            (_NAMESPACE, "{{ .Release.Namespace }}"),
            (_METRICS_PORT, "{{ .Values.metrics.port }}"),
            (_WEBHOOK_PORT, "{{ .Values.webhook.port }}"),
        ):
            text = text.replace(token, expression)
        return text

    def _objects(self, manifests: Iterable[Manifest], condition: str = "") -> str:
        """Return objects as documents, inside of an `if` with the condition."""
        body = "".join(f"---\n{self._object(each)}" for each in manifests)
        return f"{{{{- if {condition} }}}}\n{body}{{{{- end }}}}\n" if condition and body else body

    # Files

    def values(self) -> str:
        """Return `values.yaml` with the settings of the project as defaults."""
        deployment = self._settings.deployment
        repository, tag = _split_image(deployment.image)

        def block(items: list[Any]) -> str:
            if not items:
                return " []"
            return "\n" + "\n".join(f"  {line}" for line in to_compact_yaml([items], width=0).splitlines())

        arguments = ["--leader-elect"] if deployment.leader_election else []
        environment = [{"name": name, "value": value} for name, value in deployment.env.items()]
        replaced = {
            "REPLICAS": str(deployment.replicas),
            "REPOSITORY": repository,
            "TAG": f'"{tag}"',
            "ARGS": block(arguments),
            "ENV": block(environment),
            "NAMESPACED": _boolean(self._settings.namespaced),
            "METRICS": _boolean(deployment.metrics),
            "CERTMANAGER": _boolean(deployment.certificates == "cert-manager"),
            "WEBHOOKS": _boolean(deployment.webhooks and self.has_webhooks),
            "MONITOR": _boolean(deployment.monitor),
            "POLICY": _boolean(deployment.network_policy),
        }
        pattern = re.compile(rf"(?<=[: ])({'|'.join(replaced)})$", re.MULTILINE)
        return pattern.sub(lambda found: replaced[found.group()], template("values.yaml"))

    def definition(self, definition: Manifest) -> str:
        """Return the template of a CRD, which is part of the release so that upgrades change it."""
        prepared: Manifest = copy_value(definition)
        conversion = prepared["spec"].pop("conversion", None)
        own = prepared["metadata"].pop("annotations", {})
        own.pop(webhooks.INJECT_CA, None)
        text = self._object(prepared)
        annotations = ["  annotations:"]
        annotations += [
            "    {{- if .Values.crd.keep }}",
            "    helm.sh/resource-policy: keep",
            "    {{- end }}",
        ]
        if own:
            annotations += [f"    {line}" for line in to_compact_yaml([own], width=0).splitlines()]
        if conversion is not None:
            certificate = f'{{{{ include "{self._settings.name}.fullname" . }}}}-serving-cert'
            annotations += [
                "    {{- if and .Values.webhook.enabled .Values.certManager.enabled }}",
                f"    {webhooks.INJECT_CA}: {{{{ .Release.Namespace }}}}/{certificate}",
                "    {{- end }}",
            ]
            body = to_compact_yaml([{"conversion": self._placeholders(conversion)}], width=0)
            lines = [f"  {line}" for line in self._expressions(body).splitlines()]
            text += "\n".join(["  {{- if .Values.webhook.enabled }}", *lines, "  {{- end }}"]) + "\n"
        text = text.replace("\nspec:\n", "\n" + "\n".join(annotations) + "\nspec:\n", 1)
        return "{{- if .Values.crd.enabled }}\n" + text + "{{- end }}\n"

    def roles(self) -> str:
        """Return ServiceAccount, roles and bindings."""
        wide = _by_key(self._tree.objects["rbac/role.yaml"])
        narrow = _by_key(self._namespaced.objects["rbac/role.yaml"])
        project = self._names.project
        manager = f"{project}-manager"
        helpers = [
            each
            for each in wide.values()
            if re.search("-(admin|editor|viewer)-role$", each["metadata"]["name"])
        ]
        metrics = [each for each in wide.values() if f"{project}-metrics-" in each["metadata"]["name"]]
        account = [each for each in wide.values() if each["kind"] == "ServiceAccount"]
        in_release = [
            each
            for each in wide.values()
            if each not in helpers and each not in metrics and each not in account
            if each["kind"] in ("Role", "RoleBinding")
        ]
        text = self.fill(template("service_account.yaml"))
        text += self._objects(in_release)
        cluster_wide = [wide[key] for key in _manager_keys(manager) if key in wide]
        remaining = [narrow[key] for key in _manager_keys(manager) if key in narrow]
        text += self._objects(cluster_wide, "not .Values.rbac.namespaced")
        text += self._objects(remaining, ".Values.rbac.namespaced")
        text += self._namespaced_roles(wide, narrow, manager)
        text += self._objects(metrics, "and .Values.metrics.enabled .Values.metrics.secure")
        return text + self._objects(helpers, ".Values.rbac.helpers.enabled")

    def _namespaced_roles(
        self, wide: dict[tuple[str, str], Manifest], narrow: dict[tuple[str, str], Manifest], manager: str
    ) -> str:
        """Return the Role for each watched namespace, with the rules of the manager for namespaced kinds."""
        role = narrow.get(("Role", f"{manager}-role"))
        binding = narrow.get(("RoleBinding", f"{manager}-rolebinding"))
        if role is None or binding is None:
            return ""
        own = wide.get(("Role", f"{manager}-role"), {"rules": []})["rules"]
        rules = [rule for rule in role["rules"] if rule not in own]
        if not rules:
            return ""
        documents = ""
        for each in ({**role, "rules": rules}, binding):
            placed: Manifest = copy_value(each)
            placed["metadata"]["namespace"] = _ROLE_NAMESPACE
            # A Role of the same name exists in the namespace of the release.
            for name in ("role", "rolebinding"):
                if placed["metadata"]["name"] == f"{manager}-{name}":
                    placed["metadata"]["name"] = f"{_FULLNAME}-watch-{name}"
            if "roleRef" in placed:
                placed["roleRef"]["name"] = f"{_FULLNAME}-watch-role"
            documents += f"---\n{self._object(placed)}"
        body = re.sub(r'(include "[^"]+") \.', r"\1 $", documents)
        body = body.replace("{{ .Release.Namespace }}", "{{ $.Release.Namespace }}")
        body = body.replace(_ROLE_NAMESPACE, "{{ . }}")
        return (
            "{{- if .Values.rbac.namespaced }}\n"
            "{{- range default (list .Release.Namespace) .Values.rbac.roleNamespaces }}\n"
            f"{body}{{{{- end }}}}\n{{{{- end }}}}\n"
        )

    def manager(self) -> str:
        """Return the Deployment, and the objects around metrics and network access."""
        names = self._names
        lines, included = [], True
        for line in self.fill(template("manager.yaml")).splitlines():
            if line.startswith("#"):
                included = line != "#IF-WEBHOOKS" or self.has_webhooks
            elif included:
                lines.append(line)
        target = self._target()
        text = "\n".join(lines).replace("TARGET", target) + "\n"
        service = network.metrics_service(names)
        service["spec"]["ports"][0]["port"] = _METRICS_PORT
        text += self._objects([service], ".Values.metrics.enabled")
        policy = network.metrics_policy(names)
        policy["spec"]["ingress"][0]["ports"][0]["port"] = _METRICS_PORT
        text += self._objects([policy], "and .Values.networkPolicy.enabled .Values.metrics.enabled")
        monitored = "and .Values.prometheus.enabled .Values.metrics.enabled"
        verified = [network.service_monitor(names, certificates="cert-manager")]
        unverified = [network.service_monitor(names, certificates="self-signed")]
        plain = [network.service_monitor(names, certificates="self-signed", secure=False)]
        secure = f"{monitored} .Values.metrics.secure"
        text += self._objects(verified, f"{secure} .Values.certManager.enabled")
        text += self._objects(unverified, f"{secure} (not .Values.certManager.enabled)")
        text += self._objects(plain, f"{monitored} (not .Values.metrics.secure)")
        features = frozenset(("leader_election", *(("webhooks",) if self.has_webhooks else ())))
        rules = alerts.prometheus_rule(names, alerts.alert_groups(names, features=features))
        return text + self._objects([rules], monitored)

    def _target(self) -> str:
        (deployment,) = [
            each for each in self._tree.objects["manager/manager.yaml"] if each["kind"] == "Deployment"
        ]
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        return str(container["command"][-1])

    def certificates(self) -> str:
        """Return the Issuer and the Certificates of cert-manager."""
        deployment = replace(self._settings.deployment, certificates="cert-manager", metrics=True)
        complete = replace(self._settings, deployment=deployment)
        issued = webhooks.certificates(complete, self._names, webhooks=self.has_webhooks)
        text = ""
        for each in issued:
            switches = [".Values.certManager.enabled"]
            if each["kind"] == "Certificate":
                of_webhooks = each["metadata"]["name"] == self._names.serving_certificate
                switches.append(".Values.webhook.enabled" if of_webhooks else ".Values.metrics.enabled")
            text += self._objects([each], " ".join(["and", *switches]) if len(switches) > 1 else switches[0])
        return text

    def webhooks(self) -> str:
        """Return the webhook Service and the webhook configurations."""
        names = self._names
        service = network.webhook_service(names)
        policy = network.webhook_policy(names)
        policy["spec"]["ingress"][0]["ports"][0]["port"] = _WEBHOOK_PORT
        text = self._objects([service], ".Values.webhook.enabled")
        text += self._objects([policy], "and .Values.networkPolicy.enabled .Values.webhook.enabled")
        configurations = [each for each in self._tree.objects["webhook/manifests.yaml"] if "webhooks" in each]
        return text + "".join(self._configuration(each) for each in configurations)

    def _configuration(self, configuration: Manifest) -> str:
        prepared: Manifest = copy_value(configuration)
        annotations = prepared["metadata"].pop("annotations", {})
        annotations.pop(webhooks.INJECT_CA, None)
        for webhook in prepared["webhooks"]:
            webhook.setdefault("namespaceSelector", "KWSELECTEDNAMESPACES")
        text = self._object(prepared)
        name = self._settings.name
        injected = [
            "  {{- if .Values.certManager.enabled }}",
            "  annotations:",
            f"    {webhooks.INJECT_CA}: "
            f'{{{{ .Release.Namespace }}}}/{{{{ include "{name}.fullname" . }}}}-serving-cert',
            "  {{- end }}",
        ]
        text = text.replace("\nwebhooks:\n", "\n" + "\n".join(injected) + "\nwebhooks:\n", 1)
        namespaces = "default (list .Release.Namespace) .Values.rbac.roleNamespaces"
        selector = (
            "  {{- if .Values.rbac.namespaced }}\n"
            "  namespaceSelector:\n"
            "    matchExpressions:\n"
            "    - key: kubernetes.io/metadata.name\n"
            "      operator: In\n"
            "      values:\n"
            f"      {{{{- toYaml ({namespaces}) | nindent 6 }}}}\n"
            "  {{- end }}\n"
        )
        text = re.sub(r"^  namespaceSelector: KWSELECTEDNAMESPACES\n", selector, text, flags=re.MULTILINE)
        return "{{- if .Values.webhook.enabled }}\n---\n" + text + "{{- end }}\n"


def _include_helper(name: str, placeholder: re.Match[str]) -> str:
    """Return the expression that inserts a named template at the indentation of a placeholder."""
    indent = placeholder.group(1)
    return f'{indent}{{{{- include "{name}" . | nindent {len(indent)} }}}}'


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _by_key(objects: Iterable[Manifest]) -> dict[tuple[str, str], Manifest]:
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def _manager_keys(manager: str) -> list[tuple[str, str]]:
    return [("ClusterRole", f"{manager}-role"), ("ClusterRoleBinding", f"{manager}-rolebinding")]


def _split_image(image: str) -> tuple[str, str]:
    """Return repository and tag of an image."""
    repository, separator, tag = image.rpartition(":")
    return (repository, tag) if separator and "/" not in tag else (image, "latest")
