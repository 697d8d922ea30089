"""Models pickle, and come back from a portable file bit for bit; bad files say what is wrong."""

import copy
import datetime as dt
import enum
import io
import json
import os
import pickle
import stat
import subprocess
import sys
import zipfile
from zoneinfo import ZoneInfo

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import roodso
from roodso import RooDSO, kernels, losses, methods, sets
from roodso.datasets import make_newsvendor_sources
from roodso.exceptions import DegenerateDataWarning
from roodso.losses import ConvexLoss, CVaRPortfolio, Newsvendor
from roodso.methods.base import DecisionMaker
from roodso.portable import FORMAT_VERSION
from roodso.portable.archive import ArchiveReader, write_archive
from roodso.portable.objects import LEARNERS, LOSSES, METHODS, RECORDS, conforms
from roodso.portable.values import ValueReader, ValueWriter
from roodso.sets import FixedBall, SupportMeasureBall
from roodso.solver.solution import EmbeddingReport

SHOPS = make_newsvendor_sources(6, (15, 25), random_state=0)
FRAMES = {
    f"shop {i}": pd.DataFrame(table, columns=["loaves", "rolls"]) for i, table in enumerate(SHOPS)
}
NEW = np.random.default_rng(1).uniform(0.5, 3.0, (12, 2))
LOSS = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])


def squares(x, xi):
    return ((xi - x) ** 2).sum(axis=1)


def squares_slope(x, xi):
    return 2 * (x - xi)


def cubes(x, xi):
    return (np.abs(xi - x) ** 3).sum(axis=1)


def squares_expression(x, xi):
    import cvxpy as cp

    ones = np.ones((len(xi), 1))
    return cp.sum(cp.square(ones @ cp.reshape(x, (1, 2), order="F") - xi), axis=1)


CONVEX = ConvexLoss(squares, squares_slope, lower=-10, upper=10)
EXPRESSION = ConvexLoss(expression=squares_expression, lower=-10, upper=10)


def fit(loss=LOSS, data=SHOPS, groups=None, **parameters):
    defaults = {"n_support": 20, "random_state": 0, "n_jobs": 1}
    return RooDSO(loss, **(defaults | parameters)).fit(data, groups=groups)


def bits(value):
    """What must be equal for two results to be the same bit for bit, types and names included."""
    if isinstance(value, np.ndarray):
        content = bits(value.ravel().tolist()) if value.dtype == object else value.tobytes()
        return "array", value.dtype.str, value.shape, content
    if isinstance(value, pd.Series):
        index, array = [*value.index, *value.index.names], value.to_numpy()
        return "series", bits(index), bits(value.name), bits(array)
    if isinstance(value, pd.DataFrame):
        columns = [bits(value.iloc[:, j]) for j in range(value.shape[1])]
        return "frame", bits([*value.columns, *value.columns.names]), columns
    if isinstance(value, (list, tuple)):
        return type(value), [bits(item) for item in value]
    if isinstance(value, dict):
        return dict, [(bits(key), bits(item)) for key, item in value.items()]
    if isinstance(value, np.random.Generator):
        return "generator", bits(value.bit_generator.state)
    if isinstance(value, np.generic):
        return type(value), str(value.dtype), value.tobytes()
    if isinstance(value, kernels.Kernel):
        return type(value), repr(value)
    if isinstance(value, (losses.Loss, FixedBall, SupportMeasureBall)):
        return type(value), bits(value.get_params(deep=False))
    if value is None or isinstance(value, (bool, int, float, str, dt.date)):
        return type(value), repr(value)
    if isinstance(value, EmbeddingReport):
        return type(value), bits(vars(value))
    raise AssertionError(f"no rule for {type(value)}")


