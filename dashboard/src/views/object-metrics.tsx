// CPU and memory of a pod or node, from metrics.k8s.io, since the tab was opened.
import { useEffect, useState } from "preact/hooks";
import { ApiError, json, type Json } from "../lib/http";
import { Empty, Failure, Loading, Panel } from "../components/basics";
import { bytes } from "../components/view-value";
import { Plot } from "../components/plot";
import { findResource } from "../lib/discovery";

const INTERVAL_MILLISECONDS = 10_000;
const KEPT = 360;
const SUFFIXES: Record<string, number> = { n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, Ki: 1024, Mi: 1024 ** 2, Gi: 1024 ** 3, Ti: 1024 ** 4 };

export function quantity(text: string): number {
  const [, number, suffix] = /^([\d.eE+-]+?)([A-Za-z]*)$/.exec(text) || [];
  return Number(number) * (SUFFIXES[suffix] ?? NaN);
}

/** Whether the cluster serves metrics of pods and nodes. */
export function hasMetrics(plural: string): boolean {
  return ["pods", "nodes"].includes(plural) && findResource("metrics.k8s.io", "v1beta1", plural) !== undefined;
}

interface Sample {
  time: number;
  containers: Record<string, { cpu: number; memory: number }>;
}

function sampleOf(metrics: Json): Sample {
  const parts: Json[] = metrics.containers || [{ name: "node", usage: metrics.usage }];
  const read = (each: Json) => ({ cpu: quantity(each.usage?.cpu || "0"), memory: quantity(each.usage?.memory || "0") });
  return { time: Date.parse(metrics.timestamp) || Date.now(), containers: Object.fromEntries(parts.map((each) => [each.name, read(each)])) };
}

export function Metrics({ plural, namespace, name }: { plural: string; namespace: string; name: string }) {
  const [samples, setSamples] = useState<Sample[]>([]);
  const [error, setError] = useState<Error | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    const path = `/k8s/apis/metrics.k8s.io/v1beta1/${namespace ? `namespaces/${encodeURIComponent(namespace)}/` : ""}${plural}/${encodeURIComponent(name)}`;
    const read = () =>
      json(path, { signal: abort.signal }).then(
        (found) => {
          const sample = sampleOf(found);
          setError(null);
          setSamples((known) => (known.at(-1)?.time === sample.time ? known : [...known, sample].slice(-KEPT)));
        },
        (failure) => !abort.signal.aborted && setError(failure),
      );
    void read();
    const timer = setInterval(() => void read(), INTERVAL_MILLISECONDS);
    return () => {
      clearInterval(timer);
      abort.abort();
    };
  }, [plural, namespace, name]);
  if (!samples.length) {
    if (error instanceof ApiError && error.code === 404) return <Empty title="No metrics yet">The metrics server has no measurement of {name}; the first one takes up to a minute.</Empty>;
    return error ? <Failure error={error} /> : <Loading />;
  }
  const times = samples.map((each) => each.time / 1000);
  const names = [...new Set(samples.flatMap((each) => Object.keys(each.containers)))];
  return (
    <>
      {names.map((container) => (
        <Panel key={container} title={container}>
          <div class="plots plots-wide">
            <Plot title="CPU" times={times} values={samples.map((each) => each.containers[container]?.cpu ?? null)} format={(value) => `${(value * 1000).toFixed(0)} m`} />
            <Plot title="Memory" times={times} values={samples.map((each) => each.containers[container]?.memory ?? null)} format={bytes} />
          </div>
        </Panel>
      ))}
      <p class="muted evidence">
        {samples.length} measurements since this tab was opened{error ? `; the last read failed: ${error.message}` : ""}.
      </p>
    </>
  );
}
