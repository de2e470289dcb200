// Actions on objects: each is a list of requests, with the kubectl command that does the same. Every request is sent
// as a dry run first, and its effect is shown before anything is changed.
import { apiPath, apiVersionOf, type Resource } from "./discovery";
import { json, query, type Json } from "./http";

export interface Target {
  resource: Resource;
  object: Json;
}

/** One request of an action. */
export interface Change {
  label: string;
  method: "PATCH" | "POST" | "DELETE";
  path: string;
  contentType?: string;
  body?: Json;
  /** The object before the change; the dry run returns it after the change. */
  before?: Json;
}

export interface Input {
  name: string;
  label: string;
  type: "number" | "select";
  value: string;
  options?: { value: string; text: string }[];
}

export interface Plan {
  command: string;
  changes: Change[];
  /** What the action does not undo, or what it may break. */
  warning?: string;
}

export interface Action {
  id: string;
  title: string;
  icon: string;
  danger?: boolean;
  /** Whether several objects can be changed with one review. */
  many: boolean;
  applies: (resource: Resource, object?: Json) => boolean;
  inputs?: (target: Target) => Promise<Input[]> | Input[];
  plan: (target: Target, inputs: Record<string, string>) => Promise<Plan> | Plan;
}

const MERGE = "application/merge-patch+json";
const STRATEGIC = "application/strategic-merge-patch+json";
const JSON_PATCH = "application/json-patch+json";

const is = (resource: Resource, group: string, ...plurals: string[]) => resource.group === group && plurals.includes(resource.plural);
const pathOf = ({ resource, object }: Target, subresource = "") => apiPath(resource, object.metadata.namespace, object.metadata.name) + subresource;
const labelOf = ({ resource, object }: Target) => `${resource.kind} ${object.metadata.namespace ? `${object.metadata.namespace}/` : ""}${object.metadata.name}`;

/** A word of a shell command. */
export function quote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;
}

function kubectl({ resource, object }: Target, verb: string, ...rest: string[]): string {
  const kind = resource.group ? `${resource.plural}.${resource.group}` : resource.plural;
  const scope = object.metadata.namespace ? [`--namespace=${quote(object.metadata.namespace)}`] : [];
  return ["kubectl", verb, `${kind}/${quote(object.metadata.name)}`, ...rest, ...scope].join(" ");
}

function patch(target: Target, body: Json, contentType = MERGE, subresource = ""): Change {
  return { label: labelOf(target), method: "PATCH", path: pathOf(target, subresource), contentType, body, before: subresource ? undefined : target.object };
}

const patchCommand = (target: Target, body: Json, type: string) => kubectl(target, "patch", `--type=${type}`, `-p ${quote(JSON.stringify(body))}`);

function setField(id: string, title: string, icon: string, applies: Action["applies"], body: Json, command?: (target: Target) => string): Action {
  return { id, title, icon, many: true, applies, plan: (target) => ({ command: command ? command(target) : patchCommand(target, body, "merge"), changes: [patch(target, body)] }) };
}

interface Revision {
  number: number;
  template: Json;
  patch?: Json;
}

/** The former templates of a workload, newest first, without the current one. */
async function revisionsOf({ resource, object }: Target): Promise<Revision[]> {
  const { namespace, uid } = object.metadata;
  const selector = Object.entries((object.spec.selector?.matchLabels || {}) as Record<string, string>).map(([name, value]) => `${name}=${value}`).join(",");
  const plural = resource.plural === "deployments" ? "replicasets" : "controllerrevisions";
  const list = await json(`${apiPath({ group: "apps", version: "v1", plural }, namespace)}${query({ labelSelector: selector })}`);
  const owned = (list.items || []).filter((each: Json) => (each.metadata.ownerReferences || []).some((owner: Json) => owner.uid === uid));
  const found: Revision[] = owned.map((each: Json) =>
    plural === "replicasets"
      ? { number: Number(each.metadata.annotations?.["deployment.kubernetes.io/revision"] || 0), template: withoutHash(each.spec.template) }
      : { number: each.revision, template: each.data?.spec?.template, patch: each.data },
  );
  return found.sort((a, b) => b.number - a.number).slice(1);
}

