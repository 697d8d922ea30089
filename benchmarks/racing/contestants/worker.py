"""One contestant's process: a request in JSON on stdin, the answer in the last line of stdout.

The request names the data, how often to repeat, and the contestant's options. Whatever a package
prints while it solves, from Python or from C, goes to stderr; what it prints on import precedes the
answer. Nothing but the standard library and NumPy is used here, for every contestant lives in an
environment of its own. Answers are small: the numbers of a decision, not whole matrices.

What is timed is the contestant's ``solve``, from the raw data to the decision; importing packages
and one run on a small instance come before, because compilers and caches are not what is raced.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["NotInstalledError", "OtherProblemError", "serve"]


class OtherProblemError(Exception):
    """The package solves another problem than the one raced; the message says which."""


class NotInstalledError(Exception):
    """Something that the contestant needs is not there."""


def serve(
    solve: Callable[[Mapping[str, np.ndarray], Mapping[str, Any]], dict[str, Any]],
    packages: Sequence[str] = (),
) -> None:
    """Answer one request.

    Parameters
    ----------
    solve : callable
        From arrays and options to a result that JSON can hold.
    packages : sequence of str
        Distributions whose versions are reported.
    """
    # Whoever prints, prints to stderr from here on.
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    request = json.load(sys.stdin)
    answer = {"versions": versions(packages)} | perform(solve, request)
    channel.write("\n" + json.dumps(answer) + "\n")
    channel.close()


def perform(solve: Callable[..., dict[str, Any]], request: dict[str, Any]) -> dict[str, Any]:
    """Warm up, solve and time; an exception becomes an answer."""
    options = request["options"]
    try:
        if request["warm_up"]:
            solve(arrays(request["warm_up"]), options)
        idle, data, times, processor = peak_memory(), arrays(request["data"]), [], []
        while True:
            wall, cpu = time.perf_counter(), time.process_time()
            result = solve(data, options)
            times.append(time.perf_counter() - wall)
            processor.append(time.process_time() - cpu)
            if len(times) >= request["repetitions"] or sum(times) > request["enough"]:
                break
    except OtherProblemError as error:
        return {"status": "other problem", "detail": str(error)}
    except (NotInstalledError, ImportError) as error:
        return {"status": "not installed", "detail": str(error)}
    except Exception as error:
        return {"status": "error", "detail": f"{type(error).__name__}: {error}"}
    best = int(np.argmin(times))
    return {
        "status": "solved",
        "seconds": times[best],
        "processor_seconds": processor[best],
        "repetitions": len(times),
        "idle_mb": idle,
        "peak_mb": peak_memory(),
        "result": result,
    }


def arrays(path: str) -> dict[str, np.ndarray]:
    """The arrays of an instance."""
    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}


def peak_memory() -> float | None:
    """Peak resident memory of this process in MB, where the system tells (Linux).

    ``getrusage`` would count what the parent held when it forked.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Versions of the distributions that are installed."""
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
