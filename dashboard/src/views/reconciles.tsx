import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { json, query, type Json } from "../lib/http";
import { useLoaded } from "../lib/live";
import { namespaceFilter, route, setParams } from "../lib/router";
import { info } from "../lib/state";
import { useStream } from "../lib/stream";
import { clock, exact, now, precise } from "../lib/time";
import { failed, laneKey, mergeSpans, RESULT_TEXT, summarize, whyOf, whyText, type ObjectSummary, type Reconcile } from "../lib/traces";
import { Chip, Empty, Failure, Field, Loading, Page, Select, Time } from "../components/basics";
import { Icon } from "../components/icons";
import { FindingLine, type Finding } from "./findings";
import { mergeTick, Queues } from "./queues";
import { Detail } from "./reconcile-detail";
import { Timeline, windowOf } from "./timeline";

const KEPT = 500;
const FIRST_MILLISECONDS = 120;
/** Under load, the page is drawn once in this time: more often nobody can read it. */
const FLUSH_MILLISECONDS = 1000;
const WINDOWS = [
  { value: "", text: "Automatic" },
  { value: "10", text: "10 s" },
  { value: "60", text: "1 min" },
  { value: "300", text: "5 min" },
  { value: "1800", text: "30 min" },
];

interface Reference {
  group: string;
  version: string;
  kind: string;
  namespace: string;
  name: string;
}

/** Reconciles as they happen, newest first, with what is known of each object. */
function useReconciles(filter: Record<string, string | undefined>, paused: boolean) {
  const loaded = useLoaded<Json>((signal) => json(`/api/reconciles${query({ ...filter, limit: KEPT })}`, { signal }), [JSON.stringify(filter)]);
  const waiting = useRef<Reconcile[]>([]);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const flushed = useRef(0);
  const matches = (span: Reconcile) =>
    (!filter.controller || span.controller === filter.controller) &&
    (!filter.kind || span.kind === filter.kind) &&
    (!filter.namespace || span.namespace === filter.namespace) &&
    (!filter.name || span.name === filter.name);
  const flush = () => {
    timer.current = undefined;
    flushed.current = Date.now();
    const data = loaded.value.value;
    const fresh = waiting.current;
    waiting.current = [];
    if (!data || paused || !fresh.length) return;
    const objects = new Map<string, ObjectSummary>(data.objects.map((each: ObjectSummary) => [laneKey(each), each]));
    for (const span of fresh) objects.set(laneKey(span), summarize(objects.get(laneKey(span)), span));
    const shown = filter.errors ? fresh.filter(failed) : fresh;
    loaded.value.value = { ...data, objects: [...objects.values()], spans: mergeSpans(data.spans, shown, KEPT) };
  };
  useStream("reconcile", (spans: Reconcile[]) => {
    const fresh = spans.filter(matches);
    if (!fresh.length) return;
    waiting.current.push(...fresh);
    const wait = Math.max(FIRST_MILLISECONDS, FLUSH_MILLISECONDS - (Date.now() - flushed.current));
    timer.current ??= setTimeout(flush, wait);
  });
  useEffect(() => () => clearTimeout(timer.current), []);
  // Spans that were missed while the view was paused.
  useEffect(() => {
    if (!paused && loaded.value.value) loaded.reload();
  }, [paused]);
  return loaded;
}

export function NoTraces({ message }: { message?: string }) {
  return (
    <Empty title="No operator is connected">
      <p>{message || "Reconciles and webhook calls are recorded by an operator that runs with the dashboard."} Start it with:</p>
      <pre class="code code-inline" tabIndex={0}>kubewright run --dashboard</pre>
    </Empty>
  );
}

