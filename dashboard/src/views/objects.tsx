import { useEffect, useMemo, useState } from "preact/hooks";
import { ACTIONS, type Action } from "../lib/actions";
import { ActionDialog } from "../components/action-dialog";
import { discoveryError, findResource, resources, apiPath, discover, type Resource } from "../lib/discovery";
import { useLiveTable, type Row } from "../lib/live";
import { HEALTH_ORDER, healthOf, matchesHealth, parseFilter, useKindHealth } from "../lib/health";
import { ApiError, type Json } from "../lib/http";
import { kindLink, link, namespaceFilter, navigate, objectLink, route, setParams } from "../lib/router";
import { useKindView, valueAt } from "../lib/kind-view";
import { ViewValue } from "../components/view-value";
import { info } from "../lib/state";
import { now, parseTime } from "../lib/time";
import { Empty, Failure, Field, Loading, Page, Select, Time } from "../components/basics";
import { HEALTH_TEXT, HealthIcon, Icon } from "../components/icons";
import { VirtualTable, type TableColumn } from "../components/virtual-table";
import { HealthBar, useOverview, type KindSummary } from "./overview";

/** Every kind that can be listed, by API group. */
export function Kinds() {
  const filter = route.value.params.get("q") || "";
  const overview = useOverview();
  if (!resources.value.length) {
    return <Page title="Objects">{discoveryError.value ? <Failure error={discoveryError.value} retry={discover} /> : <Loading />}</Page>;
  }
  const summaries = new Map<string, KindSummary>((overview.value.value?.kinds || []).map((each: KindSummary) => [`${each.group}/${each.resource}`, each]));
  const wanted = filter.toLowerCase();
  const groups = new Map<string, Resource[]>();
  for (const each of resources.value) {
    if (!each.preferred) continue;
    if (wanted && ![each.kind, each.plural, each.group, ...each.shortNames].some((text) => text.toLowerCase().includes(wanted))) continue;
    groups.set(each.group, [...(groups.get(each.group) || []), each]);
  }
  const builtIn = (group: string) => group === "" || !group.includes(".") || group.endsWith(".k8s.io");
  const order = [...groups.keys()].sort((a, b) => Number(builtIn(a)) - Number(builtIn(b)) || a.localeCompare(b));
  return (
    <Page
      title="Objects"
      subtitle="Every kind that the API server serves"
      actions={<Field id="filter" label="Filter kinds" value={filter} change={(q) => setParams({ q })} width="220px" />}
    >
      {order.length === 0 && <Empty title="No kind matches">Change the filter, or install the CustomResourceDefinition of the kind.</Empty>}
      {order.map((group) => (
        <section key={group} class="section">
          <h2 class="section-title">{group || "core"}</h2>
          <div class="kind-grid">
            {groups.get(group)!.sort((a, b) => a.kind.localeCompare(b.kind)).map((each) => {
              const summary = summaries.get(`${each.group}/${each.plural}`);
              return (
                <a key={each.plural} class="kind-link" href={kindLink(each)}>
                  <span class="kind-link-name">{each.kind}</span>
                  {summary?.error && (
                    <span class="muted unreadable" title={summary.error}>
                      <Icon name="lock" size={13} /> not readable
                    </span>
                  )}
                  {summary && summary.count > 0 && (
                    <>
                      <HealthBar health={summary.health} count={summary.count} />
                      <span class="kind-link-count">{summary.count}</span>
                    </>
                  )}
                </a>
              );
            })}
          </div>
        </section>
      ))}
    </Page>
  );
}

export function Objects({ group, version, plural }: { group: string; version: string; plural: string }) {
  const resource = findResource(group, version, plural);
  useEffect(() => {
    if (!resource) void discover();
  }, [group, version, plural]);
  if (!resource) {
    if (!resources.value.length && !discoveryError.value) return <Page title={plural}><Loading /></Page>;
    return (
      <Page title={plural}>
        <Empty title={`The API server does not serve ${plural}${group ? `.${group}` : ""}`}>
          Install its CustomResourceDefinition, or choose a kind in <a href="#/objects">Objects</a>.
        </Empty>
      </Page>
    );
  }
  return <ObjectTable key={`${group}/${version}/${plural}`} resource={resource} />;
}

const MAX_SELECTED = 100;
const numeric = new Intl.Collator(undefined, { numeric: true });

