// What was changed from this browser tab, with the commands that do the same.
import { activities } from "../lib/activity";
import { Chip, Copy, Empty, Page, Time } from "../components/basics";

export function ActivityPage() {
  const found = activities.value;
  return (
    <Page title="Activity" subtitle="Changes made from this browser tab. The audit log of the cluster has those of everyone.">
      {found.length ? (
        <div class="panel panel-flush">
          <ul class="event-list" aria-label="Changes">
            {found.map((each, index) => (
              <li key={index} class="event-item">
                <div class="event-main">
                  <div class="event-line">
                    <a href={each.href} class="event-object">
                      {each.title}
                    </a>
                    <Chip tone={each.error ? "danger" : "ok"}>{each.error ? "failed" : "done"}</Chip>
                  </div>
                  {each.error && <p class="event-message">{each.error}</p>}
                  <p class="with-copy">
                    <code>{each.command}</code>
                    <Copy text={each.command} label="Copy the command" />
                  </p>
                </div>
                <div class="event-side">
                  <Time at={each.time} />
                </div>
              </li>
            ))}
          </ul>
        </div>
      ) : (
        <Empty title="Nothing was changed">Actions, edits and deletions appear here with their kubectl commands.</Empty>
      )}
    </Page>
  );
}
