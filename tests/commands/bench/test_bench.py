from __future__ import annotations

import json

import pytest
import torch

from teachaugment.commands import cli
from teachaugment.commands.bench import color, command, memory, photographs, render, startup
from teachaugment.commands.bench.clock import interleave, ratio, spread, summary
from teachaugment.commands.bench.measure import measure
from teachaugment.commands.bench.objects import noise_batch
from teachaugment.commands.bench.plan import PARTS, Plan
from teachaugment.commands.bench.tables import tables
from teachaugment.commands.bench.training import cost_of_adaptive
from teachaugment.show.table import markdown, text

CPU = torch.device("cpu")
TINY = Plan(
    models=("cnn-4",),
    batch_size=4,
    size=8,
    snapshots=2,
    repeats=2,
    budget=0.0,
    device="cpu",
    augmentation=((8, 2), (32, 2)),
    samples=3,
    color=((8, 2), (112, 1)),
    color_backward_up_to=8,
    pixels=(8, 16),
    scaling_batch=2,
    batches=(2, 4),
    many_classes=(10, 20),
    forms=("plain", "channels-last"),  # compiling takes a minute
    replays=(1, 3),
    stored=(3, 20),
    input_model="cnn-4",
    photographs=(40, 80),
    photographs_each=2,
    photograph_size=16,
    photograph_model="cnn-4",
    photograph_batch=2,
    photograph_workers=1,
    input_images=16,
    start_ups=1,
)
SPREAD = {"median", "q1", "q3", "n"}


@pytest.fixture(scope="module")
def results() -> dict:
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(startup, "_python", lambda *arguments: "0.1")
        found = measure(TINY)
    assert torch.get_num_threads() == threads
    return json.loads(json.dumps(found))  # plain data, all of it


def test_the_results_hold_every_part_and_the_machine(results):
    assert set(PARTS) | {"machine", "memory_method", "plan", "targets"} == set(results)
    assert {"cpu", "cores", "threads", "device", "torch", "date", "load"} <= set(results["machine"])


def test_options_are_measured_against_the_plain_form(results):
    found = results["options"]
    assert found["times_plain"]["plain step"]["median"] == 1
    assert {"channels-last step", "channels-last update"} <= set(found["seconds"]) == set(found["times_plain"])


def test_training_has_every_number(results):
    (run,) = results["training"]
    parts = {"plain", "target", "draw", "update", "teacher"}
    assert set(run["seconds"]) == set(run["peak_bytes"]) == parts
    assert set(run["plain_steps"]) == parts - {"plain"}
    assert set(run["overhead"]) == {"1", "5", "5, half batch", "5, quarter batch"}
    assert set(run["images_per_second"]) == {"plain", *(f"n_inner {name}" for name in run["overhead"])}
    assert all(set(value) == SPREAD and value["median"] > 0 for value in run["seconds"].values())
    for overhead in run["overhead"].values():
        assert overhead["from_parts"] > 0 and set(overhead["measured"]) == set(overhead["step"]) == SPREAD
    assert all(value > 0 for name, value in run["peak_bytes"].items() if name != "teacher")


def test_augmentation_has_a_row_for_every_size_and_way(results):
    for size in (8, 32):
        rows = {row["name"]: row for row in results["augmentation"] if row["size"] == size}
        assert {"TeachAugment", "kornia ColorJitter + RandomAffine"} <= set(rows)
        assert sum(name.startswith("torchvision") for name in rows) == 4
        assert rows["TeachAugment"]["both"]["images_per_second"] > 0
        worker = rows["TeachAugment as a transform, PIL"]
        assert worker["threads"] == 1 and worker["difference"] > 0


def test_without_kornia_its_row_says_so(monkeypatch):
    monkeypatch.setattr("teachaugment.commands.bench.augmentation.find_spec", lambda name: None)
    found = measure(Plan(**{**vars(TINY), "parts": ("augmentation",), "augmentation": ((8, 2),), "repeats": 1}))
    (row,) = [row for row in found["augmentation"] if not row["installed"]]
    assert row["name"].startswith("kornia") and "not installed" in text(tables(found))


def test_color_rows_have_times_memory_and_error(results):
    small, large = results["color"]
    assert "both" in small and "both" not in large
    assert set(large["forward"]["peak_bytes"]) == set(color.FORMS) == set(large["forward"]["seconds"])
    assert large["error"]["1"]["mean"] > 0  # the lattice; small images are exact
    assert small["error"]["1"]["mean"] < 1e-3


def test_scaling_covers_every_axis(results):
    rows = results["scaling"]["rows"]
    assert [row["axis"] for row in rows] == [axis for axis in ("pixels", "batch", "classes", "snapshots") for _ in "12"]
    assert all(row["draw"]["peak_bytes"] > 0 and row["replay_bytes"] > 0 for row in rows)
    assert results["scaling"]["stored"]["bytes"] > 0


