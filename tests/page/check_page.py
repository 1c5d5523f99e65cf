"""The timeline page as a person uses it, in a headless Chromium.

    check_page.py BUILD_DIR [--images DIR]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

from browser import Browser, find_chromium
import kernels
import synthetic

FAILURES = []


def check(holds, what):
    if not holds:
        FAILURES.append(what)
        print(f"FAIL {what}")


def near(a, b, share=1e-6):
    return abs(a - b) <= share * max(abs(a), abs(b), 1)


class Page:
    """One page in the browser, and what tests ask of it."""

    def __init__(self, browser, path, **more):
        self.b = browser
        browser.open(path, **more)

    def view(self):
        return self.b.eval("({from: weir.timeline.view.from, to: weir.timeline.view.to})")

    def stage(self):
        return self.b.eval("(r => ({x: r.left, y: r.top, w: r.width, h: r.height}))"
                           "(document.getElementById('canvas').getBoundingClientRect())")

    def place(self, op, trace=0):
        """Where an operator's bar is on the screen."""
        return self.b.eval(
            "(() => { const t = weir.timeline, r = weir.traces[%d], p = t.painter;"
            "const row = t.rows.rows.find(x => x.kind === 'stream' && x.trace === r && "
            "x.stream === r.stream[%d]), box = t.canvas.getBoundingClientRect();"
            "return {x: box.left + p.x(t.view, (r.start[%d] + r.end[%d]) / 2),"
            "y: box.top + 56 + row.y - t.view.y + row.h / 2}; })()" % (trace, op, op, op))

    def quiet(self, name):
        check(not self.b.complaints, f"{name}: console errors: {self.b.complaints}")
        others = [u for u in self.b.requests if not u.startswith(("file:", "data:"))]
        check(not others, f"{name}: asked the network for {others}")
        check(len([u for u in self.b.requests if u.startswith("file:")]) == 1,
              f"{name}: asked for other files: {self.b.requests}")


def bars_are_the_recorded_ones(browser, work):
    """The seed's model: order and times on the page equal those that were recorded."""
    for file in ("one_stream", "three_streams"):
        with open(f"{work}/{file}.json") as f:
            recorded = [e for e in json.load(f)["traceEvents"] if e.get("cat") == "op"]
        page = Page(browser, f"{work}/{file}.html")
        shown = browser.eval("(t => Array.from(t.start, (s, i) => ({name: t.nameOf(i), start: s,"
                             "took: t.end[i] - s, stream: t.streamName(i)})))(weir.traces[0])")
        first = min(e["ts"] for e in recorded)
        check(len(shown) == len(recorded) == 16, f"{file}: {len(shown)} of {len(recorded)} bars")
        for bar, event in zip(shown, recorded):
            check(bar["name"] == event["name"] and near(bar["start"], (event["ts"] - first) * 1e3)
                  and near(bar["took"], event["dur"] * 1e3), f"{file}: {bar} is not {event}")
        # and they are drawn: the middle of each bar is what the pointer finds there
        for op in range(len(shown)):
            spot = page.place(op)
            found = browser.eval("(b => weir.timeline.hit(%f - b.left, %f - b.top).op)"
                                 "(weir.timeline.canvas.getBoundingClientRect())" % (spot["x"], spot["y"]))
            check(found == op, f"{file}: bar {op} is drawn where {found} is")
        page.quiet(file)


def zooms_and_pans(browser, path):
    page = Page(browser, path)
    box, whole = page.stage(), page.view()
    x, y = box["x"] + box["w"] / 2, box["y"] + 80
    browser.wheel(x, y, -300)
    closer = page.view()
    check(closer["to"] - closer["from"] < (whole["to"] - whole["from"]) * 0.6, "the wheel zooms in")
    browser.wheel(x, y, 0 + 200, shift=True)
    moved = page.view()
    check(moved["from"] > closer["from"] and near(moved["to"] - moved["from"],
                                                  closer["to"] - closer["from"]), "shift and wheel pans")
    browser.drag(x, y, x + 200, y)
    dragged = page.view()
    check(dragged["from"] < moved["from"], "dragging pans")
    for key, holds, what in [
            ("ArrowRight", lambda v, w: w["from"] > v["from"], "the right arrow pans"),
            ("a", lambda v, w: w["from"] < v["from"], "a pans back"),
            ("w", lambda v, w: w["to"] - w["from"] < v["to"] - v["from"], "w zooms in"),
            ("-", lambda v, w: w["to"] - w["from"] > v["to"] - v["from"], "- zooms out"),
            ("0", lambda v, w: near(w["from"], whole["from"]) and near(w["to"], whole["to"]),
             "0 shows everything")]:
        before = page.view()
        browser.key(key)
        check(holds(before, page.view()), what)
    page.quiet("zoom")


