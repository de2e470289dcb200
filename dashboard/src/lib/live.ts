// Collections and objects that are kept current by a watch.
import { signal, type Signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { reconnects } from "./stream";
import { ApiError, delay, escapeSelector, isAbort, json, lines, query, request, type Json } from "./http";

/** `listed`: the kind cannot be watched. */
export type LiveState = "loading" | "live" | "listed" | "reconnecting" | "failed";

const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PAGE = 1000;
const RELIST_MILLISECONDS = 10_000;
const FLUSH_MILLISECONDS = 150;
// Browsers allow six connections per server: pages in the background release theirs.
const HIDDEN_MILLISECONDS = 5000;

export interface Column {
  name: string;
  type: string;
  format?: string;
  description?: string;
  priority: number;
}

export interface Row {
  key: string;
  cells: Json[];
  meta: Json;
  /** The object, or only its metadata. */
  object: Json;
  changed: number;
}

/** Run a function again and again until the signal is aborted, with back-off, and not while the page is hidden. */
async function keep(signal: AbortSignal, run: (signal: AbortSignal) => Promise<void>, failed: (error: Error) => boolean): Promise<void> {
  let wait = 250;
  while (!signal.aborted) {
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    signal.addEventListener("abort", stop);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const visibility = () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(stop, HIDDEN_MILLISECONDS);
    };
    document.addEventListener("visibilitychange", visibility);
    visibility();
    const started = Date.now();
    try {
      await run(attempt.signal);
    } catch (error) {
      if (!isAbort(error) && !failed(error as Error)) return;
    } finally {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", visibility);
      signal.removeEventListener("abort", stop);
      attempt.abort();
    }
    if (signal.aborted) return;
    if (Date.now() - started > 5000) wait = 250;
    if (document.hidden) await shown(signal);
    else await delay(wait, signal);
    wait = Math.min(wait * 2, 8000);
  }
}

function shown(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const check = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", check);
      signal.removeEventListener("abort", check);
      resolve();
    };
    document.addEventListener("visibilitychange", check);
    signal.addEventListener("abort", check);
    check();
  });
}

function isPermanent(error: Error): boolean {
  return error instanceof ApiError && [400, 401, 403, 404, 405, 406, 422].includes(error.code);
}

/** Events of a watch, in batches; a Status that ends the watch is raised. */
async function* watchEvents(path: string, accept: string | undefined, signal: AbortSignal): AsyncGenerator<Json[]> {
  const response = await request(path, { accept, signal });
  for await (const batch of lines(response)) {
    const events = [];
    for (const line of batch) {
      if (!line) continue;
      const event = JSON.parse(line);
      if (event.type === "ERROR") throw new ApiError(event.object.code || 500, event.object.message || "the watch ended", event.object.reason);
      events.push(event);
    }
    if (events.length) yield events;
  }
}

/** The rows of a collection as the API server prints them. */
export class LiveTable {
  readonly columns = signal<Column[]>([]);
  readonly rows = signal<Row[]>([]);
  readonly state = signal<LiveState>("loading");
  readonly error = signal<Error | null>(null);
  readonly loadedAll = signal(false);
  private readonly byKey = new Map<string, Row>();
  private readonly abort = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly path: string,
    private readonly parameters: Record<string, string | undefined>,
    private readonly watchable: boolean,
  ) {}

  start(): void {
    void keep(this.abort.signal, (signal) => this.sync(signal), (error) => {
      this.error.value = error;
      if (isPermanent(error)) {
        this.state.value = "failed";
        return false;
      }
      this.state.value = this.rows.value.length ? "reconnecting" : "failed";
      return true;
    });
  }

  stop(): void {
    clearTimeout(this.timer);
    this.abort.abort();
  }

  private async sync(signal: AbortSignal): Promise<void> {
    let token = "";
    let version = "";
    const seen = new Set<string>();
    do {
      const page = await json(`${this.path}${query({ ...this.parameters, limit: PAGE, continue: token })}`, { accept: TABLE, signal });
      if (page.columnDefinitions?.length) this.columns.value = page.columnDefinitions;
      for (const row of page.rows || []) seen.add(this.put(row, 0));
      token = page.metadata?.continue || "";
      version = page.metadata?.resourceVersion || version;
      this.flush();
      if (this.state.value === "loading") this.state.value = this.watchable ? "live" : "listed";
    } while (token);
    for (const key of [...this.byKey.keys()]) if (!seen.has(key)) this.byKey.delete(key);
    this.flush();
    this.loadedAll.value = true;
    this.error.value = null;
    if (!this.watchable) {
      this.state.value = "listed";
      await delay(RELIST_MILLISECONDS, signal);
      return;
    }
    this.state.value = "live";
    const target = `${this.path}${query({ ...this.parameters, watch: 1, resourceVersion: version, allowWatchBookmarks: true })}`;
    for await (const events of watchEvents(target, TABLE, signal)) {
      const at = Date.now();
      for (const event of events) {
        if (event.type === "BOOKMARK") continue;
        for (const row of event.object.rows || []) {
          if (event.type === "DELETED") this.byKey.delete(keyOf(row));
          else this.put(row, at);
        }
      }
      this.timer ??= setTimeout(() => this.flush(), FLUSH_MILLISECONDS);
    }
    this.state.value = "reconnecting";
  }

  private put(row: Json, changed: number): string {
    const key = keyOf(row);
    this.byKey.set(key, { key, cells: row.cells, meta: row.object?.metadata || {}, object: row.object || {}, changed });
    return key;
  }

  private flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.rows.value = [...this.byKey.values()];
  }
}

function keyOf(row: Json): string {
  const meta = row.object?.metadata || {};
  return meta.uid || `${meta.namespace || ""}/${meta.name || row.cells[0]}`;
}

