import { useState } from "preact/hooks";
import { json, request, type Json } from "../lib/http";
import { useLoaded } from "../lib/live";
import { info, toast } from "../lib/state";
import { Chip, Copy, Empty, Failure, Loading, Panel } from "../components/basics";
import { Icon } from "../components/icons";

interface Forward {
  id: string;
  namespace: string;
  name: string;
  port: number;
  localPort: number;
}

/** A host name other than that of this page: what a pod serves must not be on the site of the dashboard. */
const FORWARD_HOST = location.hostname === "localhost" ? "127.0.0.1" : "localhost";

/** Ports of a pod, and local ports of the machine of the dashboard that are forwarded to them. */
export function Ports({ pod }: { pod: Json }) {
  const { name, namespace } = pod.metadata;
  const [port, setPort] = useState("");
  const forwards = useLoaded<{ forwards: Forward[] }>((signal) => json("/api/port-forwards", { signal }), [name]);
  const declared = (pod.spec.containers || []).flatMap((container: Json) =>
    (container.ports || []).filter((each: Json) => (each.protocol || "TCP") === "TCP").map((each: Json) => ({ container: container.name, name: each.name || "", port: each.containerPort as number })),
  );
  const readOnly = info.value?.readOnly;
  const change = async (action: () => Promise<unknown>) => {
    try {
      await action();
    } catch (error) {
      toast((error as Error).message, "error");
    }
    forwards.reload();
  };
  const start = (target: number) => change(() => json("/api/port-forwards", { method: "POST", body: { namespace, name, port: target } }));
  const stop = (id: string) => change(() => request(`/api/port-forwards?id=${encodeURIComponent(id)}`, { method: "DELETE" }));
  if (forwards.error.value) return <Failure error={forwards.error.value} retry={forwards.reload} />;
  if (!forwards.value.value) return <Loading />;
  const active = forwards.value.value.forwards.filter((each) => each.namespace === namespace && each.name === name);
  const others = active.filter((each) => !declared.some((known: Json) => known.port === each.port));
  const rows = [...declared, ...others.map((each) => ({ container: "", name: "", port: each.port }))];
  return (
    <Panel title="Forward ports to this machine" flush>
      {rows.length > 0 && (
        <table class="plain-table">
          <thead>
            <tr>
              <th scope="col">Port</th>
              <th scope="col">Container</th>
              <th scope="col">Local address</th>
              <th scope="col"><span class="visually-hidden">Action</span></th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => {
              const forward = active.find((each) => each.port === row.port);
              const address = forward ? `${FORWARD_HOST}:${forward.localPort}` : "";
              return (
                <tr key={`${row.container}/${row.port}`}>
                  <td>
                    {row.port} {row.name && <Chip>{row.name}</Chip>}
                  </td>
                  <td>{row.container || "–"}</td>
                  <td>
                    {forward ? (
                      <span class="with-copy">
                        <a href={`http://${address}/`} target="_blank" rel="noreferrer noopener">
                          {address} <Icon name="external" size={13} />
                        </a>
                        <Copy text={address} label="Copy the address" />
                      </span>
                    ) : (
                      <span class="muted">not forwarded</span>
                    )}
                  </td>
                  <td class="actions">
                    {forward ? (
                      <button type="button" class="button button-quiet" onClick={() => void stop(forward.id)}>
                        Stop
                      </button>
                    ) : (
                      <button type="button" class="button" disabled={readOnly} onClick={() => void start(row.port)}>
                        Forward
                      </button>
                    )}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
      {rows.length === 0 && <Empty title="The pod declares no TCP ports">A port that a container listens on can be forwarded even if it is not declared.</Empty>}
      <form
        class="toolbar panel-body"
        onSubmit={(event) => {
          event.preventDefault();
          if (port) void start(Number(port)).then(() => setPort(""));
        }}
      >
        <input class="input" type="number" min="1" max="65535" aria-label="Other port" placeholder="Other port" value={port} onInput={(event) => setPort(event.currentTarget.value)} disabled={readOnly} />
        <button type="submit" class="button" disabled={!port || readOnly}>
          Forward
        </button>
        {readOnly && <span class="muted">The dashboard is read-only.</span>}
      </form>
    </Panel>
  );
}
