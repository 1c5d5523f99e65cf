// The elements around the canvas: the tooltip, the panels, the search.

function element(tag, attributes, ...children) {
  const e = Object.assign(document.createElement(tag), attributes);
  e.append(...children);
  return e;
}

// Allows line breaks in a long name after the signs that separate its words.
function breakable(text) {
  return text.split(/(?<=[_:<,/.])/).flatMap((part, i) => i ? [document.createElement("wbr"), part] : [part]);
}

function facts(pairs) {
  const dl = element("dl", { className: "facts" });
  for (const [key, value] of pairs)
    if (value !== "" && value !== undefined)
      dl.append(element("dt", {}, key), element("dd", {}, value));
  return dl;
}

function opFacts(trace, op) {
  const cores = trace.coresOf(op), d = trace.streams[trace.stream[op]].device;
  const names = cores.map(c => trace.coreName(d, c));
  const stream = trace.streams[trace.stream[op]];
  return [
    ["name", trace.fullName(op) === trace.nameOf(op) ? "" : trace.fullName(op)],
    ["stream", `${stream.name}, priority ${stream.priority}`],
    ["rank", trace.active.size > 1 ? `${trace.devices[d].rank} · ${trace.devices[d].name}` : ""],
    ["took", time(trace.end[op] - trace.start[op])],
    ["ran", `${time(trace.start[op])} to ${time(trace.end[op])}`],
    ["engine", ENGINES[trace.engine[op]]],
    ["cores", names.length > 6 ? `${names.length}: ${names[0]} … ${names[names.length - 1]}`
      : names.join(", ")],
    ["blocks", `${trace.blocks[op]}, at most ${trace.cores[op]} at once`],
    ["bytes", trace.bytes[op] ? bytes(trace.bytes[op]) : ""],
    ["scope", trace.scopes[trace.scope[op]]],
    ["line", trace.lineOf(op)],
    ["failed", trace.failed.has(op) ? "yes" : ""],
  ];
}

function gapFacts(trace, op) {
  return trace.gap(op).map(([from, to, , text]) => [time(to - from), text]);
}

class Panels {
  constructor(timeline) {
    this.timeline = timeline;
    this.get = id => document.getElementById(id);
    timeline.hover = (hit, x, y) => this.tip(hit, x, y);
    timeline.listeners.push(s => this.showSelected(s));
    this.refresh();
  }

  // Redraws all panels after the traces changed.
  refresh() {
    this.chips();
    this.legend();
    this.showPath();
    this.showTable();
  }

  // ---- the tooltip ----

  tip(hit, x, y) {
    const tip = this.get("tip");
    if (!hit || (hit.op < 0 && !["use", "memory"].includes(hit.row.kind))) {
      tip.hidden = true;
      return;
    }
    const { trace, op } = hit;
    tip.textContent = "";
    if (hit.row.kind === "use")
      tip.append(`${time(hit.t)}: ${hit.row.use.steps.at(hit.t)} of ${hit.row.use.total} busy`);
    else if (hit.row.kind === "memory")
      tip.append(`${time(hit.t)}: ${bytes(hit.row.steps.at(hit.t))} allocated`);
    else if (hit.idle)
      tip.append(element("b", {}, `idle before ${trace.nameOf(op)}`), facts(gapFacts(trace, op)));
    else
      tip.append(element("b", {}, trace.nameOf(op)), facts(opFacts(trace, op)));
    tip.hidden = false;
    const stage = this.get("stage"), w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = `${Math.max(4, Math.min(x + 14, stage.clientWidth - w - 4))}px`;
    tip.style.top = `${y + 18 + h < stage.clientHeight ? y + 18 : Math.max(4, y - h - 12)}px`;
  }

  // ---- panels ----

  jump(trace, op, text) {
    return element("button", { onclick: () => this.timeline.select(trace, op, true),
      title: text === undefined ? trace.fullName(op) : text },
      ...breakable(text === undefined ? trace.nameOf(op) : text));
  }

