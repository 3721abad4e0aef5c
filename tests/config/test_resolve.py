from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from teachaugment.config import resolve as config
from teachaugment.config.resolve import Config, Layer, changes, from_dict, read_yaml, resolve, to_dict, to_yaml
from teachaugment.errors import UserError


def flags(**values: object) -> Layer:
    flat = {key.replace("__", "."): value for key, value in values.items()}
    return Layer(flat, {key: f"--{key}" for key in flat})


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "my.yaml"
    path.write_text(text)
    return path


def test_no_layers_give_the_defaults():
    assert resolve() == Config()


def test_flags_beat_the_file_and_the_file_beats_the_defaults(tmp_path):
    file = read_yaml(written(tmp_path, "optim: {lr: 0.2, momentum: 0.5}\nseed: 3\n"))
    made = resolve(file, flags(optim__lr="0.3"))
    assert (made.optim.lr, made.optim.momentum, made.seed) == (0.3, 0.5, 3)
    assert made.train == Config().train


def test_a_task_has_defaults_of_its_own_which_everything_else_beats(tmp_path):
    assert (
        resolve(flags(task="segmentation")).model.name
        == config.default("model.name", {"task": "segmentation"})
        == "unet-16"
    )
    assert resolve(flags(task="segmentation", augment__crop="3")).augment.crop == 3
    file = read_yaml(written(tmp_path, "model: {name: other}"))
    assert resolve(file, flags(task="segmentation")).model.name == "other"
    assert resolve(flags(task="classification")) == Config()


def test_numbers_that_yaml_reads_as_text_are_numbers(tmp_path):
    assert resolve(read_yaml(written(tmp_path, "optim: {lr: 1e-3}"))).optim.lr == 1e-3


def test_dotted_keys_in_a_file_are_settings(tmp_path):
    assert resolve(read_yaml(written(tmp_path, "teach.replay: false"))).teach.replay is False


def test_an_empty_file_changes_nothing(tmp_path):
    assert resolve(read_yaml(written(tmp_path, ""))) == Config()


@pytest.mark.parametrize(("text", "value"), [("true", True), ("False", False), ("off", False), ("yes", True)])
def test_booleans_are_words(text, value):
    assert resolve(flags(teach__replay=text)).teach.replay is value


def test_every_changed_setting_survives_a_round_trip_through_yaml(tmp_path):
    changed = {
        "seed": 7, "output": "somewhere", "device": "cpu", "data.path": "ä b", "data.size": 16, "data.per_class": 3,
        "optim.lr": 1e-5, "optim.milestones": (2, 5), "optim.schedule": "step", "teach.replay": False,
        "augment.strategy": "none", "train.epochs": 9, "teach.smoothing": 0.0,
    }  # fmt: skip
    made = resolve(Layer(changed, {key: key for key in changed}))
    assert resolve(read_yaml(written(tmp_path, to_yaml(made)))) == made
    assert from_dict(to_dict(made), "x") == made
    assert resolve(read_yaml(written(tmp_path, to_yaml(Config())))) == Config()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("optim.lr", "-0.1"), ("optim.lr", "0"), ("optim.lr", "nan"), ("optim.lr", "inf"), ("optim.lr", "fast"),
        ("optim.momentum", "1"), ("optim.weight_decay", "-1"), ("optim.schedule", "cosin"), ("optim.clip", "-1"),
        ("optim.warmup_epochs", "-1"), ("optim.milestones", "3,x"), ("optim.milestones", "0"),
        ("train.epochs", "0"), ("train.epochs", "2.5"), ("train.epochs", True), ("train.batch_size", "0"),
        ("train.eval_every", "0"), ("data.val_fraction", "1"), ("data.val_fraction", "-0.1"), ("data.workers", "-1"),
        ("data.size", "0"), ("data.path", ""), ("data.bad_images", "drop"), ("teach.smoothing", "1"),
        ("teach.ema_decay", "1"), ("teach.replay_decay", "0"), ("teach.n_inner", "0"), ("teach.replay", "maybe"),
        ("teach.replay", 1), ("seed", "-1"), ("seed", [1]), ("augment.strategy", "magic"), ("augment.crop", "-1"),
        ("task", "cooking"), ("optim.lr", None),
    ],
)  # fmt: skip
def test_an_impossible_value_is_refused_in_one_line_that_names_it(key, value):
    with pytest.raises(UserError) as error:
        resolve(Layer({key: value}, {key: "--flag"}))
    text = str(error.value)
    assert text.startswith("--flag must be ") and "\n" not in text and repr(value) in text


