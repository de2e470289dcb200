"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const moments = data.moments;
let current = -1, chosen = null;

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function objectsAt(number) {
  const found = new Map(Object.entries(data.objects));
  for (const moment of moments.slice(0, number + 1)) {
    if (moment.kind !== "change") continue;
    if (moment.object === null) found.delete(moment.key); else found.set(moment.key, moment.object);
  }
  return found;
}

function seconds(at) { return `${at < 0 ? "−" : "+"}${Math.abs(at).toFixed(2)} s`; }

function lines(value, indent) {
  // YAML-like text; strings that are not plain are quoted as JSON.
  const pad = "  ".repeat(indent);
  if (Array.isArray(value)) {
    if (!value.length) return [" []"];
    return value.flatMap((each) => {
      const inner = lines(each, indent + 1);
      if (inner.length === 1 && !inner[0].startsWith("  ")) return [`${pad}-${inner[0]}`];
      const [first, ...rest] = inner;
      return [`${pad}- ${first.trimStart()}`, ...rest];
    });
  }
  if (value !== null && typeof value === "object") {
    const entries = Object.entries(value).filter(([name]) => name !== "managedFields");
    if (!entries.length) return [" {}"];
    return entries.flatMap(([name, each]) => {
      const inner = lines(each, indent + (Array.isArray(each) ? 0 : 1));
      const plain = each === null || typeof each !== "object" || inner[0] === " []" || inner[0] === " {}";
      return plain ? [`${pad}${name}:${inner[0]}`] : [`${pad}${name}:`, ...inner];
    });
  }
  const text = typeof value === "string" && /^[\w./@ -]+$/.test(value) ? value : JSON.stringify(value);
  return [` ${text}`];
}

function showObject(target, key) {
  const now = objectsAt(current).get(key), before = objectsAt(current - 1).get(key);
  target.append(element("h2", key));
  if (now === undefined) { target.append(element("p", before ? "deleted" : "does not exist")); return; }
  const old = new Set(before ? lines(before, 0) : []);
  const pre = element("pre");
  for (const line of lines(now, 0)) pre.append(element("span", `${line}\n`, before && !old.has(line) ? "changed" : ""));
  target.append(pre);
}

function showReconcile(target, span) {
  target.append(element("h2", `Reconcile ${span.controller} ${span.request}`));
  const pre = element("pre");
  pre.append(element("span", `result: ${span.error || span.result}\n`, span.error ? "failed" : ""));
  for (const cause of span.causes) pre.append(element("span", `cause:  ${cause.text}\n`));
  for (const call of span.reads) pre.append(element("span", `read:   ${call.verb} ${call.resource} ${call.namespace}/${call.name}\n`));
  for (const call of span.writes) pre.append(element("span", `write:  ${call.verb} ${call.resource} ${call.namespace}/${call.name} ${call.status}\n`, "operator"));
  if (span.traceback) pre.append(element("span", span.traceback, "failed"));
  target.append(pre);
}

function showQueues(target, queues) {
  if (!queues.length) return;
  target.append(element("h2", "Queues"));
  const table = element("table"), head = element("tr");
  for (const name of ["controller", "depth", "waiting", "active", "failing"]) head.append(element("th", name));
  table.append(head);
  for (const queue of queues) {
    const row = element("tr"), failing = Object.entries(queue.failing).map(([name, error]) => `${name}: ${error}`);
    for (const text of [queue.name, queue.depth, queue.waiting, queue.active, failing.join("; ")]) row.append(element("td", text));
    table.append(row);
  }
  target.append(table);
}

function show(number) {
  current = Math.max(-1, Math.min(moments.length - 1, number));
  const moment = moments[current];
  byId("slider").value = current;
  byId("time").textContent = moment ? `${seconds(moment.at)} (${current + 1}/${moments.length})` : "start";
  if (moment && moment.kind === "change") chosen = moment.key;
  [...byId("moments").children].forEach((row, index) => {
    row.classList.toggle("selected", index === current);
    row.classList.toggle("later", index > current);
  });
  const row = byId("moments").children[current];
  if (row) row.scrollIntoView({ block: "nearest" });
  const objects = byId("objects"), details = byId("details");
  objects.replaceChildren(); details.replaceChildren();
  const found = [...objectsAt(current).keys()].sort();
  objects.append(element("h2", `${found.length} objects`));
  for (const key of found) {
    const each = element("div", key, `row${moment && moment.key === key ? " changed" : ""}${key === chosen ? " selected" : ""}`);
    each.title = key;
    each.onclick = () => {
      chosen = key;
      for (const row of objects.children) row.classList.toggle("selected", row === each);
      render(key);
    };
    objects.append(each);
  }
  render(chosen);
}

function render(key) {
  const details = byId("details"), moment = moments[current];
  details.replaceChildren();
  if (moment) {
    details.append(element("p", moment.text, moment.actor));
    showQueues(details, moment.queues);
    if (moment.kind === "reconcile") showReconcile(details, moment.reconcile);
  }
  if (key) showObject(details, key);
}

byId("summary").textContent = `${data.source || "a recording"}, ${data.start}, ${data.duration.toFixed(1)} s; `
  + `${moments.length} moments, ${data.differences.length} differences`;
for (const each of data.violations) byId("violations").append(element("li", `${each.check}: ${each.message}`));
moments.forEach((moment, index) => {
  const failed = moment.kind === "reconcile" && moment.reconcile.error ? " failed" : "";
  const row = element("div", undefined, `row ${moment.actor}${failed}`);
  row.append(element("time", seconds(moment.at)), document.createTextNode(moment.text));
  row.title = moment.text;
  row.onclick = () => show(index);
  byId("moments").append(row);
});
byId("slider").max = moments.length - 1;
byId("slider").oninput = (event) => show(Number(event.target.value));
byId("back").onclick = () => show(current - 1);
byId("forward").onclick = () => show(current + 1);
document.onkeydown = (event) => {
  if (event.target.id === "slider") return;
  if (event.key === "ArrowLeft") show(current - 1);
  if (event.key === "ArrowRight") show(current + 1);
};
show(-1);
