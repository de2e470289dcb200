// tools/site_hooks.py adds this script to every page.
(function () {
  "use strict";
  // The dialog of the search has no name for screen readers.
  addEventListener("DOMContentLoaded", () => {
    const search = document.querySelector(".md-search");
    if (search) search.setAttribute("aria-label", "Search");
  });

  // Browsers start no workers for pages from disk (file:). There, the search runs in a hidden frame instead, with
  // the same interface: messages in, messages out.
  if (location.protocol !== "file:") return;

  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inner = this.frame.contentWindow;
      this.ready = new Promise((resolve) => this.frame.addEventListener("load", resolve, { once: true }));
      window.addEventListener("message", (event) => {
        if (event.source !== inner) return;
        const copy = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(copy);
        if (this.onmessage) this.onmessage(copy);
      });
      const script = (source) => `<script src="${source}"><\/script>`;
      const setup =
        "postMessage = (data) => parent.postMessage(data, '*');" +
        "importScripts = (...sources) => Promise.all(sources.map((source) => new Promise((resolve) => {" +
        "  const element = document.createElement('script');" +
        "  element.src = source; element.onload = resolve; document.body.appendChild(element); })));";
      inner.document.open();
      inner.document.write(`<html><body><script>${setup}<\/script>${script(url)}</body></html>`);
      inner.document.close();
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  }

  window.Worker = FrameWorker;
})();
