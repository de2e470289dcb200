// Lanes of reconciles, drawn on a canvas: at a hundred changes per second, elements would use half a processor.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { setParams } from "../lib/router";
import { isDark } from "../lib/state";
import { clock, duration, now, precise } from "../lib/time";
import { failed, laneKey, RESULT_TEXT, type ObjectSummary, type Reconcile } from "../lib/traces";
import { Icon } from "../components/icons";

const LANES = 30;
const ROW = 34;
const ORDER_MILLISECONDS = 5000;
const MIN_BAR = 3;
const REACH = 8;

export interface Range {
  from: number;
  to: number;
  live: boolean;
}

interface Lane {
  key: string;
  controller: string;
  label: string;
  spans: Reconcile[];
  failures: number;
  busy: number;
}

/** The window of the timeline: a pinned range, a chosen length, or one that shows several retries of what fails. */
export function windowOf(params: URLSearchParams, summaries: ObjectSummary[], time: number): Range {
  const from = Number(params.get("from"));
  const to = Number(params.get("to"));
  if (from && to > from) return { from, to, live: false };
  let seconds = Number(params.get("window"));
  if (!seconds) {
    const delays = summaries.filter((each) => each.failing && each.nextRetry).map((each) => (each.nextRetry! - each.last) / 1000);
    seconds = Math.min(1800, Math.max(60, ...delays.map((each) => each * 4)));
  }
  return { from: time - seconds * 1000, to: time, live: true };
}

function lanesOf(spans: Reconcile[], range: Range): Lane[] {
  const found = new Map<string, Lane>();
  for (const span of spans) {
    if (span.ended < range.from || span.queued > range.to) continue;
    const key = laneKey(span);
    let lane = found.get(key);
    if (!lane) found.set(key, (lane = { key, controller: span.controller, label: `${span.kind} ${span.request}`, spans: [], failures: 0, busy: 0 }));
    lane.spans.push(span);
    if (failed(span)) lane.failures += 1;
    lane.busy += span.duration;
  }
  return [...found.values()];
}

/** The most troubled lanes first: failures, then number of reconciles, then time. */
function byTrouble(a: Lane, b: Lane): number {
  return b.failures - a.failures || b.spans.length - a.spans.length || b.busy - a.busy || a.label.localeCompare(b.label);
}

