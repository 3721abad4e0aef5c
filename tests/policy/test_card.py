import yaml

from teachaugment import __version__
from teachaugment.augment import create
from teachaugment.policy.card import card, plain
from teachaugment.policy.policy import Policy


def test_the_card_says_what_the_policy_is_and_how_to_use_it():
    provenance = {
        "task": "classification", "data": "shapes", "fingerprint": "abc123", "images": 1000, "size": [32, 32],
        "model": "cnn-4", "epochs": 40, "seed": 3,
        "measured": {"split": "test", "metric": "accuracy", "target": 0.7654, "teacher": 0.75},
    }  # fmt: skip
    names = ["ant", "bee", "cat"]
    policy = Policy(create("neural", classes=3), classes=names, provenance=provenance,
                    normalization={"mean": [0.1, 0.2, 0.3], "std": [1, 1, 1]})  # fmt: skip
    text = card(policy, "bees.safetensors")
    front = yaml.safe_load(text.split("---")[1])
    assert front["library_name"] == "teachaugment" and "license" in front and "image-classification" in front["tags"]
    for part in ("shapes", "abc123", "32×32", "cnn-4", "76.54 %", "75.00 %", "ant, bee, cat", __version__, "0.1000"):
        assert part in text
    assert 'load_policy("bees.safetensors")' in text and "## Limits" in text and "0.6 … 1.4" in text
    assert "not measured" not in text and "None" not in text


def test_a_policy_that_knows_little_of_itself_has_a_card_too():
    text = card(Policy(create("dda")), "p.safetensors")
    assert "unknown data" in text and "learned without classes" in text and "None" not in text


def test_names_cannot_break_out_of_the_card():
    assert plain("a|b\n# c <img> [x](y) `z`\x1b[31m") == r"a\|b # c \<img\> \[x\](y) \`z\` \[31m"
    text = card(Policy(create("neural", classes=1), classes=["x\n---\nlicense: evil"]), "p.safetensors")
    assert "\n---\nlicense: evil" not in text
