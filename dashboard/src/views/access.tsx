import { useState } from "preact/hooks";
import { json, query, type Json } from "../lib/http";
import { resources } from "../lib/discovery";
import { useLoaded } from "../lib/live";
import { link, objectLink, route, setParams } from "../lib/router";
import { info } from "../lib/state";
import { Chip, Copy, Empty, Failure, Field, Loading, Page, Panel, Select, Tabs } from "../components/basics";
import { Icon } from "../components/icons";

interface Rule {
  verbs: string[];
  apiGroups: string[];
  resources: string[];
  resourceNames: string[];
  nonResourceURLs: string[];
}

interface Subject {
  id: string;
  kind: string;
  namespace: string;
  name: string;
}

interface Binding {
  id: string;
  kind: string;
  namespace: string;
  name: string;
  subjects: string[];
  role: string;
}

interface Role {
  id: string;
  kind: string;
  namespace: string;
  name: string;
  rules: Rule[];
  missing: boolean;
  unreadable: boolean;
}

interface Graph {
  subjects: Subject[];
  bindings: Binding[];
  roles: Role[];
  unreadable: string[];
  own: { namespace: string; rules: Rule[]; incomplete: boolean; error: string } | null;
}

const RBAC = { group: "rbac.authorization.k8s.io", version: "v1" };
const PLURALS: Record<string, string> = { Role: "roles", ClusterRole: "clusterroles", RoleBinding: "rolebindings", ClusterRoleBinding: "clusterrolebindings" };

function rbacLink(id: string): string {
  const [kind, ...rest] = id.split("/");
  const namespaced = kind === "Role" || kind === "RoleBinding";
  return objectLink({ ...RBAC, plural: PLURALS[kind] || "roles" }, namespaced ? rest[0] : "", namespaced ? rest.slice(1).join("/") : rest.join("/"));
}

function ruleText(rule: Rule): string {
  if (rule.nonResourceURLs?.length) return rule.nonResourceURLs.join(", ");
  const named = (rule.resources || []).map((resource) => {
    const groups = rule.apiGroups || [];
    return groups.length === 1 && groups[0] && groups[0] !== "*" ? `${resource}.${groups[0]}` : resource === "*" ? "all resources" : resource;
  });
  return named.join(", ") + (rule.resourceNames?.length ? ` named ${rule.resourceNames.join(", ")}` : "");
}

function RuleLine({ rule, differs }: { rule: Rule; differs?: string[] }) {
  return (
    <span class="rule">
      <span class="rule-verbs">
        {(rule.verbs || []).map((verb) => (
          <Chip key={verb} tone={["*", "create", "update", "patch", "delete", "deletecollection", "escalate", "impersonate", "bind"].includes(verb) ? "outline" : undefined}>
            {verb === "*" ? "all verbs" : verb}
          </Chip>
        ))}
      </span>
      <span class="rule-resources">{ruleText(rule)}</span>
      {differs && differs.length > 0 && <span class="rule-differs">different {differs.join(", ")}</span>}
    </span>
  );
}

export function Access() {
  const tab = route.value.params.get("tab") || "who";
  return (
    <Page wide title="Access" subtitle="Who is allowed to do what, and why a request was denied">
      <Tabs
        tabs={[
          { id: "who", title: "Who can do what" },
          { id: "why", title: "Why was this denied" },
        ]}
        current={tab}
        href={(id) => link(["access"], { tab: id })}
      />
      <div class="tab-panel">{tab === "why" ? <Why /> : <Who />}</div>
    </Page>
  );
}

function matches(rule: Rule, verb: string, resource: string): boolean {
  const text = resource.toLowerCase();
  return (
    (!verb || rule.verbs?.some((each) => each === "*" || each === verb)) &&
    (!text || Boolean(rule.resources?.some((each) => each === "*" || each.toLowerCase().includes(text)) || rule.nonResourceURLs?.some((each) => each.includes(text))))
  );
}

