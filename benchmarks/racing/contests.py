"""One contestant on one instance, in a process of its own, with limits on time and memory.

Whatever it does becomes a row: it may solve, raise, crash, hang, or eat all memory. The process has
a session of its own, so that what it starts ends with it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Limits", "contest"]

_POLL = 0.02


@dataclass(frozen=True)
class Limits:
    """How far a contestant may go.

    Attributes
    ----------
    seconds : float
        Of the whole process: start, warm-up, and every repetition.
    memory_mb : float
        Resident.
    repetitions : int
        At most so many, of which the fastest counts,
    enough : float
        as long as they have not taken so many seconds in all.
    """

    seconds: float = 90.0
    memory_mb: float = 12_000.0
    repetitions: int = 5
    enough: float = 2.0


def contest(
    python: Path, script: Path, request: dict[str, Any], limits: Limits, environment: dict[str, str]
) -> dict[str, Any]:
    """The answer of a contestant, or how it failed to give one.

    Parameters
    ----------
    python : Path
        The interpreter.
    script : Path
        The contestant, which calls `worker.serve`.
    request : dict
        ``data`` and ``warm_up`` (paths), ``options``.
    limits : Limits
    environment : dict
        Environment variables besides those of this process.

    Returns
    -------
    dict
        ``status``: "solved", "other problem", "not installed", "error", "crashed", "time limit" or
        "memory limit"; ``detail`` in words where it is not "solved"; else times and the result.
    """
    asked = request | {"repetitions": limits.repetitions, "enough": limits.enough}
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [str(python), str(script)],
            stdin=subprocess.PIPE,
            stdout=answer,
            stderr=said,
            env=os.environ | environment,
            start_new_session=True,
        )
        stopped, peak = _watch(process, json.dumps(asked).encode(), limits)
        answer.seek(0)
        said.seek(0)
        text, words = answer.read().decode(), said.read().decode(errors="replace")
    if stopped:
        return {"status": stopped, "peak_mb": peak, "detail": _limit(stopped, limits)}
    try:
        return dict(json.loads(text.splitlines()[-1]))
    except (ValueError, IndexError):
        lines = [line for line in words.splitlines() if line.strip()]
        last = lines[-1].strip() if lines else "no message"
        if last.startswith(("ModuleNotFoundError", "ImportError")):
            return {"status": "not installed", "detail": last}
        code = process.returncode
        ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return {"status": "crashed", "peak_mb": peak, "detail": f"{ended}: {last}"}


def _limit(stopped: str, limits: Limits) -> str:
    if stopped == "time limit":
        return f"no answer within {limits.seconds:g} s"
    return f"more than {limits.memory_mb:g} MB"


def _watch(
    process: subprocess.Popen[bytes], request: bytes, limits: Limits
) -> tuple[str, float | None]:
    """Wait for the process, or end it at a limit; says which, and the peak memory seen."""
    assert process.stdin is not None
    started, peak, stopped = time.monotonic(), None, ""
    try:
        try:
            process.stdin.write(request)
            process.stdin.close()
        except BrokenPipeError:
            pass  # it ended before it listened; its last words say why
        while process.poll() is None:
            peak = _resident_peak(process.pid) or peak
            if time.monotonic() - started > limits.seconds:
                stopped = "time limit"
            elif peak is not None and peak > limits.memory_mb:
                stopped = "memory limit"
            if stopped:
                break
            time.sleep(_POLL)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return stopped, peak


def _resident_peak(pid: int) -> float | None:
    """Peak resident memory of a process in MB, where the system tells (Linux)."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    peaks = [line for line in text.splitlines() if line.startswith("VmHWM")]
    return int(peaks[0].split()[1]) / 1024 if peaks else None
