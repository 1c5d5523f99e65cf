#!/usr/bin/env python3
"""Whether traces are what the Trace Event Format says and what Perfetto can show of it.

    check_chrome.py TRACE.json...

Knows nothing of weir: the rules are those of the format's description (the phases and the
keys that each must have) and of Perfetto's notes on it: slices of one track nest and never
overlap in part, the ends of a flow lie inside slices, counters are numbers, tracks have
names. For each file it then breaks copies of it, rule by rule, and expects to see it.
"""

import copy
import json
import math
import sys
from collections import defaultdict

# By phase: keys that must be there besides ph, and what they hold.
NUMBER, TEXT, OBJECT, WHOLE = (int, float), str, dict, int
TRACK = {"pid": WHOLE, "tid": WHOLE}
KEYS = {
    "X": {**TRACK, "name": TEXT, "ts": NUMBER, "dur": NUMBER},
    "s": {**TRACK, "name": TEXT, "cat": TEXT, "ts": NUMBER, "id": (int, str)},
    "f": {**TRACK, "name": TEXT, "cat": TEXT, "ts": NUMBER, "id": (int, str), "bp": TEXT},
    "C": {**TRACK, "name": TEXT, "ts": NUMBER, "args": OBJECT},
    "M": {**TRACK, "name": TEXT, "args": OBJECT},
}
METADATA = {"process_name": ("name", TEXT), "thread_name": ("name", TEXT),
            "process_sort_index": ("sort_index", WHOLE), "thread_sort_index": ("sort_index", WHOLE)}


def ns(us):
    """Times are microseconds with fractions; Perfetto counts nanoseconds."""
    return round(us * 1000)


def check_keys(event):
    """What is wrong with one event by itself."""
    keys = KEYS.get(event.get("ph"))
    if keys is None:
        yield f"phase {event.get('ph')!r} is none of {''.join(KEYS)}"
        return
    for key, kind in keys.items():
        if key not in event:
            yield f"a {event['ph']} without {key}"
        elif not isinstance(event[key], kind) or isinstance(event[key], bool):
            yield f"{key} of a {event['ph']} is {event[key]!r}"
        elif kind is NUMBER and not math.isfinite(event[key]):
            yield f"{key} of a {event['ph']} is {event[key]!r}"
    if event["ph"] == "X" and isinstance(event.get("dur"), NUMBER) and event["dur"] < 0:
        yield "a slice that ends before it begins"
    if event["ph"] == "f" and event.get("bp") != "e":
        yield "a flow that does not bind to the slice around its end"
    if event["ph"] == "C":
        values = event.get("args") or {"": None}
        for key, value in values.items():
            if not isinstance(value, NUMBER) or isinstance(value, bool):
                yield f"counter {event.get('name')!r}: {key} is {value!r}"
    if event["ph"] == "M":
        key, kind = METADATA.get(event.get("name"), (None, None))
        if key is None:
            yield f"metadata {event.get('name')!r} is not known"
        elif not isinstance(event.get("args", {}).get(key), kind):
            yield f"{event['name']} without {key}"


def check_nesting(slices):
    """Slices of one track: each is inside the one that is open, or begins when that is over."""
    open_until = []
    for from_, to, name in sorted(slices, key=lambda s: (s[0], -s[1])):
        while open_until and open_until[-1][0] <= from_:
            open_until.pop()
        if open_until and to > open_until[-1][0]:
            yield f"slice {name!r} of {from_} to {to} ns overlaps {open_until[-1][1]!r} in part"
        open_until.append((to, name))


def check_flows(flows, tracks):
    for (cat, name, id_), ends in flows.items():
        what = f"flow {cat}/{name} {id_}"
        if [e["ph"] for e in ends] != ["s", "f"]:
            yield f"{what} is {[e['ph'] for e in ends]}, not a begin and an end"
            continue
        if ns(ends[1]["ts"]) < ns(ends[0]["ts"]):
            yield f"{what} goes back in time"
        for end in ends:
            at = ns(end["ts"])
            # An instant of a slice without length is inside it too.
            if not any(from_ <= at < to or from_ == at == to
                       for from_, to, _ in tracks[end["pid"], end["tid"]]):
                yield f"{what}: its {end['ph']} at {at} ns lies in no slice"


