import { render, Component, type ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { Dialog, Failure, Field, Loading, Select } from "./components/basics";
import { Icon } from "./components/icons";
import { Palette } from "./components/palette";
import { discover } from "./lib/discovery";
import { ApiError } from "./lib/http";
import { lazy } from "./lib/lazy";
import { link, namespaceFilter, navigate, route, setParams } from "./lib/router";
import { dismiss, info, infoError, isDark, loadInfo, loadNamespaces, namespaces, namespacesUnreadable, sessionEnded, toasts, toggleTheme } from "./lib/state";
import { clusterProblem, silentSince, startStream } from "./lib/stream";
import { exact, now, duration } from "./lib/time";
import { ActivityPage } from "./views/activity";
import { ObjectView } from "./views/object";
import { Kinds, Objects } from "./views/objects";
import { HealthList } from "./views/health-list";
import { Overview } from "./views/overview";
import { ReconcilesPage } from "./views/reconciles";

const Webhooks = lazy(async () => ({ default: (await import("./views/webhooks")).Webhooks }));
const SchemaIndex = lazy(async () => ({ default: (await import("./views/schema")).SchemaIndex }));
const SchemaView = lazy(async () => ({ default: (await import("./views/schema")).SchemaView }));
const Files = lazy(async () => ({ default: (await import("./views/files")).Files }));
const Create = lazy(() => import("./editor/create"));
const Access = lazy(async () => ({ default: (await import("./views/access")).Access }));

const paletteOpen = signal(false);
const shortcutsOpen = signal(false);
const menuOpen = signal(false);

const NAVIGATION = [
  { path: "", title: "Overview", icon: "overview", key: "o" },
  { path: "objects", title: "Objects", icon: "objects", key: "b" },
  { path: "reconciles", title: "Reconciles", icon: "reconciles", key: "r" },
  { path: "webhooks", title: "Webhooks", icon: "webhooks", key: "w" },
  { path: "schema", title: "Schema", icon: "schema", key: "s" },
  { path: "access", title: "Access", icon: "access", key: "a" },
  { path: "files", title: "Files", icon: "download", key: "f" },
  { path: "activity", title: "Activity", icon: "edit", key: "v" },
];

const SHORTCUTS: [string, [string, string][]][] = [
  [
    "Everywhere",
    [
      ["Ctrl K", "Search objects, kinds and pages"],
      ["?", "Show this list"],
      ["/", "Filter the current list"],
      ["t", "Switch between dark and light"],
      ["Esc", "Close a dialog, leave a field"],
    ],
  ],
  ["Go to", NAVIGATION.map((each): [string, string] => [`g ${each.key}`, each.title])],
  [
    "Lists",
    [
      ["j k", "Next and previous row"],
      ["Enter", "Open the row"],
      ["x", "Select the row"],
      ["Home End", "First and last row"],
    ],
  ],
  [
    "Object",
    [
      ["[ ]", "Previous and next tab"],
      ["e", "Edit the YAML"],
      ["← → ↑ ↓", "Move in the tree"],
      ["Ctrl Space", "Complete a field in the editor"],
      ["Ctrl S", "Review changes in the editor"],
    ],
  ],
];

function View() {
  const [first = "", ...rest] = route.value.path;
  const group = rest[0] === "core" ? "" : rest[0];
  if (first === "") return <Overview />;
  if (first === "objects" && rest.length < 3) return <Kinds />;
  if (first === "objects") return <Objects group={group} version={rest[1]} plural={rest[2]} />;
  if (first === "object" && rest.length === 5) return <ObjectView group={group} version={rest[1]} plural={rest[2]} namespace={rest[3] === "_" ? "" : rest[3]} name={rest[4]} />;
  if (first === "health" && rest.length === 1) return <HealthList health={rest[0]} />;
  if (first === "reconciles") return <ReconcilesPage />;
  if (first === "webhooks") return <Webhooks />;
  if (first === "schema" && rest.length === 3) return <SchemaView key={rest.join("/")} group={group} version={rest[1]} kind={rest[2]} />;
  if (first === "schema") return <SchemaIndex />;
  if (first === "access") return <Access />;
  if (first === "files") return <Files />;
  if (first === "activity") return <ActivityPage />;
  if (first === "create") return <Create />;
  return (
    <main class="page">
      <Failure error={new ApiError(404, `the dashboard has no page ${location.hash}`)} />
    </main>
  );
}

/** Shows an error of a view instead of an empty page. */
class Boundary extends Component<{ children: ComponentChildren; id: string }, { error: Error | null }> {
  state = { error: null as Error | null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  componentDidCatch(error: Error) {
    console.error(error);
  }

  componentDidUpdate(previous: { id: string }) {
    if (previous.id !== this.props.id && this.state.error) this.setState({ error: null });
  }

  render() {
    if (!this.state.error) return this.props.children;
    return (
      <main class="page">
        <Failure error={this.state.error} retry={() => this.setState({ error: null })} />
      </main>
    );
  }
}

function Sidebar() {
  const section = route.value.path[0] === "object" ? "objects" : route.value.path[0] || "";
  const cluster = info.value?.cluster;
  return (
    <aside class={`sidebar${menuOpen.value ? " sidebar-open" : ""}`}>
      <a href={link([])} class="brand">
        <img src="/static/icon.svg" width="26" height="26" alt="" />
        <span>Kubewright</span>
      </a>
      <nav aria-label="Views" class="nav">
        {NAVIGATION.map((each) => (
          <a key={each.path} href={link([each.path])} class="nav-link" aria-current={each.path === section ? "page" : undefined} onClick={() => (menuOpen.value = false)}>
            <Icon name={each.icon} size={18} />
            {each.title}
          </a>
        ))}
      </nav>
      <div class="sidebar-foot">
        {cluster && (
          <div class="cluster" title={cluster.server}>
            <span class={`cluster-dot${silentSince.value || clusterProblem.value ? " cluster-off" : ""}`} aria-hidden="true" />
            <span class="cluster-text">
              <span class="cluster-name">{cluster.context || cluster.server.replace(/^https?:\/\//, "")}</span>
              <span class="muted">
                {silentSince.value ? "Disconnected" : clusterProblem.value ? "Not responding" : `Kubernetes ${cluster.version}`}
              </span>
            </span>
          </div>
        )}
        {info.value?.readOnly && (
          <div class="read-only">
            <Icon name="lock" size={14} /> Read-only
          </div>
        )}
        <div class="sidebar-tools">
          <button type="button" class="icon-button" aria-label={isDark.value ? "Light theme" : "Dark theme"} title={isDark.value ? "Light theme" : "Dark theme"} onClick={toggleTheme}>
            <Icon name={isDark.value ? "sun" : "moon"} size={18} />
          </button>
          <button type="button" class="icon-button" aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)" onClick={() => (shortcutsOpen.value = true)}>
            <Icon name="keyboard" size={18} />
          </button>
          <span class="muted version">{info.value?.version}</span>
        </div>
      </div>
    </aside>
  );
}

function Topbar() {
  return (
    <header class="topbar">
      <button type="button" class="icon-button menu-button" aria-label="Menu" aria-expanded={menuOpen.value} onClick={() => (menuOpen.value = !menuOpen.value)}>
        <Icon name="menu" size={20} />
      </button>
      <button type="button" class="search-button" aria-label="Search objects, kinds and pages" aria-keyshortcuts="Control+K" onClick={() => (paletteOpen.value = true)}>
        <Icon name="search" />
        <span>Search</span>
        <kbd>Ctrl K</kbd>
      </button>
      <span class="spacer" />
      <NamespaceFilter />
    </header>
  );
}

/** One namespace for all views; it is part of the address. */
function NamespaceFilter() {
  const chosen = namespaceFilter();
  const change = (value: string) => setParams({ namespace: value || undefined }, { push: true });
  if (namespacesUnreadable.value) return <Field label="Namespace" placeholder="Namespace (all)" value={chosen} change={change} width="180px" delay={800} />;
  const names = chosen && !namespaces.value.includes(chosen) ? [chosen, ...namespaces.value] : namespaces.value;
  return <Select label="Namespace" value={chosen} options={[{ value: "", text: "All namespaces" }, ...names.map((each) => ({ value: each, text: each }))]} change={change} />;
}

/** Says in every view that what it shows may be old, and what to do. */
function Connection() {
  const silent = silentSince.value;
  const problem = clusterProblem.value;
  if (silent !== null) {
    return (
      <div class="connection" role="alert">
        <Icon name="warning" />
        <div>
          <strong>The dashboard server does not respond</strong> since {duration(now.value - silent)}. This page shows the state of {exact(silent)}. If its process was stopped, start it again with the same <code>--port</code>; this page reconnects by itself, or says how to sign in.
        </div>
      </div>
    );
  }
  if (problem) {
    return (
      <div class="connection" role="alert">
        <Icon name="warning" />
        <div>
          <strong>The API server does not respond</strong> since {duration(now.value - problem.since)}: {problem.error}. This page shows the state of {exact(problem.since)} and continues when the server responds again.
        </div>
      </div>
    );
  }
  return null;
}

function useShortcuts() {
  useEffect(() => {
    let prefix = 0;
    const key = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        paletteOpen.value = !paletteOpen.value;
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const target = event.target as HTMLElement;
      if (target.closest?.("input, textarea, select, [contenteditable], .terminal-host")) {
        if (event.key === "Escape" && target.closest("input, select") && !target.closest("dialog")) target.blur();
        return;
      }
      if (target.closest?.("dialog")) return;
      if (prefix && Date.now() - prefix < 1200) {
        const found = NAVIGATION.find((each) => each.key === event.key);
        prefix = 0;
        if (found) {
          navigate(link([found.path]));
          event.preventDefault();
        }
        return;
      }
      if (event.key === "g") prefix = Date.now();
      else if (event.key === "?") shortcutsOpen.value = true;
      else if (event.key === "t") toggleTheme();
      else if (event.key === "/") {
        document.getElementById("filter")?.focus();
        event.preventDefault();
      }
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, []);
}

function titleOf(): string {
  const path = route.value.path;
  const last = path.length > 1 ? path[path.length - 1] : NAVIGATION.find((each) => each.path === (path[0] || ""))?.title;
  return `${last || "Kubewright"} · Kubewright`;
}

function App() {
  useShortcuts();
  const [started, setStarted] = useState(false);
  useEffect(() => {
    startStream();
    void Promise.all([loadInfo(), discover(), loadNamespaces()]).then(() => {
      // A user who may not read all namespaces begins with the one of the kubeconfig.
      const own = info.value?.cluster.namespace;
      if (namespacesUnreadable.value && own && !namespaceFilter()) setParams({ namespace: own });
      setStarted(true);
    });
    // Kinds and namespaces change rarely; a route that needs a new kind reads them again.
    const timer = setInterval(() => {
      if (document.hidden) return;
      void discover();
      void loadNamespaces();
      if (infoError.value) void loadInfo();
    }, 20_000);
    return () => clearInterval(timer);
  }, []);
  useEffect(() => {
    document.title = titleOf();
    menuOpen.value = false;
  }, [route.value]);
  const id = route.value.path.join("/");
  return (
    <div class="layout">
      <a class="skip-link" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById("main")?.focus();
      }}>
        Skip to the content
      </a>
      <Sidebar />
      {menuOpen.value && <div class="scrim" onClick={() => (menuOpen.value = false)} />}
      <div class="content">
        <Topbar />
        {!sessionEnded() && <Connection />}
        {infoError.value && (!info.value || sessionEnded()) ? (
          <main class="page">
            <Failure error={infoError.value} retry={() => void loadInfo()} />
          </main>
        ) : !started ? (
          <main class="page">
            <Loading />
          </main>
        ) : (
          <Boundary id={id}>
            <View />
          </Boundary>
        )}
      </div>
      {paletteOpen.value && <Palette close={() => (paletteOpen.value = false)} />}
      {shortcutsOpen.value && (
        <Dialog wide title="Keyboard shortcuts" close={() => (shortcutsOpen.value = false)}>
          <div class="shortcuts">
            {SHORTCUTS.map(([section, entries]) => (
              <section key={section}>
                <h3>{section}</h3>
                <dl>
                  {entries.map(([keys, text]) => (
                    <div key={keys}>
                      <dt>
                        {keys.split(" ").map((each) => (
                          <kbd key={each}>{each}</kbd>
                        ))}
                      </dt>
                      <dd>{text}</dd>
                    </div>
                  ))}
                </dl>
              </section>
            ))}
          </div>
        </Dialog>
      )}
      <div class="toasts" role="status" aria-live="polite">
        {toasts.value.map((each) => (
          <div key={each.id} class={`toast toast-${each.tone}`}>
            <span>{each.text}</span>
            <button type="button" class="icon-button" aria-label="Dismiss" onClick={() => dismiss(each.id)}>
              <Icon name="close" size={14} />
            </button>
          </div>
        ))}
      </div>
    </div>
  );
}

render(<App />, document.getElementById("app")!);
