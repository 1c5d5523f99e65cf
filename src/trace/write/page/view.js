// The visible range and the selection, and the input events that change them.

class Timeline {
  constructor(traces) {
    this.traces = traces;
    this.canvas = document.getElementById("canvas");
    this.painter = new Painter(this.canvas);
    this.critical = this.arrows = true;
    const cores = traces.reduce((n, t) => n + t.coreRows.reduce((k, r) => k + r.length, 0), 0);
    this.cores = cores <= 32;
    this.selected = null;
    this.listeners = [];
    // Times start at the first operator, so that two traces can be compared.
    this.all = { from: 0, to: Math.max(1, ...traces.map(t => t.makespan)) };
    this.view = { from: 0, to: 1, y: 0, origin: 0 };
    this.relayout();
    this.painter.readColours();
    this.painter.resize();
    this.fit();
    this.frames = [];
    this.listen();
  }

  // Replaces the traces by newer ones of the same run. If everything was visible, everything stays
  // visible; else the same moment stays in view, although the trace may start later now.
  replace(traces) {
    const { from, to } = this.view, whole = from <= this.all.from && to >= this.all.to;
    const later = traces[0].first - this.traces[0].first;
    this.traces = traces;
    this.all.to = Math.max(1, ...traces.map(t => t.makespan));
    this.select(null, -1);
    this.relayout();
    if (whole)
      this.fit();
    else
      this.show(from - later, to - later);
  }

  relayout() {
    this.rows = layout(this.traces, this);
    // The canvas is no taller than its rows; the panels below use the rest.
    document.getElementById("stage").style.maxHeight = `${TOP + this.rows.height + 12}px`;
    this.scrollTo(this.view.y);
    this.dirty();
  }

  // One frame at a time, and only if something changed.
  dirty() {
    if (this.pending)
      return;
    this.pending = true;
    requestAnimationFrame(() => this.draw());
  }

  draw() {
    const began = performance.now();
    this.pending = false;
    this.painter.paint(this);
    this.frames.push(performance.now() - began);
    if (this.frames.length > 600)
      this.frames.shift();
  }

  resized() {
    this.painter.resize();
    this.scrollTo(this.view.y);
    this.dirty();
  }

  recolour() {
    this.painter.readColours();
    this.dirty();
  }

  // ---- the view ----

  fit() {
    const pad = (this.all.to - this.all.from) * 0.01;
    this.show(this.all.from - pad, this.all.to + pad);
  }

  show(from, to) {
    const least = 10, span = this.all.to - this.all.from;
    let width = Math.min(Math.max(to - from, least), span * 1.5);
    let start = from + (to - from - width) / 2;
    start = Math.min(Math.max(start, this.all.from - width * 0.9), this.all.to - width * 0.1);
    this.view.from = start;
    this.view.to = start + width;
    this.dirty();
  }

  zoom(factor, at) {
    const { from, to } = this.view, middle = at === undefined ? (from + to) / 2 : at;
    this.show(middle - (middle - from) * factor, middle + (to - middle) * factor);
  }

  pan(share) {
    const by = (this.view.to - this.view.from) * share;
    this.show(this.view.from + by, this.view.to + by);
  }

  scrollTo(y) {
    const most = Math.max(0, this.rows.height - (this.painter.h || 0) + TOP + 8);
    this.view.y = Math.min(Math.max(0, y), most);
    this.dirty();
  }

  timeAt(x) {
    const p = this.painter;
    return this.view.from + (x - p.gutter) / (p.w - p.gutter) * (this.view.to - this.view.from);
  }

  // Returns what is under the pointer: {trace, op, idle} for a bar or gap, {row, t} elsewhere.
  hit(x, y) {
    const p = this.painter;
    if (y < TOP || x < p.gutter)
      return null;
    const at = y - TOP + this.view.y, row = this.rows.rows.find(r => at >= r.y && at < r.y + r.h);
    if (!row)
      return null;
    const t = this.timeAt(x), reach = (this.view.to - this.view.from) / (p.w - p.gutter) * 2;
    if (row.kind === "stream") {
      let found = row.trace.opAt(row.stream, t);
      if (found.idle) { // a bar of one pixel is hard to hit: look at its neighbourhood
        const near = row.trace.opAt(row.stream, t + reach);
        const back = row.trace.opAt(row.stream, t - reach);
        found = !near.idle ? near : !back.idle ? back : found;
      }
      return { row, t, trace: row.trace, ...found };
    }
    if (row.kind === "core") {
      const c = row.core, i = above(c.from, t, 0, c.from.length) - 1;
      const on = i >= 0 && t < c.to[i] + reach;
      return { row, t, trace: row.trace, op: on ? row.trace.parts.op[c.part[i]] : -1, idle: !on, core: true };
    }
    return { row, t, trace: row.trace, op: -1, idle: false };
  }

  // ---- the selection ----

  select(trace, op, reveal) {
    this.selected = op >= 0 ? { trace, op } : null;
    if (this.selected && reveal)
      this.reveal(trace, op);
    for (const f of this.listeners)
      f(this.selected);
    this.dirty();
  }

