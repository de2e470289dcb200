import type { LiveList } from "../lib/live";
import type { Json } from "../lib/http";
import { Chip, Empty, Failure, Loading, Time } from "../components/basics";

function lastSeen(event: Json): string {
  return event.series?.lastObservedTime || event.lastTimestamp || event.eventTime || event.metadata.creationTimestamp;
}

export function Events({ list, name }: { list: LiveList; name: string }) {
  if (list.state.value === "failed" && list.error.value) return <Failure error={list.error.value} />;
  if (list.state.value === "loading") return <Loading />;
  const events = [...list.items.value].sort((a, b) => lastSeen(b).localeCompare(lastSeen(a)));
  if (!events.length) {
    return <Empty title="No events">Events about {name} appear here for one hour after a controller or a kubelet records them.</Empty>;
  }
  return (
    <div class="panel panel-flush">
      <ul class="event-list" aria-live="polite">
        {events.map((event) => {
          const count = event.series?.count || event.count || 1;
          return (
            <li key={event.metadata.uid} class="event-item">
              <Chip tone={event.type === "Warning" ? "warning" : undefined}>{event.reason || event.type}</Chip>
              <div class="event-main">
                <p class="event-message">{event.message}</p>
                <p class="muted event-source">{event.reportingComponent || event.source?.component || ""}</p>
              </div>
              <div class="event-side">
                {count > 1 && <span class="muted">×{count}</span>} <Time at={lastSeen(event)} />
              </div>
            </li>
          );
        })}
      </ul>
    </div>
  );
}
