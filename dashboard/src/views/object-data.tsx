// The data of Secrets and ConfigMaps. Values of Secrets are hidden until they are revealed, one by one.
import { useState } from "preact/hooks";
import type { Json } from "../lib/http";
import { Copy, Empty } from "../components/basics";

interface Entry {
  name: string;
  bytes: number;
  /** The text; undefined if the value is not UTF-8. */
  text: () => string | undefined;
}

function decode(value: string): Uint8Array {
  return Uint8Array.from(atob(value), (each) => each.charCodeAt(0));
}

function asText(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function entriesOf(object: Json): Entry[] {
  const found: Entry[] = [];
  for (const [name, value] of Object.entries((object.data || {}) as Record<string, string>)) {
    if (object.kind === "Secret") found.push({ name, bytes: decode(value).length, text: () => asText(decode(value)) });
    else found.push({ name, bytes: new TextEncoder().encode(value).length, text: () => value });
  }
  for (const [name, value] of Object.entries((object.binaryData || {}) as Record<string, string>)) found.push({ name, bytes: decode(value).length, text: () => asText(decode(value)) });
  return found.sort((a, b) => a.name.localeCompare(b.name));
}

export function Data({ object }: { object: Json }) {
  const [revealed, setRevealed] = useState<Set<string>>(new Set());
  const entries = entriesOf(object);
  const secret = object.kind === "Secret";
  if (!entries.length) return <Empty title="No data">The object has no keys.</Empty>;
  const toggle = (name: string) => {
    const next = new Set(revealed);
    if (!next.delete(name)) next.add(name);
    setRevealed(next);
  };
  return (
    <div class="panel panel-flush scroll-x" tabIndex={0} role="region" aria-label="Data">
      <table class="plain-table data-table">
        <thead>
          <tr>
            <th scope="col">Key</th>
            <th scope="col">Value</th>
            <th scope="col"><span class="visually-hidden">Action</span></th>
          </tr>
        </thead>
        <tbody>
          {entries.map((each) => {
            const shown = !secret || revealed.has(each.name);
            const text = shown ? each.text() : "";
            return (
              <tr key={each.name}>
                <td class="break">{each.name}</td>
                <td>{shown ? text === undefined ? <span class="muted">{each.bytes} bytes that are not text</span> : <pre class="code code-flat" tabIndex={0}>{text}</pre> : <span class="muted">{each.bytes} bytes, hidden</span>}</td>
                <td class="actions">
                  {secret && (
                    <button type="button" class="button button-quiet" onClick={() => toggle(each.name)}>
                      {shown ? "Hide" : "Reveal"}
                    </button>
                  )}
                  {shown && text !== undefined && <Copy text={text} label={`Copy ${each.name}`} />}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
