"""Imports go one way, from what the design calls lower to what it calls higher."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import roodso

ROOT = Path(roodso.__file__).parent

#: Modules and packages of the library, lowest first. One may import those above it in this list and
#: its own parts; those on one line know nothing of each other. A new module needs a place here.
LAYERS = [
    ("_typing", "exceptions"),
    ("_validation",),
    ("sources", "kernels"),
    ("pairs", "datasets", "transport"),
    ("embedding",),
    ("chunks", "expansion", "herding", "refit", "support"),
    ("lowrank",),
    ("streams",),
    ("sets", "losses"),
    ("solver",),
    ("methods",),
    ("portable", "model_selection", "guarantees", "planner"),
    ("plots",),
    ("experiments", "report"),
    ("roodso",),  # the package itself: the public API
    ("cli",),  # one of its users
    ("__main__",),
]
LEVEL = {unit: level for level, units in enumerate(LAYERS) for unit in units}

#: Imports inside functions that go up, and why they may.
EXCEPTIONS = {
    ("methods.base", "portable"): "saving a model needs the registry, which lists all methods",
    ("portable", "roodso"): "a file says which version wrote it",
    ("report.sections", "roodso"): "and so does a page",
    ("experiments.study", "roodso"): "and so does every row of an experiment",
}


def modules():
    """Every module's dotted name below the package ('' for the package) and its path."""
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(part for part in parts if part != "__init__"), path


MODULES = dict(modules())


def unit_of(module):
    """The entry of LAYERS that a module belongs to."""
    return module.split(".")[0] or "roodso"


def imports(path):
    """All imports of the library's own modules: (module, whether inside a function)."""
    tree = ast.parse(path.read_text())
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    local = {id(inner) for function in functions for inner in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names = [_module_of(node.module, alias.name) for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "roodso":
                yield name.removeprefix("roodso").removeprefix("."), id(node) in local


def _module_of(module, name):
    """``from a.b import c`` imports the module a.b.c where there is one, else a.b."""
    inside = f"{module}.{name}".removeprefix("roodso.")
    return f"{module}.{name}" if module.startswith("roodso") and inside in MODULES else module


@pytest.mark.parametrize("module", MODULES, ids=lambda name: name or "roodso")
def test_every_module_has_a_place(module):
    assert unit_of(module) in LEVEL, f"say in LAYERS where {module} belongs"


@pytest.mark.parametrize("module", MODULES, ids=lambda name: name or "roodso")
def test_imports_go_down(module):
    own = unit_of(module)
    for imported, local in imports(MODULES[module]):
        unit = unit_of(imported)
        if unit == own or LEVEL[unit] < LEVEL[own]:
            continue
        excused = local and (module, imported or "roodso") in EXCEPTIONS
        assert excused, f"{module or 'roodso'} imports {imported or 'roodso'}, which is above it"


def test_no_exception_is_left_that_nobody_needs():
    found = {
        (module, imported or "roodso")
        for module, path in MODULES.items()
        for imported, local in imports(path)
        if local
    }
    assert set(EXCEPTIONS) <= found


def test_no_modules_import_each_other_in_a_circle():
    edges = {
        module: {to for to, local in imports(path) if not local and to != module}
        for module, path in MODULES.items()
    }
    done, on_path = set(), []

    def visit(module):
        assert module not in on_path, " -> ".join([*on_path, module])
        if module in done:
            return
        on_path.append(module)
        for to in edges[module]:
            visit(to)
        done.add(on_path.pop())

    for module in MODULES:
        visit(module)


def test_the_walk_sees_what_there_is():
    """The tests above would pass on a tree they cannot read."""
    assert {"", "kernels", "sets.ball", "solver.rows", "methods.rood"} <= set(MODULES)
    assert ("sets.ball", False) in set(imports(MODULES["methods.rood"]))
    assert ("portable", True) in set(imports(MODULES["methods.base"]))


def test_importing_the_library_imports_nothing_heavy_that_few_need():
    heavy = {"cvxpy", "matplotlib", "scs"}
    code = f"import sys, roodso; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
