import { lazy } from "../lib/lazy";
import { useEffect, useState } from "preact/hooks";
import { escapeSelector, json, query, type Json } from "../lib/http";
import { apiPath, discover, discoveryError, findKind, findResource, resources, type Resource } from "../lib/discovery";
import { useLiveList, useLiveObject, useLoaded } from "../lib/live";
import { kindLink, navigate, objectLink, route, setParams } from "../lib/router";
import { useStream } from "../lib/stream";
import { info } from "../lib/state";
import type { Tree } from "../lib/tree";
import { Chip, Empty, Failure, Loading, Page, Tabs, Time, type Tab } from "../components/basics";
import { Health, Icon } from "../components/icons";
import { ActionDialog } from "../components/action-dialog";
import { ACTIONS, type Action } from "../lib/actions";
import { useKindView, type KindView } from "../lib/kind-view";
import { ViewPanels } from "../components/view-value";
import { hasMetrics, Metrics } from "./object-metrics";
import { OwnerTree } from "./object-tree";
import { Conditions, conditionsOf } from "./object-conditions";
import { Data } from "./object-data";
import { Events } from "./object-events";
import { Fields } from "./object-fields";
import { History } from "./object-history";
import { Logs } from "./object-logs";
import { Ports } from "./object-ports";
import { Reconciles } from "./reconciles";
import { selectorOf, WorkloadLogs } from "./workload-logs";

const Editor = lazy(() => import("../editor/editor"));
const Terminal = lazy(() => import("../editor/terminal"));

export interface ObjectKey {
  resource: Resource;
  namespace: string;
  name: string;
}

export function ObjectView({ group, version, plural, namespace, name }: { group: string; version: string; plural: string; namespace: string; name: string }) {
  const resource = findResource(group, version, plural);
  // The kind may have been installed since the kinds were read.
  useEffect(() => {
    if (!resource) void discover();
  }, [group, version, plural]);
  if (!resource) {
    if (!resources.value.length && !discoveryError.value) return <Page title={name}><Loading /></Page>;
    return (
      <Page title={name}>
        <Empty title={`The API server does not serve ${plural}${group ? `.${group}` : ""}`}>
          Install its CustomResourceDefinition, or choose a kind in <a href="#/objects">Objects</a>.
        </Empty>
      </Page>
    );
  }
  return <LoadedObject key={`${group}/${version}/${plural}/${namespace}/${name}`} resource={resource} namespace={namespace} name={name} />;
}

function tabsOf(resource: Resource, object: Json, events: number, view: KindView): Tab[] {
  const pod = resource.group === "" && resource.plural === "pods";
  const workload = resource.namespaced && !pod && selectorOf(object) !== undefined;
  return [
    { id: "tree", title: "Tree" },
    ...(view.panels.length ? [{ id: "details", title: "Details" }] : []),
    { id: "conditions", title: "Conditions", count: conditionsOf(object).length },
    { id: "events", title: "Events", count: events },
    ...(workload ? [{ id: "pod-logs", title: "Logs" }] : []),
    ...(pod ? [{ id: "logs", title: "Logs" }, { id: "terminal", title: "Terminal" }, { id: "ports", title: "Ports" }] : []),
    ...(resource.group === "" && ["secrets", "configmaps"].includes(resource.plural) ? [{ id: "data", title: "Data" }] : []),
    ...(hasMetrics(resource.plural) && resource.group === "" ? [{ id: "metrics", title: "Metrics" }] : []),
    { id: "yaml", title: "YAML" },
    { id: "fields", title: "Field owners" },
    { id: "history", title: "History" },
    { id: "reconciles", title: "Reconciles" },
  ];
}

