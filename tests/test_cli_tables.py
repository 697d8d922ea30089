"""Planners' tables: what is read, what is refused and in which words."""

import datetime as dt
import io
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roodso.planner import DataError, MissingPackageError, ProblemError, load_table
from roodso.planner.errors import nearest
from roodso.planner.numerals import COMMA, POINT, choose_reading, is_missing, read_column
from roodso.planner.reading import read_file
from roodso.planner.table import label_of

CSV = "shop,rolls,brown bread\na,1,2\nb,3,4\na,5.5,-1\n"


def write(folder, text, name="sales.csv", encoding="utf-8"):
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def load(folder, text, source="shop", items=("rolls",), **options):
    return load_table(write(folder, text), source, items, **options)


def texts(data):
    return " | ".join(note.text for note in data.notes)


# Numbers --------------------------------------------------------------------------------------


@given(
    st.floats(-1e12, 1e12).map(lambda x: round(x, 3)),
    st.sampled_from([(",", "."), (".", ","), (" ", "."), ("'", "."), ("\u202f", ","), ("", ",")]),
)
def test_a_number_written_in_any_way_is_read_back(number, signs):
    thousands, decimal = signs
    text = f"{number:,.3f}".replace(",", "T").replace(".", decimal).replace("T", thousands)
    reading = COMMA if decimal == "," else POINT
    assert read_column("x", [text], [2], reading)[0] == pytest.approx(number, abs=1e-9)


@pytest.mark.parametrize(
    ("cells", "reading"),
    [
        (["1.5", "1,234"], POINT),
        (["1,5", "1.234"], COMMA),
        (["1,234.5"], POINT),
        (["1.234,5"], COMMA),
        (["12,345,678"], POINT),
        (["0,123"], COMMA),
        (["1.234"], POINT),
        (["7", "1 000"], POINT),
        (["1e5", "2.5E-3"], POINT),
        (["", "n/a"], POINT),
    ],
)
def test_the_reading_that_all_cells_allow_is_taken(cells, reading):
    assert choose_reading({"x": cells})[0] is reading


def test_what_can_be_read_two_ways_is_refused_until_the_user_says():
    with pytest.raises(DataError, match=r"'1,234' can be read as 1234 and as 1.234.*--decimal"):
        choose_reading({"x": ["1,234", "5"]})
    assert choose_reading({"x": ["1,234"]}, ",")[0] is COMMA
    with pytest.raises(DataError, match="written in two ways"):
        choose_reading({"x": ["1,5", "1.5"]})


def test_how_numbers_were_read_is_said():
    assert "decimal comma: '1,5' was read as 1.5" in str(choose_reading({"x": ["1,5"]})[1])
    assert "'1,200' was read as 1200" in str(choose_reading({"x": ["1,200", "1.5"]})[1])
    assert choose_reading({"x": ["1.5", "2"]})[1] is None


@pytest.mark.parametrize(
    ("cell", "remedy"),
    [
        ("12 EUR", "write 12 without the unit"),
        ("3%", "without the percent sign"),
        ("1,5", "read with a decimal point"),
        ("many", "put a number there"),
        ("inf", "put a number there"),
        ("1e999", "too large to be an amount"),
        (-1e16, "too large to be an amount"),
        ("1,23,456", "put a number there"),
        (True, "put a number there"),
        (dt.date(2020, 1, 1), "2020-01-01"),
        ([1], "is not a number"),
    ],
)
def test_text_in_a_number_column_is_refused_with_row_and_value(cell, remedy):
    with pytest.raises(DataError) as caught:
        read_column("rolls", ["1", cell], [2, 17], POINT)
    assert str(caught.value).startswith("row 17, column 'rolls':")
    assert remedy in str(caught.value)


def test_numbers_of_other_types_are_numbers():
    cells = [1, 2.5, np.float32(3), Decimal("4.5"), None, np.nan, pd.NA, pd.NaT]
    read = read_column("x", cells, list(range(8)), POINT)
    np.testing.assert_array_equal(read, [1, 2.5, 3, 4.5, *[np.nan] * 4])


@pytest.mark.parametrize("cell", ["", " ", "NA", "n/a", "#N/A", "nan", "NULL", "None", "-", "?"])
def test_words_for_missing_entries(cell):
    assert is_missing(cell)
    assert not is_missing(cell + "0")


# Files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_text_tables_of_any_delimiter_and_encoding(tmp_path, mark, encoding):
    text = f"Filiäle{mark}Brötchen\nZürich{mark}1\n北京{mark}2\n"
    path = tmp_path / "daten.csv"
    path.write_bytes(text.encode(encoding))
    data = load_table(path, "Filiäle", ["Brötchen"])
    assert data.labels == ["Zürich", "北京"]
    assert data.table["Brötchen"].tolist() == [1.0, 2.0]


