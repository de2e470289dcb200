import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { json, query } from "../lib/http";
import { apiVersionOf, resources } from "../lib/discovery";
import { kindLink, link, navigate, referenceLink } from "../lib/router";
import { toggleTheme } from "../lib/state";
import type { TreeNode } from "../lib/tree";
import { HealthIcon, Icon } from "./icons";

interface Entry {
  key: string;
  section: string;
  title: string;
  detail: string;
  health?: string;
  icon?: string;
  run: () => void;
}

const PAGES: [string, string, string][] = [
  ["Overview", "overview", "#/"],
  ["Objects", "objects", "#/objects"],
  ["Reconciles", "reconciles", "#/reconciles"],
  ["Webhooks and policies", "webhooks", "#/webhooks"],
  ["Schema", "schema", "#/schema"],
  ["Access", "access", "#/access"],
  ["Files: recordings, plans, reports", "download", "#/files"],
  ["Activity", "edit", "#/activity"],
  ["Create from YAML", "plus", "#/create"],
];

/** Time between searches while the server is still reading the objects of the cluster. */
const RETRY_MILLISECONDS = 500;

/** Search over pages, kinds and all objects. */
export function Palette({ close }: { close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const list = useRef<HTMLUListElement>(null);
  const [text, setText] = useState("");
  const [objects, setObjects] = useState<TreeNode[]>([]);
  const [message, setMessage] = useState("");
  const [active, setActive] = useState(0);

  useEffect(() => {
    dialog.current?.showModal();
  }, []);

  useEffect(() => {
    setActive(0);
    if (!text.trim()) {
      setObjects([]);
      setMessage("");
      return;
    }
    const abort = new AbortController();
    const search = () => {
      json(`/api/search${query({ q: text.trim(), limit: 30 })}`, { signal: abort.signal }).then(
        (found) => {
          setObjects(found.results);
          setMessage(found.synced ? "" : "The index is still being built; some objects may be missing.");
          if (!found.synced && !abort.signal.aborted) timer = setTimeout(search, RETRY_MILLISECONDS);
        },
        (error) => error.name !== "AbortError" && setMessage(error.message),
      );
    };
    let timer = setTimeout(search, 90);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text]);

  const entries = useMemo(() => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (...candidates: string[]) => words.every((word) => candidates.some((each) => each.toLowerCase().includes(word)));
    const go = (target: string) => () => {
      close();
      navigate(target);
    };
    const found: Entry[] = [];
    for (const [title, icon, target] of PAGES) if (fits(title)) found.push({ key: target, section: "Pages", title, detail: "", icon, run: go(target) });
    if (fits("toggle dark light theme")) {
      found.push({ key: "theme", section: "Pages", title: "Switch between dark and light", detail: "", icon: "moon", run: () => (toggleTheme(), close()) });
    }
    const kinds = words.length ? resources.value.filter((each) => each.preferred && fits(each.kind, each.plural, each.group, ...each.shortNames)) : [];
    kinds.sort((a, b) => a.kind.length - b.kind.length);
    for (const each of kinds.slice(0, 6)) {
      found.push({ key: `kind ${each.group}/${each.plural}`, section: "Kinds", title: each.kind, detail: apiVersionOf(each), icon: "objects", run: go(kindLink(each)) });
    }
    for (const each of objects) {
      found.push({ key: each.id, section: "Objects", title: each.name, detail: `${each.kind}${each.namespace ? ` in ${each.namespace}` : ""}`, health: each.health, run: go(referenceLink(each)) });
    }
    const schemas = words.length > 0 && /^sch/.test(words[0]) ? resources.value.filter((each) => words.slice(1).every((word) => each.kind.toLowerCase().includes(word))) : [];
    for (const each of schemas.slice(0, 6)) {
      found.push({ key: `schema ${each.group}/${each.version}/${each.kind}`, section: "Schema", title: `Schema of ${each.kind}`, detail: apiVersionOf(each), icon: "schema", run: go(link(["schema", each.group || "core", each.version, each.kind])) });
    }
    const order = words.length ? ["Objects", "Kinds", "Schema", "Pages"] : ["Pages"];
    return found.sort((a, b) => order.indexOf(a.section) - order.indexOf(b.section));
  }, [text, objects, resources.value]);

  const move = (index: number) => {
    const next = (index + entries.length) % Math.max(1, entries.length);
    setActive(next);
    list.current?.querySelectorAll("[role=option]")[next]?.scrollIntoView({ block: "nearest" });
  };

  return (
    <dialog
      ref={dialog}
      class="palette"
      aria-label="Search"
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onMouseDown={(event) => event.target === dialog.current && close()}
    >
      <div class="palette-input">
        <Icon name="search" size={18} />
        <input
          type="text"
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={entries.length ? `palette-${active}` : undefined}
          aria-label="Search objects, kinds and pages"
          placeholder="Search objects, kinds and pages"
          autofocus
          spellcheck={false}
          autocomplete="off"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "ArrowDown") move(active + 1);
            else if (event.key === "ArrowUp") move(active - 1);
            else if (event.key === "Enter") entries[active]?.run();
            else return;
            event.preventDefault();
          }}
        />
        <kbd>Esc</kbd>
      </div>
      <ul class="palette-list" id="palette-list" role="listbox" ref={list} aria-label="Results">
        {entries.map((entry, index) => (
          <>
            {(index === 0 || entries[index - 1].section !== entry.section) && (
              <li key={`section ${entry.section}`} class="palette-section" role="presentation">
                {entry.section}
              </li>
            )}
            <li key={entry.key} id={`palette-${index}`} role="option" aria-selected={index === active} class="palette-entry" onMouseMove={() => index !== active && setActive(index)} onClick={entry.run}>
              {entry.health ? <HealthIcon health={entry.health} size={16} /> : <Icon name={entry.icon || "objects"} />}
              <span class="palette-title">{entry.title}</span>
              <span class="palette-detail">{entry.detail}</span>
            </li>
          </>
        ))}
        {!entries.length && <li class="palette-none" role="presentation">{message || "Nothing matches. Words match names, namespaces and kinds in any order."}</li>}
      </ul>
      {message && entries.length > 0 && <p class="palette-message muted">{message}</p>}
    </dialog>
  );
}
