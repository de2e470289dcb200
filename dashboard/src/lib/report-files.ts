// Files of the rehearsal commands: recordings, plans and exploration reports. They are read in the browser and not sent.
import type { Json } from "./http";
import type { Reconcile } from "./traces";

const MAX_BYTES = 200 * 1024 * 1024;

export interface RecordedChange {
  at: number;
  type: string;
  object: Json;
  own?: boolean;
}

export interface Recording {
  type: "recording";
  start: number;
  end: number;
  source: string;
  operator: string;
  objects: Json[];
  changes: RecordedChange[];
  reconciles: Reconcile[];
  notes: string[];
}

export type ReportFile = Recording | { type: "plan"; plan: Json } | { type: "exploration"; report: Json };

async function textOf(file: File): Promise<string> {
  const head = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  const stream = head[0] === 0x1f && head[1] === 0x8b ? file.stream().pipeThrough(new DecompressionStream("gzip")) : file.stream();
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  const parts: string[] = [];
  let size = 0;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      size += value.length;
      if (size > MAX_BYTES) throw new RangeError(`the file has more than ${MAX_BYTES >> 20} MiB`);
      parts.push(value);
    }
  } catch (error) {
    // A recorder that was killed leaves an incomplete file, which is shown up to where it ends.
    if (error instanceof RangeError || !parts.length) throw error;
  }
  return parts.join("");
}

function recordingOf(lines: string[], header: Json): Recording {
  const found: Recording = { type: "recording", start: Date.parse(header.start), end: 0, source: header.source || "", operator: header.operator || "", objects: [], changes: [], reconciles: [], notes: [] };
  let complete = false;
  for (const text of lines) {
    let line: Json;
    try {
      line = JSON.parse(text);
    } catch {
      break;
    }
    if (line.object) found.objects.push(line.object);
    if (line.change) found.changes.push(line.change);
    if (line.reconcile) found.reconciles.push(line.reconcile);
    if (line.end !== undefined) {
      found.end = line.end;
      found.notes = line.notes || [];
      complete = true;
    }
  }
  const last = found.changes.at(-1)?.at || 0;
  found.end = Math.max(found.end, last, ...found.reconciles.slice(-1).map((each) => (each.ended - found.start) / 1000));
  if (!complete) found.notes.push("the recording has no end; its recorder was stopped before it finished");
  found.reconciles.reverse();
  return found;
}

/** Read a file of `kubewright record`, `plan --json` or `explore --json`. */
export async function readReport(file: File): Promise<ReportFile> {
  const text = await textOf(file);
  const first = text.slice(0, text.indexOf("\n") < 0 ? undefined : text.indexOf("\n"));
  try {
    const header = JSON.parse(first);
    if (header?.recording) {
      if (header.recording !== 1) throw new TypeError(`format ${header.recording} of the recording is not supported by this dashboard`);
      return recordingOf(text.split("\n").slice(1).filter(Boolean), header);
    }
  } catch (error) {
    if (error instanceof TypeError) throw error;
  }
  let data: Json;
  try {
    data = JSON.parse(text);
  } catch {
    throw new Error(`${file.name} is not a recording, a plan or an exploration report`);
  }
  if (Array.isArray(data?.violations) && Array.isArray(data?.scenarios)) return { type: "exploration", report: data };
  if (Array.isArray(data?.changes) && typeof data?.operator === "string") return { type: "plan", plan: data };
  throw new Error(`${file.name} is not a recording, a plan or an exploration report`);
}

export function keyOf(object: Json): string {
  const { namespace, name } = object.metadata || {};
  return `${object.kind} ${namespace ? `${namespace}/` : ""}${name}`;
}

/** The objects at a time, with the version before the last change of each. */
export function stateAt(recording: Recording, seconds: number): Map<string, { object: Json; before?: Json; at: number; type: string }> {
  const state = new Map<string, { object: Json; before?: Json; at: number; type: string }>();
  for (const object of recording.objects) state.set(keyOf(object), { object, at: 0, type: "ADDED" });
  for (const change of recording.changes) {
    if (change.at > seconds) break;
    const key = keyOf(change.object);
    state.set(key, { object: change.object, before: state.get(key)?.object, at: change.at, type: change.type });
  }
  return state;
}