  // Scrolls and zooms just enough to show the operator.
  reveal(trace, op) {
    const from = trace.start[op], to = trace.end[op], span = this.view.to - this.view.from;
    const row = this.rows.rows.find(r => r.kind === "stream" && r.trace === trace && r.stream === trace.stream[op]);
    const pixels = (to - from) * this.painter.scale;
    if (pixels < 3) {
      const width = Math.max((to - from) * 40, 100);
      this.show((from + to - width) / 2, (from + to + width) / 2);
    } else if (from < this.view.from || to > this.view.to) {
      const width = Math.max(span, (to - from) * 1.5);
      this.show((from + to - width) / 2, (from + to + width) / 2);
    }
    if (row && (row.y < this.view.y || row.y + row.h > this.view.y + this.painter.h - TOP))
      this.scrollTo(row.y - (this.painter.h - TOP) / 2);
  }

  zoomToSelected() {
    if (!this.selected)
      return;
    const { trace, op } = this.selected, width = Math.max(trace.end[op] - trace.start[op], 10) * 3;
    const middle = (trace.start[op] + trace.end[op]) / 2;
    this.show(middle - width / 2, middle + width / 2);
  }

  step(by) {
    const s = this.selected;
    if (!s) {
      const row = this.rows.rows.find(r => r.kind === "stream");
      const at = row && row.trace.opAt(row.stream, Math.max(this.view.from, row.trace.start[row.trace.range[row.stream][0]]));
      if (at && at.op >= 0)
        this.select(row.trace, at.op, true);
      return;
    }
    const [low, high] = s.trace.range[s.trace.stream[s.op]];
    this.select(s.trace, Math.min(Math.max(s.op + by, low), high - 1), true);
  }

  stepStream(by) {
    const rows = this.rows.rows.filter(r => r.kind === "stream"), s = this.selected;
    if (!s)
      return this.step(0);
    const at = rows.findIndex(r => r.trace === s.trace && r.stream === s.trace.stream[s.op]);
    const row = rows[Math.min(Math.max(at + by, 0), rows.length - 1)];
    const [low, high] = row.trace.range[row.stream];
    const i = above(row.trace.start, s.trace.start[s.op], low, high);
    this.select(row.trace, Math.min(Math.max(i - 1, low), high - 1), true);
  }

  // ---- pointer ----

  listen() {
    const canvas = this.canvas, pointers = new Map();
    let moved = false, mode = null, pinch = 0;
    const place = e => {
      const box = canvas.getBoundingClientRect();
      return [e.clientX - box.left, e.clientY - box.top];
    };
    canvas.addEventListener("wheel", e => {
      const [x] = place(e);
      e.preventDefault();
      const unit = e.deltaMode === 1 ? 16 : 1;
      if (x < this.painter.gutter)
        this.scrollTo(this.view.y + e.deltaY * unit);
      else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY))
        this.pan((e.deltaX || e.deltaY) * unit / 1000);
      else
        this.zoom(Math.exp(Math.max(-1, Math.min(1, e.deltaY * unit / 300))), this.timeAt(x));
      this.hover(null);
    }, { passive: false });
    canvas.addEventListener("pointerdown", e => {
      const [x, y] = place(e);
      canvas.setPointerCapture(e.pointerId);
      pointers.set(e.pointerId, [x, y]);
      moved = false;
      mode = y < OVERVIEW ? "overview" : "pan";
      if (mode === "overview")
        this.centre(x);
    });
    canvas.addEventListener("pointermove", e => {
      const [x, y] = place(e), last = pointers.get(e.pointerId);
      if (!last)
        return this.hover(this.hit(x, y), x, y);
      if (Math.hypot(x - last[0], y - last[1]) > 3)
        moved = true;
      if (pointers.size === 2) {
        pointers.set(e.pointerId, [x, y]);
        const [a, b] = [...pointers.values()], distance = Math.abs(a[0] - b[0]) + 1;
        if (pinch)
          this.zoom(pinch / distance, this.timeAt((a[0] + b[0]) / 2));
        pinch = distance;
      } else if (mode === "overview") {
        this.centre(x);
      } else if (moved) {
        this.pan((last[0] - x) / (this.painter.w - this.painter.gutter));
        this.scrollTo(this.view.y + last[1] - y);
        pointers.set(e.pointerId, [x, y]);
        this.hover(null);
      }
    });
    const release = e => {
      const [x, y] = place(e), hit = this.hit(x, y);
      if (pointers.delete(e.pointerId) && !moved && mode === "pan")
        this.select(hit && hit.trace, hit && !hit.idle ? hit.op : -1);
      pinch = 0;
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", e => pointers.delete(e.pointerId));
    canvas.addEventListener("pointerleave", () => this.hover(null));
    canvas.addEventListener("dblclick", () => this.zoomToSelected());
    new ResizeObserver(() => this.resized()).observe(canvas);
  }

  centre(x) {
    const p = this.painter, half = (this.view.to - this.view.from) / 2;
    const t = this.all.from + (x - p.gutter) / (p.w - p.gutter) * (this.all.to - this.all.from);
    this.show(t - half, t + half);
  }
}
