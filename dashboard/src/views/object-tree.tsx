import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Loaded } from "../lib/live";
import { referenceLink } from "../lib/router";
import { drawTree, NODE_HEIGHT, NODE_WIDTH, type DrawnNode, type Tree, type TreeNode } from "../lib/tree";
import { matchesHealth, parseFilter } from "../lib/health";
import { Empty, Failure, Field, Loading, Time } from "../components/basics";
import { HEALTH_TEXT, HealthIcon, Icon } from "../components/icons";

/** The owners of an object and the objects that it owns, drawn from left to right. */
export function OwnerTree({ loaded }: { loaded: Loaded<Tree> }) {
  const tree = loaded.value.value;
  const [unfolded, setUnfolded] = useState<Set<string>>(new Set());
  const [zoom, setZoom] = useState<number | null>(null);
  const [width, setWidth] = useState(0);
  const [filter, setFilter] = useState("");
  const [chosen, setChosen] = useState<string | null>(null);
  const viewport = useRef<HTMLDivElement>(null);
  const drawing = useMemo(() => (tree ? drawTree(tree, tree.root, unfolded) : null), [tree, unfolded]);

  useLayoutEffect(() => {
    const element = viewport.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, [drawing !== null]);

  if (!drawing || !tree) return loaded.error.value ? <Failure error={loaded.error.value} retry={loaded.reload} /> : <Loading />;
  if (!drawing.nodes.length) {
    if (!tree.synced) return <Loading text="Reading the objects of the cluster" />;
    if (tree.state === "unreadable") return <Empty title="The tree is unknown">The user of the dashboard is not allowed to list this kind; the objects that it owns and its health are unknown.</Empty>;
    if (tree.state === "unknown") return <Empty title="The tree is unknown">The dashboard has not indexed this object, because the cluster has too many, or its kind cannot be watched now.</Empty>;
    return <Empty title="The object does not exist">It is drawn here when it is created.</Empty>;
  }
  const fit = width ? Math.max(0.7, Math.min(1, (width - 2) / drawing.width)) : 1;
  const scale = zoom ?? fit;
  const byId = new Map(drawing.nodes.map((node) => [node.id, node]));
  const wanted = parseFilter(filter);
  const fits = (node: TreeNode) => matchesHealth(wanted, node.health) && wanted.words.every((word) => `${node.kind} ${node.name} ${node.message}`.toLowerCase().includes(word));
  const panel = tree.nodes.find((node) => node.id === chosen);

  const arrow = (event: KeyboardEvent) => {
    const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const from = byId.get((document.activeElement as HTMLElement | null)?.dataset.node || "");
    if (!direction || !from) return;
    let best: DrawnNode | undefined;
    let bestDistance = Infinity;
    for (const node of drawing.nodes) {
      const dx = node.x - from.x;
      const dy = node.y - from.y;
      const along = dx * direction[0] + dy * direction[1];
      if (node === from || along <= 1) continue;
      const across = Math.abs(direction[0] ? dy : dx);
      const distance = along + across * 2;
      if (distance < bestDistance) {
        best = node;
        bestDistance = distance;
      }
    }
    if (best) viewport.current?.querySelector<HTMLElement>(`[data-node="${CSS.escape(best.id)}"]`)?.focus();
    event.preventDefault();
  };

  return (
    <div class="tree-frame">
      <div class="tree-tools">
        <Field label="Filter the tree" placeholder="Filter, health:failed" value={filter} change={setFilter} width="180px" delay={100} />
        {tree.truncated && <span class="muted">Only a part of the tree is shown.</span>}
        <button type="button" class="icon-button" aria-label="Zoom out" title="Zoom out" onClick={() => setZoom(Math.max(0.3, scale - 0.15))}>
          <Icon name="minus" />
        </button>
        <button type="button" class="icon-button" aria-label="Fit to width" title="Fit to width" onClick={() => setZoom(null)}>
          <Icon name="fit" />
        </button>
        <button type="button" class="icon-button" aria-label="Zoom in" title="Zoom in" onClick={() => setZoom(Math.min(1.6, scale + 0.15))}>
          <Icon name="plus" />
        </button>
      </div>
      <div class="tree" ref={viewport} onKeyDown={arrow}>
        <div class="tree-sizer" style={{ width: `${drawing.width * scale}px`, height: `${drawing.height * scale}px` }}>
          <div class="tree-canvas" role="group" aria-label="Owner tree" style={{ width: `${drawing.width}px`, height: `${drawing.height}px`, transform: `scale(${scale})` }}>
            <svg class="tree-edges" width={drawing.width} height={drawing.height} aria-hidden="true">
              {drawing.edges.map((edge) => (
                <path key={edge.id} d={edge.path} />
              ))}
            </svg>
            {drawing.nodes.map((drawn) => (
              <Node
                key={drawn.id}
                drawn={drawn}
                focused={drawn.id === tree.root}
                dimmed={!(drawn.members || [drawn.node!]).some(fits)}
                unfold={() => setUnfolded(new Set([...unfolded, drawn.id]))}
                choose={() => setChosen(drawn.id)}
              />
            ))}
          </div>
        </div>
      </div>
      {panel && <NodePanel node={panel} nodes={tree.nodes} close={() => setChosen(null)} />}
    </div>
  );
}

/** What is known of a node, and where to go from it. */
function NodePanel({ node, nodes, close }: { node: TreeNode; nodes: TreeNode[]; close: () => void }) {
  const owned = nodes.filter((each) => each.owners.some((owner) => owner.id === node.id));
  const tabs: [string, string][] = [
    ["events", "Events"],
    ["yaml", "YAML"],
    ["reconciles", "Reconciles"],
    ...(node.kind === "Pod" ? ([["logs", "Logs"]] as [string, string][]) : []),
  ];
  return (
    <aside class="tree-panel" aria-label={`${node.kind} ${node.name}`}>
      <header class="panel-head">
        <h2>{node.name}</h2>
        <button type="button" class="icon-button" aria-label="Close" onClick={close}>
          <Icon name="close" />
        </button>
      </header>
      <div class="panel-body">
        <dl class="facts">
          <dt>Kind</dt>
          <dd>{node.kind}</dd>
          {node.namespace && (
            <>
              <dt>Namespace</dt>
              <dd>{node.namespace}</dd>
            </>
          )}
          <dt>Health</dt>
          <dd>
            {HEALTH_TEXT[node.health]}
            {node.since ? <> since <Time at={node.since} /></> : ""}
          </dd>
          {node.message && (
            <>
              <dt>Reason</dt>
              <dd class="break">{node.message}</dd>
            </>
          )}
          <dt>Created</dt>
          <dd>{node.state === "exists" ? <Time at={node.created} /> : "unknown"}</dd>
          <dt>Owns</dt>
          <dd>{owned.length ? `${owned.length} objects, ${owned.filter((each) => each.health !== "Current").length} not current` : "nothing that is indexed"}</dd>
        </dl>
        {node.state !== "missing" && (
          <div class="tree-links">
            <a class="button button-primary" href={referenceLink(node)}>
              Open
            </a>
            {tabs.map(([id, title]) => (
              <a key={id} class="button" href={referenceLink(node, { tab: id })}>
                {title}
              </a>
            ))}
          </div>
        )}
      </div>
    </aside>
  );
}

/** A long name without its middle: generated names differ at the end. */
function shorten(name: string): string {
  return name.length > 21 ? `${name.slice(0, 11)}…${name.slice(-9)}` : name;
}

const ABSENCE: Record<TreeNode["state"], string> = { exists: "", missing: " (does not exist)", unreadable: " (not readable)", unknown: " (unknown)" };

function Node({ drawn, focused, dimmed, unfold, choose }: { drawn: DrawnNode; focused: boolean; dimmed: boolean; unfold: () => void; choose: () => void }) {
  const style = { transform: `translate(${drawn.x}px, ${drawn.y}px)`, width: `${NODE_WIDTH}px`, height: `${NODE_HEIGHT}px` };
  if (drawn.members) {
    const [first] = drawn.members;
    return (
      <button type="button" data-node={drawn.id} class={`node node-folded node-${first.health}${dimmed ? " node-dimmed" : ""}`} style={style} onClick={unfold} title="Show each object">
        <HealthIcon health={first.health} size={22} />
        <span class="node-text">
          <span class="node-kind">{first.kind}</span>
          <span class="node-name">
            {drawn.members.length} objects, {HEALTH_TEXT[first.health].toLowerCase()}
          </span>
        </span>
      </button>
    );
  }
  const node = drawn.node!;
  const title = `${node.kind} ${node.namespace ? `${node.namespace}/` : ""}${node.name}\n${HEALTH_TEXT[node.health]}${node.message ? `: ${node.message}` : ""}`;
  return (
    <a
      href={referenceLink(node)}
      aria-disabled={node.state === "missing" || undefined}
      data-node={drawn.id}
      data-health={node.health}
      class={`node node-${node.health}${focused ? " node-focused" : ""}${node.state === "exists" ? "" : " node-missing"}${dimmed ? " node-dimmed" : ""}`}
      style={style}
      title={title}
      aria-current={focused ? "true" : undefined}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        choose();
      }}
    >
      <HealthIcon health={node.health} size={22} />
      <span class="node-text">
        <span class="node-kind">
          {node.kind}
          {ABSENCE[node.state]}
          {node.badges.map((each) => (
            <span key={each} class="node-badge">{each}</span>
          ))}
          {node.state === "exists" && node.created ? <span class="node-badge"><Time at={node.created} suffix={false} /></span> : null}
        </span>
        <span class="node-name">{shorten(node.name)}</span>
        {node.health !== "Current" && node.message && <span class="node-message">{node.message}</span>}
      </span>
    </a>
  );
}