def answers(model):
    """Everything a fitted model tells."""
    solution, ball = model.solution_, model.uncertainty_set_
    witness = solution.witness
    x = 0.9 * np.asarray(model.decision_) + 0.1 * np.asarray(model.decision_)[::-1]
    cost = model.worst_case_cost(x)
    learner = model.set_learner_
    found = {
        "decision": model.decision_,
        "objective": model.objective_,
        "n_features": model.n_features_in_,
        "names": getattr(model, "feature_names_in_", None),
        "solution": [
            getattr(solution, name)
            for name in solution.__dataclass_fields__
            if name not in ("witness", "box")
        ],
        "gap": solution.gap,
        "worst case": solution.worst_case(),
        "set": [ball.mixtures, ball.radius, ball.radius_without_gamma, ball.gram, ball.cap],
        "labels": [ball.labels, ball.weights, ball.bandwidth, ball.kernel],
        "learner": [getattr(learner, name) for name in sorted(vars(learner)) if name[-1] == "_"
                    and name != "uncertainty_set_"],
        "distance": [ball.distance(NEW), ball.contains(NEW), learner.predict([NEW]).tolist()],
        "score": model.score(NEW),
        "cost": [cost.upper_bound, cost.lower_bound, cost.worst_case_weights, cost.status],
    }  # fmt: skip
    if witness is not None:
        found["witness"] = [witness.beta, witness.g.points, witness.g.coefficients, witness.g.norm]
        found["witness at"] = [witness(NEW), witness.g.gradient(NEW)]
    return {name: bits(value) for name, value in found.items()}


def assert_same(a, b):
    assert type(a) is type(b)
    mine, other = answers(a), answers(b)
    assert {name for name in mine if mine[name] != other[name]} == set()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.roodso"


def there_and_back(model, path, **loading):
    model.save(path, include_loss=not loading)
    return roodso.load(path, **loading)


# --- Round trips -----------------------------------------------------------------------------


MODELS = {
    "newsvendor": lambda: fit(),
    "frames": lambda: fit(data=FRAMES),
    "frames with parameters as series": lambda: fit(
        Newsvendor(
            price=pd.Series([50.0, 40.0], index=["loaves", "rolls"], name="price"),
            cost=np.array([20, 15]),
            A_ub=pd.DataFrame([[1.0, 2.0]], columns=["loaves", "rolls"], index=["shelf"]),
            b_ub=(4.0,),
            upper=[np.inf, 3],
        ),
        data=FRAMES,
    ),
    "portfolio": lambda: fit(CVaRPortfolio(risk_aversion=np.float32(2), A_ub=[[1, 0]], b_ub=0.5)),
    "laplace": lambda: fit(kernel="laplace", bandwidth=0.7),
    "matern32": lambda: fit(kernel="matern32"),
    "matern52 of a given bandwidth": lambda: fit(kernel=kernels.Matern52(1.5)),
    "sum": lambda: fit(kernel=kernels.RBF() + kernels.Laplace(2.0)),
    "product": lambda: fit(kernel=kernels.Matern32() * (kernels.RBF(1.0) + kernels.RBF())),
    "scale": lambda: fit(scale=True, data=FRAMES),
    "gamma": lambda: fit(gamma=0.01, nu=np.float64(0.5)),
    "low rank": lambda: fit(embedding="low-rank", tol=1e-3, memory_limit="1 MB"),
    "herded": lambda: fit(representer="herded", n_herding=5, gram="herded"),
    "learner": lambda: fit(uncertainty_set=SupportMeasureBall(0.4, kernel="laplace")),
    "given ball": lambda: fit(uncertainty_set=FixedBall(0.2, weights=np.full(6, 1 / 6))),
    "box": lambda: fit(support_box=([0.0, 0.0], np.array([4.0, 5.0]))),
    "path": lambda: RooDSO(LOSS, n_support=20, random_state=0, n_jobs=1).path(SHOPS, [0.1, 0.6])[1],
    "no seed": lambda: fit(random_state=None),
    "one drawn point": lambda: fit(n_support=1),
    "no drawn points": lambda: fit(n_support=0),
}


@pytest.mark.parametrize("name", MODELS)
def test_comes_back_bit_for_bit(name, path):
    model = MODELS[name]()
    loaded = there_and_back(model, path)
    assert_same(model, loaded)
    before, after = model.get_params(deep=False), loaded.get_params(deep=False)
    assert bits(list(before)) == bits(list(after))
    assert {key for key in before if bits(before[key]) != bits(after[key])} == set()


def test_radius_zero_comes_back(path):
    with pytest.warns(DegenerateDataWarning):
        model = fit(data=[SHOPS[0], SHOPS[0]])
    assert model.solution_.witness is None
    assert_same(model, there_and_back(model, path))


