from __future__ import annotations

from teachaugment.show.results import class_lines, result_lines, strength_lines
from teachaugment.tasks import TASKS


def test_few_classes_are_all_shown_and_of_many_the_worst():
    few = class_lines(["cat", "horse"], [0.5, None], "accuracy")
    assert few == ["accuracy of each class (target):", "  cat  50.0 %"]
    many = class_lines([f"class {i}" for i in range(100)], [i / 100 for i in range(100)], "accuracy")
    assert "5 of 100" in many[0] and [line.split()[1] for line in many[1:]] == ["0", "1", "2", "3", "4"]
    assert class_lines(["cat"], [None], "accuracy") == []
    assert class_lines(["road"], [0.25], "IoU") == ["IoU of each class (target):", "  road  25.0 %"]


def test_each_task_has_its_line():
    common = {"images": 1000, "loss": 0.5}

    def line(task: str, model: str, **result: float) -> str:
        (said,) = result_lines({model: {**common, **result}}, TASKS.load(task).describe)
        return said

    assert line("segmentation", "target", miou=0.25, pixel_accuracy=0.5) == (
        "target    25.0 % mIoU on 1,000 test images, loss 0.500, pixel accuracy 50.0 %"
    )
    said = line("classification", "target", accuracy=0.25, top5=0.5, calibration_error=0.1)
    assert said.startswith("target    25.0 % of 1,000 test images")
    said = line("simsiam", "teacher", knn=0.25, spread=0.9, rank=7.2)
    assert said.startswith("teacher   25.0 % of 1,000 test images by nearest neighbours")


def test_the_strength_is_said_with_the_operations_that_get_less_of_it():
    found = {"strength": 0.5, "plain_mastery": 0.9, "augmented_mastery": 0.8}
    assert strength_lines({"p_color": 0.5}) == []
    (line,) = strength_lines({**found, "share_rotate": 0.9})
    assert line.startswith("strength  0.50 of 1:") and "masters 90 %" in line and "rotate" not in line
    said = " ".join(" ".join(strength_lines({**found, "share_rotate": 0.3, "share_translate_x": 0.0})).split())
    assert said.endswith("of it for translate x 0 %, rotate 30 %")
