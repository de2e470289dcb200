import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { isAbort, lines, query, request, text, type Json } from "../lib/http";
import { route, setParams } from "../lib/router";
import { Empty, Failure, Field, Select } from "../components/basics";
import { Icon } from "../components/icons";

const KEPT = 5000;
// Control sequences of terminals; colours are shown, others are dropped.
const ESCAPES = /\u001b\[[0-9;?]*[A-Za-z]|\u001b\][^\u0007]*(\u0007|\u001b\\)|\r/g;
const COLOUR = /\u001b\[([0-9;]*)m/g;

export const SINCE = [
  { value: "300", text: "5 minutes" },
  { value: "3600", text: "1 hour" },
  { value: "86400", text: "1 day" },
  { value: "all", text: "From the start" },
];

interface Part {
  text: string;
  style: string;
}

/** The parts of a line with the colours of its control sequences. */
function partsOf(line: string): Part[] {
  const parts: Part[] = [];
  let style = "";
  let from = 0;
  const add = (to: number) => {
    const text = line.slice(from, to).replace(ESCAPES, "");
    if (text) parts.push({ text, style });
  };
  for (const match of line.matchAll(COLOUR)) {
    add(match.index);
    from = match.index + match[0].length;
    for (const code of (match[1] || "0").split(";").map(Number)) {
      if (code === 0 || code === 39) style = "";
      else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) style = `ansi-${code % 10}`;
      else if (code === 1) style = `${style} ansi-bold`;
    }
  }
  add(line.length);
  return parts;
}

/** A log line with its colours, and with what was searched for marked. */
export function LogText({ text, search }: { text: string; search: string }) {
  const wanted = search.toLowerCase();
  return (
    <>
      {partsOf(text).map((part, index) => {
        const at = wanted ? part.text.toLowerCase().indexOf(wanted) : -1;
        return (
          <span key={index} class={part.style || undefined}>
            {at < 0 ? part.text : <>{part.text.slice(0, at)}<mark>{part.text.slice(at, at + wanted.length)}</mark>{part.text.slice(at + wanted.length)}</>}
          </span>
        );
      })}
    </>
  );
}

export function containersOf(pod: Json): { name: string; init: boolean }[] {
  return [
    ...(pod.spec.containers || []).map((each: Json) => ({ name: each.name, init: false })),
    ...(pod.spec.ephemeralContainers || []).map((each: Json) => ({ name: each.name, init: false })),
    ...(pod.spec.initContainers || []).map((each: Json) => ({ name: each.name, init: true })),
  ];
}

interface LogLine {
  number: number;
  text: string;
}

