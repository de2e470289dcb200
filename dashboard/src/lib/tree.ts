// The owner tree of an object and its layout.
import dagre from "@dagrejs/dagre";
import type { ObjectReference } from "./router";

export interface TreeNode extends ObjectReference {
  id: string;
  apiVersion: string;
  health: string;
  message: string;
  created: number | null;
  since: number | null;
  /** `unreadable`: the user may not read it; `unknown`: whether it exists cannot be told. */
  state: "exists" | "missing" | "unreadable" | "unknown";
  badges: string[];
  owners: { id: string; controller: boolean }[];
}

export interface Tree {
  root: string | null;
  state: TreeNode["state"];
  nodes: TreeNode[];
  truncated: boolean;
  synced: boolean;
}

/** A node of the drawing: an object, or several similar objects without owned objects. */
export interface DrawnNode {
  id: string;
  x: number;
  y: number;
  node?: TreeNode;
  members?: TreeNode[];
}

export interface Drawing {
  nodes: DrawnNode[];
  edges: { id: string; path: string }[];
  width: number;
  height: number;
}

export const NODE_WIDTH = 232;
export const NODE_HEIGHT = 58;
const FOLD = 6;

/** Compute positions; more than FOLD leaves of one kind and health below one owner are folded into one node. */
export function drawTree(tree: Tree, focus: string | null, unfolded: Set<string>): Drawing {
  const byId = new Map(tree.nodes.map((node) => [node.id, node]));
  const children = new Map<string, string[]>();
  const owners = new Map<string, number>();
  for (const node of tree.nodes) {
    for (const owner of node.owners) {
      if (!byId.has(owner.id)) continue;
      children.set(owner.id, [...(children.get(owner.id) || []), node.id]);
      owners.set(node.id, (owners.get(node.id) || 0) + 1);
    }
  }
  const foldedInto = new Map<string, string>();
  const groups = new Map<string, TreeNode[]>();
  for (const [owner, ids] of children) {
    const similar = new Map<string, TreeNode[]>();
    for (const id of ids) {
      const node = byId.get(id)!;
      if (children.has(id) || owners.get(id) !== 1 || id === focus) continue;
      const key = `${owner}|${node.kind}|${node.health}`;
      similar.set(key, [...(similar.get(key) || []), node]);
    }
    for (const [key, members] of similar) {
      if (members.length <= FOLD || unfolded.has(key)) continue;
      groups.set(key, members);
      for (const member of members) foldedInto.set(member.id, key);
    }
  }
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 64, marginx: 16, marginy: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  const order = [...tree.nodes].sort((a, b) => `${a.kind}/${a.name}`.localeCompare(`${b.kind}/${b.name}`));
  for (const node of order) if (!foldedInto.has(node.id)) graph.setNode(node.id, { width: NODE_WIDTH, height: NODE_HEIGHT });
  for (const key of [...groups.keys()].sort()) graph.setNode(key, { width: NODE_WIDTH, height: NODE_HEIGHT });
  const edges = new Map<string, [string, string]>();
  for (const [owner, ids] of children) {
    for (const id of ids) {
      const target = foldedInto.get(id) || id;
      edges.set(`${owner}>${target}`, [owner, target]);
    }
  }
  for (const [source, target] of edges.values()) graph.setEdge(source, target);
  dagre.layout(graph);
  const place = (id: string) => graph.node(id) as { x: number; y: number };
  const nodes = graph.nodes().map((id: string): DrawnNode => {
    const { x, y } = place(id);
    const box = { id, x: x - NODE_WIDTH / 2, y: y - NODE_HEIGHT / 2 };
    return groups.has(id) ? { ...box, members: groups.get(id) } : { ...box, node: byId.get(id) };
  });
  const paths = [...edges].map(([id, [source, target]]) => {
    const from = place(source);
    const to = place(target);
    const x1 = from.x + NODE_WIDTH / 2;
    const x2 = to.x - NODE_WIDTH / 2;
    const bend = Math.max(20, (x2 - x1) / 2);
    return { id, path: `M${x1},${from.y} C${x1 + bend},${from.y} ${x2 - bend},${to.y} ${x2},${to.y}` };
  });
  const size = graph.graph() as { width?: number; height?: number };
  return { nodes, edges: paths, width: Math.ceil(size.width || 0), height: Math.ceil(size.height || 0) };
}
