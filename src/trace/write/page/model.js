// The page's model of a trace: columns of numbers, rows to draw, and queries.

const ENGINES = ["cube", "vector", "mix", "sdma", "host"];
// What an operator of the critical path waited for, in the order of weir_trace_cause.
const WHY = ["the host", "stream order", "a sync", "busy cores"];

// Returns the running sums of differences.
function sums(deltas) {
  const out = new Float64Array(deltas.length);
  let at = 0;
  for (let i = 0; i < deltas.length; i++)
    out[i] = at += deltas[i];
  return out;
}

// Returns the first index in [low, high) whose value is above `x`.
function above(values, x, low, high) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= x)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// A step function with its integral: the mean over any span takes two binary searches.
class Steps {
  constructor(times, values) {
    this.times = times;
    this.values = values;
    this.area = new Float64Array(times.length);
    this.most = 0;
    for (let i = 0; i < times.length; i++) {
      if (i)
        this.area[i] = this.area[i - 1] + values[i - 1] * (times[i] - times[i - 1]);
      if (values[i] > this.most)
        this.most = values[i];
    }
  }
  integral(t) {
    const i = above(this.times, t, 0, this.times.length) - 1;
    return i < 0 ? 0 : this.area[i] + this.values[i] * (t - this.times[i]);
  }
  at(t) {
    const i = above(this.times, t, 0, this.times.length) - 1;
    return i < 0 ? 0 : this.values[i];
  }
  mean(from, to) {
    return to > from ? (this.integral(to) - this.integral(from)) / (to - from) : this.at(from);
  }
}

// Builds a step function that counts overlapping spans.
function usage(starts, ends) {
  const n = starts.length, a = Float64Array.from(starts).sort(), b = Float64Array.from(ends).sort();
  const times = [], values = [];
  let i = 0, k = 0;
  while (k < n) {
    const t = i < n && a[i] < b[k] ? a[i] : b[k];
    while (i < n && a[i] === t) i++;
    while (k < n && b[k] === t) k++;
    times.push(t);
    values.push(i - k);
  }
  return new Steps(Float64Array.from(times), Float64Array.from(values));
}

class Trace {
  constructor(data) {
    const o = data.ops;
    this.title = data.title;
    this.devices = data.devices;
    this.streams = data.streams;
    this.names = data.names;
    this.shorts = data.names.map(shortName);
    this.scopes = data.scopes;
    this.sources = data.sources;
    this.dropped = data.dropped;
    this.n = o.name.length;
    this.name = Uint32Array.from(o.name);
    this.scope = Uint32Array.from(o.scope);
    this.source = Uint32Array.from(o.source);
    this.stream = Uint32Array.from(o.stream);
    this.engine = Uint8Array.from(o.engine);
    this.blocks = o.blocks;
    this.cores = o.cores;
    this.bytes = o.bytes;
    this.seq = o.seq;
    this.start = sums(o.start);
    this.end = this.start.map((t, i) => t + o.dur[i]);
    this.ready = this.start.map((t, i) => t - o.wait[i]);
    this.queued = this.ready.map((t, i) => t - o.queue[i]);
    this.failed = new Set(o.failed);
    this.parts = data.parts;
    this.parts.from = sums(data.parts.start);
    this.parts.to = this.parts.from.map((t, i) => t + data.parts.dur[i]);
    this.waits = data.waits;
    this.shift(data.memory);
    this.path = data.path.op;
    this.why = data.path.why;
    this.critical = new Uint8Array(this.n);
    for (const op of this.path)
      this.critical[op] = 1;
    this.matched = null;
    this.indexStreams();
    this.indexParts();
    this.indexWaits();
    this.memory = this.devices.map((_, d) => this.memoryOf(data.memory, d));
    this.busy = usage(this.start, this.end);
    this.measure();
  }

  // Shifts all times so that the first operator starts at 0: then two traces can be compared.
  shift(memory) {
    let first = Infinity;
    for (const t of this.start)
      first = Math.min(first, t);
    if (!this.n)
      first = 0;
    this.first = first;
    for (const column of [this.start, this.end, this.ready, this.queued, this.parts.from, this.parts.to])
      for (let i = 0; i < column.length; i++)
        column[i] -= first;
    this.waits.reached = this.waits.reached.map(t => t - first);
    this.waits.passed = this.waits.passed.map(t => t - first);
    memory.at = sums(memory.time).map(t => t - first);
  }