function Who() {
  const params = route.value.params;
  const namespace = params.get("namespace") || "";
  const system = params.get("system") === "1";
  const subject = (params.get("subject") || "").toLowerCase();
  const verb = params.get("verb") || "";
  const resource = params.get("resource") || "";
  const loaded = useLoaded<Graph>((signal) => json(`/api/access${query({ namespace, system: system ? "1" : undefined })}`, { signal }), [namespace, system]);
  const data = loaded.value.value;
  if (!data) return loaded.error.value ? <Failure error={loaded.error.value} retry={loaded.reload} /> : <Loading />;
  const roles = new Map(data.roles.map((role) => [role.id, role]));
  const rows = data.subjects
    .filter((each) => !subject || each.id.toLowerCase().includes(subject))
    .map((each) => ({
      subject: each,
      bindings: data.bindings
        .filter((binding) => binding.subjects.includes(each.id))
        .map((binding) => {
          const role = roles.get(binding.role);
          return { binding, role, rules: (role?.rules || []).filter((rule) => matches(rule, verb, resource)) };
        })
        .filter((found) => found.rules.length || (!verb && !resource)),
    }))
    .filter((row) => row.bindings.length);
  return (
    <>
      {data.unreadable.length > 0 && (
        <p class="banner" role="status">
          {data.unreadable.join(", ")} are not readable: what is shown of other users is incomplete, and what is missing here may still be granted.
        </p>
      )}
      {data.own && <OwnRules own={data.own} verb={verb} resource={resource} />}
      <div class="toolbar">
        <Field id="filter" label="Filter users, groups, accounts" value={params.get("subject") || ""} change={(value) => setParams({ subject: value })} width="230px" />
        <Select label="Verb" value={verb} options={["", "get", "list", "watch", "create", "update", "patch", "delete"].map((each) => ({ value: each, text: each || "Any verb" }))} change={(value) => setParams({ verb: value })} />
        <Field label="Resource" placeholder="Resource, e.g. pods" value={resource} change={(value) => setParams({ resource: value })} width="180px" />
        <label class="check">
          <input type="checkbox" checked={system} onChange={(event) => setParams({ system: event.currentTarget.checked ? "1" : undefined })} /> System roles
        </label>
      </div>
      {rows.length === 0 ? (
        <Empty title={data.unreadable.length ? "Other users are unknown" : "No subject matches"}>{data.unreadable.length ? "Bindings or roles are not readable." : system ? "Change the filter." : "Change the filter, or include the roles whose names begin with system:."}</Empty>
      ) : (
        <div class="access-graph panel">
          <div class="access-row access-head" aria-hidden="true">
            <span>Subject</span>
            <span>Binding</span>
            <span>Role and its rules</span>
          </div>
          {rows.map((row) => (
            <div key={row.subject.id} class="access-row">
              <div class="access-subject">
                <span class="muted">{row.subject.kind}</span>
                <span class="access-name">{row.subject.namespace ? `${row.subject.namespace}/` : ""}{row.subject.name}</span>
              </div>
              <div class="access-bindings">
                {row.bindings.map(({ binding, role, rules }) => (
                  <BindingRow key={binding.id} binding={binding} role={role} rules={rules} />
                ))}
              </div>
            </div>
          ))}
        </div>
      )}
    </>
  );
}

/** What the user of the dashboard is allowed to do, as the API server reports it. */
function OwnRules({ own, verb, resource }: { own: NonNullable<Graph["own"]>; verb: string; resource: string }) {
  const rules = own.rules.filter((rule) => matches(rule, verb, resource));
  return (
    <Panel title={`Your permissions in ${own.namespace}`} actions={own.incomplete ? <Chip tone="warning">incomplete</Chip> : undefined}>
      {own.error && <p class="muted">{own.error}</p>}
      {rules.length ? (
        <ul class="rule-list">
          {rules.map((rule, index) => (
            <li key={index}>
              <RuleLine rule={rule} />
            </li>
          ))}
        </ul>
      ) : (
        <p class="muted">No rule matches.</p>
      )}
    </Panel>
  );
}

