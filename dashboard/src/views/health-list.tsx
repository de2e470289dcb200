// Objects of all kinds with one health, those that have it longest first.
import { json, query, type Json } from "../lib/http";
import { useLoaded } from "../lib/live";
import { kindLink, link, namespaceFilter, referenceLink } from "../lib/router";
import { useEffect } from "preact/hooks";
import type { TreeNode } from "../lib/tree";
import { Empty, Failure, Loading, Page, Tabs, Time } from "../components/basics";
import { HEALTH_TEXT, HealthIcon } from "../components/icons";
import { useOverview } from "./overview";

const LIMIT = 500;

export function HealthList({ health }: { health: string }) {
  const namespace = namespaceFilter();
  const overview = useOverview();
  const loaded = useLoaded<Json>((signal) => json(`/api/objects${query({ health, namespace, limit: LIMIT })}`, { signal }), [health, namespace]);
  const totals: Record<string, number> = {};
  for (const kind of overview.value.value?.kinds || []) for (const [name, count] of Object.entries(kind.health)) totals[name] = (totals[name] || 0) + (count as number);
  const changed = JSON.stringify(totals);
  useEffect(() => {
    if (loaded.value.peek()) loaded.reload();
  }, [changed]);
  const data = loaded.value.value;
  return (
    <Page title="Objects by health" subtitle={data ? `${data.total.toLocaleString()} objects${namespace ? ` in ${namespace}` : ""}${data.truncated ? `, the first ${data.objects.length} are shown` : ""}` : undefined}>
      <Tabs tabs={Object.keys(HEALTH_TEXT).map((each) => ({ id: each, title: HEALTH_TEXT[each], count: totals[each] }))} current={health} href={(id) => link(["health", id])} />
      {!data ? (
        loaded.error.value ? <Failure error={loaded.error.value} retry={loaded.reload} /> : <Loading />
      ) : data.objects.length ? (
        <div class="panel panel-flush">
          <ul class="event-list">
            {data.objects.map((each: TreeNode) => (
              <li key={each.id} class="event-item">
                <HealthIcon health={each.health} />
                <div class="event-main">
                  <a href={referenceLink(each)} class="event-object">
                    {each.kind} {each.namespace ? `${each.namespace}/` : ""}
                    {each.name}
                  </a>
                  <p class="event-message">{each.message}</p>
                </div>
                <div class="event-side">
                  <a href={kindLink(each, { q: `health:${each.health.toLowerCase()}` })}>all {each.resource}</a>
                  {each.since ? <> since <Time at={each.since} /></> : ""}
                </div>
              </li>
            ))}
          </ul>
        </div>
      ) : (
        <Empty title={data.synced ? `No object is ${HEALTH_TEXT[health]?.toLowerCase() || health}` : "Still reading"}>{data.unreadable.length > 0 && `${data.unreadable.length} kinds cannot be read; their objects are unknown.`}</Empty>
      )}
      {data && data.objects.length > 0 && data.unreadable.length > 0 && <p class="muted evidence">{data.unreadable.length} kinds cannot be read; their objects are unknown.</p>}
    </Page>
  );
}
