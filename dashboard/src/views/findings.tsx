// What needs attention, as the server ranks it. Every finding is a link to its evidence.
import { Chip, Time } from "../components/basics";
import { link, referenceLink, type ObjectReference } from "../lib/router";

export interface Finding {
  id: string;
  type: string;
  object: (ObjectReference & { resource: string }) | null;
  namespace: string;
  request: string;
  message: string;
  count: number;
  since: number | null;
  next: number | null;
  controller: string;
  span: string;
}

export const FINDING_TEXT: Record<string, string> = {
  reconcile: "Reconciles fail",
  webhook: "Webhook fails",
  fight: "Controllers in conflict",
  loop: "Hot loop",
  finalizer: "Deletion is stuck",
  failed: "Failed",
  container: "Container cannot start",
  unschedulable: "Not scheduled",
  certificate: "Certificate",
  quota: "Quota used up",
  slow: "Not ready",
  "slow webhook": "Slow webhook",
  disruption: "Evictions blocked",
};
const URGENT = ["reconcile", "webhook", "failed", "fight", "loop"];

/** The tab of the object that shows the evidence of a finding. */
const TABS: Record<string, string> = { finalizer: "yaml", certificate: "yaml", quota: "yaml", slow: "conditions", unschedulable: "events", container: "events", fight: "fields" };

function target(finding: Finding): string {
  const { object, type } = finding;
  if (type === "webhook" || type === "slow webhook") return link(["webhooks"], { id: finding.span });
  if (type === "loop") return link(["reconciles"], { object: object ? object.name : undefined, controller: finding.controller });
  if (!object || !object.resource) return link(["reconciles"], { controller: finding.controller, object: object?.name || finding.request, errors: type === "reconcile" ? "1" : undefined, id: finding.span });
  if (type === "reconcile") return referenceLink(object, { tab: "reconciles", id: finding.span });
  return referenceLink(object, { tab: TABS[type] });
}

function subject(finding: Finding): string {
  const { object } = finding;
  if (object) return `${object.kind} ${object.namespace ? `${object.namespace}/` : ""}${object.name}`;
  return finding.request || finding.controller;
}

export function FindingLine({ finding }: { finding: Finding }) {
  return (
    <p>
      <a href={target(finding)}>{finding.message}</a>
    </p>
  );
}

export function FindingItem({ finding }: { finding: Finding }) {
  const expires = finding.type === "certificate";
  return (
    <li class="event-item finding" data-type={finding.type}>
      <div class="event-main">
        <div class="event-line">
          <a href={target(finding)} class="event-object">
            {subject(finding)}
          </a>
          <Chip tone={URGENT.includes(finding.type) ? "danger" : "warning"}>{FINDING_TEXT[finding.type] || finding.type}</Chip>
          {finding.controller && finding.object && finding.type === "reconcile" && <span class="muted">{finding.controller}</span>}
        </div>
        <p class="event-message" title={finding.message}>{finding.message}</p>
      </div>
      <div class="event-side">
        {finding.count > 1 && <span>×{finding.count} </span>}
        {finding.since ? (
          <span>
            since <Time at={finding.since} />
          </span>
        ) : finding.type === "reconcile" ? (
          <span>since: unknown</span>
        ) : null}
        {finding.next ? (
          <span class="finding-next">
            {expires ? "" : "next retry "}
            <Time at={finding.next} />
          </span>
        ) : null}
      </div>
    </li>
  );
}
