// Reconciles and webhook calls of the connected operator, as the dashboard server reports them.
import type { Json } from "./http";

export interface Cause {
  trigger: string;
  kind: string;
  namespace: string;
  name: string;
  operation: string;
  paths: string[];
  text: string;
}

export interface Call {
  verb: string;
  resource: string;
  subresource: string;
  namespace: string;
  name: string;
  cached: boolean;
  status: number;
  error: string;
  offset: number;
  duration: number;
}

export interface Reconcile {
  id: string;
  controller: string;
  group: string;
  version: string;
  kind: string;
  namespace: string;
  name: string;
  request: string;
  queued: number;
  started: number;
  ended: number;
  wait: number;
  duration: number;
  causes: Cause[];
  reads: Call[];
  writes: Call[];
  result: string;
  requeueAfter: number | null;
  error: string;
  traceback: string;
  events: Json[];
}

export interface Webhook {
  id: string;
  path: string;
  type: string;
  operation: string;
  group: string;
  version: string;
  kind: string;
  namespace: string;
  name: string;
  user: string;
  dryRun: boolean;
  started: number;
  duration: number;
  code: number;
  allowed: boolean;
  message: string;
  warnings: string[];
  patch: Json[];
  object: Json;
  oldObject: Json;
  response: Json;
  error: string;
  traceback: string;
}

export interface Series {
  time: number[];
  depth: number[];
  active: number[];
  rate: number[];
  errorRate: number[];
  latency: (number | null)[];
  wait: (number | null)[];
}

export interface Queue {
  name: string;
  workers: number;
  depth: number;
  waiting: number;
  active: number;
  reconciles: number;
  errors: number;
  retries: number;
  failing: Record<string, string>;
  failingCount?: number;
  series: Series;
}

export function failed(span: Reconcile): boolean {
  return Boolean(span.error) || ["error", "terminal", "timeout", "panic"].includes(span.result);
}

export const RESULT_TEXT: Record<string, string> = {
  success: "Success",
  requeue_after: "Requeued",
  requeue: "Requeued",
  error: "Error",
  terminal: "Terminal error",
  timeout: "Timeout",
  panic: "Exception",
};

/** What the server knows of an object, however long ago it was reconciled. */
export interface ObjectSummary {
  controller: string;
  group: string;
  version: string;
  kind: string;
  namespace: string;
  name: string;
  reconciles: number;
  errors: number;
  failuresInRow: number;
  failing: boolean;
  failingSince: number | null;
  nextRetry: number | null;
  error: string;
  first: number;
  last: number;
  lastFailure: number | null;
  lastFailureId: string;
  lastSuccess: number | null;
}

export function laneKey(span: { controller: string; kind: string; namespace: string; name: string }): string {
  return `${span.controller}|${span.kind}|${span.namespace}|${span.name}`;
}

const PINNED_LANES = 1000;

/** Add spans, the newest first; beyond the limit, the newest failure and success of each object are kept. */
export function mergeSpans(known: Reconcile[], fresh: Reconcile[], limit: number): Reconcile[] {
  const ids = new Set(fresh.map((each) => each.id));
  const all = [...fresh, ...known.filter((each) => !ids.has(each.id))].sort((a, b) => b.started - a.started);
  if (all.length <= limit) return all;
  const kept = all.slice(0, limit);
  const pinned = new Set<string>();
  const pin = (span: Reconcile) => `${laneKey(span)}|${failed(span)}`;
  for (const span of kept) pinned.add(pin(span));
  for (const span of all.slice(limit)) {
    if (pinned.has(pin(span)) || pinned.size > 2 * PINNED_LANES) continue;
    pinned.add(pin(span));
    kept.push(span);
  }
  return kept;
}

