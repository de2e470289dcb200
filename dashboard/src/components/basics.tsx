import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { duration, exact, now, parseTime } from "../lib/time";
import { ApiError } from "../lib/http";
import { toast } from "../lib/state";
import { Icon } from "./icons";

/** A time relative to now, with the exact time as its title. */
export function Time({ at, suffix = true }: { at: string | number | undefined | null; suffix?: boolean }) {
  const time = parseTime(at);
  if (Number.isNaN(time)) return <span class="muted">–</span>;
  const difference = now.value - time;
  const text = difference < -1000 ? `in ${duration(-difference)}` : difference < 1000 && suffix ? "just now" : `${duration(difference)}${suffix ? " ago" : ""}`;
  return (
    <time dateTime={new Date(time).toISOString()} title={exact(time)}>
      {text}
    </time>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h3>{title}</h3>
      {children && <div class="empty-text">{children}</div>}
    </div>
  );
}

const REMEDIES: Record<number, string> = {
  0: "Start the dashboard again and open the address it prints; this page reconnects by itself.",
  401: "The session has ended. Open the address that the dashboard printed when it started.",
  403: "The dashboard's user is not allowed to do this. The Access view explains which rule is missing.",
  404: "It may have been deleted, or its kind may not be installed.",
  504: "The API server did not respond in time. Check that it is running.",
  502: "The API server is unreachable. Check that it is running.",
  503: "The API server is not ready. This page tries again by itself.",
};

export function Failure({ error, retry }: { error: Error; retry?: () => void }) {
  const code = error instanceof ApiError ? error.code : -1;
  const remedy = REMEDIES[code];
  return (
    <div class="empty failure" role="alert">
      <h3>{code === 0 ? "The dashboard server is unreachable" : code === 404 ? "Not found" : code === 403 ? "Not allowed" : "The request failed"}</h3>
      <p class="failure-message">{error.message}</p>
      {remedy && <p class="empty-text">{remedy}</p>}
      {retry && (
        <button type="button" class="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Loading({ text = "Loading" }: { text?: string }) {
  return (
    <div class="loading" role="status">
      <span class="spinner" aria-hidden="true" />
      {text}
    </div>
  );
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  return (
    <button
      type="button"
      class="icon-button"
      title={label}
      aria-label={label}
      onClick={() => navigator.clipboard?.writeText(text).then(() => toast("Copied"), () => toast("The browser did not allow copying", "error"))}
    >
      <Icon name="copy" />
    </button>
  );
}

export function Chip({ children, title, tone }: { children: ComponentChildren; title?: string; tone?: string }) {
  return (
    <span class={`chip${tone ? ` chip-${tone}` : ""}`} title={title}>
      {children}
    </span>
  );
}

/** A modal dialog; Escape and a click outside close it. */
export function Dialog({ title, close, children, actions, wide }: { title: string; close: () => void; children: ComponentChildren; actions?: ComponentChildren; wide?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    ref.current?.showModal();
  }, []);
  return (
    <dialog
      ref={ref}
      class={`dialog${wide ? " dialog-wide" : ""}`}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onMouseDown={(event) => event.target === ref.current && close()}
    >
      <header class="dialog-head">
        <h2>{title}</h2>
        <button type="button" class="icon-button" aria-label="Close" onClick={close}>
          <Icon name="close" />
        </button>
      </header>
      <div class="dialog-body" tabIndex={0}>{children}</div>
      {actions && <footer class="dialog-actions">{actions}</footer>}
    </dialog>
  );
}

export interface Tab {
  id: string;
  title: string;
  count?: number;
}

/** Tabs as links; the arrow keys move between them. */
export function Tabs({ tabs, current, href }: { tabs: Tab[]; current: string; href: (id: string) => string }) {
  return (
    <nav class="tabs" aria-label="Sections">
      {tabs.map((tab) => (
        <a key={tab.id} href={href(tab.id)} class="tab" aria-current={tab.id === current ? "page" : undefined} data-tab={tab.id}>
          {tab.title}
          {tab.count ? <span class="tab-count">{tab.count}</span> : null}
        </a>
      ))}
    </nav>
  );
}

/** A text field whose changes are reported after a short pause. */
export function Field({ label, value, change, placeholder, width, id, delay = 250 }: { label: string; value: string; change: (value: string) => void; placeholder?: string; width?: string; id?: string; delay?: number }) {
  const [draft, setDraft] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => setDraft(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const report = (text: string) => {
    clearTimeout(timer.current);
    if (text !== value) change(text);
  };
  return (
    <input
      id={id}
      class="input"
      type="text"
      style={width ? { width } : undefined}
      aria-label={label}
      placeholder={placeholder || label}
      value={draft}
      spellcheck={false}
      autocomplete="off"
      onInput={(event) => {
        const text = event.currentTarget.value;
        setDraft(text);
        clearTimeout(timer.current);
        timer.current = setTimeout(() => report(text), delay);
      }}
      onBlur={() => report(draft)}
      onKeyDown={(event) => event.key === "Enter" && report(draft)}
    />
  );
}

export function Select({ label, value, options, change }: { label: string; value: string; options: { value: string; text: string }[]; change: (value: string) => void }) {
  return (
    <select class="input select" aria-label={label} value={value} onChange={(event) => change(event.currentTarget.value)}>
      {options.map((each) => (
        <option key={each.value} value={each.value} selected={each.value === value}>
          {each.text}
        </option>
      ))}
    </select>
  );
}

export function Page({ title, subtitle, actions, children, wide }: { title: ComponentChildren; subtitle?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren; wide?: boolean }) {
  return (
    <main class={`page${wide ? " page-wide" : ""}`} id="main" tabIndex={-1}>
      <header class="page-head">
        <div class="page-title">
          <h1>{title}</h1>
          {subtitle && <div class="subtitle">{subtitle}</div>}
        </div>
        {actions && <div class="page-actions">{actions}</div>}
      </header>
      {children}
    </main>
  );
}

export function Panel({ title, actions, children, flush, id }: { title?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren; flush?: boolean; id?: string }) {
  return (
    <section class="panel" id={id}>
      {(title || actions) && (
        <header class="panel-head">
          <h2>{title}</h2>
          {actions && <div class="panel-actions">{actions}</div>}
        </header>
      )}
      <div class={flush ? "panel-flush" : "panel-body"}>{children}</div>
    </section>
  );
}
