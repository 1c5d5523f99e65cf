// Draws rows on one canvas. Only visible bars are visited, and at most one per pixel. So the cost
// of a frame depends on the number of pixels, not on the number of operators.

const AXIS = 26, OVERVIEW = 30, TOP = AXIS + OVERVIEW;
const HEIGHT = { trace: 26, device: 22, stream: 26, core: 11, use: 44, memory: 44, space: 10 };
const FONT = "12px system-ui, 'Segoe UI', 'Noto Sans', sans-serif";
const MANY_ARROWS = 1500;

// Rows from top to bottom: {kind, trace, y, h, ...}.
function layout(traces, options) {
  const rows = [];
  let y = 0;
  const add = (kind, trace, more) => {
    rows.push({ kind, trace, y, h: HEIGHT[kind], ...more });
    y += HEIGHT[kind];
  };
  traces.forEach((trace, i) => {
    if (traces.length > 1)
      add("trace", trace, { label: `${"AB"[i]}  ${trace.title}` });
    trace.devices.forEach((device, d) => {
      const streams = trace.streams.map((s, k) => k).filter(k => trace.streams[k].device === d &&
        trace.range[k][0] < trace.range[k][1]);
      if (!streams.length)
        return;
      if (trace.active.size > 1)
        add("device", trace, { label: `rank ${device.rank} · ${device.name}` });
      for (const stream of streams)
        add("stream", trace, { stream, label: trace.streams[stream].name });
      for (const use of trace.use[d])
        add("use", trace, { use, label: use.kind === "core" ? "cores busy" : `${use.kind} busy` });
      if (options.cores)
        for (const core of trace.coreRows[d])
          add("core", trace, { core, label: core.label });
      if (trace.memory[d])
        add("memory", trace, { steps: trace.memory[d], label: "memory" });
      add("space", trace, { label: "" });
    });
  });
  return { rows, height: y };
}

class Painter {
  constructor(canvas) {
    this.canvas = canvas;
    this.c = canvas.getContext("2d", { alpha: false });
  }

  // Reads the colours from the style sheet.
  readColours() {
    const style = getComputedStyle(document.documentElement), get = name => style.getPropertyValue(`--${name}`).trim();
    this.colour = {};
    for (const name of ["bg", "panel", "ink", "quiet", "line", "row", "accent", "critical", "arrow",
      "match", "shade", "wait-sync", "wait-core", "use", "memory", ...ENGINES])
      this.colour[name] = get(name);
    // Text on a bar is black or white, whichever is legible.
    this.onBar = ENGINES.map(e => {
      const [r, g, b] = [1, 3, 5].map(i => parseInt(this.colour[e].slice(i, i + 2), 16));
      return 0.299 * r + 0.587 * g + 0.114 * b > 135 ? "#111317" : "#ffffff";
    });
  }

  resize() {
    const ratio = window.devicePixelRatio || 1, box = this.canvas.getBoundingClientRect();
    this.w = Math.max(100, box.width);
    this.h = Math.max(100, box.height);
    this.canvas.width = Math.round(this.w * ratio);
    this.canvas.height = Math.round(this.h * ratio);
    this.c.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.gutter = this.w < 600 ? 86 : 150;
  }

  x(view, t) { return this.gutter + (t - view.from) / (view.to - view.from) * (this.w - this.gutter); }

  paint(state) {
    const { c, colour } = this, view = state.view;
    this.scale = (this.w - this.gutter) / (view.to - view.from);
    c.fillStyle = colour.panel;
    c.fillRect(0, 0, this.w, this.h);
    c.font = FONT;
    c.textBaseline = "middle";
    this.grid(view);
    c.save();
    c.beginPath();
    c.rect(0, TOP, this.w, this.h - TOP);
    c.clip();
    this.visible = state.rows.rows.filter(r => r.y + r.h > view.y && r.y < view.y + this.h - TOP);
    for (const row of this.visible)
      this.row(state, row, TOP + row.y - view.y);
    if (state.arrows)
      this.syncs(state);
    this.labels(state);
    c.restore();
    this.overview(state);
  }

