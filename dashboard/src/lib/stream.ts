// Server-sent events of the dashboard server: one connection, whose topics are those of the mounted views.
//
// The connection is open in every view: the server sends a heartbeat each second, so that the page knows when it shows
// old data, because the server or the API server behind it does not respond.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { query, url, type Json } from "./http";
import { session } from "./session";
import { loadInfo, sessionEnded } from "./state";

export type Topic = "overview" | "tree" | "reconcile" | "webhook" | "queue" | "health" | "namespace";

const PARAMETERS: Record<Topic, string> = { overview: "overview", tree: "tree", reconcile: "reconciles", webhook: "webhooks", queue: "queues", health: "health", namespace: "namespace" };
type Handler = (data: Json) => void;

/** A page is told that the server is gone after this time without a heartbeat. */
const SILENCE_MILLISECONDS = 4000;
const RETRY_MILLISECONDS = 10_000;

/** Since when the dashboard server does not respond. */
export const silentSince = signal<number | null>(null);
/** Why the API server of the cluster does not respond, and since when. */
export const clusterProblem = signal<{ error: string; since: number } | null>(null);
/** Increased when the connection is established again: views read again what they may have missed. */
export const reconnects = signal(0);

interface Subscription {
  topic: Topic;
  value: string;
  handler: Handler;
}

const subscriptions = new Set<Subscription>();
let source: EventSource | null = null;
let current: string | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;
let hiddenTimer: ReturnType<typeof setTimeout> | undefined;
let heard = Date.now();
let wasLost = false;

function hear(): void {
  heard = Date.now();
  if (!wasLost) return;
  wasLost = false;
  silentSince.value = null;
  reconnects.value += 1;
  void loadInfo();
}

function lose(): void {
  wasLost = true;
  silentSince.value ??= heard;
}

function connect(): void {
  timer = undefined;
  const parameters: Record<string, string> = {};
  for (const each of subscriptions) parameters[PARAMETERS[each.topic]] = each.value;
  const target = document.hidden ? null : `/api/stream${query(parameters)}`;
  if (target === current && (target === null || (source && source.readyState !== EventSource.CLOSED))) return;
  source?.close();
  source = null;
  current = target;
  if (target === null) return;
  const opened = new EventSource(`${url(target)}${target.includes("?") ? "&" : "?"}session=${encodeURIComponent(session())}`);
  source = opened;
  opened.onopen = hear;
  opened.onerror = () => {
    lose();
    // A closed source does not reconnect by itself, for example after the response 503.
    if (opened.readyState === EventSource.CLOSED && source === opened) {
      current = "";
      void loadInfo().then(() => {
        if (!sessionEnded()) schedule(2000);
      });
    }
  };
  opened.addEventListener("heartbeat", (event) => {
    hear();
    const { error, since } = JSON.parse((event as MessageEvent).data);
    if (error !== (clusterProblem.peek()?.error || "")) clusterProblem.value = error ? { error, since } : null;
  });
  for (const topic of new Set([...subscriptions].map((each) => each.topic))) {
    opened.addEventListener(topic, (event) => {
      const data = JSON.parse((event as MessageEvent).data);
      for (const each of subscriptions) if (each.topic === topic) each.handler(data);
    });
  }
}

function schedule(milliseconds = 0): void {
  clearTimeout(timer);
  timer = setTimeout(connect, milliseconds);
}

let retried = 0;
setInterval(() => {
  if (document.hidden || current === null || Date.now() - heard < SILENCE_MILLISECONDS || sessionEnded()) return;
  lose();
  // A connection to a frozen server stays open and silent: another one is tried from time to time.
  if (Date.now() - retried < RETRY_MILLISECONDS) return;
  retried = Date.now();
  if (source?.readyState === EventSource.OPEN) {
    current = "";
    schedule();
  }
}, 500);

document.addEventListener("visibilitychange", () => {
  clearTimeout(hiddenTimer);
  if (document.hidden) hiddenTimer = setTimeout(connect, 5000);
  else {
    heard = Date.now();
    schedule();
  }
});

/** Open the connection, also for views without topics. */
export function startStream(): void {
  schedule();
}

/** Call the handler with every event of a topic while the component is mounted; `value` selects the tree or kind. */
export function useStream(topic: Topic, handler: Handler, value = "1", enabled = true): void {
  const latest = useRef(handler);
  latest.current = handler;
  useEffect(() => {
    if (!enabled) return;
    const subscription = { topic, value, handler: (data: Json) => latest.current(data) };
    subscriptions.add(subscription);
    schedule();
    return () => {
      subscriptions.delete(subscription);
      schedule();
    };
  }, [topic, value, enabled]);
}