def test_what_is_shared_is_shared_again(path):
    loaded = there_and_back(fit(), path)
    ball = loaded.uncertainty_set_
    assert loaded.set_learner_.uncertainty_set_ is ball
    assert loaded._programme.uncertainty is ball
    assert loaded._programme.problem is loaded._problem
    assert loaded._programme.embedding.sources is ball.sources
    assert loaded.solution_.witness.g.space is ball.space


def test_a_second_round_trip_gives_the_same_file(path, tmp_path):
    model = fit(data=FRAMES)
    again = tmp_path / "again"
    there_and_back(model, path).save(again)
    assert again.read_bytes() == path.read_bytes()


def test_a_loaded_model_can_be_cloned_and_fitted(path):
    model = fit(data=FRAMES)
    refitted = clone(there_and_back(model, path)).fit(FRAMES)
    assert bits(refitted.decision_) == bits(model.decision_)


def test_an_unfitted_model_comes_back_unfitted(path):
    model = RooDSO(LOSS, nu=0.3, random_state=0)
    loaded = there_and_back(model, path)
    assert loaded.nu == 0.3
    assert not hasattr(loaded, "solution_")
    assert bits(loaded.fit(SHOPS).decision_) == bits(model.fit(SHOPS).decision_)


def test_the_loss_comes_back_as_it_was_fitted(path):
    model = fit(clone(LOSS)).set_params(loss__price=[70, 60])
    loaded = there_and_back(model, path)
    assert loaded.loss.price == [70, 60]
    assert_same(model, loaded)


