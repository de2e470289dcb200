import { json, type Json } from "../lib/http";
import { useLiveList, useLoaded } from "../lib/live";
import { link, namespaceFilter, objectLink, route, setParams } from "../lib/router";
import { useStream } from "../lib/stream";
import { exact, precise } from "../lib/time";
import type { Webhook } from "../lib/traces";
import { Chip, Empty, Failure, Loading, Page, Panel, Tabs, Time } from "../components/basics";
import { Diff } from "../components/diff";
import { Icon } from "../components/icons";
import { toYaml, withoutManagedFields } from "../lib/yaml";
import { NoTraces } from "./reconciles";

export function Webhooks() {
  const tab = route.value.params.get("tab") || "calls";
  return (
    <Page wide title="Webhooks and policies" subtitle="What is checked and changed before an object is stored">
      <Tabs
        tabs={[
          { id: "calls", title: "Calls" },
          { id: "webhooks", title: "Webhook configurations" },
          { id: "policies", title: "Admission policies" },
        ]}
        current={tab}
        href={(id) => link(["webhooks"], { tab: id })}
      />
      <div class="tab-panel">
        {tab === "calls" && <Calls />}
        {tab === "webhooks" && <Configurations />}
        {tab === "policies" && <Policies />}
      </div>
    </Page>
  );
}

