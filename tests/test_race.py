"""The race's own logic: its protocol, its limits, its referee, its arithmetic and its page."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist

import race
from racing import contests, events, peers, report
from racing import run as running
from racing.contests import Limits, contest
from racing.events import EVENTS, OURS
from roodso import RooDSO
from roodso.sets import FixedBall

CONTESTANTS = Path(contests.__file__).parent / "contestants"
LIMITS = Limits(seconds=30.0, repetitions=2, enough=10.0)


@pytest.fixture
def enter(tmp_path):
    """Runs a contestant whose file ends with the given lines."""
    data = tmp_path / "data.npz"
    np.savez(data, x=np.arange(4.0), name="four")

    def run(lines, limits=LIMITS, **request):
        script = tmp_path / "contestant.py"
        head = ["import os, signal, sys, time", f"sys.path.insert(0, {str(CONTESTANTS)!r})"]
        head += ["from worker import NotInstalledError, OtherProblemError, serve"]
        script.write_text("\n".join([*head, *lines]))
        asked = {"data": str(data), "warm_up": None, "options": {"power": 2}} | request
        return contest(Path(sys.executable), script, asked, limits, {})

    return run


# The protocol -----------------------------------------------------------------------------------


def test_a_contestant_is_given_arrays_and_options_and_is_timed(enter):
    answer = enter(
        [
            "def solve(data, options):",
            "    time.sleep(0.05)",
            "    return {'value': float((data['x'] ** options['power']).sum()), 'a': [1, 2]}",
            "serve(solve, ['numpy', 'no such thing'])",
        ]
    )
    assert answer["status"] == "solved"
    assert answer["result"] == {"value": 14.0, "a": [1, 2]}
    assert answer["seconds"] >= 0.05 > answer["processor_seconds"]
    assert answer["repetitions"] == 2
    assert answer["versions"] == {"numpy": np.__version__}


def test_the_warm_up_is_not_counted(enter, tmp_path):
    lines = [
        "calls = []",
        "def solve(data, options):",
        "    calls.append(str(data['name']))",
        "    return {'calls': list(calls)}",
        "serve(solve)",
    ]
    small = tmp_path / "small.npz"
    np.savez(small, name="small")
    answer = enter(lines, warm_up=str(small))
    assert answer["result"]["calls"][:2] == ["small", "four"]
    assert answer["repetitions"] == 2


def test_repetitions_end_when_they_have_taken_long_enough(enter):
    lines = ["def solve(data, options):", "    time.sleep(0.05)", "    return {}", "serve(solve)"]
    limits = Limits(seconds=30.0, repetitions=100, enough=0.12)
    assert enter(lines, limits)["repetitions"] == 3


def test_whatever_is_printed_does_not_disturb_the_answer(enter):
    answer = enter(
        [
            "print('while it was imported', flush=True)",
            "def solve(data, options):",
            '    print(\'{"status": "forged"}\', flush=True)',
            "    os.write(1, b'from C')",
            "    return {'value': 1.0}",
            "serve(solve)",
        ]
    )
    assert answer["status"] == "solved"
    assert answer["result"] == {"value": 1.0}


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        ("raise ValueError('no luck')", "error", "ValueError: no luck"),
        ("raise OtherProblemError('of another kind')", "other problem", "of another kind"),
        ("raise NotInstalledError('no solver')", "not installed", "no solver"),
        ("import nothing_of_this_name", "not installed", "nothing_of_this_name"),
        ("os._exit(3)", "crashed", "exit code 3"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "crashed", "SIGSEGV"),
    ],
)
def test_a_contestant_that_fails_is_an_answer(enter, body, status, detail):
    answer = enter(["def solve(data, options):", f"    {body}", "serve(solve)"])
    assert answer["status"] == status
    assert detail in answer["detail"]


def test_a_package_that_is_not_there_is_said_to_be_missing(enter):
    answer = enter(["import nothing_of_this_name", "serve(None)"])
    assert answer["status"] == "not installed"
    assert "nothing_of_this_name" in answer["detail"]


def test_a_contestant_that_hangs_is_ended_with_what_it_started(enter, tmp_path):
    mark = tmp_path / "still here"
    child = f"import time; time.sleep(3); open({str(mark)!r}, 'w').close()"
    answer = enter(
        [
            "import subprocess",
            "def solve(data, options):",
            f"    subprocess.Popen([sys.executable, '-c', {child!r}])",
            "    time.sleep(60)",
            "serve(solve)",
        ],
        Limits(seconds=1.5),
    )
    assert answer["status"] == "time limit"
    assert answer["detail"] == "no answer within 1.5 s"
    assert not mark.exists()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peaks are read from /proc")
def test_memory_is_measured_and_limited(enter):
    lines = [
        "import numpy as np",
        "def solve(data, options):",
        "    held = np.ones((options['mb'], 2**17))",
        "    time.sleep(options['wait'])",
        "    return {}",
        "serve(solve)",
    ]
    answer = enter(lines, options={"mb": 100, "wait": 0})
    assert 95 < answer["peak_mb"] - answer["idle_mb"] < 150
    answer = enter(lines, Limits(memory_mb=150.0), options={"mb": 300, "wait": 20})
    assert answer["status"] == "memory limit"
    assert answer["peak_mb"] > 150


# The referee ------------------------------------------------------------------------------------


@pytest.fixture
def staged(monkeypatch, tmp_path):
    """A race without processes: a function of event, contestant and size answers."""

    def stage(answer, names=("oneclass",)):
        asked = []

        def instead(python, script, request, limits, environment):
            name = Path(request["data"]).stem
            event, size = name.rsplit("-", 1)
            asked.append((event, int(size), script.stem, json.dumps(request["options"])))
            return answer(*asked[-1])

        monkeypatch.setattr(running, "contest", instead)
        race_ = running.Race(names, False, True, tmp_path / "none", LIMITS)
        rows = running.run(race_, tmp_path / "out", lambda _: None)
        return rows, asked

    return stage


def solved(event, size, script, options):
    alpha = [1.0 / size] * size
    result = {"seconds": 1e-3 * size, "processor_seconds": 0.0, "repetitions": 1}
    return {"status": "solved", "idle_mb": 1.0, "peak_mb": 2.0, "result": {"alpha": alpha}} | result


def test_every_contestant_has_a_row_for_every_size(staged):
    rows, asked = staged(solved)
    event = EVENTS["oneclass"]
    expected = {(c.name, s) for c in event.contestants for s in event.sizes}
    assert {(r.contestant, r.size) for r in rows.itertuples()} == expected
    assert len(asked) == len(expected)
    data = event.make(20)
    assert rows["value"].iloc[0] == pytest.approx(data["gram"].mean())


@pytest.mark.parametrize("status", ["time limit", "memory limit", "crashed", "not installed"])
def test_larger_sizes_are_not_tried_after_a_limit(staged, status):
    def answer(event, size, script, options):
        if script == "sklearn_svm" and "0.001" in options and size == 100:
            return {"status": status, "detail": "so it was"}
        return solved(event, size, script, options)

    rows, asked = staged(answer)
    rows = rows[rows["contestant"] == "OneClassSVM, tol = 1e-3"].set_index("size")
    assert rows["status"].to_dict() == {20: "solved", 100: status, 500: "not run", 2000: "not run"}
    assert rows.loc[2000, "detail"] == f"{status} at M = 100"
    assert len(asked) == 10


def test_an_error_at_one_size_does_not_end_a_contestant(staged):
    words = "SolverError: at this size\n  see file:///some/where/deep/log.txt, " + 200 * "o "

    def answer(event, size, script, options):
        if size == 100:
            return {"status": "error", "detail": words}
        return solved(event, size, script, options)

    rows, _ = staged(answer)
    assert set(rows.loc[rows["size"] == 500, "status"]) == {"solved"}
    (said,) = set(rows.loc[rows["size"] == 100, "detail"])
    assert said.startswith("SolverError: at this size see log.txt, o o")
    assert len(said) == 250


def test_a_race_that_was_stopped_goes_on_where_it_was(staged):
    calls = 0

    def answer(event, size, script, options):
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return solved(event, size, script, options)

    with pytest.raises(KeyboardInterrupt):
        staged(answer)
    rows, asked = staged(answer)
    assert len(asked) == len(rows) - 3
    again, asked = staged(answer)
    assert not asked
    pd.testing.assert_frame_equal(again, rows)


def test_rows_of_another_code_or_machine_are_not_mixed_in(staged, monkeypatch):
    staged(solved)
    monkeypatch.setattr(running, "digest", lambda _: "another")
    with pytest.raises(ValueError, match="runs of other settings"):
        staged(solved)


def test_a_peer_that_cannot_be_installed_is_a_row(monkeypatch, tmp_path):
    wrong = peers.Peer(("no-such-distribution-anywhere @ file:///nowhere",))
    monkeypatch.setitem(peers.PEERS, "sklearn", wrong)
    assert not (tmp_path / "sklearn").exists()
    with pytest.raises(peers.MissingPeerError, match="no environment at sklearn"):
        peers.interpreter("sklearn", tmp_path, make=False)
    commands = []

    def fail(command, what):
        commands.append(command)
        if what == "pip":
            raise peers.MissingPeerError("pip failed: ERROR: no such distribution")

    monkeypatch.setattr(peers, "_run", fail)
    race_ = running.Race(("oneclass",), True, False, tmp_path, LIMITS)
    monkeypatch.setattr(running, "contest", lambda *_: solved("", 20, "", ""))
    rows = running.run(race_, tmp_path / "out", lambda _: None).set_index("contestant")
    assert rows.loc[OURS, "status"] == "solved"
    assert set(rows["status"].drop(OURS)) == {"not installed"}
    assert "no such distribution" in rows["detail"].drop(OURS).iloc[0]
    assert len(commands) == 2


def test_an_environment_is_made_anew_only_where_its_requirements_changed(monkeypatch, tmp_path):
    commands = []
    monkeypatch.setattr(peers, "_run", lambda command, what: commands.append((what, command[-1])))
    home = tmp_path / "cvxpy"
    home.mkdir()
    peers.interpreter("cvxpy", tmp_path)
    optional = peers.PEERS["cvxpy"].optional
    assert [what for what, _ in commands] == ["venv", *["pip"] * (1 + len(optional))]
    peers.interpreter("cvxpy", tmp_path)
    assert len(commands) == 2 + len(optional)
    monkeypatch.setitem(peers.PEERS, "cvxpy", peers.Peer(("cvxpy",)))
    peers.interpreter("cvxpy", tmp_path)
    assert len(commands) == 4 + len(optional)


# Instances and what results are worth -----------------------------------------------------------


@pytest.mark.parametrize("name", EVENTS)
def test_instances_are_the_same_every_time(name):
    event = EVENTS[name]
    first, again = event.make(event.sizes[0]), event.make(event.sizes[0])
    assert first.keys() == again.keys()
    for key, value in first.items():
        np.testing.assert_array_equal(value, again[key])
    assert event.contestants[0].name == OURS
    assert set(event.quick_sizes) <= set(event.sizes)
    for contestant in event.contestants:
        assert (CONTESTANTS / f"{contestant.script}.py").exists()
        assert contestant.peer in peers.PEERS


def test_the_ball_of_the_race_is_that_of_the_learner():
    data = events.ten_sources(200)
    n = int(data["n_samples"])
    support = data["support"]
    groups = data["codes"]
    model = RooDSO(
        race_loss(), nu=0.2, bandwidth=data["bandwidth"], n_support=100, random_state=0
    ).fit(support[:n], groups=groups)
    np.testing.assert_array_equal(model.solution_.support, support)
    assert model.uncertainty_set_.radius == pytest.approx(data["radius"], rel=1e-12)
    shares = model.uncertainty_set_.weights / np.bincount(groups)
    np.testing.assert_allclose(data["weights"][:n], shares[groups], atol=1e-12)
    assert not data["weights"][n:].any()
    assert data["weights"].sum() == pytest.approx(1.0)


def race_loss():
    from roodso.losses import Newsvendor

    return Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])


def test_the_distance_of_thinned_samples():
    data = events.to_thin(64)
    chosen = [3, 5, 8, 8]
    samples = data["samples"]
    shares = np.full(64, -1 / 64)
    np.add.at(shares, chosen, 1 / 4)
    gram = np.exp(-cdist(samples, samples, "sqeuclidean") / (2 * data["bandwidth"] ** 2))
    expected = np.sqrt(shares @ gram @ shares)
    assert events.mmd(data, {"chosen": chosen}) == pytest.approx(expected, rel=1e-9)


def test_the_dual_of_the_one_class_machine_is_that_of_the_ball():
    """The scaling of `contestants/sklearn_svm.py`, against the library's own solver."""
    from sklearn.svm import OneClassSVM

    from roodso.sets.ball import solve_dual

    data = events.unit_norm_gram(60)
    gram, nu = data["gram"], data["nu"]
    np.testing.assert_allclose(np.diag(gram), 1.0, rtol=1e-12)
    machine = OneClassSVM(kernel="precomputed", nu=nu, tol=1e-12).fit(gram)
    alpha = np.zeros(60)
    alpha[machine.support_] = machine.dual_coef_[0] / (nu * 60)
    np.testing.assert_allclose(alpha, solve_dual(gram, nu), atol=1e-7)
    infeasible = {"alpha": (1.7 * alpha).tolist()}
    assert events.dual_objective(data, infeasible) == pytest.approx(alpha @ gram @ alpha)


