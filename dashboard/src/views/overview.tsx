import { useState } from "preact/hooks";
import { json, type Json } from "../lib/http";
import { useLoaded } from "../lib/live";
import { kindLink, referenceLink } from "../lib/router";
import { useStream } from "../lib/stream";
import type { TreeNode } from "../lib/tree";
import { Chip, Empty, Failure, Loading, Page, Panel, Time } from "../components/basics";
import { HEALTH_TEXT, HealthIcon } from "../components/icons";

const ORDER = ["Failed", "InProgress", "Terminating", "Unknown", "Current"];

export interface KindSummary {
  group: string;
  version: string;
  kind: string;
  resource: string;
  custom: boolean;
  count: number;
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

export function Overview() {
  const loaded = useLoaded<Json>((signal) => json("/api/overview", { signal }), []);
  useStream("overview", (data) => (loaded.value.value = data));
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
  const unreadable: Json[] = data.kinds.filter((each: Json) => each.error);
  const unhealthy: TreeNode[] = data.unhealthy;
  return (
    <Page title="Overview" subtitle={data.synced ? `${objects.toLocaleString()} objects of ${kinds.length} kinds` : "Reading the objects of the cluster"}>
      {(unreadable.length > 0 || data.truncated) && (
        <p class="banner" title={unreadable.map((each) => `${each.kind}: ${each.error}`).join("\n")}>
          {data.truncated && "The cluster has more objects than the dashboard counts. "}
          {unreadable.length > 0 && `The user of the dashboard cannot read ${unreadable.length === 1 ? unreadable[0].kind : `${unreadable.length} kinds`}; the Access view explains why.`}
        </p>
      )}
      <div class="stats">
        {ORDER.map((each) => (
          <div key={each} class={`stat${totals[each] ? "" : " stat-zero"}`}>
            <HealthIcon health={each} size={22} />
            <span class="stat-number">{(totals[each] || 0).toLocaleString()}</span>
            <span class="stat-label">{HEALTH_TEXT[each]}</span>
          </div>
        ))}
      </div>
      {(unhealthy.length > 0 || warnings.length > 0) && (
        <div class="attention">
          <Panel title="Needs attention" flush>
            {unhealthy.length ? (
              <ul class="event-list">{unhealthy.map((each) => <Unhealthy key={each.id} node={each} />)}</ul>
            ) : (
              <Empty title="All objects are healthy">Objects that fail or are in progress appear here.</Empty>
            )}
          </Panel>
          <Panel title="Recent warnings" flush>
            {warnings.length ? (
              <ul class="event-list">{warnings.map((each: Json, index: number) => <Warning key={index} warning={each} />)}</ul>
            ) : (
              <Empty title="No warnings">Events of type Warning appear here for an hour.</Empty>
            )}
          </Panel>
        </div>
      )}
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
          <Empty title="No objects yet">Create an object with kubectl, or run an operator with kubewright run.</Empty>
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

function Unhealthy({ node }: { node: TreeNode }) {
  return (
    <li class="event-item">
      <HealthIcon health={node.health} />
      <div class="event-main">
        <a href={referenceLink(node)} class="event-object">
          {node.kind} {node.namespace ? `${node.namespace}/` : ""}
          {node.name}
        </a>
        <p class="event-message" title={node.message}>{node.message || HEALTH_TEXT[node.health]}</p>
      </div>
    </li>
  );
}
