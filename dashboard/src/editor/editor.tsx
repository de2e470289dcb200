import { forceLinting } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { useEffect, useRef, useState } from "preact/hooks";
import { parse } from "yaml";
import { ApiError, json, query, type Json } from "../lib/http";
import { apiPath, type Resource } from "../lib/discovery";
import { schemaOf, type KindSchema } from "../lib/schema";
import { recordActivity } from "../lib/activity";
import { objectLink } from "../lib/router";
import { info, toast } from "../lib/state";
import { exact } from "../lib/time";
import { editable, masked, toYaml, withoutManagedFields } from "../lib/yaml";
import { Copy, Dialog, Select } from "../components/basics";
import { Diff } from "../components/diff";
import { Icon } from "../components/icons";
import { dropDraft, readDraft, writeDraft } from "./drafts";
import { describeEdit, FIELD_MANAGER, type Removed } from "./apply";
import { yamlExtensions } from "./code";
import { diagnose } from "./language";

interface Props {
  resource: Resource;
  namespace: string;
  name: string;
  object: Json;
  deleted: boolean;
}

interface Review {
  mode: "apply" | "replace";
  body: Json;
  before: string;
  after: string;
  removed: Removed[];
  conflicts: Conflict[];
  force: boolean;
  error: string;
}

interface Conflict {
  manager: string;
  field: string;
}