  showSelected(s) {
    const box = this.get("selected");
    box.textContent = "";
    if (!s) {
      box.append(element("p", { className: "quiet" }, "Click a bar, or press ", element("kbd", {}, "]"), "."));
      return;
    }
    const { trace, op } = s, why = gapFacts(trace, op), at = trace.path.indexOf(op);
    box.append(element("h3", {}, trace.nameOf(op)), facts([...opFacts(trace, op),
      ["queued", `${time(trace.queued[op])}, ready ${time(trace.ready[op])}`]]));
    for (const w of trace.waitsOf.get(op) || [])
      if (trace.waits.source[w] >= 0)
        box.append(element("p", {}, "waited for ", this.jump(trace, trace.waits.source[w])));
    if (at >= 0)
      box.append(element("p", {}, `on the critical path, step ${at + 1} of ${trace.path.length}: held by ${WHY[trace.why[at]]}`));
    if (why.length)
      box.append(element("p", { className: "quiet" }, "The stream was idle before it:"), facts(why));
    this.get("live").textContent = `${trace.nameOf(op)} on ${trace.streamName(op)}, ` +
      `${time(trace.end[op] - trace.start[op])}, from ${time(trace.start[op])}`;
  }

  showPath() {
    const box = this.get("path"), most = 200;
    box.textContent = "";
    for (const trace of this.timeline.traces) {
      const share = trace.makespan ? Math.round(100 * trace.pathBusy / trace.makespan) : 0;
      // A long path is shown as groups of equal steps.
      const long = trace.path.length > 24;
      const rows = long ? trace.repeats()
        : trace.path.map((op, i) => ({ op, why: trace.why[i], count: 1, time: trace.end[op] - trace.start[op] }));
      const table = element("table", {});
      table.append(element("tr", {}, element("th", {}, "operator"), ...(long ? [element("th", { className: "n" }, "times")] : []),
        element("th", { className: "n" }, "took"), element("th", {}, "held by")));
      for (const row of rows.slice(0, most))
        table.append(element("tr", {},
          element("td", { className: "name" }, this.jump(trace, row.op)),
          ...(long ? [element("td", { className: "n" }, String(row.count))] : []),
          element("td", { className: "n" }, time(row.time)),
          element("td", { className: "quiet" }, WHY[row.why])));
      if (this.timeline.traces.length > 1)
        box.append(element("h3", {}, trace.title));
      box.append(element("p", { className: "quiet" }, `${trace.path.length} operators that decided the end; ` +
        `they ran ${share} % of the time.`), table);
      if (rows.length > most)
        box.append(element("p", { className: "quiet" }, `and ${rows.length - most} more`));
    }
  }

  // Shows counts and times by name, module or line; for two traces side by side, with differences.
  showTable() {
    const traces = this.timeline.traces, box = this.get("table");
    const has = of => traces.some(t => { for (let i = 0; i < t.n; i++) if (of(t, i)) return true; return false; });
    const groups = ["name", ...(has((t, i) => t.moduleOf(i)) ? ["module"] : []), ...(has((t, i) => t.lineOf(i)) ? ["line"] : [])];
    const group = groups.includes(this.group) ? this.group : "name";
    box.textContent = "";
    if (groups.length > 1)
      box.append(...groups.map(g => element("button", { id: `by-${g}`, disabled: g === group,
        onclick: () => { this.group = g; this.showTable(); } }, `by ${g}`)));
    const sums = traces.map(t => t.sumsBy(group)), most = 100;
    const names = [...new Set(sums.flatMap(s => [...s.keys()]))];
    const of = (i, name) => (sums[i].get(name) || { time: 0, count: 0 }), two = traces.length > 1;
    const weight = name => two ? Math.abs(of(1, name).time - of(0, name).time) : of(0, name).time;
    names.sort((a, b) => weight(b) - weight(a));
    const table = element("table", {}), head = text => element("th", { className: "n" }, text);
    table.append(element("tr", {}, element("th", {}, group === "name" ? "operator" : group),
      ...(two ? ["count A", "count B", "A", "B", "B \u2212 A"] : ["count", "time", "share"]).map(head)));
    for (const name of names.slice(0, most)) {
      const from = sums[0].has(name) ? 0 : 1, row = sums[from].get(name), change = two ? of(1, name).time - of(0, name).time : 0;
      table.append(element("tr", {},
        element("td", { className: "name" }, this.jump(traces[from], row.first,
          group === "name" ? undefined : name || `(no ${group})`)),
        ...traces.map((_, i) => element("td", { className: "n" }, String(of(i, name).count))),
        ...traces.map((_, i) => element("td", { className: "n" }, of(i, name).count ? time(of(i, name).time) : "–")),
        element("td", { className: "n" }, two ? `${change > 0 ? "+" : change < 0 ? "\u2212" : ""}${time(Math.abs(change))}`
          : `${traces[0].serial ? (100 * row.time / traces[0].serial).toFixed(1) : 0} %`)));
    }
    box.append(table);
    if (names.length > most)
      box.append(element("p", { className: "quiet" }, `and ${names.length - most} more names`));
  }

