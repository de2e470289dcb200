import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Icon } from "./icons";

export interface TableColumn<T> {
  title: string;
  description?: string;
  width: string;
  numeric?: boolean;
  /** Stays visible while the table is scrolled to the side. */
  sticky?: boolean;
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
  /** With it, rows can be selected, by a click on their box or with the key x. */
  selection?: { keys: Set<string>; change: (keys: Set<string>) => void; nameOf: (row: T) => string };
}

const ROW = 38;
const MARGIN = 6;

function cellClass<T>(column: TableColumn<T>): string {
  return `cell${column.numeric ? " numeric" : ""}${column.sticky ? " cell-sticky" : ""}`;
}

/** A table that draws only the visible rows. Arrow keys or j and k move, Enter opens. */
export function VirtualTable<T>({ label, rows, columns, keyOf, open, highlight, sorted, selection }: Props<T>) {
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
  // Rows reuse the elements of rows that left the view: text is replaced instead of elements.
  const slots = Math.ceil(range.height / ROW) + 2 * MARGIN + 2;
  const indexOf = (key: string | null) => (key === null ? -1 : rows.findIndex((row) => keyOf(row) === key));
  const activeIndex = indexOf(active);
  // Keys may be pressed faster than the table is drawn: the handler reads the latest values.
  const current = useRef<string | null>(null);
  const toggle = (key: string) => {
    if (!selection) return;
    const keys = new Set(selection.keys);
    if (!keys.delete(key)) keys.add(key);
    selection.change(keys);
  };
  const latest = useRef({ rows, open, keyOf, toggle });
  latest.current = { rows, open, keyOf, toggle };

  const move = (step: number | "first" | "last") => {
    const { rows, keyOf } = latest.current;
    if (!rows.length) return;
    const from = current.current === null ? -1 : rows.findIndex((row) => keyOf(row) === current.current);
    const target = step === "first" ? 0 : step === "last" ? rows.length - 1 : Math.max(0, Math.min(rows.length - 1, from + step));
    current.current = keyOf(rows[target]);
    setActive(current.current);
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
      if (event.key in letters && !typing) move(letters[event.key]);
      else if (event.key === "x" && !typing && current.current !== null) latest.current.toggle(current.current);
      else if (inside && event.key in steps) move(steps[event.key]);
      else if (inside && event.key === "Home") move("first");
      else if (inside && event.key === "End") move("last");
      else if (event.key === "Enter" && !typing && (inside || document.activeElement === document.body)) {
        const { rows, open, keyOf } = latest.current;
        const row = rows.find((each) => keyOf(each) === current.current);
        if (!row) return;
        open(row);
      } else return;
      event.preventDefault();
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, []);

  const template = `${selection ? "18px " : ""}${columns.map((column) => column.width).join(" ")}`;
  const allSelected = selection !== undefined && rows.length > 0 && rows.every((row) => selection.keys.has(keyOf(row)));
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
          {selection && (
            <div role="columnheader" class="cell cell-select">
              <input type="checkbox" aria-label="Select all rows" checked={allSelected} onChange={() => selection.change(new Set(allSelected ? [] : rows.map(keyOf)))} />
            </div>
          )}
          {columns.map((column, index) => {
            const direction = sorted?.column === index ? (sorted.descending ? "descending" : "ascending") : undefined;
            return (
              <div key={column.title} role="columnheader" class={cellClass(column)} title={column.description} aria-sort={direction}>
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
                key={index % slots}
                id={`row-${index}`}
                role="row"
                aria-rowindex={index + 2}
                aria-selected={selection ? selection.keys.has(key) : key === active}
                class={`vtable-row${key === active ? " active" : ""}${highlight?.(row) ? " changed" : ""}`}
                style={{ transform: `translateY(${index * ROW}px)`, gridTemplateColumns: template }}
                onClick={(event) => {
                  if ((event.target as Element).closest("a, button, input, .cell-select") || String(getSelection())) return;
                  current.current = key;
                  setActive(key);
                  open(row);
                }}
              >
                {selection && (
                  <div role="gridcell" class="cell cell-select">
                    <input type="checkbox" tabIndex={-1} aria-label={`Select ${selection.nameOf(row)}`} checked={selection.keys.has(key)} onChange={() => toggle(key)} />
                  </div>
                )}
                {columns.map((column) => (
                  <div key={column.title} role="gridcell" class={cellClass(column)}>
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
