// Server-sent events of the dashboard server: one connection, whose topics are those of the mounted views.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { query, url, type Json } from "./http";
import { session } from "./session";
import { loadInfo, sessionEnded } from "./state";

export type Topic = "overview" | "tree" | "reconcile" | "webhook" | "queue";

const PARAMETERS: Record<Topic, string> = { overview: "overview", tree: "tree", reconcile: "reconciles", webhook: "webhooks", queue: "queues" };
type Handler = (data: Json) => void;

export const connected = signal(true);

interface Subscription {
  topic: Topic;
  value: string;
  handler: Handler;
}

const subscriptions = new Set<Subscription>();
let source: EventSource | null = null;
let current = "";
let timer: ReturnType<typeof setTimeout> | undefined;
let hiddenTimer: ReturnType<typeof setTimeout> | undefined;

function connect(): void {
  timer = undefined;
  const topics = [...new Set([...subscriptions].map((each) => each.topic))].sort();
  const parameters: Record<string, string> = {};
  for (const each of subscriptions) parameters[PARAMETERS[each.topic]] = each.value;
  const target = topics.length && !document.hidden ? `/api/stream${query(parameters)}` : "";
  if (target === current && source && source.readyState !== EventSource.CLOSED) return;
  source?.close();
  source = null;
  current = target;
  if (!target) return;
  source = new EventSource(`${url(target)}&session=${encodeURIComponent(session())}`);
  source.onopen = () => (connected.value = true);
  source.onerror = () => {
    connected.value = false;
    // A closed source does not reconnect by itself, for example after the response 503.
    if (source?.readyState === EventSource.CLOSED) {
      current = "";
      void loadInfo().then(() => {
        if (!sessionEnded()) schedule(2000);
      });
    }
  };
  for (const topic of topics) {
    source.addEventListener(topic, (event) => {
      const data = JSON.parse((event as MessageEvent).data);
      for (const each of subscriptions) if (each.topic === topic) each.handler(data);
    });
  }
}

function schedule(milliseconds = 0): void {
  clearTimeout(timer);
  timer = setTimeout(connect, milliseconds);
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(hiddenTimer);
  if (document.hidden) hiddenTimer = setTimeout(connect, 5000);
  else schedule();
});

/** Call the handler with every event of a topic while the component is mounted; `value` selects the tree. */
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
