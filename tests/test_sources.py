"""All forms of data the library accepts, and what it says of all others."""

import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from roodso.sources import Sources, column_names, match_columns

ROWS = [[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0]]
GROUPS = ["b", "a", "b", "c"]
FRAME = pd.DataFrame(ROWS, columns=["loaves", "rolls"])
DAYS = pd.to_datetime(["2019", "2020", "2021"])


# Stacked data ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "X",
    [
        np.array(ROWS),
        np.array(ROWS, dtype=np.float32),
        np.array(ROWS, dtype=np.int64),
        np.array(ROWS, dtype=object),
        np.asfortranarray(ROWS),
        FRAME,
        FRAME.astype("Int64"),
        FRAME.astype("Float64"),
        FRAME.set_axis([7, 7, 3, 1]),
        ROWS,
        [tuple(row) for row in ROWS],
        tuple(tuple(row) for row in ROWS),
    ],
    ids=lambda X: type(X).__name__,
)
@pytest.mark.parametrize(
    "groups",
    [
        GROUPS,
        tuple(GROUPS),
        np.array(GROUPS),
        np.array(GROUPS, dtype=object),
        pd.Series(GROUPS, index=[3, 2, 1, 0]),
        pd.Series(GROUPS, dtype="category"),
        pd.Categorical(GROUPS, categories=["a", "b", "c", "unused"]),
        pd.Index(GROUPS),
        pd.array(GROUPS, dtype="string"),
    ],
    ids=lambda groups: type(groups).__name__,
)
def test_stacked_data_in_every_form(X, groups):
    sources = Sources.from_data(X, groups)
    assert sources.samples.dtype == np.float64
    assert sources.samples.flags.c_contiguous
    assert sources.samples.tolist() == ROWS  # in the order given
    assert sources.labels == ("b", "a", "c")  # in the order of first appearance
    assert sources.codes.tolist() == [0, 1, 0, 2]
    assert sources.sizes.tolist() == [2, 1, 1]
    assert (sources.n_samples, sources.n_columns, sources.n_sources) == (4, 2, 3)
    assert sources.table(0).tolist() == [ROWS[0], ROWS[2]]
    assert sources.names == (("loaves", "rolls") if isinstance(X, pd.DataFrame) else None)


@pytest.mark.parametrize(
    ("groups", "labels"),
    [
        ([3, -1, 3, 2], (3, -1, 2)),
        (np.array([3, -1, 3, 2]), (3, -1, 2)),
        (pd.array([3, -1, 3, 2], dtype="Int64"), (3, -1, 2)),
        (np.array([0.5, -1.0, 0.5, 2.0]), (0.5, -1.0, 2.0)),
        ([True, False, True, "x"], (True, False, "x")),
        (["1", 1, "1", 2], ("1", 1, 2)),
        (
            pd.to_datetime(["2020", "2019", "2020", "2021"]),
            tuple(pd.to_datetime(["2020", "2019", "2021"])),
        ),
    ],
)
def test_labels_of_any_kind(groups, labels):
    sources = Sources.from_data(np.array(ROWS), groups)
    assert sources.labels == labels
    assert [type(label) for label in sources.labels] == [type(label) for label in labels]
    assert sources.codes.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize("stacked", [True, False])
def test_later_changes_to_the_users_array_change_nothing(stacked):
    X = np.array(ROWS)
    sources = Sources.from_data(X, GROUPS) if stacked else Sources.from_data([X])
    X[:] = 0.0
    assert sources.samples.tolist() == ROWS


def test_a_sources_object_passes():
    sources = Sources.from_data(np.array(ROWS), GROUPS)
    assert Sources.from_data(sources) is sources
    with pytest.raises(ValueError, match="groups must be None where X already is a Sources"):
        Sources.from_data(sources, GROUPS)


def test_a_single_source_and_a_single_sample():
    one = Sources.from_data(np.array(ROWS), ["x"] * 4)
    assert (one.n_sources, one.sizes.tolist(), one.labels) == (1, [4], ("x",))
    smallest = Sources.from_data([[[7.0]]])
    assert (smallest.n_samples, smallest.n_columns, smallest.n_sources) == (1, 1, 1)
    assert smallest.samples.tolist() == [[7.0]]


def test_booleans_count_as_zero_and_one():
    frame = pd.DataFrame({"open": [True, False], "sold": [2, 3]})
    assert Sources.from_data(frame, [0, 1]).samples.tolist() == [[1.0, 2.0], [0.0, 3.0]]
    assert Sources.from_data(np.array([[True], [False]]), [0, 1]).samples.tolist() == [[1.0], [0.0]]


