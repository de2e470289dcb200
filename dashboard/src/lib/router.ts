// Routes are in the fragment of the address, so that every state of the page has a link.
import { signal } from "@preact/signals";

export interface Route {
  path: string[];
  params: URLSearchParams;
}

function parse(): Route {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return {
    path: path.split("/").filter(Boolean).map(decodeURIComponent),
    params: new URLSearchParams(search),
  };
}

export const route = signal<Route>(parse());
window.addEventListener("hashchange", () => {
  route.value = parse();
});

type Params = Record<string, string | undefined | null>;

/** The namespace that all views are filtered by; empty for all. It is part of every address. */
export function namespaceFilter(): string {
  return route.value.params.get("namespace") || "";
}

/** The address of a route; empty segments and parameters are omitted, the namespace filter is kept. */
export function link(path: (string | undefined)[], params: Params = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries({ namespace: namespaceFilter(), ...params })) if (value) search.set(name, value);
  const text = search.toString();
  const segments = path.filter((each): each is string => Boolean(each)).map(encodeURIComponent);
  return `#/${segments.join("/")}${text ? `?${text}` : ""}`;
}

export function navigate(target: string): void {
  location.hash = target.replace(/^#/, "");
}

/** Change parameters of the current route without a new entry in the browser history. */
export function setParams(changes: Params, options: { push?: boolean } = {}): void {
  const params = Object.fromEntries(route.value.params);
  const target = link(route.value.path, { ...params, ...changes });
  if (options.push) {
    navigate(target);
  } else {
    history.replaceState(null, "", target);
    route.value = parse();
  }
}

/** A kind as discovery (`plural`) or as the dashboard server (`resource`) names it. */
export interface Kind {
  group: string;
  version: string;
  plural?: string;
  resource?: string;
}

/** The fields by which the dashboard server names an object. */
export interface ObjectReference extends Kind {
  kind: string;
  namespace: string;
  name: string;
}

export function referenceLink(reference: ObjectReference, params: Params = {}): string {
  return objectLink(reference, reference.namespace, reference.name, params);
}

export function kindLink(kind: Kind, params: Params = {}): string {
  return link(["objects", kind.group || "core", kind.version, kind.plural || kind.resource], params);
}

export function objectLink(kind: Kind, namespace: string | undefined, name: string, params: Params = {}): string {
  return link(["object", kind.group || "core", kind.version, kind.plural || kind.resource, namespace || "_", name], params);
}