function Calls() {
  const loaded = useLoaded<Json>((signal) => json("/api/webhooks?limit=300", { signal }), []);
  useStream("webhook", (fresh: Webhook[]) => {
    const data = loaded.value.value;
    const ids = new Set(fresh.map((each) => each.id));
    if (data) loaded.value.value = { ...data, spans: [...fresh.reverse(), ...data.spans.filter((each: Webhook) => !ids.has(each.id))].slice(0, 300) };
  });
  const data = loaded.value.value;
  if (!data) return loaded.error.value ? <Failure error={loaded.error.value} retry={loaded.reload} /> : <Loading />;
  if (!data.traces && !data.spans.length) return <NoTraces message={data.message} />;
  const namespace = namespaceFilter();
  const spans: Webhook[] = data.spans.filter((each: Webhook) => !namespace || !each.namespace || each.namespace === namespace);
  if (!spans.length) {
    return (
      <Empty title="No call is recorded">
        Calls appear here when a request matches a webhook of the operator. With kubewright up --dashboard, calls of all webhooks and decisions of admission policies appear, too.
        {data.since ? ` Calls before ${exact(data.since)} are unknown.` : ""}
      </Empty>
    );
  }
  const selected = spans.find((span) => span.id === route.value.params.get("id"));
  return (
    <div class={`reconcile-split${selected ? " has-detail" : ""}`}>
      <div class="panel panel-flush span-list">
        <table class="plain-table span-table">
          <thead>
            <tr>
              <th scope="col" class="col-time">Time</th>
              <th scope="col" class="col-type">Webhook</th>
              <th scope="col">Request</th>
              <th scope="col" class="col-optional">Path</th>
              <th scope="col" class="col-user col-optional">User</th>
              <th scope="col" class="numeric col-number col-optional">Duration</th>
              <th scope="col" class="col-result">Response</th>
            </tr>
          </thead>
          <tbody>
            {spans.map((span) => (
              <tr key={span.id} class={span === selected ? "selected" : ""} onClick={() => setParams({ id: span === selected ? undefined : span.id })}>
                <td>
                  <button type="button" class="row-button" aria-expanded={span === selected}>
                    <Time at={span.started} />
                  </button>
                </td>
                <td>{span.type}</td>
                <td>
                  {span.operation} {span.kind} {span.namespace ? `${span.namespace}/` : ""}
                  {span.name} {span.dryRun && <Chip>dry run</Chip>}
                </td>
                <td class="muted col-optional" title={span.path}>{span.path}</td>
                <td class="muted col-optional" title={span.user}>{span.user}</td>
                <td class="numeric col-optional">{precise(span.duration)}</td>
                <td>
                  <Verdict span={span} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {selected && <CallDetail span={selected} />}
    </div>
  );
}

function Verdict({ span }: { span: Webhook }) {
  if (span.error || span.code >= 500) return <Chip tone="danger">Error</Chip>;
  if (!span.allowed) return <Chip tone="danger">Rejected</Chip>;
  return <Chip tone="ok">{span.patch?.length ? `Patched (${span.patch.length})` : "Allowed"}</Chip>;
}

function CallDetail({ span }: { span: Webhook }) {
  return (
    <aside class="panel span-detail" aria-label="Webhook call">
      <header class="panel-head">
        <h2>
          {span.operation} {span.kind} {span.name}
        </h2>
        <button type="button" class="icon-button" aria-label="Close" onClick={() => setParams({ id: undefined })}>
          <Icon name="close" />
        </button>
      </header>
      <div class="panel-body">
        <dl class="facts">
          <dt>Webhook</dt>
          <dd>
            {span.type} {span.path}
          </dd>
          <dt>Time</dt>
          <dd>{exact(span.started)}</dd>
          <dt>Duration</dt>
          <dd>{precise(span.duration)}</dd>
          <dt>User</dt>
          <dd>{span.user || "–"}</dd>
          <dt>Response</dt>
          <dd>
            <Verdict span={span} /> HTTP {span.code}
          </dd>
        </dl>
        {span.message && <p class={span.allowed ? "" : "form-error"}>{span.message}</p>}
        {span.warnings?.map((warning) => (
          <p key={warning} class="banner">
            {warning}
          </p>
        ))}
        {span.traceback && <pre class="code traceback" tabIndex={0}>{span.traceback}</pre>}
        {span.patch?.length > 0 && (
          <>
            <h3>Patch</h3>
            <pre class="code" tabIndex={0}>{toYaml(span.patch)}</pre>
          </>
        )}
        {span.oldObject && span.object ? (
          <>
            <h3>Requested change</h3>
            <Diff before={toYaml(withoutManagedFields(span.oldObject))} after={toYaml(withoutManagedFields(span.object))} />
          </>
        ) : span.object ? (
          <>
            <h3>Object in the request</h3>
            <pre class="code" tabIndex={0}>{toYaml(withoutManagedFields(span.object))}</pre>
          </>
        ) : (
          <p class="muted">The request is larger than 64 KiB and was not recorded.</p>
        )}
        {span.response && (
          <>
            <h3>Response</h3>
            <pre class="code" tabIndex={0}>{toYaml(span.response)}</pre>
          </>
        )}
      </div>
    </aside>
  );
}

const ADMISSION = { group: "admissionregistration.k8s.io", version: "v1" };

function rulesText(rules: Json[] | undefined): string {
  return (rules || [])
    .map((rule) => `${(rule.operations || []).join(", ")} ${(rule.resources || []).map((each: string) => ((rule.apiGroups || [])[0] ? `${each}.${rule.apiGroups[0]}` : each)).join(", ")}`)
    .join("; ");
}

function Configurations() {
  const root = "/k8s/apis/admissionregistration.k8s.io/v1";
  const mutating = useLiveList(`${root}/mutatingwebhookconfigurations`);
  const validating = useLiveList(`${root}/validatingwebhookconfigurations`);
  const error = mutating.error.value || validating.error.value;
  if (error && mutating.state.value === "failed") return <Failure error={error} />;
  if (mutating.state.value === "loading" || validating.state.value === "loading") return <Loading />;
  const found = [
    ...mutating.items.value.map((each) => ({ each, type: "Mutating", plural: "mutatingwebhookconfigurations" })),
    ...validating.items.value.map((each) => ({ each, type: "Validating", plural: "validatingwebhookconfigurations" })),
  ];
  if (!found.length) return <Empty title="No webhook configurations">kubewright run --development registers the webhooks of an operator.</Empty>;
  return (
    <>
      {found.map(({ each, type, plural }) => (
        <Panel key={each.metadata.uid} title={<a href={objectLink({ ...ADMISSION, plural }, "", each.metadata.name)}>{each.metadata.name}</a>} actions={<Chip>{type}</Chip>} flush>
          <div class="scroll-x" tabIndex={0} role="region" aria-label="Table">
            <table class="plain-table">
              <thead>
                <tr>
                  <th scope="col">Webhook</th>
                  <th scope="col">Rules</th>
                  <th scope="col">Target</th>
                  <th scope="col">If it fails</th>
                  <th scope="col">Timeout</th>
                </tr>
              </thead>
              <tbody>
                {(each.webhooks || []).map((webhook: Json) => (
                  <tr key={webhook.name}>
                    <td>{webhook.name}</td>
                    <td>{rulesText(webhook.rules)}</td>
                    <td class="break">{webhook.clientConfig?.url || `${webhook.clientConfig?.service?.namespace}/${webhook.clientConfig?.service?.name}${webhook.clientConfig?.service?.path || ""}`}</td>
                    <td>{webhook.failurePolicy === "Ignore" ? "the request is allowed" : "the request is rejected"}</td>
                    <td>{webhook.timeoutSeconds} s</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </Panel>
      ))}
    </>
  );
}

function Policies() {
  const root = "/k8s/apis/admissionregistration.k8s.io/v1";
  const policies = useLiveList(`${root}/validatingadmissionpolicies`);
  const bindings = useLiveList(`${root}/validatingadmissionpolicybindings`);
  if (policies.state.value === "failed" && policies.error.value) return <Failure error={policies.error.value} />;
  if (policies.state.value === "loading") return <Loading />;
  if (!policies.items.value.length) {
    return <Empty title="No admission policies">A ValidatingAdmissionPolicy checks requests with CEL, without a webhook. Its schema has an example: <a href="#/schema/admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy">ValidatingAdmissionPolicy</a>.</Empty>;
  }
  return (
    <>
      {policies.items.value.map((policy) => {
        const bound = bindings.items.value.filter((each) => each.spec?.policyName === policy.metadata.name);
        return (
          <Panel
            key={policy.metadata.uid}
            title={<a href={objectLink({ ...ADMISSION, plural: "validatingadmissionpolicies" }, "", policy.metadata.name)}>{policy.metadata.name}</a>}
            actions={bound.length ? bound.map((each) => <Chip key={each.metadata.uid}>{(each.spec.validationActions || []).join(", ")}</Chip>) : <Chip tone="warning">not bound</Chip>}
          >
            <p class="muted">{rulesText(policy.spec?.matchConstraints?.resourceRules) || "all requests"}</p>
            <ul class="policy-list">
              {(policy.spec?.validations || []).map((validation: Json, index: number) => (
                <li key={index}>
                  <code>{validation.expression}</code>
                  {(validation.message || validation.messageExpression) && <span class="muted"> {validation.message || validation.messageExpression}</span>}
                </li>
              ))}
            </ul>
          </Panel>
        );
      })}
    </>
  );
}
