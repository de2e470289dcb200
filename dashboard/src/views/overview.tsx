import { useState } from "preact/hooks";
import { json, query, type Json } from "../lib/http";
import { useLoaded } from "../lib/live";
import { kindLink, link, namespaceFilter, referenceLink } from "../lib/router";
import { info } from "../lib/state";
import { useStream } from "../lib/stream";
import { Chip, Empty, Failure, Loading, Page, Panel, Time } from "../components/basics";
import { HEALTH_TEXT, HealthIcon } from "../components/icons";
import { FindingItem, type Finding } from "./findings";

const ORDER = ["Failed", "InProgress", "Terminating", "Unknown", "Current"];

export interface KindSummary {
  group: string;
  version: string;
  kind: string;
  resource: string;
  custom: boolean;
  count: number;
  error: string;
  scope: string;
  stale: string;
  synced: boolean;
  health: Record<string, number>;
}

export function HealthBar({ health, count }: { health: Record<string, number>; count: number }) {
  const text = ORDER.filter((each) => health[each]).map((each) => `${health[each]} ${HEALTH_TEXT[each].toLowerCase()}`);
  return (
    <span class="health-bar" role="img" aria-label={text.join(", ") || "no objects"} title={text.join(", ")}>
      {ORDER.map((each) =>
        health[each] ? <span key={each} class={`health-part health-${each}`} style={{ flexGrow: (health[each] / count) * 100 }} /> : null,
      )}
    </span>
  );
}

function KindCard({ kind }: { kind: KindSummary }) {
  const bad = (kind.health.Failed || 0) > 0;
  return (
    <a class={`kind-card${bad ? " kind-card-failed" : ""}`} href={kindLink(kind)}>
      <span class="kind-card-head">
        <span class="kind-card-name">{kind.kind}</span>
        <span class="kind-card-count">{kind.count}</span>
      </span>
      <HealthBar health={kind.health} count={kind.count} />
      <span class="kind-card-foot">
        {kind.scope && <span class="muted">only {kind.scope}</span>}
        {ORDER.filter((each) => each !== "Current" && kind.health[each]).map((each) => (
          <span key={each} class="kind-card-part">
            <HealthIcon health={each} size={14} /> {kind.health[each]} {HEALTH_TEXT[each].toLowerCase()}
          </span>
        ))}
        {!ORDER.some((each) => each !== "Current" && kind.health[each]) && <span class="muted">{kind.group || "core"}</span>}
      </span>
    </a>
  );
}

/** The overview of the namespace filter, kept current. */
export function useOverview() {
  const namespace = namespaceFilter();
  const loaded = useLoaded<Json>((signal) => json(`/api/overview${query({ namespace })}`, { signal }), [namespace]);
  useStream("overview", (data) => data.namespace === namespace && (loaded.value.value = data));
  useStream("namespace", () => undefined, namespace, Boolean(namespace));
  return loaded;
}

/** What the counts below do not include: kinds that cannot be read, or only in one namespace. */
function Coverage({ data }: { data: Json }) {
  const unreadable: KindSummary[] = data.kinds.filter((each: KindSummary) => each.error);
  const limited: KindSummary[] = data.kinds.filter((each: KindSummary) => each.scope);
  const stale: KindSummary[] = data.kinds.filter((each: KindSummary) => each.stale);
  if (!unreadable.length && !limited.length && !stale.length && !data.truncated) return null;
  return (
    <div class="banner coverage" role="status">
      <div>
        {data.truncated && <p>The cluster has more objects than the dashboard counts. What is not counted is unknown.</p>}
        {unreadable.length > 0 && (
          <details>
            <summary>
              {unreadable.length === 1 ? `${unreadable[0].kind} is` : `${unreadable.length} kinds are`} not readable: their objects and health are unknown.
            </summary>
            <ul>
              {unreadable.map((each) => (
                <li key={`${each.group}/${each.resource}`}>
                  {each.kind}: {each.error}{" "}
                  <a href={link(["access"], { tab: "why", ask: "1", user: info.value?.user.username, groups: info.value?.user.groups.join(","), verb: "list", resource: each.resource, group: each.group })}>Why</a>
                </li>
              ))}
            </ul>
          </details>
        )}
        {limited.length > 0 && (
          <p>
            {limited.length} kinds are readable only in the namespace {limited[0].scope}: other namespaces are unknown.
          </p>
        )}
        {stale.length > 0 && (
          <p>
            {stale.length === 1 ? stale[0].kind : `${stale.length} kinds`} cannot be watched now, their state may be old: {stale[0].stale}
          </p>
        )}
      </div>
    </div>
  );
}

