import { structuredPatch } from "diff";
import { useMemo } from "preact/hooks";

interface Line {
  kind: "same" | "added" | "removed" | "gap";
  text: string;
  old?: number;
  new?: number;
}

export function diffLines(before: string, after: string, context = 3): Line[] {
  const patch = structuredPatch("", "", before, after, "", "", { context });
  const found: Line[] = [];
  patch.hunks.forEach((hunk, index) => {
    if (index > 0 || hunk.oldStart > 1) found.push({ kind: "gap", text: "" });
    let oldLine = hunk.oldStart;
    let newLine = hunk.newStart;
    for (const line of hunk.lines) {
      if (line.startsWith("\\")) continue;
      const text = line.slice(1);
      if (line[0] === "+") found.push({ kind: "added", text, new: newLine++ });
      else if (line[0] === "-") found.push({ kind: "removed", text, old: oldLine++ });
      else found.push({ kind: "same", text, old: oldLine++, new: newLine++ });
    }
  });
  return found;
}

const MARK = { same: " ", added: "+", removed: "−", gap: "" };

/** A unified diff of two texts. */
export function Diff({ before, after, label = "Changes" }: { before: string; after: string; label?: string }) {
  const lines = useMemo(() => diffLines(before, after), [before, after]);
  if (!lines.length) return <p class="muted diff-empty">No changes.</p>;
  const added = lines.filter((each) => each.kind === "added").length;
  const removed = lines.filter((each) => each.kind === "removed").length;
  return (
    <div class="diff" role="group" aria-label={`${label}: ${added} lines added, ${removed} removed`}>
      <div class="diff-lines">
        {lines.map((line, index) =>
          line.kind === "gap" ? (
            <div key={index} class="diff-line diff-gap">
              ⋯
            </div>
          ) : (
            <div key={index} class={`diff-line diff-${line.kind}`}>
              <span class="diff-number" aria-hidden="true">
                {line.new ?? line.old}
              </span>
              <span class="diff-mark">{MARK[line.kind]}</span>
              <span class="diff-text">{line.text || " "}</span>
            </div>
          ),
        )}
      </div>
    </div>
  );
}
