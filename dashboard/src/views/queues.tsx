// The queues of the controllers: depth, rates and durations of the last five minutes.
import { useState } from "preact/hooks";
import type { Json } from "../lib/http";
import { setParams } from "../lib/router";
import { precise } from "../lib/time";
import type { Queue } from "../lib/traces";
import { Chip, Panel } from "../components/basics";
import { Plot } from "../components/plot";

/** Add the values of one second to the series of each controller. */
export function mergeTick(queues: Queue[], tick: Json): Queue[] {
  const known = new Map(queues.map((queue) => [queue.name, queue]));
  return tick.controllers.map((latest: Json) => {
    const old = known.get(latest.name)?.series || { time: [], depth: [], active: [], rate: [], errorRate: [], latency: [], wait: [] };
    const append = <T,>(values: T[], value: T) => [...values, value].slice(-300);
    return {
      ...known.get(latest.name),
      ...latest,
      series: {
        time: append(old.time, tick.time),
        depth: append(old.depth, latest.depth),
        active: append(old.active, latest.active),
        rate: append(old.rate, latest.rate),
        errorRate: append(old.errorRate, latest.errorRate),
        latency: append(old.latency, latest.latency),
        wait: append(old.wait, latest.wait),
      },
    };
  });
}

const rate = (value: number) => `${value < 10 ? value.toFixed(1) : Math.round(value)}/s`;

const PANELS = 2;
const SHOWN = 6;

export function Queues({ queues }: { queues: Queue[] }) {
  if (queues.length > PANELS) return <QueueTable queues={queues} />;
  return (
    <div class="queues">
      {queues.map((queue) => {
        const failing = queue.failingCount ?? Object.keys(queue.failing || {}).length;
        return (
          <Panel
            key={queue.name}
            title={
              <>
                {queue.name} {failing > 0 && <FailingLink controller={queue.name} count={failing} />}
              </>
            }
            actions={
              <span class="muted">
                {queue.reconciles.toLocaleString()} reconciles · {queue.errors.toLocaleString()} errors · {queue.active}/{queue.workers} workers
              </span>
            }
          >
            <div class="plots">
              <Plot title="Queue depth" times={queue.series.time} values={queue.series.depth} format={(value) => String(Math.round(value))} />
              <Plot title="Reconciles" times={queue.series.time} values={queue.series.rate} format={rate} />
              <Plot title="Errors" times={queue.series.time} values={queue.series.errorRate} format={rate} tone="danger" />
              <Plot title="Duration" times={queue.series.time} values={queue.series.latency} format={precise} />
            </div>
          </Panel>
        );
      })}
    </div>
  );
}

/** The queues of many controllers, the busiest first. */
function QueueTable({ queues }: { queues: Queue[] }) {
  const [all, setAll] = useState(false);
  const sorted = [...queues].sort((a, b) => b.reconciles - a.reconciles || a.name.localeCompare(b.name));
  const shown = all ? sorted : sorted.slice(0, SHOWN);
  return (
    <Panel flush>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Table">
        <table class="plain-table queue-table">
          <thead>
            <tr>
              <th scope="col">Controller</th>
              <th scope="col">Queue depth</th>
              <th scope="col">Reconciles</th>
              <th scope="col">Errors</th>
              <th scope="col">Duration</th>
              <th scope="col" class="numeric">Total</th>
              <th scope="col" class="numeric">Workers</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((queue) => {
              const failing = queue.failingCount ?? Object.keys(queue.failing || {}).length;
              return (
                <tr key={queue.name}>
                  <td>
                    <button type="button" class="link-button" onClick={() => setParams({ controller: queue.name })}>
                      {queue.name}
                    </button>{" "}
                    {failing > 0 && <FailingLink controller={queue.name} count={failing} />}
                  </td>
                  <td><Plot small title="Queue depth" times={queue.series.time} values={queue.series.depth} format={(value) => String(Math.round(value))} /></td>
                  <td><Plot small title="Reconciles" times={queue.series.time} values={queue.series.rate} format={rate} /></td>
                  <td><Plot small title="Errors" times={queue.series.time} values={queue.series.errorRate} format={rate} tone="danger" /></td>
                  <td><Plot small title="Duration" times={queue.series.time} values={queue.series.latency} format={precise} /></td>
                  <td class="numeric">{queue.reconciles.toLocaleString()}</td>
                  <td class="numeric">
                    {queue.active}/{queue.workers}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {sorted.length > SHOWN && (
        <button type="button" class="link-button list-more" onClick={() => setAll(!all)}>
          {all ? "Show the busiest controllers" : `Show ${sorted.length - SHOWN} more controllers`}
        </button>
      )}
    </Panel>
  );
}

function FailingLink({ controller, count }: { controller: string; count: number }) {
  return (
    <button type="button" class="chip-button" title="Show the failed reconciles" onClick={() => setParams({ controller, errors: "1", id: undefined })}>
      <Chip tone="danger">{count} failing</Chip>
    </button>
  );
}
