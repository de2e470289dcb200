// managedFields: which manager owns which field.
import type { Json } from "./http";

export interface Manager {
  id: string;
  name: string;
  operation: string;
  subresource: string;
  time: string;
  fields: Json;
}

export function managersOf(object: Json): Manager[] {
  return (object.metadata?.managedFields || []).map((entry: Json) => ({
    id: `${entry.manager}/${entry.operation}/${entry.subresource || ""}`,
    name: entry.manager || "(unnamed)",
    operation: entry.operation,
    subresource: entry.subresource || "",
    time: entry.time || "",
    fields: entry.fieldsV1 || {},
  }));
}

/** The element of an associative list that a key such as `k:{"name":"a"}` names. */
function elementOf(list: Json[], key: string): number {
  const wanted = JSON.parse(key.slice(2));
  return list.findIndex((each) => each && typeof each === "object" && Object.entries(wanted).every(([name, value]) => JSON.stringify(each[name]) === JSON.stringify(value) || each[name] === undefined));
}

/** Call `visit` with the path of every field of the set, as keys and indexes into the object. */
export function walkFields(fields: Json, object: Json, visit: (path: (string | number)[]) => void, path: (string | number)[] = []): void {
  const entries = Object.entries(fields).filter(([key]) => key !== ".");
  if (path.length && (!entries.length || "." in fields)) visit(path);
  for (const [key, below] of entries) {
    if (key.startsWith("f:")) {
      const name = key.slice(2);
      if (object && typeof object === "object" && name in object) walkFields(below, object[name], visit, [...path, name]);
    } else if (Array.isArray(object)) {
      const index = key.startsWith("k:") ? elementOf(object, key) : key.startsWith("i:") ? Number(key.slice(2)) : key.startsWith("v:") ? object.findIndex((each) => JSON.stringify(each) === JSON.stringify(JSON.parse(key.slice(2)))) : -1;
      if (index >= 0) walkFields(below, object[index], visit, [...path, index]);
    }
  }
}

/** The part of an object that the fields of one manager cover, with the keys of list elements. */
export function extract(fields: Json, object: Json): Json {
  const entries = Object.entries(fields).filter(([key]) => key !== ".");
  if (!entries.length || object === null || typeof object !== "object") return object;
  if (Array.isArray(object)) {
    const found: Json[] = [];
    for (const [key, below] of entries) {
      if (key.startsWith("k:")) {
        const index = elementOf(object, key);
        if (index >= 0) found.push({ ...JSON.parse(key.slice(2)), ...extract(below, object[index]) });
      } else if (key.startsWith("v:")) {
        found.push(JSON.parse(key.slice(2)));
      }
    }
    return found;
  }
  const found: Json = {};
  for (const [key, below] of entries) {
    const name = key.slice(2);
    if (key.startsWith("f:") && name in object) {
      const inner = Object.keys(below as object).length ? extract(below, object[name]) : object[name];
      found[name] = inner;
    }
  }
  return found;
}

/** The managers of each field, by JSON path. */
export function ownersByPath(object: Json): Map<string, Manager[]> {
  const owners = new Map<string, Manager[]>();
  for (const manager of managersOf(object)) {
    walkFields(manager.fields, object, (path) => {
      const key = JSON.stringify(path);
      owners.set(key, [...(owners.get(key) || []), manager]);
    });
  }
  return owners;
}