def test_photographs_are_read_by_every_loader_that_is_there(results):
    found = results["photographs"]
    assert [(row["side"], row["name"]) for row in found["rows"]] == [
        (side, name) for side in (40, 80) for name in (photographs.OURS, photographs.TORCHVISION, photographs.TIMM)
    ]
    assert all(row["images_per_second"] > 0 for row in found["rows"] if row["installed"])
    assert found["waiting"] is None or 0 < found["waiting"]["share"] < 1
    wanted = [target["what"] for target in results["targets"] if target["what"].startswith("photographs of")]
    assert len(wanted) == 2


def test_every_target_has_a_verdict(results):
    assert all({"what", "measured", "relation", "limit", "ok"} == set(target) for target in results["targets"])
    assert any("import" in target["what"] for target in results["targets"])


def test_the_tables_render_as_text_and_markdown(results):
    made = tables(results)
    titles = " ".join(table.title for table in made)
    for word in (
        "Machine",
        "Training",
        "Overhead",
        "Augmentation",
        "Colour",
        "Scaling",
        "Input",
        "Photographs",
        "Start-up",
        "Targets",
    ):
        assert word in titles
    assert all(len(row) == len(table.header) for table in made for row in table.rows)
    assert "### Targets" in markdown(made) and "ok" in text(made)


def test_the_import_is_timed_in_a_process_of_its_own():
    assert 0 < float(startup._python("-c", startup.BEYOND_TORCH)) < 60


def test_the_dense_network_is_the_same_function_as_the_sub_network():
    augmenter = color.make_augmenter(TINY, CPU)
    batch = noise_batch(3, 6, TINY.classes, CPU)
    draw, units = color.draw_color(augmenter, 3, batch.label)
    exact = color.per_pixel(augmenter.colors, batch.image, draw)
    whole = color.dense(augmenter, batch.image, draw, color.DenseNetwork(augmenter, units, batch.label))
    assert (exact - batch.image).abs().mean() > 0.05
    torch.testing.assert_close(whole, exact, atol=1e-5, rtol=1e-4)


def test_cases_are_measured_in_turn_after_a_warm_up():
    calls: list[str] = []
    cases = [(name, lambda name=name: calls.append(name)) for name in "aba"]
    rounds = interleave(cases, CPU, repeats=2)
    assert "".join(calls) == "abab" + "aba" * 2
    assert [len(one["a"]) for one in rounds] == [2, 2] and summary(rounds)["b"]["n"] == 2
    assert ratio([{"a": [2.0, 4.0], "b": [1.5]}], "a", "b")["median"] == 2


def test_spread_is_median_and_quartiles():
    assert spread([3, 1, 2, 5, 4]) == {"median": 3, "q1": 2, "q3": 4, "n": 5}
    assert spread([7.0]) == {"median": 7, "q1": 7, "q3": 7, "n": 1}


def test_peak_memory_counts_what_is_alive_at_once():
    def three_of_which_two_live() -> None:
        a = torch.zeros(1000)
        b = a + 1
        del a
        b + 1

    assert 8000 <= memory.peak(three_of_which_two_live, CPU) < 8200


@pytest.mark.parametrize(("value", "shown"), [(1234.5, "1,234"), (12.34, "12.3"), (1.234, "1.23"), (0.0123, "0.0123")])
def test_numbers_have_three_digits(value, shown):
    assert render.number(value) == shown


def test_the_command_writes_json_and_shows_it_again(tmp_path, capsys):
    path = tmp_path / "bench.json"
    flags = ["--part", "training", "--model", "cnn-4", "--batch-size", "4", "--size", "8", "--repeats", "1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plan, "__init__", _without_budget(Plan.__init__))
        assert cli.main(["bench", *flags, "--device", "cpu", "--json", str(path)]) == 0
    assert "plain step" in capsys.readouterr().out
    assert json.loads(path.read_text())["training"][0]["model"] == "cnn-4"
    assert cli.main(["bench", "--from", str(path), "--markdown"]) == 0
    assert "| plain step |" in capsys.readouterr().out
    assert cli.main(["bench", "--from", str(path), "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == json.loads(path.read_text()) and "plain step" in captured.err


def _without_budget(init):
    return lambda self, **chosen: init(self, **{"budget": 0.0, **chosen})


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model", "wrn-40-3x"], "wrn-40"),
        (["--repeats", "0"], "at least 1"),
        (["--part", "everything"], "--part"),
        (["--from", "missing.json"], "cannot read --from missing.json"),
        (["--json", "no/such/folder/x.json"], "its folder does not exist"),
        (["--device", "abacus"], "abacus"),
    ],
)
def test_mistakes_are_one_line(flags, message, capsys):
    assert cli.main(["bench", *flags]) == 2
    assert message in capsys.readouterr().err


def test_other_json_is_refused(tmp_path):
    (tmp_path / "x.json").write_text("[1]")
    with pytest.raises(command.UserError, match="holds other data"):
        command.read(str(tmp_path / "x.json"))


def test_the_cost_of_the_default_is_a_plain_step_and_what_is_added_to_it():
    one = {"plain": [1.0, 3.0], "teacher": [0.02], "zero: draw": [0.0], "zero: see": [0.1]}
    assert cost_of_adaptive(one, "zero") == pytest.approx(1 + (0.02 + 0.1) / 2)
