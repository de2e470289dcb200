// New objects from YAML, with completion; a dry run shows what would be stored.
import { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { useEffect, useRef, useState } from "preact/hooks";
import { parseAllDocuments } from "yaml";
import { recordActivity } from "../lib/activity";
import { apiPath, findKind, findResource, type Resource } from "../lib/discovery";
import { json, query, type Json } from "../lib/http";
import { link, namespaceFilter, navigate, objectLink, route } from "../lib/router";
import { exampleOf, schemaOf, type KindSchema } from "../lib/schema";
import { info, toast } from "../lib/state";
import { editable, masked, toYaml } from "../lib/yaml";
import { Copy, Dialog, Empty, Page } from "../components/basics";
import { yamlExtensions } from "./code";
import { dropDraft, readDraft, writeDraft } from "./drafts";
import { FIELD_MANAGER } from "./apply";
import { diagnose } from "./language";

interface Item {
  resource: Resource;
  object: Json;
  result?: Json;
  error: string;
  done?: boolean;
}

/** The objects of a text, which may have several documents. */
function itemsOf(text: string): Item[] {
  const items: Item[] = [];
  for (const document of parseAllDocuments(text)) {
    const problem = "errors" in document ? document.errors[0] : undefined;
    if (problem) throw new Error(`the text is not valid YAML: ${problem.message.split("\n")[0]}`);
    const object = "toJS" in document ? document.toJS() : null;
    if (!object) continue;
    const resource = object.apiVersion && object.kind ? findKind(object.apiVersion, object.kind) : undefined;
    if (!resource) throw new Error(`the API server does not serve ${object.kind || "an object without kind"} in ${object.apiVersion || "an unknown apiVersion"}`);
    items.push({ resource, object, error: "" });
  }
  if (!items.length) throw new Error("the text has no object");
  return items;
}

function post({ resource, object }: Item, dryRun: boolean): Promise<Json> {
  const namespace = resource.namespaced ? object.metadata?.namespace || namespaceFilter() || info.value?.cluster.namespace || "default" : undefined;
  return json(`${apiPath(resource, namespace)}${query({ fieldManager: FIELD_MANAGER, fieldValidation: "Strict", dryRun: dryRun ? "All" : undefined })}`, { method: "POST", body: object });
}

const DRAFT = "create";

export default function Create() {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const schema = useRef<{ key: string; read: Promise<KindSchema | null>; value: KindSchema | null }>({ key: "", read: Promise.resolve(null), value: null });
  const [errors, setErrors] = useState(0);
  const [message, setMessage] = useState("");
  const [review, setReview] = useState<Item[] | null>(null);
  const [busy, setBusy] = useState(false);
  const [group, version, plural] = (route.value.params.get("kind") || "").split("/");
  const readOnly = Boolean(info.value?.readOnly);

  /** Read the schema of the first object of the text. */
  const schemaFor = (text: string) => {
    const kind = text.match(/^kind:\s*(\S+)/m)?.[1] || "";
    const apiVersion = text.match(/^apiVersion:\s*(\S+)/m)?.[1] || "";
    const key = `${apiVersion}/${kind}`;
    if (key !== schema.current.key) {
      const resource = findKind(apiVersion, kind);
      const read = resource ? schemaOf(resource).catch(() => null) : Promise.resolve(null);
      const entry = { key, read, value: null as KindSchema | null };
      schema.current = entry;
      void read.then((found) => (entry.value = found));
    }
    return schema.current.read;
  };
  const reviewRef = useRef<() => void>(() => undefined);

  useEffect(() => {
    if (readOnly) return;
    let editor: EditorView | undefined;
    let closed = false;
    const start = async () => {
      const resource = plural ? findResource(group === "core" ? "" : group, version, plural) : undefined;
      let text = readDraft(DRAFT)?.text || "";
      if (resource) {
        const found = await schemaOf(resource).catch(() => null);
        const example = found ? exampleOf(found, resource, resource.namespaced) : { apiVersion: version, kind: resource.kind, metadata: { name: "example" } };
        if (resource.namespaced && namespaceFilter()) example.metadata = { ...example.metadata, namespace: namespaceFilter() };
        text = toYaml(example);
      }
      if (closed) return;
      const made = new EditorView({
        state: EditorState.create({
          doc: text || "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: example\n",
          extensions: yamlExtensions({
            label: "YAML of the new objects",
            schema: () => schemaFor(made.state.doc.toString()),
            diagnose: (current) => (current.includes("\n---") ? [] : (void schemaFor(current), diagnose(current, schema.current.value))),
            counted: setErrors,
            changed: (current) => void writeDraft(DRAFT, { text: current, base: null, time: Date.now() }, /^kind:\s*Secret/m.test(current)),
            save: () => reviewRef.current(),
          }),
        }),
        parent: host.current!,
      });
      editor = made;
      view.current = made;
    };
    void start();
    return () => {
      closed = true;
      editor?.destroy();
    };
  }, [group, version, plural, readOnly]);

  const prepare = async () => {
    setMessage("");
    setBusy(true);
    try {
      const items = itemsOf(view.current!.state.doc.toString());
      for (const item of items) {
        try {
          item.result = await post(item, true);
        } catch (error) {
          item.error = (error as Error).message;
        }
      }
      setReview(items);
    } catch (error) {
      setMessage((error as Error).message);
    } finally {
      setBusy(false);
    }
  };
  reviewRef.current = () => void prepare();

  const commit = async () => {
    const items = review!;
    setBusy(true);
    let last = "";
    for (const item of items) {
      if (item.done) continue;
      let written: Json = item.object;
      try {
        written = await post(item, false);
        item.done = true;
        item.error = "";
      } catch (error) {
        item.error = (error as Error).message;
      }
      last = objectLink(item.resource, written.metadata?.namespace, written.metadata?.name || "");
      recordActivity({ title: `Create: ${item.resource.kind} ${written.metadata?.name || ""}`, command: "kubectl create -f objects.yaml", href: last, error: item.error });
    }
    setBusy(false);
    setReview([...items]);
    if (items.some((each) => each.error)) return;
    dropDraft(DRAFT);
    toast(items.length === 1 ? "The object was created" : `${items.length} objects were created`);
    setReview(null);
    navigate(items.length === 1 ? last : link([]));
  };

  if (readOnly) {
    return (
      <Page title="Create">
        <Empty title="The dashboard is read-only">Start it without --read-only to create objects.</Empty>
      </Page>
    );
  }
  const rejected = review?.filter((each) => each.error).length || 0;
  return (
    <Page wide title="Create" subtitle="One or several objects, separated by ---">
      <div class="toolbar">
        <button type="button" class="button button-primary" disabled={busy || errors > 0} onClick={() => void prepare()}>
          Review
        </button>
        <span class="editor-state" role="status">
          {errors > 0 ? `${errors} ${errors === 1 ? "error" : "errors"}` : ""}
        </span>
      </div>
      {message && (
        <div class="banner" role="alert">
          {message}
        </div>
      )}
      <div class="editor-host panel" ref={host} />
      <p class="muted hint">Ctrl-Space completes fields from the schema. Ctrl-S reviews with a dry run before anything is written.</p>
      {review && (
        <Dialog
          wide
          title={rejected ? "The API server rejected the dry run" : `Create ${review.length === 1 ? review[0].object.metadata?.name || "the object" : `${review.length} objects`}`}
          close={() => setReview(null)}
          actions={
            <>
              <button type="button" class="button" onClick={() => setReview(null)}>
                {rejected ? "Back to the editor" : "Cancel"}
              </button>
              {!rejected && (
                <button type="button" class="button button-primary" disabled={busy} onClick={() => void commit()}>
                  Create
                </button>
              )}
            </>
          }
        >
          {review.map((item, index) => (
            <details key={index} class="action-step" open={review.length <= 3 || Boolean(item.error)}>
              <summary>
                {item.resource.kind} {item.object.metadata?.name} {item.done && <span class="muted">created</span>}
              </summary>
              {item.error ? <p class="form-error">{item.error}</p> : <pre class="code" tabIndex={0}>{toYaml(masked(editable(item.result)))}</pre>}
            </details>
          ))}
          <div class="action-command">
            <pre class="code" aria-label="kubectl command" tabIndex={0}>kubectl create -f objects.yaml</pre>
            <Copy text={view.current?.state.doc.toString() || ""} label="Copy objects.yaml" />
          </div>
        </Dialog>
      )}
    </Page>
  );
}
