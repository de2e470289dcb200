"""Fixed texts of a chart. `CHART` stands for the name of the chart."""

from __future__ import annotations

from typing import Final

CHART_FILE: Final = """\
apiVersion: v2
name: CHART
description: Operator CHART
type: application
version: 0.1.0
appVersion: "VERSION"
"""

HELMIGNORE: Final = """\
.DS_Store
.git/
.gitignore
*.swp
*.bak
*.tmp
*.orig
*~
.idea/
.vscode/
"""

HELPERS: Final = """\
{{- define "CHART.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "CHART.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "CHART.selectorLabels" -}}
app.kubernetes.io/name: {{ include "CHART.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
control-plane: controller-manager
{{- end }}

{{- define "CHART.labels" -}}
app.kubernetes.io/name: {{ include "CHART.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "CHART.serviceAccountName" -}}
{{- if .Values.serviceAccount.enabled }}
{{- default (printf "%s-controller-manager" (include "CHART.fullname" .)) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name is required without serviceAccount.enabled" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "CHART.namespaces" -}}
{{- join "," (default (list .Release.Namespace) .Values.rbac.roleNamespaces) }}
{{- end }}
"""

NOTES: Final = """\
The operator CHART runs in the namespace {{ .Release.Namespace }}.

  kubectl -n {{ .Release.Namespace }} get deployment {{ include "CHART.fullname" . }}-controller-manager
{{- if not .Values.crd.keep }}

CRDs, and all objects of them, are deleted with this release; set crd.keep=true to keep them.
{{- end }}
"""

VALUES: Final = """\
nameOverride: ""
fullnameOverride: ""

manager:
  enabled: true
  replicas: REPLICAS
  image:
    repository: REPOSITORY
    tag: TAG
    pullPolicy: IfNotPresent
  # Arguments after those that other values set; they are templates.
  args:ARGS
  healthProbe:
    port: 8081
  # Variables, as in a Pod; envOverrides (name: value) replaces those with the same name.
  env:ENV
  envOverrides: {}
  imagePullSecrets: []
  podSecurityContext:
    runAsNonRoot: true
    seccompProfile:
      type: RuntimeDefault
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities:
      drop:
      - ALL
  resources:
    limits:
      cpu: 500m
      memory: 256Mi
    requests:
      cpu: 10m
      memory: 96Mi
  affinity: {}
  nodeSelector: {}
  tolerations: []
  strategy: {}
  priorityClassName: ""
  topologySpreadConstraints: []
  terminationGracePeriodSeconds: 40
  # Labels and annotations of the Deployment, and of its pods.
  labels: {}
  annotations: {}
  pod:
    labels: {}
    annotations: {}
  extraVolumes: []
  extraVolumeMounts: []

rbac:
  # Roles in roleNamespaces (default: the namespace of the release) instead of a ClusterRole.
  namespaced: NAMESPACED
  roleNamespaces: []
  # Admin, editor and viewer roles of each kind.
  helpers:
    enabled: true

serviceAccount:
  enabled: true
  # Required if enabled is false.
  name: ""
  annotations: {}
  labels: {}

crd:
  enabled: true
  # Keep CRDs and their objects when the release is uninstalled.
  keep: true

metrics:
  enabled: METRICS
  port: 8443
  # TLS, and only clients with the role metrics-reader.
  secure: true

# Certificates by cert-manager; otherwise the operator issues them itself.
certManager:
  enabled: CERTMANAGER

webhook:
  enabled: WEBHOOKS
  port: 9443

# ServiceMonitor of the Prometheus operator.
prometheus:
  enabled: MONITOR

networkPolicy:
  enabled: POLICY
"""

SERVICE_ACCOUNT: Final = """\
{{- if .Values.serviceAccount.enabled }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "CHART.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "CHART.labels" . | nindent 4 }}
    {{- with .Values.serviceAccount.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
"""

