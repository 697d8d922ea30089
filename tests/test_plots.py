"""Pictures and their data: the map of sources, the feared world, costs by source."""

import io
import sys
import xml.etree.ElementTree as ET

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from reference.mixtures import mmd, nearest
from roodso import SAA, ConvexHullDRO, RooDSO, plots
from roodso.datasets import make_newsvendor_sources
from roodso.losses import Newsvendor
from roodso.model_selection import compare
from roodso.sets import SupportMeasureBall, nearest_mixture

mpl.use("Agg")
LOSS = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])


@pytest.fixture(scope="module")
def shops():
    tables = make_newsvendor_sources(7, (8, 20), random_state=4)
    return {f"shop {i}": pd.DataFrame(t, columns=["a", "b"]) for i, t in enumerate(tables)}


@pytest.fixture(scope="module")
def model(shops):
    return RooDSO(LOSS, nu=0.4, n_support=20, random_state=0, n_jobs=1).fit(shops)


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def drawn_text(ax):
    """All text of the figure as it is shown; comments, which repeat it, do not count."""
    stream = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        ax.figure.savefig(stream, format="svg")
    return "\n".join(ET.fromstring(stream.getvalue()).itertext())


# The nearest mixture


@pytest.mark.parametrize("kernel", ["rbf", "laplace", "matern52"])
@pytest.mark.parametrize("seed", range(6))
def test_the_nearest_mixture_is_that_of_a_conic_solver(kernel, seed):
    rng = np.random.default_rng(seed)
    tables = [rng.normal(rng.uniform(-2, 2, 2), 1, (rng.integers(2, 9), 2)) for _ in range(5)]
    learned = SupportMeasureBall(kernel=kernel, bandwidth=1.3).fit(tables).uncertainty_set_
    points, weights = rng.normal(size=(6, 2)), rng.dirichlet(np.ones(6))
    weights[2] = 0.0
    weights /= weights.sum()
    mixture, distance = nearest_mixture(learned, points, weights)
    expected, least = nearest((kernel, 1.3), tables, points, weights)
    np.testing.assert_allclose(mixture, expected, atol=2e-5)
    assert distance == pytest.approx(least, abs=1e-7)
    assert distance <= least + 1e-9
    assert mixture.sum() == pytest.approx(1.0, abs=1e-12)
    assert (mixture >= 0).all()


def test_a_mixture_of_sources_is_found_again(shops):
    learned = SupportMeasureBall(bandwidth=0.7).fit(shops).uncertainty_set_
    shares = np.array([0.5, 0.0, 0.2, 0.0, 0.0, 0.3, 0.0])
    points = np.vstack(list(shops.values()))
    weights = np.concatenate(
        [np.full(len(t), s / len(t)) for t, s in zip(shops.values(), shares, strict=True)]
    )
    mixture, distance = nearest_mixture(learned, points, weights)
    np.testing.assert_allclose(mixture, shares, atol=1e-6)
    assert distance < 1e-6


def test_equal_sources_give_some_mixture():
    tables = [np.array([[1.0], [2.0]])] * 3
    learned = SupportMeasureBall(bandwidth=1.0).fit(tables).uncertainty_set_
    mixture, distance = nearest_mixture(learned, tables[0], np.array([0.5, 0.5]))
    assert mixture.sum() == pytest.approx(1.0)
    assert distance < 1e-7


def test_the_mixture_of_the_worst_case_is_named_by_source(model, shops):
    found = plots.worst_mixture(model)
    used = model.solution_.worst_case_weights
    kernel = ("rbf", model.uncertainty_set_.bandwidth)
    expected, least = nearest(
        kernel, [t.to_numpy() for t in shops.values()], model.solution_.support, used
    )
    assert found.weights.index.tolist() == list(shops)
    np.testing.assert_allclose(found.weights, expected, atol=2e-5)
    assert found.distance == pytest.approx(least, abs=1e-7)
    ax = plots.plot_worst_mixture(found, most=2)
    assert len(ax.patches) == min(2, int((found.weights > 0).sum()))


# The map