export function useLiveTable(path: string, parameters: Record<string, string | undefined>, watchable = true): LiveTable {
  const key = path + JSON.stringify(parameters);
  const table = useMemo(() => new LiveTable(path, parameters, watchable), [key, watchable]);
  useEffect(() => {
    table.start();
    return () => table.stop();
  }, [table]);
  return table;
}

export interface LiveList {
  items: Signal<Json[]>;
  state: Signal<LiveState>;
  error: Signal<Error | null>;
}

/** The objects of a collection, kept current; `path` undefined means none. */
export function useLiveList(path: string | undefined, parameters: Record<string, string | undefined> = {}): LiveList {
  const key = path + JSON.stringify(parameters);
  const list = useMemo<LiveList>(() => ({ items: signal([]), state: signal("loading"), error: signal(null) }), [key]);
  useEffect(() => {
    if (!path) return;
    const abort = new AbortController();
    const byKey = new Map<string, Json>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const flush = () => {
      clearTimeout(timer);
      timer = undefined;
      list.items.value = [...byKey.values()];
    };
    const idOf = (each: Json) => each.metadata.uid || each.metadata.name;
    void keep(
      abort.signal,
      async (signal) => {
        const found = await json(`${path}${query(parameters)}`, { signal });
        byKey.clear();
        for (const each of found.items || []) byKey.set(idOf(each), each);
        flush();
        list.state.value = "live";
        list.error.value = null;
        const target = `${path}${query({ ...parameters, watch: 1, resourceVersion: found.metadata.resourceVersion, allowWatchBookmarks: true })}`;
        for await (const events of watchEvents(target, undefined, signal)) {
          for (const event of events) {
            if (event.type === "BOOKMARK") continue;
            if (event.type === "DELETED") byKey.delete(idOf(event.object));
            else byKey.set(idOf(event.object), event.object);
          }
          timer ??= setTimeout(flush, 60);
        }
        list.state.value = "reconnecting";
      },
      (error) => {
        list.error.value = error;
        list.state.value = isPermanent(error) ? "failed" : "reconnecting";
        return !isPermanent(error);
      },
    );
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [list]);
  return list;
}

export interface LiveObject {
  object: Signal<Json | null>;
  state: Signal<LiveState | "deleted">;
  error: Signal<Error | null>;
}

/** One object, kept current; its last version remains after the deletion. */
export function useLiveObject(collection: string | undefined, name: string): LiveObject {
  const live = useMemo<LiveObject>(() => ({ object: signal(null), state: signal("loading"), error: signal(null) }), [collection, name]);
  useEffect(() => {
    if (!collection) return;
    const abort = new AbortController();
    void keep(
      abort.signal,
      async (signal) => {
        const parameters = { fieldSelector: `metadata.name=${escapeSelector(name)}` };
        let found: Json;
        try {
          found = await json(`${collection}${query(parameters)}`, { signal });
        } catch (error) {
          if (!(error instanceof ApiError) || error.code !== 403) throw error;
          // The user may be allowed to read this object, but not to list its kind.
          live.object.value = await json(`${collection}/${encodeURIComponent(name)}`, { signal });
          live.state.value = "listed";
          live.error.value = null;
          await delay(RELIST_MILLISECONDS, signal);
          return;
        }
        const item = found.items?.[0];
        if (item) {
          // Items of a list have no apiVersion and kind.
          live.object.value = { apiVersion: found.apiVersion, kind: (found.kind || "").replace(/List$/, ""), ...item };
          live.state.value = "live";
        } else if (live.object.value) {
          live.state.value = "deleted";
        } else {
          live.error.value = new ApiError(404, `${name} does not exist`, "NotFound");
          live.state.value = "failed";
        }
        const target = `${collection}${query({ ...parameters, watch: 1, resourceVersion: found.metadata.resourceVersion, allowWatchBookmarks: true })}`;
        for await (const events of watchEvents(target, undefined, signal)) {
          for (const event of events) {
            if (event.type === "BOOKMARK") continue;
            live.object.value = event.object;
            live.state.value = event.type === "DELETED" ? "deleted" : "live";
            live.error.value = null;
          }
        }
        if (live.state.value === "live") live.state.value = "reconnecting";
      },
      (error) => {
        live.error.value = error;
        live.state.value = live.object.value ? "reconnecting" : "failed";
        return !isPermanent(error);
      },
    );
    return () => abort.abort();
  }, [live]);
  return live;
}

/** A value that is read from the server, with its error; read again when a dependency changes. */
export interface Loaded<T> {
  value: Signal<T | null>;
  error: Signal<Error | null>;
  loading: Signal<boolean>;
  reload: () => void;
}

export function useLoaded<T>(read: (signal: AbortSignal) => Promise<T>, dependencies: unknown[]): Loaded<T> {
  const loaded = useMemo<Loaded<T>>(
    () => ({ value: signal<T | null>(null), error: signal<Error | null>(null), loading: signal(true), reload: () => undefined }),
    dependencies,
  );
  useEffect(() => {
    let abort = new AbortController();
    loaded.reload = () => {
      abort.abort();
      abort = new AbortController();
      const current = abort.signal;
      loaded.loading.value = true;
      read(current).then(
        (value) => {
          if (current.aborted) return;
          loaded.value.value = value;
          loaded.error.value = null;
          loaded.loading.value = false;
        },
        (error) => {
          if (current.aborted || isAbort(error)) return;
          loaded.error.value = error;
          loaded.loading.value = false;
        },
      );
    };
    loaded.reload();
    // What was sent while the connection was lost is missing.
    const first = reconnects.peek();
    const stop = reconnects.subscribe((count) => count !== first && loaded.reload());
    return () => {
      stop();
      abort.abort();
    };
  }, [loaded]);
  return loaded;
}