def test_western_european_text_is_read_and_said(tmp_path):
    data = load_table(write(tmp_path, "sh\u00f6p,x\na,1\nb,2\n", encoding="cp1252"), "shöp", ["x"])
    assert "Windows-1252" in texts(data)


def test_names_in_another_unicode_form_are_the_same(tmp_path):
    composed, split = "Br\u00f6tchen", "Bro\u0308tchen"
    data = load(tmp_path, f"shop, {split} \na,1\nb,2\n", items=[composed])
    assert data.items == [composed]


def test_quoted_cells_blank_lines_and_row_numbers(tmp_path):
    text = 'shop,"rolls, small"\r\n\r\n"a\nb",1\r\nc,x\r\n'
    with pytest.raises(DataError, match="row 5, column 'rolls, small': 'x'"):
        load(tmp_path, text, items=["rolls, small"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("shop,rolls\n", "has a header and no rows"),
        ("shop,rolls\na,1\nb\n", "row 3: 1 cells where the header has 2"),
        ("shop,rolls\na,1,2\nb,3,4\n", "row 2: 3 cells where the header has 2"),
        ('shop,rolls\na,"1\n', "not a well-formed table; line 2"),
        ("shop,rolls,rolls\na,1,2\n", "has 2 columns named 'rolls'"),
        ("shop,rols\na,1\nb,2\n", "no column 'rolls'.*did you mean 'rols'?"),
        ("store,rolls\na,1\n", "no column 'shop'"),
        ("shop,rolls\na,1\na,2\n", "1 source in column 'shop', at least 2.*all rows are from 'a'"),
        ("shop\0,rolls\na,1\n", "no table of a kind known here"),
    ],
)
def test_tables_that_cannot_be_used(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        load(tmp_path, text)


def test_surplus_empty_cells_are_no_harm(tmp_path):
    assert len(load(tmp_path, "shop,rolls\na,1,,\nb,2\n").table) == 2


def test_files_that_are_not_there_name_the_nearest(tmp_path):
    write(tmp_path, CSV)
    with pytest.raises(DataError, match=r"did you mean 'sales.csv'\?"):
        read_file(tmp_path / "sale.csv")
    with pytest.raises(DataError, match="there is no folder"):
        read_file(tmp_path / "no" / "sales.csv")
    with pytest.raises(DataError, match="is a folder"):
        read_file(tmp_path)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (bytes.fromhex("d0cf11e0a1b11ae1") + b"x", "Excel's old format"),
        (b"\x1f\x8b\x08", "compressed"),
        (b"PAR1 and then nothing", "looks like Parquet but cannot be read"),
        (b"PK\x03\x04 and then nothing", "looks like Excel but cannot be read"),
    ],
)
def test_files_of_other_kinds_are_refused(tmp_path, head, message):
    path = tmp_path / "x"
    path.write_bytes(head)
    with pytest.raises(DataError, match=message):
        read_file(path)


FRAME = pd.DataFrame({"shop": ["a", "b", "a"], "rolls": [1.0, 3.0, 5.5], "bread": [2, 4, None]})


@pytest.mark.parametrize("kind", ["parquet", "xlsx", "csv", "frame"])
def test_every_kind_of_file_gives_the_same_table(tmp_path, kind):
    path = tmp_path / f"sales.{kind}"
    if kind == "parquet":
        FRAME.to_parquet(path)
    elif kind == "xlsx":
        FRAME.to_excel(path, index=False)
    elif kind == "csv":
        FRAME.to_csv(path, index=False)
    data = load_table(
        FRAME if kind == "frame" else path, "shop", ["rolls", "bread"], missing="drop"
    )
    assert data.table.to_numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert data.groups.tolist() == ["a", "b"]
    assert "1 of 3 rows had a missing entry (bread: 1)" in texts(data)


def test_a_sheet_can_be_named_and_several_are_said(tmp_path):
    path = tmp_path / "book.xlsx"
    with pd.ExcelWriter(path) as book:
        FRAME.to_excel(book, sheet_name="first", index=False)
        FRAME.assign(rolls=9.0).to_excel(book, sheet_name="second", index=False)
    assert "2 sheets; 'first' was read" in texts(load_table(path, "shop", ["rolls"]))
    assert load_table(path, "shop", ["rolls"], sheet="second").table["rolls"].tolist() == [9.0] * 3
    with pytest.raises(DataError, match="did you mean 'second'"):
        load_table(path, "shop", ["rolls"], sheet="secnd")


def test_standard_input_is_a_table(tmp_path):
    for content in (CSV.encode(), FRAME.to_parquet()):
        data = load_table("-", "shop", ["rolls"], stdin=io.BytesIO(content))
        assert data.table["rolls"].tolist() == [1.0, 3.0, 5.5]
        assert data.file == "standard input"


