import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Icon } from "./icons";

export interface TableColumn<T> {
  title: string;
  description?: string;
  width: string;
  numeric?: boolean;
  cell: (row: T) => ComponentChildren;
  sort?: () => void;
}

interface Props<T> {
  label: string;
  rows: T[];
  columns: TableColumn<T>[];
  keyOf: (row: T) => string;
  open: (row: T) => void;
  highlight?: (row: T) => boolean;
  sorted?: { column: number; descending: boolean };
}

const ROW = 38;
const MARGIN = 12;

/** A table that draws only the visible rows. Arrow keys or j and k move, Enter opens. */
export function VirtualTable<T>({ label, rows, columns, keyOf, open, highlight, sorted }: Props<T>) {
  const viewport = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState({ top: 0, height: 600 });
  const [active, setActive] = useState<string | null>(null);

  useLayoutEffect(() => {
    const element = viewport.current!;
    let frame = 0;
    const measure = () => {
      frame = 0;
      setRange({ top: element.scrollTop, height: element.clientHeight });
    };
    const schedule = () => {
      frame ||= requestAnimationFrame(measure);
    };
    element.addEventListener("scroll", schedule, { passive: true });
    const observer = new ResizeObserver(schedule);
    observer.observe(element);
    measure();
    return () => {
      cancelAnimationFrame(frame);
      element.removeEventListener("scroll", schedule);
      observer.disconnect();
    };
  }, []);

  const first = Math.max(0, Math.floor(range.top / ROW) - MARGIN);
  const last = Math.min(rows.length, Math.ceil((range.top + range.height) / ROW) + MARGIN);
  const activeIndex = active === null ? -1 : rows.findIndex((row) => keyOf(row) === active);

  const move = (index: number) => {
    if (!rows.length) return;
    const target = Math.max(0, Math.min(rows.length - 1, index));
    setActive(keyOf(rows[target]));
    const element = viewport.current!;
    const head = ROW;
    const top = target * ROW;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + ROW > element.scrollTop + element.clientHeight - head) element.scrollTop = top + ROW - element.clientHeight + head;
  };

  useEffect(() => {
    const element = viewport.current!;
    const key = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const page = Math.max(1, Math.floor(element.clientHeight / ROW) - 1);
      const inside = element.contains(document.activeElement);
      const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
      const letters: Record<string, number> = { j: 1, k: -1 };
      const typing = document.activeElement instanceof HTMLElement && document.activeElement.matches("input, textarea, select, [contenteditable]");
      if (event.key in letters && !typing) move(activeIndex + letters[event.key]);
      else if (inside && event.key in steps) move(activeIndex + steps[event.key]);
      else if (inside && event.key === "Home") move(0);
      else if (inside && event.key === "End") move(rows.length - 1);
      else if (event.key === "Enter" && activeIndex >= 0 && !typing && (inside || document.activeElement === document.body)) open(rows[activeIndex]);
      else return;
      event.preventDefault();
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  });

  const template = columns.map((column) => column.width).join(" ");
  return (
    <div
      class="vtable"
      ref={viewport}
      tabIndex={0}
      role="grid"
      aria-label={label}
      aria-rowcount={rows.length + 1}
      aria-activedescendant={activeIndex >= 0 ? `row-${activeIndex}` : undefined}
    >
      <div class="vtable-inner">
        <div class="vtable-head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
          {columns.map((column, index) => {
            const direction = sorted?.column === index ? (sorted.descending ? "descending" : "ascending") : undefined;
            return (
              <div key={column.title} role="columnheader" class={column.numeric ? "cell numeric" : "cell"} title={column.description} aria-sort={direction}>
                {column.sort ? (
                  <button type="button" class="sort" onClick={column.sort}>
                    {column.title}
                    {direction && <Icon name="down" size={12} class={direction === "ascending" ? "flip" : ""} />}
                  </button>
                ) : (
                  column.title
                )}
              </div>
            );
          })}
        </div>
        <div class="vtable-body" role="presentation" style={{ height: `${rows.length * ROW}px` }}>
          {rows.slice(first, last).map((row, offset) => {
            const index = first + offset;
            const key = keyOf(row);
            return (
              <div
                key={key}
                id={`row-${index}`}
                role="row"
                aria-rowindex={index + 2}
                aria-selected={key === active}
                class={`vtable-row${key === active ? " active" : ""}${highlight?.(row) ? " changed" : ""}`}
                style={{ transform: `translateY(${index * ROW}px)`, gridTemplateColumns: template }}
                onClick={(event) => {
                  if ((event.target as Element).closest("a, button") || String(getSelection())) return;
                  setActive(key);
                  open(row);
                }}
              >
                {columns.map((column) => (
                  <div key={column.title} role="gridcell" class={column.numeric ? "cell numeric" : "cell"}>
                    {column.cell(row)}
                  </div>
                ))}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}
