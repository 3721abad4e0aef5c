"""What is wrong with a run, in plain words, with the number behind each. Every rule is a function of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from teachaugment.governor import LEAST_SHARE
from teachaugment.tasks.self_supervised import LEAST_SPREAD

LEAST_STRENGTH = 0.02  # below it, augmentation is as good as off
LEAST_CHANGE = 0.01  # mean change of a pixel, of 1
LEAST_KEPT = 0.8  # of the teacher's accuracy, on augmented images
# Distance of the colours from the data's, by what it was measured on: the most, and how a number is said.
MOST_COLOR = {"normalized": (0.35, "{:.2f} standard deviations"), "image": (0.08, "{:.3f} of the range")}
LEAST_FIT = 0.9  # accuracy on training images as they are
LEAST_GAP = 0.03  # of accuracy between training and test images
LEAST_SNAPSHOTS = 5
LEAST_VARIETY = 0.15  # of what the augmentation does on average
MOST_ONE_CLASS = 0.5  # share of the answers that are one and the same class


class Finding(NamedTuple):
    """What a rule looked at: fine or not, the sentence with the number, and what to try."""

    fine: bool
    title: str
    sentence: str
    advice: str = ""


def judged(fine: bool, titles: tuple[str, str], sentence: str, limit: str, advice: str) -> Finding:
    """The finding of a rule: its title where all is well or where not; then also the limit passed, and advice."""
    if fine:
        return Finding(True, titles[0], f"{sentence}.")
    return Finding(False, titles[1], f"{sentence}{limit}.", advice)


def still_identity(change: float) -> Finding:
    """change: mean absolute difference of a pixel between original and augmented images."""
    return judged(
        change >= LEAST_CHANGE,
        ("The augmenter does something", "The augmenter still does nothing"),
        f"An augmented pixel differs from the original by {100 * change:.1f} % of the range on average",
        f"; from {100 * LEAST_CHANGE:.0f} % on it shows",
        "Give it more updates: more --epochs, a smaller --teach.n_inner, or a larger --teach.lr.",
    )


def operations_borne(shares: Mapping[str, float]) -> Finding:
    """shares: of the strength, for each operation by its name, as words."""
    less = {name: share for name, share in sorted(shares.items(), key=lambda item: item[1]) if share < LEAST_SHARE}
    if not less:
        return Finding(True, "All operations are borne", "Each operation gets at least half of the strength.")
    named = ", ".join(f"{name} {100 * share:.0f} %" for name, share in less.items())
    return Finding(
        True,
        "Some operations are used less",
        f"The network recognises too few of the images that these operations made: of the strength, {named}. Where "
        "that is near 0, they may change what is true of an image.",
    )


def strength_found(strength: float, plain: float, augmented: float, asked: float) -> Finding:
    """Why the governor's strength, from 0 to 1, is what it is: from the mastery of plain and of augmented training
    images, and from what was asked of the plain ones."""
    masters = f"The network masters {100 * plain:.0f} % of its training images as they are"
    both = f"{masters} and {100 * augmented:.0f} % augmented at strength {strength:.2f} of 1"
    if plain < asked and strength < LEAST_STRENGTH:
        waits = f"{masters}, less than the {100 * asked:.0f} % that are asked at this point: augmentation waits."
        return Finding(True, "The network does not master its training images yet", waits)
    if strength < LEAST_STRENGTH:
        return Finding(True, "The network bears no augmentation", f"{both}: harder images would only cost accuracy.")
    if strength < 1:
        return Finding(True, "As strong as the network can bear", f"{both}; it rises while the two are close.")
    return Finding(True, "The network bears the strongest augmentation", f"{both}.")


def recognised(plain: float, augmented: float, of: str = "") -> Finding:
    """Accuracy of the teacher on training images as they are and augmented; ``of`` may be "the pixels of "."""
    kept = augmented / plain if plain else 1.0
    return judged(
        kept >= LEAST_KEPT,
        (
            "The teacher still recognises the images",
            "Over-augmentation: the teacher no longer recognises the images",
        ),
        f"The teacher recognises {100 * augmented:.0f} % of {of}augmented training images "
        f"and {100 * plain:.0f} % plain",
        f": {100 * kept:.0f} % of its accuracy is left, less than {100 * LEAST_KEPT:.0f} %",
        "Hold the augmenter back: a larger --teach.n_inner or a smaller --teach.lr; or give it a better judge with "
        "--teacher RUN, a run that was trained before.",
    )


def colors_in_distribution(distance: float, space: str = "normalized") -> Finding:
    """distance: root of the colour distance that the run measured, on colours as the setting ``color_space`` says."""
    most, words = MOST_COLOR[space]
    return judged(
        distance <= most,
        ("The colours stay where the data's are", "The colours leave the data"),
        f"The colours of augmented batches lie {words.format(distance)} away from those of the data",
        f", more than {most:g}",
        "Raise --teach.color_weight (10 is the paper's value).",
    )


def fits(train: float, test: float, of: str = "") -> Finding:
    """Accuracy of the target on training images as they are, and on test images; ``of`` may be "the pixels of "."""
    return judged(
        train >= LEAST_FIT or train - test >= LEAST_GAP,
        ("The target has learned its training images", "The target underfits"),
        f"The target knows {100 * train:.0f} % of {of}plain training images and {100 * test:.0f} % of {of}test images",
        ": it is no better on what it was trained with, so more variety cannot help it",
        "Train longer (--epochs), with a larger network (--model) or another --lr; then look at augmentation again.",
    )


def replay_length(snapshots: float, n_buffer: int) -> Finding:
    """snapshots: how many the target draws from in effect, older ones counting less; n_buffer: epochs between two."""
    return judged(
        snapshots >= LEAST_SNAPSHOTS,
        ("The replay is long enough", "The replay is too short"),
        f"The target draws from {snapshots:.3g} earlier augmenters in effect, one kept every {n_buffer} epochs",
        f"; with fewer than {LEAST_SNAPSHOTS} it is nearly the current augmenter alone",
        f"Keep them more often: --teach.n_buffer {max(1, n_buffer // 4)}, or train longer.",
    )


def varied(variety: float) -> Finding:
    """variety: standard deviation of the warps over images, as a share of their mean size."""
    return judged(
        variety >= LEAST_VARIETY,
        ("Images are augmented in different ways", "Collapse: every image gets the same warp"),
        f"From image to image the warps vary by {100 * variety:.0f} % of their mean size",
        f"; below {100 * LEAST_VARIETY:.0f} % the target sees one warped data set",
        "Try another --seed, a smaller --teach.lr, or a longer replay (a smaller --teach.n_buffer).",
    )


def answers_differ(largest: float, expected: float) -> Finding:
    """Share of the most frequent answer among the target's, and the share that this class really has at most."""
    return judged(
        largest <= max(MOST_ONE_CLASS, 1.5 * expected),
        ("The target tells classes apart", "Collapse: the target gives one answer"),
        f"The target's most frequent answer makes up {100 * largest:.0f} % of all",
        f"; no class has more than {100 * expected:.0f} % of the images",
        "Lower --lr, lengthen --optim.warmup_epochs or set --optim.clip 5.",
    )


def representations_differ(spread: float) -> Finding:
    """spread: of normalised representations over images, 1 where they point in all directions alike."""
    return judged(
        spread >= LEAST_SPREAD,
        ("Images have representations of their own", "Collapse: the network finds all images alike"),
        f"The representations spread over {100 * spread:.0f} % of what is possible",
        f", less than {100 * LEAST_SPREAD:.0f} %",
        "Lower --lr or raise --batch-size.",
    )


def effective_snapshots(count: int, decay: float) -> float:
    """Σ γ^(S-i): how many snapshots of full weight the replay is worth."""
    return float(count) if decay >= 1 else (1 - decay**count) / (1 - decay)