def test_distances_on_the_map_are_exact(model, shops):
    found = plots.source_map(model, target=shops["shop 2"])
    ball = model.uncertainty_set_
    kernel = ("rbf", ball.bandwidth)
    center = np.vstack(list(shops.values()))
    weights = np.concatenate(
        [np.full(len(t), a / len(t)) for t, a in zip(shops.values(), ball.weights, strict=True)]
    )
    for label, table in shops.items():
        row = found.table.loc[label]
        true = mmd(kernel, table.to_numpy(), np.full(len(table), 1 / len(table)), center, weights)
        assert row["distance"] == pytest.approx(true, abs=1e-7)
        assert np.hypot(row["x"], row["y"]) == pytest.approx(true, abs=1e-7)
        assert row["rows"] == len(table)
        if row["place"] == "outside":
            assert true > ball.radius
        elif row["place"] == "inside":
            assert true < ball.radius
        else:
            assert true == pytest.approx(ball.radius, abs=1e-7)
    worst = model.solution_
    true = mmd(kernel, worst.support, worst.worst_case_weights, center, weights)
    assert found.others.loc["worst case", "distance"] == pytest.approx(true, abs=1e-6)
    assert found.outside["distance"].is_monotonic_decreasing
    assert set(found.outside.index) == set(found.table.index[found.table["place"] == "outside"])


def test_a_target_equal_to_a_source_lies_on_it(model, shops):
    found = plots.source_map(model, target=shops["shop 2"])
    columns = ["x", "y", "distance"]
    np.testing.assert_allclose(
        found.others.loc["target", columns].astype(float),
        found.table.loc["shop 2", columns].astype(float),
        atol=1e-6,
    )


def test_three_sources_are_mapped_without_any_distortion():
    tables = [np.array([[x, y]]) for x, y in ((0.0, 0.0), (1.0, 0.2), (0.3, 1.1))]
    ball = SupportMeasureBall(nu=0.3, bandwidth=1.0).fit(tables)
    found = plots.source_map(ball)
    assert found.shown == pytest.approx(1.0)
    spots = found.table[["x", "y"]].to_numpy()
    one = np.ones(1)
    for i in range(3):
        for j in range(i):
            true = mmd(("rbf", 1.0), tables[i], one, tables[j], one)
            assert np.linalg.norm(spots[i] - spots[j]) == pytest.approx(true, abs=1e-7)


def test_one_source_and_two_sources_are_mapped():
    one = plots.source_map(SupportMeasureBall(bandwidth=1.0).fit([[[1.0], [2.0]]]))
    assert one.table["distance"].tolist() == pytest.approx([0.0], abs=1e-7)
    two = plots.source_map(SupportMeasureBall(bandwidth=1.0).fit([[[1.0]], [[3.0]]]))
    spots = two.table[["x", "y"]].to_numpy()
    np.testing.assert_allclose(spots[0], -spots[1], atol=1e-9)
    plots.plot_source_map(one)


def test_the_sources_outside_are_named_on_the_map(model):
    found = plots.source_map(model)
    assert len(found.outside) > 0
    text = drawn_text(plots.plot_source_map(found))
    for label in found.table.index:
        assert (label in text) == (label in found.outside.index)


# The feared world, column by column


def test_a_column_is_shown_under_both_distributions(model, shops):
    found = plots.worst_case_column(model, "b", bins=7)
    pooled = np.concatenate([t["b"] for t in shops.values()])
    table = model.solution_.worst_case(minimum=0)
    assert found.name == "b"
    assert found.pooled.sum() == pytest.approx(1.0)
    assert found.worst.sum() == pytest.approx(1.0)
    assert found.pooled_mean == pytest.approx(pooled.mean())
    assert found.worst_mean == pytest.approx((table["weight"] * table["b"]).sum())
    for k in range(7):
        low, high = found.edges[k : k + 2]

        def within(values, low=low, high=high, last=k == 6):
            return (values >= low) & ((values <= high) if last else (values < high))

        assert found.pooled[k] == pytest.approx(within(pooled).mean())
        share = table["weight"][within(table["b"].to_numpy())].sum()
        assert found.worst[k] == pytest.approx(share, abs=1e-12)
    same = plots.worst_case_column(model, 1, bins=7)
    np.testing.assert_array_equal(found.worst, same.worst)


def test_the_worst_case_of_any_decision_can_be_shown(model):
    other = model.worst_case_cost([5.0, 0.0])
    found = plots.worst_case_column(model, 0, worst=other)
    assert found.worst_mean == pytest.approx(other.worst_case_weights @ other.support[:, 0])
    assert found.worst_mean != pytest.approx(plots.worst_case_column(model, 0).worst_mean)