export function Overview() {
  const loaded = useOverview();
  const [showAll, setShowAll] = useState(false);
  const data = loaded.value.value;
  if (!data) {
    return (
      <Page title="Overview">
        {loaded.error.value ? <Failure error={loaded.error.value} retry={loaded.reload} /> : <Loading />}
      </Page>
    );
  }
  const kinds: KindSummary[] = data.kinds.filter((each: KindSummary) => each.count > 0);
  const totals: Record<string, number> = {};
  for (const kind of kinds) for (const [health, count] of Object.entries(kind.health)) totals[health] = (totals[health] || 0) + count;
  const objects = kinds.reduce((sum, kind) => sum + kind.count, 0);
  const custom = kinds.filter((kind) => kind.custom);
  const builtIn = kinds.filter((kind) => !kind.custom);
  const workloads = builtIn.filter((kind) => ["apps", "batch", ""].includes(kind.group));
  const other = builtIn.filter((kind) => !workloads.includes(kind));
  const warnings: Json[] = data.warnings;
  const unreadable: KindSummary[] = data.kinds.filter((each: KindSummary) => each.error);
  const findings: Finding[] = data.findings;
  const found = Object.values(data.totals as Record<string, number>).reduce((sum, count) => sum + count, 0);
  const where = data.namespace ? ` in ${data.namespace}` : "";
  return (
    <Page title="Overview" subtitle={data.synced ? `${objects.toLocaleString()} objects of ${kinds.length} kinds${where}` : "Reading the objects of the cluster"}>
      <Coverage data={data} />
      <div class="stats">
        {ORDER.map((each) => (
          <a key={each} href={link(["health", each])} class={`stat${totals[each] ? "" : " stat-zero"}`}>
            <HealthIcon health={each} size={22} />
            <span class="stat-number">{(totals[each] || 0).toLocaleString()}</span>
            <span class="stat-label">{HEALTH_TEXT[each]}</span>
          </a>
        ))}
      </div>
      <div class="attention">
        <Panel title="Needs attention" actions={found > findings.length ? <span class="muted">the first {findings.length} of {found.toLocaleString()}</span> : undefined} flush>
          {findings.length ? (
            <ul class="event-list" aria-label="Findings">{findings.map((each) => <FindingItem key={each.id} finding={each} />)}</ul>
          ) : (
            <Empty title={!data.synced ? "Still reading" : unreadable.length ? `Nothing found in the readable kinds${where}` : `Nothing needs attention${where}`}>
              {unreadable.length > 0 && `${unreadable.length} kinds cannot be read; whether their objects are healthy is unknown. `}
              {!data.traces && "No operator is connected: failing reconciles are unknown."}
            </Empty>
          )}
        </Panel>
        <Panel title="Recent warnings" flush>
          {warnings.length ? (
            <ul class="event-list" aria-label="Warnings">{warnings.map((each: Json, index: number) => <Warning key={index} warning={each} />)}</ul>
          ) : data.warningsError ? (
            <Empty title="Events are not readable">{data.warningsError}</Empty>
          ) : (
            <Empty title={`No warnings${where}`}>Events of type Warning appear here for an hour.</Empty>
          )}
        </Panel>
      </div>
      {custom.length > 0 && (
        <section class="section">
          <h2 class="section-title">Custom resources</h2>
          <div class="cards">{custom.map((kind) => <KindCard key={`${kind.group}/${kind.resource}`} kind={kind} />)}</div>
        </section>
      )}
      <section class="section">
        <h2 class="section-title">Workloads and core</h2>
        {workloads.length ? (
          <div class="cards">{workloads.map((kind) => <KindCard key={`${kind.group}/${kind.resource}`} kind={kind} />)}</div>
        ) : (
          <Empty title={unreadable.length ? "No readable objects" : "No objects yet"}>{unreadable.length ? `${unreadable.length} kinds cannot be read.` : "Create an object with kubectl, or run an operator with kubewright run."}</Empty>
        )}
      </section>
      {other.length > 0 && (
        <section class="section">
          <button type="button" class="disclosure" aria-expanded={showAll} onClick={() => setShowAll(!showAll)}>
            {showAll ? "Hide" : "Show"} {other.length} other kinds
          </button>
          {showAll && <div class="cards">{other.map((kind) => <KindCard key={`${kind.group}/${kind.resource}`} kind={kind} />)}</div>}
        </section>
      )}
      <p>
        <a href={link(["objects"])}>All kinds, also those without objects</a>
      </p>
    </Page>
  );
}

function Warning({ warning }: { warning: Json }) {
  const about = warning.object;
  return (
    <li class="event-item">
      <div class="event-main">
        <div class="event-line">
          <a href={referenceLink(about, { tab: "events" })} class="event-object">
            {about.kind} {about.namespace ? `${about.namespace}/` : ""}
            {about.name}
          </a>
          <Chip tone="warning">{warning.reason}</Chip>
        </div>
        <p class="event-message" title={warning.message}>{warning.message}</p>
      </div>
      <div class="event-side">
        {warning.count > 1 && <span class="muted">×{warning.count}</span>} <Time at={warning.lastSeen} />
      </div>
    </li>
  );
}