function LoadedObject({ resource, namespace, name }: ObjectKey) {
  const live = useLiveObject(apiPath(resource, namespace), name);
  const object = live.object.value;
  const view = useKindView(resource);
  const reference = { group: resource.group, version: resource.version, kind: resource.kind, namespace, name };
  const tree = useLoaded<Tree>((signal) => json(`/api/tree${query(reference)}`, { signal }), [resource, namespace, name]);
  useStream("tree", (data) => (tree.value.value = data), [resource.group, resource.version, resource.kind, namespace, name].join(","));
  // The server records versions from the first request on.
  useEffect(() => {
    json(`/api/history${query(reference)}`).catch(() => undefined);
  }, []);
  const uid = object?.metadata.uid;
  const selector = uid ? `involvedObject.uid=${uid}` : `involvedObject.name=${escapeSelector(name)},involvedObject.kind=${resource.kind}`;
  const tab = route.value.params.get("tab") || "tree";
  // Events are watched while their tab is open, and counted otherwise: connections are few.
  const eventsPath = object ? `/k8s/api/v1/${namespace ? `namespaces/${encodeURIComponent(namespace)}/` : ""}events` : undefined;
  const events = useLiveList(tab === "events" ? eventsPath : undefined, { fieldSelector: selector });
  const counted = useLoaded<number>(
    (signal) => (eventsPath && tab !== "events" ? json(`${eventsPath}${query({ fieldSelector: selector })}`, { signal }).then((list) => list.items.length) : Promise.resolve(0)),
    [eventsPath, selector, tab === "events"],
  );
  const eventCount = tab === "events" ? events.items.value.length : counted.value.value || 0;
  const treeVersion = tree.value.value;
  useEffect(() => {
    if (counted.value.peek() !== null) counted.reload();
  }, [treeVersion]);
  const [action, setAction] = useState<Action | null>(null);
  const node = tree.value.value?.nodes.find((each) => each.id === tree.value.value?.root);

  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !object) return;
      const target = event.target as HTMLElement;
      if (target.closest("input, textarea, select, [contenteditable], dialog, .terminal-host")) return;
      const tabs = tabsOf(resource, object, 0, view).map((each) => each.id);
      const index = Math.max(0, tabs.indexOf(tab));
      if (event.key === "]") setParams({ tab: tabs[(index + 1) % tabs.length] });
      else if (event.key === "[") setParams({ tab: tabs[(index + tabs.length - 1) % tabs.length] });
      else if (event.key === "e") setParams({ tab: "yaml" });
      else return;
      event.preventDefault();
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  });

  const crumbs = (
    <span class="crumbs">
      <a href={kindLink(resource)}>{resource.kind}</a>
      {namespace && (
        <>
          <span aria-hidden="true">/</span>
          <a href={kindLink(resource, { namespace })}>{namespace}</a>
        </>
      )}
    </span>
  );
  if (!object) {
    return (
      <Page title={name} subtitle={crumbs}>
        {live.state.value === "failed" && live.error.value ? <Failure error={live.error.value} /> : <Loading />}
      </Page>
    );
  }
  const meta = object.metadata;
  const deleted = live.state.value === "deleted";
  const owners = (meta.ownerReferences || []) as Json[];
  const tabs = tabsOf(resource, object, eventCount, view);
  const current = tabs.some((each) => each.id === tab) ? tab : "tree";
  return (
    <Page
      wide
      title={
        <span class="object-title">
          {name} {deleted ? <Chip tone="danger">Deleted</Chip> : node && <Health health={node.health} message={node.message} />}
        </span>
      }
      subtitle={
        <>
          {crumbs}
          <span class="dot">·</span>
          <span>
            created <Time at={meta.creationTimestamp} />
          </span>
          {node?.message && node.health !== "Current" && (
            <>
              <span class="dot">·</span>
              <span class="health-message">{node.message}</span>
            </>
          )}
        </>
      }
      actions={
        <>
          <a class="button" href={objectLink(resource, namespace, name, { tab: "yaml" })}>
            <Icon name="edit" /> {info.value?.readOnly ? "YAML" : "Edit"}
          </a>
          {!info.value?.readOnly &&
            !deleted &&
            ACTIONS.filter((each) => each.applies(resource, object)).map((each) => (
              <button key={each.id} type="button" class={`button${each.danger ? " button-danger-quiet" : ""}`} onClick={() => setAction(each)}>
                <Icon name={each.icon} /> {each.title}
              </button>
            ))}
        </>
      }
    >
      <Metadata object={object} owners={owners} namespace={namespace} />
      <Tabs tabs={tabs} current={current} href={(id) => objectLink(resource, namespace, name, { tab: id })} />
      <div class="tab-panel">
        {current === "tree" && <OwnerTree loaded={tree} />}
        {current === "conditions" && <Conditions object={object} reference={reference} />}
        {current === "events" && <Events list={events} name={name} />}
        {current === "yaml" && (
          <Editor resource={resource} namespace={namespace} name={name} object={object} deleted={deleted} />
        )}
        {current === "details" && <ViewPanels view={view} object={object} />}
        {current === "metrics" && <Metrics plural={resource.plural} namespace={namespace} name={name} />}
        {current === "data" && <Data object={object} />}
        {current === "fields" && <Fields object={object} />}
        {current === "history" && <History object={object} reference={reference} />}
        {current === "pod-logs" && <WorkloadLogs object={object} />}
        {current === "logs" && <Logs pod={object} />}
        {current === "terminal" && (
          <Terminal pod={object} />
        )}
        {current === "ports" && <Ports pod={object} />}
        {current === "reconciles" && <Reconciles of={reference} />}
      </div>
      {action && (
        <ActionDialog
          action={action}
          resource={resource}
          objects={[{ namespace, name }]}
          close={(done) => {
            setAction(null);
            if (done && action.id === "delete" && !object.metadata.finalizers?.length) navigate(kindLink(resource));
          }}
        />
      )}
    </Page>
  );
}

function Metadata({ object, owners, namespace }: { object: Json; owners: Json[]; namespace: string }) {
  const labels = Object.entries((object.metadata.labels || {}) as Record<string, string>);
  const [all, setAll] = useState(false);
  const shown = all ? labels : labels.slice(0, 5);
  if (!labels.length && !owners.length && !object.metadata.deletionTimestamp) return null;
  return (
    <div class="meta-line">
      {owners.map((owner) => {
        const resource = findKind(owner.apiVersion, owner.kind);
        const text = `${owner.kind} ${owner.name}`;
        return (
          <span key={owner.uid} class="meta-owner">
            owned by {resource ? <a href={objectLink(resource, resource.namespaced ? namespace : "", owner.name)}>{text}</a> : text}
          </span>
        );
      })}
      {shown.map(([name, value]) => (
        <Chip key={name} title={`${name}=${value}`}>
          <span class="chip-name">{name}</span>
          {value && <span class="chip-value">{value}</span>}
        </Chip>
      ))}
      {labels.length > 5 && (
        <button type="button" class="link-button" onClick={() => setAll(!all)}>
          {all ? "fewer" : `${labels.length - 5} more`}
        </button>
      )}
      {object.metadata.deletionTimestamp && (
        <Chip tone="warning" title={(object.metadata.finalizers || []).join(", ")}>
          deletion requested; {object.metadata.finalizers?.length ? `waiting for finalizers: ${object.metadata.finalizers.join(", ")}` : "waiting for the grace period"}
        </Chip>
      )}
    </div>
  );
}