function withoutHash(template: Json): Json {
  const { "pod-template-hash": _hash, ...labels } = template.metadata?.labels || {};
  return { ...template, metadata: { ...template.metadata, labels } };
}

async function podsOf(node: string): Promise<{ evicted: Json[]; kept: string[] }> {
  const list = await json(`/k8s/api/v1/pods${query({ fieldSelector: `spec.nodeName=${node}` })}`);
  const evicted: Json[] = [];
  const kept: string[] = [];
  for (const pod of list.items || []) {
    const owner = (pod.metadata.ownerReferences || []).find((each: Json) => each.controller);
    const finished = ["Succeeded", "Failed"].includes(pod.status?.phase);
    if (owner?.kind === "DaemonSet" || pod.metadata.annotations?.["kubernetes.io/config.mirror"] || finished) kept.push(pod.metadata.name);
    else evicted.push(pod);
  }
  return { evicted, kept };
}

/** What known finalizers protect. */
const PROTECTS: Record<string, string> = {
  foregroundDeletion: "the objects that it owns are deleted first; without it they are deleted later, by the garbage collector",
  orphan: "the objects that it owns lose their owner reference; without it they are deleted",
  "kubernetes.io/pvc-protection": "pods use this claim; without it their data can be lost",
  "kubernetes.io/pv-protection": "a claim uses this volume; without it the data can be lost",
  "batch.kubernetes.io/job-tracking": "the Job has not counted this pod yet; without it the Job may start another one",
  "service.kubernetes.io/load-balancer-cleanup": "the load balancer of the cloud is not deleted yet; without it, it keeps running and costs money",
};

function protection(finalizers: string[]): string {
  return finalizers.map((each) => `${each}: ${PROTECTS[each] || "its controller has not finished its clean-up; what it manages outside of the cluster may be left behind"}`).join("\n");
}

