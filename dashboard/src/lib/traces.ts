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

/** Writes of different controllers to the same object within a short time: a possible fight. */
export interface Fight {
  target: string;
  controllers: string[];
  count: number;
}

export function findFights(spans: Reconcile[], within = 30_000): Fight[] {
  const latest = Math.max(0, ...spans.map((span) => span.ended));
  const writers = new Map<string, Map<string, number>>();
  for (const span of spans) {
    if (span.ended < latest - within) continue;
    for (const write of span.writes) {
      if (write.error || write.subresource === "status" || write.verb === "create" || write.resource.startsWith("events")) continue;
      const target = `${write.resource} ${write.namespace ? `${write.namespace}/` : ""}${write.name}`;
      const found = writers.get(target) || new Map<string, number>();
      found.set(span.controller, (found.get(span.controller) || 0) + 1);
      writers.set(target, found);
    }
  }
  return [...writers]
    .filter(([, found]) => found.size > 1 && [...found.values()].every((count) => count > 1))
    .map(([target, found]) => ({ target, controllers: [...found.keys()].sort(), count: [...found.values()].reduce((a, b) => a + b, 0) }));
}

/** Objects that a controller reconciles again and again only because of its own writes. */
export function findLoops(spans: Reconcile[], fights: Fight[], within = 10_000): Fight[] {
  const latest = Math.max(0, ...spans.map((span) => span.ended));
  const counts = new Map<string, { controller: string; count: number }>();
  for (const span of spans) {
    if (span.ended < latest - within || !span.writes.length || failed(span)) continue;
    if (!span.causes.length || span.causes.some((cause) => cause.trigger !== "own write")) continue;
    const target = `${span.kind} ${span.request}`;
    const found = counts.get(`${span.controller}|${target}`) || { controller: span.controller, count: 0 };
    found.count += 1;
    counts.set(`${span.controller}|${target}`, found);
  }
  const fighting = new Set(fights.flatMap((fight) => fight.controllers));
  return [...counts].filter(([, found]) => found.count >= 10 && !fighting.has(found.controller)).map(([key, found]) => ({ target: key.split("|")[1], controllers: [found.controller], count: found.count }));
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
