"""Pages and models that the tests of the report share."""

from __future__ import annotations

import numpy as np
import pandas as pd

from roodso import SAA, ConvexHullDRO, RooDSO
from roodso.datasets import load_bakery
from roodso.losses import CVaRPortfolio, Newsvendor
from roodso.model_selection import compare
from roodso.sets import ThickenedHull

HOSTILE = [
    "<script>alert(1)</script>",
    "\"quoted\" & 'single' </script><b>bold</b>",
    "caf\u00e9 \U0001f950 $5 or $10",
]
HOSTILE_SOURCES = [
    "</svg></style><script>window.hit = 1</script>",
    "<img src=x onerror='window.hit = 1'>",
    "#010101",
    "_hidden",
    "a\x00bc",
    "{{ 7 * 7 }}",
    "\u5317\u4eac",
    "x" * 200,
]


def bakery(stores=9):
    """Some stores of the bakery chain, the last of them left out as the target."""
    frame = load_bakery(as_frame=True, min_days=5).frame
    frame = frame[frame["week_start"] >= "2018-06-01"].reset_index(drop=True)
    labels = list(dict.fromkeys(frame["store"]))[:stores]
    items = ["p101", "p109", "p110"]
    known = frame[frame["store"].isin(labels[:-1])].reset_index(drop=True)
    target = frame.loc[frame["store"] == labels[-1], items].reset_index(drop=True)
    return known[items], "store " + known["store"].astype(str), target


BAKERY_LOSS = Newsvendor(
    price=[0.40, 2.50, 1.20],
    cost=[0.15, 0.90, 0.45],
    holding=[0.02, 0.10, 0.05],
    backorder=[0.05, 0.30, 0.15],
)


def bakery_arguments():
    """Model, data and all that a full page shows."""
    data, store, target = bakery()
    model = RooDSO(BAKERY_LOSS, nu=0.4, scale=True, n_support=50, random_state=0, n_jobs=1)
    rivals = {"pooled average": SAA(BAKERY_LOSS), "hull of sources": ConvexHullDRO(BAKERY_LOSS)}
    comparison = compare({"RooD-SO": model, **rivals}, data, store, n_bootstrap=100)
    fitted = {name: rival.fit(data, groups=store) for name, rival in rivals.items()}
    return {
        "model": model.fit(data, groups=store),
        "X": data,
        "groups": store,
        "rivals": fitted,
        "comparison": comparison,
        "target": target,
        "nus": [0.1, 0.4, 0.9],
        "title": "Order for one more store",
        "note": "As if it opened tomorrow.",
        "currency": "\u20ac",
        "unit": "pieces",
    }


def thick_arguments():
    """The page of a hull of sources, thickened."""
    data, store, target = bakery()
    hull = ThickenedHull(0.1, tail=0.5, scale=True, random_state=0, n_jobs=1)
    model = RooDSO(BAKERY_LOSS, uncertainty_set=hull, n_support=50, random_state=0, n_jobs=1)
    return {
        "model": model.fit(data, groups=store),
        "X": data,
        "groups": store,
        "target": target,
        "rivals": {"hull of sources": ConvexHullDRO(BAKERY_LOSS).fit(data, groups=store)},
        "name": "thickened hull (ours)",
    }


def hostile_arguments():
    """The same from data in which every name is an attack."""
    rng = np.random.default_rng(0)
    tables = {
        label: pd.DataFrame(rng.gamma(9.0, 1.0 + 0.2 * place, (12, 3)), columns=HOSTILE)
        for place, label in enumerate(HOSTILE_SOURCES)
    }
    model = RooDSO(BAKERY_LOSS, nu=0.4, n_support=20, random_state=0, n_jobs=1)
    rivals = {HOSTILE[0]: SAA(BAKERY_LOSS), HOSTILE[1]: ConvexHullDRO(BAKERY_LOSS)}
    comparison = compare({"RooD-SO": model, **rivals}, tables, n_bootstrap=50)
    return {
        "model": model.fit(tables),
        "X": tables,
        "rivals": {name: rival.fit(tables) for name, rival in rivals.items()},
        "comparison": comparison,
        "target": tables[HOSTILE_SOURCES[0]],
        "nus": [0.2, 0.9],
        "title": HOSTILE[1],
        "remarks": HOSTILE,
        "command": f"roodso decide {HOSTILE[1]}",
        "decision_note": HOSTILE[0],
        "source": HOSTILE[0],
        "note": HOSTILE_SOURCES[0] + " with a lone \ud800 surrogate",
        "name": "RooD-SO",
        "currency": "</script><!--",
        "unit": HOSTILE[0],
    }


def funds(n_sources=6, seed=0):
    """Monthly returns of four assets in some funds."""
    rng = np.random.default_rng(seed)
    names = ["stocks", "bonds", "gold", "cash"]
    risk = np.array([0.05, 0.02, 0.04, 0.002])
    return {
        f"fund {place}": pd.DataFrame(
            0.1 * risk * rng.uniform(-0.5, 2, 4) + risk * rng.standard_normal((30, 4)),
            columns=names,
        )
        for place in range(n_sources)
    }


PORTFOLIO_LOSS = CVaRPortfolio(risk_aversion=1.0, tail=0.2)
