"""Says which lines a chart of `weir bench --chart` has: read_chart.py FILE."""

import sys
import xml.etree.ElementTree as tree

SVG = "{http://www.w3.org/2000/svg}"

lines = []
for series in tree.parse(sys.argv[1]).iter(SVG + "g"):
    if series.get("class") == "series":
        points = series.findall(SVG + "circle")
        on_line = series.find(SVG + "polyline").get("points").split()
        assert [f"{p.get('cx')},{p.get('cy')}" for p in points] == on_line
        hollow = sum(p.get("fill") == "#ffffff" for p in points)
        lines.append(f"{series.get('data-subject')}: {len(points)} points, {hollow} hollow")
print("; ".join(lines))