@pytest.mark.parametrize(("package", "suffix"), [("pyarrow", "parquet"), ("openpyxl", "xlsx")])
def test_where_a_package_is_missing_its_command_is_named(tmp_path, package, suffix, monkeypatch):
    path = tmp_path / f"sales.{suffix}"
    FRAME.to_parquet(path) if suffix == "parquet" else FRAME.to_excel(path, index=False)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'roodso\[io\]'"):
        load_table(path, "shop", ["rolls"])


def test_the_optional_packages_are_not_imported_for_text_tables():
    code = (
        "import sys, io, roodso.planner as p; "
        "p.load_table('-', 's', ['x'], stdin=io.BytesIO(b's,x\\na,1\\nb,2')); "
        "sys.exit(any(m in sys.modules for m in ('openpyxl', 'pyarrow.parquet')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Layouts --------------------------------------------------------------------------------------

LONG = """date,shop,item,sold
1,a,rolls,1
1,a,bread,2
2,a,bread,4
2,a,rolls,3
1,b,bread,6
1,b,rolls,5
"""


def test_long_tables_become_wide_by_the_row_column(tmp_path):
    data = load(tmp_path, LONG, items=["rolls", "bread"], item="item", value="sold", row="date")
    assert data.table.to_numpy().tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.groups.tolist() == ["a", "a", "b"]


def test_without_a_row_column_the_order_counts_and_that_is_said(tmp_path):
    data = load(tmp_path, LONG, items=None, item="item", value="sold")
    assert data.table.to_numpy().tolist() == [[1, 2], [3, 4], [5, 6]]
    assert "no column says which entries were observed together" in texts(data)


def test_long_and_wide_agree_with_pandas_pivot(tmp_path):
    frame = pd.read_csv(io.StringIO(LONG))
    pivoted = frame.pivot_table(index=["shop", "date"], columns="item", values="sold")
    data = load(tmp_path, LONG, items=["rolls", "bread"], item="item", value="sold", row="date")
    np.testing.assert_array_equal(data.table, pivoted[["rolls", "bread"]])


def test_gaps_and_doubles_in_long_tables(tmp_path):
    long = {"items": ["rolls", "bread"], "item": "item", "value": "sold", "row": "date"}
    with pytest.raises(DataError, match=r"1 of 3 rows have a missing entry \(rolls: 1\)"):
        load(tmp_path, LONG.replace("2,a,rolls,3\n", ""), **long)
    with pytest.raises(DataError, match="row 8: a second entry for 'rolls' of 'b' at '1'"):
        load(tmp_path, LONG + "1,b,rolls,9\n", **long)
    with pytest.raises(DataError, match=r"no item 'rols'.*did you mean 'rolls'"):
        load(tmp_path, LONG, **(long | {"items": ["rols"]}))
    with pytest.raises(ProblemError, match="needs the column of the values"):
        load(tmp_path, LONG, item="item")
    with pytest.raises(ProblemError, match="needs the column of the items"):
        load(tmp_path, LONG, layout="long")


def test_without_items_all_columns_of_numbers_are_taken(tmp_path):
    text = "shop,rolls,word,bread\na,1,x,2\nb,3,y,\nb,4,z,5\n"
    data = load(tmp_path, text, items=None, missing="drop")
    assert data.items == ["rolls", "bread"]
    with pytest.raises(DataError, match="no column of numbers besides 'shop'"):
        load(tmp_path, "shop,word\na,x\nb,y\n", items=None)


@pytest.mark.parametrize(
    ("items", "message"),
    [(["rolls", "rolls"], "named twice"), ([], "no item"), ([""], "no name"), (["shop"], "source")],
)
def test_impossible_items(tmp_path, items, message):
    with pytest.raises((ProblemError, DataError), match=message):
        load(tmp_path, CSV, items=items)


# Missing, negative, sources, units -------------------------------------------------------------

GAPS = "shop,rolls,bread\na,1,2\nb,,4\n,5,6\nb,7,NA\nb,8,9\n"


def test_missing_entries_are_refused_with_a_choice(tmp_path):
    with pytest.raises(DataError) as caught:
        load(tmp_path, GAPS, items=["rolls", "bread"])
    assert "3 of 5 rows have a missing entry (source: 1, rolls: 1, bread: 1)" in str(caught.value)
    assert "the first in row 3 (rolls)" in str(caught.value)
    assert "--missing drop" in caught.value.remedy


def test_dropping_is_said_and_so_is_a_source_lost(tmp_path):
    data = load(tmp_path, GAPS, items=["rolls", "bread"], missing="drop")
    assert data.table.to_numpy().tolist() == [[1, 2], [8, 9]]
    assert "3 of 5 rows had a missing entry" in texts(data)
    lost = load(tmp_path, GAPS + "c,,1\n", items=["rolls", "bread"], missing="drop")
    assert "nothing is left of c" in texts(lost)
    with pytest.raises(DataError, match="every row"):
        load(tmp_path, "shop,rolls\na,\nb,\n", missing="drop")


@pytest.mark.parametrize(
    ("negative", "rows"),
    [("keep", [1.0, -2.0, 3.0, 0.0]), ("zero", [1.0, 0.0, 3.0, 0.0]), ("drop", [1.0, 3.0, 0.0])],
)
def test_negative_entries_are_treated_as_chosen_and_said(tmp_path, negative, rows):
    data = load(tmp_path, "shop,rolls\na,1\nb,-2\na,3\nb,0\n", negative=negative)
    assert data.table["rolls"].tolist() == rows
    assert "1 entry is below 0, the first in row 3 (rolls)" in texts(data)


def test_negative_entries_can_be_refused_and_are_normal_for_returns(tmp_path):
    with pytest.raises(DataError, match="2 entries are below 0"):
        load(tmp_path, "shop,rolls\na,-1\nb,-2\n", negative="error")
    data = load(tmp_path, "shop,rolls\na,-0.1\nb,-0.2\n", negative="error", kind="portfolio")
    assert data.table["rolls"].tolist() == [-0.1, -0.2]


@pytest.mark.parametrize(
    ("name", "value"),
    [("missing", "maybe"), ("negative", "x"), ("layout", "tall"), ("decimal", ";")],
)
def test_choices_are_checked(tmp_path, name, value):
    with pytest.raises(ProblemError, match=name):
        load(tmp_path, CSV, **{name: value})


@pytest.mark.parametrize(
    ("cell", "label"),
    [(2.0, "2"), (2, "2"), ("2", "2"), (2.5, "2.5"), (" x ", "x"), (None, None), ("n/a", None),
     (dt.datetime(2020, 1, 2), "2020-01-02"), (pd.Timestamp("2020-01-02 03:00"),
      "2020-01-02 03:00:00")],
)  # fmt: skip
def test_names_of_sources(cell, label):
    assert label_of(cell) == label


def many(sizes, item="rolls"):
    rows = [f"s{i},{size * (1 + 0.1 * k)}" for i, size in enumerate(sizes) for k in range(4)]
    return f"shop,{item}\n" + "\n".join(rows) + "\n"


def test_a_source_in_another_unit_is_pointed_at(tmp_path):
    told = texts(load(tmp_path, many([10, 12, 9, 11, 10_000])))
    assert "'rolls' of 's4' is about 909 times what is usual elsewhere" in told
    told = texts(load(tmp_path, many([10, 12, 9, 11, 0.01])))
    assert "'rolls' of 's4' is about 1/1,000 of what is usual" in told
    assert "unit" not in texts(load(tmp_path, many([10, 20, 5, 40, 100])))


def test_warnings_on_sources(tmp_path):
    told = texts(load(tmp_path, "shop,rolls\nBerlin,1\nberlin ,1\nBonn,1\n"))
    assert "counted as different sources: 'Berlin', 'berlin'" in told
    assert "only 3 sources" in told
    assert "a single row only: Berlin, berlin, Bonn" in told
    assert "'rolls' is 1 in every row" in told


def test_returns_in_per_cent_are_pointed_at(tmp_path):
    told = texts(load(tmp_path, many([3, -2, 1, 4, 2]), kind="portfolio"))
    assert "are these per cent" in told
    assert "per cent" not in texts(load(tmp_path, many([0.03, -0.02, 0.01]), kind="portfolio"))


def test_a_source_can_be_taken_out_and_looked_at(tmp_path):
    data = load(tmp_path, CSV, items=["rolls", "brown bread"])
    assert data.of("a")["rolls"].tolist() == [1.0, 5.5]
    assert data.without("a").labels == ["b"]
    assert data.sizes.to_dict() == {"a": 2, "b": 1}


@pytest.mark.parametrize("word", ["PRICE", "prise", "pric"])
def test_the_nearest_word_is_found_whatever_its_case(word):
    assert nearest(word, ["cost", "price"]) == "did you mean 'price'?"
    assert nearest("zzz", []) == "there are none"
    assert nearest("zzz", [f"w{i}" for i in range(20)]).endswith("and 8 more")


def test_a_column_that_is_left_out_is_said_with_its_row(tmp_path):
    lines = ["shop,day,a,u", *(f"s{i},mon,{i * j},{i + j}" for i in range(4) for j in range(5))]
    lines[4] = "s0,tue,x,3"
    path = tmp_path / "sales.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    data = load_table(path, source="shop")
    assert data.items == ["u"]
    said = {(note.level, note.text) for note in data.notes}
    assert ("warning", "column 'a' is no item: row 5, column 'a': 'x' is not a number") in said
    assert ("info", "column 'day' is no item: row 2, column 'day': 'mon' is not a number") in said
