"""Loaders of the paper's real data, which users bring themselves."""

from pathlib import Path

import numpy as np
import pytest

from roodso import SAA
from roodso.datasets import load_coffee, load_etf
from roodso.losses import CVaRPortfolio, Newsvendor

SHARED = Path(__file__).parents[2] / "shared" / "data"
COFFEE = (
    "product,week_start,n_days,small,regular,large\n1,2023-01-01,7,2,3,4\n2,2023-01-01,7,5,6,7\n"
)


def test_a_table_of_ones_own(tmp_path):
    path = tmp_path / "coffee.csv"
    path.write_text(COFFEE)
    plain, framed = load_coffee(path), load_coffee(path, as_frame=True)
    np.testing.assert_array_equal(plain.data, [[2, 3, 4], [5, 6, 7]])
    assert plain.groups.tolist() == [1, 2]
    assert plain.feature_names == ["small", "regular", "large"]
    assert list(framed.frame.columns)[:3] == ["product", "week_start", "n_days"]
    np.testing.assert_array_equal(framed.data.to_numpy(), plain.data)
    assert "Maven" in plain.DESCR


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("product,small,regular\n1,2,3\n", r"missing: \['large'\]"),
        ("product,small,regular,large\n1,2,3,4\n1,2,3,many\n", "many in row 3, column 'large'"),
        ("product,small,regular,large\n1,2,3,\n", "numbers only .* nan in row 2"),
        ("product,small,regular,large\n1,inf,3,4\n", "inf in row 2, column 'small'"),
    ],
)
def test_other_tables_are_refused(text, message, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_coffee(path)


@pytest.mark.skipif(not SHARED.exists(), reason="the studies' tables may not be passed on")
def test_the_studies_own_tables():
    coffee = load_coffee(SHARED / "coffee_weekly_sun.csv", as_frame=True)
    assert coffee.groups.value_counts().tolist() == [26] * 5
    loss = Newsvendor(price=[3.0, 3.5, 4.0], cost=1.0)
    assert (SAA(loss).fit(coffee.data, groups=coffee.groups).decision_ > 0).all()
    funds = load_etf(SHARED / "etf_sector_monthly_tr.csv")
    assert funds.data.shape[1] == 3
    assert len(set(funds.groups.tolist())) == 9
    weights = SAA(CVaRPortfolio()).fit(funds.data, groups=funds.groups).decision_
    assert weights.sum() == pytest.approx(1)