def test_categories_of_numbers_and_numbers_as_text_are_numbers():
    frame = pd.DataFrame({"a": pd.Categorical([5, 6]), "b": ["1.5", "-2e3"]})
    assert Sources.from_data(frame, [0, 1]).samples.tolist() == [[5.0, 1.5], [6.0, -2000.0]]


# One table per source -------------------------------------------------------------------------


def test_a_mapping_of_tables():
    tables = {"b": np.array(ROWS[:1]), ("a", 1): ROWS[1:3], 7: pd.DataFrame(ROWS[3:])}
    sources = Sources.from_data(tables)
    assert sources.labels == ("b", ("a", 1), 7)
    assert sources.samples.tolist() == ROWS
    assert sources.codes.tolist() == [0, 1, 1, 2]
    assert sources.sizes.tolist() == [1, 2, 1]


@pytest.mark.parametrize(
    "tables",
    [
        [np.array(ROWS[:3]), np.array(ROWS[3:])],
        (np.array(ROWS[:3]), ROWS[3:]),
        [ROWS[:3], ROWS[3:]],
        [[np.array(row) for row in ROWS[:3]], [np.array(ROWS[3])]],
        tuple(tuple(tuple(row) for row in part) for part in (ROWS[:3], ROWS[3:])),
    ],
)
def test_a_sequence_of_tables(tables):
    sources = Sources.from_data(tables)
    assert sources.labels == (0, 1)
    assert sources.samples.tolist() == ROWS
    assert sources.codes.tolist() == [0, 0, 0, 1]
    assert sources.names is None


def test_columns_in_another_order_are_put_in_the_first_tables():
    shuffled = FRAME.iloc[2:, ::-1]
    assert list(shuffled.columns) == ["rolls", "loaves"]
    for tables in ([FRAME[:2], shuffled], {"x": FRAME[:2], "y": shuffled}):
        sources = Sources.from_data(tables)
        assert sources.names == ("loaves", "rolls")
        assert sources.samples.tolist() == ROWS


def test_arrays_beside_frames_are_taken_on_trust():
    sources = Sources.from_data([np.array(ROWS[:2]), FRAME[2:]])
    assert sources.names == ("loaves", "rolls")
    assert sources.samples.tolist() == ROWS


def test_columns_named_by_numbers():
    frame = pd.DataFrame(ROWS)
    assert Sources.from_data(frame, GROUPS).names == ("0", "1")


def test_groups_of_a_frame_split_by_pandas():
    parts = dict(list(FRAME.assign(shop=GROUPS).groupby("shop")[["loaves", "rolls"]]))
    sources = Sources.from_data(parts)
    assert sources.labels == ("a", "b", "c")
    assert sources.sizes.tolist() == [1, 2, 1]
    assert sources.names == ("loaves", "rolls")


def test_without_drops_one_source_and_keeps_the_order():
    sources = Sources.from_data(FRAME, GROUPS)
    for i, (label, others) in enumerate([("b", "ac"), ("a", "bc"), ("c", "ba")]):
        rest = sources.without(i)
        assert rest.labels == tuple(others)
        assert rest.names == sources.names
        kept = [row for row, group in enumerate(GROUPS) if group != label]
        assert rest.samples.tolist() == [ROWS[row] for row in kept]
        assert [rest.labels[code] for code in rest.codes] == [GROUPS[row] for row in kept]
        assert rest.sizes.sum() == len(kept)


# Bad data -------------------------------------------------------------------------------------

TWO, FOUR = [0, 1], GROUPS