function BindingRow({ binding, role, rules }: { binding: Binding; role?: Role; rules: Rule[] }) {
  const [all, setAll] = useState(false);
  const shown = all ? rules : rules.slice(0, 3);
  return (
    <div class="access-binding">
      <div class="access-via">
        <a href={rbacLink(binding.id)}>{binding.name}</a>
        <span class="muted">{binding.namespace ? `in ${binding.namespace}` : "all namespaces"}</span>
      </div>
      <div class="access-role">
        {role && !role.missing && !role.unreadable ? <a href={rbacLink(role.id)}>{role.kind} {role.name}</a> : <Chip tone="warning">{binding.role} {role?.unreadable ? "is not readable" : "does not exist"}</Chip>}
        <ul class="rule-list">
          {shown.map((rule, index) => (
            <li key={index}>
              <RuleLine rule={rule} />
            </li>
          ))}
        </ul>
        {rules.length > 3 && (
          <button type="button" class="link-button" onClick={() => setAll(!all)}>
            {all ? "fewer rules" : `${rules.length - 3} more rules`}
          </button>
        )}
      </div>
    </div>
  );
}

function Why() {
  const params = route.value.params;
  const value = (name: string, fallback = "") => params.get(name) ?? fallback;
  const asked = params.get("ask") === "1";
  const body = {
    user: value("user", info.value?.user.username || ""),
    groups: value("groups").split(",").map((each) => each.trim()).filter(Boolean),
    verb: value("verb", "get"),
    group: value("group"),
    resource: value("resource", "pods"),
    subresource: value("subresource"),
    namespace: value("namespace"),
    name: value("name"),
    path: value("path"),
  };
  const key = JSON.stringify(body);
  const loaded = useLoaded<Json>((signal) => (asked ? json("/api/access/why", { method: "POST", body, signal }) : Promise.resolve(null)), [asked, key]);
  const result = loaded.value.value;
  const submit = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const next: Record<string, string> = { ask: "1" };
    for (const [name, text] of form) next[name] = String(text).trim();
    const [resource, ...group] = next.resource.split(".");
    const [plural, subresource] = resource.split("/");
    const known = resources.value.find((each) => each.plural === plural && (!group.length || each.group === group.join(".")));
    setParams({ ...next, resource: plural, subresource: subresource || undefined, group: group.length ? group.join(".") : known?.group });
  };
  const field = (name: string, label: string, given: string, placeholder = "") => (
    <label class="form-field">
      <span>{label}</span>
      <input class="input" name={name} defaultValue={given} placeholder={placeholder} spellcheck={false} autocomplete="off" />
    </label>
  );
  return (
    <div class="why">
      <form class="panel panel-body form-grid" onSubmit={submit} key={asked ? "asked" : "empty"}>
        {field("user", "User", body.user, "jane or system:serviceaccount:ns:name")}
        {field("groups", "Groups", body.groups.join(", "), "comma-separated")}
        {field("verb", "Verb", body.verb)}
        {field("resource", "Resource", `${body.resource}${body.subresource ? `/${body.subresource}` : ""}${body.group ? `.${body.group}` : ""}`, "pods/log or deployments.apps")}
        {field("namespace", "Namespace", body.namespace, "empty for all")}
        {field("name", "Name", body.name, "empty for any")}
        <div class="form-actions">
          <button type="submit" class="button button-primary">
            Explain
          </button>
        </div>
      </form>
      {asked && loaded.error.value && <Failure error={loaded.error.value} retry={loaded.reload} />}
      {asked && loaded.loading.value && !result && <Loading />}
      {asked && result && <Explanation result={result} body={body} />}
      {!asked && <Empty title="Explain a decision">Enter the user, verb and resource of a request, for example from the message “User "jane" cannot list resource "pods"”.</Empty>}
    </div>
  );
}