function textOf(cell: Json): string {
  if (cell === null || cell === undefined) return "";
  return typeof cell === "string" ? cell : typeof cell === "object" ? JSON.stringify(cell) : String(cell);
}

function statusTone(text: string): string {
  if (/^(Running|Ready|Active|Bound|Succeeded|Completed|Complete|Available|True)$/.test(text)) return "cell-ok";
  if (/(Error|Failed|BackOff|Evicted|OOMKilled|Invalid|NotReady|Lost)/.test(text)) return "cell-bad";
  if (/(Pending|Creating|Terminating|Progressing|Waiting|Init:)/.test(text)) return "cell-busy";
  return "";
}

function ObjectTable({ resource }: { resource: Resource }) {
  const params = route.value.params;
  const namespace = resource.namespaced ? namespaceFilter() : "";
  const labels = params.get("labels") || "";
  const fields = params.get("fields") || "";
  const filter = (params.get("q") || "").toLowerCase();
  const health = useKindHealth(resource.group, resource.kind).value;
  const wide = params.get("wide") === "1";
  const sort = params.get("sort") || "";
  const [selected, setSelected] = useState<Set<string>>(new Set());
  const [action, setAction] = useState<Action | null>(null);
  const view = useKindView(resource);
  const table = useLiveTable(apiPath(resource, namespace), { includeObject: view.columns.length ? "Object" : undefined, labelSelector: labels || undefined, fieldSelector: fields || undefined }, resource.verbs.includes("watch"));
  const rows = table.rows.value;
  const definitions = table.columns.value.map((column, index) => ({ ...column, index })).filter((column) => wide || !column.priority);
  const hasWide = table.columns.value.some((column) => column.priority);
  const showNamespace = resource.namespaced && !namespace;
  const sortName = sort.replace(/^-/, "");
  const descending = sort.startsWith("-");

  const shown = useMemo(() => {
    let found = rows;
    const { words, health: wanted } = parseFilter(filter);
    if (words.length) {
      const text = words.join(" ");
      found = found.filter((row) => row.cells.some((cell) => textOf(cell).toLowerCase().includes(text)) || (row.meta.namespace || "").toLowerCase().includes(text));
    }
    if (wanted.length) found = found.filter((row) => matchesHealth({ words, health: wanted }, healthOf(health, row.meta.uid)[0]));
    if (sortName === "Health") {
      const ranked = found.map((row) => [HEALTH_ORDER.indexOf(healthOf(health, row.meta.uid)[0]), `${row.meta.namespace || ""}/${row.meta.name}`, row] as const);
      ranked.sort((a, b) => a[0] - b[0] || (a[1] < b[1] ? -1 : 1));
      const inOrder = ranked.map((each) => each[2]);
      return descending ? inOrder.reverse() : inOrder;
    }
    const declared = view.columns.find((each) => `view:${each.title}` === sortName);
    if (declared) {
      const sorted = [...found].sort((a, b) => numeric.compare(textOf(valueAt(a.object, declared.path)), textOf(valueAt(b.object, declared.path))));
      return descending ? sorted.reverse() : sorted;
    }
    const column = table.columns.value.findIndex((each) => each.name === sortName);
    const isTime = sortName === "Age" || table.columns.value[column]?.type === "date";
    const key = (row: Row): string =>
      sortName === "Namespace" ? row.meta.namespace || "" : isTime ? String(-parseTime(row.meta.creationTimestamp) || 0) : column >= 0 ? textOf(row.cells[column]) : `${row.meta.namespace || ""}/${row.meta.name}`;
    const keyed = found.map((row) => [key(row), row] as const);
    // Plain comparison of names is much faster than a collator on large collections.
    keyed.sort(isTime ? (a, b) => Number(a[0]) - Number(b[0]) : sortName ? (a, b) => numeric.compare(a[0], b[0]) : (a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0));
    const sorted = keyed.map((each) => each[1]);
    return descending ? sorted.reverse() : sorted;
  }, [rows, filter, sort, filter.includes("health:") || sortName === "Health" ? health : null]);

  const widths = useMemo(() => {
    const sample = rows.slice(0, 200);
    const measure = (title: string, texts: string[]) => Math.min(46, Math.max(title.length + 2, ...texts.map((text) => text.length + 1)));
    return {
      namespace: measure("Namespace", sample.map((row) => row.meta.namespace || "")),
      cells: table.columns.value.map((column, index) => measure(column.name, column.name === "Age" ? ["123d"] : sample.map((row) => textOf(row.cells[index])))),
    };
  }, [rows.length > 0, rows.length > 200, table.columns.value]);

  const sortBy = (name: string) => () => setParams({ sort: sort === name ? `-${name}` : sort === `-${name}` ? undefined : name });
  const columns: TableColumn<Row>[] = [];
  const target = (row: Row) => objectLink(resource, row.meta.namespace, row.meta.name);
  for (const column of definitions) {
    const isName = column.format === "name" || column.index === 0;
    const isAge = column.name === "Age" || (column.type === "date" && column.name.includes("Age"));
    const width = widths.cells[column.index] || 10;
    columns.push({
      title: column.name,
      description: column.description,
      width: isName ? `minmax(min(${Math.max(16, Math.min(width, 30))}ch, 46vw), ${width * 1.4}fr)` : `minmax(${Math.min(width, 18)}ch, ${width}fr)`,
      numeric: column.type === "integer" || column.type === "number",
      sticky: isName,
      sort: sortBy(column.name),
      cell: (row) => {
        const text = textOf(row.cells[column.index]);
        if (isName) return <a href={target(row)} class="name-link">{text}</a>;
        if (isAge && row.meta.creationTimestamp) return <Time at={row.meta.creationTimestamp} suffix={false} />;
        return <span class={column.name === "Status" || column.name === "Phase" ? statusTone(text) : undefined} title={text.length > 24 ? text : undefined}>{text}</span>;
      },
    });
    if (isName) {
      columns.push({
        title: "Health",
        width: "minmax(13ch, 13fr)",
        sort: sortBy("Health"),
        cell: (row) => {
          const [state, message] = healthOf(health, row.meta.uid);
          return (
            <span class={`health-cell health-${state}`} title={message || undefined}>
              <HealthIcon health={state} size={15} /> {HEALTH_TEXT[state]}
            </span>
          );
        },
      });
    }
    if (isName && showNamespace) {
      columns.push({
        title: "Namespace",
        width: `minmax(${Math.min(widths.namespace, 18)}ch, ${widths.namespace}fr)`,
        sort: sortBy("Namespace"),
        cell: (row) => row.meta.namespace || "",
      });
    }
  }
  for (const field of view.columns) {
    columns.push({
      title: field.title,
      width: `minmax(${Math.min(18, field.title.length + 6)}ch, 14fr)`,
      numeric: ["number", "bytes", "percent"].includes(field.format),
      sort: sortBy(`view:${field.title}`),
      cell: (row) => <ViewValue object={row.object} field={field} />,
    });
  }
  const readOnly = info.value?.readOnly;
  const chosen = rows.filter((row) => selected.has(row.key));
  const actions = readOnly ? [] : ACTIONS.filter((each) => each.many && each.applies(resource));
  const sortedColumn = columns.findIndex((column) => column.title === sortName || `view:${column.title}` === sortName);
  const state = table.state.value;
  const error = table.error.value;
  const count = filter ? `${shown.length.toLocaleString()} of ${rows.length.toLocaleString()}` : rows.length.toLocaleString();
  return (
    <Page
      wide
      title={resource.kind}
      subtitle={
        <>
          <span data-testid="row-count">{count}</span> {rows.length === 1 ? "object" : "objects"} · {resource.group || "core"}/{resource.version} ·{" "}
          <a href={`#/schema/${resource.group || "core"}/${resource.version}/${resource.kind}`}>schema</a>
        </>
      }
      actions={
        <>
          {!readOnly && resource.verbs.includes("create") && (
            <a class="button" href={link(["create"], { kind: `${resource.group || "core"}/${resource.version}/${resource.plural}` })}>
              <Icon name="plus" /> Create
            </a>
          )}
        <span class={`live live-${state}`} title={state === "listed" ? "This kind cannot be watched; it is listed every 10 s" : error && state !== "live" ? error.message : "Changes appear as they happen"}>
          {state === "live" ? "Live" : state === "listed" ? "Listed every 10 s" : state === "loading" ? "Loading" : state === "reconnecting" ? "Reconnecting" : "Stopped"}
        </span>
        </>
      }
    >
      <div class="toolbar" role="search">
        <Field id="filter" label="Filter" placeholder="Filter rows, health:failed" value={params.get("q") || ""} change={(q) => setParams({ q })} width="220px" delay={120} />
        <Select
          label="Health"
          value={parseFilter(filter).health[0] || ""}
          options={[{ value: "", text: "Any health" }, ...HEALTH_ORDER.map((each) => ({ value: each.toLowerCase(), text: HEALTH_TEXT[each] }))]}
          change={(value) => setParams({ q: [...parseFilter(params.get("q") || "").words, value && `health:${value}`].filter(Boolean).join(" ") || undefined })}
        />
        <Field label="Label selector" placeholder="Labels: app=web,tier!=db" value={labels} change={(value) => setParams({ labels: value })} width="220px" delay={600} />
        <Field label="Field selector" placeholder="Fields: status.phase=Running" value={fields} change={(value) => setParams({ fields: value })} width="230px" delay={600} />
        {hasWide && (
          <button type="button" class="button button-quiet" aria-pressed={wide} onClick={() => setParams({ wide: wide ? undefined : "1" })}>
            <Icon name="columns" /> All columns
          </button>
        )}
      </div>
      {state === "failed" && error ? (
        <Unreadable error={error} resource={resource} namespace={namespace} />
      ) : state === "loading" ? (
        <Loading text={`Loading ${resource.plural}`} />
      ) : shown.length === 0 ? (
        <Empty title={rows.length ? "No row matches the filter" : `No ${resource.plural}${namespace ? ` in ${namespace}` : ""}`}>
          {rows.length || labels || fields ? "Change the filter or the selectors." : <NoObjects resource={resource} />}
        </Empty>
      ) : (
        <VirtualTable
          label={`${resource.kind} objects`}
          rows={shown}
          columns={columns}
          keyOf={(row) => row.key}
          open={(row) => navigate(target(row))}
          highlight={(row) => row.changed > 0 && now.peek() - row.changed < 1500}
          sorted={sortedColumn >= 0 ? { column: sortedColumn, descending } : undefined}
          selection={actions.length ? { keys: selected, change: setSelected, nameOf: (row) => row.meta.name } : undefined}
        />
      )}
      {chosen.length > 0 && (
        <div class="selection-bar" role="toolbar" aria-label="Selected objects">
          <span>{chosen.length} selected</span>
          {actions.map((each) => (
            <button key={each.id} type="button" class={`button${each.danger ? " button-danger-quiet" : ""}`} disabled={chosen.length > MAX_SELECTED} onClick={() => setAction(each)}>
              <Icon name={each.icon} /> {each.title}
            </button>
          ))}
          {chosen.length > MAX_SELECTED && <span class="muted">at most {MAX_SELECTED}</span>}
          <span class="spacer" />
          <button type="button" class="button button-quiet" onClick={() => setSelected(new Set())}>
            Clear
          </button>
        </div>
      )}
      {action && (
        <ActionDialog
          action={action}
          resource={resource}
          objects={chosen.map((row) => ({ namespace: row.meta.namespace, name: row.meta.name }))}
          close={(done) => {
            setAction(null);
            if (done) setSelected(new Set());
          }}
        />
      )}
    </Page>
  );
}

/** An error of a table; a user who may not list all namespaces is offered its own. */
function Unreadable({ error, resource, namespace }: { error: Error; resource: Resource; namespace: string }) {
  const own = info.value?.cluster.namespace;
  const denied = error instanceof ApiError && error.code === 403;
  return (
    <>
      <Failure error={error} />
      {denied && (
        <p class="empty-text unreadable-links">
          {resource.namespaced && own && own !== namespace && (
            <>
              <a href={kindLink(resource, { namespace: own })}>Show those in {own}</a>,{" "}
            </>
          )}
          <a href={link(["access"], { tab: "why", ask: "1", user: info.value?.user.username, groups: info.value?.user.groups.join(","), verb: "list", resource: resource.plural, group: resource.group, namespace })}>explain why it is denied</a>
        </p>
      )}
    </>
  );
}

function NoObjects({ resource }: { resource: Resource }) {
  return (
    <>
      <a href={link(["create"], { kind: `${resource.group || "core"}/${resource.version}/${resource.plural}` })}>Create one from YAML</a>; the <a href={`#/schema/${resource.group || "core"}/${resource.version}/${resource.kind}`}>schema of {resource.kind}</a> has an example.
    </>
  );
}