/** The summary of an object after one more reconcile, computed as the server does. */
export function summarize(old: ObjectSummary | undefined, span: Reconcile): ObjectSummary {
  const { controller, group, version, kind, namespace, name } = span;
  const before = old || { reconciles: 0, errors: 0, failuresInRow: 0, failingSince: null, first: span.started, lastFailure: null, lastFailureId: "", lastSuccess: null };
  const isFailed = failed(span);
  return {
    controller, group, version, kind, namespace, name,
    reconciles: before.reconciles + 1,
    errors: before.errors + Number(isFailed),
    failuresInRow: isFailed ? before.failuresInRow + 1 : 0,
    failing: isFailed,
    failingSince: isFailed ? (before.failingSince ?? span.started) : null,
    nextRetry: span.requeueAfter === null ? null : span.ended + span.requeueAfter * 1000,
    error: isFailed ? span.error : "",
    first: before.first,
    last: span.ended,
    lastFailure: isFailed ? span.ended : before.lastFailure,
    lastFailureId: isFailed ? span.id : before.lastFailureId,
    lastSuccess: isFailed ? before.lastSuccess : span.ended,
  };
}

/** What caused a reconcile, with the first changed fields. */
export function causeText(cause: Cause, span: Reconcile, paths = 3): string {
  if (!cause.kind) return cause.text || cause.trigger;
  const shown = cause.paths.slice(0, paths).join(", ");
  const more = cause.paths.length > paths ? ` and ${cause.paths.length - paths} more` : "";
  const namespace = cause.namespace && cause.namespace !== span.namespace ? `${cause.namespace}/` : "";
  return `${cause.kind} ${namespace}${cause.name} ${cause.operation || `(${cause.trigger})`}${shown ? `: ${shown}${more}` : ""}`;
}

export interface Why {
  retry: boolean;
  /** The error of the reconcile that is retried; empty if it is not known. */
  error: string;
  causes: Cause[];
}

/** Why an object was reconciled: a retry first, with its error, then the original causes. */
export function whyOf(span: Reconcile, spans: Reconcile[]): Why {
  const retry = span.causes.some((cause) => cause.trigger === "retry");
  const causes = span.causes.filter((cause) => cause.trigger !== "retry");
  if (!retry) return { retry, error: "", causes };
  const key = laneKey(span);
  let previous: Reconcile | undefined;
  for (const other of spans) {
    if (other.started < span.started && laneKey(other) === key && (!previous || other.started > previous.started)) previous = other;
  }
  return { retry, error: previous && failed(previous) ? previous.error : "", causes };
}

export function whyText(why: Why, span: Reconcile): string {
  const original = why.causes[0] ? causeText(why.causes[0], span) : "";
  const count = why.causes.length > 1 ? ` and ${why.causes.length - 1} more` : "";
  if (!why.retry) return original ? `${original}${count}` : "–";
  return `Retry${why.error ? ` after ${why.error}` : ""}${original ? `; first: ${original}${count}` : ""}`;
}

/** A reconcile and the object that connects it with another one. */
export interface LinkedSpan {
  span: Reconcile;
  object: string;
}

const FOLLOWS_MILLISECONDS = 5000;

/** Whether a call wrote the object that a cause names; `plurals` maps kinds to resources such as deployments.apps. */
function wrote(call: Call, cause: Cause, plurals: Map<string, string[]>): boolean {
  return !call.error && call.name === cause.name && call.namespace === cause.namespace && Boolean(plurals.get(cause.kind)?.includes(call.resource));
}

function linkOf(writer: Reconcile, reader: Reconcile, plurals: Map<string, string[]>): string | undefined {
  if (writer.id === reader.id || reader.queued < writer.started || reader.started > writer.ended + FOLLOWS_MILLISECONDS) return undefined;
  for (const cause of reader.causes) {
    if (cause.name && writer.writes.some((call) => wrote(call, cause, plurals))) return `${cause.kind} ${cause.name}`;
  }
  return undefined;
}

/** Reconciles that wrote what caused a reconcile, and those that its writes caused. */
export function linkedSpans(span: Reconcile, spans: Reconcile[], plurals: Map<string, string[]>): { before: LinkedSpan[]; after: LinkedSpan[] } {
  const before: LinkedSpan[] = [];
  const after: LinkedSpan[] = [];
  for (const other of spans) {
    const cause = linkOf(other, span, plurals);
    if (cause) before.push({ span: other, object: cause });
    const effect = linkOf(span, other, plurals);
    if (effect) after.push({ span: other, object: effect });
  }
  return { before: before.slice(0, 5), after: after.reverse().slice(0, 8) };
}
