// Recordings with a time slider, plans and exploration reports, opened from a file of this machine.
import { signal } from "@preact/signals";
import { useMemo, useState } from "preact/hooks";
import type { Json } from "../lib/http";
import { readReport, stateAt, type Recording, type ReportFile } from "../lib/report-files";
import { route, setParams } from "../lib/router";
import { exact } from "../lib/time";
import { laneKey, summarize, type ObjectSummary } from "../lib/traces";
import { toYaml, withoutManagedFields } from "../lib/yaml";
import { Chip, Empty, Page, Panel } from "../components/basics";
import { Diff } from "../components/diff";
import { Detail } from "./reconcile-detail";
import { Timeline } from "./timeline";

/** The file stays open while other views are visited. */
const opened = signal<{ name: string; content: ReportFile } | null>(null);

export function Files() {
  const [error, setError] = useState("");
  const open = (file: File | undefined) => {
    if (!file) return;
    setError("");
    readReport(file).then(
      (content) => (opened.value = { name: file.name, content }),
      (failure) => setError((failure as Error).message),
    );
  };
  const current = opened.value;
  return (
    <Page wide title={current?.name || "Files"} subtitle="Recordings, plans and exploration reports, read in this browser and sent nowhere">
      <div
        class="toolbar file-drop"
        onDragOver={(event) => event.preventDefault()}
        onDrop={(event) => {
          event.preventDefault();
          open(event.dataTransfer?.files[0]);
        }}
      >
        <label class="button">
          Open a file
          <input class="visually-hidden" type="file" onChange={(event) => open(event.currentTarget.files?.[0])} />
        </label>
        <span class="muted">or drop it here</span>
      </div>
      {error && (
        <p class="form-error" role="alert">
          {error}
        </p>
      )}
      {!current && !error && (
        <Empty title="No file is open">
          <code>kubewright record</code>, <code>kubewright plan --json FILE</code> and <code>kubewright explore --json FILE</code> write files that this page shows.
        </Empty>
      )}
      {current?.content.type === "recording" && <RecordingView recording={current.content} />}
      {current?.content.type === "plan" && <PlanView plan={current.content.plan} />}
      {current?.content.type === "exploration" && <ExplorationView report={current.content.report} />}
    </Page>
  );
}

function RecordingView({ recording }: { recording: Recording }) {
  const params = route.value.params;
  const at = Math.min(recording.end, Number(params.get("at") ?? recording.end));
  const chosen = params.get("object") || "";
  const state = useMemo(() => stateAt(recording, at), [recording, at]);
  const entries = [...state].filter(([, each]) => each.type !== "DELETED" || each.at > at - 1).sort((a, b) => b[1].at - a[1].at || a[0].localeCompare(b[0]));
  const selected = state.get(chosen) || entries[0]?.[1];
  const summaries = useMemo(() => {
    const found = new Map<string, ObjectSummary>();
    for (const span of [...recording.reconciles].reverse()) found.set(laneKey(span), summarize(found.get(laneKey(span)), span));
    return found;
  }, [recording]);
  const span = recording.reconciles.find((each) => each.id === params.get("id"));
  const range = { from: recording.start, to: recording.start + Math.max(1, recording.end) * 1000, live: false };
  return (
    <>
      <p class="muted">
        {recording.operator || recording.source || "Recording"}, {exact(recording.start)}, {recording.end.toFixed(1)} s: {recording.objects.length} objects, {recording.changes.length} changes, {recording.reconciles.length} reconciles.{" "}
        {recording.notes.join(" ")}
      </p>
      <label class="time-slider">
        <span>
          {exact(recording.start + at * 1000)} <span class="muted">+{at.toFixed(1)} s</span>
        </span>
        <input type="range" min="0" max={recording.end} step={Math.max(0.001, recording.end / 1000)} value={at} aria-label="Time" onInput={(event) => setParams({ at: event.currentTarget.value })} />
      </label>
      {recording.reconciles.length > 0 && <Timeline spans={recording.reconciles} summaries={summaries} range={range} selected={span} />}
      {span && <Detail span={span} spans={recording.reconciles} />}
      <div class="history">
        <ol class="history-list panel" aria-label="Objects">
          {entries.map(([key, each]) => (
            <li key={key}>
              <button type="button" class="history-item" aria-current={each === selected ? "true" : undefined} onClick={() => setParams({ object: key })}>
                <span class="history-title">{key}</span>
                <span class="muted">{each.at ? `${each.type.toLowerCase()} at +${each.at.toFixed(1)} s` : "since the start"}</span>
              </button>
            </li>
          ))}
        </ol>
        <div class="history-diff">
          {selected ? (
            selected.before ? (
              <Diff before={toYaml(withoutManagedFields(selected.before))} after={selected.type === "DELETED" ? "" : toYaml(withoutManagedFields(selected.object))} />
            ) : (
              <pre class="code" tabIndex={0}>{toYaml(withoutManagedFields(selected.object))}</pre>
            )
          ) : (
            <Empty title="No object exists at this time" />
          )}
        </div>
      </div>
    </>
  );
}

