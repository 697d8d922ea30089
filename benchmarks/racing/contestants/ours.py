"""The library itself, by the same calls that its users make."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from worker import NotInstalledError, serve

from roodso import BarycenterSAA, ConvexHullDRO, RooDSO, WassersteinDRO
from roodso.herding import herd
from roodso.kernels import RBF
from roodso.losses import ConvexLoss, CVaRPortfolio, Newsvendor
from roodso.sets import FixedBall
from roodso.sets.ball import solve_dual

NEWSVENDOR = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])


def absolute(x: np.ndarray, xi: np.ndarray) -> np.ndarray:
    """|y - a x - b| for rows (x, y)."""
    return np.abs(xi[:, 1] - x[0] * xi[:, 0] - x[1])


def absolute_slopes(x: np.ndarray, xi: np.ndarray) -> np.ndarray:
    """One subgradient a row."""
    sign = np.sign(xi[:, 1] - x[0] * xi[:, 0] - x[1])
    return np.column_stack([-sign * xi[:, 0], -sign])


LOSSES = {
    "newsvendor": NEWSVENDOR,
    "least absolute deviations": ConvexLoss(absolute, absolute_slopes, lower=-10, upper=10),
}


def tables(data: Any) -> list[np.ndarray]:
    """The samples of every source."""
    samples, codes = data["samples"], data["codes"]
    return [samples[codes == i] for i in range(codes.max() + 1)]


def certified(model: Any) -> dict[str, Any]:
    """What a fitted model claims."""
    s = model.solution_
    return {
        "value": s.upper_bound,
        "lower": s.lower_bound,
        "decision": np.asarray(model.decision_).tolist(),
        "note": "" if s.status == "optimal" else s.status,
    }


def rood(data: Any, **parameters: Any) -> RooDSO:
    """A model over the samples and the race's drawn points, which are those that it draws."""
    drawn = len(data["support"]) - int(data["n_samples"])
    loss = LOSSES[str(data["loss"])]
    model = RooDSO(loss, n_support=drawn, random_state=0, **parameters)
    if "codes" in data:
        model.fit(data["support"][: int(data["n_samples"])], groups=data["codes"])
    else:
        model.fit([data["support"][: int(data["n_samples"])]])
    if not np.array_equal(model.solution_.support, data["support"]):
        raise AssertionError("the support points are not those of the race")
    return model


def ball(data: Any, options: Any) -> dict[str, Any]:
    """The given ball around one sample."""
    parameters = dict(options.get("parameters", {}))
    unknown = set(parameters) - set(inspect.signature(RooDSO.__init__).parameters)
    if unknown:
        raise NotInstalledError(f"this version of the library has no {', '.join(sorted(unknown))}")
    learner = FixedBall(float(data["radius"]), bandwidth=float(data["bandwidth"]))
    return certified(rood(data, uncertainty_set=learner, **parameters))


def sources(data: Any, options: Any) -> dict[str, Any]:
    """The learned ball, learning included, perhaps by one of the paper's variants."""
    bandwidth, nu = float(data["bandwidth"]), float(data["nu"])
    return certified(rood(data, nu=nu, bandwidth=bandwidth, **options.get("parameters", {})))


def hull(data: Any, options: Any) -> dict[str, Any]:
    """The worst source."""
    return certified(ConvexHullDRO(NEWSVENDOR).fit(tables(data)))


def cvar(data: Any, options: Any) -> dict[str, Any]:
    """The Wasserstein ball of skfolio: the 1-norm, returns above -100 %; or the whole space."""
    returns = data["returns"]
    where: dict[str, Any] = {}
    if options["support"] == "box":
        # Long-only weights never gain from a return that rises, so the upper side is idle.
        box = (np.full(returns.shape[1], -1.0), returns.max(axis=0))
        where = {"support": "box", "support_box": box}
    loss = CVaRPortfolio(float(data["risk_aversion"]), float(data["tail"]))
    return certified(
        WassersteinDRO(loss, radius=float(data["radius"]), norm=1, **where).fit([returns])
    )


def barycenter(data: Any, options: Any) -> dict[str, Any]:
    """The barycentre from the atoms given, then the sample average."""
    model = BarycenterSAA(NEWSVENDOR, init=data["atoms"]).fit(tables(data))
    return {"atoms": model.barycenter_.tolist(), "decision": model.decision_.tolist()}


def herding(data: Any, options: Any) -> dict[str, Any]:
    """Kernel herding."""
    chosen = herd(RBF(float(data["bandwidth"])), data["samples"], int(data["size"]))
    return {"chosen": chosen.tolist()}


def oneclass(data: Any, options: Any) -> dict[str, Any]:
    """The dual programme of support measure clustering."""
    return {"alpha": solve_dual(data["gram"], float(data["nu"])).tolist()}


PROGRAMMES: dict[str, Callable[[Any, Any], dict[str, Any]]] = {
    function.__name__: function
    for function in (ball, sources, hull, cvar, barycenter, herding, oneclass)
}


def solve(data: Any, options: Any) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PROGRAMMES[options["programme"]](data, options)


if __name__ == "__main__":
    serve(solve, ["roodso", "clarabel", "numpy"])
