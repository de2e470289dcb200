// Relative times, renewed by one timer.
import { signal } from "@preact/signals";

export const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) now.value = Date.now();
});

/** An interval as kubectl prints ages: 45s, 3m20s, 5h, 12d. */
export function duration(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return seconds % 60 ? `${minutes}m${seconds % 60}s` : `${minutes}m`;
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8) return minutes % 60 ? `${hours}h${minutes % 60}m` : `${hours}h`;
  if (hours < 48) return `${hours}h`;
  const days = Math.floor(hours / 24);
  if (days < 365 * 2) return `${days}d`;
  return `${Math.floor(days / 365)}y`;
}

/** A short interval: 340 µs, 12.5 ms, 1.2 s. */
export function precise(seconds: number | undefined | null): string {
  if (seconds === undefined || seconds === null || Number.isNaN(seconds)) return "–";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 0.1) return `${(seconds * 1000).toFixed(1)} ms`;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 100) return `${seconds.toFixed(1)} s`;
  return duration(seconds * 1000);
}

const exactFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const clockFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

export function exact(time: number): string {
  return exactFormat.format(time);
}

export function clock(time: number): string {
  return clockFormat.format(time);
}

export function parseTime(value: string | number | undefined | null): number {
  if (value === undefined || value === null || value === "") return NaN;
  return typeof value === "number" ? value * (value < 1e11 ? 1000 : 1) : Date.parse(value);
}