  grid(view) {
    const { c, colour } = this, span = view.to - view.from;
    let step = 10 ** Math.floor(Math.log10(span));
    const fits = Math.max(2, (this.w - this.gutter) / 110);
    while (span / step < fits / 2) step /= 2;
    while (span / step > fits) step *= 2;
    c.fillStyle = colour.quiet;
    c.strokeStyle = colour.line;
    c.textAlign = "left";
    c.beginPath();
    for (let i = Math.ceil((view.from - view.origin) / step); ; i++) {
      const t = view.origin + i * step, x = Math.round(this.x(view, t)) + 0.5;
      if (x > this.w)
        break;
      c.moveTo(x, OVERVIEW);
      c.lineTo(x, this.h);
      const text = i === 0 ? "0" : time(i * step);
      if (x > this.gutter - 2 && x + 8 + 7 * text.length < this.w)
        c.fillText(text, x + 4, OVERVIEW + AXIS / 2);
    }
    c.stroke();
    c.beginPath();
    c.moveTo(0, TOP - 0.5);
    c.lineTo(this.w, TOP - 0.5);
    c.stroke();
  }

  row(state, row, y) {
    const { c, colour } = this;
    if (row.kind === "stream") {
      c.fillStyle = colour.row;
      c.fillRect(this.gutter, y + 2, this.w - this.gutter, row.h - 4);
      this.stream(state, row, y);
    } else if (row.kind === "core") {
      this.core(state, row, y);
    } else if (row.kind === "use") {
      this.curve(state.view, row.use.steps, row.use.total, y + 4, row.h - 8, colour[row.use.kind] || colour.use);
    } else if (row.kind === "memory") {
      this.curve(state.view, row.steps, row.steps.most, y + 4, row.h - 8, colour.memory);
    }
  }

  // Draws the bars of one row by `each(i, x, w)`. Starts and ends are sorted.
  bars(view, starts, ends, low, high, each) {
    let i = above(ends, view.from, low, high);
    const pixel = 1 / this.scale;
    while (i < high && starts[i] < view.to) {
      const x = Math.max(this.gutter, this.x(view, starts[i])), end = this.x(view, ends[i]);
      let w = Math.min(this.w, end) - x, next = i + 1;
      if (w < 1) { // continue with the first bar that ends at least a pixel later
        w = 1;
        next = above(ends, view.from + (x - this.gutter + 1) * pixel, i + 1, high);
      }
      each(i, x, w);
      i = next;
    }
  }

  stream(state, row, y) {
    const { c, colour } = this, { trace, stream } = row, [low, high] = trace.range[stream];
    let last = -1;
    this.bars(state.view, trace.start, trace.end, low, high, (i, x, w) => {
      const shown = !trace.matched || trace.matched[i];
      c.globalAlpha = !shown ? 0.22 : w > 2 && i % 2 ? 0.86 : 1;
      c.fillStyle = colour[ENGINES[trace.engine[i]]];
      c.fillRect(x, y + 4, w > 4 ? w - 1 : w, row.h - 8);
      if (trace.failed.has(i)) {
        c.fillStyle = colour.critical;
        c.fillRect(x, y + 4, w, 3);
      }
      c.globalAlpha = 1;
      if (state.critical && trace.critical[i]) {
        c.fillStyle = colour.critical;
        c.fillRect(x, y + row.h - 7, w > 4 ? w - 1 : w, 4);
      }
      if (trace.matched && shown) {
        c.strokeStyle = colour.match;
        c.strokeRect(x + 0.5, y + 4.5, Math.max(1, w - 1), row.h - 9);
      }
      if (w > 34)
        this.label(trace.nameOf(i), x, w, y + row.h / 2,
          shown ? this.onBar[trace.engine[i]] : colour.quiet);
      if (this.x(state.view, trace.start[i]) - last > 5)
        this.gaps(state.view, trace, i, y + row.h / 2);
      last = x + w;
    });
    this.selection(state, row, y);
  }

  // Writes text on a bar; if it is too long, only the last part of its path.
  label(text, x, w, y, colour) {
    const { c } = this, room = Math.floor((w - 10) / 6.6);
    if (text.length > room)
      text = text.slice(text.lastIndexOf("/") + 1);
    if (room < 3)
      return;
    c.fillStyle = colour;
    c.textAlign = "left";
    c.fillText(text.length > room ? text.slice(0, room - 1) + "…" : text, x + 5, y);
  }

