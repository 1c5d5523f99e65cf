"""The Python reference of the site, from the package that is imported."""

import ast
import importlib
import inspect
import pathlib
import re

MODULES = [
    "weir", "weir.scope", "weir.streams", "weir.memory", "weir.trace", "weir.compile", "weir.configs",
    "weir.ops", "weir.npu", "weir.hal", "weir.distributed", "weir.errors",
]
# The first line of an extension function's text is its signature.
SIGNATURE = re.compile(r"^(\w+\([^\n]*\)(?: -> [^\n]+)?)(?:\n\n?|$)")


def signature(name, thing, text):
    """(signature, the rest of the text)"""
    match = SIGNATURE.match(text)
    if match:
        return match[1], text[match.end():]
    try:
        return name + str(inspect.signature(thing)), text
    except (TypeError, ValueError):
        return name, text


def body(text):
    """Text with examples as code."""
    out, code = [], False
    text = re.sub(r":(?:func|class|meth|mod|attr):`", "`", text).replace("``", "`")
    for line in text.strip().split("\n"):
        if line.startswith(">>>") and not code:
            out += ["", "```pycon"]
            code = True
        elif code and not line.strip():
            out += ["```", ""]
            code = False
            continue
        out.append(line)
    if code:
        out.append("```")
    return "\n".join(out)


def entry(name, thing, level):
    sig, text = signature(name, thing, inspect.getdoc(thing) or "")
    sig = re.sub(r" at 0x[0-9a-f]+", "", sig)
    head = [f"{'#' * level} {name}", ""]
    return head + ([f"```python\n{sig}\n```", ""] if sig != name else []) + [body(text), ""]


def is_public(name):
    return not name.startswith("_")


def of_class(module, name, thing):
    out = entry(name, thing, 3)
    for member, value in sorted(vars(thing).items()):
        text = inspect.getdoc(value)
        if not is_public(member) or not text or not (callable(value) or inspect.isdatadescriptor(value) or
                                                     isinstance(value, (property, staticmethod, classmethod))):
            continue
        sig, text = signature(member, value, text)
        first = body(text.strip().split("\n\n")[0]).replace("\n", " ")
        out.append(f"- `{name}.{sig}`: {first}" if first else f"- `{name}.{sig}`")
    return out + [""]


def of_source(name):
    """A module that cannot be imported here, by what its source says."""
    path = pathlib.Path(importlib.import_module("weir").__file__).parent / name.removeprefix("weir.")
    files = sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    trees = {file.stem: ast.parse(file.read_text(encoding="utf-8")) for file in files}
    tree = trees.get("__init__") or trees[path.name]
    # Of a package, what it hands on.
    wanted = {e.value for n in tree.body if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == "__all__"
              for e in n.value.elts}
    nodes = [n for t in trees.values() for n in t.body
             if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and (t is tree or n.name in wanted)]
    out = [f"## {name}", "", body(ast.get_docstring(tree) or ""), ""]
    for node in sorted(nodes, key=lambda n: n.name):
        text = ast.get_docstring(node)
        if not is_public(node.name) or not text:
            continue
        sig = f"{node.name}({ast.unparse(node.args)})" if isinstance(node, ast.FunctionDef) else node.name
        out += [f"### {node.name}", "", f"```python\n{sig}\n```", "", body(text), ""]
    return out


def of_module(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as e:
        if (e.name or "").startswith("weir"):
            raise
        return of_source(name)  # it needs PyTorch
    out = [f"## {name}", "", body(inspect.getdoc(module) or ""), ""]
    names = getattr(module, "__all__", None) or [n for n in dir(module) if is_public(n)]
    for member in sorted(names):
        thing = getattr(module, member)
        home = getattr(thing, "__module__", None) or name
        if inspect.ismodule(thing) or not callable(thing):
            continue
        # What a module merely imports is described at its home.
        if name == "weir" and not home.startswith("weir") and home != "builtins" or name != "weir" and home != name and not home.startswith(f"{name}."):
            continue
        if not inspect.getdoc(thing):
            continue
        out += of_class(name, member, thing) if inspect.isclass(thing) else entry(member, thing, 3)
    return out


def page():
    out = ["# Python API", "", "Made from the package's own texts; [weir from Python](python.md) is the guide. `help(weir.add)` "
           "shows the same.", ""]
    for name in MODULES:
        out += of_module(name)
    return "\n".join(out) + "\n"