/** kubectl commands that grant exactly the request. */
function grantCommands(body: Json): string {
  const quote = (text: string) => (/^[\w@.:/-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`);
  const resource = `${body.resource}${body.group ? `.${body.group}` : ""}${body.subresource ? `/${body.subresource}` : ""}`;
  const kind = body.namespace ? "role" : "clusterrole";
  const name = `${body.verb}-${body.resource}`.toLowerCase().replace(/[^a-z0-9-]+/g, "-");
  const scope = body.namespace ? ` --namespace=${quote(body.namespace)}` : "";
  const account = body.user.match(/^system:serviceaccount:([^:]+):([^:]+)$/);
  const subject = account ? `--serviceaccount=${account[1]}:${account[2]}` : `--user=${quote(body.user)}`;
  return [
    `kubectl create ${kind} ${name}${scope} \\\n    --verb=${quote(body.verb)} --resource=${quote(resource)}${body.name ? ` --resource-name=${quote(body.name)}` : ""}`,
    `kubectl create ${kind}binding ${name}${scope} \\\n    --${kind}=${name} ${subject}`,
  ].join("\n");
}

function Explanation({ result, body }: { result: Json; body: Json }) {
  const unknown = result.allowed === null;
  const target = `${body.verb} ${body.resource}${body.subresource ? `/${body.subresource}` : ""}${body.group ? `.${body.group}` : ""}${body.name ? ` ${body.name}` : ""}`;
  return (
    <div class="explanation">
      <div class={`decision ${result.allowed ? "decision-allowed" : unknown ? "decision-unknown" : "decision-denied"}`} role="status">
        <Icon name={result.allowed ? "check" : unknown ? "warning" : "close"} size={22} />
        <div>
          <strong>{result.allowed ? "Allowed" : unknown ? "Unknown" : "Denied"}</strong>
          <p>
            {unknown ? `Whether ${body.user} is allowed to` : result.allowed ? `${body.user} is allowed to` : `${body.user} is not allowed to`} {target} {body.namespace ? `in ${body.namespace}` : "in all namespaces"}{unknown && " cannot be told"}
          </p>
          {result.reason && <p class="muted advice">{result.reason}</p>}
        </div>
      </div>
      {result.rules?.length > 0 && <RuleTable title="Rules that allow it" rules={result.rules} />}
      {result.allowed === false && (
        <Panel title="What to grant" actions={<Copy text={grantCommands(body)} label="Copy the commands" />}>
          {result.advice && <p class="advice">{result.advice}</p>}
          {body.resource && !body.path && <pre class="code grant" tabIndex={0}>{grantCommands(body)}</pre>}
        </Panel>
      )}
      {!result.allowed && result.nearest?.length > 0 && <RuleTable title="Rules that come close" rules={result.nearest} />}
      {result.allowed === false && !result.nearest?.length && (
        <p class="muted">
          {result.bindings?.length ? (
            <>
              None of the rules of the user is similar. Bindings of the user:{" "}
              {result.bindings.map((each: string, index: number) => (
                <span key={each}>
                  {index > 0 && ", "}
                  <a href={rbacLink(each)}>{each.replace(/^[^/]*\//, "")}</a>
                </span>
              ))}
            </>
          ) : (
            result.unreadable?.length ? `The bindings of the user are unknown: ${result.unreadable.join(", ")} are not readable.` : "No binding applies to this user."
          )}
        </p>
      )}
    </div>
  );
}

function RuleTable({ title, rules }: { title: string; rules: Json[] }) {
  return (
    <Panel title={title} flush>
      <table class="plain-table">
        <thead>
          <tr>
            <th scope="col">Rule</th>
            <th scope="col">Role</th>
            <th scope="col">Binding</th>
          </tr>
        </thead>
        <tbody>
          {rules.map((each, index) => (
            <tr key={index}>
              <td>
                <RuleLine rule={each.rule} differs={each.differs} />
              </td>
              <td>
                <a href={rbacLink(each.role)}>{each.role}</a>
              </td>
              <td>
                <a href={rbacLink(each.binding)}>{each.binding}</a>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}