  gaps(view, trace, op, y) {
    for (const [from, to, kind] of trace.gap(op)) {
      if (kind === "host")
        continue;
      const x = Math.max(this.gutter, this.x(view, from)), end = Math.min(this.w, this.x(view, to));
      if (end - x < 2)
        continue;
      this.c.fillStyle = this.colour[kind === "sync" ? "wait-sync" : "wait-core"];
      this.c.fillRect(x, y - 1, end - x, 2);
    }
  }

  selection(state, row, y) {
    const s = state.selected;
    if (!s || s.trace !== row.trace || row.trace.stream[s.op] !== row.stream)
      return;
    const x = this.x(state.view, row.trace.start[s.op]), end = this.x(state.view, row.trace.end[s.op]);
    this.c.strokeStyle = this.colour.ink;
    this.c.lineWidth = 2;
    this.c.strokeRect(x, y + 3, Math.max(2, end - x), row.h - 6);
    this.c.lineWidth = 1;
  }

  core(state, row, y) {
    const { c, colour } = this, { trace, core } = row, s = state.selected;
    c.fillStyle = colour.row;
    c.fillRect(this.gutter, y + 1, this.w - this.gutter, row.h - 2);
    this.bars(state.view, core.from, core.to, 0, core.part.length, (i, x, w) => {
      const op = trace.parts.op[core.part[i]];
      c.globalAlpha = trace.matched && !trace.matched[op] ? 0.22 : i % 2 ? 0.86 : 1;
      c.fillStyle = s && s.trace === trace && s.op === op ? colour.ink : colour[ENGINES[trace.engine[op]]];
      c.fillRect(x, y + 1, w > 4 ? w - 1 : w, row.h - 2);
      if (state.critical && trace.critical[op]) {
        c.globalAlpha = 1;
        c.fillStyle = colour.critical;
        c.fillRect(x, y + row.h - 4, w > 4 ? w - 1 : w, 3);
      }
    });
    c.globalAlpha = 1;
  }

  curve(view, steps, most, y, h, stroke) {
    const { c } = this, pixel = 1 / this.scale, bottom = y + h;
    c.beginPath();
    c.moveTo(this.gutter, bottom);
    for (let x = this.gutter; x < this.w; x++) {
      const t = view.from + (x - this.gutter) * pixel;
      c.lineTo(x, bottom - h * Math.min(1, steps.mean(t, t + pixel) / (most || 1)));
    }
    c.lineTo(this.w, bottom);
    c.globalAlpha = 0.28;
    c.fillStyle = stroke;
    c.fill();
    c.globalAlpha = 1;
    c.strokeStyle = stroke;
    c.stroke();
  }

  // Draws arrows from the operators waited for to the operators that waited. If there are too many,
  // draws only those of the selected operator.
  syncs(state) {
    const view = state.view, places = new Map(), mine = [], others = [];
    for (const row of state.rows.rows)
      if (row.kind === "stream")
        places.set(`${state.traces.indexOf(row.trace)}/${row.stream}`, TOP + row.y - view.y + row.h / 2);
    state.traces.forEach((trace, id) => {
      const w = trace.waits, s = state.selected && state.selected.trace === trace ? state.selected.op : -1;
      for (let i = 0; i < w.op.length; i++) {
        const to = w.op[i], from = w.source[i];
        if (to < 0 || from < 0 || trace.start[to] < view.from || trace.end[from] > view.to)
          continue;
        if (to === s || from === s)
          mine.push([trace, id, from, to]);
        else if (others.length <= MANY_ARROWS)
          others.push([trace, id, from, to]);
      }
    });
    this.hiddenArrows = others.length > MANY_ARROWS;
    for (const [trace, id, from, to] of this.hiddenArrows ? mine : others.concat(mine)) {
      const a = places.get(`${id}/${trace.stream[from]}`), b = places.get(`${id}/${trace.stream[to]}`);
      this.arrow(this.x(view, trace.end[from]), a, this.x(view, trace.start[to]), b,
        state.selected && mine.some(m => m[0] === trace && m[2] === from && m[3] === to),
        state.critical && trace.critical[from] && trace.critical[to]);
    }
  }

