// Logs of all pods of a workload, in the order in which lines arrive, with a colour for each pod.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { isAbort, lines, query, request, type Json } from "../lib/http";
import { useLiveList } from "../lib/live";
import { route, setParams } from "../lib/router";
import { Empty, Failure, Field, Loading, Select } from "../components/basics";
import { Icon } from "../components/icons";
import { containersOf, LogText, SINCE } from "./object-logs";

const KEPT = 5000;
const PODS = 20;
const COLOURS = 8;

interface Line {
  number: number;
  pod: number;
  text: string;
}

/** The label selector of a workload as a query parameter; undefined if it selects by expressions only. */
export function selectorOf(object: Json): string | undefined {
  const selector = object.spec?.selector;
  const labels: Record<string, string> | undefined = selector?.matchLabels || (object.kind === "Service" ? selector : undefined);
  if (!labels || !Object.keys(labels).length) return undefined;
  return Object.entries(labels).map(([name, value]) => `${name}=${value}`).join(",");
}

export function WorkloadLogs({ object }: { object: Json }) {
  const { namespace } = object.metadata;
  const params = route.value.params;
  const filter = params.get("q") || "";
  const since = params.get("since") || "3600";
  const previous = params.get("previous") === "1";
  const wanted = params.get("container") || "";
  const selector = selectorOf(object);
  const list = useLiveList(`/k8s/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`, { labelSelector: selector });
  const [log, setLog] = useState<Line[]>([]);
  const [errors, setErrors] = useState<Record<string, string>>({});
  const [following, setFollowing] = useState(true);
  const box = useRef<HTMLDivElement>(null);
  const pods = list.items.value.filter((pod) => pod.status?.phase !== "Pending").sort((a, b) => a.metadata.name.localeCompare(b.metadata.name));
  const read = pods.slice(0, PODS);
  const containers = [...new Set(list.items.value.flatMap((pod) => containersOf(pod).map((each) => each.name)))];
  const container = wanted || containers[0] || "";
  const key = read.map((pod) => pod.metadata.uid).join(" ");

  useEffect(() => {
    const abort = new AbortController();
    let kept: Line[] = [];
    let number = 0;
    let frame = 0;
    setLog([]);
    setErrors({});
    const follow = async (pod: Json, index: number) => {
      const path = `/k8s/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod.metadata.name)}/log`;
      const response = await request(`${path}${query({ container, previous, follow: !previous, sinceSeconds: since === "all" ? undefined : since, tailLines: 500 })}`, { accept: "*/*", signal: abort.signal });
      for await (const batch of lines(response)) {
        kept.push(...batch.map((text) => ({ number: ++number, pod: index, text })));
        if (kept.length > KEPT) kept = kept.slice(-KEPT);
        frame ||= requestAnimationFrame(() => {
          frame = 0;
          setLog([...kept]);
        });
      }
    };
    // Browsers open six connections to a server: of many pods, the current lines are read one after another.
    const [followed, rest] = [read.slice(0, 3), read.slice(3)];
    const fail = (pod: Json) => (error: Error) => !isAbort(error) && setErrors((known) => ({ ...known, [pod.metadata.name]: error.message }));
    followed.forEach((pod, index) => void follow(pod, index).catch(fail(pod)));
    const once = async () => {
      for (const [index, pod] of rest.entries()) {
        const path = `/k8s/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod.metadata.name)}/log`;
        try {
          const response = await request(`${path}${query({ container, previous, sinceSeconds: since === "all" ? undefined : since, tailLines: 200 })}`, { accept: "*/*", signal: abort.signal });
          for await (const batch of lines(response)) kept.push(...batch.map((text) => ({ number: ++number, pod: index + 3, text })));
          setLog([...kept.slice(-KEPT)]);
        } catch (error) {
          fail(pod)(error as Error);
        }
      }
    };
    void once();
    return () => {
      abort.abort();
      cancelAnimationFrame(frame);
    };
  }, [key, container, previous, since]);

  useEffect(() => {
    if (following && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [log, following, filter]);

  const shown = useMemo(() => {
    const text = filter.toLowerCase();
    return text ? log.filter((line) => line.text.toLowerCase().includes(text)) : log;
  }, [log, filter]);

  if (!selector) return <Empty title="The pods are unknown">The object has no label selector that names its pods.</Empty>;
  if (list.state.value === "failed" && list.error.value) return <Failure error={list.error.value} />;
  if (list.state.value === "loading") return <Loading />;
  const failures = Object.entries(errors);
  return (
    <div class="logs">
      <div class="toolbar">
        <Select label="Container" value={container} options={containers.map((each) => ({ value: each, text: each }))} change={(value) => setParams({ container: value })} />
        <Select label="Since" value={since} options={SINCE} change={(value) => setParams({ since: value })} />
        <Field id="filter" label="Search lines" value={filter} change={(q) => setParams({ q })} width="200px" />
        <label class="check"><input type="checkbox" checked={previous} onChange={(event) => setParams({ previous: event.currentTarget.checked ? "1" : undefined })} /> Previous container</label>
        <span class="spacer" />
        <button type="button" class="button button-quiet" aria-pressed={following} onClick={() => setFollowing(!following)}>
          <Icon name={following ? "pause" : "play"} /> {following ? "Stop scrolling" : "Follow"}
        </button>
      </div>
      <p class="muted log-note">
        {pods.length} pods{pods.length > PODS ? `, the first ${PODS} are read` : ""}
        {read.length > 3 ? "; three are followed, the others were read once" : ""}.{" "}
        {filter && `${shown.length} of ${log.length} lines match.`}
        {failures.length > 0 && ` Not readable: ${failures.map(([pod, error]) => `${pod} (${error})`).join(", ")}`}
      </p>
      <div class="log-box log-wrap" ref={box} tabIndex={0} role="log" aria-label="Logs of all pods" onWheel={(event) => event.deltaY < 0 && setFollowing(false)}>
        {shown.map((line) => (
          <div key={line.number} class="log-line">
            <span class={`log-pod manager-${line.pod % COLOURS}`} title={read[line.pod]?.metadata.name}>{read[line.pod]?.metadata.name.slice(-11)}</span> <LogText text={line.text} search={filter} />
          </div>
        ))}
        {!shown.length && <Empty title={filter && log.length ? "No line matches" : "Waiting for output"} />}
      </div>
    </div>
  );
}
