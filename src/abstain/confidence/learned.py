"""A learned confidence: what it computes, how it was judged, and where it may be used."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from abstain import __version__, _tables
from abstain._arrays import ArrayLike, backend_of, to_host
from abstain._stored import Chance, Stored, Within
from abstain._tables import format_fixed, format_number, text_table
from abstain.confidence.fitted_rows import FittedRows
from abstain.confidence.input_table import Columns, read_inputs
from abstain.confidence.judging import CandidateResult, Contribution
from abstain.confidence.models import ConfidenceModel
from abstain.errors import AbstainWarning, InputError

Keep = Literal["lowest", "proven"]
LEAK = "alone says which answers are right"  # what a note says of an input, after its name
LEAK_OF_PAIR = "together say which answers are right"  # what it says of two inputs, after their names

FROM_ANSWERS_ALONE = "a confidence is learned from answers alone"  # what it says of rows without an answer


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LearnedConfidence(_tables.Notebook, Stored):
    """A confidence made of all that is known before the label: what `learn_confidence` and `combine_signals` give.

    Call it with the same keywords as in learning: it returns one confidence per row, higher = surer. Logistic models
    return estimated log-odds of being right; only their order matters.

    Attributes
    ----------
    model : ConfidenceModel
        The function of the inputs: plain numbers.
    kept : str
        The candidate that was kept; "mean of ranks" or "shipped weights" if there were no labels.
    keep : {"lowest", "proven"}
        What was asked for.
    candidates : tuple of CandidateResult
        Simplest first, the baseline at its head; each judged on rows that it was not fitted on. Empty without labels.
    contributions : tuple of Contribution
        What each input adds to the kept model, trees included, if it is the model of several inputs.
    level : float
        Of intervals and of the verdict.
    n : int
        Rows learned on.
    clusters : int or None
        Number of clusters of these rows, if there were clusters.
    folds : int
        Number of folds; 0 without labels.
    fitted : FittedRows or None
        To recognise the rows of the fit, on which no threshold may be certified. None without labels.
    notes : tuple of str
        What to know besides: inputs that were left out, why weights were used or not.
    version : str
        Of abstain.

    Examples
    --------
    >>> import abstain
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(size=(2, 2000))
    >>> right = 3 * a + b + rng.logistic(size=2000) > 0
    >>> learned = abstain.learn_confidence(right, signals={"a": a, "b": b})
    >>> learned.kept, learned.proven
    ('signals', True)
    >>> better, worse = learned(signals={"a": [1.0, -1.0], "b": [1.0, -1.0]})
    >>> bool(better > worse)
    True
    """

    _noun: ClassVar[str] = "a stored confidence"
    _number: ClassVar[int] = 2
    _has_checksum: ClassVar[bool] = True

    model: ConfidenceModel
    kept: str
    keep: Keep
    candidates: tuple[CandidateResult, ...]
    contributions: tuple[Contribution, ...]
    level: Chance
    n: Annotated[int, Within(1)]
    clusters: Annotated[int, Within(1)] | None
    folds: Annotated[int, Within(0)]
    fitted: FittedRows | None
    notes: tuple[str, ...] = ()
    version: str = __version__

    def __call__(
        self,
        *,
        logits: ArrayLike | None = None,
        probs: ArrayLike | None = None,
        signals: Columns | None = None,
        features: Columns | None = None,
        categories: Columns | None = None,
        predicted: ArrayLike | None = None,
        abstained: ArrayLike | None = None,
    ) -> Any:
        """Return one confidence per row, higher = surer, in the array library of the inputs.

        `signals` are confidences of the user's own, `features` other numbers and `categories` labels, all by name;
        `predicted` are the predicted classes where there are no class scores. Pass every input that was there in
        learning; inputs that were not are ignored. Gaps (None, NaN) in signals and features are allowed. A level of a
        category that was not seen in learning adds nothing. Raises InputError if an input is missing as a whole, and
        warns (AbstainWarning) if inputs are distributed otherwise than in learning. `abstained` marks the rows without
        an answer: nothing was learned from such rows, so they get a confidence, but are left out where distributions
        are compared. `model.profile` holds the names and distributions of the inputs in learning.
        """
        function = "LearnedConfidence"
        table = read_inputs(
            function,
            logits=logits,
            probs=probs,
            signals=signals,
            features=features,
            categories=categories,
            predicted=predicted,
        )
        self.model.profile.check_names(function, table)  # raises if an input is missing as a whole
        answered_table = table
        if abstained is not None:
            is_abstained = np.asarray(to_host(abstained))
            if is_abstained.shape != (table.row_count,) or is_abstained.dtype != bool:
                raise InputError(
                    f"{function}: `abstained` must be True or False for each of {table.row_count:,} rows, got shape "
                    f"{is_abstained.shape} of dtype {is_abstained.dtype}."
                )
            answered_table = table.take(~is_abstained)
        # one sentence for each change of an input
        for change in self.model.profile.find_changes(answered_table):
            warnings.warn(f"{function}: {change}", AbstainWarning, stacklevel=2)
        confidence = self.model.apply(table)  # shape (n,), numpy
        # the result goes to the array library of one input; of categories alone it is a numpy array
        first_column = next(iter((signals or features or {}).values()), None)
        example = next((array for array in (logits, probs, first_column) if array is not None), None)
        return backend_of(example).to_input_library(confidence) if example is not None else confidence

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that name this confidence; a rule made for one refuses another."""
        return self.model.fingerprint

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of all inputs that a call needs."""
        return self.model.profile.names

    @property
    def result(self) -> CandidateResult | None:
        """How the kept candidate was judged; None without labels."""
        return next((result for result in self.candidates if result.name == self.kept), None)

    @property
    def proven(self) -> bool:
        """Is the kept candidate better than the baseline, by the corrected paired test at `level`?"""
        return self.result is not None and self.result.is_proven(self.level)

    @property
    def is_from_answers_alone(self) -> bool:
        """Were rows without an answer left out in learning? `abstain improve` notes it; other callers leave it open."""
        return any(FROM_ANSWERS_ALONE in note for note in self.notes)

    @property
    def verdict(self) -> str:
        """What was kept and why, in one sentence, and which inputs say which answers are right, alone or two together.

        `self.keep` is the rule by which a candidate was kept: "lowest" (lowest AURC out of fold, proven or not) or
        "proven" (better than the baseline by the test at `self.level`); `self.proven` says whether this test shows it.
        `self.kept` is the name of the kept candidate. `self.candidates` are all that were judged, the baseline first.
        Notes of leaks exist for inputs that tell right from wrong nearly perfectly.
        """
        if self.result is None:  # no candidates were compared
            return f"Made without labels: {self.kept}."
        baseline = self.candidates[0]
        if self.kept == baseline.name:
            reason = "no other candidate has an out-of-fold AURC that is clearly lower"
            if self.keep == "proven":
                reason = "no other candidate is proven better"
            return f"The baseline was kept: {reason}."
        # `result` is that of the kept candidate; `difference` is its AURC minus that of the baseline
        share = self.result.difference / baseline.aurc if baseline.aurc > 0 else 0.0
        gain = f"AURC {baseline.aurc:.4g} to {self.result.aurc:.4g} ({share:+.1%})"
        if self.proven:
            where = f"at level {self.level:g} (p = {self.result.p_value:.2g})"
            # The names of such inputs, with which their notes begin; LEAK is "alone says which answers are right",
            # LEAK_OF_PAIR "together say which answers are right".
            leaks = [note.partition(LEAK)[0].strip() for note in self.notes if LEAK in note]
            if len(leaks) > 1:
                leaks = [f"each of {', '.join(leaks)}"]
            suspicions = [f"{suspects} {LEAK}" for suspects in leaks]
            suspicions += [note.partition(":")[0] for note in self.notes if LEAK_OF_PAIR in note]
            if suspicions:
                where = f"on these rows {where}, but {', and '.join(suspicions)}"
            return f"{self.kept!r} was kept: {gain}, proven {where}."
        doubt = self.result.note or f"p = {self.result.p_value:.2g}"
        # A candidate whose AURC is not lower is kept in two cases. Where the shipped weights of signals, which were
        # learned on other data, apply, "lowest" leaves the baseline out unless these rows prove them worse. With few
        # rows, the mean of ranks is kept at the AURC of the baseline too.
        combination = self.model.combination
        is_mean_of_ranks = combination is not None and combination.is_mean_of_ranks
        if self.result.difference >= 0 and not is_mean_of_ranks:
            doubt += "; the shipped weights are trusted unless proven worse"
        return f"{self.kept!r} was kept: {gain}, not proven at level {self.level:g} ({doubt})."

    def refuse_fitted_rows(self, function: str, confidence: np.ndarray) -> None:
        """Raise InputError if confidences are those of rows that this confidence was fitted on.

        `confidence` is what a call returned, one number per row; `function` is named in the message. Rows are
        recognised by their confidence. Where many rows share one, as with a few stated numbers, they cannot be.
        """
        known = self.count_fitted_rows(confidence)
        if known:
            raise InputError(
                f"{function}: these rows must not be those that the confidence was fitted on, got {known} of the fit. "
                f"A promise needs fresh rows: split the labelled rows first, or use `learn_and_select` "
                f"(`abstain improve --risk`)."
            )

    def count_fitted_rows(self, confidence: np.ndarray, row_count: int | None = None) -> str:
        """Say how many rows are rows that this confidence was fitted on: "about 40 of 840 rows"; "" for none.

        `confidence` is what a call returned, one number per row. `row_count` is the number of rows where some have no
        answer, and so no entry in `confidence`. No more rows than chance explains are none.
        """
        if self.fitted is None:  # made without labels, so that no row was fitted on
            return ""
        # of the rows that can be told apart, the share that is recognised
        share = self.fitted.share_known(np.asarray(confidence, dtype=np.float64))
        count = round(share * len(confidence))
        total = len(confidence) if row_count is None else row_count
        if not share:
            return ""
        return (
            f"all {total:,} rows" if share == 1 and count == total else f"about {count:,} of {total:,} rows"
        )

    def frame(self, library: str | None = None) -> Any:
        """The candidates as a data frame, one row each; `library` is "pandas", "polars", "dict" or None (choose).

        The columns are the attributes of `CandidateResult` in this order, and whether the candidate was kept. There are
        no rows if there were no labels.
        """
        names = (
            "name",
            "aurc",
            "low",
            "high",
            "difference",
            "difference_low",
            "difference_high",
            "standard_error",
            "p_value",
            "note",
        )
        columns = _tables.collect_columns(self.candidates, names)
        columns["kept"] = [result.name == self.kept for result in self.candidates]
        return _tables.make_frame(columns, library)

    def contributions_frame(self, library: str | None = None) -> Any:
        """What each input adds as a data frame, one row each; `library` is "pandas", "polars", "dict" or None."""
        names = ("name", "difference", "low", "high", "p_value")
        return _tables.make_frame(_tables.collect_columns(self.contributions, names), library)

    def tables(self) -> dict[str, dict[str, list[str]]]:
        """The tables that the repr and the command line show, by caption: cells of text by column title.

        Candidates were judged on rows that they were not fitted on; there are none if there were no labels. The one
        that was kept has a star. Contributions are what each input adds, and may be empty. All columns of a table have
        the same number of cells. `_show_difference` writes a difference and its interval.
        """
        cells_by_caption = {}
        if self.candidates:  # the first is the baseline, which is compared with nothing
            cells_by_caption[f"Out-of-fold AURC by candidate, {self.level:.0%} intervals"] = {
                "candidate": [
                    result.name + (" *" if result.name == self.kept else "") for result in self.candidates
                ],
                "AURC": [
                    f"{format_number(result.aurc)} [{format_number(result.low)}, {format_number(result.high)}]"
                    for result in self.candidates
                ],
                "minus baseline": [
                    _show_difference(result.difference, result.difference_low, result.difference_high)
                    if index  # not the baseline
                    else "-"
                    for index, result in enumerate(self.candidates)
                ],
                "p": [
                    f"{result.p_value:.2g}" if index else "-" for index, result in enumerate(self.candidates)
                ],
            }
        if self.contributions:
            cells_by_caption["AURC with all inputs minus AURC without one"] = {
                "without": [part.name for part in self.contributions],
                "difference": [
                    _show_difference(part.difference, part.low, part.high) for part in self.contributions
                ],
                "p": [f"{part.p_value:.2g}" for part in self.contributions],
            }
        return cells_by_caption

    def __repr__(self) -> str:
        rows = f"{self.n:,} rows"
        if self.clusters is not None:
            rows += f" in {self.clusters:,} clusters"
        lines = [f"LearnedConfidence: {self.kept} of {', '.join(self.inputs)} ({rows}, {self.fingerprint})"]
        lines.append(f"  {self.verdict}")
        for caption, columns in self.tables().items():
            lines += [f"  {caption}:", text_table(columns, indent="    ")]
        lines += [f"  Note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _readable(self) -> dict[str, Any]:
        return {"verdict": self.verdict, "fingerprint": self.fingerprint}

    def _rules(self) -> dict[str, Any]:
        names = [result.name for result in self.candidates]
        has_labels = bool(self.candidates)
        return {
            "`kept` must be one of the candidates.": not has_labels or self.kept in names,
            "candidates must have different names.": len(set(names)) == len(names),
            "`fitted` and `folds` must come with candidates.": has_labels
            == (self.fitted is not None)
            == (self.folds > 0),
            "`n` must be that of `model`.": self.n == self.model.profile.n,
        }


def _show_difference(difference: float, low: float, high: float) -> str:
    """A difference with its interval, with signs and four decimals."""
    limits = f"[{format_fixed(low, 4, sign=True)}, {format_fixed(high, 4, sign=True)}]"
    return f"{format_fixed(difference, 4, sign=True)} {limits}"
