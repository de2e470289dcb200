import { useMemo } from "preact/hooks";
import type { Json } from "../lib/http";
import { clock, exact, now, parseTime } from "../lib/time";
import { Chip, Empty, Time } from "../components/basics";
import { useHistory } from "./object-history";

export interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
  lastUpdateTime?: string;
  observedGeneration?: number;
}

export function conditionsOf(object: Json): Condition[] {
  const found = object?.status?.conditions;
  return Array.isArray(found) ? found.filter((each) => each && typeof each.type === "string") : [];
}

interface Segment {
  from: number;
  to: number;
  status: string;
  reason?: string;
}

/** Intervals of one condition, from the versions that were seen and from its last transition. */
function segmentsOf(type: string, versions: Json[], current: Condition, start: number, end: number): Segment[] {
  const found: Segment[] = [];
  const add = (from: number, status: string, reason?: string) => {
    const last = found.at(-1);
    if (last && last.status === status && last.reason === reason) return;
    if (last) last.to = from;
    found.push({ from, to: end, status, reason });
  };
  for (const version of versions) {
    const condition = conditionsOf(version.object).find((each) => each.type === type);
    if (!condition) continue;
    const transition = parseTime(condition.lastTransitionTime);
    const seen = parseTime(version.time);
    // The transition time has a resolution of one second and may be before the first version that was seen.
    const at = !found.length || (transition <= seen && transition > found.at(-1)!.from) ? Math.min(transition || seen, seen) : seen;
    add(Math.max(start, at), condition.status, condition.reason);
  }
  if (!found.length) add(Math.max(start, parseTime(current.lastTransitionTime) || start), current.status, current.reason);
  return found;
}

export function Conditions({ object, reference }: { object: Json; reference: Record<string, string> }) {
  const history = useHistory(object, reference);
  const conditions = conditionsOf(object);
  const versions: Json[] = history.value.value?.versions || [];
  const end = now.value;
  const earliest = useMemo(() => {
    const times = [...conditions, ...versions.flatMap((each) => conditionsOf(each.object))].map((each) => parseTime(each.lastTransitionTime));
    times.push(...versions.map((each) => parseTime(each.time)));
    const known = times.filter((time) => !Number.isNaN(time));
    return known.length ? Math.min(...known) : end - 60_000;
  }, [versions, object]);
  if (!conditions.length) {
    return (
      <Empty title="No conditions">
        The status of this object has no conditions. Controllers report progress and errors with them; see status in the YAML tab.
      </Empty>
    );
  }
  const span = Math.max(end - earliest, 10_000);
  const start = end - span;
  const position = (time: number) => `${Math.max(0, Math.min(100, ((time - start) / span) * 100))}%`;
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => start + part * span);
  return (
    <div class="conditions panel">
      <div class="condition condition-head" aria-hidden="true">
        <span>Condition</span>
        <span class="condition-track condition-ticks">
          {ticks.map((tick, index) => (
            <span key={index} class="tick" style={{ left: position(tick) }}>
              {index === 4 ? "now" : clock(tick)}
            </span>
          ))}
        </span>
      </div>
      {conditions.map((condition) => (
        <div key={condition.type} class="condition">
          <div class="condition-main">
            <div class="condition-title">
              <span class="condition-type">{condition.type}</span>
              <Chip tone={condition.status === "True" ? "accent" : condition.status === "False" ? "outline" : "warning"}>{condition.status}</Chip>
            </div>
            {condition.reason && <div class="condition-reason">{condition.reason}</div>}
            {condition.message && <p class="condition-message">{condition.message}</p>}
            <div class="condition-time muted">
              since <Time at={condition.lastTransitionTime} />
            </div>
          </div>
          <div class="condition-track" role="img" aria-label={`${condition.type} is ${condition.status}`}>
            {segmentsOf(condition.type, versions, condition, earliest, end).map((segment, index) => (
              <span
                key={index}
                class={`segment segment-${segment.status}`}
                style={{ left: position(segment.from), width: `${Math.max(0.4, ((segment.to - segment.from) / span) * 100)}%` }}
                title={`${segment.status}${segment.reason ? ` (${segment.reason})` : ""}\n${exact(segment.from)} – ${segment.to === end ? "now" : exact(segment.to)}`}
              >
                <span class="segment-text">{segment.reason || segment.status}</span>
              </span>
            ))}
          </div>
        </div>
      ))}
    </div>
  );
}
