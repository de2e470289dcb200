import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { isDark } from "../lib/state";

interface Props {
  title: string;
  times: number[];
  values: (number | null)[];
  format: (value: number) => string;
  tone?: "accent" | "danger";
  /** A single line of text height, for tables. */
  small?: boolean;
}

const WIDTH = 220;
const HEIGHT = 56;
const SMALL_HEIGHT = 24;

/** A small plot of one series with its last value. */
export function Plot({ title, times, values, format, tone = "accent", small = false }: Props) {
  const height = small ? SMALL_HEIGHT : HEIGHT;
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const dark = isDark.value;
  useEffect(() => {
    const style = getComputedStyle(document.documentElement);
    const color = style.getPropertyValue(tone === "danger" ? "--failed" : "--accent").trim();
    const created = new uPlot(
      {
        width: host.current!.clientWidth || WIDTH,
        height,
        cursor: { show: false },
        legend: { show: false },
        padding: [4, 2, 2, 2],
        scales: { x: { time: false }, y: { range: (_plot, _min, max) => [0, max > 0 ? max * 1.15 : 1] } },
        axes: [{ show: false }, { show: false }],
        series: [{}, { stroke: color, width: 1.5, fill: `${color}22`, spanGaps: true, points: { show: false } }],
      },
      [times, values] as uPlot.AlignedData,
      host.current!,
    );
    plot.current = created;
    const observer = new ResizeObserver(() => created.setSize({ width: host.current?.clientWidth || WIDTH, height }));
    observer.observe(host.current!);
    return () => {
      observer.disconnect();
      created.destroy();
    };
  }, [dark, tone]);
  useEffect(() => {
    plot.current?.setData([times, values] as uPlot.AlignedData);
  }, [times, values]);
  const known = values.filter((value): value is number => value !== null && value !== undefined);
  const last = known.at(-1);
  const highest = known.length ? Math.max(...known) : 0;
  return (
    <figure class={small ? "plot plot-small" : "plot"}>
      <figcaption>
        {!small && <span class="plot-title">{title}</span>}
        <span class="plot-value">{last === undefined ? "–" : format(last)}</span>
      </figcaption>
      <div ref={host} class="plot-host" role="img" aria-label={`${title}: ${last === undefined ? "no values" : `${format(last)}, at most ${format(highest)}`}`} />
    </figure>
  );
}
