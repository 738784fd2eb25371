// The pages work without this script. It adds live updates, ages instead of times, copy buttons, and keyboard shortcuts.
"use strict";
(() => {
  const { stream, query, build } = document.body.dataset;
  const live = document.getElementById("live");
  const SILENCE = 45000; // three missed heartbeats
  let version = document.body.dataset.version;
  let source = null;
  let heard = Date.now();
  let lost = null;
  let again = 0;

  // Live updates: each element from the server replaces the one with the same id.
  const say = (state, words) => {
    live.className = state;
    if (live.textContent !== words) live.textContent = words;
  };
  const hear = () => {
    heard = Date.now();
    lost = null;
    say("live", "live");
  };
  const lose = () => {
    lost ??= new Date();
    say("lost", `reconnecting since ${lost.toLocaleTimeString()}`);
  };
  const connect = () => {
    clearTimeout(again);
    source?.close();
    const parameters = new URLSearchParams(query);
    parameters.set("have", version);
    parameters.set("build", build);
    source = new EventSource(`${stream}?${parameters}`);
    const own = source;
    own.addEventListener("open", hear);
    own.addEventListener("beat", hear);
    own.addEventListener("reload", () => location.reload());
    own.addEventListener("patch", (message) => {
      hear();
      patch(JSON.parse(message.data));
      version = message.lastEventId;
    });
    own.addEventListener("error", () => {
      lose();
      // A rejected request closes an EventSource; after other errors it reconnects on its own.
      if (own.readyState === EventSource.CLOSED) again = setTimeout(connect, 3000 + Math.random() * 4000);
    });
  };
  const patch = (changes) => {
    const isLarge = document.getElementsByTagName("td").length > 1000; // on large pages the animated outline is slow
    for (const [id, html] of changes) {
      const old = document.getElementById(id);
      const template = document.createElement("template");
      template.innerHTML = html;
      const fresh = template.content.firstElementChild;
      if (!old || !fresh) return location.reload();
      dress(fresh);
      if (old.outerHTML === fresh.outerHTML) continue;
      const focused = old.contains(document.activeElement) ? document.activeElement : null;
      const scrolled = old.matches(".scroll") ? [old.scrollLeft, old.scrollTop] : null; // reading these forces a layout
      if (old.hasAttribute("aria-live")) old.replaceChildren(...fresh.childNodes);
      else old.replaceWith(fresh);
      const now = document.getElementById(id);
      if (scrolled) now.scrollTo(...scrolled);
      if (!isLarge && now.matches("td, tr, li")) now.classList.add("changed");
      if (focused) refocus(now, focused);
    }
  };
  const refocus = (now, focused) => {
    const same = (element) => element.getAttribute("href") === focused.getAttribute("href");
    const found = focused.id
      ? document.getElementById(focused.id)
      : [...now.querySelectorAll(focused.localName)].find(same);
    (found ?? now.querySelector("a[href], button") ?? document.getElementById("main")).focus({ preventScroll: true });
  };

  // Ages instead of times, as kubectl writes them.
  const [minute, hour, day, year] = [60, 3600, 86400, 31536000];
  const age = (seconds) => {
    const one = (unit, word) => `${Math.floor(seconds / unit)}${word}`;
    const two = (unit, word, small, smaller) => {
      const rest = Math.floor((seconds % unit) / small);
      return one(unit, word) + (rest ? `${rest}${smaller}` : "");
    };
    if (seconds < 2 * minute) return one(1, "s");
    if (seconds < 10 * minute) return two(minute, "m", 1, "s");
    if (seconds < 3 * hour) return one(minute, "m");
    if (seconds < 8 * hour) return two(hour, "h", minute, "m");
    if (seconds < 2 * day) return one(hour, "h");
    if (seconds < 8 * day) return two(day, "d", hour, "h");
    if (seconds < 2 * year) return one(day, "d");
    if (seconds < 8 * year) return two(year, "y", day, "d");
    return one(year, "y");
  };
  const tick = (root) => {
    for (const time of root.querySelectorAll("time[datetime]")) {
      time.title ||= time.textContent;
      const seconds = Math.round((Date.now() - Date.parse(time.dateTime)) / 1000);
      const text = seconds < 0 ? `in ${age(-seconds)}` : `${age(seconds)} ago`;
      if (time.textContent !== text) time.textContent = text;
    }
  };
  const dress = (root) => {
    tick(root);
    for (const button of root.querySelectorAll("button.copy, .keys")) button.hidden = false;
  };

  // Commands to copy.
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      getSelection().selectAllChildren(code); // no permission, or no https: select the text to be copied manually
      button.textContent = "Selected";
      return;
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });

  // Keyboard shortcuts.
  const step = (by) => {
    const links = [...document.querySelectorAll("main a[href]")].filter((link) => link.checkVisibility?.() ?? true);
    const at = links.indexOf(document.activeElement);
    const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by;
    links[Math.min(Math.max(next, 0), links.length - 1)]?.focus();
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.closest("input")) return event.target.blur();
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, textarea, select, dialog")) return;
    const fleet = document.querySelector("nav a");
    const search = document.getElementById("search");
    const deeds = {
      "/": () => { if (search) search.focus(); else location.assign(`${fleet.href}#search`); },
      j: () => step(1),
      k: () => step(-1),
      g: () => fleet.click(),
      "?": () => document.getElementById("keys").showModal(),
    };
    const deed = deeds[event.key];
    if (!deed) return;
    event.preventDefault();
    deed();
  });

  // A hidden window closes its stream: a browser has few connections per host. Once visible again, it gets all missed changes.
  const look = () => {
    if (document.hidden) {
      clearTimeout(again);
      source?.close();
      source = null;
      say("", "paused while hidden");
    } else if (!source) connect();
  };
  document.addEventListener("visibilitychange", look);
  addEventListener("pagehide", () => { source?.close(); source = null; });
  addEventListener("pageshow", look);
  setInterval(() => {
    tick(document);
    if (source && Date.now() - heard > SILENCE) {
      heard = Date.now();
      lose();
      connect();
    }
  }, 1000);
  dress(document);
  if (location.hash === "#search") document.getElementById("search")?.focus();
  look();
})();