def test_another_process_gives_the_same_answers(path):
    model = fit(data=FRAMES)
    model.save(path)
    program = """
import sys, numpy as np, roodso
model = roodso.load(sys.argv[1])
cost = model.worst_case_cost([1.0, 1.0])
print(np.append(model.decision_, [cost.upper_bound, cost.lower_bound]).tobytes().hex())
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    cost = model.worst_case_cost([1.0, 1.0])
    expected = np.append(model.decision_, [cost.upper_bound, cost.lower_bound])
    assert done.stdout.strip() == expected.tobytes().hex()


def test_progress_and_metadata_requests_are_not_kept(path):
    model = fit(progress=lambda *_: None)
    with sklearn.config_context(enable_metadata_routing=True):
        model.set_fit_request(groups=True)
    assert there_and_back(model, path).progress is None


# --- Labels, seeds and other values ----------------------------------------------------------


LABELS = {
    "text": ["a", "b \ud800 \u2603"],
    "int": [3, 2**80],
    "int and text": [1, "1"],
    "float": [0.1, -0.0],
    "bool": [True, False],
    "tuple": [("north", 1), ("north", (2, None))],
    "numpy int": [np.int64(1), np.uint8(2)],
    "numpy float": [np.float32(0.1), np.float64(np.inf)],
    "numpy text": [np.str_("a"), np.str_("b")],
    "numpy bool": [np.True_, np.False_],
    "numpy time": [np.datetime64("2024-01-01"), np.datetime64(5, "25s")],
    "timestamp": [pd.Timestamp("2024-01-01 00:00:00.123456789"), pd.Timestamp("2024-01-02")],
    "timestamp with zone": [
        pd.Timestamp("2024-10-27 01:30", tz="UTC").tz_convert("Europe/Berlin"),  # the second 2:30
        pd.Timestamp("2024-07-01", tz=dt.timezone(dt.timedelta(hours=2))),
    ],
    "datetime": [
        dt.datetime(2024, 1, 1, 12),
        dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
    ],
    "date": [dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)],
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_keep_their_types(kind, path):
    labels = LABELS[kind]
    model = fit(data=dict(zip(labels, SHOPS, strict=False)), nu=0.9)
    loaded = there_and_back(model, path)
    assert bits(list(loaded.solution_.labels)) == bits(labels)
    assert loaded.set_learner_.labels_ == model.set_learner_.labels_


def test_groups_of_a_frame_keep_their_types(path):
    stacked = np.vstack(SHOPS[:3])
    days = pd.Series(pd.date_range("2024-01-01", periods=3)).repeat([len(s) for s in SHOPS[:3]])
    model = fit(data=stacked, groups=days, nu=0.9)
    loaded = there_and_back(model, path)
    assert loaded.solution_.labels == model.solution_.labels
    assert all(isinstance(label, pd.Timestamp) for label in loaded.solution_.labels)


class Region(enum.StrEnum):
    NORTH = "north"


@pytest.mark.parametrize("label", [Region.NORTH, b"north", frozenset([1]), (1, object())])
def test_a_label_without_portable_form_is_refused(label, path):
    model = fit(data={label: SHOPS[0], "b": SHOPS[1]}, nu=0.9)
    with pytest.raises(TypeError, match=r"labels\[0\].* no portable form; use text"):
        model.save(path)
    assert not path.parent.joinpath("model.roodso").exists()
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.PCG64DXSM, np.random.SFC64])
def test_a_generator_goes_on_where_it_was(kind, path):
    model = fit(random_state=np.random.Generator(kind(7)))
    model.random_state.integers(5, dtype=np.int32)  # leaves half a word in the state
    loaded = there_and_back(model, path)
    assert bits(loaded.random_state) == bits(model.random_state)
    assert bits(loaded.random_state.random(5)) == bits(model.random_state.random(5))


@pytest.mark.parametrize("kind", [np.random.MT19937, np.random.Philox])
def test_other_generators_are_refused(kind, path):
    with pytest.raises(TypeError, match=r"RooDSO.random_state .*PCG64"):
        fit(random_state=np.random.Generator(kind(7))).save(path)


def write_and_read(value):
    """Through the text of the JSON, as a file does."""
    writer = ValueWriter()
    text = json.dumps(writer.write(value, "value"), allow_nan=False)
    return ValueReader(writer.arrays).read(json.loads(text))


numbers = st.integers() | st.floats() | st.floats(width=32).map(np.float32)
times = (
    st.datetimes(timezones=st.none() | st.timezones(no_cache=False))
    | st.dates()
    | st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)).map(pd.Timestamp)
    | st.integers(-(2**62), 2**62).map(lambda count: np.datetime64(count, "ns"))
)
leaves = st.none() | st.booleans() | st.text() | numbers | times
nested = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(leaves.filter(lambda key: key == key), inner)
    ),
    max_leaves=10,
)


@given(nested)
def test_nested_values_come_back(value):
    assert bits(write_and_read(value)) == bits(value)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((0, 3)),
        np.arange(6).reshape(2, 3)[:, ::2],
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(["a", "bc"]),
        np.array([True, False]),
        np.array(["2024-01-01"], dtype="M8[D]"),
        np.array([1, "a", None, [2, (3,)]], dtype=object),
        np.array(5.0),
    ],
)
def test_arrays_come_back(array):
    assert bits(write_and_read(array)) == bits(array)


@pytest.mark.parametrize(
    "table",
    [
        pd.Series([1.0, np.nan], index=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])),
        pd.Series([1, 2], index=pd.date_range("2024-01-01", periods=2), name=("x", 1)),
        pd.Series([], dtype=float),
        pd.Series([1, "a"], dtype=object),
        pd.DataFrame([[1, 2.5], [3, 4.5]], columns=["a", "a"], index=pd.Index([7, 8], name="i")),
        pd.DataFrame(np.zeros((2, 0))),
    ],
)
def test_tables_come_back(table):
    assert bits(write_and_read(table)) == bits(table)


@pytest.mark.parametrize(
    "value",
    [
        pd.Series([1, 2], dtype="Int64"),
        np.ma.masked_array([1.0, 2.0], [True, False]),
        np.array([(1, 2.0)], dtype="i4,f8"),
        pd.NaT,
        1j,
        print,
        np.random.RandomState(0),
    ],
)
def test_values_without_portable_form_are_refused(value):
    with pytest.raises(TypeError, match=r"thing\[0\].* cannot be saved: .* no portable form"):
        ValueWriter().write([value], "thing")


# --- Losses that are Python functions --------------------------------------------------------


@pytest.mark.parametrize("loss", [CONVEX, EXPRESSION])
def test_a_loss_of_functions_is_given_again(loss, path):
    model = fit(loss)
    with pytest.raises(TypeError, match="include_loss=False and pass loss="):
        model.save(path)
    assert not path.exists()
    model.save(path, include_loss=False)
    with pytest.raises(ValueError, match=r"include_loss=False: pass loss="):
        roodso.load(path)
    loaded = roodso.load(path, loss=loss)
    assert loaded.loss is loss
    assert_same(model, loaded)


class OwnLoss(Newsvendor):
    pass


def test_a_loss_of_the_users_own_class_is_given_again(path):
    model = fit(OwnLoss(price=50, cost=20))
    with pytest.raises(TypeError, match=r"OwnLoss is not a loss of this library.*include_loss"):
        model.save(path)
    assert_same(model, there_and_back(model, path, loss=OwnLoss(price=50, cost=20)))


def test_any_loss_can_be_left_out(path):
    model = fit()
    loaded = there_and_back(model, path, loss=LOSS)
    assert_same(model, loaded)
    assert b"Newsvendor" not in path.read_bytes()


@pytest.mark.parametrize(
    "wrong",
    [
        ConvexLoss(cubes, squares_slope, lower=-10, upper=10),
        ConvexLoss(squares, squares_slope, lower=-10, upper=10, dimension=1),
        ConvexLoss(squares, squares_slope, lower=-10, upper=[1, 2, 3]),
        Newsvendor(price=50, cost=20),
    ],
)
def test_another_loss_than_the_fitted_one_is_refused(wrong, path):
    fit(CONVEX).save(path, include_loss=False)
    with pytest.raises(ValueError, match="cannot be loaded"):
        roodso.load(path, loss=wrong)


def test_a_loss_is_not_given_twice(path):
    fit().save(path)
    with pytest.raises(ValueError, match="loss must be None"):
        roodso.load(path, loss=LOSS)
    with pytest.raises(TypeError, match="loss must be a roodso loss or None, got 'newsvendor'"):
        roodso.load(path, loss="newsvendor")


class OwnKernel(kernels.RBF):
    pass


class OwnBall(SupportMeasureBall):
    pass


class OwnMethod(RooDSO):
    pass


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: fit(kernel=OwnKernel()), r"RooDSO.kernel cannot be saved: .*OwnKernel"),
        (lambda: fit(kernel=kernels.RBF() + OwnKernel()), r"RooDSO.kernel cannot be saved"),
        (lambda: fit(uncertainty_set=OwnBall()), r"RooDSO.uncertainty_set .*OwnBall"),
        (
            lambda: OwnMethod(LOSS).fit(SHOPS),
            r"OwnMethod cannot be saved; expected one of .*RooDSO",
        ),
    ],
)
def test_classes_of_the_users_own_are_refused(model, message, path):
    with pytest.raises(TypeError, match=message):
        model().save(path)
    assert list(path.parent.iterdir()) == []


def test_what_a_class_does_not_annotate_is_refused(path):
    model = fit()
    model.note = "best so far"
    with pytest.raises(TypeError, match="note is not annotated in RooDSO"):
        model.save(path)


def test_a_model_whose_fit_failed_half_way_is_refused(path):
    model = fit()
    del model.solution_
    with pytest.raises(TypeError, match="solution_ is missing"):
        model.save(path)


def test_everything_public_is_registered():
    """A class that is not registered cannot be saved: it needs one line in portable/objects.py."""

    def public(module, base):
        classes = [getattr(module, name) for name in module.__all__]
        return {cls for cls in classes if isinstance(cls, type) and issubclass(cls, base)}

    assert public(methods, DecisionMaker) == set(METHODS)
    assert public(losses, losses.Loss) - {losses.Loss, ConvexLoss} == set(LOSSES)
    learners = {cls for cls in public(sets, object) if hasattr(cls, "learn")}
    assert learners == set(LEARNERS)
    assert len({cls.__name__ for cls in (*METHODS, *LEARNERS, *LOSSES, *RECORDS)}) == sum(
        map(len, (METHODS, LEARNERS, LOSSES, RECORDS))
    )


def test_conforms():
    assert conforms((1, "a"), tuple[int, str])
    assert not conforms((1, 2), tuple[int, str])
    assert not conforms(True, int)
    assert conforms(np.float64(1), float)
    assert not conforms(np.zeros(2, dtype=object), roodso._typing.Array)
    assert not conforms([1], dict[str, float])
    assert conforms({"a": 1}, dict[str, float])
    assert not conforms({1: 1}, dict[str, float])


# --- Pickle, copy, joblib --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["frames", "portfolio", "product", "learner", "herded"])
def test_pickle_and_deepcopy(name):
    model = MODELS[name]()
    answers(model)  # fills every cache
    assert_same(model, pickle.loads(pickle.dumps(model)))
    assert_same(model, copy.deepcopy(model))


@pytest.mark.parametrize("loss", [CONVEX, EXPRESSION])
def test_pickle_with_functions_of_a_module(loss, monkeypatch):
    # importlib mode does not put test modules where pickle finds them
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__, _this_module()))
    model = fit(loss)
    assert_same(model, pickle.loads(pickle.dumps(model)))
    assert_same(model, copy.deepcopy(model))


def _this_module():
    module = type(sys)(__name__)
    module.__dict__.update(globals())
    return module


def test_joblib(tmp_path):
    model = fit(data=FRAMES)
    joblib.dump(model, tmp_path / "model.joblib")
    assert_same(model, joblib.load(tmp_path / "model.joblib"))


def test_the_ball_alone_pickles():
    ball = SupportMeasureBall(kernel=kernels.RBF() + kernels.Laplace(1.0)).fit(FRAMES)
    for other in (pickle.loads(pickle.dumps(ball)), copy.deepcopy(ball)):
        assert bits(other.distances_) == bits(ball.distances_)
        assert other.distance(NEW) == ball.distance(NEW)
        assert other.labels_ == ball.labels_


# --- Writing: whole or not at all ------------------------------------------------------------


@pytest.mark.parametrize("culprit", ["np.lib.format.write_array", "os.replace", "os.fsync"])
def test_a_failing_save_leaves_the_old_file(culprit, path, monkeypatch):
    fit(nu=0.5).save(path)
    old = path.read_bytes()

    def fail(*arguments, **keywords):
        raise OSError("disk full")

    monkeypatch.setattr(f"roodso.portable.archive.{culprit}", fail)
    with pytest.raises(OSError, match="disk full"):
        fit(nu=0.9).save(path)
    assert path.read_bytes() == old
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_type_error_leaves_the_old_file(path):
    fit().save(path)
    old = path.read_bytes()
    with pytest.raises(TypeError):
        fit(CONVEX).save(path)
    assert path.read_bytes() == old


def test_a_link_stays_a_link_and_permissions_stay(path, tmp_path):
    fit().save(path)
    assert stat.S_IMODE(path.stat().st_mode) & 0o111 == 0
    path.chmod(0o600)
    link = tmp_path / "latest"
    link.symlink_to(path.name)
    fit(nu=0.9).save(link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert roodso.load(path).nu == 0.9


def test_paths(tmp_path):
    fit().save(str(tmp_path / "text"))
    assert roodso.load(os.fspath(tmp_path / "text")).nu == 0.2
    with pytest.raises(IsADirectoryError):
        fit().save(tmp_path)
    with pytest.raises(FileNotFoundError):
        fit().save(tmp_path / "nowhere" / "model")
    with pytest.raises(FileNotFoundError):
        roodso.load(tmp_path / "nothing")


# --- Bad files -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "model.roodso"
    fit(data=FRAMES).save(path)
    return path


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(good, path, changes=(), document=None, compression=zipfile.ZIP_STORED):
    """The good file with other members, or with its document changed by a function."""
    contents = members(good) | dict(changes)
    if document is not None:
        changed = json.loads(contents["model.json"])
        document(changed)
        contents["model.json"] = json.dumps(changed).encode()
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in contents.items():
            if data is not None:
                archive.writestr(name, data)
    return path


def npy(array, **options):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, **options)
    return stream.getvalue()


def assert_refused(path, message):
    with pytest.raises(ValueError, match=message) as caught:
        roodso.load(path)
    assert str(path) in str(caught.value)


def test_the_rewritten_file_is_good(good, path):
    rewrite(good, path, document=lambda document: None)
    assert_same(roodso.load(good), roodso.load(path))


def test_something_else_is_refused(path):
    path.write_bytes(b"")
    assert_refused(path, r"no zip file with model.json and arrays")
    path.write_bytes(pickle.dumps({"a": 1}))
    assert_refused(path, r"no zip file")
    np.savez(path.with_suffix(".npz"), a=1)
    assert_refused(path.with_suffix(".npz"), r"'model.json' is missing")


def test_a_newer_format_is_refused_before_all_else(good, path):
    def newer(document):
        document.update(format_version=FORMAT_VERSION + 1, library_version="9.9")
        document["arrays"] = {"another": "layout"}

    rewrite(good, path, {"arrays/0.npy": b"?", "more.parquet": b"?"}, newer)
    assert_refused(path, r"format version 2, written by roodso '9.9'; .* up to 1")


@pytest.mark.parametrize("version", [0, "1", None, 1.0, True])
def test_a_version_that_is_none_is_refused(version, good, path):
    rewrite(good, path, document=lambda document: document.update(format_version=version))
    assert_refused(path, "format_version must be a whole number >= 1")


class Bomb:
    """Unpickling it creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_an_object_array_is_refused_and_not_unpickled(good, path, tmp_path):
    trace = str(tmp_path / "trace")
    array = np.array([Bomb(trace)], dtype=object)
    rewrite(good, path, {"arrays/0.npy": npy(array, allow_pickle=True)})
    assert_refused(path, r"'arrays/0.npy' holds object; expected numbers")
    assert not os.path.exists(trace)
    # the same where the table of arrays admits it
    rewrite(
        good,
        path,
        {"arrays/0.npy": npy(array, allow_pickle=True)},
        lambda document: document["arrays"][0].update(dtype="|O", shape=[1]),
    )
    assert_refused(path, r"holds object")
    assert not os.path.exists(trace)


