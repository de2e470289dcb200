// Unsaved edits: they survive tab changes, Back and reload, in the storage of this browser tab.
const PREFIX = "kubewright-draft ";
const LIMIT = 20;
/** Drafts that must not be written to a storage: the values of Secrets. They are lost with the page. */
const volatile = new Map<string, Draft>();

export interface Draft {
  text: string;
  /** The version that was edited; a three-way comparison starts from it. */
  base: unknown;
  time: number;
}

export function readDraft(key: string): Draft | null {
  if (volatile.has(key)) return volatile.get(key)!;
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + key) || "null");
  } catch {
    return null;
  }
}

/** Store a draft; returns whether it survives a reload. */
export function writeDraft(key: string, draft: Draft, secret: boolean): boolean {
  if (secret) {
    volatile.set(key, draft);
    return false;
  }
  const keys = draftKeys().filter((each) => each !== key);
  for (const old of keys.slice(0, Math.max(0, keys.length - LIMIT + 1))) dropDraft(old);
  try {
    sessionStorage.setItem(PREFIX + key, JSON.stringify(draft));
    return true;
  } catch {
    return false;
  }
}

export function dropDraft(key: string): void {
  volatile.delete(key);
  sessionStorage.removeItem(PREFIX + key);
}

function draftKeys(): string[] {
  const found: string[] = [];
  for (let index = 0; index < sessionStorage.length; index++) {
    const key = sessionStorage.key(index)!;
    if (key.startsWith(PREFIX)) found.push(key.slice(PREFIX.length));
  }
  return found.sort((a, b) => (readDraft(a)?.time || 0) - (readDraft(b)?.time || 0));
}
