// Columns and panels that the author of a kind declared, in an annotation of its CustomResourceDefinition.
import { signal, type Signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Resource } from "./discovery";
import { json, type Json } from "./http";

const ANNOTATION = "dashboard.kubewright.dev/view";

export interface ViewField {
  title: string;
  path: string;
  format: string;
}

export interface Panel {
  type: "facts" | "table" | "bars";
  title: string;
  path: string;
  fields: ViewField[];
  label: string;
  value: string;
  format: string;
}

export interface KindView {
  columns: ViewField[];
  panels: Panel[];
}

const EMPTY: KindView = { columns: [], panels: [] };
const views = new Map<string, Signal<KindView>>();

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const fieldsOf = (values: unknown): ViewField[] => (Array.isArray(values) ? values : []).filter((each) => each && typeof each === "object").map((each: Json) => ({ title: text(each.title), path: text(each.path), format: text(each.format) || "text" }));

/** The view that an annotation contains. It was written by someone else: what is not expected is left out. */
export function parseView(annotation: string | undefined): KindView {
  if (!annotation) return EMPTY;
  let data: Json;
  try {
    data = JSON.parse(annotation);
  } catch {
    return EMPTY;
  }
  const panels = (Array.isArray(data?.panels) ? data.panels : []).filter((each: Json) => ["facts", "table", "bars"].includes(each?.type));
  return {
    columns: fieldsOf(data?.columns).slice(0, 10),
    panels: panels.slice(0, 20).map((each: Json) => ({ type: each.type, title: text(each.title), path: text(each.path), fields: fieldsOf(each.fields), label: text(each.label), value: text(each.value), format: text(each.format) || "number" })),
  };
}

/** The view of a kind; empty while it is read, and if the definition is not readable. */
export function useKindView(resource: Resource): KindView {
  const key = `${resource.plural}.${resource.group}`;
  let view = views.get(key);
  if (!view) views.set(key, (view = signal(EMPTY)));
  const found = view;
  useEffect(() => {
    if (!resource.group.includes(".") || resource.group.endsWith(".k8s.io")) return;
    json(`/k8s/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${key}`, { accept: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json" }).then(
      (definition) => {
        const parsed = parseView(definition.metadata?.annotations?.[ANNOTATION]);
        if (JSON.stringify(parsed) !== JSON.stringify(found.peek())) found.value = parsed;
      },
      () => undefined,
    );
  }, [key]);
  return found.value;
}

/** The value at a path such as .status.items[0].name or .metadata.labels['a.b/c']. */
export function valueAt(object: Json, path: string): Json {
  let value = object;
  for (const [, name, index, quoted] of path.matchAll(/\.([A-Za-z_][\w-]*)|\[(\d+)\]|\['([^'\]]+)'\]/g)) {
    if (value === null || value === undefined) return undefined;
    value = value[name ?? quoted ?? Number(index)];
  }
  return value;
}