  arrow(x1, y1, x2, y2, mine, critical) {
    const { c, colour } = this, bend = Math.max(10, Math.min(40, Math.abs(x2 - x1) / 2));
    if (x2 < this.gutter)
      return;
    c.strokeStyle = c.fillStyle = mine ? colour.ink : critical ? colour.critical : colour.arrow;
    c.globalAlpha = mine || critical ? 1 : 0.6;
    c.lineWidth = mine ? 2 : 1.2;
    c.beginPath();
    c.moveTo(x1, y1);
    c.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2 - 1, y2);
    c.stroke();
    c.beginPath();
    c.moveTo(x2, y2);
    c.lineTo(x2 - 6, y2 - 3.5);
    c.lineTo(x2 - 6, y2 + 3.5);
    c.fill();
    c.globalAlpha = 1;
    c.lineWidth = 1;
  }

  labels(state) {
    const { c, colour } = this, view = state.view;
    c.fillStyle = colour.panel;
    c.fillRect(0, TOP, this.gutter - 1, this.h);
    c.strokeStyle = colour.line;
    c.beginPath();
    c.moveTo(this.gutter - 0.5, TOP);
    c.lineTo(this.gutter - 0.5, this.h);
    c.stroke();
    c.textAlign = "left";
    for (const row of this.visible) {
      const y = TOP + row.y - view.y + row.h / 2, heading = row.kind === "trace" || row.kind === "device";
      if (row.kind === "trace") {
        c.fillStyle = colour.row;
        c.fillRect(0, y - row.h / 2, this.w, row.h);
      }
      c.font = row.kind === "core" ? FONT.replace("12px", "9px") : heading ? `600 ${FONT}` : FONT;
      c.fillStyle = row.kind === "stream" || heading ? colour.ink : colour.quiet;
      const room = Math.floor((heading ? this.w : this.gutter - 18) / (row.kind === "core" ? 5 : 6.6));
      const text = row.label.length > room ? row.label.slice(0, room - 1) + "…" : row.label;
      c.fillText(text, 10, y);
      if (row.kind === "use" || row.kind === "memory") {
        c.font = FONT.replace("12px", "10px");
        c.fillText(row.kind === "use" ? `of ${row.use.total}` : `to ${bytes(row.steps.most)}`, 10, y + 13);
      }
    }
    c.font = FONT;
  }

  // Draws the whole run in one strip, and marks the visible part.
  overview(state) {
    const { c, colour } = this, view = state.view, all = state.all, w = this.w - this.gutter;
    const whole = { from: all.from, to: all.to };
    const scale = this.scale;
    this.scale = w / (all.to - all.from);
    c.fillStyle = colour.row;
    c.fillRect(0, 0, this.w, OVERVIEW);
    state.traces.forEach((trace, i) => {
      const h = (OVERVIEW - 6) / state.traces.length, y = 3 + i * h;
      trace.devices.slice(0, 4).forEach((_, d) => {
        for (const use of trace.use[d])
          this.curve(whole, use.steps, use.total, y, h - 1, colour[use.kind] || colour.use);
      });
      if (!trace.use.some(u => u.length))
        this.curve(whole, trace.busy, trace.busy.most, y, h - 1, colour.use);
    });
    this.scale = scale;
    const x1 = this.x(whole, view.from), x2 = this.x(whole, view.to);
    c.fillStyle = colour.shade;
    c.fillRect(this.gutter, 0, Math.max(0, x1 - this.gutter), OVERVIEW);
    c.fillRect(x2, 0, this.w - x2, OVERVIEW);
    c.strokeStyle = colour.accent;
    c.strokeRect(Math.max(this.gutter, x1) + 0.5, 0.5, Math.max(3, x2 - x1 - 1), OVERVIEW - 1);
    c.fillStyle = colour.panel;
    c.fillRect(0, 0, this.gutter - 1, TOP - 1);
    c.fillStyle = colour.quiet;
    c.textAlign = "left";
    c.fillText(this.gutter > 100 ? "whole run" : "all", 10, OVERVIEW / 2);
  }
}
