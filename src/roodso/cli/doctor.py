"""``roodso doctor``: versions, solvers, threads, and whether small problems come out right."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import time
from typing import Any

import threadpoolctl
import typer

import roodso
from roodso import RooDSO
from roodso._validation import check_jobs
from roodso.cli.results import as_json
from roodso.cli.screen import Screen
from roodso.cli.settings import Setting
from roodso.datasets import make_newsvendor_sources
from roodso.losses import Newsvendor

__all__ = ["SETTINGS", "doctor"]

SETTINGS = [
    Setting("machine", "run", "Print JSON instead of tables.", "switch", False, flag="--json"),
    Setting("debug", "run", "Show the traceback of an error.", "switch", False),
]

#: Packages, and the extra that installs those that are optional.
_PACKAGES = {
    "numpy": "", "scipy": "", "pandas": "", "scikit-learn": "", "clarabel": "", "scs": "",
    "highspy": "", "cvxpy": "", "pot": "", "joblib": "", "typer": "", "rich": "",
    "matplotlib": "plot", "jinja2": "report", "pyarrow": "io", "openpyxl": "io",
    "dask": "dask", "distributed": "dask",
}  # fmt: skip
#: Solvers by cvxpy's names.
_SOLVERS = {"clarabel": "CLARABEL", "scs": "SCS", "highspy": "HIGHS"}


def doctor(given: dict[str, Any]) -> None:
    """Check the installation: versions, solvers, threads, and small problems solved."""
    test, solvers = _self_test(), {name: _solves(name) for name in _SOLVERS}
    found: dict[str, Any] = {
        "schema": "roodso.doctor/1",
        "roodso": roodso.__version__,
        "python": platform.python_version(),
        "system": platform.platform(aliased=True, terse=True),
        "packages": {name: _version(name) for name in _PACKAGES},
        "cores": check_jobs(None),
        "thread_pools": [
            {"library": pool["internal_api"], "threads": pool["num_threads"]}
            for pool in threadpoolctl.threadpool_info()
        ],
        "solvers": solvers,
        "self_test": test,
    }
    screen = Screen()
    if given["machine"]:
        sys.stdout.write(as_json(found))
    else:
        _show(found, screen)
    if not (test["passed"] and all(solvers.values())):
        raise typer.Exit(6)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _solves(solver: str) -> bool:
    """Whether a solver finds min x + y, x + 2 y >= 1, x, y >= 0 to be 1/2."""
    import cvxpy as cp

    x = cp.Variable(2, nonneg=True)
    problem = cp.Problem(cp.Minimize(cp.sum(x)), [x[0] + 2 * x[1] >= 1])
    try:
        problem.solve(solver=_SOLVERS[solver])
    except (cp.error.SolverError, ImportError):
        return False
    return bool(problem.value is not None and abs(problem.value - 0.5) < 1e-3)


def _self_test() -> dict[str, Any]:
    """Solve a small problem; the certificate says whether the answer is right."""
    started = time.perf_counter()
    shops = make_newsvendor_sources(8, 50, random_state=0)
    loss = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
    solution = RooDSO(loss, random_state=0).fit(shops).solution_
    return {
        "passed": bool(solution.status == "optimal" and 0 <= solution.gap <= 1e-6),
        "gap": float(solution.gap),
        "seconds": time.perf_counter() - started,
    }


def _show(found: dict[str, Any], screen: Screen) -> None:
    rows = [["roodso", found["roodso"]], ["Python", found["python"]], ["system", found["system"]]]
    for name, extra in _PACKAGES.items():
        version = found["packages"][name]
        absent = f"not installed: pip install 'roodso[{extra}]'" if extra else "not installed"
        rows.append([name, version or absent])
    rows.append(["cores", str(found["cores"])])
    rows += [[f"threads, {p['library']}", str(p["threads"])] for p in found["thread_pools"]]
    screen.table("Installation", ["", "version"], rows, words=2)
    words = [f"{name} {'works' if works else 'FAILS'}" for name, works in found["solvers"].items()]
    screen.say(f"Solvers: {', '.join(words)}.", style="bold")
    test = found["self_test"]
    said = "solved" if test["passed"] else "NOT solved"
    screen.say(
        f"A small problem was {said}, to a certified gap of {test['gap']:.0e} "
        f"in {test['seconds']:.2f} s.",
        style="bold",
    )
