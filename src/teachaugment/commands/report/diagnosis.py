"""What is wrong with a run, in plain words, with the number behind each. Every rule is a function of numbers."""

from __future__ import annotations

from typing import NamedTuple

LEAST_CHANGE = 0.01  # mean change of a pixel, of 1
LEAST_KEPT = 0.8  # of the teacher's accuracy, on augmented images
MOST_COLOR = 0.08  # distance of the colours from the data's, of 1
LEAST_FIT = 0.9  # accuracy on training images as they are
LEAST_GAP = 0.03  # of accuracy between training and test images
LEAST_SNAPSHOTS = 5
LEAST_VARIETY = 0.15  # of what the augmentation does on average
MOST_ONE_CLASS = 0.5  # share of the answers that are one and the same class
LEAST_SPREAD = 0.2  # of representations; 1 in all directions alike


class Finding(NamedTuple):
    """What a rule looked at: fine or not, the sentence with the number, and what to try."""

    fine: bool
    title: str
    sentence: str
    advice: str = ""


def still_identity(change: float) -> Finding:
    """change: mean absolute difference of a pixel between original and augmented images."""
    number = f"An augmented pixel differs from the original by {100 * change:.1f} % of the range on average"
    if change >= LEAST_CHANGE:
        return Finding(True, "The augmenter does something", f"{number}.")
    return Finding(
        False,
        "The augmenter still does nothing",
        f"{number}; from {100 * LEAST_CHANGE:.0f} % on it shows.",
        "Give it more updates: more --epochs, a smaller --teach.n_inner, or a larger --teach.lr.",
    )


def recognised(plain: float, augmented: float, of: str = "") -> Finding:
    """Accuracy of the teacher on training images as they are and augmented; ``of`` may be "the pixels of "."""
    kept = augmented / plain if plain else 1.0
    number = (
        f"The teacher recognises {100 * augmented:.0f} % of {of}augmented training images and {100 * plain:.0f} % plain"
    )
    if kept >= LEAST_KEPT:
        return Finding(True, "The teacher still recognises the images", f"{number}.")
    return Finding(
        False,
        "Over-augmentation: the teacher no longer recognises the images",
        f"{number}: {100 * kept:.0f} % of its accuracy is left, less than {100 * LEAST_KEPT:.0f} %.",
        "Hold the augmenter back: a larger --teach.n_inner or a smaller --teach.lr; or give it a better judge with "
        "--teacher RUN, a run that was trained before.",
    )


def colors_in_distribution(distance: float) -> Finding:
    """distance: root of the colour distance that the run measured, in shares of the range."""
    number = f"The colours of augmented batches lie {100 * distance:.1f} % of the range away from those of the data"
    if distance <= MOST_COLOR:
        return Finding(True, "The colours stay where the data's are", f"{number}.")
    return Finding(
        False,
        "The colours leave the data",
        f"{number}, more than {100 * MOST_COLOR:.0f} %.",
        "Raise --teach.color_weight (10 is the paper's value).",
    )


def fits(train: float, test: float, of: str = "") -> Finding:
    """Accuracy of the target on training images as they are, and on test images; ``of`` may be "the pixels of "."""
    number = (
        f"The target knows {100 * train:.0f} % of {of}plain training images and {100 * test:.0f} % of {of}test images"
    )
    if train >= LEAST_FIT or train - test >= LEAST_GAP:
        return Finding(True, "The target has learned its training images", f"{number}.")
    return Finding(
        False,
        "The target underfits",
        f"{number}: it is no better on what it was trained with, so more variety cannot help it.",
        "Train longer (--epochs), with a larger network (--model) or another --lr; then look at augmentation again.",
    )


def replay_length(snapshots: float, n_buffer: int) -> Finding:
    """snapshots: how many the target draws from in effect, older ones counting less."""
    number = f"The target draws from {snapshots:.3g} earlier augmenters in effect, one kept every {n_buffer} epochs"
    if snapshots >= LEAST_SNAPSHOTS:
        return Finding(True, "The replay is long enough", f"{number}.")
    return Finding(
        False,
        "The replay is too short",
        f"{number}; with fewer than {LEAST_SNAPSHOTS} it is nearly the current augmenter alone.",
        f"Keep them more often: --teach.n_buffer {max(1, n_buffer // 4)}, or train longer.",
    )


def varied(variety: float) -> Finding:
    """variety: standard deviation of the warps over images, as a share of their mean size."""
    number = f"From image to image the warps vary by {100 * variety:.0f} % of their mean size"
    if variety >= LEAST_VARIETY:
        return Finding(True, "Images are augmented in different ways", f"{number}.")
    return Finding(
        False,
        "Collapse: every image gets the same warp",
        f"{number}; below {100 * LEAST_VARIETY:.0f} % the target sees one warped data set.",
        "Try another --seed, a smaller --teach.lr, or a longer replay (a smaller --teach.n_buffer).",
    )


def answers_differ(largest: float, expected: float) -> Finding:
    """Share of the most frequent answer among the target's, and the share that this class really has at most."""
    number = f"The target's most frequent answer makes up {100 * largest:.0f} % of all"
    if largest <= max(MOST_ONE_CLASS, 1.5 * expected):
        return Finding(True, "The target tells classes apart", f"{number}.")
    return Finding(
        False,
        "Collapse: the target gives one answer",
        f"{number}; no class has more than {100 * expected:.0f} % of the images.",
        "Lower --lr, lengthen --optim.warmup_epochs or set --optim.clip 5.",
    )


def representations_differ(spread: float) -> Finding:
    """spread: of normalised representations over images, 1 where they point in all directions alike."""
    number = f"The representations spread over {100 * spread:.0f} % of what is possible"
    if spread >= LEAST_SPREAD:
        return Finding(True, "Images have representations of their own", f"{number}.")
    return Finding(
        False,
        "Collapse: the network finds all images alike",
        f"{number}, less than {100 * LEAST_SPREAD:.0f} %.",
        "Lower --lr or raise --batch-size.",
    )


def effective_snapshots(count: int, decay: float) -> float:
    """Σ γ^(S-i): how many snapshots of full weight the replay is worth."""
    return float(count) if decay >= 1 else (1 - decay**count) / (1 - decay)
