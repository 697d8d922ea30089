"""What a race was run on, in words and numbers."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["busy", "digest", "machine"]


def machine() -> dict[str, Any]:
    """Processor, cores, memory, system, Python and NumPy."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_gb": round(pages / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def _processor() -> str:
    known = Path("/proc/cpuinfo")
    if known.exists():
        for line in known.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def busy() -> float | None:
    """How many processes wanted a core in the last minute, the contestants before among them."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def digest(folders: list[Path]) -> str:
    """What tells one state of the code from another: a hash over all Python files."""
    total = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            total.update(str(path.relative_to(folder)).encode())
            total.update(path.read_bytes())
    return total.hexdigest()[:12]
