"""Which rules of the diagnosis apply to a run, and with which numbers."""

from __future__ import annotations

import math

from teachaugment.commands.report import diagnosis
from teachaugment.commands.report.diagnosis import Finding
from teachaugment.commands.report.observe import Observation
from teachaugment.commands.report.record import Record
from teachaugment.governor import asked_at
from teachaugment.hyperparameters import epochs_between_snapshots


def findings(record: Record, seen: Observation | None) -> list[Finding]:
    """What is wrong first."""
    found: list[Finding] = []
    accuracy = seen.accuracy if seen is not None else {}
    result = record.result("target")
    test, of = result.get(record.task.share_right or ""), record.task.share_of
    if (strength := record.final("teach", "strength")) is not None:
        plain, augmented = (record.final("teach", f"{name}_mastery") or 0.0 for name in ("plain", "augmented"))
        progress = len(record.epochs) / max(record.setting("train.epochs"), 1)
        found.append(diagnosis.strength_found(strength, plain, augmented, asked_at(min(1.0, progress))))
        if (shares := record.shares()) and strength >= diagnosis.LEAST_STRENGTH:
            found.append(diagnosis.operations_borne({name.replace("_", " "): share for name, share in shares.items()}))
    if record.updates:
        if seen is not None and seen.change is not None:
            found.append(diagnosis.still_identity(seen.change))
        if "teacher augmented" in accuracy:
            found.append(diagnosis.recognised(accuracy["teacher plain"], accuracy["teacher augmented"], of))
        if (distance := record.final("teach", "color_distance")) is not None:
            space = record.setting("teach.color_space")
            found.append(diagnosis.colors_in_distribution(math.sqrt(max(distance, 0.0)), space))
        if seen is not None and seen.variety is not None:
            found.append(diagnosis.varied(seen.variety))
        snapshots = record.final("teach", "snapshots")
        if record.setting("teach.replay") and snapshots is not None:
            effective = diagnosis.effective_snapshots(int(snapshots), float(record.setting("teach.replay_decay")))
            apart = record.setting("teach.n_buffer") or epochs_between_snapshots(record.setting("train.epochs"))
            found.append(diagnosis.replay_length(effective, apart))
    if "target plain" in accuracy and test is not None:
        found.append(diagnosis.fits(accuracy["target plain"], test, of))
    matrix = record.metrics.get("test", {}).get("target", {}).get("confusion")
    if matrix and len(matrix) > 2:
        total = max(sum(map(sum, matrix)), 1)
        answers = [sum(row[j] for row in matrix) / total for j in range(len(matrix))]
        found.append(diagnosis.answers_differ(max(answers), max(sum(row) / total for row in matrix)))
    if (spread := record.final("train", "spread")) is not None:
        found.append(diagnosis.representations_differ(spread))
    return sorted(found, key=lambda finding: finding.fine)