@pytest.mark.parametrize("name", ["../evil.npy", "/tmp/evil.npy", "arrays/../../evil", "x.py"])
def test_foreign_members_are_refused_and_written_nowhere(name, good, path):
    rewrite(good, path, {name: b"evil"})
    assert_refused(path, f"member '{name}' does not belong there")
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_missing_doubled_and_exchanged_members_are_refused(good, path):
    rewrite(good, path, {"arrays/1.npy": None})
    assert_refused(path, r"'arrays/1.npy' is missing")
    rewrite(good, path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("arrays/1.npy", members(good)["arrays/1.npy"])
    assert_refused(path, r"'arrays/1.npy' is there more than once")
    rewrite(good, path, {"arrays/0.npy": npy(np.zeros((7, 7, 7)))})
    assert_refused(path, r"'arrays/0.npy' holds <f8 of shape \[7, 7, 7\], but model.json describes")
    rewrite(good, path, {"arrays/0.npy": b"no array"})
    assert_refused(path, r"'arrays/0.npy' is no npy array")


def test_a_member_that_claims_too_much_is_refused(good, path):
    # Half a petabyte by its header: refused before memory is taken.
    header = io.BytesIO()
    description = {"descr": "<f8", "fortran_order": False, "shape": (2**46,)}
    np.lib.format.write_array_header_1_0(header, description)
    rewrite(
        good,
        path,
        {"arrays/0.npy": header.getvalue() + bytes(64)},
        lambda document: document["arrays"][0].update(dtype="<f8", shape=[2**46]),
    )
    assert_refused(path, "has 64 bytes, which are not <f8 of shape")
    rewrite(good, path, compression=zipfile.ZIP_DEFLATED)
    assert_refused(path, "larger than the file|is compressed")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "not the JSON expected"),
        (b"\xff\xfe{}", "not the JSON expected"),
        (b'{"format": NaN}', "NaN is not JSON"),
        (b"[" * 100_000, "not the JSON expected"),
        (b"[]", "must be a JSON object, got list"),
        (b"{}", "its format is None, expected 'roodso model'"),
        (b'{"format": "roodso model", "format_version": 1}', "loss_included"),
    ],
)
def test_a_malformed_document_is_refused(text, message, good, path):
    rewrite(good, path, {"model.json": text})
    assert_refused(path, message)


