// YAML of objects as the views show it.
import { stringify } from "yaml";
import type { Json } from "./http";

export function toYaml(value: Json): string {
  return stringify(value, { lineWidth: 0, aliasDuplicateObjects: false, defaultKeyType: "PLAIN", defaultStringType: "PLAIN" });
}

/** A copy without managedFields, which the Fields tab shows. */
export function withoutManagedFields(object: Json): Json {
  if (!object?.metadata?.managedFields) return object;
  const { managedFields: _managedFields, ...metadata } = object.metadata;
  return { ...object, metadata };
}

/** A copy with the fields that a user may edit, in the customary order. */
export function editable(object: Json): Json {
  const { apiVersion, kind, metadata, status: _status, ...rest } = object;
  const kept: Json = {};
  for (const [name, value] of Object.entries(metadata || {})) {
    if (!["managedFields", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"].includes(name)) kept[name] = value;
  }
  return { apiVersion, kind, metadata: kept, ...rest };
}

/** A copy of a Secret without its values; other objects are returned as they are. */
export function masked(object: Json): Json {
  if (object?.kind !== "Secret") return object;
  const hide = (values: Record<string, string>, bytes: (value: string) => number) => Object.fromEntries(Object.entries(values).map(([name, value]) => [name, `(${bytes(value)} bytes, hidden)`]));
  const copy = { ...object, metadata: { ...object.metadata } };
  if (copy.data) copy.data = hide(copy.data, (value) => Math.floor((value.replace(/=+$/, "").length * 3) / 4));
  if (copy.stringData) copy.stringData = hide(copy.stringData, (value) => value.length);
  const annotations = copy.metadata.annotations;
  if (annotations?.[LAST_APPLIED]) copy.metadata.annotations = { ...annotations, [LAST_APPLIED]: "(hidden)" };
  return copy;
}

const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";
