"""A graph file in other letters, or with its nodes at other places, is the same graph."""

import os

import numpy as np

import respelled_files
import weir

COUNT = int(os.environ.get("WEIR_TEST_PROGRAMS", 150))


def test_random_files_in_equivalent_spellings_load_as_the_same_graphs():
    found = []
    for seed in range(COUNT):
        found += respelled_files.try_seed(seed)[1]
    assert not found, "\n".join(found)


def test_a_name_from_before_an_update_in_place_keeps_its_readers_before_it():
    nodes = {
        "out": 'op: "NetOutput" input: "twice" input: "seen"',
        "seen": 'op: "View" input: "twice" attr { key: "shape" value { list { i: 2 i: 1 } } }',
        "sum": 'op: "Add" input: "x" attr { key: "value" value { f: 1 } }',
        "update": 'op: "Fill" input: "sum" attr { key: "value" value { f: 5 } }',
        "twice": 'op: "Mul" input: "sum" attr { key: "value" value { f: 2 } }',
        "x": 'op: "Placeholder" attr { key: "dtype" value { s: "f32" } } '
        'attr { key: "shape" value { list { i: 2 } } }',
    }
    text = "".join(f'node {{ name: "{name}" {rest} }}\n' for name, rest in nodes.items())
    first, second = weir.Graph.loads(text).compile()(weir.tensor(np.ones(2, np.float32)))
    assert first.numpy().tolist() == [10, 10] and second.numpy().tolist() == [[10], [10]]