DEPLOYMENT: Final = """\
{{- if .Values.manager.enabled }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "CHART.fullname" . }}-controller-manager
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "CHART.labels" . | nindent 4 }}
    control-plane: controller-manager
    {{- with .Values.manager.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.manager.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  replicas: {{ .Values.manager.replicas }}
  {{- with .Values.manager.strategy }}
  strategy:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "CHART.selectorLabels" . | nindent 6 }}
  template:
    metadata:
      annotations:
        kubectl.kubernetes.io/default-container: manager
        {{- with .Values.manager.pod.annotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      labels:
        {{- include "CHART.selectorLabels" . | nindent 8 }}
        {{- with .Values.manager.pod.labels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "CHART.serviceAccountName" . }}
      terminationGracePeriodSeconds: {{ .Values.manager.terminationGracePeriodSeconds }}
      {{- with .Values.manager.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.manager.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with .Values.manager.podSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.manager.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.manager.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.manager.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.manager.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
      - name: manager
        {{- with .Values.manager.image }}
        image: "{{ .repository }}:{{ default $.Chart.AppVersion .tag }}"
        imagePullPolicy: {{ .pullPolicy }}
        {{- end }}
        command: [kubewright, run, "TARGET"]
        args:
        - --production
        - --probe-port={{ .Values.manager.healthProbe.port }}
        {{- if .Values.metrics.enabled }}
        - --metrics-port={{ .Values.metrics.port }}
        {{- if not .Values.metrics.secure }}
        - --metrics-insecure
        {{- end }}
        {{- end }}
#IF-WEBHOOKS
        {{- if .Values.webhook.enabled }}
        - --webhook-port={{ .Values.webhook.port }}
        {{- if .Values.certManager.enabled }}
        - --webhook-certificates=/certificates/webhook
        {{- end }}
        {{- end }}
#END
        {{- range .Values.manager.args }}
        - {{ tpl . $ | quote }}
        {{- end }}
        env:
#IF-WEBHOOKS
        - name: KUBEWRIGHT_WEBHOOK_NAME
          value: {{ include "CHART.fullname" . }}
        {{- if not .Values.webhook.enabled }}
        - name: KUBEWRIGHT_WEBHOOKS
          value: "false"
        {{- end }}
#END
        {{- if .Values.rbac.namespaced }}
        - name: KUBEWRIGHT_NAMESPACES
          value: {{ include "CHART.namespaces" . | quote }}
        {{- end }}
        {{- if and .Values.metrics.enabled .Values.certManager.enabled }}
        - name: KUBEWRIGHT_METRICS_CERTIFICATES
          value: /certificates/metrics
        {{- end }}
        {{- range .Values.manager.env }}
        {{- if not (hasKey $.Values.manager.envOverrides .name) }}
        {{- toYaml (list .) | nindent 8 }}
        {{- end }}
        {{- end }}
        {{- range $name, $value := .Values.manager.envOverrides }}
        - name: {{ $name }}
          value: {{ $value | quote }}
        {{- end }}
        ports:
        - name: probes
          containerPort: {{ .Values.manager.healthProbe.port }}
        {{- if .Values.metrics.enabled }}
        - name: metrics
          containerPort: {{ .Values.metrics.port }}
        {{- end }}
#IF-WEBHOOKS
        {{- if .Values.webhook.enabled }}
        - name: webhooks
          containerPort: {{ .Values.webhook.port }}
        {{- end }}
#END
        livenessProbe:
          httpGet:
            path: /healthz
            port: probes
          initialDelaySeconds: 15
          periodSeconds: 20
        readinessProbe:
          httpGet:
            path: /readyz
            port: probes
          initialDelaySeconds: 5
          periodSeconds: 10
        {{- with .Values.manager.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        {{- with .Values.manager.securityContext }}
        securityContext:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        volumeMounts:
        - name: tmp
          mountPath: /tmp
#IF-WEBHOOKS
        {{- if and .Values.webhook.enabled .Values.certManager.enabled }}
        - name: webhook-certificates
          mountPath: /certificates/webhook
          readOnly: true
        {{- end }}
#END
        {{- if and .Values.metrics.enabled .Values.certManager.enabled }}
        - name: metrics-certificates
          mountPath: /certificates/metrics
          readOnly: true
        {{- end }}
        {{- with .Values.manager.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      volumes:
      - name: tmp
        emptyDir:
          medium: Memory
          sizeLimit: 16Mi
#IF-WEBHOOKS
      {{- if and .Values.webhook.enabled .Values.certManager.enabled }}
      - name: webhook-certificates
        secret:
          secretName: webhook-server-cert
      {{- end }}
#END
      {{- if and .Values.metrics.enabled .Values.certManager.enabled }}
      - name: metrics-certificates
        secret:
          secretName: metrics-server-cert
      {{- end }}
      {{- with .Values.manager.extraVolumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
{{- end }}
"""
