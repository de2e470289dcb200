import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { json, query, type Json } from "../lib/http";
import { useLoaded } from "../lib/live";
import { findKind, resources } from "../lib/discovery";
import { objectLink, route, setParams } from "../lib/router";
import { info } from "../lib/state";
import { useStream } from "../lib/stream";
import { clock, exact, now, precise } from "../lib/time";
import { failed, findFights, findLoops, linkedSpans, RESULT_TEXT, type Call, type Cause, type LinkedSpan, type Queue, type Reconcile } from "../lib/traces";
import { Chip, Empty, Failure, Field, Loading, Page, Panel, Select, Time } from "../components/basics";
import { Icon } from "../components/icons";
import { Plot } from "../components/plot";

const KEPT = 500;
const WINDOWS = [
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

/** Reconciles as they happen, newest first; with `of`, those of one object. */
function useReconciles(filter: Record<string, string | undefined>, paused: boolean) {
  const loaded = useLoaded<Json>((signal) => json(`/api/reconciles${query({ ...filter, limit: KEPT })}`, { signal }), [JSON.stringify(filter)]);
  const waiting = useRef<Reconcile[]>([]);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const matches = (span: Reconcile) =>
    (!filter.controller || span.controller === filter.controller) &&
    (!filter.kind || span.kind === filter.kind) &&
    (!filter.namespace || span.namespace === filter.namespace) &&
    (!filter.name || span.name === filter.name) &&
    (!filter.errors || failed(span));
  useStream("reconcile", (span: Reconcile) => {
    if (!matches(span)) return;
    waiting.current.push(span);
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      const data = loaded.value.value;
      const fresh = waiting.current.reverse();
      waiting.current = [];
      if (!data || paused) return;
      const known = new Set(fresh.map((each) => each.id));
      loaded.value.value = { ...data, spans: [...fresh, ...data.spans.filter((each: Reconcile) => !known.has(each.id))].slice(0, KEPT) };
    }, 120);
  });
  useEffect(() => () => clearTimeout(timer.current), []);
  // Spans that were missed while the view was paused.
  useEffect(() => {
    if (!paused && loaded.value.value) loaded.reload();
  }, [paused]);
  return loaded;
}

export function NoTraces() {
  return (
    <Empty title="No operator is connected">
      <p>Reconciles and webhook calls are recorded by an operator that runs with the dashboard. Start it with:</p>
      <pre class="code code-inline">kubewright run --dashboard</pre>
    </Empty>
  );
}

export function Reconciles({ of }: { of?: Reference }) {
  const params = route.value.params;
  const controller = params.get("controller") || "";
  const onlyErrors = params.get("errors") === "1";
  const wanted = params.get("object") || "";
  const [paused, setPaused] = useState(false);
  const seconds = Number(params.get("window") || "60");
  const filter = of ? { kind: of.kind, namespace: of.namespace, name: of.name } : { controller: controller || undefined, errors: onlyErrors ? "1" : undefined };
  const loaded = useReconciles(filter, paused);
  const data = loaded.value.value;
  if (!data) return loaded.error.value ? <Failure error={loaded.error.value} retry={loaded.reload} /> : <Loading />;
  if (!data.traces) return <NoTraces />;
  const spans: Reconcile[] = data.spans.filter((span: Reconcile) => !wanted || `${span.kind} ${span.request}`.toLowerCase().includes(wanted.toLowerCase()));
  const selected = spans.find((span) => span.id === params.get("id"));
  return (
    <div class="reconciles">
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
        <Select label="Time range" value={String(seconds)} options={WINDOWS} change={(value) => setParams({ window: value })} />
        <button type="button" class="button button-quiet" aria-pressed={paused} onClick={() => setPaused(!paused)}>
          <Icon name={paused ? "play" : "pause"} /> {paused ? "Continue" : "Pause"}
        </button>
      </div>
      <Findings spans={spans} />
      {spans.length ? (
        <>
          <div class={`reconcile-split${selected ? " has-detail" : ""}`}>
            <div class="reconcile-main">
              <Timeline spans={spans} seconds={seconds} paused={paused} selected={selected} />
              <SpanList spans={spans} selected={selected} />
            </div>
            {selected && <Detail span={selected} spans={data.spans} />}
          </div>
        </>
      ) : (
        <Empty title={onlyErrors ? "No failed reconciles" : of ? "No reconciles of this object" : "No reconciles yet"}>
          {of ? "No connected controller has reconciled it. Its owner may be the object that is reconciled." : "They appear as soon as a controller processes an object. Change one, for example with kubectl annotate."}
        </Empty>
      )}
    </div>
  );
}

