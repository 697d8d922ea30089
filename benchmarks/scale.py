"""How far one machine, and a cluster, go: `python benchmarks/scale.py`.

1. A million samples by low rank: seconds, CPU seconds, peak memory, certified gap.
2. Growth of that with N, from 100,000 samples on.
3. Low rank against exact at N = 20,000: whether the certified interval contains the exact optimum.
4. One ball of given radius around n samples, with n drawn points, up to n = 100,000.
5. Refits: a few new rows, a new source, the next nu, against fits from nothing.
6. Parquet files on a Dask cluster of two workers of 4 GB each: seconds, bytes to and fro.

Each fit of 1, 2, 4 and 6 runs in a process of its own, whose peak memory is told with what it was
before the data existed. Peak memory is that of Linux. Nothing here decides a test.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from core import growth, newsvendor, print_table, resident_peak
from roodso import RooDSO, streams
from roodso.embedding import Embedding
from roodso.sets import FixedBall, UncertaintySet
from roodso.sets.ball import squared_distances_to_center, squared_radius
from roodso.solver.rows import LoopOptions, Programme
from roodso.solver.solve import solve_programme

M, TOL = 20, 1e-4


def sources(d: int, n_samples: int, seed: int = 0) -> list[np.ndarray]:
    """M sources of demand that overlap, as sister shops do: a ball around them excludes much."""
    rng = np.random.default_rng([seed, d])
    middle = rng.uniform(1, 3, d)
    return [
        middle + 0.25 * rng.uniform(-1, 1, d) + 0.3 * rng.standard_normal((n_samples // M, d))
        for _ in range(M)
    ]


def timed(run: Callable[[], Any]) -> dict[str, Any]:
    """Wall and CPU seconds of a call, and what it returns."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"wall": wall, "cpu": cpu, "result": result}