export function Reconciles({ of }: { of?: Reference }) {
  const params = route.value.params;
  const controller = params.get("controller") || "";
  const onlyErrors = params.get("errors") === "1";
  const wanted = params.get("object") || "";
  const namespace = namespaceFilter();
  const [paused, setPaused] = useState(false);
  const frozen = useRef(now.peek());
  const filter = of
    ? { kind: of.kind, namespace: of.namespace, name: of.name }
    : { controller: controller || undefined, namespace: namespace || undefined, errors: onlyErrors ? "1" : undefined };
  const loaded = useReconciles(filter, paused);
  const data = loaded.value.value;
  if (!paused) frozen.current = Math.max(now.value, data?.spans[0]?.ended || 0);
  const summaries = useMemo(() => new Map<string, ObjectSummary>((data?.objects || []).map((each: ObjectSummary) => [laneKey(each), each])), [data]);
  if (!data) return loaded.error.value ? <Failure error={loaded.error.value} retry={loaded.reload} /> : <Loading />;
  if (!data.traces && !data.spans.length) return <NoTraces message={data.message} />;
  const fits = (each: { kind: string; namespace: string; name: string }) => !wanted || `${each.kind} ${each.namespace}/${each.name}`.toLowerCase().includes(wanted.toLowerCase());
  const spans: Reconcile[] = data.spans.filter(fits);
  const known: ObjectSummary[] = data.objects.filter(fits);
  const selected = spans.find((span) => span.id === params.get("id"));
  const range = windowOf(params, known, frozen.current);
  const inRange = range.live ? spans : spans.filter((span) => span.ended >= range.from && span.queued <= range.to);
  return (
    <div class="reconciles">
      {!data.traces && (
        <p class="banner" role="status">
          {data.message} What was recorded before is shown.
        </p>
      )}
      <div class="toolbar">
        {!of && (
          <>
            <Select label="Controller" value={controller} options={[{ value: "", text: "All controllers" }, ...data.controllers.map((each: string) => ({ value: each, text: each }))]} change={(value) => setParams({ controller: value })} />
            <Field id="filter" label="Filter objects" value={wanted} change={(value) => setParams({ object: value })} width="200px" />
            <label class="check">
              <input type="checkbox" checked={onlyErrors} onChange={(event) => setParams({ errors: event.currentTarget.checked ? "1" : undefined })} /> Only errors
            </label>
          </>
        )}
        <span class="spacer" />
        {range.live ? (
          <>
            <Select label="Time range" value={params.get("window") || ""} options={WINDOWS} change={(value) => setParams({ window: value })} />
            <button type="button" class="button button-quiet" title="Keep this time range in the address" onClick={() => setParams({ from: String(Math.round(range.from)), to: String(Math.round(range.to)) }, { push: true })}>
              Pin
            </button>
            <button type="button" class="button button-quiet" aria-pressed={paused} onClick={() => setPaused(!paused)}>
              <Icon name={paused ? "play" : "pause"} /> {paused ? "Continue" : "Pause"}
            </button>
          </>
        ) : (
          <>
            <Chip>
              {clock(range.from)} – {clock(range.to)}
            </Chip>
            <button type="button" class="button button-quiet" onClick={() => setParams({ from: undefined, to: undefined }, { push: true })}>
              <Icon name="play" /> Back to now
            </button>
          </>
        )}
      </div>
      {of && <ObjectEvidence objects={known} />}
      {spans.length ? (
        <div class={`reconcile-split${selected ? " has-detail" : ""}`}>
          <div class="reconcile-main">
            <Timeline spans={spans} summaries={summaries} range={range} selected={selected} />
            <SpanList spans={inRange} all={data.spans} selected={selected} />
          </div>
          {selected && <Detail span={selected} spans={data.spans} />}
        </div>
      ) : (
        <Empty title={onlyErrors ? "No failed reconcile is recorded" : of ? "No reconcile of this object is recorded" : "No reconcile is recorded"}>
          {of ? "Its owner may be the object that is reconciled. " : "They appear as soon as a controller processes an object. "}
          {data.since ? `Reconciles before ${exact(data.since)} are unknown.` : "Recording has not begun."}
          {data.forgotten > 0 && ` The last reconciles of ${data.forgotten.toLocaleString()} objects were dropped to save memory.`}
        </Empty>
      )}
      <Evidence data={data} />
    </div>
  );
}

/** How far back the page can look. */
function Evidence({ data }: { data: Json }) {
  if (!data.since || !data.spans.length) return null;
  return (
    <p class="muted evidence">
      Recorded since {exact(data.since)}.{" "}
      {data.completeSince > data.since && `Complete since ${exact(data.completeSince)}; of earlier reconciles, the last failure and the last success of each object are kept. `}
      {data.forgotten > 0 && `${data.forgotten.toLocaleString()} objects were dropped to save memory.`}
    </p>
  );
}