  chips() {
    const box = this.get("chips"), traces = this.timeline.traces;
    box.textContent = "";
    const chip = (label, value, className) => box.append(element("span", { role: "listitem", className: className || "" },
      `${label} `, element("b", {}, value)));
    this.get("panels").classList.toggle("two", traces.length > 1);
    this.get("title").textContent = traces.length > 1 ? traces.map(t => t.title).join(" against ") : traces[0].title;
    document.title = `${this.get("title").textContent} · weir`;
    traces.forEach((t, i) => {
      const tag = traces.length > 1 ? `${"AB"[i]}: ` : "";
      const range = t.devices.length && /± [\d.]+ %/.exec(t.devices[0].model || ""); // of a prediction
      chip(`${tag}took`, time(t.makespan) + (range ? ` ${range[0]}` : ""));
      if (traces.length === 1) {
        chip("operators", t.n.toLocaleString("en"));
        chip("streams", String(t.range.filter(r => r[1] > r[0]).length));
        if (t.active.size > 1)
          chip("ranks", String(t.active.size));
        const ranks = t.active.size;
        // The overlap of one rank: ranks overlap anyway.
        chip("overlap", `${t.makespan ? (t.serial / ranks / t.makespan).toFixed(2) : 0}×`);
      }
      for (const use of t.use[0] || [])
        chip(`${tag}${use.kind === "core" ? "cores" : use.kind} busy`,
          `${Math.round(100 * use.steps.mean(0, t.makespan || 1) / use.total)} %`);
      if (t.dropped)
        chip(`${tag}records lost`, t.dropped.toLocaleString("en"));
    });
    if (traces.length > 1) {
      const gain = traces[0].makespan / (traces[1].makespan || 1);
      chip("B is", gain >= 1 ? `${gain.toFixed(2)}× faster` : `${(1 / gain).toFixed(2)}× slower`, gain >= 1 ? "gain" : "");
    }
  }

  legend() {
    this.get("legend").textContent = "";
    const used = new Set(this.timeline.traces.flatMap(t => [...new Set(t.engine)]));
    const entries = ENGINES.filter((_, i) => used.has(i)).map(e => [e, e]);
    entries.push(["critical", "critical path"], ["wait-sync", "waiting for a sync"], ["wait-core", "waiting for cores"]);
    for (const [variable, text] of entries) {
      const box = element("i", {});
      box.style.background = `var(--${variable})`;
      this.get("legend").append(element("span", {}, box, text));
    }
  }

  // ---- search ----

  search(text) {
    const wanted = text.trim().toLowerCase();
    this.matches = [];
    for (const trace of this.timeline.traces) {
      trace.matched = null;
      if (!wanted)
        continue;
      const names = trace.names.map(n => n.toLowerCase().includes(wanted));
      const scopes = trace.scopes.map(n => n.toLowerCase().includes(wanted));
      const sources = trace.sources.map(n => n.toLowerCase().includes(wanted));
      trace.matched = new Uint8Array(trace.n);
      for (let i = 0; i < trace.n; i++)
        if (names[trace.name[i]] || scopes[trace.scope[i]] || sources[trace.source[i]]) {
          trace.matched[i] = 1;
          this.matches.push([trace, i]);
        }
    }
    this.matches.sort((a, b) => a[0].start[a[1]] - b[0].start[b[1]]);
    this.at = -1;
    this.get("found").textContent = !wanted ? "" : this.matches.length
      ? `${this.matches.length.toLocaleString("en")} found` : "none found";
    this.timeline.dirty();
  }

  nextMatch(by) {
    if (!this.matches || !this.matches.length)
      return;
    this.at = (this.at + by + this.matches.length) % this.matches.length;
    if (this.at < 0)
      this.at = 0;
    const [trace, op] = this.matches[this.at];
    this.timeline.select(trace, op, true);
    this.get("found").textContent = `${this.at + 1} of ${this.matches.length.toLocaleString("en")}`;
  }
}
