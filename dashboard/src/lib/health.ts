// Health of the objects of one kind: the server sends those that are not current, then changes.
import { signal, type Signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { Json } from "./http";
import { useStream } from "./stream";

export interface KindHealth {
  /** Health and message of the objects that are not current, by uid. */
  objects: Map<string, [string, string]>;
  /** Why health is unknown; empty if it is known, undefined if it was not received yet. */
  unknown: string | undefined;
}

const UNRECEIVED: KindHealth = { objects: new Map(), unknown: undefined };

/** `Current` is what the server does not report, once it has reported. */
export function healthOf(known: KindHealth, uid: string): [string, string] {
  if (known.unknown === undefined) return ["Unknown", "the health of this kind has not been read yet"];
  return known.objects.get(uid) || (known.unknown ? ["Unknown", known.unknown] : ["Current", ""]);
}

export function useKindHealth(group: string, kind: string): Signal<KindHealth> {
  const known = useMemo(() => signal<KindHealth>(UNRECEIVED), [group, kind]);
  useStream(
    "health",
    (data: Json) => {
      const objects = data.complete ? new Map<string, [string, string]>() : new Map(known.value.objects);
      for (const [uid, value] of Object.entries(data.objects as Record<string, [string, string] | null>)) {
        if (value) objects.set(uid, value);
        else objects.delete(uid);
      }
      const unknown = data.complete ? data.error || (data.truncated ? "the cluster has more objects than the dashboard indexes" : "") : known.value.unknown;
      known.value = { objects, unknown };
    },
    `${group},${kind}`,
  );
  return known;
}

export const HEALTH_ORDER = ["Failed", "Terminating", "InProgress", "Unknown", "Current"];

export interface RowFilter {
  words: string[];
  health: string[];
}

/** Words of a filter; `health:failed` selects rows by health, several are alternatives. */
export function parseFilter(text: string): RowFilter {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return {
    words: words.filter((each) => !each.startsWith("health:")),
    health: words.filter((each) => each.startsWith("health:")).map((each) => each.slice("health:".length)),
  };
}

export function matchesHealth(filter: RowFilter, health: string): boolean {
  return !filter.health.length || filter.health.some((each) => health.toLowerCase().startsWith(each));
}