  // Operators are sorted by stream, so each stream is a range of them.
  indexStreams() {
    this.range = this.streams.map(() => [0, 0]);
    this.active = new Set(Array.from(this.stream, s => this.streams[s].device)); // devices that ran something
    for (let i = 0, from = 0; i < this.n; i++)
      if (i + 1 === this.n || this.stream[i + 1] !== this.stream[i]) {
        this.range[this.stream[i]] = [from, i + 1];
        from = i + 1;
      }
  }

  // Collects the parts that ran on each core, by time, and how many cores of each kind were busy.
  indexParts() {
    const p = this.parts, lists = this.devices.map(() => new Map());
    this.partOf = new Map();
    for (let i = 0; i < p.op.length; i++) {
      if (!this.partOf.has(p.op[i]))
        this.partOf.set(p.op[i], [i, i + 1]);
      else
        this.partOf.get(p.op[i])[1] = i + 1;
      for (const column of [p.core0, p.core1, p.core2]) {
        const core = column ? column[i] : -1;
        if (core < 0)
          continue;
        const cores = lists[this.streams[this.stream[p.op[i]]].device];
        if (!cores.has(core))
          cores.set(core, []);
        cores.get(core).push(i);
      }
    }
    this.coreRows = lists.map((cores, d) => [...cores.keys()].sort((a, b) => a - b).map(core => {
      const order = cores.get(core).sort((a, b) => p.from[a] - p.from[b]);
      return { core, label: this.coreName(d, core), part: order,
        from: Float64Array.from(order, i => p.from[i]), to: Float64Array.from(order, i => p.to[i]) };
    }));
    this.use = this.devices.map((device, d) => {
      const kinds = device.split ? ["cube", "vector"] : ["core"];
      return kinds.map(kind => {
        const rows = this.coreRows[d].filter(r => kind === "core" ||
          (r.core < device.cube) === (kind === "cube"));
        const total = kind === "vector" ? device.vector : device.cube;
        return { kind, total, steps: usage(rows.flatMap(r => [...r.from]), rows.flatMap(r => [...r.to])) };
      }).filter(u => u.total && u.steps.times.length);
    });
  }

  indexWaits() {
    this.waitsOf = new Map();
    this.waits.op.forEach((op, i) => {
      if (op >= 0)
        this.waitsOf.set(op, [...(this.waitsOf.get(op) || []), i]);
    });
  }

  memoryOf(memory, device) {
    const at = memory.device.map((d, i) => d === device ? i : -1).filter(i => i >= 0);
    return at.length < 2 ? null
      : new Steps(Float64Array.from(at, i => memory.at[i]), Float64Array.from(at, i => memory.allocated[i]));
  }

  measure() {
    let last = 0, serial = 0, path = 0;
    for (let i = 0; i < this.n; i++) {
      last = Math.max(last, this.end[i]);
      serial += this.end[i] - this.start[i];
    }
    for (const op of this.path)
      path += this.end[op] - this.start[op];
    this.makespan = last;
    this.serial = serial;
    this.pathBusy = path;
  }

  coreName(d, core) {
    const device = this.devices[d];
    return !device.split ? `core ${core}` : core < device.cube ? `cube ${core}`
      : `vector ${core - device.cube}`;
  }

  nameOf(op) { return this.shorts[this.name[op]]; }
  fullName(op) { return this.names[this.name[op]]; }
  // Returns the scope of an operator, or else the part of its name before the last "/".
  moduleOf(op) {
    const scope = this.scopes[this.scope[op]], name = this.names[this.name[op]];
    return scope || name.slice(0, Math.max(0, name.lastIndexOf("/")));
  }
  // Returns the program's line, "model.py:40 (forward)".
  lineOf(op) { return this.sources[this.source[op]]; }
  streamName(op) { return this.streams[this.stream[op]].name; }

  before(op) { return op > this.range[this.stream[op]][0] ? op - 1 : -1; }