# The page ---------------------------------------------------------------------------------------


def test_growth_is_the_slope_of_logarithms():
    assert report.exponent([10, 100, 1000], [3.0, 30.0, 300.0]) == pytest.approx(1.0)
    assert report.exponent([2, 8], [1.0, 8.0]) == pytest.approx(1.5)


def some_rows():
    line = {"event": "oneclass", "status": "solved", "idle_mb": 100.0, "note": None, "detail": None}
    rows = [
        line | {"contestant": OURS, "size": s, "seconds": t, "value": v, "peak_mb": 130.0}
        for s, t, v in ((20, 0.001, 0.5), (100, 0.005, 0.25))
    ]
    svm = line | {"contestant": "OneClassSVM, tol = 1e-3", "peak_mb": 107.0}
    rows += [svm | {"size": 20, "seconds": 0.0005, "value": 0.501}]
    rows += [svm | {"size": 100, "seconds": 0.5, "value": 0.25, "note": "inaccurate"}]
    late = line | {"contestant": "OneClassSVM, tol = 1e-10", "status": "time limit", "size": 20}
    rows += [late | {"detail": "no answer within 1 s", "seconds": np.nan, "value": np.nan}]
    rows += [late | {"status": "not run", "detail": "time limit at M = 20", "size": 100}]
    return pd.DataFrame(rows).assign(lower=np.nan, load=[2.0, 2.0, 2.0, 3.5, 0.5, np.nan])