def in_process(task: str, *arguments: Any) -> dict[str, Any]:
    """One of the functions below in a process of its own."""
    command = [sys.executable, __file__, "--task", task, *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def report(model: RooDSO, spent: dict[str, Any], before: float) -> dict[str, Any]:
    """What a table says of a fit."""
    s = model.solution_
    return {
        "wall": spent["wall"],
        "cpu": spent["cpu"],
        "peak": (resident_peak() / 1024 - before) / 1024,
        "gap": s.gap,
        "status": s.status,
        "rank": s.embedding.rank,
        "rounds": s.iterations,
        "objective": s.upper_bound,
    }


def fit_million(d: str, n: str) -> dict[str, Any]:
    """A fit by low rank to n samples in d columns."""
    before = resident_peak() / 1024
    X = sources(int(d), int(n))
    model = RooDSO(newsvendor(int(d)), embedding="low-rank", tol=TOL, random_state=0)
    return report(model, timed(lambda: model.fit(X)), before)


def fit_one_ball(n: str) -> dict[str, Any]:
    """The survey's problem: n samples, n drawn points, radius 0.1."""
    before = resident_peak() / 1024
    X = [np.vstack(sources(2, int(n)))]
    ball = FixedBall(0.1)
    model = RooDSO(newsvendor(2), uncertainty_set=ball, n_support=int(n), tol=TOL, random_state=0)
    return report(model, timed(lambda: model.fit(X)), before)


def fit_on_cluster(folder: str, workers: str, memory: str) -> dict[str, Any]:
    """A fit to Parquet files through Dask, with the bytes that the scheduler's client moved."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    moved: dict[str, int] = {"pieces": 0, "bytes back": 0}
    with (
        LocalCluster(
            n_workers=int(workers),
            threads_per_worker=1,
            memory_limit=memory,
            dashboard_address=":0",
        ) as cluster,
        Client(cluster) as client,
    ):
        stream = streams.from_dask(dd.read_parquet(folder), "shop")
        plain = type(stream).pieces

        def noted(self: Any, work: Any, **how: Any) -> Any:
            for part in plain(self, work, **how):
                moved["pieces"] += 1
                moved["bytes back"] += sum(
                    np.asarray(v).nbytes for k, v in vars(part).items() if k != "labels"
                )
                yield part

        type(stream).pieces = noted
        before = resident_peak() / 1024
        model = RooDSO(newsvendor(2), tol=TOL, random_state=0)
        spent = timed(lambda: model.fit(stream))
        found = report(model, spent, before) | moved
        found["worker peaks"] = [v / 2**20 for v in client.run(resident_peak).values()]
        found["passes"] = moved["pieces"] / stream._frame.npartitions
        return found


def write_parquet(folder: Path, n: int, parts: int) -> None:
    """Files of n samples in all, a mixture of M shops in each."""
    rng = np.random.default_rng(0)
    shops = sources(2, M)
    for part in range(parts):
        code = rng.integers(0, M, n // parts)
        middle = np.vstack([shop.mean(axis=0) for shop in shops])[code]
        demand = middle + 0.3 * rng.standard_normal((len(code), 2))
        frame = pd.DataFrame(demand, columns=["bread", "rolls"])
        frame["shop"] = code
        frame.to_parquet(folder / f"part{part:03}.parquet", index=False)


def against_exact(d: int) -> list[Any]:
    """One row: low rank at N = 20,000 against the exact optimum over its ball."""
    X = sources(d, 20_000)
    model = RooDSO(newsvendor(d), embedding="low-rank", tol=TOL, random_state=0)
    spent = timed(lambda: model.fit(X))
    s, ball, low = model.solution_, model.uncertainty_set_, model._programme.embedding
    exact = timed(lambda: Embedding.compute(low.space, low.sources, low.support[20_000:], n_jobs=2))
    known = exact["result"]
    r2 = squared_radius(squared_distances_to_center(known.gram, ball.weights), model.nu)
    stated = UncertaintySet.ball(ball.weights, r2, 0.0, ball.space, ball.sources, known.gram)
    optimum = solve_programme(
        Programme(model._problem, stated, known), LoopOptions(tol=1e-9)
    ).upper_bound
    inside = s.lower_bound <= optimum <= s.upper_bound
    return [
        d,
        s.embedding.rank,
        f"{s.embedding.error:.1e}",
        f"{s.gap:.1e}",
        "yes" if inside else "NO",
        f"{spent['cpu']:.1f}",
    ]


def refits() -> list[list[Any]]:
    """Rows: seconds and rounds of a refit, and of a fit from nothing to the same data."""
    X = sources(5, 20_000)
    few = [np.vstack([X[0], X[1][:10] + 0.01]), *X[1:]]
    cases: list[tuple[str, Any, dict[str, Any]]] = [
        ("10 new rows", few, {}),
        ("a new source of 1,000", [*X, X[0] + 0.05], {}),
        ("nu from 0.2 to 0.25", X, {"nu": 0.25}),
        ("the same again", X, {}),
    ]
    rows = []
    for name, after, changes in cases:
        parameters = {"bandwidth": 1.0, "random_state": 0, "n_jobs": 1}
        warm = RooDSO(newsvendor(5), warm_start=True, **parameters).fit(X).set_params(**changes)
        cold = RooDSO(newsvendor(5), **parameters).set_params(**changes)
        again, fresh = (
            timed(lambda m=warm, X=after: m.fit(X)),
            timed(lambda m=cold, X=after: m.fit(X)),
        )
        rows.append(
            [
                name,
                f"{again['cpu']:.2f}",
                f"{fresh['cpu']:.2f}",
                f"{fresh['cpu'] / again['cpu']:.1f}",
                f"{warm.solution_.iterations} / {cold.solution_.iterations}",
                f"{abs(warm.objective_ / cold.objective_ - 1):.0e}",
            ]
        )
    return rows


def row(name: Any, found: dict[str, Any]) -> list[Any]:
    """A row of the tables of fits."""
    return [
        name,
        f"{found['wall']:.1f}",
        f"{found['cpu']:.1f}",
        f"{found['peak']:.2f}",
        found["rank"],
        found["rounds"],
        f"{found['gap']:.0e}",
        found["status"],
    ]


HEADER = ["", "wall (s)", "CPU (s)", "peak (GiB)", "rank", "rounds", "gap", "status"]


def main(quick: bool) -> None:
    """Print all tables."""
    warnings.simplefilter("ignore")
    most = 200_000 if quick else 1_000_000
    found = [(f"N = {most:,}, d = {d}", in_process("fit_million", d, most)) for d in (2, 5)]
    print_table("A million samples by low rank", HEADER, [row(*case) for case in found])
    sizes = [25_000, 50_000, 100_000] if quick else [125_000, 250_000, 500_000, 1_000_000]
    cases = [in_process("fit_million", 2, n) for n in sizes]
    print_table(
        "Growth with N, d = 2",
        HEADER,
        [row(f"{n:,}", c) for n, c in zip(sizes, cases, strict=True)],
    )
    print(f"\nCPU seconds: {growth('N', sizes, [case['cpu'] for case in cases])}")
    print_table(
        "Low rank against exact, N = 20,000",
        ["d", "rank", "error", "gap", "interval contains the optimum", "CPU (s)"],
        [against_exact(d) for d in ((2, 5) if quick else (2, 5, 10, 30))],
    )
    balls = [1000, 10_000] if quick else [1000, 10_000, 100_000]
    print_table(
        "One ball of radius 0.1 around n samples, with n drawn points",
        HEADER,
        [row(f"n = {n:,}", in_process("fit_one_ball", n)) for n in balls],
    )
    print_table(
        "Refits, N = 20,000, d = 5",
        ["what changed", "refit (CPU s)", "fit (CPU s)", "ratio", "rounds", "difference"],
        refits(),
    )
    with tempfile.TemporaryDirectory() as folder:
        n = 500_000 if quick else 10_000_000
        write_parquet(Path(folder), n, 8 if quick else 40)
        there = in_process("fit_on_cluster", folder, 2, "4GB")
        print_table(
            "Parquet through Dask, two workers of 4 GB", HEADER, [row(f"N = {n:,}, d = 2", there)]
        )
        peaks = ", ".join(f"{peak:.2f}" for peak in there["worker peaks"])
        print(
            f"\n{there['passes']:.0f} passes; {there['bytes back'] / 2**20:.1f} MiB came back from "
            f"{n * 24 / 2**20:.0f} MiB of data a pass; workers' peaks {peaks} GiB"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--task", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task:
        warnings.simplefilter("ignore")
        print(json.dumps(globals()[given.task[0]](*given.task[1:])))
    else:
        main(given.quick)
