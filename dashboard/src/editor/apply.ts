// What an edit changes, as the configuration of a server-side apply.
import type { Json } from "../lib/http";
import { extract, managersOf, ownersByPath, type Manager } from "../lib/managed-fields";
import { KindSchema, type Schema } from "../lib/schema";

export const FIELD_MANAGER = "kubewright-dashboard";

export interface Removed {
  path: string;
  owners: string[];
}

export interface Edit {
  /** The applied configuration, or undefined if nothing changed. */
  configuration?: Json;
  /** Removed fields that others own: server-side apply does not remove them. */
  removed: Removed[];
  changed: boolean;
}

function same(a: Json, b: Json): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || !a || !b || Array.isArray(a) !== Array.isArray(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => key in b && same(a[key], b[key]));
}

function keysOf(schema: Schema): string[] | undefined {
  if (schema["x-kubernetes-list-type"] === "map") return schema["x-kubernetes-list-map-keys"];
  return undefined;
}

function sameElement(keys: string[], a: Json, b: Json): boolean {
  return keys.every((key) => same(a?.[key], b?.[key]));
}

/** Describe an edit of `base` into `edited`, both without status and read-only metadata. */
export function describeEdit(object: Json, base: Json, edited: Json, schemas: KindSchema): Edit {
  const owners = ownersByPath(object);
  const removed: { path: (string | number)[]; owners: Manager[] }[] = [];
  const remove = (path: (string | number)[]) => {
    const found: Manager[] = [];
    for (const [key, managers] of owners) {
      const owned = JSON.parse(key);
      if (path.every((part, index) => owned[index] === part) || owned.every((part: string | number, index: number) => path[index] === part)) found.push(...managers);
    }
    removed.push({ path, owners: found });
  };
  const changes = (before: Json, after: Json, schema: Schema, path: (string | number)[]): Json => {
    if (same(before, after)) return undefined;
    const found = schemas.resolve(schema);
    if (Array.isArray(before) && Array.isArray(after)) {
      const keys = keysOf(found);
      if (keys) {
        const out: Json[] = [];
        for (const element of after) {
          const index = before.findIndex((each) => sameElement(keys, each, element));
          const change = index < 0 ? element : changes(before[index], element, found.items || {}, [...path, index]);
          if (change !== undefined) out.push({ ...Object.fromEntries(keys.filter((key) => element?.[key] !== undefined).map((key) => [key, element[key]])), ...change });
        }
        before.forEach((each, index) => {
          if (!after.some((element) => sameElement(keys, each, element))) remove([...path, index]);
        });
        return out.length ? out : undefined;
      }
      if (found["x-kubernetes-list-type"] === "set") {
        before.forEach((each, index) => {
          if (!after.some((element) => same(each, element))) remove([...path, index]);
        });
        const added = after.filter((each) => !before.some((element) => same(each, element)));
        return added.length ? added : undefined;
      }
      return after;
    }
    if (before && after && typeof before === "object" && typeof after === "object" && !Array.isArray(before) && !Array.isArray(after) && found["x-kubernetes-map-type"] !== "atomic") {
      const out: Json = {};
      for (const [key, value] of Object.entries(after)) {
        const change = key in before ? changes(before[key], value, schemas.child(found, key) || {}, [...path, key]) : value;
        if (change !== undefined) out[key] = change;
      }
      for (const key of Object.keys(before)) if (!(key in after)) remove([...path, key]);
      return Object.keys(out).length ? out : undefined;
    }
    return after;
  };
  const change = changes(base, edited, schemas.root, []);
  if (change === undefined && !removed.length) return { removed: [], changed: false };
  const own = managersOf(object).find((manager) => manager.name === FIELD_MANAGER && manager.operation === "Apply" && !manager.subresource);
  const merge = (left: Json, right: Json, schema: Schema): Json => {
    if (right === undefined) return left;
    if (left === undefined) return right;
    const found = schemas.resolve(schema);
    if (Array.isArray(left) && Array.isArray(right)) {
      const keys = keysOf(found);
      if (keys) {
        const out = [...left];
        for (const element of right) {
          const index = out.findIndex((each) => sameElement(keys, each, element));
          if (index < 0) out.push(element);
          else out[index] = merge(out[index], element, found.items || {});
        }
        return out;
      }
      return found["x-kubernetes-list-type"] === "set" ? [...left, ...right.filter((each) => !left.some((other) => same(each, other)))] : right;
    }
    if (left && right && typeof left === "object" && typeof right === "object" && !Array.isArray(left) && !Array.isArray(right)) {
      const out = { ...left };
      for (const [key, value] of Object.entries(right)) out[key] = merge(out[key], value, schemas.child(found, key) || {});
      return out;
    }
    return right;
  };
  const kept = own ? extract(own.fields, edited) : {};
  const configuration = {
    ...merge(kept, change, schemas.root),
    apiVersion: object.apiVersion,
    kind: object.kind,
  };
  configuration.metadata = {
    ...configuration.metadata,
    name: object.metadata.name,
    ...(object.metadata.namespace ? { namespace: object.metadata.namespace } : {}),
  };
  return {
    changed: true,
    configuration,
    removed: removed
      .map((each) => ({ path: each.path.join("."), owners: [...new Set(each.owners.map((owner) => owner.name))].filter((name) => name !== FIELD_MANAGER) }))
      .filter((each) => each.owners.length),
  };
}