def check(document):
    """All that is wrong, as sentences."""
    if not isinstance(document, dict) or not isinstance(document.get("traceEvents"), list):
        return ["not an object with a list of traceEvents"]
    if document.get("displayTimeUnit", "ms") not in ("ms", "ns"):
        return ["displayTimeUnit is neither ms nor ns"]
    events = document["traceEvents"]
    problems = [problem for event in events for problem in check_keys(event)]
    if problems:
        return problems
    tracks, flows, names = defaultdict(list), defaultdict(list), defaultdict(set)
    last_count = {}
    for e in events:
        if e["ph"] == "X":
            # The length is what Perfetto adds to the beginning.
            tracks[e["pid"], e["tid"]].append((ns(e["ts"]), ns(e["ts"]) + ns(e["dur"]), e["name"]))
        elif e["ph"] in "sf":
            flows[e["cat"], e["name"], e["id"]].append(e)
        elif e["ph"] == "M" and e["name"].endswith("_name"):
            track = e["pid"] if e["name"] == "process_name" else (e["pid"], e["tid"])
            names[track].add(e["args"]["name"])
        elif e["ph"] == "C":
            counter = e["pid"], e["name"]
            if ns(e["ts"]) < last_count.get(counter, -math.inf):
                problems.append(f"counter {counter} goes back in time")
            last_count[counter] = ns(e["ts"])
    for track, slices in tracks.items():
        problems += check_nesting(slices)
        if not names[track]:
            problems.append(f"thread {track} has slices but no name")
        if not names[track[0]]:
            problems.append(f"process {track[0]} has slices but no name")
    problems += [f"track {t} has the names {n}" for t, n in names.items() if len(n) > 1]
    problems += check_flows(flows, tracks)
    return problems


def first(document, phase):
    return next((e for e in document["traceEvents"] if e["ph"] == phase), None)


# One rule each. They get a slice (X), the beginning and the end of a flow, and so on.
BREAKS = {
    "X": [lambda e: e.pop("ts"), lambda e: e.update(dur=-1), lambda e: e.update(pid="one"),
          lambda e: e.update(ts=float("nan")), lambda e: e.update(ph="Q"),
          lambda e: e.update(tid=987654)],
    "s": [lambda e: e.update(ts=e["ts"] + 1e9), lambda e: e.update(id=-5), lambda e: e.pop("cat"),
          lambda e: e.update(tid=987654)],
    "f": [lambda e: e.pop("bp"), lambda e: e.update(ts=-1), lambda e: e.update(ph="s")],
    "C": [lambda e: e.update(args={"cores": "two"}), lambda e: e.update(args={})],
    "M": [lambda e: e.update(args={}), lambda e: e.update(name="thread_colour")],
}


def check_that_it_sees(path, document):
    """Breaks copies of a good trace. returns  how many of them passed as good."""
    unseen = 0
    for phase, breaks in BREAKS.items():
        for number, break_ in enumerate(breaks):
            broken = copy.deepcopy(document)
            event = first(broken, phase)
            if event is None:
                continue
            break_(event)
            if not check(broken):
                print(f"{path}: break {number} of a {phase} is not seen")
                unseen += 1
    # Half of a slice over its neighbour.
    broken = copy.deepcopy(document)
    slice_ = max((e for e in broken["traceEvents"] if e["ph"] == "X"), key=lambda e: e["dur"])
    broken["traceEvents"].append({**slice_, "ts": slice_["ts"] + slice_["dur"] / 2})
    if not check(broken):
        print(f"{path}: an overlap is not seen")
        unseen += 1
    # A counter that goes back.
    broken = copy.deepcopy(document)
    counter = first(broken, "C")
    if counter:
        broken["traceEvents"].append({**counter, "ts": counter["ts"] - 1e6})
        if not check(broken):
            print(f"{path}: a counter that goes back is not seen")
            unseen += 1
    return unseen


def main():
    bad = 0
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for path in sys.argv[1:]:
        with open(path) as file:
            document = json.load(file)
        problems = check(document)
        for problem in problems[:20]:
            print(f"{path}: {problem}")
        bad += len(problems)
        if not problems:
            bad += check_that_it_sees(path, document)
    sys.exit(bad > 0)


main()