/** The managers and fields of a server-side apply conflict. */
function conflictsOf(error: unknown): Conflict[] {
  if (!(error instanceof ApiError) || error.code !== 409) return [];
  return error.causes
    .filter((cause) => cause.reason === "FieldManagerConflict")
    .map((cause) => ({ manager: cause.message?.match(/conflict with "([^"]*)"/)?.[1] || cause.message || "another manager", field: (cause.field || "").replace(/^\./, "") }));
}

export default function Editor({ resource, namespace, name, object, deleted }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const schema = useRef<KindSchema | null>(null);
  const secret = resource.group === "" && resource.plural === "secrets";
  const draftKey = `${apiPath(resource, namespace, name)} ${object.metadata.uid}`;
  const draft = useRef(readDraft(draftKey));
  const base = useRef<Json>(draft.current?.base ?? object);
  const [restored, setRestored] = useState(draft.current?.time || 0);
  const [unstored, setUnstored] = useState(false);
  const [full, setFull] = useState(false);
  const [revealed, setRevealed] = useState(!secret || draft.current !== null);
  const [dirty, setDirty] = useState(false);
  const [stale, setStale] = useState(false);
  const [errors, setErrors] = useState(0);
  const [mode, setMode] = useState<"apply" | "replace">("apply");
  const [review, setReview] = useState<Review | null>(null);
  const [busy, setBusy] = useState(false);
  const [message, setMessage] = useState("");
  const readOnly = Boolean(info.value?.readOnly) || deleted || full || !revealed;
  const source = (of: Json) => {
    const shown = revealed ? of : masked(of);
    return toYaml(full ? withoutManagedFields(shown) : editable(shown));
  };

  const noteEdit = (text: string) => {
    const isDirty = text !== source(base.current);
    setDirty(isDirty);
    if (full) return;
    if (isDirty) {
      draft.current = { text, base: base.current, time: Date.now() };
      setUnstored(!writeDraft(draftKey, draft.current, secret));
    } else {
      draft.current = null;
      dropDraft(draftKey);
    }
  };

  // A reload asks if the edits could not be stored.
  useEffect(() => {
    if (!dirty || !unstored) return;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, [dirty, unstored]);

  useEffect(() => {
    const reading = schemaOf(resource).catch(() => null);
    const state = EditorState.create({
      doc: !full && draft.current ? draft.current.text : source(base.current),
      extensions: [
        ...yamlExtensions({
          label: `YAML of ${name}`,
          schema: () => reading,
          diagnose: (text) => (full ? [] : diagnose(text, schema.current)),
          counted: setErrors,
          changed: (text) => noteEdit(text),
          save: () => void reviewRef.current(),
        }),
        EditorState.readOnly.of(readOnly),
      ],
    });
    const editor = new EditorView({ state, parent: host.current! });
    view.current = editor;
    if (!full) setDirty(state.doc.toString() !== source(base.current));
    void reading.then((found) => {
      schema.current = found;
      if (found) forceLinting(editor);
    });
    return () => editor.destroy();
  }, [full, readOnly, revealed]);

  const reload = (latest: Json) => {
    base.current = latest;
    const editor = view.current!;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: source(latest) } });
    draft.current = null;
    dropDraft(draftKey);
    setRestored(0);
    setDirty(false);
    setStale(false);
    setMessage("");
  };

  // Without edits the text follows the object; with edits the change is announced.
  useEffect(() => {
    if (object.metadata.resourceVersion === base.current.metadata.resourceVersion) return;
    if (source(object) === source(base.current)) base.current = object;
    else if (!dirty && !draft.current) reload(object);
    else setStale(true);
  }, [object]);

  const send = (body: Json, how: "apply" | "replace", options: { dryRun?: boolean; force?: boolean }): Promise<Json> => {
    const path = apiPath(resource, namespace, name);
    const parameters = { fieldManager: FIELD_MANAGER, fieldValidation: "Strict", dryRun: options.dryRun ? "All" : undefined };
    if (how === "replace") return json(`${path}${query(parameters)}`, { method: "PUT", body });
    return json(`${path}${query({ ...parameters, force: options.force })}`, { method: "PATCH", contentType: "application/apply-patch+yaml", body });
  };

  const prepare = async (how: "apply" | "replace", force = false) => {
    setMessage("");
    let edited: Json;
    try {
      edited = parse(view.current!.state.doc.toString());
    } catch (error) {
      setMessage(`The text is not valid YAML: ${(error as Error).message.split("\n")[0]}`);
      return;
    }
    if (!edited || typeof edited !== "object" || !edited.metadata) {
      setMessage("The text is not an object with metadata.");
      return;
    }
    setBusy(true);
    try {
      schema.current ??= await schemaOf(resource);
      const before = editable(base.current);
      const edit = describeEdit(base.current, before, edited, schema.current);
      if (!edit.changed) {
        setMessage("Nothing was changed.");
        return;
      }
      const body =
        how === "apply"
          ? edit.configuration
          : { ...edited, metadata: { ...edited.metadata, resourceVersion: base.current.metadata.resourceVersion, uid: base.current.metadata.uid }, ...(base.current.status ? { status: base.current.status } : {}) };
      const result: Review = { mode: how, body, before: toYaml(editable(object)), after: "", removed: how === "apply" ? edit.removed : [], conflicts: [], force, error: "" };
      try {
        result.after = toYaml(editable(await send(body, how, { dryRun: true, force })));
      } catch (error) {
        result.conflicts = conflictsOf(error);
        if (!result.conflicts.length) result.error = (error as Error).message;
      }
      setReview(result);
    } catch (error) {
      setMessage((error as Error).message);
    } finally {
      setBusy(false);
    }
  };
  const reviewRef = useRef<() => Promise<void>>(async () => undefined);
  reviewRef.current = () => prepare(mode);

  const commit = async () => {
    const current = review!;
    setBusy(true);
    try {
      const written = await send(current.body, current.mode, { force: current.force });
      setReview(null);
      reload(written);
      toast(`${name} was ${current.mode === "apply" ? "applied" : "replaced"}`);
      recordActivity({ title: `Edit: ${resource.kind} ${namespace ? `${namespace}/` : ""}${name}`, command: kubectlCommand(current), href: objectLink(resource, namespace, name), error: "" });
    } catch (error) {
      setReview({ ...current, conflicts: conflictsOf(error), error: conflictsOf(error).length ? "" : (error as Error).message });
    } finally {
      setBusy(false);
    }
  };

  return (
    <div class="editor">
      <div class="toolbar">
        {!readOnly && (
          <>
            <button type="button" class="button button-primary" disabled={!dirty || busy || errors > 0} onClick={() => void prepare(mode)}>
              Review changes
            </button>
            <button type="button" class="button" disabled={!dirty} onClick={() => reload(object)}>
              Discard
            </button>
            <Select
              label="How changes are written"
              value={mode}
              options={[
                { value: "apply", text: "Server-side apply" },
                { value: "replace", text: "Replace" },
              ]}
              change={(value) => setMode(value as "apply" | "replace")}
            />
          </>
        )}
        {secret && (
          <button type="button" class="button" aria-pressed={revealed} disabled={dirty} onClick={() => setRevealed(!revealed)}>
            {revealed ? "Hide values" : "Reveal values"}
          </button>
        )}
        <span class="editor-state" role="status">
          {errors > 0 ? (
            <span class="editor-errors">
              <Icon name="warning" /> {errors} {errors === 1 ? "error" : "errors"}
            </span>
          ) : dirty ? (
            "Edited"
          ) : deleted ? (
            "The object was deleted; this is its last version."
          ) : info.value?.readOnly ? (
            "The dashboard is read-only."
          ) : !revealed ? (
            "The values are hidden; reveal them to edit."
          ) : full ? (
            "With status, read-only"
          ) : (
            ""
          )}
        </span>
        <span class="spacer" />
        <label class="check">
          <input type="checkbox" checked={full} disabled={dirty} onChange={(event) => setFull(event.currentTarget.checked)} /> Status and system fields
        </label>
        <Copy text={source(object)} label="Copy the YAML" />
      </div>
      {message && (
        <div class="banner" role="alert">
          {message}
        </div>
      )}
      {restored > 0 && dirty && (
        <div class="banner" role="status">
          Your unsaved edits of {exact(restored)} were restored.
          <button type="button" class="link-button" onClick={() => reload(object)}>
            Discard them
          </button>
        </div>
      )}
      {stale && (
        <div class="banner" role="status">
          The object has changed since you started to edit. Server-side apply keeps the changes of others; Replace needs the current version.
          <button type="button" class="link-button" onClick={() => reload(object)}>
            Discard my edits and load it
          </button>
        </div>
      )}
      <div class="editor-host panel" ref={host} />
      {!readOnly && <p class="muted hint">Ctrl-Space completes fields from the schema. Ctrl-S reviews the changes with a dry run before anything is written.</p>}
      {review && (
        <ReviewDialog
          review={review}
          name={name}
          busy={busy}
          close={() => setReview(null)}
          commit={commit}
          force={() => void prepare("apply", true)}
          replace={() => {
            setMode("replace");
            void prepare("replace");
          }}
        />
      )}
    </div>
  );
}

