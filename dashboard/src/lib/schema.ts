// Schemas of kinds, from the OpenAPI v3 documents of the API server.
import { apiVersionOf } from "./discovery";
import { EXAMPLES } from "./examples";
import { ApiError, json, type Json } from "./http";

export interface Schema {
  $ref?: string;
  type?: string;
  format?: string;
  description?: string;
  properties?: Record<string, Schema>;
  items?: Schema;
  additionalProperties?: Schema | boolean;
  allOf?: Schema[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  enum?: Json[];
  required?: string[];
  default?: Json;
  example?: Json;
  nullable?: boolean;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: boolean;
  exclusiveMaximum?: boolean;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  pattern?: string;
  "x-kubernetes-group-version-kind"?: { group: string; version: string; kind: string }[];
  "x-kubernetes-list-type"?: string;
  "x-kubernetes-list-map-keys"?: string[];
  "x-kubernetes-map-type"?: string;
  "x-kubernetes-patch-merge-key"?: string;
  "x-kubernetes-preserve-unknown-fields"?: boolean;
  "x-kubernetes-int-or-string"?: boolean;
  "x-kubernetes-validations"?: { rule: string; message?: string }[];
}

/** The schema of a kind with the document that its references refer to. */
export class KindSchema {
  constructor(private readonly components: Record<string, Schema>, readonly root: Schema) {}

  /** A schema without references: `$ref` and a single `allOf` are replaced. */
  resolve(schema: Schema | undefined): Schema {
    let found = schema || {};
    for (let depth = 0; depth < 20; depth++) {
      const target = found.$ref ? { $ref: found.$ref } : found.allOf?.length === 1 ? found.allOf[0] : undefined;
      if (!target) return found;
      const { $ref: _ref, allOf: _allOf, ...own } = found;
      const next = target.$ref ? this.components[target.$ref.replace("#/components/schemas/", "")] || {} : target;
      found = { ...next, ...own };
    }
    return found;
  }

  /** The schema of a field of an object, or of the elements of a list (`[]`). */
  child(schema: Schema, key: string): Schema | undefined {
    const resolved = this.resolve(schema);
    if (key === "[]") return resolved.items && this.resolve(resolved.items);
    const found = resolved.properties?.[key] || (typeof resolved.additionalProperties === "object" ? resolved.additionalProperties : undefined);
    return found && this.resolve(found);
  }

  at(path: string[]): Schema | undefined {
    let found: Schema | undefined = this.root;
    for (const key of path) {
      if (!found) return undefined;
      found = this.child(found, key);
    }
    return found && this.resolve(found);
  }
}

const documents = new Map<string, Promise<Json>>();
let index: Promise<Json> | undefined;

async function readDocument(gv: string): Promise<Json> {
  index ??= json("/k8s/openapi/v3");
  const paths = (await index).paths;
  const entry = paths[gv];
  if (!entry) throw new ApiError(404, `the API server has no OpenAPI document of ${gv}`, "NotFound");
  return json(`/k8s${entry.serverRelativeURL}`);
}

export async function schemaOf(kind: { group: string; version: string; kind: string }): Promise<KindSchema> {
  const gv = kind.group ? `apis/${apiVersionOf(kind)}` : `api/${kind.version}`;
  if (!documents.has(gv)) {
    const reading = readDocument(gv);
    documents.set(gv, reading);
    // A failed request is tried again, with a new index: the kind may have been installed since.
    reading.catch(() => {
      documents.delete(gv);
      index = undefined;
    });
  }
  const components: Record<string, Schema> = (await documents.get(gv)!).components?.schemas || {};
  for (const schema of Object.values(components)) {
    const names = schema["x-kubernetes-group-version-kind"] || [];
    if (names.some((each) => each.group === kind.group && each.version === kind.version && each.kind === kind.kind)) return new KindSchema(components, schema);
  }
  documents.delete(gv);
  index = undefined;
  throw new ApiError(404, `the OpenAPI document of ${gv} does not contain ${kind.kind}`, "NotFound");
}

export function typeName(schemas: KindSchema, schema: Schema | undefined): string {
  const found = schemas.resolve(schema);
  if (found["x-kubernetes-int-or-string"] || (found.oneOf?.length === 2 && !found.type) || found.format === "int-or-string") return "integer or string";
  if (found.type === "array") return `[]${typeName(schemas, found.items)}`;
  if (found.type === "object" || found.properties) {
    if (typeof found.additionalProperties === "object") return `map of ${typeName(schemas, found.additionalProperties)}`;
    return "object";
  }
  return found.format && found.format !== "int32" && found.format !== "int64" ? `${found.type} (${found.format})` : found.type || "any";
}

/** A small valid object: the required fields and the first level of spec. */
export function exampleOf(schemas: KindSchema, kind: { group: string; version: string; kind: string }, namespaced: boolean): Json {
  const value = (schema: Schema | undefined, depth: number, name: string): Json => {
    const found = schemas.resolve(schema);
    if (found.example !== undefined) return found.example;
    if (found.default !== undefined && !(typeof found.default === "object" && !Object.keys(found.default || {}).length)) return found.default;
    if (found.enum?.length) return found.enum[0];
    if (found.type === "array") {
      const required = (found.minItems || 0) > 0 || depth < 3;
      return required ? [value(found.items, depth + 1, name.replace(/s$/, ""))] : [];
    }
    if (found.properties) {
      const out: Json = {};
      const required = new Set(found.required || []);
      for (const [key, below] of Object.entries(found.properties)) if (required.has(key)) out[key] = value(below, depth + 1, key);
      return out;
    }
    if (typeof found.additionalProperties === "object") return depth < 4 ? { app: value(found.additionalProperties, depth + 1, "app") } : {};
    if (found["x-kubernetes-int-or-string"] || found.format === "int-or-string") return 1;
    if (found.type === "integer" || found.type === "number") return Math.max(found.minimum ?? 1, Math.min(1, found.maximum ?? 1));
    if (found.type === "boolean") return false;
    if (found.type === "string") return found.format === "date-time" ? "2026-01-01T00:00:00Z" : name === "image" ? "nginx:1" : (name || "example").toLowerCase().slice(0, found.maxLength || 40);
    return {};
  };
  const out: Json = {
    apiVersion: apiVersionOf(kind),
    kind: kind.kind,
    metadata: { name: "example", ...(namespaced ? { namespace: "default" } : {}) },
  };
  const known = EXAMPLES[`${kind.group}/${kind.kind}`];
  if (known) return { ...out, ...known };
  const root = schemas.resolve(schemas.root);
  for (const [name, schema] of Object.entries(root.properties || {})) {
    if (["apiVersion", "kind", "metadata", "status"].includes(name)) continue;
    if (name === "spec" || root.required?.includes(name)) {
      const made = value(schema, 0, name);
      const resolved = schemas.resolve(schema);
      if (name === "spec" && resolved.properties && !Object.keys(made).length) {
        for (const [key, below] of Object.entries(resolved.properties).slice(0, 6)) {
          const kindOf = schemas.resolve(below);
          if (!kindOf.properties && kindOf.type !== "array") made[key] = value(below, 1, key);
        }
      }
      out[name] = made;
    }
  }
  return out;
}
