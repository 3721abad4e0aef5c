"""What the augmenter maximises, by name. Each objective is a plain function of the two networks' passes."""

from teachaugment.tables import Entry, Table

OBJECTIVES = Table(
    "objective",
    __name__,
    {
        "teachaugment": Entry("teachaugment:teach_augment", "Eq. 1: hard for the target, recognised by the teacher"),
        "adversarial": Entry("adversarial:adversarial", "Adversarial AutoAugment's: hard for the target"),
        "pointaugment": Entry("pointaugment:point_augment", "PointAugment's: harder within a bound"),
    },
)
