"""How data are read, whatever their format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from teachaugment.data import cache
from teachaugment.errors import UserError

INTERPOLATIONS = ("bicubic", "bilinear", "nearest", "lanczos")  # by Pillow's names
FITS = ("crop", "squash", "pad")  # how an image of other proportions is made to fit


@dataclass(frozen=True)
class Reading:
    """What a loader is told besides the source. A setting that makes no sense is refused here."""

    root: str | Path | None = None  # where named data sets are kept, and downloaded to; None: ~/.cache/teachaugment
    size: int | tuple[int, int] | None = None  # side of square images, or height and width; None: what the data suggest
    seed: int = 0  # decides which images per_class takes; a generated data set is itself the same for every seed
    split_seed: int | None = None  # decides which images are held out for validation and testing; None: the seed
    per_class: int | None = None  # at most so many training images of each class
    val_fraction: float = 0.0  # share of the training images set apart for validation, before per_class counts
    in_memory: str = "auto"  # of image files: always, never, or auto, which streams what decodes to over a gigabyte
    partial: bool = False  # only to be evaluated on: all images may be of one class, or each of another
    bad_images: str = "error"  # error: stop at an unreadable file; skip: leave it out with a warning
    centre: float | None = None  # share of the shorter side that a centre crop keeps; None: what the format says
    interpolation: str = "bicubic"  # of image files that are resized
    fit: str = "crop"  # of image files: crop to the middle, squash all of it into the size, or pad it with black
    area: float = 1.0  # least share of a training image that a random crop shows; 1: no random crops
    views: int = 1  # random crops that are made of each training image, where there are any
    crop: int | None = None  # masks: side of random windows of the training images; None: whole images
    whole: bool = False  # masks: training images are only looked at, as a whole; they may differ in size
    scale: float = 1.0  # masks: training images are magnified at random between 1/scale and scale
    images: str | None = None  # masks: which files are images, by pattern; None: by the names of folders
    masks: str | None = None  # masks: which file is the mask of an image
    ignore: int | None = None  # masks: a value that means, like 255, that nothing is known

    def __post_init__(self) -> None:
        if self.shape is not None and min(self.shape) < 1:
            raise UserError(f"size is {self.size}; it must be at least 1")
        if self.per_class is not None and self.per_class < 1:
            raise UserError(f"per_class is {self.per_class}; it must be at least 1")
        if not 0 <= self.val_fraction < 1:
            raise UserError(f"val_fraction is {self.val_fraction}; it must be at least 0 and less than 1")
        for name, value, allowed in (
            ("in_memory", self.in_memory, ("auto", "always", "never")),
            ("bad_images", self.bad_images, ("error", "skip")),
            ("interpolation", self.interpolation, INTERPOLATIONS),
            ("fit", self.fit, FITS),
        ):
            if value not in allowed:
                raise UserError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}")
        if self.centre is not None and not 0 < self.centre <= 1:
            raise UserError(f"centre is {self.centre}; it must be above 0 and at most 1")
        if not 0 < self.area <= 1:
            raise UserError(f"area is {self.area}; it must be above 0 and at most 1")
        if self.views < 1:
            raise UserError(f"views is {self.views}; it must be at least 1")

    @property
    def shape(self) -> tuple[int, int] | None:
        """The wanted height and width."""
        return (self.size, self.size) if isinstance(self.size, int) else self.size

    @property
    def split_by(self) -> int:
        """The seed of the splits."""
        return self.seed if self.split_seed is None else self.split_seed

    @property
    def home(self) -> Path:
        """Where named data sets are kept."""
        return Path(self.root).expanduser() if self.root is not None else cache.home()
