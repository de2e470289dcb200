import { useMemo, useState } from "preact/hooks";
import { apiVersionOf, discoveryError, resources, type Resource } from "../lib/discovery";
import { useLoaded } from "../lib/live";
import { kindLink, link, route, setParams } from "../lib/router";
import { exampleOf, schemaOf, typeName, type KindSchema, type Schema } from "../lib/schema";
import { toYaml } from "../lib/yaml";
import { Chip, Copy, Empty, Failure, Field, Loading, Page, Panel } from "../components/basics";
import { Icon } from "../components/icons";

export function SchemaIndex() {
  const filter = (route.value.params.get("q") || "").toLowerCase();
  if (!resources.value.length) return <Page title="Schema">{discoveryError.value ? <Failure error={discoveryError.value} /> : <Loading />}</Page>;
  const groups = new Map<string, Resource[]>();
  for (const each of resources.value) {
    if (filter && !`${each.kind} ${each.plural} ${each.group}`.toLowerCase().includes(filter)) continue;
    const key = apiVersionOf(each);
    groups.set(key, [...(groups.get(key) || []), each]);
  }
  const custom = (name: string) => name.includes(".") && !name.split("/")[0].endsWith(".k8s.io");
  const order = [...groups.keys()].sort((a, b) => Number(custom(b)) - Number(custom(a)) || a.localeCompare(b));
  return (
    <Page title="Schema" subtitle="The API of each kind, as the API server publishes it" actions={<Field id="filter" label="Filter kinds" value={filter} change={(q) => setParams({ q })} width="220px" />}>
      {!order.length && <Empty title="No kind matches">Change the filter.</Empty>}
      {order.map((name) => (
        <section key={name} class="section">
          <h2 class="section-title">{name}</h2>
          <div class="kind-grid">
            {groups.get(name)!.sort((a, b) => a.kind.localeCompare(b.kind)).map((each) => (
              <a key={each.kind} class="kind-link" href={link(["schema", each.group || "core", each.version, each.kind])}>
                <span class="kind-link-name">{each.kind}</span>
              </a>
            ))}
          </div>
        </section>
      ))}
    </Page>
  );
}

export function SchemaView({ group, version, kind }: { group: string; version: string; kind: string }) {
  const resource = resources.value.find((each) => each.group === group && each.version === version && each.kind === kind);
  const loaded = useLoaded<KindSchema>(() => schemaOf({ group, version, kind }), [group, version, kind]);
  const schema = loaded.value.value;
  const example = useMemo(() => (schema ? toYaml(exampleOf(schema, { group, version, kind }, resource?.namespaced ?? true)) : ""), [schema, resource]);
  const versions = resources.value.filter((each) => each.group === group && each.kind === kind);
  return (
    <Page
      title={kind}
      subtitle={
        <>
          {group || "core"}/{version}
          {resource && (
            <>
              <span class="dot">·</span>
              {resource.namespaced ? "namespaced" : "cluster-scoped"}
              {resource.shortNames.length > 0 && (
                <>
                  <span class="dot">·</span>
                  {resource.shortNames.join(", ")}
                </>
              )}
              <span class="dot">·</span>
              <a href={kindLink(resource)}>objects</a>
            </>
          )}
        </>
      }
      actions={
        versions.length > 1 ? (
          <>
            {versions.map((each) => (
              <a key={each.version} class="button button-quiet" aria-current={each.version === version ? "page" : undefined} href={link(["schema", group || "core", each.version, kind])}>
                {each.version}
              </a>
            ))}
          </>
        ) : undefined
      }
    >
      {!schema ? (
        loaded.error.value ? <Failure error={loaded.error.value} retry={loaded.reload} /> : <Loading />
      ) : (
        <div class="schema">
          <div class="schema-main">
            {schema.resolve(schema.root).description && <p class="schema-description"><Description text={schema.resolve(schema.root).description!} /></p>}
            <div class="panel schema-fields">
              <FieldList schemas={schema} schema={schema.root} path={[]} />
            </div>
          </div>
          <div class="schema-side">
            <Panel title="Example" actions={<Copy text={example} label="Copy the example" />} flush>
              <pre class="code code-flat" tabIndex={0}>{example}</pre>
            </Panel>
          </div>
        </div>
      )}
    </Page>
  );
}