def test_a_misspelt_choice_names_the_nearest():
    with pytest.raises(UserError, match="did you mean 'cosine'"):
        resolve(flags(optim__schedule="cosin"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("optim: {lrr: 0.1}", "my.yaml: optim.lrr is not a setting; did you mean 'optim.lr'"),
        ("optimm: {lr: 0.1}", "my.yaml: optimm is not a section; did you mean 'optim'"),
        ("sed: 1", "my.yaml: sed is not a setting; did you mean 'seed'"),
        ("optim: 3", "optim is a section"),
        ("- 1\n- 2", "must hold settings"),
        ("a: [", "my.yaml, line"),
        ("train: {epochs: -1}", "my.yaml: train.epochs must be a whole number of at least 1, not -1"),
        ("seed: {a: 1}", "my.yaml: seed must be a whole number"),
        ("1: 2", "my.yaml: 1 is not a setting"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line_that_names_it(tmp_path, text, says):
    with pytest.raises(UserError) as error:
        resolve(read_yaml(written(tmp_path, text)))
    assert says in str(error.value) and "\n" not in str(error.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(UserError, match="cannot read the configuration"):
        read_yaml(tmp_path / "none.yaml")


def test_views_of_the_built_in_images_have_defaults_of_their_own():
    built_in, other = resolve(flags(task="simsiam")), resolve(flags(task="simsiam", data__path="photos"))
    assert (built_in.views.grey, built_in.views.area, built_in.train.batch_size) == (1.0, 0.5, 32)
    assert (other.views.grey, other.views.area, other.train.batch_size) == (0.2, 0.2, Config().train.batch_size)
    assert resolve(flags(task="simsiam", views__grey="0.3")).views.grey == 0.3
    assert Config().train.batch_size == resolve(flags()).train.batch_size


def test_yaml_cannot_run_code(tmp_path):
    made = tmp_path / "made"
    with pytest.raises(UserError):
        read_yaml(written(tmp_path, f"seed: !!python/object/apply:os.mkdir ['{made}']"))
    assert not made.exists()


def test_yaml_cannot_stand_for_more_than_it_says(tmp_path):
    lines = ["a0: &a0 [x, x]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 40)), "seed: *a39"]
    with pytest.raises(UserError, match="refers to parts of itself"):
        read_yaml(written(tmp_path, "\n".join(lines)))


def test_settings_that_contradict_each_other_are_refused():
    for values in ({"optim__milestones": "5,3"}, {"optim__milestones": "50"}, {"optim__momentum": "0"}):
        with pytest.raises(UserError):
            resolve(flags(**values))


def test_settings_of_the_neural_augmenter_are_not_for_others():
    assert resolve(flags(teach__affine_width="1")).teach.affine_width == 1
    with pytest.raises(UserError, match=r"--teach\.affine_width is for the neural augmenter, not for dda"):
        resolve(flags(teach__augmenter="dda", teach__affine_width="1"))
    resolve(flags(teach__augmenter="dda", teach__affine_width="0.5"))  # what it is anyway


def test_changes_lists_what_a_resumed_run_may_not_change():
    before = Config()
    after = resolve(flags(train__epochs="99", data__workers="2", device="cpu", output="x", optim__lr="0.5"))
    assert changes(before, after) == ["optim.lr: 0.1 -> 0.5"]


def test_every_setting_explains_itself():
    for setting in config.SETTINGS.values():
        assert setting.metadata["help"] and setting.expected()
        assert setting.parse(setting.default) == setting.default


def test_reading_a_configuration_does_not_import_torch():
    code = "import sys, teachaugment.config.flags, teachaugment.engine.directory; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
