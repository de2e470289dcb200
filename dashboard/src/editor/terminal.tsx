import { FitAddon } from "@xterm/addon-fit";
import { Terminal as Xterm } from "@xterm/xterm";
import { useEffect, useRef, useState } from "preact/hooks";
import { query, url, type Json } from "../lib/http";
import { session } from "../lib/session";
import { route, setParams } from "../lib/router";
import { info, isDark, styleNonce } from "../lib/state";
import { Empty, Field, Select } from "../components/basics";
import { containersOf } from "../views/object-logs";

const THEMES = {
  light: { background: "#ffffff", foreground: "#1b2230", cursor: "#4056d6", cursorAccent: "#ffffff", selectionBackground: "#cfd8ff" },
  dark: { background: "#151a22", foreground: "#e3e7ee", cursor: "#91a5ff", cursorAccent: "#151a22", selectionBackground: "#33406e" },
};

/** Open the terminal; the <style> elements that it creates get the nonce of the page. */
function openWithNonce(terminal: Xterm, parent: HTMLElement): void {
  const create = document.createElement;
  document.createElement = function (this: Document, ...given: [string, ElementCreationOptions?]) {
    const element = create.apply(document, given);
    if (given[0] === "style") element.nonce = styleNonce;
    return element;
  } as typeof document.createElement;
  try {
    terminal.open(parent);
  } finally {
    document.createElement = create;
  }
}

function loadStyles(): void {
  if (document.getElementById("terminal-styles")) return;
  const link = document.createElement("link");
  link.id = "terminal-styles";
  link.rel = "stylesheet";
  link.href = url("/static/terminal.css");
  document.head.append(link);
}

/** The words of a command. The default shell gets the type of this terminal, so that programs use colours and keys. */
function argumentsOf(command: string): string[] {
  return command === "sh" ? ["env", "TERM=xterm-256color", "sh"] : command.split(/\s+/);
}

/** A shell in a container, over the exec subresource with the protocol v5.channel.k8s.io. */
export default function Terminal({ pod }: { pod: Json }) {
  const { name, namespace, uid } = pod.metadata;
  const host = useRef<HTMLDivElement>(null);
  const params = route.value.params;
  const containers = containersOf(pod).filter((each) => !each.init);
  const container = params.get("container") || containers[0]?.name || "";
  const command = params.get("command") || "sh";
  const [state, setState] = useState("Connecting");
  const [attempt, setAttempt] = useState(0);
  const readOnly = info.value?.readOnly;

  useEffect(() => {
    if (readOnly || !host.current) return;
    loadStyles();
    const terminal = new Xterm({
      fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"),
      fontSize: 13,
      cursorBlink: true,
      scrollback: 5000,
      theme: THEMES[isDark.peek() ? "dark" : "light"],
      screenReaderMode: true,
    });
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    openWithNonce(terminal, host.current);
    const address = new URL(
      url(
        `/k8s/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/exec` +
          query({ container, stdin: true, stdout: true, tty: true }) +
          argumentsOf(command).map((word) => `&command=${encodeURIComponent(word)}`).join(""),
      ),
    );
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address, ["v5.channel.k8s.io", "v4.channel.k8s.io", `kubewright.session.${session()}`]);
    socket.binaryType = "arraybuffer";
    const encoder = new TextEncoder();
    const send = (channel: number, text: string) => {
      if (socket.readyState !== WebSocket.OPEN) return;
      const payload = encoder.encode(text);
      const frame = new Uint8Array(payload.length + 1);
      frame[0] = channel;
      frame.set(payload, 1);
      socket.send(frame);
    };
    const resize = () => {
      fit.fit();
      send(4, JSON.stringify({ Width: terminal.cols, Height: terminal.rows }));
    };
    socket.onopen = () => {
      setState("Connected");
      resize();
      terminal.focus();
    };
    socket.onmessage = (event) => {
      const frame = new Uint8Array(event.data as ArrayBuffer);
      const payload = frame.subarray(1);
      if (frame[0] === 1 || frame[0] === 2) terminal.write(payload);
      else if (frame[0] === 3 && payload.length) {
        const status = JSON.parse(new TextDecoder().decode(payload));
        setState(status.status === "Success" ? "The command ended" : status.message || "The command failed");
      }
    };
    socket.onclose = () => setState((current) => (current === "Connected" || current === "Connecting" ? "Disconnected" : current));
    const input = terminal.onData((data) => send(0, data));
    const observer = new ResizeObserver(resize);
    observer.observe(host.current);
    const stopTheme = isDark.subscribe((dark) => {
      terminal.options.theme = THEMES[dark ? "dark" : "light"];
    });
    return () => {
      stopTheme();
      observer.disconnect();
      input.dispose();
      socket.onclose = null;
      socket.close();
      terminal.dispose();
    };
  }, [uid, container, command, attempt, readOnly]);

  if (readOnly) return <Empty title="The dashboard is read-only">Start it without --read-only to run commands in containers.</Empty>;
  return (
    <div class="terminal-view">
      <div class="toolbar">
        <Select label="Container" value={container} options={containers.map((each) => ({ value: each.name, text: each.name }))} change={(value) => setParams({ container: value })} />
        <Field label="Command" value={command} change={(value) => setParams({ command: value === "sh" ? undefined : value })} width="220px" delay={1200} />
        <span class="muted" role="status">
          {state}
        </span>
        <span class="spacer" />
        <button type="button" class="button button-quiet" onClick={() => setAttempt(attempt + 1)}>
          Run again
        </button>
      </div>
      <div class="terminal-host panel" ref={host} />
    </div>
  );
}
