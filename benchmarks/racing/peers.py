"""The peers' environments: one each, made with ``venv`` and ``pip``, kept for the next run.

An environment is complete when the file ``ready.txt`` in it holds the requirements that it was made
from; otherwise it is made anew. What can't be installed is a result like any other:
`MissingPeerError` says why, in the words of ``pip``.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PEERS", "MissingPeerError", "Peer", "interpreter"]


class MissingPeerError(Exception):
    """A peer that is not there; the message says why."""


@dataclass(frozen=True)
class Peer:
    """What an environment consists of.

    Attributes
    ----------
    requirements : tuple of str
        Installed together; all are needed.
    optional : tuple of str
        Installed one by one; a failure costs only what needs them.
    """

    requirements: tuple[str, ...]
    optional: tuple[str, ...] = ()


#: "roodso" is the interpreter that runs the suite. Versions are those that were surveyed.
PEERS = {
    "roodso": Peer(()),
    "cvxpy": Peer(
        ("cvxpy==1.9.3", "clarabel==0.11.1", "scs==3.3.1"),
        ("ecos==2.0.14", "qoco==0.3.2", "cvxopt==1.3.3", "pyscipopt==6.3.0", "moreau==0.4.1"),
    ),
    "rsome": Peer(("rsome==1.3.1", "ecos==2.0.14", "scipy")),
    "dro": Peer(("dro==0.4.3",)),
    "skfolio": Peer(("skfolio==1.12.2",)),
    "pot": Peer(("POT==0.9.7.post1",)),
    "goodpoints": Peer(("goodpoints==0.6.3",)),
    "sklearn": Peer(("scikit-learn>=1.6",)),
}


def interpreter(name: str, root: Path, *, make: bool = True, log: object = None) -> Path:
    """The interpreter of a peer's environment, which is made if need be.

    Parameters
    ----------
    name : str
    root : Path
        Where environments are kept.
    make : bool, default=True
        Whether to make one that is not there; `MissingPeerError` otherwise.
    log : callable, optional
        Told what is being installed.
    """
    if name == "roodso":
        return Path(sys.executable)
    peer, home = PEERS[name], root / name
    python, ready = home / "bin" / "python", home / "ready.txt"
    wanted = "\n".join([*peer.requirements, *peer.optional]) + "\n"
    if ready.exists() and ready.read_text() == wanted:
        return python
    if not make:
        raise MissingPeerError(f"no environment at {home.name}, and none was to be made")
    if callable(log):
        log(f"installing {', '.join(peer.requirements)}")
    _run([sys.executable, "-m", "venv", "--clear", str(home)], "venv")
    _pip(python, *peer.requirements)
    for requirement in peer.optional:
        try:
            _pip(python, requirement)
        except MissingPeerError as error:
            if callable(log):
                log(f"{requirement}: {error}")
    ready.write_text(wanted)
    return python


def _pip(python: Path, *requirements: str) -> None:
    quiet = ("--quiet", "--disable-pip-version-check")
    _run([str(python), "-m", "pip", "install", *quiet, *requirements], "pip")


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in said if "error" in line.lower()] or said or ["no message"]
        raise MissingPeerError(f"{what} failed: {errors[0].strip()}")
