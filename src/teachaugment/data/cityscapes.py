"""Cityscapes through torchvision: fine annotations, the 19 classes that are trained on, everything else IGNORE."""

from __future__ import annotations

from pathlib import Path

from teachaugment.data.codes import Codes
from teachaugment.data.finish_masks import finish_masks
from teachaugment.data.reading import Reading
from teachaugment.data.splits import DataSet
from teachaugment.errors import UserError

ARCHIVES = ("leftImg8bit_trainvaltest.zip", "gtFine_trainvaltest.zip")


def load_cityscapes(source: str | Path, reading: Reading) -> DataSet:
    """2,975 training images, and the 500 validation images to test on; nothing is downloaded.

    The root has leftImg8bit/ and gtFine/, or the two archives, which torchvision unpacks once.
    """
    import torchvision

    if reading.ignore is not None:
        raise UserError("data.ignore is for your own masks; cityscapes says itself what counts for nothing")
    root = reading.home
    found = {}
    for split in ("train", "val"):
        try:
            part = torchvision.datasets.Cityscapes(root, split=split, mode="fine", target_type="semantic")
        except Exception as error:  # torchvision and zipfile have many ways to say that something is missing
            reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
            raise UserError(
                f"cityscapes is not in {root}: {reason}; it needs leftImg8bit/ and gtFine/, or the archives "
                f"{' and '.join(ARCHIVES)}, for which its site wants an account: name the folder with --data.root"
            ) from None
        pairs = zip(part.images, (targets[0] for targets in part.targets), strict=True)
        found[split] = sorted((_inside(root, image), _inside(root, mask)) for image, mask in pairs)
        if not found[split]:
            raise UserError(
                f"cityscapes in {root} has no images in its split {split}; name the folder with --data.root"
            )
    known = [c for c in torchvision.datasets.Cityscapes.classes if c.id >= 0]
    trained = sorted((c for c in known if not c.ignore_in_eval), key=lambda c: c.train_id)
    codes = Codes([c.name for c in trained], Codes.of([], {c.id for c in known}).table, [c.color for c in trained])
    for c in trained:
        codes.table[c.id] = c.train_id
    return finish_masks("cityscapes", root, found, codes, reading)


def _inside(root: Path, path: str) -> str:
    return Path(path).relative_to(root).as_posix()
