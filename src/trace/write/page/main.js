// Builds the page.

function readTraces(from) {
  return [...from.querySelectorAll("script[type='application/json']")].map(e => new Trace(JSON.parse(e.textContent)));
}

// Reloads the data of a page that `weir trace watch` serves, until the program has ended.
async function follow(shown, timeline, panels) {
  const say = text => { document.getElementById("state").textContent = text; };
  for (;;) {
    await new Promise(done => setTimeout(done, 500));
    let answer;
    try {
      answer = await fetch(location.href, { cache: "no-store" });
    } catch {
      return say("the watch has ended");
    }
    const state = answer.headers.get("X-Weir-State");
    say(state === "running" ? "live" : state === "waiting" ? "waiting for the program" : "the program has ended");
    const tag = answer.headers.get("X-Weir-Version");
    if (!answer.ok || tag === shown.version)
      continue;
    shown.version = tag;
    shown.traces = readTraces(new DOMParser().parseFromString(await answer.text(), "text/html"));
    timeline.replace(shown.traces);
    panels.refresh();
  }
}

function setTheme(theme, timeline) {
  document.documentElement.dataset.theme = theme;
  timeline.recolour();
}

function start() {
  const began = performance.now(), get = id => document.getElementById(id);
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  document.documentElement.dataset.theme = prefersDark.matches ? "dark" : "light";
  const traces = readTraces(document), timeline = new Timeline(traces), panels = new Panels(timeline);

  const toggle = (id, change) => {
    const button = get(id);
    button.onclick = () => {
      timeline[id] = !timeline[id];
      button.setAttribute("aria-pressed", timeline[id]);
      change();
    };
    button.setAttribute("aria-pressed", timeline[id]);
  };
  toggle("critical", () => timeline.dirty());
  toggle("arrows", () => timeline.dirty());
  toggle("cores", () => timeline.relayout());
  get("in").onclick = () => timeline.zoom(0.6);
  get("out").onclick = () => timeline.zoom(1 / 0.6);
  get("fit").onclick = () => timeline.fit();
  get("theme").onclick = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark", timeline);
  get("help").onclick = () => {
    get("keys").hidden = !get("keys").hidden;
    get("help").setAttribute("aria-expanded", !get("keys").hidden);
  };
  get("search").addEventListener("input", e => panels.search(e.target.value));
  get("search").addEventListener("keydown", e => {
    if (e.key === "Enter")
      panels.nextMatch(e.shiftKey ? -1 : 1);
    if (e.key === "Escape") {
      e.target.value = "";
      panels.search("");
      timeline.canvas.focus();
    }
    e.stopPropagation();
  });

  const keys = {
    w: () => timeline.zoom(0.7), s: () => timeline.zoom(1 / 0.7),
    "+": () => timeline.zoom(0.7), "=": () => timeline.zoom(0.7), "-": () => timeline.zoom(1 / 0.7),
    a: () => timeline.pan(-0.15), d: () => timeline.pan(0.15),
    ArrowLeft: () => timeline.pan(-0.15), ArrowRight: () => timeline.pan(0.15),
    ArrowUp: () => timeline.scrollTo(timeline.view.y - 60), ArrowDown: () => timeline.scrollTo(timeline.view.y + 60),
    PageUp: () => timeline.scrollTo(timeline.view.y - 400), PageDown: () => timeline.scrollTo(timeline.view.y + 400),
    Home: () => timeline.pan(-1e9), End: () => timeline.pan(1e9),
    "0": () => timeline.fit(), "[": () => timeline.step(-1), "]": () => timeline.step(1),
    "{": () => timeline.stepStream(-1), "}": () => timeline.stepStream(1),
    Enter: () => timeline.zoomToSelected(), Escape: () => timeline.select(null, -1),
    "/": () => get("search").focus(), n: () => panels.nextMatch(1), N: () => panels.nextMatch(-1),
    c: () => get("critical").click(), x: () => get("arrows").click(), o: () => get("cores").click(),
    t: () => get("theme").click(), "?": () => get("help").click(),
  };
  document.addEventListener("keydown", e => {
    const onButton = e.target instanceof HTMLButtonElement && (e.key === "Enter" || e.key === " ");
    if (e.ctrlKey || e.metaKey || e.altKey || onButton || !keys[e.key])
      return;
    e.preventDefault();
    keys[e.key]();
  });
  prefersDark.addEventListener("change", e => setTheme(e.matches ? "dark" : "light", timeline));

  // Prints in the light theme and at the paper's width.
  let screenTheme = null;
  window.addEventListener("beforeprint", () => {
    screenTheme = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    timeline.painter.readColours();
    timeline.painter.resize();
    timeline.draw();
  });
  window.addEventListener("afterprint", () => {
    setTheme(screenTheme, timeline);
    timeline.resized();
  });

  timeline.draw();
  // Gives scripts and tests access to the page's data and state.
  window.weir = { traces, timeline, panels, readyMs: performance.now() - began };
  if (document.querySelector("meta[name='weir-live']"))
    follow(window.weir, timeline, panels);
}

start();
