// YAML with the schema of a kind: completion at the cursor, and validation of the text.
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import type { Diagnostic } from "@codemirror/lint";
import type { Text } from "@codemirror/state";
import { isMap, isScalar, isSeq, parseDocument, type Node } from "yaml";
import { typeName, type KindSchema, type Schema } from "../lib/schema";

const KEY = /^(\s*)((?:-\s+)*)("?)([^\s:#"'][^:#"']*)\3:(?:\s|$)/;

interface ParsedLine {
  indent: number;
  bullets: number[];
  key?: string;
  hasValue: boolean;
}

function parseLine(text: string): ParsedLine | null {
  if (!text.trim() || /^\s*#/.test(text)) return null;
  const bullets: number[] = [];
  let position = text.length - text.trimStart().length;
  while (/^-(\s|$)/.test(text.slice(position))) {
    bullets.push(position);
    position += 1;
    position += text.slice(position).length - text.slice(position).trimStart().length;
  }
  const match = text.match(KEY);
  return { indent: position, bullets, key: match?.[4].trim(), hasValue: Boolean(match && text.slice(match[0].length).trim()) };
}

/** The path of the mapping that contains a line, from the indentation: `["spec", "containers", "[]"]`. */
export function pathAt(doc: Text, lineNumber: number, indentAtCursor: number): { path: string[]; siblings: Set<string> } {
  const siblings = new Set<string>();
  const path: string[] = [];
  let want = indentAtCursor;
  let equal = false;
  let first = true;
  const bulletsOf = (bullets: number[]) => {
    for (const bullet of [...bullets].reverse()) {
      if (bullet < want) {
        path.unshift("[]");
        want = bullet;
        equal = true;
      }
    }
  };
  const current = parseLine(doc.line(lineNumber).text);
  if (current?.bullets.length) {
    bulletsOf(current.bullets);
    first = false;
  }
  for (let number = lineNumber - 1; number >= 1; number--) {
    const line = parseLine(doc.line(number).text);
    if (!line) continue;
    if (line.indent === want && first) {
      if (line.key) siblings.add(line.key);
      if (line.bullets.length) {
        bulletsOf(line.bullets);
        first = false;
      }
      continue;
    }
    if (line.key && !line.hasValue && (line.indent < want || (equal && line.indent === want && !line.bullets.length))) {
      path.unshift(line.key);
      want = line.indent;
      equal = false;
      first = false;
      bulletsOf(line.bullets);
      // Other keys of the same mapping do not change the path; a bullet above them does.
      if (!line.bullets.length) {
        for (let above = number - 1; above >= 1; above--) {
          const other = parseLine(doc.line(above).text);
          if (!other) continue;
          if (other.indent < want) break;
          if (other.indent === want && other.bullets.length) {
            bulletsOf(other.bullets);
            break;
          }
        }
      }
    }
    if (want === 0 && !equal && path.length) break;
  }
  // Keys below the cursor in the same mapping.
  for (let number = lineNumber + 1; number <= doc.lines; number++) {
    const line = parseLine(doc.line(number).text);
    if (!line) continue;
    if (line.indent < indentAtCursor || line.bullets.length) break;
    if (line.indent === indentAtCursor && line.key) siblings.add(line.key);
  }
  return { path, siblings };
}

function describe(schema: Schema): string {
  return (schema.description || "").slice(0, 600);
}

export function completions(schemas: () => Promise<KindSchema | null>) {
  return async (context: CompletionContext): Promise<CompletionResult | null> => {
    const known = await schemas();
    if (!known) return null;
    const line = context.state.doc.lineAt(context.pos);
    const before = line.text.slice(0, context.pos - line.from);
    const value = before.match(/^(\s*(?:-\s+)*)([^\s:#]+):\s+(\S*)$/);
    if (value) {
      const { path } = pathAt(context.state.doc, line.number, value[1].length);
      const schema = known.at([...path, value[2]]);
      if (!schema) return null;
      const options: Completion[] = (schema.enum || (schema.type === "boolean" ? [true, false] : [])).map((each) => ({
        label: String(each),
        type: "constant",
        detail: each === schema.default ? "default" : undefined,
      }));
      if (!options.length && schema.default !== undefined && typeof schema.default !== "object") options.push({ label: String(schema.default), detail: "default", type: "constant" });
      return options.length ? { from: context.pos - value[3].length, options, validFor: /^\S*$/ } : null;
    }
    const key = before.match(/^(\s*(?:-\s+)*)([\w./-]*)$/);
    if (!key || (!context.explicit && !key[2])) return null;
    const { path, siblings } = pathAt(context.state.doc, line.number, key[1].length);
    const schema = known.at(path);
    if (!schema?.properties) return null;
    const required = new Set(schema.required || []);
    const indent = " ".repeat(key[1].length);
    const options: Completion[] = Object.entries(schema.properties)
      .filter(([name]) => !siblings.has(name))
      .map(([name, below]) => {
        const found = known.resolve(below);
        const isList = found.type === "array";
        const isObject = found.type === "object" || Boolean(found.properties);
        return {
          label: name,
          type: "property",
          detail: `${typeName(known, below)}${required.has(name) ? ", required" : ""}`,
          info: describe(found) || undefined,
          boost: required.has(name) ? 10 : 0,
          apply: `${name}:${isList ? `\n${indent}- ` : isObject ? `\n${indent}  ` : " "}`,
        };
      });
    return options.length ? { from: context.pos - key[2].length, options, validFor: /^[\w./-]*$/ } : null;
  };
}

/** Errors of the text: YAML syntax, then the schema. */
export function diagnose(text: string, schemas: KindSchema | null): Diagnostic[] {
  const found: Diagnostic[] = [];
  const document = parseDocument(text, { prettyErrors: false });
  for (const error of document.errors) {
    found.push({ from: Math.min(error.pos[0], text.length), to: Math.min(Math.max(error.pos[1], error.pos[0] + 1), text.length), severity: "error", message: error.message });
  }
  if (found.length || !schemas || !document.contents) return found;
  const report = (node: Node | null | undefined, message: string, severity: Diagnostic["severity"] = "error") => {
    const [from, to] = node?.range || [0, 0];
    found.push({ from, to: Math.max(Math.min(to, text.length), from), severity, message });
  };
  const check = (node: Node | null, given: Schema, path: string, keyNode?: Node) => {
    const schema = schemas.resolve(given);
    const at = path ? `${path}: ` : "";
    const intOrString = schema["x-kubernetes-int-or-string"] || schema.format === "int-or-string" || (schema.oneOf && !schema.type);
    if (node === null || (isScalar(node) && node.value === null)) {
      if (schema.type && !schema.nullable && schema.type !== "object" && schema.type !== "array") report(node || keyNode, `${at}a value of type ${schema.type} is missing`, "warning");
      return;
    }
    if (isMap(node)) {
      if (schema.type && schema.type !== "object") return report(keyNode || node, `${at}expected ${schema.type}, not an object`);
      const names = new Set<string>();
      for (const pair of node.items) {
        const name = String((pair.key as { value?: unknown }).value);
        names.add(name);
        const below = schema.properties?.[name] || (typeof schema.additionalProperties === "object" ? schema.additionalProperties : undefined);
        const inner = path ? `${path}.${name}` : name;
        if (below) check(pair.value as Node | null, below, inner, pair.key as Node);
        else if (schema.properties && !schema["x-kubernetes-preserve-unknown-fields"] && schema.additionalProperties !== true) report(pair.key as Node, `unknown field ${inner}`);
      }
      for (const name of schema.required || []) if (!names.has(name)) report(keyNode || node.items[0]?.key as Node, `${at}the field ${name} is required`);
      return;
    }
    if (isSeq(node)) {
      if (schema.type && schema.type !== "array") return report(keyNode || node, `${at}expected ${schema.type}, not a list`);
      if (schema.minItems !== undefined && node.items.length < schema.minItems) report(keyNode || node, `${at}at least ${schema.minItems} elements are required`);
      if (schema.maxItems !== undefined && node.items.length > schema.maxItems) report(keyNode || node, `${at}at most ${schema.maxItems} elements are allowed`);
      node.items.forEach((each, index) => check(each as Node, schema.items || {}, `${path}[${index}]`));
      return;
    }
    if (!isScalar(node)) return;
    const value = node.value;
    if (schema.type === "object" || schema.type === "array") return report(node, `${at}expected ${schema.type === "array" ? "a list" : "an object"}`);
    if (!intOrString) {
      if (schema.type === "string" && typeof value !== "string") return report(node, `${at}expected a string; put the value in quotes`);
      if (schema.type === "integer" && !(typeof value === "number" && Number.isInteger(value))) return report(node, `${at}expected an integer`);
      if (schema.type === "number" && typeof value !== "number") return report(node, `${at}expected a number`);
      if (schema.type === "boolean" && typeof value !== "boolean") return report(node, `${at}expected true or false`);
    }
    if (schema.enum && !schema.enum.includes(value as never)) report(node, `${at}expected one of ${schema.enum.map((each) => JSON.stringify(each)).join(", ")}`);
    if (typeof value === "number") {
      if (schema.minimum !== undefined && (schema.exclusiveMinimum ? value <= schema.minimum : value < schema.minimum)) report(node, `${at}must be ${schema.exclusiveMinimum ? "greater than" : "at least"} ${schema.minimum}`);
      if (schema.maximum !== undefined && (schema.exclusiveMaximum ? value >= schema.maximum : value > schema.maximum)) report(node, `${at}must be ${schema.exclusiveMaximum ? "less than" : "at most"} ${schema.maximum}`);
    }
    if (typeof value === "string") {
      if (schema.minLength !== undefined && [...value].length < schema.minLength) report(node, `${at}must have at least ${schema.minLength} characters`);
      if (schema.maxLength !== undefined && [...value].length > schema.maxLength) report(node, `${at}must have at most ${schema.maxLength} characters`);
      if (schema.pattern) {
        try {
          if (!new RegExp(schema.pattern, "u").test(value)) report(node, `${at}must match ${schema.pattern}`);
        } catch {
          // RE2 patterns that JavaScript does not accept are checked by the server.
        }
      }
    }
  };
  check(document.contents as Node, schemas.root, "");
  return found;
}