def tells_about_bars_and_gaps(browser, path):
    page = Page(browser, path)
    spot = page.place(9)
    browser.mouse("mouseMoved", spot["x"], spot["y"])
    tip = browser.eval("document.getElementById('tip').hidden ? '' : document.getElementById('tip').textContent")
    check("MatMul" in tip and "cube" in tip and "stream" in tip, f"hover tells the operator: {tip!r}")
    browser.click(spot["x"], spot["y"])
    text = browser.eval("document.getElementById('selected').textContent")
    check("MatMul" in text and "queued" in text, f"a click selects: {text!r}")
    check("waited for" in text, f"what it waited for is told: {text!r}")
    browser.key("]")
    check(browser.eval("weir.timeline.selected.op") == 10, "] selects the next operator")
    browser.key("Enter")
    # Three times as wide as the operator, which may be much of the run.
    check(browser.eval("(v => v.to - v.from)(weir.timeline.view)") <=
          max(browser.eval("weir.traces[0].makespan") / 2,
              3.1 * browser.eval("(t => t.end[10] - t.start[10])(weir.traces[0])")), "Enter zooms to it")
    check("MatMul" in browser.eval("document.getElementById('live').textContent"),
          "a screen reader hears of it")
    gaps = browser.eval("weir.traces[0].gap(9).map(g => g[3])")
    check(any(g.startswith("waiting for") for g in gaps), f"the gap before it is explained: {gaps}")
    browser.key("Escape")
    check(browser.eval("weir.timeline.selected") is None, "Escape clears")
    page.quiet("hover")


def searches_and_marks(browser, path):
    page = Page(browser, path)
    browser.key("/")
    for letter in "add":
        browser.key(letter)
    check(browser.eval("document.getElementById('found').textContent") == "8 found", "search finds")
    browser.key("Enter")
    check(browser.eval("weir.traces[0].nameOf(weir.timeline.selected.op)") == "Add", "and goes there")
    browser.key("Escape")
    check(browser.eval("weir.traces[0].matched") is None, "Escape ends the search")
    rows = browser.eval("document.querySelectorAll('#path tr').length")
    steps = browser.eval("weir.traces[0].path.length")
    check(rows == steps + 1 > 4, f"the critical path is listed: {rows} rows")
    check(browser.eval("(t => t.path.every((op, i) => !i || t.start[op] >= t.start[t.path[i - 1]]))"
                       "(weir.traces[0])"), "the critical path goes forward")
    red = "weir.timeline.painter.colour.critical"
    count = ("(() => { const c = weir.timeline.canvas, d = c.getContext('2d').getImageData(0, 0, c.width,"
             "c.height).data, s = %s; let n = 0; for (let i = 0; i < d.length; i += 4)"
             "n += d[i] === parseInt(s.slice(1, 3), 16) && d[i + 1] === parseInt(s.slice(3, 5), 16);"
             "return n; })()" % red)
    shown = browser.eval(count)
    browser.key("c")
    check(browser.eval(count) < shown / 10 and shown > 500, "c hides the critical path")
    browser.key("t")
    check(browser.eval("document.documentElement.dataset.theme") == "dark", "t changes the theme")
    page.quiet("search")


def compares(browser, path):
    page = Page(browser, path)
    text = browser.eval("document.getElementById('chips').textContent")
    check("A: took" in text and "B: took" in text and ("faster" in text or "slower" in text),
          f"two traces are compared: {text!r}")
    check(browser.eval("document.querySelector('#table tr').textContent").endswith("B − A"),
          "with a table of differences")
    page.quiet("compare")