@pytest.mark.parametrize(
    ("X", "groups", "error", "message"),
    [
        (
            [[1.0], [np.nan]],
            TWO,
            ValueError,
            "X must hold finite numbers, got nan in row 1, column 0",
        ),
        (
            [[1.0, np.inf]],
            [0],
            ValueError,
            "X must hold finite numbers, got inf in row 0, column 1",
        ),
        ([[-np.inf], [np.inf]], TWO, ValueError, "got -inf in row 0, column 0 (2 such cell"),
        (
            np.array([[1.0], [None]]),
            TWO,
            ValueError,
            "X must hold finite numbers, got nan in row 1",
        ),
        (pd.DataFrame({"a": ["x", "y"]}), TWO, TypeError, "X must hold numbers only"),
        (pd.DataFrame({"a": ["x", "y"]}, dtype="category"), TWO, TypeError, "'x'"),
        (np.array([["x"], ["y"]]), TWO, TypeError, "X must hold numbers only"),
        (FRAME.assign(day=DAYS[0]), FOUR, TypeError, "X must hold numbers only"),
        ([[1.0, 2.0], [3.0]], TWO, TypeError, "X must hold numbers only"),
        (np.ones(4), FOUR, ValueError, "X must be a table of shape (n, d), got shape (4,)"),
        (np.ones(4), FOUR, ValueError, "for one column use x.reshape(-1, 1)"),
        (pd.Series(np.ones(4)), FOUR, ValueError, "X must be a table of shape (n, d)"),
        (
            np.ones((4, 1, 1)),
            FOUR,
            ValueError,
            "X must be a table of shape (n, d), got shape (4, 1, 1)",
        ),
        (np.array(1.0), FOUR, ValueError, "X must be a table of shape (n, d), got shape ()"),
        (np.ones((0, 2)), [], ValueError, "X must have at least 1 row(s), got shape (0, 2)"),
        (np.ones((2, 0)), TWO, ValueError, "X must have at least one column, got shape (2, 0)"),
        (FRAME.set_axis(["a", "a"], axis=1), FOUR, ValueError, "X must have distinct column names"),
        (FRAME.set_axis([0, "0"], axis=1), FOUR, ValueError, "column names, got ['0', '0']"),
        (None, FOUR, TypeError, "X must be a table (array or DataFrame) with groups"),
        (sparse.eye(4), FOUR, TypeError, "X must be a table (array or DataFrame) with groups"),
        ((row for row in ROWS), FOUR, TypeError, "tables, got generator"),
    ],
)
def test_bad_stacked_data(X, groups, error, message):
    with pytest.raises(error, match=re.escape(message)):
        Sources.from_data(X, groups)


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean"])
def test_missing_cells_of_extension_types(dtype):
    frame = pd.DataFrame({"a": pd.array([1, None], dtype=dtype), "b": [1.0, 2.0]})
    with pytest.raises((ValueError, TypeError), match=r"^X must hold"):
        Sources.from_data(frame, TWO)


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"day": DAYS}),
        pd.DataFrame({"a": pd.to_timedelta([1, 2, 3], unit="D")}),
        np.array([["2020"], ["2021"], ["2022"]], dtype="M8[D]"),
        np.full((3, 1), 1 + 2j),
        np.full((3, 1), 10**400, dtype=object),
    ],
    ids=["dates", "durations", "numpy dates", "complex", "too large"],
)
def test_what_is_no_real_number_is_refused(X):
    with pytest.raises((ValueError, TypeError), match=r"^X must hold"):
        Sources.from_data(X, [0, 1, 2])


@pytest.mark.parametrize("X", [np.array(ROWS), np.ones((4, 1, 1)), FRAME, ROWS])
def test_stacked_data_without_groups_say_what_to_do(X):
    with pytest.raises(ValueError, match="groups must name the source of each row") as caught:
        Sources.from_data(X)
    for advice in ("pass groups=", "mapping or sequence of tables", "enable_metadata_routing=True"):
        assert advice in str(caught.value)


MISSING = "groups must not hold missing values, got "
LENGTH = "groups must have one entry for each of the 2 rows of X, got shape "


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        ([1], ValueError, LENGTH + "(1,)"),
        ([1, 2, 3], ValueError, LENGTH + "(3,)"),
        ([[1], [2]], ValueError, LENGTH + "(2, 1)"),
        ([("a", 1), ("b", 1)], ValueError, LENGTH + "(2, 2)"),
        ("ab", ValueError, LENGTH + "()"),
        ({1, 2}, ValueError, LENGTH + "()"),
        (["a", None], ValueError, MISSING + "None in row 1"),
        ([np.nan, 1.0], ValueError, MISSING + "nan in row 0"),
        (np.array([1.0, np.nan]), ValueError, MISSING + "nan in row 1"),
        ([Decimal("NaN"), 1], ValueError, MISSING),
        (pd.to_datetime(["2020", None]), ValueError, MISSING + "NaT in row 1"),
        (np.array(["2020", "NaT"], dtype="M8[ns]"), ValueError, MISSING),
        (["a", pd.NA], ValueError, MISSING + "<NA> in row 1"),
        (pd.array([1, pd.NA], dtype="Int64"), ValueError, MISSING + "<NA> in row 1"),
        (pd.array([pd.NA, "a"], dtype="string"), ValueError, MISSING + "<NA> in row 0"),
        (pd.Categorical(["a", None]), ValueError, MISSING + "nan in row 1"),
        ([[1], [2, 3]], TypeError, "groups must hold text, numbers or dates, got [1] in row 0"),
        ([1, np.ones(2)], TypeError, "groups must hold text, numbers or dates, got array"),
    ],
)
def test_bad_groups(groups, error, message):
    with pytest.raises(error, match=re.escape(message)):
        Sources.from_data(np.ones((2, 1)), groups)


