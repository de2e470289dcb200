// Requests to the dashboard server. Paths under /k8s/ are forwarded to the Kubernetes API.
import { session } from "./session";

export interface StatusCause {
  reason?: string;
  message?: string;
  field?: string;
}

/** A response with an error code; `causes` are those of a Kubernetes Status. */
export class ApiError extends Error {
  constructor(
    readonly code: number,
    message: string,
    readonly reason = "",
    readonly causes: StatusCause[] = [],
  ) {
    super(message);
  }
}

export type Json = any;

export interface RequestOptions {
  method?: string;
  accept?: string;
  contentType?: string;
  body?: unknown;
  signal?: AbortSignal;
}

const ROOT = new URL("/", location.href);

export function url(path: string): string {
  return new URL(path.replace(/^\//, ""), ROOT).toString();
}

export function query(parameters: Record<string, string | number | boolean | undefined | null>): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== "" && value !== false) search.set(name, String(value));
  }
  const text = search.toString();
  return text ? `?${text}` : "";
}

/** A value in a field selector; names of some kinds may contain the separators. */
export function escapeSelector(value: string): string {
  return value.replace(/[\\,=]/g, "\\$&");
}

async function failure(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => "");
  try {
    const status = JSON.parse(text);
    return new ApiError(
      response.status,
      status.message || status.error?.message || response.statusText,
      status.reason || "",
      status.details?.causes || [],
    );
  } catch {
    return new ApiError(response.status, text.trim().slice(0, 400) || response.statusText || `HTTP ${response.status}`);
  }
}

/** Send a request; raise ApiError for error codes and for an unreachable server. */
export async function request(path: string, options: RequestOptions = {}): Promise<Response> {
  const headers: Record<string, string> = { Accept: options.accept || "application/json", "X-Kubewright-Dashboard": session() };
  let body: BodyInit | undefined;
  if (options.body !== undefined) {
    headers["Content-Type"] = options.contentType || "application/json";
    body = typeof options.body === "string" ? options.body : JSON.stringify(options.body);
  }
  const method = options.method || "GET";
  let response: Response;
  try {
    response = await fetch(url(path), { method, headers, body, signal: options.signal, credentials: "omit" });
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new ApiError(0, "the dashboard server is unreachable; check that its process is running", "Unreachable");
  }
  if (!response.ok) throw await failure(response);
  return response;
}

export async function json<T = Json>(path: string, options: RequestOptions = {}): Promise<T> {
  return (await request(path, options)).json();
}

export async function text(path: string, options: RequestOptions = {}): Promise<string> {
  return (await request(path, { accept: "*/*", ...options })).text();
}

/** Read a response as lines, for example the events of a watch or a log. */
export async function* lines(response: Response): AsyncGenerator<string[]> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const parts = (rest + value).split("\n");
      rest = parts.pop()!;
      if (parts.length) yield parts;
    }
    if (rest) yield [rest];
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

export function isAbort(error: unknown): boolean {
  return (error as Error | undefined)?.name === "AbortError";
}

/** Wait, unless the signal is aborted before. */
export function delay(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener("abort", done);
  });
}