def names_kernels_shortly(browser, path):
    page = Page(browser, path)
    rows = browser.eval("[...document.querySelectorAll('#table tr')].map(r => [...r.children].map(c => c.textContent))")
    check(rows[0] == ["operator", "count A", "count B", "A", "B", "B − A"], f"both counts have a column: {rows[0]}")
    check(rows[1][:3] == ["Memcpy HtoD (Pageable -> Device)", "18", "200"], f"what changed most comes first: {rows[1]}")
    names = [r[0] for r in rows[1:]]
    check("vectorized_elementwise_kernel<CUDAFunctor_add>" in names, f"long names are shortened: {names}")
    check("softmax_warp_forward" in names, f"also of anonymous namespaces: {names}")
    title = browser.eval("[...document.querySelectorAll('#table button')].find(b => "
                         "b.textContent.startsWith('vectorized')).title")
    check(title == kernels.ADD, f"hovering tells the whole name: {title!r}")
    steps = browser.eval("document.querySelectorAll('#path tr').length")
    check(steps <= 12, f"the critical path groups what repeats: {steps} rows")
    check(browser.eval("!document.body.innerText.includes('rank') && "
                       "weir.timeline.rows.rows.every(r => r.kind !== 'device')"), "the only device has no rank")
    gemm = browser.eval("weir.traces[0].names.findIndex(n => n.startsWith('ampere'))")
    op = browser.eval(f"Array.from(weir.traces[0].name).indexOf({gemm})")
    browser.eval(f"weir.timeline.select(weir.traces[0], {op}, true)")
    check("model.py:12 (forward)" in browser.eval("document.getElementById('selected').textContent"),
          "an operator shows the line of the program")
    browser.eval("document.getElementById('by-line').click()")
    rows = browser.eval("[...document.querySelectorAll('#table tr')].map(r => [...r.children].map(c => c.textContent))")
    check(["line", "model.py:12 (forward)", "10", "10"] == [rows[0][0], *rows[-1][:3]], f"the table adds up by line: {rows}")
    page.quiet("kernels")


