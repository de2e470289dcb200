// Examples of built-in kinds whose required fields alone do not make a useful object.
import type { Json } from "./http";

const labels = { app: "example" };
const pod = { containers: [{ name: "main", image: "nginx:1", ports: [{ name: "http", containerPort: 80 }] }] };
const template = { metadata: { labels }, spec: pod };
const workload = { replicas: 2, selector: { matchLabels: labels }, template };
const task = { spec: { restartPolicy: "Never", containers: [{ name: "main", image: "busybox:1", command: ["sh", "-c", "echo hello"] }] } };
const subjects = [{ kind: "User", name: "jane", apiGroup: "rbac.authorization.k8s.io" }];
const rules = [{ apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch"] }];

/** Fields besides apiVersion, kind and metadata, by group and kind. */
export const EXAMPLES: Record<string, Json> = {
  "/Pod": { spec: pod },
  "/Service": { spec: { selector: labels, ports: [{ name: "http", port: 80, targetPort: "http" }] } },
  "/ConfigMap": { data: { greeting: "hello" } },
  "/Secret": { type: "Opaque", stringData: { password: "change-me" } },
  "/PersistentVolumeClaim": { spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } } },
  "/ServiceAccount": {},
  "/Namespace": {},
  "/ResourceQuota": { spec: { hard: { pods: "10", "requests.cpu": "4" } } },
  "/LimitRange": { spec: { limits: [{ type: "Container", default: { cpu: "500m" }, defaultRequest: { cpu: "100m" } }] } },
  "apps/Deployment": { spec: workload },
  "apps/ReplicaSet": { spec: workload },
  "apps/StatefulSet": { spec: { serviceName: "example", ...workload } },
  "apps/DaemonSet": { spec: { selector: { matchLabels: labels }, template } },
  "batch/Job": { spec: { template: task } },
  "batch/CronJob": { spec: { schedule: "*/5 * * * *", jobTemplate: { spec: { template: task } } } },
  "autoscaling/HorizontalPodAutoscaler": {
    spec: {
      scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: "example" },
      minReplicas: 1,
      maxReplicas: 5,
      metrics: [{ type: "Resource", resource: { name: "cpu", target: { type: "Utilization", averageUtilization: 80 } } }],
    },
  },
  "policy/PodDisruptionBudget": { spec: { minAvailable: 1, selector: { matchLabels: labels } } },
  "networking.k8s.io/Ingress": {
    spec: { rules: [{ host: "example.com", http: { paths: [{ path: "/", pathType: "Prefix", backend: { service: { name: "example", port: { name: "http" } } } }] } }] },
  },
  "networking.k8s.io/NetworkPolicy": { spec: { podSelector: { matchLabels: labels }, policyTypes: ["Ingress"], ingress: [{ from: [{ podSelector: {} }] }] } },
  "rbac.authorization.k8s.io/Role": { rules },
  "rbac.authorization.k8s.io/ClusterRole": { rules },
  "rbac.authorization.k8s.io/RoleBinding": { roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "example" }, subjects },
  "rbac.authorization.k8s.io/ClusterRoleBinding": { roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "example" }, subjects },
  "admissionregistration.k8s.io/ValidatingAdmissionPolicy": {
    spec: {
      failurePolicy: "Fail",
      matchConstraints: { resourceRules: [{ apiGroups: ["apps"], apiVersions: ["v1"], operations: ["CREATE", "UPDATE"], resources: ["deployments"] }] },
      validations: [{ expression: "object.spec.replicas <= 5", message: "at most 5 replicas are allowed" }],
    },
  },
  "admissionregistration.k8s.io/ValidatingAdmissionPolicyBinding": { spec: { policyName: "example", validationActions: ["Deny"] } },
};
