"""A claim is a sentence and a predicate on the evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from abstain.paper.evidence import Evidence

AGREES, DIFFERS, UNTESTED = "agrees", "differs", "cannot be tested here"


@dataclass(frozen=True)
class Finding:
    """Whether a claim holds (None: the evidence is missing), and the number that says so."""

    holds: bool | None
    number: str


@dataclass(frozen=True)
class Claim:
    """A statement of the paper (or a slip in it), where it stands, and how we check it."""

    key: str
    where: str
    statement: str
    check: Callable[[Evidence], Finding]
    slip: bool = False


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict."""

    claim: Claim
    verdict: str
    number: str


def judge(claims: Sequence[Claim], evidence: Evidence) -> list[Judged]:
    """Evaluate every predicate."""
    judged = []
    for claim in claims:
        finding = claim.check(evidence)
        verdict = UNTESTED if finding.holds is None else AGREES if finding.holds else DIFFERS
        judged.append(Judged(claim, verdict, finding.number))
    return judged


def as_markdown(judged: Sequence[Judged]) -> str:
    """Two tables: the paper's claims, then its slips ("agrees" there means that the slip is confirmed)."""
    parts = []
    for slips, title, column in ((False, "Claims", "verdict"), (True, "Slips", "confirmed")):
        lines = [
            f"## {title}",
            "",
            f"| where | statement | what we got | {column} |",
            "| --- | --- | --- | --- |",
        ]
        for j in judged:
            if j.claim.slip is slips:
                verdict = {AGREES: "yes", DIFFERS: "no"}.get(j.verdict, j.verdict) if slips else j.verdict
                lines.append(f"| {j.claim.where} | {j.claim.statement} | {j.number} | **{verdict}** |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"