def grows_while_watched(browser, build, work):
    """`weir trace watch` in the browser: the timeline grows, and ends with the program."""
    weir, root = os.path.join(build, "weir"), os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    program = f"{work}/watched"
    subprocess.run(["cc", f"-I{root}/include", f"{root}/tests/page/watched.c", "-o", program,
                    f"-L{build}", "-lweir", f"-Wl,-rpath,{os.path.abspath(build)}"], check=True)
    os.mkdir(f"{work}/sockets", 0o700)
    env = {**os.environ, "WEIR_WATCH": f"{work}/sockets"}
    watch = subprocess.Popen([weir, "trace", "watch", "--quit", "--html", f"{work}/last.html", "--", program],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    address = watch.stdout.readline().strip()
    browser.open(address)
    browser.wait_for("weir.traces[0].n > 20")
    before = browser.eval("weir.traces[0].n")
    browser.wait_for(f"weir.traces[0].n > {before} && document.getElementById('state').textContent === 'live'")
    check(browser.eval("weir.traces[0].streams.map(s => s.name).join()").count("left") == 1, "streams have their names")
    check(browser.eval("weir.timeline.view.to >= weir.traces[0].makespan"), "all of it stays in view")
    check(all(u.startswith(address) or u.startswith("data:") for u in browser.requests),
          f"nothing else is asked for: {set(browser.requests)}")
    shown = browser.eval("weir.traces[0].n")
    browser.screenshot(os.environ.get("WATCH_PICTURE", f"{work}/watch.png"))
    watch.stdin.close()
    check(watch.wait(60) == 0, "the watch ends with the program")
    browser.wait_for("document.getElementById('state').textContent !== 'live'")
    browser.complaints = [c for c in browser.complaints if "ERR_CONNECTION_REFUSED" not in c]
    check(not browser.complaints, f"watch: console errors: {browser.complaints}")
    Page(browser, f"{work}/last.html")
    check(browser.eval("weir.traces[0].n") >= shown, "the last page has all that was shown")


def stays_smooth(browser, path, operators):
    """Drawn in time, and panned in time, by the processor time of the page's thread."""
    before = browser.cpu_ms()
    page = Page(browser, path)
    after = browser.cpu_ms()
    ready = after - before if after > before else after  # a new process counts from 0
    check(browser.eval("weir.traces[0].n") == operators, "all operators are there")
    check(ready < 2000, f"{operators} operators drawn after {ready:.0f} ms")
    box = page.stage()
    browser.wheel(box["x"] + box["w"] / 2, box["y"] + 80, -200)
    frames = browser.eval("weir.timeline.frames.length")
    before = browser.cpu_ms()
    browser.eval("(async () => { for (let i = 0; i < 30; i++) { weir.timeline.pan(0.01);"
                 "await new Promise(requestAnimationFrame); } })()")
    frames = browser.eval("weir.timeline.frames.length") - frames
    frame = (browser.cpu_ms() - before) / max(frames, 1)
    check(frames >= 25, f"panning draws: {frames} frames")
    check(frame < 1000 / 30, f"a frame takes {frame:.1f} ms")
    print(f"{operators} operators: drawn after {ready:.0f} ms, panning {frame:.1f} ms a frame")
    page.quiet("many operators")


def fits_paper_and_phones(browser, path):
    page = Page(browser, path, width=400, height=800)
    check(browser.eval("document.documentElement.scrollWidth") <= 400, "nothing is wider than 400 px")
    check(page.stage()["w"] >= 390, "the timeline has the whole width")
    pdf = browser.pdf()
    check(pdf.startswith(b"%PDF") and len(pdf) > 10000, "it prints")
    check(pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") <= 4, "on few pages")
    page.quiet("phone")


def decode_step(weir, path):
    """The page of a few layers of a large model, two dies of many."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/deepseek/decode.py")
    with open(f"{path}.pbtxt", "w") as graph:
        subprocess.run([sys.executable, script, "--dies", "320", "--layers", "9", "--placement",
                        "microbatch"], check=True, stdout=graph)
    subprocess.run([weir, "run", f"{path}.pbtxt", "--ranks", "2", "--device", "npu:a3,compute=off",
                    "--html", f"{path}.html", "--json"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def pictures(browser, work, out):
    os.makedirs(out, exist_ok=True)
    for dark in (False, True):
        theme = "dark" if dark else "light"
        Page(browser, f"{work}/decode.html", height=800, dark=dark)
        browser.eval("weir.timeline.select(weir.traces[0], 26, false)")
        browser.screenshot(f"{out}/timeline-{theme}.png")
        Page(browser, f"{work}/pictures.html", height=860, dark=dark)
        browser.screenshot(f"{out}/compare-{theme}.png")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("build")
    options.add_argument("--images")
    options = options.parse_args()
    weir = os.path.join(options.build, "weir")
    with tempfile.TemporaryDirectory(prefix="weir-page-") as work:
        def page(name, *files):
            subprocess.run([weir, "trace", *files, "--html", f"{work}/{name}.html", "--json"],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return f"{work}/{name}.html"

        subprocess.run([os.path.join(options.build, "examples", "timeline"), work], check=True,
                       stdout=subprocess.DEVNULL)
        page("one_stream", f"{work}/one_stream.json")
        three = page("three_streams", f"{work}/three_streams.json")
        both = page("both", f"{work}/one_stream.json", f"{work}/three_streams.json")
        synthetic.write(f"{work}/many.json", 100000)
        browser = Browser(find_chromium())
        try:
            if options.images:
                # On the model, where a picture is the same wherever it is taken.
                subprocess.run([os.path.join(options.build, "examples", "guide"), work], check=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                decode_step(weir, f"{work}/decode")
                page("pictures", f"{work}/one_stream.json", f"{work}/two_streams.json")
                pictures(browser, work, options.images)
            else:
                bars_are_the_recorded_ones(browser, work)
                zooms_and_pans(browser, three)
                tells_about_bars_and_gaps(browser, three)
                searches_and_marks(browser, three)
                compares(browser, both)
                kernels.write(f"{work}/a.json", 18)
                kernels.write(f"{work}/b.json", 200)
                names_kernels_shortly(browser, page("kernels", f"{work}/a.json", f"{work}/b.json"))
                grows_while_watched(browser, options.build, work)
                fits_paper_and_phones(browser, three)
                stays_smooth(browser, page("many", f"{work}/many.json"), 100000)
        finally:
            browser.close()
    print("the page works" if not FAILURES else f"{len(FAILURES)} failed")
    return 1 if FAILURES else 0


sys.exit(main())
