// One reconcile: why it happened, what it read and wrote, how it ended.
import { useMemo } from "preact/hooks";
import { findKind, resources } from "../lib/discovery";
import { objectLink, setParams } from "../lib/router";
import { clock, exact, precise } from "../lib/time";
import { causeText, failed, linkedSpans, RESULT_TEXT, whyOf, type Call, type LinkedSpan, type Reconcile } from "../lib/traces";
import { Chip } from "../components/basics";
import { Icon } from "../components/icons";

/** A retry first, with the error that is retried, then the original causes. */
function WhyList({ span, spans }: { span: Reconcile; spans: Reconcile[] }) {
  const why = whyOf(span, spans);
  if (!span.causes.length) return <p class="muted">The cause was not recorded.</p>;
  return (
    <ul class="cause-list">
      {why.retry && (
        <li>
          <Chip tone="warning">retry</Chip> <span>{why.error ? `after ${why.error}` : "of a reconcile whose error is not known"}</span>
        </li>
      )}
      {why.causes.map((cause, index) => (
        <li key={index}>
          <Chip>{cause.trigger}</Chip>{" "}
          <span>
            {why.retry && <span class="muted">originally: </span>}
            {causeText(cause, span, 12)}
          </span>
        </li>
      ))}
    </ul>
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

export function Detail({ span, spans }: { span: Reconcile; spans: Reconcile[] }) {
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
        <WhyList span={span} spans={spans} />
        <Links title="Caused by writes of" links={links.before} />
        {span.error && (
          <>
            <h3>Error</h3>
            <p class="form-error">{span.error}</p>
            {span.traceback && <pre class="code traceback" tabIndex={0}>{span.traceback}</pre>}
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