function Findings({ spans }: { spans: Reconcile[] }) {
  const fights = useMemo(() => findFights(spans), [spans]);
  const loops = useMemo(() => findLoops(spans, fights), [spans, fights]);
  if (!fights.length && !loops.length) return null;
  return (
    <div class="banner banner-warning" role="status">
      <Icon name="warning" />
      <div>
        {fights.map((each) => (
          <p key={each.target}>
            {each.controllers.join(" and ")} both write {each.target}: {each.count} writes in 30 s. They may be in conflict over its fields.
          </p>
        ))}
        {loops.map((each) => (
          <p key={each.target + each.controllers[0]}>
            {each.controllers[0]} wrote in {each.count} reconciles of {each.target} in 10 s. Its writes may trigger its next reconcile.
          </p>
        ))}
      </div>
    </div>
  );
}

interface Lane {
  key: string;
  controller: string;
  label: string;
  spans: Reconcile[];
}

const LANES = 30;

/** One lane per controller and object; each bar is the time in the queue, then the reconcile. */
function Timeline({ spans, seconds, paused, selected }: { spans: Reconcile[]; seconds: number; paused: boolean; selected?: Reconcile }) {
  const frozen = useRef(now.peek());
  if (!paused) frozen.current = now.value;
  const end = Math.max(frozen.current, ...spans.slice(0, 1).map((span) => span.ended));
  const start = end - seconds * 1000;
  const lanes = useMemo(() => {
    const found = new Map<string, Lane>();
    for (const span of spans) {
      const key = `${span.controller}|${span.kind}|${span.request}`;
      const lane = found.get(key) || { key, controller: span.controller, label: `${span.kind} ${span.request}`, spans: [] };
      lane.spans.push(span);
      found.set(key, lane);
    }
    return [...found.values()];
  }, [spans]);
  const visible = lanes.filter((lane) => lane.spans.some((span) => span.ended >= start));
  visible.sort((a, b) => a.label.localeCompare(b.label) || a.controller.localeCompare(b.controller));
  const shown = visible.slice(0, LANES);
  const position = (time: number) => Math.max(0, Math.min(100, ((time - start) / (end - start)) * 100));
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => start + part * (end - start));
  return (
    <div class="timeline panel" role="group" aria-label="Timeline of reconciles">
      <div class="lane lane-head" aria-hidden="true">
        <span class="lane-label" />
        <span class="lane-track">
          {ticks.map((tick, index) => (
            <span key={index} class="tick" style={{ left: `${position(tick)}%` }}>
              {index === 4 ? (paused ? clock(tick) : "now") : clock(tick)}
            </span>
          ))}
        </span>
      </div>
      {shown.map((lane) => (
        <div key={lane.key} class="lane">
          <span class="lane-label" title={`${lane.controller}: ${lane.label}`}>
            <span class="lane-object">{lane.label}</span>
            <span class="lane-controller muted">{lane.controller}</span>
          </span>
          <span class="lane-track">
            {lane.spans
              .filter((span) => span.ended >= start)
              .map((span) => {
                const left = position(span.queued);
                const run = position(span.started);
                const right = position(span.ended);
                return (
                  <button
                    type="button"
                    key={span.id}
                    class={`bar${failed(span) ? " bar-failed" : span.writes.length ? " bar-wrote" : ""}${selected?.id === span.id ? " bar-selected" : ""}`}
                    style={{ left: `${left}%`, width: `max(6px, ${right - left}%)` }}
                    aria-label={`${lane.controller} ${lane.label} at ${clock(span.started)}: ${RESULT_TEXT[span.result] || span.result}, ${precise(span.duration)}`}
                    title={`${clock(span.started)}  ${RESULT_TEXT[span.result] || span.result}\nwaited ${precise(span.wait)}, ran ${precise(span.duration)}, ${span.writes.length} writes\n${span.causes[0] ? causeText(span.causes[0], span) : ""}`}
                    onClick={() => setParams({ id: selected?.id === span.id ? undefined : span.id })}
                  >
                    <span class="bar-wait" style={{ width: right > left ? `${((run - left) / (right - left)) * 100}%` : "0" }} />
                  </button>
                );
              })}
          </span>
        </div>
      ))}
      {!shown.length && <p class="muted timeline-empty">No reconcile in this time range; older ones are listed below.</p>}
      {visible.length > LANES && <p class="muted timeline-empty">{visible.length - LANES} more objects; filter to see them.</p>}
      <p class="legend" aria-hidden="true">
        <span class="legend-item"><span class="swatch swatch-wait" /> in the queue</span>
        <span class="legend-item"><span class="swatch swatch-run" /> reconcile without writes</span>
        <span class="legend-item"><span class="swatch swatch-wrote" /> with writes</span>
        <span class="legend-item"><span class="swatch swatch-failed" /> failed</span>
      </p>
    </div>
  );
}