export function Timeline({ spans, summaries, range, selected }: { spans: Reconcile[]; summaries: Map<string, ObjectSummary>; range: Range; selected?: Reconcile }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [drag, setDrag] = useState<[number, number] | null>(null);
  const [hover, setHover] = useState<{ span: Reconcile; x: number; y: number } | null>(null);
  const order = useRef<{ at: number; ranks: Map<string, number> }>({ at: 0, ranks: new Map() });
  const dark = isDark.value;

  const lanes = useMemo(() => {
    const found = lanesOf(spans, range);
    // Lanes keep their places for a while: otherwise they would jump under the pointer.
    const known = order.current;
    if (Date.now() - known.at > ORDER_MILLISECONDS || found.some((lane) => !known.ranks.has(lane.key))) {
      order.current = { at: Date.now(), ranks: new Map([...found].sort(byTrouble).map((lane, index) => [lane.key, index])) };
    }
    const ranks = order.current.ranks;
    return found.sort((a, b) => ranks.get(a.key)! - ranks.get(b.key)!);
  }, [spans, range.from, range.to]);
  const shown = lanes.slice(0, LANES);
  const height = Math.max(1, shown.length) * ROW;
  const scale = width / (range.to - range.from);
  const timeAt = (x: number) => range.from + x / scale;

  useLayoutEffect(() => {
    const element = box.current!;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    const target = canvas.current;
    const context = target?.getContext("2d");
    if (!target || !context || !width) return;
    const ratio = window.devicePixelRatio || 1;
    if (target.width !== width * ratio || target.height !== height * ratio) {
      target.width = width * ratio;
      target.height = height * ratio;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const style = getComputedStyle(document.documentElement);
    const color = (name: string) => style.getPropertyValue(name).trim();
    const [line, wait, run, wrote, bad, mark] = ["--border", "--border-strong", "--faint", "--accent", "--failed-fill", "--text"].map(color);
    context.fillStyle = line;
    for (let part = 1; part < 4; part++) context.fillRect(Math.round((width * part) / 4), 0, 1, height);
    shown.forEach((lane, index) => {
      const top = index * ROW + 9;
      context.fillStyle = line;
      context.fillRect(0, (index + 1) * ROW - 1, width, 1);
      // Failures are drawn last, so that successes do not hide them.
      for (const pass of [false, true]) {
        for (const span of lane.spans) {
          const isFailed = failed(span);
          if (isFailed !== pass) continue;
          const left = (span.queued - range.from) * scale;
          const start = (span.started - range.from) * scale;
          const right = Math.max(start + MIN_BAR, (span.ended - range.from) * scale);
          context.fillStyle = wait;
          if (start > left + 1) context.fillRect(left, top + 5, start - left, 6);
          context.fillStyle = isFailed ? bad : span.writes.length ? wrote : run;
          context.fillRect(start, top, right - start, 16);
          if (span.id === selected?.id) {
            context.strokeStyle = mark;
            context.lineWidth = 2;
            context.strokeRect(start - 2, top - 2, right - start + 4, 20);
          }
        }
      }
    });
    if (drag) {
      context.fillStyle = `${wrote}33`;
      context.fillRect(Math.min(...drag), 0, Math.abs(drag[1] - drag[0]), height);
    }
  }, [shown, width, height, selected?.id, dark, drag]);

  const spanAt = (x: number, y: number): Reconcile | undefined => {
    const lane = shown[Math.floor(y / ROW)];
    let best: Reconcile | undefined;
    let bestDistance = REACH;
    for (const span of lane?.spans || []) {
      const left = (span.queued - range.from) * scale;
      const right = Math.max((span.started - range.from) * scale + MIN_BAR, (span.ended - range.from) * scale);
      const distance = (x < left ? left - x : x > right ? x - right : 0) + (failed(span) ? 0 : 0.5);
      if (distance < bestDistance) {
        best = span;
        bestDistance = distance;
      }
    }
    return best;
  };
  const point = (event: PointerEvent): [number, number] => {
    const frame = canvas.current!.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top];
  };
  const release = (event: PointerEvent) => {
    const [x, y] = point(event);
    const start = drag;
    setDrag(null);
    if (start && Math.abs(x - start[0]) > 6) {
      setParams({ from: String(Math.round(timeAt(Math.max(0, Math.min(start[0], x))))), to: String(Math.round(timeAt(Math.min(width, Math.max(start[0], x))))) }, { push: true });
      return;
    }
    const found = spanAt(x, y);
    if (found) setParams({ id: found.id === selected?.id ? undefined : found.id });
  };
  const ticks = [0, 0.25, 0.5, 0.75, 1];
  return (
    <div class="timeline panel" role="group" aria-label="Timeline of reconciles" data-lanes={lanes.length}>
      <div class="timeline-grid">
        <div class="lane-labels">
          <div class="lane-axis" />
          {shown.map((lane) => (
            <LaneLabel key={lane.key} lane={lane} summary={summaries.get(lane.key)} selected={selected !== undefined && laneKey(selected) === lane.key} />
          ))}
        </div>
        <div class="lane-canvas" ref={box}>
          <div class="lane-axis" aria-hidden="true">
            {ticks.map((part) => (
              <span key={part} class="tick" style={{ left: `${part * 100}%` }}>
                {part === 1 && range.live ? "now" : clock(range.from + part * (range.to - range.from))}
              </span>
            ))}
          </div>
          <canvas
            ref={canvas}
            style={{ width: "100%", height: `${height}px` }}
            role="img"
            aria-label={`${lanes.length} objects, ${lanes.reduce((sum, lane) => sum + lane.spans.length, 0)} reconciles; each is a row of the table below`}
            onPointerDown={(event) => {
              if (event.button !== 0) return;
              canvas.current!.setPointerCapture(event.pointerId);
              const [x] = point(event);
              setDrag([x, x]);
            }}
            onPointerMove={(event) => {
              const [x, y] = point(event);
              if (drag) setDrag([drag[0], x]);
              const found = drag ? undefined : spanAt(x, y);
              if (found?.id !== hover?.span.id) setHover(found ? { span: found, x, y } : null);
            }}
            onPointerUp={release}
            onPointerLeave={() => setHover(null)}
            onPointerCancel={() => setDrag(null)}
          />
          {hover && (
            <div class="lane-tip" style={{ left: `${Math.min(hover.x, Math.max(0, width - 250))}px`, top: `${(Math.floor(hover.y / ROW) + 1) * ROW + 24}px` }}>
              <strong>{RESULT_TEXT[hover.span.result] || hover.span.result}</strong> at {clock(hover.span.started)}
              <br />
              waited {precise(hover.span.wait)}, ran {precise(hover.span.duration)}, {hover.span.writes.length} writes
              {hover.span.error && <span class="lane-tip-error">{hover.span.error}</span>}
            </div>
          )}
        </div>
      </div>
      {!shown.length && <p class="muted timeline-empty">No reconcile in this time range; older ones are listed below.</p>}
      {lanes.length > LANES && <p class="muted timeline-empty">{lanes.length - LANES} more objects with less trouble; filter to see them.</p>}
      <p class="legend" aria-hidden="true">
        <span class="legend-item"><span class="swatch swatch-wait" /> in the queue</span>
        <span class="legend-item"><span class="swatch swatch-run" /> reconcile without writes</span>
        <span class="legend-item"><span class="swatch swatch-wrote" /> with writes</span>
        <span class="legend-item"><span class="swatch swatch-failed" /> failed</span>
        <span class="legend-item legend-hint">Drag to zoom</span>
      </p>
    </div>
  );
}

function LaneLabel({ lane, summary, selected }: { lane: Lane; summary?: ObjectSummary; selected: boolean }) {
  const target = lane.spans.find(failed) || lane.spans[0];
  return (
    <button
      type="button"
      class={`lane-label${lane.failures ? " lane-failed" : ""}`}
      aria-pressed={selected}
      data-lane={lane.key}
      data-failures={lane.failures}
      title={`${lane.controller}: ${lane.label}\n${lane.spans.length} reconciles, ${lane.failures} failed`}
      onClick={() => setParams({ id: selected ? undefined : target.id })}
    >
      <span class="lane-object">
        {lane.failures > 0 && <Icon name="warning" size={13} />} {target.name || target.request}
      </span>
      <span class="lane-controller muted">
        {target.kind} · {lane.controller}
        {summary?.failing ? <RetryText summary={summary} /> : ""}
      </span>
    </button>
  );
}

function RetryText({ summary }: { summary: ObjectSummary }) {
  if (!summary.nextRetry) return <> · not retried</>;
  const left = summary.nextRetry - now.value;
  return <> · {left > 0 ? `retry in ${duration(left)}` : "retry is due"}</>;
}