def of_type(document, name, which=0):
    return [thing for thing in document["objects"] if thing.get("type") == name][which]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: d["objects"][-1].update(type="os.system"),
            r"unknown type 'os.system'; expected",
        ),
        (lambda d: d["objects"][-1].update(type="Pipeline"), "unknown type 'Pipeline'"),
        (lambda d: d["objects"][-1].update(type=["RooDSO"]), "unhashable"),
        (lambda d: d["objects"][-1]["results"].update(fit=1), "fit is not annotated"),
        (lambda d: d["objects"][-1]["results"].update(__class__=1), "__class__ is not annotated"),
        (lambda d: d["objects"][-1]["results"].pop("solution_"), "solution_ is missing"),
        (lambda d: d["objects"][-1]["results"].update(solution_=5), "solution_ must be .*got int"),
        (lambda d: d["objects"][-1]["parameters"].update(evil=1), "unexpected keyword argument"),
        (lambda d: d["objects"][-1]["parameters"].update(kernel={"$eval": "1"}), "unknown kind"),
        (
            lambda d: d["objects"][-1]["parameters"].update(kernel={"$kernel": {"kind": "x"}}),
            r"object \d+ \(RooDSO\)",
        ),
        (lambda d: of_type(d, "Sources")["fields"].update(samples="no"), "samples must be"),
        (lambda d: of_type(d, "Solution")["fields"].pop("support"), "support is missing"),
        (lambda d: of_type(d, "Solution")["fields"].update(more=1), "more is not annotated"),
        (
            lambda d: of_type(d, "Newsvendor", -1)["parameters"].update(price=[1, 2, 3]),
            r"problem.*price must be a number or 2 numbers",
        ),
        (lambda d: d.update(model=10**6), "there is no object 1000000"),
        (lambda d: d.update(model=-1), "there is no object -1"),
        (lambda d: d["objects"].reverse(), "there is no object"),
        (lambda d: d["objects"].pop(), "there is no object"),
        (lambda d: d.update(objects=None), "cannot be loaded"),
        (lambda d: d.update(arrays=None), "no list of arrays"),
        (lambda d: d.update(loss_included=False), "pass loss="),
    ],
)
def test_a_document_that_asks_for_something_else_is_refused(change, message, good, path):
    rewrite(good, path, document=change)
    assert_refused(path, message)