  // Explains why the stream was idle before the operator: pieces [from, to, kind, text].
  gap(op) {
    const p = this.before(op), from = p < 0 ? 0 : this.end[p], pieces = [];
    let at = from;
    const add = (to, kind, text) => {
      if (to > at)
        pieces.push([at, to, kind, text]);
      at = Math.max(at, to);
    };
    add(Math.min(this.queued[op], this.start[op]), "host", "nothing was queued");
    for (const w of this.waitsOf.get(op) || []) {
      const source = this.waits.source[w];
      add(Math.min(this.waits.passed[w], this.start[op]), "sync", source < 0
        ? "waiting for work before the trace"
        : `waiting for ${this.nameOf(source)} on ${this.streamName(source)}`);
    }
    add(Math.min(this.ready[op], this.start[op]), "host", "nothing was queued");
    add(this.start[op], "core", "waiting for a free core");
    return pieces;
  }

  // Returns the stream's operator at a time, or the next one if the stream is idle then.
  opAt(stream, t) {
    const [from, to] = this.range[stream];
    const i = above(this.start, t, from, to) - 1;
    if (i >= from && t < this.end[i])
      return { op: i, idle: false };
    return { op: i + 1 < to ? i + 1 : -1, idle: true };
  }

  coresOf(op) {
    const range = this.partOf.get(op), cores = new Set();
    for (let i = range ? range[0] : 0; range && i < range[1]; i++)
      for (const column of [this.parts.core0, this.parts.core1, this.parts.core2])
        if (column && column[i] >= 0)
          cores.add(column[i]);
    return [...cores].sort((a, b) => a - b);
  }

  // Returns count, time and first operator of each name, module or line.
  sumsBy(group) {
    const rows = new Map();
    for (let i = 0; i < this.n; i++) {
      const key = group === "module" ? this.moduleOf(i) : group === "line" ? this.lineOf(i) : this.nameOf(i);
      const row = rows.get(key) || { count: 0, time: 0, first: i };
      row.count++;
      row.time += this.end[i] - this.start[i];
      rows.set(key, row);
    }
    return rows;
  }

  // Groups the steps of the critical path by name, stream and cause, the longest group first.
  repeats() {
    const rows = new Map();
    this.path.forEach((op, i) => {
      const key = `${this.nameOf(op)}/${this.stream[op]}/${this.why[i]}`;
      const row = rows.get(key) || { op, why: this.why[i], count: 0, time: 0 };
      row.count++;
      row.time += this.end[op] - this.start[op];
      rows.set(key, row);
    });
    return [...rows.values()].sort((a, b) => b.time - a.time);
  }
}

// ---- short names ----

// Returns the short name of a C++ kernel: without return type, namespaces and parameters, and with
// the one template argument that says what it computes. src/trace/record/short_name.c implements
// the same rules.
function shortName(name) {
  if (!name.includes("::") && !(name.includes("<") && name.includes(">")))
    return name;
  let end = 0;
  for (; end < name.length && name[end] !== "<"; end++)
    if (name[end] === "(") {
      const close = name.indexOf(")", end);
      if (close < 0 || name[close + 1] !== ":")
        break;
      end = close;
    }
  const word = name.slice(0, end).match(/[\w\u0080-\uffff]*$/)[0];
  if (!word)
    return name;
  const args = name[end] === "<" ? name.slice(end).split("(")[0] : "";
  const first = args.match(/[\w\u0080-\uffff]+/);
  if (/^kernel\d?$/i.test(word) && first && !/^\d/.test(first[0]))
    return first[0];
  const telling = args.match(/\w*functor\w*/i) || args.match(/(?<=:)\w+(?!\w|:)/);
  return telling && word !== name ? `${word}<${telling[0]}>` : word;
}

// ---- readable numbers ----

function time(ns) {
  const size = Math.abs(ns);
  const [unit, scale] = size >= 1e9 ? ["s", 1e9] : size >= 1e6 ? ["ms", 1e6]
    : size >= 1e3 ? ["µs", 1e3] : ["ns", 1];
  return `${+(ns / scale).toPrecision(4)} ${unit}`;
}

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < 4; i++)
    n /= 1024;
  return `${+n.toPrecision(3)} ${units[i]}`;
}
