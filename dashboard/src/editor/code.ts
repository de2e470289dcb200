// A text field for YAML: completion, validation, highlighting and keys.
import { autocompletion, closeBrackets, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentLess, indentMore } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, foldGutter, foldKeymap, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { linter, lintGutter, type Diagnostic } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import type { Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { KindSchema } from "../lib/schema";
import { styleNonce } from "../lib/state";
import { completions } from "./language";

const theme = EditorView.theme({
  "&": { fontSize: "13px", backgroundColor: "var(--surface)", color: "var(--text)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6" },
  ".cm-content": { caretColor: "var(--text)", padding: "10px 0" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--muted)", border: "none", paddingLeft: "6px" },
  ".cm-activeLine": { backgroundColor: "var(--hover)" },
  ".cm-activeLineGutter": { backgroundColor: "transparent", color: "var(--text)" },
  "&.cm-focused": { outline: "none" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selection) !important" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--border)", borderRadius: "8px", boxShadow: "var(--shadow)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "16em", borderRadius: "7px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "4px 12px", lineHeight: "1.5" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "var(--muted)", fontStyle: "normal", marginLeft: "10px" },
  "li[aria-selected] .cm-completionDetail": { color: "inherit" },
  ".cm-tooltip.cm-completionInfo": { maxWidth: "380px", padding: "10px 14px", marginLeft: "6px", lineHeight: "1.5", whiteSpace: "pre-wrap", fontFamily: "var(--sans)" },
  ".cm-completionIcon": { display: "none" },
  ".cm-diagnostic": { padding: "6px 12px" },
  ".cm-panels": { backgroundColor: "var(--raised)", color: "var(--text)", borderColor: "var(--border)" },
  ".cm-searchMatch": { backgroundColor: "var(--selection)" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--hover)", border: "none", color: "var(--muted)", padding: "0 6px" },
});

const highlighting = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--code-key)" },
  { tag: [tags.string, tags.content], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--code-number)" },
  { tag: tags.comment, color: "var(--muted)" },
  { tag: [tags.punctuation, tags.separator], color: "var(--muted)" },
]);

interface Options {
  label: string;
  /** The schema that fields are completed from. */
  schema: () => Promise<KindSchema | null>;
  diagnose: (text: string) => Diagnostic[];
  /** Called with the number of errors. */
  counted: (errors: number) => void;
  changed: (text: string) => void;
  save: () => void;
}

export function yamlExtensions({ label, schema, diagnose, counted, changed, save }: Options): Extension[] {
  return [
    EditorView.cspNonce.of(styleNonce),
    lineNumbers(),
    foldGutter(),
    lintGutter(),
    history(),
    drawSelection(),
    indentOnInput(),
    indentUnit.of("  "),
    bracketMatching(),
    closeBrackets(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    search({ top: true }),
    yaml(),
    syntaxHighlighting(highlighting),
    autocompletion({ override: [completions(schema)] }),
    linter(
      (editor) => {
        const found = diagnose(editor.state.doc.toString());
        counted(found.filter((each) => each.severity === "error").length);
        return found;
      },
      { delay: 250 },
    ),
    keymap.of([
      { key: "Tab", run: indentMore, shift: indentLess },
      { key: "Mod-s", run: () => (save(), true) },
      ...completionKeymap,
      ...searchKeymap,
      ...historyKeymap,
      ...foldKeymap,
      ...defaultKeymap,
    ]),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ "aria-label": label }),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) changed(update.state.doc.toString());
    }),
    theme,
  ];
}
