import { json, query, type Json } from "../lib/http";
import { useEffect, useRef } from "preact/hooks";
import { useLoaded, type Loaded } from "../lib/live";
import { route, setParams } from "../lib/router";
import { Chip, Empty, Failure, Loading, Time } from "../components/basics";
import { Diff } from "../components/diff";
import { toYaml, withoutManagedFields } from "../lib/yaml";

const TYPE: Record<string, string> = { ADDED: "first seen", MODIFIED: "changed", DELETED: "deleted" };

/** A copy without fields that differ between all versions. */
function comparable(object: Json): Json {
  const copy = withoutManagedFields(object);
  if (!copy?.metadata) return copy;
  const { resourceVersion: _resourceVersion, ...metadata } = copy.metadata;
  return { ...copy, metadata };
}

/** The versions of an object that the server has seen, read again after each change. */
export function useHistory(object: Json, reference: Record<string, string>): Loaded<Json> {
  const loaded = useLoaded<Json>((signal) => json(`/api/history${query(reference)}`, { signal }), [reference.kind, reference.namespace, reference.name]);
  const version = object?.metadata.resourceVersion;
  const first = useRef(version);
  useEffect(() => {
    if (version !== first.current) loaded.reload();
    first.current = version;
  }, [version]);
  return loaded;
}

export function History({ object, reference }: { object: Json; reference: Record<string, string> }) {
  const loaded = useHistory(object, reference);
  const data = loaded.value.value;
  if (!data) return loaded.error.value ? <Failure error={loaded.error.value} retry={loaded.reload} /> : <Loading />;
  const versions: Json[] = data.versions;
  if (!versions.length) return <Empty title="No versions yet">Versions are recorded from the first time that this object is opened.</Empty>;
  const wanted = route.value.params.get("revision");
  const index = Math.max(0, wanted ? versions.findIndex((each) => each.resourceVersion === wanted) : versions.length - 1);
  const version = versions[index];
  const before = index > 0 ? toYaml(comparable(versions[index - 1].object)) : "";
  return (
    <div class="history">
      <ol class="history-list panel" reversed aria-label="Versions">
        {[...versions].reverse().map((each) => (
          <li key={each.resourceVersion + each.type}>
            <button type="button" class="history-item" aria-current={each === version ? "true" : undefined} onClick={() => setParams({ revision: each.resourceVersion })}>
              <span class="history-title">
                {each.resourceVersion} <span class="muted">{TYPE[each.type] || each.type}</span>
              </span>
              <span class="history-by muted">
                <Time at={each.time} />
                {each.managers.length > 0 && ` by ${each.managers.join(", ")}`}
              </span>
            </button>
          </li>
        ))}
      </ol>
      <div class="history-diff">
        <div class="history-head">
          <h2>
            Version {version.resourceVersion} <Chip>{TYPE[version.type] || version.type}</Chip>
          </h2>
          <span class="muted">{index > 0 ? `compared with ${versions[index - 1].resourceVersion}` : "the first version that was seen"}</span>
        </div>
        {index > 0 ? (
          <Diff before={before} after={toYaml(comparable(version.object))} />
        ) : (
          <pre class="code" tabIndex={0}>{toYaml(comparable(version.object))}</pre>
        )}
      </div>
    </div>
  );
}
