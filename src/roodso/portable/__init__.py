"""Models in portable files: JSON and arrays, from which loading runs no code.

A file is an uncompressed zip of

- ``model.json``: ``format`` and ``format_version``; ``library_version``, which wrote it;
  ``loss_included``; the ``arrays`` with dtype and shape; the ``objects`` that make up the model,
  each with a registered name (`roodso.portable.objects`) and its parameters, results or fields as
  plain values (`roodso.portable.values`); the number of the ``model`` among them; and, where the
  loss is left out, a ``probe``: what it cost at a few points, to know it again;
- ``arrays/0.npy``, ``arrays/1.npy``, ...: numpy's npy format 1.0, numbers only, no pickles.

Results come back bit for bit, so a loaded model answers everything as the saved one did. Files of
this and older format versions are read; newer ones are refused. A new format version is needed
where an older library would misread a file, not where a name is added to a registry.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from roodso.losses.base import Loss
from roodso.methods.base import DecisionMaker
from roodso.portable.archive import ArchiveReader, write_archive
from roodso.portable.objects import METHODS, ObjectReader, ObjectWriter

__all__ = ["FORMAT", "FORMAT_VERSION", "load", "save"]

FORMAT = "roodso model"
FORMAT_VERSION = 1

#: Points at which a loss that is left out is probed, and how well it has to agree.
_PROBES = 8
_PROBE_TOLERANCE = 1e-6


def save(model: DecisionMaker, path: str | os.PathLike[str], *, include_loss: bool = True) -> None:
    """Write a model to a file; see `DecisionMaker.save`."""
    if type(model) not in METHODS:
        accepted = ", ".join(cls.__name__ for cls in METHODS)
        raise TypeError(f"{type(model).__name__} cannot be saved; expected one of {accepted}")
    from roodso import __version__

    writer = ObjectWriter(include_loss)
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        "loss_included": include_loss,
        "model": writer.number(model, type(model).__name__),
    }
    if not include_loss and hasattr(model, "solution_"):
        support = model.solution_.support
        points = support[np.linspace(0, len(support) - 1, _PROBES).astype(int)]
        document["probe"] = writer.write([points, _costs(model, points)], "probe")
    write_archive(path, document | {"objects": writer.objects}, writer.arrays)


def load(path: str | os.PathLike[str], loss: Loss | None = None) -> DecisionMaker:
    """Read a model from a file that its `save` wrote. No code in the file is run.

    Parameters
    ----------
    path : str or path-like
    loss : Loss, optional
        The one that the model was fitted with, where the file was saved with
        ``include_loss=False``.

    Returns
    -------
    DecisionMaker
        Of the class that was saved; ``progress`` is None.

    Raises
    ------
    ValueError
        Where the file is something else, damaged, or of a newer format, or where ``loss`` is
        missing or not the one that the model was fitted with.

    Examples
    --------
    >>> import os, tempfile
    >>> import roodso
    >>> from roodso.datasets import make_newsvendor_sources
    >>> shops = make_newsvendor_sources(5, (30, 100), random_state=0)
    >>> loss = roodso.losses.Newsvendor(price=50, cost=20)
    >>> model = roodso.RooDSO(loss, random_state=0).fit(shops)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "bakery.roodso")
    ...     model.save(path)
    ...     same = roodso.load(path)
    >>> bool((same.decision_ == model.decision_).all())
    True
    """
    if loss is not None and not isinstance(loss, Loss):
        raise TypeError(f"loss must be a roodso loss or None, got {loss!r}")
    with open(path, "rb") as stream:  # whose errors say enough by themselves
        try:
            with ArchiveReader(stream) as archive:
                _check_header(archive.document)
                _check_loss_argument(archive.document, loss)
                return _read_model(archive, loss)
        except Exception as error:  # whatever goes wrong from here on, the content is at fault
            raise ValueError(f"{os.fspath(path)!r} cannot be loaded: {error}") from error


def _check_header(document: dict[str, Any]) -> None:
    from roodso import __version__

    if document.get("format") != FORMAT:
        raise ValueError(f"its format is {document.get('format')!r}, expected {FORMAT!r}")
    version = document.get("format_version")
    if type(version) is not int or version < 1:
        raise ValueError(f"format_version must be a whole number >= 1, got {version!r}")
    if version > FORMAT_VERSION:
        raise ValueError(
            f"it is of format version {version}, written by roodso "
            f"{document.get('library_version')!r}; this roodso {__version__} reads versions up to "
            f"{FORMAT_VERSION}"
        )


def _check_loss_argument(document: dict[str, Any], loss: Loss | None) -> None:
    included = document.get("loss_included")
    if not isinstance(included, bool):
        raise ValueError(f"loss_included must be true or false, got {included!r}")
    if included and loss is not None:
        raise ValueError("the file holds the model's loss, so loss must be None")
    if not included and loss is None:
        raise ValueError(
            "it was saved with include_loss=False: pass loss=, the one that the model was fitted "
            "with"
        )


def _read_model(archive: ArchiveReader, loss: Loss | None) -> DecisionMaker:
    document = archive.document
    reader = ObjectReader(archive.arrays(), loss)
    objects = reader.read_objects(document["objects"])
    model = reader.read({"$object": document["model"]})
    if len(objects) != document["model"] + 1 or not isinstance(model, DecisionMaker):
        raise ValueError("the model must be the last object")
    if "probe" in document:
        points, expected = reader.read(document["probe"])
        _check_loss(model, points, expected)
    return model


def _costs(model: DecisionMaker, points: Any) -> Any:
    z = np.concatenate([model.solution_.decision, model.solution_.internal])
    return model._problem.values(z, points)


def _check_loss(model: DecisionMaker, points: Any, expected: Any) -> None:
    """Refuse a loss that costs something else than the one that the model was fitted with."""
    costs = _costs(model, points)
    close = np.abs(costs - expected) <= _PROBE_TOLERANCE * max(1.0, np.abs(expected).max())
    if not close.all():
        row = int(np.flatnonzero(~close)[0])
        raise ValueError(
            "loss is not the one that the model was fitted with: at the support point "
            f"{points[row].tolist()} the decision costs {costs[row]:g}, and it cost "
            f"{expected[row]:g}"
        )
