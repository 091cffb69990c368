"""A claim is a sentence and a predicate on the evidence: the numbers of a study and of the training runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from reproduction.table import Network, Row, table_rows

Study = dict[str, Any]


@dataclass(frozen=True)
class Evidence:
    """A study (`study_all`) and the finished training runs."""

    study: Study
    runs: Sequence[dict[str, Any]] = ()
    on_test: Sequence[dict[str, Any]] = ()

    @property
    def models(self) -> dict[str, Study]:
        """Every model's results by name."""
        return dict(self.study["models"])

    def of(self, *datasets: str) -> dict[str, Study]:
        """Models of some datasets; with digits only, all of them."""
        chosen = {name: m for name, m in self.models.items() if name.split("__")[0] in datasets}
        return chosen or {name: m for name, m in self.models.items() if name.startswith("digits__")}

    def cells(self, quantity: str, loss: str, *estimators: str) -> Iterator[tuple[str, int, list[float]]]:
        """Model name, batch size, and that quantity of each estimator."""
        for name, model in self.models.items():
            for n, by_estimator in model["finite"][loss]["sizes"].items():
                yield name, int(n), [by_estimator[e][quantity] for e in estimators]

    def weight_rows(self) -> list[Study]:
        """Theory by sample size."""
        return list(self.study["weights"]["rows"])

    def table(self) -> list[Row]:
        """The fine-tuning table."""
        return table_rows(self.runs, self.on_test)

    def tuned(self, network: Network, objective: str) -> Row | None:
        """One row of the fine-tuning table."""
        found = [r for r in self.table() if (r.dataset, r.model, r.objective) == (*network, objective)]
        return found[0] if found else None


def share(flags: Sequence[bool]) -> float:
    """How many of them hold, as a fraction."""
    return sum(flags) / len(flags) if flags else float("nan")


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
