// State that several views share: the cluster, the selected namespace, the theme and messages.
import { signal, effect } from "@preact/signals";
import { ApiError, json } from "./http";

export interface Info {
  version: string;
  readOnly: boolean;
  user: { username: string; groups: string[] };
  cluster: { server: string; context: string; version: string; namespace: string };
  traces: boolean;
  operators: string[];
  tracesMessage: string;
}

export type Theme = "system" | "light" | "dark";

export const info = signal<Info | null>(null);
export const infoError = signal<Error | null>(null);
export const namespaces = signal<string[]>([]);
/** Whether the user is not allowed to list namespaces. */
export const namespacesUnreadable = signal(false);

export const theme = signal<Theme>((localStorage.getItem("theme") as Theme | null) || "system");
effect(() => {
  const value = theme.value;
  localStorage.setItem("theme", value);
  if (value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = value;
});

const systemDark = matchMedia("(prefers-color-scheme: dark)");
export const isDark = signal(false);
function readDark(): void {
  isDark.value = theme.value === "dark" || (theme.value === "system" && systemDark.matches);
}
systemDark.addEventListener("change", readDark);
effect(readDark);

export function toggleTheme(): void {
  theme.value = isDark.peek() ? "light" : "dark";
}

export interface Toast {
  id: number;
  tone: "ok" | "error";
  text: string;
}

export const toasts = signal<Toast[]>([]);
let nextToast = 1;

export function toast(text: string, tone: Toast["tone"] = "ok"): void {
  const id = nextToast++;
  toasts.value = [...toasts.value, { id, tone, text }];
  setTimeout(() => dismiss(id), tone === "ok" ? 4000 : 9000);
}

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((each) => each.id !== id);
}

/** The nonce of <style> elements, which the server writes into the page. */
export const styleNonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content || "";

/** Whether the server no longer accepts the session of this page, for example after a restart. */
export function sessionEnded(): boolean {
  return infoError.value instanceof ApiError && infoError.value.code === 401;
}

export async function loadInfo(): Promise<void> {
  try {
    info.value = await json<Info>("/api/info");
    infoError.value = null;
  } catch (error) {
    infoError.value = error as Error;
  }
}

export async function loadNamespaces(): Promise<void> {
  try {
    const list = await json("/k8s/api/v1/namespaces", {
      accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    });
    namespaces.value = list.items.map((each: { metadata: { name: string } }) => each.metadata.name).sort();
    namespacesUnreadable.value = false;
  } catch (error) {
    if (error instanceof ApiError && error.code === 403) namespacesUnreadable.value = true;
  }
}