const shown = (value: Json) => (value === undefined ? "(none)" : typeof value === "string" ? value : JSON.stringify(value));

function PlanView({ plan }: { plan: Json }) {
  const [all, setAll] = useState(false);
  const changes: Json[] = plan.changes.filter((each: Json) => all || each.actor !== "cluster");
  const lists: [string, Json[]][] = [
    ["Errors", plan.errors || []],
    ["Missing permissions", plan.permissions || []],
    ["Stored objects that the new schema rejects", plan.rejected || []],
    ["Changes of CRDs", plan.schema || []],
    ["Blocked calls", plan.calls || []],
    ["Not covered", plan.notes || []],
  ];
  return (
    <>
      <p class="muted">
        Plan of {plan.operator}
        {plan.against ? ` instead of ${plan.against}` : ""} on {plan.source}, Kubernetes {plan.kubernetesVersion}, {plan.objects} objects
      </p>
      <div class="toolbar">
        <Chip tone={plan.exitCode === 3 ? "danger" : plan.exitCode ? "warning" : "ok"}>{["no changes", "error", "changes", "disruptive changes"][plan.exitCode] || "unknown"}</Chip>
        <label class="check">
          <input type="checkbox" checked={all} onChange={(event) => setAll(event.currentTarget.checked)} /> Changes by controllers of the cluster
        </label>
      </div>
      {changes.map((each, index) => (
        <Panel
          key={index}
          title={`${each.verb} ${each.kind} ${each.namespace ? `${each.namespace}/` : ""}${each.name}`}
          actions={
            <>
              {each.disruption && <Chip tone="danger">{each.disruption}</Chip>}
              {each.policy && <Chip tone="danger">{each.policy}</Chip>}
            </>
          }
          flush
        >
          {(each.fields || []).length ? (
            <div class="scroll-x" tabIndex={0} role="region" aria-label="Fields">
              <table class="plain-table">
                <thead>
                  <tr>
                    <th scope="col">Field</th>
                    <th scope="col">Before</th>
                    <th scope="col">After</th>
                  </tr>
                </thead>
                <tbody>
                  {each.fields.map((field: Json) => (
                    <tr key={field.path}>
                      <td class="break">{field.path}</td>
                      <td class="break">{shown(field.before)}</td>
                      <td class="break">{shown(field.after)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          ) : (
            <pre class="code code-flat" tabIndex={0}>{each.diff || "no fields are listed"}</pre>
          )}
        </Panel>
      ))}
      {!changes.length && <Empty title="The operator changes nothing" />}
      {lists.filter(([, found]) => found.length).map(([title, found]) => (
        <Panel key={title} title={title}>
          <ul class="policy-list">
            {found.map((each, index) => (
              <li key={index} class="break">{typeof each === "string" ? each : Object.values(each).map(shown).join(" · ")}</li>
            ))}
          </ul>
        </Panel>
      ))}
    </>
  );
}

function ExplorationView({ report }: { report: Json }) {
  return (
    <>
      <p class="muted">
        Exploration of {report.operator}: {report.runs} runs of {report.scenarios.length} scenarios in {Number(report.seconds || 0).toFixed(0)} s{report.complete === false ? ", incomplete" : ""}
      </p>
      {!report.violations.length && <Empty title={report.complete === false ? "No violation in what was explored" : "No violation was found"} />}
      {report.violations.map((each: Json, index: number) => (
        <Panel key={index} title={`${each.scenario}: ${each.rule}`} actions={<>{(each.faults || []).map((fault: string) => <Chip key={fault} tone="warning">{fault}</Chip>)}</>}>
          <ul class="policy-list">
            {each.problems.map((problem: string, at: number) => (
              <li key={at} class="form-error">{problem}</li>
            ))}
          </ul>
          {(each.explanation || []).map((line: string, at: number) => (
            <p key={at}>{line}</p>
          ))}
          {(each.timeline || []).length > 0 && (
            <div class="scroll-x" tabIndex={0} role="region" aria-label="Timeline">
              <table class="plain-table">
                <thead>
                  <tr>
                    <th scope="col" class="numeric">Time</th>
                    <th scope="col">Process</th>
                    <th scope="col">What happened</th>
                  </tr>
                </thead>
                <tbody>
                  {each.timeline.map((entry: Json) => (
                    <tr key={entry.number}>
                      <td class="numeric">{Number(entry.time).toFixed(3)} s</td>
                      <td>{entry.process}</td>
                      <td class="break" title={entry.detail || undefined}>{entry.text}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
          {each.replay && <pre class="code" tabIndex={0}>{each.replay}</pre>}
        </Panel>
      ))}
    </>
  );
}