OTHER = FRAME.rename(columns={"rolls": "cakes"})
DOUBLED = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "b", "a"])
COLUMNS = "source 1 of X must have the columns ['loaves', 'rolls'], got "


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([], ValueError, "X must hold at least one source, got none"),
        ({}, ValueError, "X must hold at least one source, got none"),
        ([ROWS, np.ones((0, 2))], ValueError, "source 1 of X must have at least 1 row(s)"),
        ({"a": ROWS, "b": []}, ValueError, "source 'b' of X must be a table"),
        ([[], ROWS], ValueError, "source 0 of X must be a table"),
        ([ROWS, np.ones((2, 3))], ValueError, "source 1 of X must have 2 columns, got 3"),
        ([ROWS, np.ones(2)], ValueError, "source 1 of X must be a table"),
        ([FRAME["rolls"]], ValueError, "use x.reshape(-1, 1)"),
        ([1.0, 2.0], ValueError, "source 0 of X must be a table"),
        ([[[1, 2], [3]], [[1, 2]]], TypeError, "source 0 of X must hold numbers only"),
        ({"b": [[1.0, np.nan]]}, ValueError, "source 'b' of X must hold finite numbers, got nan"),
        ({"a": "text"}, TypeError, "source 'a' of X must hold numbers only"),
        ({"a": None}, ValueError, "source 'a' of X must be a table"),
        ([FRAME, OTHER], ValueError, COLUMNS + "['loaves', 'cakes']"),
        ([FRAME, FRAME.assign(cakes=1.0)], ValueError, COLUMNS + "['loaves', 'rolls', 'cakes']"),
        (
            [DOUBLED, DOUBLED[["a", "b"]]],
            ValueError,
            "source 0 of X must have distinct column names",
        ),
        (None, TypeError, "X must be a table"),
        ("data.csv", TypeError, "tables, got str"),
        (3.0, TypeError, "tables, got float"),
    ],
)
def test_bad_tables(X, error, message):
    with pytest.raises(error, match=re.escape(message)):
        Sources.from_data(X)


@pytest.mark.parametrize("X", [{"a": ROWS}, [np.array(ROWS)], (FRAME,)])
def test_groups_beside_one_table_per_source(X):
    with pytest.raises(ValueError, match="groups must be None where X is a mapping or a sequence"):
        Sources.from_data(X, GROUPS)


# Columns of later data ------------------------------------------------------------------------


def test_match_columns():
    assert match_columns(FRAME, None) is FRAME
    assert match_columns(FRAME, ("loaves", "rolls")) is FRAME
    array = np.array(ROWS)
    assert match_columns(array, ("loaves", "rolls")) is array
    turned = match_columns(FRAME[["rolls", "loaves"]], ("loaves", "rolls"))
    pd.testing.assert_frame_equal(turned, FRAME)
    with pytest.raises(ValueError, match=r"^table must have the columns \['a'\], got"):
        match_columns(FRAME, ("a",), "table")
    doubled = FRAME.set_axis(["a", "a"], axis=1)
    with pytest.raises(ValueError, match="table must have distinct column names"):
        match_columns(doubled, ("a", "b"), "table")


def test_column_names_are_text():
    assert column_names(np.ones((1, 2))) is None
    assert column_names(pd.DataFrame([[1, 2]], columns=[3, ("a", 1)])) == ("3", "('a', 1)")


def test_groups_may_name_a_column_of_a_frame():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "shop": ["x", "y", "x"], "b": [4.0, 5.0, 6.0]})
    named = Sources.from_data(frame, "shop")
    given = Sources.from_data(frame[["a", "b"]], frame["shop"])
    assert named.names == given.names == ("a", "b")
    assert named.labels == given.labels == ("x", "y")
    np.testing.assert_array_equal(named.samples, given.samples)
    np.testing.assert_array_equal(named.codes, given.codes)
    assert list(frame.columns) == ["a", "shop", "b"]
    with pytest.raises(ValueError, match="groups must name a column of X, got 'store'"):
        Sources.from_data(frame, "store")
