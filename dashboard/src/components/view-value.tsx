// A value of a declared view, in the format of its field. Values are text, never markup.
import type { Json } from "../lib/http";
import { valueAt, type KindView, type Panel as ViewPanel, type ViewField } from "../lib/kind-view";
import { Empty, Panel, Time } from "./basics";

const GOOD = /^(true|ready|running|active|bound|succeeded|complete|completed|available|healthy|ok)$/i;
const BAD = /(error|fail|unhealthy|lost|backoff|degraded)/i;
const BUSY = /(pending|progress|creating|waiting|terminating)/i;

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit ? value.toFixed(1) : value} ${units[unit]}`;
}

export function formatted(value: Json, format: string): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "object") return JSON.stringify(value);
  if (format === "bytes" && Number.isFinite(Number(value))) return bytes(Number(value));
  if (format === "percent" && Number.isFinite(Number(value))) return `${(Number(value) * 100).toFixed(1)} %`;
  if (format === "number" && typeof value === "number") return value.toLocaleString();
  return String(value);
}

export function ViewValue({ object, field }: { object: Json; field: ViewField }) {
  const value = valueAt(object, field.path);
  if (field.format === "time" && value) return <Time at={value} />;
  const text = formatted(value, field.format);
  if (field.format === "status") return <span class={GOOD.test(text) ? "cell-ok" : BAD.test(text) ? "cell-bad" : BUSY.test(text) ? "cell-busy" : undefined}>{text}</span>;
  return <span title={text.length > 24 ? text : undefined}>{text}</span>;
}

export function ViewPanels({ view, object }: { view: KindView; object: Json }) {
  return (
    <>
      {view.panels.map((panel, index) => (
        <Panel key={index} title={panel.title} flush={panel.type === "table"}>
          <PanelBody panel={panel} object={object} />
        </Panel>
      ))}
    </>
  );
}

function PanelBody({ panel, object }: { panel: ViewPanel; object: Json }) {
  if (panel.type === "facts") {
    return (
      <dl class="facts">
        {panel.fields.map((field) => (
          <>
            <dt>{field.title}</dt>
            <dd>
              <ViewValue object={object} field={field} />
            </dd>
          </>
        ))}
      </dl>
    );
  }
  const found = valueAt(object, panel.path);
  const items: Json[] = Array.isArray(found) ? found : found && typeof found === "object" ? Object.entries(found).map(([key, value]) => ({ key, value, ...(value && typeof value === "object" ? value : {}) })) : [];
  if (!items.length) return <Empty title="No entries">{panel.path} is empty.</Empty>;
  if (panel.type === "bars") {
    const values = items.map((each) => Number(valueAt(each, panel.value)) || 0);
    const highest = Math.max(...values, panel.format === "percent" ? 1 : 0) || 1;
    return (
      <div class="view-bars">
        {items.map((each, index) => (
          <div key={index} class="view-bar">
            <span class="view-bar-label">{formatted(valueAt(each, panel.label), "text")}</span>
            <span class="view-bar-track" aria-hidden="true">
              <span class="view-bar-fill" style={{ width: `${(values[index] / highest) * 100}%` }} />
            </span>
            <span class="view-bar-value">{formatted(values[index], panel.format)}</span>
          </div>
        ))}
      </div>
    );
  }
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label={panel.title}>
      <table class="plain-table">
        <thead>
          <tr>
            {panel.fields.map((field) => (
              <th key={field.title} scope="col" class={["number", "bytes", "percent"].includes(field.format) ? "numeric" : undefined}>{field.title}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {items.slice(0, 200).map((each, index) => (
            <tr key={index}>
              {panel.fields.map((field) => (
                <td key={field.title} class={["number", "bytes", "percent"].includes(field.format) ? "numeric" : undefined}>
                  <ViewValue object={each} field={field} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {items.length > 200 && <p class="muted list-more">The first 200 of {items.length} are shown.</p>}
    </div>
  );
}