export const ACTIONS: Action[] = [
  {
    id: "scale",
    title: "Scale",
    icon: "fit",
    many: true,
    applies: (resource) => resource.subresources.includes("scale"),
    inputs: async (target) => {
      const scale = await json(pathOf(target, "/scale"));
      return [{ name: "replicas", label: "Replicas", type: "number", value: String(scale.spec?.replicas ?? 0) }];
    },
    plan: async (target, { replicas }) => {
      const before = await json(pathOf(target, "/scale"));
      const change = patch(target, { spec: { replicas: Number(replicas) } }, MERGE, "/scale");
      return { command: kubectl(target, "scale", `--replicas=${replicas}`), changes: [{ ...change, before }] };
    },
  },
  {
    id: "restart",
    title: "Restart",
    icon: "reconciles",
    many: true,
    applies: (resource) => is(resource, "apps", "deployments", "statefulsets", "daemonsets"),
    plan: (target) => ({
      command: kubectl(target, "rollout restart"),
      changes: [patch(target, { spec: { template: { metadata: { annotations: { "kubectl.kubernetes.io/restartedAt": new Date().toISOString().replace(/\.\d+Z$/, "Z") } } } } }, STRATEGIC)],
    }),
  },
  {
    id: "rollback",
    title: "Roll back",
    icon: "chevron",
    many: false,
    applies: (resource) => is(resource, "apps", "deployments", "statefulsets", "daemonsets"),
    inputs: async (target) => {
      const revisions = await revisionsOf(target);
      if (!revisions.length) throw new Error("there is no earlier revision to roll back to");
      const image = (each: Revision) => (each.template?.spec?.containers || []).map((container: Json) => container.image).join(", ");
      return [{ name: "revision", label: "Revision", type: "select", value: String(revisions[0].number), options: revisions.map((each) => ({ value: String(each.number), text: `${each.number}: ${image(each)}` })) }];
    },
    plan: async (target, { revision }) => {
      const found = (await revisionsOf(target)).find((each) => String(each.number) === revision);
      if (!found) throw new Error(`revision ${revision} does not exist`);
      const change = found.patch ? patch(target, found.patch, STRATEGIC) : patch(target, [{ op: "replace", path: "/spec/template", value: found.template }], JSON_PATCH);
      return { command: kubectl(target, "rollout undo", `--to-revision=${revision}`), changes: [change] };
    },
  },
  setField("pause", "Pause", "pause", (resource, object) => is(resource, "apps", "deployments") && !object?.spec?.paused, { spec: { paused: true } }, (target) => kubectl(target, "rollout pause")),
  setField("resume", "Resume", "play", (resource, object) => is(resource, "apps", "deployments") && (!object || Boolean(object.spec?.paused)), { spec: { paused: false } }, (target) => kubectl(target, "rollout resume")),
  setField("suspend", "Suspend", "pause", (resource, object) => is(resource, "batch", "cronjobs", "jobs") && !object?.spec?.suspend, { spec: { suspend: true } }),
  setField("unsuspend", "Resume", "play", (resource, object) => is(resource, "batch", "cronjobs", "jobs") && (!object || Boolean(object.spec?.suspend)), { spec: { suspend: false } }),
  {
    id: "trigger",
    title: "Run now",
    icon: "play",
    many: true,
    applies: (resource) => is(resource, "batch", "cronjobs"),
    plan: (target) => {
      const { name, namespace, uid } = target.object.metadata;
      const job = `${name.slice(0, 40)}-${Date.now().toString(36).slice(-6)}`;
      const { metadata, spec } = target.object.spec.jobTemplate;
      const owner = { apiVersion: apiVersionOf(target.resource), kind: "CronJob", name, uid, controller: true };
      const body = { apiVersion: "batch/v1", kind: "Job", metadata: { ...metadata, name: job, namespace, annotations: { ...metadata?.annotations, "cronjob.kubernetes.io/instantiate": "manual" }, ownerReferences: [owner] }, spec };
      const scope = namespace ? ` --namespace=${quote(namespace)}` : "";
      return { command: `kubectl create job --from=cronjob/${quote(name)} ${job}${scope}`, changes: [{ label: `Job ${namespace}/${job}`, method: "POST", path: apiPath({ group: "batch", version: "v1", plural: "jobs" }, namespace), body }] };
    },
  },
  setField("cordon", "Cordon", "lock", (resource, object) => is(resource, "", "nodes") && !object?.spec?.unschedulable, { spec: { unschedulable: true } }, (target) => `kubectl cordon ${quote(target.object.metadata.name)}`),
  setField("uncordon", "Uncordon", "check", (resource, object) => is(resource, "", "nodes") && (!object || Boolean(object.spec?.unschedulable)), { spec: { unschedulable: null } }, (target) => `kubectl uncordon ${quote(target.object.metadata.name)}`),
  {
    id: "drain",
    title: "Drain",
    icon: "download",
    danger: true,
    many: false,
    applies: (resource) => is(resource, "", "nodes"),
    plan: async (target) => {
      const name = target.object.metadata.name;
      const { evicted, kept } = await podsOf(name);
      const evictions = evicted.map((pod): Change => ({
        label: `Eviction of pod ${pod.metadata.namespace}/${pod.metadata.name}`,
        method: "POST",
        path: `/k8s/api/v1/namespaces/${encodeURIComponent(pod.metadata.namespace)}/pods/${encodeURIComponent(pod.metadata.name)}/eviction`,
        body: { apiVersion: "policy/v1", kind: "Eviction", metadata: { name: pod.metadata.name, namespace: pod.metadata.namespace } },
      }));
      const unmanaged = evicted.filter((pod) => !(pod.metadata.ownerReferences || []).length).map((pod) => pod.metadata.name);
      const local = evicted.filter((pod) => (pod.spec.volumes || []).some((each: Json) => each.emptyDir)).map((pod) => pod.metadata.name);
      const warnings = [
        unmanaged.length && `No controller creates these pods again: ${unmanaged.join(", ")}.`,
        local.length && `The data of emptyDir volumes is lost: ${local.join(", ")}.`,
        kept.length && `Not evicted (DaemonSets, static and finished pods): ${kept.join(", ")}.`,
      ].filter(Boolean);
      const flags = ["--ignore-daemonsets", ...(local.length ? ["--delete-emptydir-data"] : []), ...(unmanaged.length ? ["--force"] : [])];
      return { command: `kubectl drain ${quote(name)} ${flags.join(" ")}`, changes: [patch(target, { spec: { unschedulable: true } }), ...evictions], warning: warnings.join("\n") };
    },
  },
  {
    id: "finalizers",
    title: "Remove finalizers",
    icon: "warning",
    danger: true,
    many: false,
    applies: (_resource, object) => Boolean(object?.metadata.finalizers?.length),
    inputs: ({ object }) => {
      const names: string[] = object.metadata.finalizers || [];
      return [{ name: "finalizer", label: "Finalizer", type: "select", value: names[0], options: [...names.map((each) => ({ value: each, text: each })), ...(names.length > 1 ? [{ value: "", text: "all of them" }] : [])] }];
    },
    plan: (target, { finalizer }) => {
      const names: string[] = target.object.metadata.finalizers || [];
      const removed = finalizer ? [finalizer] : names;
      const kept = names.filter((each) => !removed.includes(each));
      const body = [
        { op: "test", path: "/metadata/resourceVersion", value: target.object.metadata.resourceVersion },
        kept.length ? { op: "replace", path: "/metadata/finalizers", value: kept } : { op: "remove", path: "/metadata/finalizers" },
      ];
      const deleted = target.object.metadata.deletionTimestamp && !kept.length ? "The object is deleted immediately.\n" : "";
      return { command: patchCommand(target, body.slice(1), "json"), changes: [patch(target, body, JSON_PATCH)], warning: `${deleted}${protection(removed)}` };
    },
  },
  {
    id: "delete",
    title: "Delete",
    icon: "trash",
    danger: true,
    many: true,
    applies: (resource) => resource.verbs.includes("delete"),
    inputs: () => [
      {
        name: "policy",
        label: "Objects that it owns",
        type: "select",
        value: "Background",
        options: [
          { value: "Background", text: "are deleted after it (Background)" },
          { value: "Foreground", text: "are deleted before it (Foreground)" },
          { value: "Orphan", text: "are not deleted (Orphan)" },
        ],
      },
    ],
    plan: (target, { policy }) => ({
      command: kubectl(target, "delete", `--cascade=${policy.toLowerCase()}`),
      changes: [{ label: labelOf(target), method: "DELETE", path: pathOf(target), body: { apiVersion: "v1", kind: "DeleteOptions", propagationPolicy: policy, preconditions: { uid: target.object.metadata.uid } } }],
      warning: target.object.metadata.finalizers?.length ? `The deletion waits for finalizers:\n${protection(target.object.metadata.finalizers)}` : undefined,
    }),
  },
];

/** Send a request of an action; a dry run changes nothing. */
export function send(change: Change, dryRun: boolean): Promise<Json> {
  if (change.method === "DELETE") {
    // The API server ignores the parameters of a deletion that has a body: the options are in the body.
    return json(change.path, { method: "DELETE", body: { ...change.body, ...(dryRun ? { dryRun: ["All"] } : {}) } });
  }
  return json(`${change.path}${query({ dryRun: dryRun ? "All" : undefined, fieldManager: "kubewright-dashboard" })}`, { method: change.method, contentType: change.contentType, body: change.body });
}
