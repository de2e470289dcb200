// The session of this page. It is kept in the storage of the origin, which other ports of the host cannot read.
const KEY = "kubewright-session";

const given = document.querySelector<HTMLMetaElement>('meta[name="session"]')?.content || "";
if (given) localStorage.setItem(KEY, given);

// The token of the address works once; without it, the page can be reloaded.
const address = new URL(location.href);
if (address.searchParams.has("token")) {
  address.searchParams.delete("token");
  history.replaceState(history.state, "", address);
}

/** The session; another page of this origin may have signed in since. */
export function session(): string {
  return localStorage.getItem(KEY) || "";
}