/** The command that writes the same change; the file has what the dialog shows. */
function kubectlCommand(review: Review): string {
  return review.mode === "apply" ? `kubectl apply --server-side --field-manager=${FIELD_MANAGER}${review.force ? " --force-conflicts" : ""} -f change.yaml` : "kubectl replace -f change.yaml";
}

function ReviewDialog({ review, name, busy, close, commit, force, replace }: { review: Review; name: string; busy: boolean; close: () => void; commit: () => void; force: () => void; replace: () => void }) {
  const blocked = review.conflicts.length > 0 || review.error !== "";
  return (
    <Dialog
      wide
      title={review.conflicts.length ? "Other managers own fields that you changed" : review.error ? "The API server rejected the change" : `Review changes of ${name}`}
      close={close}
      actions={
        <>
          <button type="button" class="button" onClick={close}>
            {blocked ? "Back to the editor" : "Cancel"}
          </button>
          {review.conflicts.length > 0 && (
            <button type="button" class="button button-danger" disabled={busy} onClick={force}>
              Take ownership…
            </button>
          )}
          {!blocked && (
            <button type="button" class="button button-primary" disabled={busy} onClick={commit}>
              {review.mode === "apply" ? (review.force ? "Apply and take ownership" : "Apply") : "Replace"}
            </button>
          )}
        </>
      }
    >
      {review.conflicts.length > 0 && (
        <>
          <p>
            The dry run reported a conflict. If you take ownership, these managers no longer own the fields; a controller among them may set its value again.
          </p>
          <table class="plain-table conflict-table">
            <thead>
              <tr>
                <th scope="col">Field</th>
                <th scope="col">Owner</th>
              </tr>
            </thead>
            <tbody>
              {review.conflicts.map((each) => (
                <tr key={each.manager + each.field}>
                  <td>
                    <code>{each.field}</code>
                  </td>
                  <td>{each.manager}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      )}
      {review.error && (
        <p class="form-error" role="alert">
          {review.error}
        </p>
      )}
      {!blocked && (
        <>
          <p class="muted">
            The API server accepted a dry run. This is what will change{review.mode === "apply" ? `, as field manager ${FIELD_MANAGER}` : ""}.
          </p>
          <Diff before={review.before} after={review.after} />
          <div class="action-command">
            <pre class="code" aria-label="kubectl command" tabIndex={0}>{kubectlCommand(review)}</pre>
            <Copy text={toYaml(review.body)} label="Copy change.yaml" />
          </div>
        </>
      )}
      {review.removed.length > 0 && !blocked && (
        <div class="banner">
          <div>
            Server-side apply does not remove fields of other managers:
            <ul>
              {review.removed.map((each) => (
                <li key={each.path}>
                  <code>{each.path}</code> ({each.owners.join(", ")})
                </li>
              ))}
            </ul>
          </div>
          <button type="button" class="link-button" onClick={replace}>
            Replace the object instead
          </button>
        </div>
      )}
    </Dialog>
  );
}
