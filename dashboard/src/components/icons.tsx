import type { JSX } from "preact";

const PATHS: Record<string, string> = {
  overview: "M3 3h6v7H3zM11 3h6v4h-6zM11 9h6v8h-6zM3 12h6v5H3z",
  objects: "M3 5h14M3 10h14M3 15h14",
  reconciles: "M4 10a6 6 0 0 1 10.5-4L16 7.500M16 3.500v4h-4M16 10a6 6 0 0 1-10.500 4L4 12.500M4 16.500v-4h4",
  webhooks: "M7 4.500a3 3 0 1 1 4.200 2.800L9 11.500M10 15.500h3.500a3 3 0 1 0 0-3M6.500 9.500a3.200 3.200 0 1 0 3 4",
  schema: "M7 3c-2 0-2 1.500-2 3s0 3-2 4c2 1 2 2.500 2 4s0 3 2 3M13 3c2 0 2 1.500 2 3s0 3 2 4c-2 1-2 2.500-2 4s0 3-2 3",
  access: "M10 2.500 4 5v4.500c0 4 2.500 6.500 6 8 3.500-1.500 6-4 6-8V5zM7.500 10l2 2 3.500-4",
  search: "M9 15A6 6 0 1 0 9 3a6 6 0 0 0 0 12zM13.500 13.500 17 17",
  close: "M5 5l10 10M15 5 5 15",
  check: "M4 10.500 8 14.500 16 6",
  chevron: "M7 5l5 5-5 5",
  down: "M5 7.500l5 5 5-5",
  menu: "M3 5.500h14M3 10h14M3 14.500h14",
  sun: "M10 13.500a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7zM10 2v1.500M10 16.500V18M2 10h1.500M16.500 10H18M4.300 4.300l1.100 1.100M14.600 14.600l1.100 1.100M15.700 4.300l-1.100 1.100M5.400 14.600l-1.100 1.100",
  moon: "M16.500 11.500A7 7 0 0 1 8.500 3.500a7 7 0 1 0 8 8z",
  keyboard: "M2.500 5.500h15v9h-15zM5.500 8.500h.01M8.500 8.500h.01M11.500 8.500h.01M14.500 8.500h.01M6.500 11.500h7",
  trash: "M4 5.500h12M8 5.500V3.500h4v2M5.500 5.500l.8 11h7.400l.8-11M8.500 8.500v5M11.500 8.500v5",
  edit: "M4 16l.6-3L13 4.600l2.400 2.400L7 15.400z",
  copy: "M7 7h9v9H7zM4 13V4h9",
  external: "M8 5H4.500v10.500H15V12M11 4h5v5M16 4l-7 7",
  plus: "M10 4v12M4 10h12",
  minus: "M4 10h12",
  fit: "M3 7V3h4M13 3h4v4M17 13v4h-4M7 17H3v-4",
  play: "M6 4l10 6-10 6z",
  pause: "M6.500 4v12M13.500 4v12",
  download: "M10 3v10M5.500 9 10 13.500 14.500 9M4 16.500h12",
  warning: "M10 3 2.500 16.500h15zM10 8v4M10 14.300v.01",
  lock: "M5 9h10v8H5zM7 9V6.500a3 3 0 0 1 6 0V9",
  filter: "M3 4.500h14l-5.500 6.500v5l-3-1.500v-3.500z",
  columns: "M3 4h14v12H3zM8 4v12M13 4v12",
};

export function Icon({ name, size = 16, ...rest }: { name: string; size?: number } & JSX.IntrinsicElements["svg"]) {
  return (
    <svg width={size} height={size} viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" {...rest}>
      <path d={PATHS[name]} />
    </svg>
  );
}

const HEALTH: Record<string, string> = {
  Current: "M6 10.300l2.700 2.700L14 7.500",
  InProgress: "M10 6v4.200l2.800 1.800",
  Failed: "M7 7l6 6M13 7l-6 6",
  Terminating: "M6.500 10h7",
  Unknown: "M10 10h.01",
};

export const HEALTH_TEXT: Record<string, string> = {
  Current: "Current",
  InProgress: "In progress",
  Failed: "Failed",
  Terminating: "Terminating",
  Unknown: "Unknown",
};

export function HealthIcon({ health, size = 18 }: { health: string; size?: number }) {
  const name = HEALTH[health] ? health : "Unknown";
  return (
    <svg class={`health-icon health-${name}`} width={size} height={size} viewBox="0 0 20 20" role="img" aria-label={HEALTH_TEXT[name]}>
      <circle cx="10" cy="10" r="8" />
      <path d={HEALTH[name]} fill="none" stroke-width="1.900" stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  );
}

export function Health({ health, message }: { health: string; message?: string }) {
  return (
    <span class={`health health-${health}`} title={message || undefined}>
      <HealthIcon health={health} />
      <span>{HEALTH_TEXT[health] || health}</span>
    </span>
  );
}
