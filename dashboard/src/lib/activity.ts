// What was changed from this browser tab, newest first.
import { signal } from "@preact/signals";

export interface Activity {
  time: number;
  title: string;
  command: string;
  /** Link to the object. */
  href: string;
  error: string;
}

const KEY = "kubewright-activity";
const LIMIT = 200;

function read(): Activity[] {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) || "[]");
  } catch {
    return [];
  }
}

export const activities = signal<Activity[]>(read());

export function recordActivity(entry: Omit<Activity, "time">): void {
  activities.value = [{ time: Date.now(), ...entry }, ...activities.value].slice(0, LIMIT);
  try {
    sessionStorage.setItem(KEY, JSON.stringify(activities.value));
  } catch {
    // The list is lost with the page; the cluster's audit log is the record that lasts.
  }
}