def test_the_table_has_factors_growth_memory_and_differences():
    lines = report.table(some_rows(), EVENTS["oneclass"]).splitlines()
    assert lines[2] == "| roodso | 0.001 s | 0.005 s | 1.00 | 30 |  |"
    assert lines[3] == (
        "| OneClassSVM, tol = 1e-3 | 0.0005 s (0.5x) | 0.5 s (100x) | 4.29 | 7 | +1e-03 |"
    )
    assert lines[4] == "| OneClassSVM, tol = 1e-10 | time limit | - |  |  |  |"


def test_the_page_says_how_contestants_failed_and_ended():
    settings = running.Race(("oneclass",), True, True, Path("."), LIMITS).settings()
    text = report.page(some_rows(), settings)
    assert "- OneClassSVM, tol = 1e-10, M = 20: time limit: no answer within 1 s" in text
    assert '- OneClassSVM, tol = 1e-3, M = 100: ended with "inaccurate".' in text
    assert "after 30 s" in text
    assert "was 2.0 (median; at most 3.5)" in text


def test_a_quick_race_with_what_is_installed(tmp_path, capsys):
    """Start to end, in this interpreter: our rows and those of packages that we depend on."""
    out, docs = tmp_path / "out", tmp_path / "docs"
    arguments = ["--quick", "--installed", "--only", "oneclass", "herding", "--out", str(out)]
    race.main([*arguments, "--docs", str(docs)])
    rows = pd.read_csv(out / "rows.csv").set_index(["event", "contestant"])
    ours = rows.xs(OURS, level="contestant")
    assert set(ours["status"]) == {"solved"}
    svm = rows.loc[("oneclass", "OneClassSVM, tol = 1e-10")]
    assert svm["value"] == pytest.approx(ours.loc["oneclass", "value"], rel=1e-9)
    assert (docs / "race.md").read_text() == (out / "race.md").read_text()
    assert (docs / "images" / "race.png").stat().st_size > 10_000
    capsys.readouterr()
    race.main(arguments)
    assert "0 contests to run" in capsys.readouterr().out
    text = (out / "race.md").read_text()
    (out / "race.md").unlink()
    race.main([*arguments, "--redraw"])
    assert (out / "race.md").read_text() == text