/** What is known of one object, for each controller that reconciles it. */
function ObjectEvidence({ objects }: { objects: ObjectSummary[] }) {
  if (!objects.length) return null;
  return (
    <dl class="object-evidence">
      {objects.map((each) => (
        <div key={each.controller}>
          <dt>
            {each.controller} {each.failing ? <Chip tone="danger">failing</Chip> : <Chip tone="ok">succeeded</Chip>}
          </dt>
          <dd>
            {each.reconciles.toLocaleString()} reconciles, {each.errors.toLocaleString()} errors since <Time at={each.first} />.{" "}
            {each.failing ? (
              <>
                {each.failuresInRow} failures in a row since <Time at={each.failingSince} />; {each.nextRetry ? <>next retry <Time at={each.nextRetry} /></> : "not retried"}.{" "}
                {each.lastSuccess ? <>Last success <Time at={each.lastSuccess} />.</> : "No success is recorded."}
              </>
            ) : each.lastFailure ? (
              <>
                Last failure{" "}
                <button type="button" class="link-button" onClick={() => setParams({ id: each.lastFailureId })}>
                  <Time at={each.lastFailure} />
                </button>
                .
              </>
            ) : (
              "No failure is recorded."
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function SpanList({ spans, all, selected }: { spans: Reconcile[]; all: Reconcile[]; selected?: Reconcile }) {
  const [limit, setLimit] = useState(50);
  return (
    <div class="panel panel-flush span-list">
      <table class="plain-table span-table">
        <thead>
          <tr>
            <th scope="col" class="col-time">Time</th>
            <th scope="col" class="col-object">Object</th>
            <th scope="col">Why</th>
            <th scope="col" class="numeric col-number col-optional">Waited</th>
            <th scope="col" class="numeric col-number col-optional">Duration</th>
            <th scope="col" class="numeric col-number col-optional">Writes</th>
            <th scope="col" class="col-result">Result</th>
          </tr>
        </thead>
        <tbody>
          {spans.slice(0, limit).map((span) => (
            <SpanRow key={span.id} span={span} all={all} selected={span.id === selected?.id} />
          ))}
        </tbody>
      </table>
      {spans.length > limit && (
        <button type="button" class="link-button list-more" onClick={() => setLimit(limit + 200)}>
          Show more of {spans.length}
        </button>
      )}
    </div>
  );
}

function SpanRow({ span, all, selected }: { span: Reconcile; all: Reconcile[]; selected: boolean }) {
  const why = useMemo(() => whyText(whyOf(span, all), span), [span]);
  return (
    <tr class={selected ? "selected" : ""} onClick={() => setParams({ id: selected ? undefined : span.id })}>
      <td>
        <button type="button" class="row-button" aria-expanded={selected}>
          <Time at={span.started} />
        </button>
      </td>
      <td>
        <span class="span-object" title={`${span.kind} ${span.request}, ${span.controller}`}>{span.request}</span> <span class="muted">{span.controller}</span>
      </td>
      <td title={span.causes.map((cause) => cause.text).join("\n")}>
        <span class="span-why">{why}</span>
      </td>
      <td class="numeric col-optional">{precise(span.wait)}</td>
      <td class="numeric col-optional">{precise(span.duration)}</td>
      <td class="numeric col-optional">{span.writes.length || "–"}</td>
      <td>
        <Chip tone={failed(span) ? "danger" : span.result === "success" ? "ok" : undefined}>{RESULT_TEXT[span.result] || span.result}</Chip>
      </td>
    </tr>
  );
}

const FOUND_HERE = ["fight", "loop"];

export function ReconcilesPage() {
  const queues = useLoaded<Json>((signal) => json("/api/queues", { signal }), []);
  const namespace = namespaceFilter();
  const overview = useLoaded<Json>((signal) => json(`/api/overview${query({ namespace })}`, { signal }), [namespace]);
  useStream("queue", (ticks: Json[]) => {
    const data = queues.value.value;
    if (!data) return;
    queues.value.value = { ...data, controllers: ticks.reduce(mergeTick, data.controllers) };
  });
  useStream("overview", (data) => (overview.value.value = data));
  useStream("namespace", () => undefined, namespace, Boolean(namespace));
  const data = queues.value.value;
  const wanted = (route.value.params.get("object") || "").toLowerCase();
  const findings: Finding[] = (overview.value.value?.findings || []).filter((each: Finding) => FOUND_HERE.includes(each.type) && each.message.toLowerCase().includes(wanted));
  return (
    <Page wide title="Reconciles" subtitle={info.value?.operators?.length ? `Connected: ${info.value.operators.join(", ")}` : "What the controllers of the connected operator do, and why"}>
      {data?.traces && data.controllers.length > 0 && <Queues queues={data.controllers} />}
      {findings.length > 0 && (
        <div class="banner banner-warning" role="status">
          <Icon name="warning" />
          <div>
            {findings.map((each) => (
              <FindingLine key={each.id} finding={each} />
            ))}
          </div>
        </div>
      )}
      <Reconciles />
    </Page>
  );
}
