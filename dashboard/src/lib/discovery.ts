// Kinds that the API server serves, from aggregated discovery.
import { signal } from "@preact/signals";
import { json, type Json } from "./http";

export interface Resource {
  group: string;
  version: string;
  kind: string;
  plural: string;
  namespaced: boolean;
  verbs: string[];
  shortNames: string[];
  categories: string[];
  subresources: string[];
  preferred: boolean;
}

export const resources = signal<Resource[]>([]);
export const discoveryError = signal<Error | null>(null);

const ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

function fromAggregated(list: Json): Resource[] {
  const found: Resource[] = [];
  for (const group of list.items || []) {
    (group.versions || []).forEach((version: Json, index: number) => {
      for (const each of version.resources || []) {
        found.push({
          group: group.metadata?.name || "",
          version: version.version,
          kind: each.responseKind?.kind || "",
          plural: each.resource,
          namespaced: each.scope === "Namespaced",
          verbs: each.verbs || [],
          shortNames: each.shortNames || [],
          categories: each.categories || [],
          subresources: (each.subresources || []).map((sub: Json) => sub.subresource),
          preferred: index === 0,
        });
      }
    });
  }
  return found;
}

function fromList(group: string, version: string, preferred: boolean, list: Json): Resource[] {
  const found = new Map<string, Resource>();
  for (const each of list.resources || []) {
    const [plural, subresource] = each.name.split("/");
    if (subresource) {
      found.get(plural)?.subresources.push(subresource);
      continue;
    }
    found.set(plural, {
      group,
      version,
      kind: each.kind,
      plural,
      namespaced: each.namespaced,
      verbs: each.verbs || [],
      shortNames: each.shortNames || [],
      categories: each.categories || [],
      subresources: [],
      preferred,
    });
  }
  return [...found.values()];
}

async function readUnaggregated(): Promise<Resource[]> {
  const found = fromList("", "v1", true, await json("/k8s/api/v1"));
  const groups = await json("/k8s/apis");
  const lists = (groups.groups || []).flatMap((group: Json) =>
    group.versions.map(async (version: Json) => {
      const list = await json(`/k8s/apis/${version.groupVersion}`).catch(() => ({}));
      return fromList(group.name, version.version, version.version === group.preferredVersion?.version, list);
    }),
  );
  return [...found, ...(await Promise.all(lists)).flat()];
}

/** Read the kinds of the API server again. */
export async function discover(): Promise<void> {
  try {
    const [core, groups] = await Promise.all([
      json("/k8s/api", { accept: ACCEPT }),
      json("/k8s/apis", { accept: ACCEPT }),
    ]);
    const found = core.items ? [...fromAggregated(core), ...fromAggregated(groups)] : await readUnaggregated();
    resources.value = found.filter((each) => each.verbs.includes("list") && each.verbs.includes("get"));
    discoveryError.value = null;
  } catch (error) {
    discoveryError.value = error as Error;
  }
}

export function findResource(group: string, version: string, plural: string): Resource | undefined {
  return resources.value.find((each) => each.group === group && each.plural === plural && each.version === version);
}

export function findKind(apiVersion: string, kind: string): Resource | undefined {
  const { group, version } = splitApiVersion(apiVersion);
  return resources.value.find((each) => each.group === group && each.kind === kind && (!version || each.version === version));
}

export function splitApiVersion(apiVersion: string): { group: string; version: string } {
  const [first, second] = apiVersion.split("/");
  return second === undefined ? { group: "", version: first } : { group: first, version: second };
}

export function apiVersionOf(resource: { group: string; version: string }): string {
  return resource.group ? `${resource.group}/${resource.version}` : resource.version;
}

/** The path of a collection or of an object below /k8s. */
export function apiPath(resource: { group: string; version: string; plural: string }, namespace?: string, name?: string): string {
  const root = resource.group ? `/k8s/apis/${resource.group}/${resource.version}` : `/k8s/api/${resource.version}`;
  const scope = namespace ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return `${root}${scope}/${resource.plural}${name ? `/${encodeURIComponent(name)}` : ""}`;
}