def test_methods_without_a_kernel_have_columns_and_no_map(shops):
    plain = SAA(LOSS).fit(shops)
    found = plots.worst_case_column(plain, "a")
    np.testing.assert_allclose(found.worst, found.pooled, atol=1e-12)
    with pytest.raises(TypeError, match="must have learned a set"):
        plots.source_map(plain)
    with pytest.raises(TypeError, match="must have learned a set"):
        plots.worst_mixture(plain)


@pytest.mark.parametrize(
    ("column", "error", "message"),
    [("c", ValueError, r"\['a', 'b'\]"), (2, ValueError, "below 2"), (0.5, TypeError, "column")],
)
def test_columns_that_do_not_exist_are_refused(model, column, error, message):
    with pytest.raises(error, match=message):
        plots.worst_case_column(model, column)


# Costs by source


def test_costs_by_source_are_those_of_the_comparison(shops):
    comparison = compare({"hull": ConvexHullDRO(LOSS), "SAA": SAA(LOSS)}, shops, n_bootstrap=10)
    found = plots.costs_by_source(comparison)
    assert sorted(found.index) == sorted(shops)
    for label in shops:
        others = {name: table for name, table in shops.items() if name != label}
        cost = -SAA(LOSS).fit(others).score(shops[label])
        assert found.loc[label, "SAA"] == pytest.approx(cost)
    few = plots.costs_by_source(comparison, most=3)
    spread = (found["hull"] - found["SAA"]).abs()
    assert set(few.index) == set(spread.nlargest(3).index)
    assert few["hull"].is_monotonic_decreasing
    ax = plots.plot_costs_by_source(few)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list(few.index)
    assert ax.get_legend_handles_labels()[1][::-1] == ["hull", "SAA"]


# All pictures


def test_pictures_are_drawn_on_the_axes_given(model, shops):
    comparison = compare({"SAA": SAA(LOSS)}, shops, n_bootstrap=10)
    draws = [
        lambda ax: plots.plot_source_map(plots.source_map(model), ax),
        lambda ax: plots.plot_worst_case(plots.worst_case_column(model, 0), ax, decision=1.0),
        lambda ax: plots.plot_worst_mixture(plots.worst_mixture(model), ax),
        lambda ax: plots.plot_costs_by_source(plots.costs_by_source(comparison), ax),
    ]
    for draw in draws:
        _, given = plt.subplots()
        before = plt.get_fignums()
        assert draw(given) is given
        assert plt.get_fignums() == before
        assert draw(None).figure is not given.figure


def test_names_are_drawn_as_they_are(shops):
    first = {f"$x^2$ & <{name}>": table for name, table in list(shops.items())[:4]}
    named = {k: t.rename(columns={"a": "$5 or $10"}) for k, t in first.items()}
    model = RooDSO(LOSS, nu=0.5, n_support=10, random_state=0, n_jobs=1).fit(named)
    text = drawn_text(plots.plot_worst_case(plots.worst_case_column(model, 0)))
    assert "$5 or $10" in text
    text = drawn_text(plots.plot_worst_mixture(plots.worst_mixture(model)))
    assert "$x^2$ & <shop" in text


def test_a_path_without_held_out_sources_has_the_same_worst_cases(shops):
    model = RooDSO(LOSS, n_support=20, random_state=0, n_jobs=1)
    path = plots.RobustnessPathDisplay.from_estimator(
        model, shops, values=[0.2, 0.6], held_out=False
    )
    assert path.table.columns.tolist() == ["worst_case"]
    for nu in (0.2, 0.6):
        alone = RooDSO(LOSS, nu=nu, n_support=20, random_state=0).fit(shops)
        assert path.table.loc[nu, "worst_case"] == pytest.approx(alone.objective_, rel=1e-5)
    assert len(path.plot().ax_.lines) == 1


def test_without_matplotlib_the_data_remain_and_the_message_says_what_to_install(
    model, monkeypatch
):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    found = plots.source_map(model)
    with pytest.raises(ImportError, match=r"pip install 'roodso\[plot\]'"):
        plots.plot_source_map(found)