@pytest.mark.parametrize(
    "state",
    [
        {"$generator": ["MT19937", {"$dict": []}]},
        {"$generator": ["PCG64", {"$dict": []}]},
        {"$generator": ["PCG64", 5]},
        {"$datetime": ["yesterday", 0, None]},
        {"$timestamp": [0, "Y", None]},
        {"$timestamp": [0, "s", "../../../etc/passwd"]},
        {"$scalar": ["object", 1]},
        {"$scalar": ["int8", 300]},
        {"$array": -1},
        {"$array": True},
        {"$objects": [[2], [1]]},
        {"$float": "1e3"},
        {"$float": "inf", "$array": 0},
        {},
    ],
)
def test_malformed_values_are_refused(state, good, path):
    def change(document):
        document["objects"][-1]["parameters"]["random_state"] = state

    rewrite(good, path, document=change)
    assert_refused(path, r"object \d+ \(RooDSO\)")


def test_a_file_that_is_cut_off_is_refused(good, path):
    data = good.read_bytes()
    for length in np.linspace(0, len(data) - 1, 60).astype(int):
        path.write_bytes(data[:length])
        with pytest.raises(ValueError, match="cannot be loaded"):
            roodso.load(path)


def test_a_changed_byte_is_refused_or_changes_nothing(good, path):
    data, whole = bytearray(good.read_bytes()), roodso.load(good)
    expected = bits(whole.decision_), bits(whole.solution_.support), whole.score(NEW)
    refused = 0
    for place in np.random.default_rng(0).choice(len(data), 250, replace=False):
        damaged = data.copy()
        damaged[place] ^= 0x55
        path.write_bytes(damaged)
        try:
            loaded = roodso.load(path)
        except ValueError:
            refused += 1
        else:  # dates, permissions and the like
            found = bits(loaded.decision_), bits(loaded.solution_.support), loaded.score(NEW)
            assert found == expected
    assert refused > 150


def test_the_archive_alone(tmp_path):
    path = tmp_path / "archive"
    write_archive(path, {"a": 1}, [np.arange(3), np.zeros((2, 0))])
    with open(path, "rb") as stream, ArchiveReader(stream) as archive:
        assert archive.document["a"] == 1
        assert bits(archive.arrays()) == bits([np.arange(3), np.zeros((2, 0))])
    with zipfile.ZipFile(path) as plain:  # any reader of zip and npy will do
        assert plain.namelist() == ["model.json", "arrays/0.npy", "arrays/1.npy"]
        assert np.load(io.BytesIO(plain.read("arrays/0.npy"))).tolist() == [0, 1, 2]
    before = path.read_bytes()
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_archive(path, {"a": np.nan}, [])
    assert path.read_bytes() == before