/** What caused a reconcile, with the first changed fields. */
function causeText(cause: Cause, span: Reconcile, paths = 3): string {
  if (!cause.kind) return cause.text || cause.trigger;
  const shown = cause.paths.slice(0, paths).join(", ");
  const more = cause.paths.length > paths ? ` and ${cause.paths.length - paths} more` : "";
  const namespace = cause.namespace && cause.namespace !== span.namespace ? `${cause.namespace}/` : "";
  return `${cause.kind} ${namespace}${cause.name} ${cause.operation || `(${cause.trigger})`}${shown ? `: ${shown}${more}` : ""}`;
}

function SpanList({ spans, selected }: { spans: Reconcile[]; selected?: Reconcile }) {
  const [limit, setLimit] = useState(60);
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
            <tr key={span.id} class={span.id === selected?.id ? "selected" : ""} onClick={() => setParams({ id: span.id === selected?.id ? undefined : span.id })}>
              <td>
                <button type="button" class="row-button" aria-expanded={span.id === selected?.id}>
                  <Time at={span.started} />
                </button>
              </td>
              <td>
                <span class="span-object" title={`${span.kind} ${span.request}, ${span.controller}`}>{span.request}</span> <span class="muted">{span.controller}</span>
              </td>
              <td title={span.causes.map((cause) => cause.text).join("\n")}>
                {span.causes.length > 1 && <span class="muted">{span.causes.length} causes: </span>}
                {span.causes[0] ? causeText(span.causes[0], span) : "–"}
              </td>
              <td class="numeric col-optional">{precise(span.wait)}</td>
              <td class="numeric col-optional">{precise(span.duration)}</td>
              <td class="numeric col-optional">{span.writes.length || "–"}</td>
              <td>
                <Chip tone={failed(span) ? "danger" : span.result === "success" ? "ok" : undefined}>{RESULT_TEXT[span.result] || span.result}</Chip>
              </td>
            </tr>
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

function Links({ title, links }: { title: string; links: LinkedSpan[] }) {
  if (!links.length) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul class="cause-list">
        {links.map(({ span, object }) => (
          <li key={span.id}>
            <span class="linked">
              <button type="button" class="link-button" onClick={() => setParams({ id: span.id, object: undefined, controller: undefined })}>
                {span.controller}: {span.request}
              </button>
              <span class="muted">
                by {object}, {clock(span.started)}, {(RESULT_TEXT[span.result] || span.result).toLowerCase()}
              </span>
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}

function Detail({ span, spans }: { span: Reconcile; spans: Reconcile[] }) {
  const links = useMemo(() => {
    const plurals = new Map<string, string[]>();
    for (const each of resources.value) plurals.set(each.kind, [...(plurals.get(each.kind) || []), each.group ? `${each.plural}.${each.group}` : each.plural]);
    return linkedSpans(span, spans, plurals);
  }, [span, spans]);
  const resource = findKind(span.group ? `${span.group}/${span.version}` : span.version, span.kind);
  const total = Math.max(span.duration, 0.0001);
  const calls = [...span.reads, ...span.writes].sort((a, b) => a.offset - b.offset);
  return (
    <aside class="panel span-detail" aria-label="Reconcile">
      <header class="panel-head">
        <h2>
          {span.kind} {span.request}
        </h2>
        <button type="button" class="icon-button" aria-label="Close" onClick={() => setParams({ id: undefined })}>
          <Icon name="close" />
        </button>
      </header>
      <div class="panel-body">
        <dl class="facts">
          <dt>Controller</dt>
          <dd>{span.controller}</dd>
          <dt>Started</dt>
          <dd>{exact(span.started)}</dd>
          <dt>In the queue</dt>
          <dd>{precise(span.wait)}</dd>
          <dt>Duration</dt>
          <dd>{precise(span.duration)}</dd>
          <dt>Result</dt>
          <dd>
            <Chip tone={failed(span) ? "danger" : "ok"}>{RESULT_TEXT[span.result] || span.result}</Chip>
            {span.requeueAfter !== null && span.requeueAfter !== undefined && ` again after ${precise(span.requeueAfter)}`}
          </dd>
          {resource && (
            <>
              <dt>Object</dt>
              <dd>
                <a href={objectLink(resource, span.namespace, span.name)}>Open {span.name}</a>
              </dd>
            </>
          )}
        </dl>
        <h3>Why</h3>
        {span.causes.length ? (
          <ul class="cause-list">
            {span.causes.map((cause, index) => (
              <li key={index}>
                <Chip>{cause.trigger}</Chip> <span>{causeText(cause, span, 12)}</span>
              </li>
            ))}
          </ul>
        ) : (
          <p class="muted">The cause was not recorded.</p>
        )}
        <Links title="Caused by writes of" links={links.before} />
        {span.error && (
          <>
            <h3>Error</h3>
            <p class="form-error">{span.error}</p>
            {span.traceback && <pre class="code traceback">{span.traceback}</pre>}
          </>
        )}
        <h3>
          Calls <span class="muted">{span.reads.length} reads, {span.writes.length} writes</span>
        </h3>
        {calls.length ? (
          <div class="calls">
            {calls.map((call, index) => (
              <CallLine key={index} call={call} total={total} write={span.writes.includes(call)} />
            ))}
          </div>
        ) : (
          <p class="muted">None.</p>
        )}
        <Links title="Its writes caused" links={links.after} />
        <h3>Events</h3>
        {span.events.length ? (
          <ul class="cause-list">
            {span.events.map((event, index) => (
              <li key={index}>
                <Chip tone={event.type === "Warning" ? "warning" : undefined}>{event.reason}</Chip> <span>{event.message}</span>
              </li>
            ))}
          </ul>
        ) : (
          <p class="muted">None.</p>
        )}
      </div>
    </aside>
  );
}

function CallLine({ call, total, write }: { call: Call; total: number; write: boolean }) {
  const left = Math.min(99, (call.offset / total) * 100);
  return (
    <div class={`call${call.error ? " call-failed" : ""}`}>
      <span class="call-text" title={call.error || undefined}>
        <span class={`verb${write ? " verb-write" : ""}`}>{call.verb}</span> {call.resource}
        {call.subresource && `/${call.subresource}`} {call.name}
        {call.error && <span class="call-error"> {call.status || ""} {call.error}</span>}
      </span>
      <span class="call-time muted">{call.cached ? "cache" : precise(call.duration)}</span>
      <span class="call-track" aria-hidden="true">
        <span class={write ? "call-bar call-bar-write" : "call-bar"} style={{ left: `${left}%`, width: `${Math.max(1, Math.min(100 - left, (call.duration / total) * 100))}%` }} />
      </span>
    </div>
  );
}

export function ReconcilesPage() {
  const queues = useLoaded<Json>((signal) => json("/api/queues", { signal }), []);
  useStream("queue", (tick: Json) => {
    const data = queues.value.value;
    if (!data) return;
    queues.value.value = { ...data, controllers: mergeTick(data.controllers, tick) };
  });
  const data = queues.value.value;
  return (
    <Page wide title="Reconciles" subtitle={info.value?.operators?.length ? `Connected: ${info.value.operators.join(", ")}` : "What the controllers of the connected operator do, and why"}>
      {data?.traces && data.controllers.length > 0 && <Queues queues={data.controllers} />}
      <Reconciles />
    </Page>
  );
}

/** Add the values of one second to the series of each controller. */
function mergeTick(queues: Queue[], tick: Json): Queue[] {
  const known = new Map(queues.map((queue) => [queue.name, queue]));
  return tick.controllers.map((latest: Json) => {
    const old = known.get(latest.name)?.series || { time: [], depth: [], active: [], rate: [], errorRate: [], latency: [], wait: [] };
    const append = <T,>(values: T[], value: T) => [...values, value].slice(-300);
    return {
      ...known.get(latest.name),
      ...latest,
      series: {
        time: append(old.time, tick.time),
        depth: append(old.depth, latest.depth),
        active: append(old.active, latest.active),
        rate: append(old.rate, latest.rate),
        errorRate: append(old.errorRate, latest.errorRate),
        latency: append(old.latency, latest.latency),
        wait: append(old.wait, latest.wait),
      },
    };
  });
}

const rate = (value: number) => `${value < 10 ? value.toFixed(1) : Math.round(value)}/s`;

const PANELS = 2;
const SHOWN = 6;

function Queues({ queues }: { queues: Queue[] }) {
  if (queues.length > PANELS) return <QueueTable queues={queues} />;
  return (
    <div class="queues">
      {queues.map((queue) => {
        const failing = Object.keys(queue.failing || {}).length;
        return (
          <Panel
            key={queue.name}
            title={
              <>
                {queue.name} {failing > 0 && <Chip tone="danger">{failing} failing</Chip>}
              </>
            }
            actions={
              <span class="muted">
                {queue.reconciles.toLocaleString()} reconciles · {queue.errors.toLocaleString()} errors · {queue.active}/{queue.workers} workers
              </span>
            }
          >
            <div class="plots">
              <Plot title="Queue depth" times={queue.series.time} values={queue.series.depth} format={(value) => String(Math.round(value))} />
              <Plot title="Reconciles" times={queue.series.time} values={queue.series.rate} format={rate} />
              <Plot title="Errors" times={queue.series.time} values={queue.series.errorRate} format={rate} tone="danger" />
              <Plot title="Duration" times={queue.series.time} values={queue.series.latency} format={precise} />
            </div>
          </Panel>
        );
      })}
    </div>
  );
}

/** The queues of many controllers, the busiest first. */
function QueueTable({ queues }: { queues: Queue[] }) {
  const [all, setAll] = useState(false);
  const sorted = [...queues].sort((a, b) => b.reconciles - a.reconciles || a.name.localeCompare(b.name));
  const shown = all ? sorted : sorted.slice(0, SHOWN);
  return (
    <Panel flush>
      <div class="scroll-x">
        <table class="plain-table queue-table">
          <thead>
            <tr>
              <th scope="col">Controller</th>
              <th scope="col">Queue depth</th>
              <th scope="col">Reconciles</th>
              <th scope="col">Errors</th>
              <th scope="col">Duration</th>
              <th scope="col" class="numeric">Total</th>
              <th scope="col" class="numeric">Workers</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((queue) => {
              const failing = Object.keys(queue.failing || {}).length;
              return (
                <tr key={queue.name}>
                  <td>
                    <button type="button" class="link-button" onClick={() => setParams({ controller: queue.name })}>
                      {queue.name}
                    </button>{" "}
                    {failing > 0 && <Chip tone="danger">{failing} failing</Chip>}
                  </td>
                  <td><Plot small title="Queue depth" times={queue.series.time} values={queue.series.depth} format={(value) => String(Math.round(value))} /></td>
                  <td><Plot small title="Reconciles" times={queue.series.time} values={queue.series.rate} format={rate} /></td>
                  <td><Plot small title="Errors" times={queue.series.time} values={queue.series.errorRate} format={rate} tone="danger" /></td>
                  <td><Plot small title="Duration" times={queue.series.time} values={queue.series.latency} format={precise} /></td>
                  <td class="numeric">{queue.reconciles.toLocaleString()}</td>
                  <td class="numeric">
                    {queue.active}/{queue.workers}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {sorted.length > SHOWN && (
        <button type="button" class="link-button list-more" onClick={() => setAll(!all)}>
          {all ? "Show the busiest controllers" : `Show ${sorted.length - SHOWN} more controllers`}
        </button>
      )}
    </Panel>
  );
}
