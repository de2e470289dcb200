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