export function Logs({ pod }: { pod: Json }) {
  const { name, namespace, uid } = pod.metadata;
  const params = route.value.params;
  const containers = containersOf(pod);
  const container = params.get("container") || containers[0]?.name || "";
  const previous = params.get("previous") === "1";
  const timestamps = params.get("timestamps") === "1";
  const filter = params.get("q") || "";
  const since = params.get("since") || "all";
  const [log, setLog] = useState<LogLine[]>([]);
  const [error, setError] = useState<Error | null>(null);
  const [ended, setEnded] = useState(false);
  const [following, setFollowing] = useState(true);
  const [wrap, setWrap] = useState(true);
  const box = useRef<HTMLDivElement>(null);
  const path = `/k8s/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/log`;
  const statuses = [...(pod.status?.containerStatuses || []), ...(pod.status?.initContainerStatuses || []), ...(pod.status?.ephemeralContainerStatuses || [])];
  const status = statuses.find((each: Json) => each.name === container);
  const restarts = status?.restartCount || 0;
  // A container that never started has no log: the API server rejects the request.
  const waiting = !status?.state?.running && !status?.state?.terminated && !status?.lastState?.terminated && !previous;

  useEffect(() => {
    const abort = new AbortController();
    let kept: LogLine[] = [];
    let number = 0;
    let frame = 0;
    setLog([]);
    setError(null);
    setEnded(false);
    if (waiting) return;
    const read = async () => {
      const response = await request(`${path}${query({ container, previous, timestamps, follow: !previous, sinceSeconds: since === "all" ? undefined : since, tailLines: 1000 })}`, { accept: "*/*", signal: abort.signal });
      for await (const batch of lines(response)) {
        kept.push(...batch.map((line) => ({ number: ++number, text: line })));
        if (kept.length > KEPT) kept = kept.slice(-KEPT);
        frame ||= requestAnimationFrame(() => {
          frame = 0;
          setLog([...kept]);
        });
      }
      setEnded(true);
    };
    read().catch((failure) => !isAbort(failure) && setError(failure));
    return () => {
      abort.abort();
      cancelAnimationFrame(frame);
    };
  }, [path, uid, container, previous, timestamps, since, previous ? 0 : restarts, waiting]);

  useEffect(() => {
    if (following && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [log, following, filter]);

  const shown = useMemo(() => {
    const wanted = filter.toLowerCase();
    return wanted ? log.filter((line) => line.text.toLowerCase().includes(wanted)) : log;
  }, [log, filter]);

  const download = async () => {
    const blob = new Blob([await text(`${path}${query({ container, previous, timestamps })}`)], { type: "text/plain" });
    const anchor = document.createElement("a");
    anchor.href = URL.createObjectURL(blob);
    anchor.download = `${name}-${container}.log`;
    anchor.click();
    URL.revokeObjectURL(anchor.href);
  };

  return (
    <div class="logs">
      <div class="toolbar">
        <Select label="Container" value={container} options={containers.map((each) => ({ value: each.name, text: each.init ? `${each.name} (init)` : each.name }))} change={(value) => setParams({ container: value })} />
        <Select label="Since" value={since} options={SINCE} change={(value) => setParams({ since: value })} />
        <Field id="filter" label="Filter lines" value={filter} change={(q) => setParams({ q })} width="200px" />
        <label class="check"><input type="checkbox" checked={previous} disabled={!restarts && !previous} onChange={(event) => setParams({ previous: event.currentTarget.checked ? "1" : undefined })} /> Previous container</label>
        <label class="check"><input type="checkbox" checked={timestamps} onChange={(event) => setParams({ timestamps: event.currentTarget.checked ? "1" : undefined })} /> Timestamps</label>
        <label class="check"><input type="checkbox" checked={wrap} onChange={(event) => setWrap(event.currentTarget.checked)} /> Wrap</label>
        <span class="spacer" />
        <button type="button" class="button button-quiet" aria-pressed={following} onClick={() => setFollowing(!following)}>
          <Icon name={following ? "pause" : "play"} /> {following ? "Stop scrolling" : "Follow"}
        </button>
        <button type="button" class="button button-quiet" onClick={() => void download()}>
          <Icon name="download" /> Download
        </button>
      </div>
      {error ? (
        <Failure error={error} />
      ) : waiting ? (
        <Empty title="The container has not started">
          {[status?.state?.waiting?.reason, status?.state?.waiting?.message].filter(Boolean).join(": ") || "Its log appears here when it starts."}
        </Empty>
      ) : (
        <div
          class={`log-box${wrap ? " log-wrap" : ""}`}
          ref={box}
          tabIndex={0}
          role="log"
          aria-label={`Log of ${container}`}
          onWheel={(event) => event.deltaY < 0 && setFollowing(false)}
        >
          {shown.map((line) => (
            <div key={line.number} class="log-line">
              {line.text ? <LogText text={line.text} search={filter} /> : " "}
            </div>
          ))}
          {!shown.length && <Empty title={filter && log.length ? "No line matches the filter" : ended ? "The log is empty" : "Waiting for output"}>{filter ? "" : "Lines appear here as the container writes them."}</Empty>}
          {ended && shown.length > 0 && <div class="log-end">end of the log</div>}
        </div>
      )}
    </div>
  );
}