function constraints(schema: Schema): string[] {
  const found: string[] = [];
  if (schema.minimum !== undefined) found.push(`${schema.exclusiveMinimum ? ">" : "≥"} ${schema.minimum}`);
  if (schema.maximum !== undefined) found.push(`${schema.exclusiveMaximum ? "<" : "≤"} ${schema.maximum}`);
  const counted = (number: number, noun: string) => `${number} ${noun}${number === 1 ? "" : "s"}`;
  if (schema.minLength !== undefined) found.push(`at least ${counted(schema.minLength, "character")}`);
  if (schema.maxLength !== undefined) found.push(`at most ${counted(schema.maxLength, "character")}`);
  if (schema.minItems !== undefined) found.push(`at least ${counted(schema.minItems, "element")}`);
  if (schema.maxItems !== undefined) found.push(`at most ${counted(schema.maxItems, "element")}`);
  if (schema.pattern) found.push(`pattern ${schema.pattern}`);
  if (schema["x-kubernetes-list-type"] === "map") found.push(`unique by ${(schema["x-kubernetes-list-map-keys"] || []).join(", ")}`);
  if (schema["x-kubernetes-list-type"] === "set") found.push("unique elements");
  return found;
}

function FieldList({ schemas, schema, path }: { schemas: KindSchema; schema: Schema; path: string[] }) {
  const found = schemas.resolve(schema);
  const required = new Set(found.required || []);
  return (
    <ul class="field-list">
      {Object.entries(found.properties || {})
        .filter(([name]) => path.length || !["apiVersion", "kind"].includes(name))
        .map(([name, below]) => (
          <SchemaField key={name} schemas={schemas} name={name} schema={below} required={required.has(name)} path={[...path, name]} />
        ))}
    </ul>
  );
}

function SchemaField({ schemas, name, schema, required, path }: { schemas: KindSchema; name: string; schema: Schema; required: boolean; path: string[] }) {
  const found = schemas.resolve(schema);
  const element = found.type === "array" ? schemas.resolve(found.items) : typeof found.additionalProperties === "object" ? schemas.resolve(found.additionalProperties) : found;
  const expandable = Boolean(element.properties && Object.keys(element.properties).length);
  const target = route.value.params.get("path") || "";
  const here = path.join(".");
  const onPath = target === here || target.startsWith(`${here}.`);
  const [open, setOpen] = useState(onPath || (path.length === 1 && (name === "spec" || name === "status")));
  const rules = found["x-kubernetes-validations"] || [];
  const limits = constraints(found);
  return (
    <li class={`schema-field${target === here ? " schema-target" : ""}`} id={`field-${here}`}>
      <div class="schema-line">
        {expandable ? (
          <button type="button" class="expander" aria-expanded={open} aria-label={`${open ? "Hide" : "Show"} fields of ${here}`} onClick={() => setOpen(!open)}>
            <Icon name="chevron" size={14} class={open ? "turned" : ""} />
          </button>
        ) : (
          <span class="expander" aria-hidden="true" />
        )}
        <a class="schema-name" href={link(route.value.path, { path: here })}>
          {name}
        </a>
        <span class="schema-type">{typeName(schemas, schema)}</span>
        {required && <Chip tone="accent">required</Chip>}
        {found.default !== undefined && (typeof found.default !== "object" || Object.keys(found.default || {}).length > 0) && <Chip>default {JSON.stringify(found.default)}</Chip>}
      </div>
      <div class="schema-detail">
        {found.description && <p><Description text={found.description} /></p>}
        {found.enum && (
          <p>
            {found.enum.map((each) => (
              <Chip key={String(each)} tone="outline">{String(each)}</Chip>
            ))}
          </p>
        )}
        {limits.length > 0 && <p class="muted">{limits.join(" · ")}</p>}
        {rules.map((rule) => (
          <p key={rule.rule} class="muted">
            rule <code>{rule.rule}</code> {rule.message}
          </p>
        ))}
      </div>
      {expandable && open && path.length < 14 && <FieldList schemas={schemas} schema={element} path={path} />}
    </li>
  );
}

/** A description with its https addresses as links. */
function Description({ text }: { text: string }) {
  const parts = text.split(/(https:\/\/[^\s<>"')]+[^\s<>"').,;:])/);
  return (
    <>
      {parts.map((part, index) =>
        index % 2 ? (
          <a key={index} href={part} target="_blank" rel="noreferrer noopener">
            {part}
          </a>
        ) : (
          part
        ),
      )}
    </>
  );
}
