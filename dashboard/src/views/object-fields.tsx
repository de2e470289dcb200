import { useMemo, useState } from "preact/hooks";
import type { Json } from "../lib/http";
import { managersOf, ownersByPath, type Manager } from "../lib/managed-fields";
import { toYaml, withoutManagedFields } from "../lib/yaml";
import { Empty, Time } from "../components/basics";

interface Line {
  text: string;
  depth: number;
  path: string;
  owners: Manager[];
}

/** The object as lines of YAML, each with the managers that own its field. */
function linesOf(object: Json): Line[] {
  const owners = ownersByPath(object);
  const found: Line[] = [];
  const scalar = (value: Json) => toYaml(value).trimEnd();
  const walk = (value: Json, path: (string | number)[], depth: number, inherited: Manager[], prefix: string) => {
    const own = owners.get(JSON.stringify(path)) || inherited;
    const push = (text: string, who = own) => found.push({ text, depth, path: path.join("."), owners: who });
    if (value === null || typeof value !== "object" || !Object.keys(value).length) {
      const [first, ...rest] = scalar(value).split("\n");
      push(`${prefix}${first}`);
      for (const line of rest) push(line.padStart(line.length + 2));
      return;
    }
    const isList = Array.isArray(value);
    const entries = Object.entries(value as Record<string, Json>);
    // The first line of a list element that is an object begins with the dash.
    const isElement = prefix === "- ";
    const start = found.length;
    if (prefix && !isElement) push(prefix.trimEnd(), owners.get(JSON.stringify(path)) || []);
    for (const [key, child] of entries) {
      const inner = [...path, isList ? Number(key) : key];
      // A field is owned as a whole if its manager lists it without the fields below it.
      walk(child, inner, depth + (prefix ? 1 : 0), owners.has(JSON.stringify(inner)) ? [] : own, isList ? "- " : `${key}: `);
    }
    if (isElement) found[start] = { ...found[start], text: `- ${found[start].text}`, depth };
  };
  walk(withoutManagedFields(object), [], 0, [], "");
  return found;
}

export function Fields({ object }: { object: Json }) {
  const managers = useMemo(() => managersOf(object), [object]);
  const lines = useMemo(() => linesOf(object), [object]);
  const [selected, setSelected] = useState<string | null>(null);
  if (!managers.length) {
    return <Empty title="No managed fields">The API server recorded no field owners for this object. They appear after the next write.</Empty>;
  }
  const number = new Map(managers.map((manager, index) => [manager.id, index % 8]));
  const counts = new Map<string, number>();
  for (const line of lines) for (const owner of line.owners) counts.set(owner.id, (counts.get(owner.id) || 0) + 1);
  return (
    <div class="fields">
      <div class="fields-managers" role="group" aria-label="Field managers">
        {managers.map((manager) => (
          <button
            key={manager.id}
            type="button"
            class={`manager manager-${number.get(manager.id)}`}
            aria-pressed={selected === manager.id}
            onClick={() => setSelected(selected === manager.id ? null : manager.id)}
          >
            <span class="manager-swatch" aria-hidden="true" />
            <span class="manager-text">
              <span class="manager-name">{manager.name}</span>
              <span class="muted">
                {manager.operation}
                {manager.subresource && ` · ${manager.subresource}`} · {counts.get(manager.id) || 0} fields · <Time at={manager.time} />
              </span>
            </span>
          </button>
        ))}
      </div>
      <div class="fields-lines panel" role="table" aria-label="Fields and their owners">
        {lines.map((line, index) => (
          <div key={index} role="row" class={`field-line${selected && !line.owners.some((owner) => owner.id === selected) ? " field-dim" : ""}`}>
            <span role="cell" class="field-text" style={{ paddingLeft: `${line.depth * 2}ch` }}>
              {line.text}
            </span>
            <span role="cell" class="field-owners">
              {line.owners.map((owner) => (
                <span key={owner.id} class={`field-owner manager-${number.get(owner.id)}`} title={`${owner.name} (${owner.operation})`}>
                  {owner.name}
                </span>
              ))}
            </span>
          </div>
        ))}
      </div>
    </div>
  );
}