def test_the_low_rank_script_agrees_with_the_certified_value(tmp_path):
    """The bar and ours on one instance, each as it is raced."""
    event = EVENTS["ball"]
    path = tmp_path / "data.npz"
    np.savez(path, **event.make(60))
    answers = {}
    for contestant in event.contestants:
        if contestant.name == OURS or contestant.script == "lowrank":
            request = {"data": str(path), "warm_up": None, "options": dict(contestant.options)}
            script = CONTESTANTS / f"{contestant.script}.py"
            environment = {"PYTHONPATH": str(running.ROOT / "src")}
            answers[contestant.name] = contest(
                Path(sys.executable), script, request, LIMITS, environment
            )
    results = {name: answer["result"] for name, answer in answers.items()}
    assert len(results) == 3
    ours = results[OURS]
    for name, result in results.items():
        assert ours["lower"] - 1e-6 <= result["value"] <= ours["value"] + 1e-6, name


def test_the_committed_page_is_that_of_the_committed_rows():
    kept = running.ROOT / "results" / "race"
    if not (kept / "rows.csv").exists():
        pytest.skip("no race has been run for this version")
    settings = json.loads((kept / "rows.json").read_text())
    text = report.page(pd.read_csv(kept / "rows.csv"), settings)
    assert (running.ROOT / "docs" / "race.md").read_text() == text
    assert (kept / "race.md").read_text() == text


def test_the_given_ball_is_fitted_as_raced():
    data = events.one_sample(100)
    model = RooDSO(
        race_loss(),
        uncertainty_set=FixedBall(0.1, bandwidth=data["bandwidth"]),
        n_support=100,
        random_state=0,
    ).fit([data["support"][:100]])
    np.testing.assert_array_equal(model.solution_.support, data["support"])
