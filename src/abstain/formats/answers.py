"""From the columns of a file of answers to a `Log`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from abstain._tables import is_number
from abstain.formats.columns import Source, UncertainError, Values, Words, as_texts, filled
from abstain.formats.loaded_columns import PLAIN, TRUTH, Loaded
from abstain.formats.log_rows import agreement
from abstain.formats.logs import _GRADES, _SCALES, Log, Rules
from abstain.formats.roles import RoleColumns
from abstain.formats.safety import count_noun, display_name, file_error, has_or_have, is_or_are

ROLES = ("prediction", "answered", "question", "task", "epoch")
"""Columns that make a table one of answers, where it has no class scores."""


def _codes(values: Values) -> np.ndarray:
    return values.codes if isinstance(values, Words) else np.unique(values, return_inverse=True)[1]


def verdict_roles(
    source: Source, roles: Mapping[str, RoleColumns], stated: Set[str]
) -> dict[str, RoleColumns]:
    """Roles with one column that says right or wrong: the one that the user stated, where there is one."""
    verdicts = [role for role in ("correct", "error", "loss") if role in stated]
    if len(verdicts) > 1:
        raise file_error(
            source.path,
            f"{' and '.join(verdicts)} both say how wrong an answer is: state one of them with -c.",
        )
    ruled_out = {"correct", "error", "loss"} - set(verdicts) if verdicts else set()
    return {role: choice for role, choice in roles.items() if role not in ruled_out}


def is_log(source: Source, roles: Mapping[str, RoleColumns], rules: Rules) -> bool:
    """Is a file to be read as one of answers?"""
    asked = roles.get("confidence", RoleColumns(())).names
    made = len(asked) > 1 or any(name not in source.columns for name in asked)
    return source.log is not None or rules != Rules() or any(r in roles for r in ROLES) or made


# from columns to a Log ------------------------------------------------------------------------------------


def answers_of(
    source: Source,
    roles: dict[str, RoleColumns],
    rules: Rules,
    right: Source | None,
    stated: Set[str] = frozenset(),
    purpose: str = "one file",
) -> Log:
    """The answers of a file: its columns loaded, the rows that are asked for chosen."""
    roles = verdict_roles(source, roles, stated)
    if right is not None:
        if "prediction" not in roles or "correct" in stated:
            raise file_error(
                source.path,
                "--labels needs a column of predictions and no other column that says right or wrong. Name the "
                "predictions with -c prediction=NAME, or leave --labels out.",
            )
        if (
            source.log is not None
        ):  # right answers that the user brings count more than the harness's own score
            roles = {role: choice for role, choice in roles.items() if role != "correct"}
    scorer = roles["correct"].names[0] if "correct" in roles else ""
    if column := source.facts.answered.get(scorer):
        roles.setdefault("answered", RoleColumns((column,)))
    rows, told = rows_of(source, rules)
    held = source.columns[roles["ids"].names[0]] if "ids" in roles else None
    roles = {role: choice for role, choice in roles.items() if role not in ("ids", "classes")}
    values = {r: source.load(r, choice) for r, choice in roles.items() if r != "confidence"}
    others = source.facts.not_with.get(scorer, ())
    known = tuple(name for name in source.facts.signals if name not in others)
    names = roles["confidence"].names if "confidence" in roles else known
    signals: dict[str, Any] = {n: source.columns[n].load() for n in names if n in source.columns}
    if right is not None:
        values["labels"] = _right_answers(right, values)
        told["labels"] = display_name(right.path.name)
    if rows is not None:
        values = rows_chosen(source, values, rows)
        signals = rows_chosen(source, signals, rows)
    answers = _Answers(source, roles, values, stated=stated, rules=rules, purpose=purpose)
    log = answers.log({name: signals.get(name) for name in names})
    ids = held if held is None or rows is None else held.rows(rows)
    return replace(log, used=log.used | told, ids=ids)


def unjudged(source: Source, roles: Mapping[str, RoleColumns], rules: Rules) -> dict[str, Any]:
    """Confidences of new answers on the scale that the rules state, and where there is nothing to accept."""
    if rules.only:
        raise file_error(source.path, "every row is decided: --only is for data that are measured.")
    if rules.grades:
        raise file_error(source.path, "new answers have no grades: --grades is for data that are measured.")
    name, *others = roles["confidence"].names
    if others:
        raise file_error(source.path, "a rule is for one confidence: name it with -c confidence=NAME.")
    some = {
        r: choice for r, choice in roles.items() if r in ("prediction", "answered", "abstained", "question")
    }
    values = {role: source.load(role, choice) for role, choice in some.items()}
    answers = _Answers(source, some, values, rules=rules)
    confidence = answers.signal(name, source.columns[name].load() if name in source.columns else None)
    answers.check_lengths(len(confidence), values)
    known = np.isfinite(confidence)
    answered = answers.given(known | (rules.missing == "last"))
    last = np.finfo(np.float64).min  # only a rule that accepts everything accepts it
    return {"confidence": np.where(answered & known, confidence, last), "abstained": ~answered}


def rows_of(source: Source, rules: Rules) -> tuple[np.ndarray | None, dict[str, str]]:
    """Which rows to read, and what to tell of it; of the filters of a log the first one, unless stated."""
    only, told = dict(rules.only), {}
    if variant := source.facts.variant:
        several = list(dict.fromkeys(as_texts(source.columns[variant].load()).tolist()))
        only.setdefault(variant, several[0])
        others = ", ".join(display_name(v) for v in several if v != only[variant])
        told[variant] = display_name(only[variant]) + (f" (others: {others})" if others else "")
    rows = None
    for name, value in only.items():
        if name not in source.columns:
            raise UncertainError(
                f"there is no column `{display_name(name)}`, it has {source.listed()}.", source
            )
        held = as_texts(source.columns[name].load())
        some = held == value
        if not some.any():
            listed = ", ".join(display_name(v) for v in np.unique(held)[:6])
            raise file_error(
                source.path, f"no row has `{display_name(name)}` {display_name(value)!r}; it holds {listed}."
            )
        rows = some if rows is None else rows & some
    return rows, {name: display_name(value) for name, value in only.items()} | told


def rows_chosen(source: Source, values: Mapping[str, Values], rows: np.ndarray) -> dict[str, Values]:
    """Some rows of columns that must all have as many rows as the mask."""
    for name, column in values.items():
        if len(column) != len(rows):
            raise file_error(
                source.path,
                f"`{display_name(name)}` must have {len(rows):,} rows as the rest, got {len(column):,}.",
            )
    return {name: column[rows] for name, column in values.items()}


def _right_answers(right: Source, along: Mapping[str, Values]) -> Values:
    """Right answers by question, where their file names the questions, else in the order of the rows."""
    keys = next((c for c in ("question", "prompt", "prompts") if c in right.columns), None)
    found = right.roles({}).get("labels") or RoleColumns(tuple(c for c in right.columns if c != keys))
    if len(found.names) > 1:
        raise UncertainError(f"must have one column of right answers, it has {right.listed()}.", right)
    labels = right.load("labels", found)
    texts = as_texts(labels)
    if keys is None or "question" not in along:
        both_numbers = isinstance(labels, np.ndarray) and isinstance(along.get("prediction"), np.ndarray)
        return labels if both_numbers else Words.of(texts.tolist())
    answers = dict(zip(as_texts(right.columns[keys].load()).tolist(), texts.tolist()))
    asked = as_texts(along["question"]).tolist()
    unknown = [q for q in asked if q not in answers]
    if unknown:
        raise file_error(
            right.path, f"has no answer to {len(unknown):,} questions, such as {display_name(unknown[0])!r}."
        )
    return Words.of(answers[q] for q in asked)


def _yes(values: Values) -> np.ndarray:
    """True where a row says yes; of a column of other things than yes and no, where it holds anything."""
    if isinstance(values, Words):
        said = [TRUTH.get(v.strip().lower()) for v in values.values]
        if None not in said:
            return np.array(said)[values.codes] == 1
    elif np.isin(values, (0, 1)).all():
        return np.asarray(values).reshape(-1) == 1
    return filled(values)


@dataclass(frozen=True)
class _Answers(Loaded):
    """The columns of a file of answers on their way to a `Log`."""

    rules: Rules = field(default_factory=Rules)
    purpose: str = "one file"

    def log(self, signals: Mapping[str, Values | None]) -> Log:
        """All of it; a signal without values is made from the answers."""
        values = self.values
        stated = "confidence" in self.roles
        self.check_scales(signals)
        loss, loss_name = self.graded()
        made = {name: self.signal(name, column) for name, column in signals.items()}
        self.check_lengths(len(loss), {**values, **made})
        finite = {name: s[np.isfinite(s)] for name, s in made.items()}
        absent = [name for name, s in finite.items() if not s.size]
        dropped = absent if len(absent) < len(made) or not stated else []
        constant = [name for name, s in finite.items() if s.size and s.min() == s.max() and not stated]
        notes = [*self.source.facts.notes, *(f"no row has `{display_name(name)}`." for name in dropped)]
        notes += [
            f"`{display_name(name)}` is the same in every row, so it is no confidence." for name in constant
        ]
        names = ("question", "task", "groups", "labels", "prediction", "epoch", "sample_weight", "clusters")
        along: dict[str, Any] = {name: values.get(name) for name in names}
        for name in ("epoch", "sample_weight"):
            if isinstance(column := along[name], Words):
                along[name] = column.codes
        if isinstance(clusters := along["clusters"], Words):
            along["clusters"] = clusters.texts()
        if "groups" not in values and "task" in values and len(np.unique(_codes(values["task"]))) > 1:
            along["groups"] = values["task"]
        log = Log(
            path=str(self.source.path),
            tool=self.source.facts.tool,
            loss=loss,
            answered=self.given(~np.isnan(loss) if self.rules.grades else np.ones(len(loss), bool)),
            signals={name: s for name, s in made.items() if name not in (*dropped, *constant)},
            loss_name=loss_name,
            rules=self.rules.settled(self.purpose, loss_name),
            absent=tuple(absent) if stated else (),
            **along,
        )
        return replace(log, used=self.used(log.signals), notes=(*notes, *_counts(log)))

    def check_scales(self, signals: Iterable[str]) -> None:
        """Refuse a scale of a column that is no confidence here, and `--outside` without a scale."""
        for name in self.rules.scale:
            if name and name not in signals:
                listed = ", ".join(map(display_name, signals)) or "none"
                raise self.error(f"--scale names `{display_name(name)}`, and the confidences are {listed}.")
        if self.rules.outside is not None and not self.rules.scale:
            raise self.error("--outside needs --scale, which says where the stated numbers must lie.")

    def graded(self) -> tuple[np.ndarray, str]:
        """Losses and their name: by grades, by numbers from 0 to 1, or by whatever else says right or wrong."""
        held, grades = self.values.get("correct"), self.rules.grades
        if grades:
            if not isinstance(held, Words):
                raise self.error("grades are for a column of words: state it with -c correct=NAME.")
            unknown = [v for v in held.values if v and v not in grades]
            if unknown:
                raise self.error(f"the grade {display_name(unknown[0])!r} is not among those stated.")
            found = [_GRADES[grades.get(v, "unanswered")] for v in held.values]
            return np.array(found)[held.codes], "zero_one"
        if held is None and self.source.log is not None and "labels" not in self.values:
            raise UncertainError(_no_score(self.source), self.source)
        if held is None or isinstance(held, Words):
            return self.losses()
        if self.source.log is None and np.isin(held, (0, 1)).all():
            return self.losses()  # which looks for contradictions, too
        loss = 1 - np.asarray(held, np.float64).reshape(-1)
        known = loss[~np.isnan(loss)]
        if known.size and not (known.min() >= 0 and known.max() <= 1):
            worst = 1 - known[np.argmax(np.abs(known - 0.5))]
            raise self.error(
                f"correctness must lie between 0 and 1, got {worst:g}. State a column: -c correct=NAME"
            )
        return loss, "zero_one" if np.isin(known, (0, 1)).all() else "partial_credit"

    def given(self, answered: np.ndarray) -> np.ndarray:
        """Of these answers, those that the columns do not call refused or leave empty."""
        if "prediction" in self.values:
            answered &= filled(self.values["prediction"])
        for role in ("answered", "abstained"):
            if role in self.values:
                answered &= _yes(self.values[role]) == (role == "answered")
        return answered

    def signal(self, name: str, held: Values | None) -> np.ndarray:
        """A confidence as numbers; one that the model stated is brought to fractions and must lie within its scale."""
        if held is None:  # agreement, made from the answers
            if "question" not in self.values or "prediction" not in self.values:
                raise UncertainError("agreement needs -c question=NAME and -c prediction=NAME.", self.source)
            asked, said = (as_texts(self.values[role]).tolist() for role in ("question", "prediction"))
            return np.array(agreement(asked, [answer or None for answer in said]), dtype=np.float64)
        if isinstance(held, Words):
            if not (texts := [v for v in held.values if v]):
                return np.full(len(held), np.nan)
            bad = next((v for v in texts if not is_number(v)), texts[0])
            raise self.error(
                f"the confidence `{display_name(name)}` must be numbers, got {display_name(bad)!r}. {PLAIN}"
            )
        found = np.asarray(held, np.float64).reshape(-1)
        scale = self.rules.scale.get(name, self.rules.scale.get(""))
        if scale is None:
            return found
        most, fraction = _SCALES[scale]
        outside = np.isfinite(found) & ~((found >= 0) & (found <= most))
        if outside.any() and self.rules.outside != "missing":
            count = f"{outside.sum():,} of {np.isfinite(found).sum():,} values of `{display_name(name)}`"
            raise self.error(
                f"{count} lie outside 0 to {most:g} (such as {found[outside][0]:g}), so they are no stated {scale}. "
                f"Count them as missing with --outside missing, state another --scale, or leave it out to rank the "
                f"column as it is."
            )
        shares = np.where((found > fraction) | (scale == "percent"), found / most, found)
        return np.where(outside, np.nan, shares)

    def used(self, signals: Iterable[str]) -> dict[str, str]:
        """Role -> what was taken for it, in the words that would state it."""
        facts, about = self.source.facts, self.source.facts.about
        used = {r: str(c) + (f" ({about[str(c)]})" if str(c) in about else "") for r, c in self.roles.items()}
        used["confidence"] = ", ".join(map(display_name, signals)) or "none"
        others = [s for s in facts.scorers if s != used.get("correct", "").split(" (")[0]]
        if others:
            used["correct"] += f" (others: {', '.join(map(display_name, others[:6]))})"
        given = "wherever the prediction is not empty" if "prediction" in self.roles else "every row"
        used.setdefault("answered", "by the grade" if self.rules.grades else given)
        used.setdefault("question", "every row is another one")
        used.setdefault("epoch", "none")
        used.setdefault("task", display_name(facts.task or "one"))
        return used


def _no_score(source: Source) -> str:
    """What to say of a log that does not say by itself which answers are right."""
    if scorers := source.facts.scorers:
        listed = ", ".join(map(display_name, scorers[:8]))
        return f"several scores could say right or wrong: {listed}. State one: -c correct={display_name(scorers[0])}"
    for name in source.facts.worded:
        words = sorted(set(as_texts(source.columns[name].load()).tolist()) - {""})
        listed = ", ".join(map(display_name, words[:6]))
        meaning = ",".join(f"{display_name(word)}=MEANING" for word in words[:6])
        return (
            f"`{display_name(name)}` grades by words ({listed}). Say what each means, right, wrong or unanswered: "
            f"-c correct={display_name(name)} --grades {meaning}"
        )
    return (
        "holds nothing from 0 to 1 that says right or wrong. State right answers with --labels FILE, or a column with "
        f"-c correct=NAME; it has {source.listed()}."
    )


def _counts(log: Log) -> list[str]:
    """What was counted, and how it would be counted otherwise."""
    rules = log.rules
    told = []
    if unscored := int((~log.scored).sum()):
        told.append(
            f"{unscored:,} of {count_noun(log.n, 'answer')} {has_or_have(unscored)} no score and "
            f"{is_or_are(unscored)} left out."
        )
    if refused := int((~log.answered).sum()):
        kept = "abstentions: never accepted, kept in the coverage"
        taken = {"abstained": kept, "wrong": "wrong, ranked last"}
        other = next(rule for rule in taken if rule != rules.unanswered)
        told.append(
            f"{refused:,} of {count_noun(log.n, 'question')} ({refused / log.n:.1%}) {has_or_have(refused)} "
            f"no answer and "
            f"{is_or_are(refused)} taken as {taken[str(rules.unanswered)]} (--unanswered {other} for the other way)."
        )
    lacking = {n: int((~np.isfinite(s) & log.answered & log.scored).sum()) for n, s in log.signals.items()}
    for name, count in lacking.items():
        if count:
            left = "left out (--missing last ranks them last)"
            how = "ranked last" if rules.missing == "last" else left
            told.append(
                f"{count_noun(count, 'answer')} {has_or_have(count)} no `{display_name(name)}` and "
                f"{is_or_are(count)} {how}."
            )
    if log.repeats() is not None and log.question is not None:
        asked = f"{count_noun(log.questions, 'question')} in {count_noun(log.n, 'row')}"
        told.append(f"{asked}: repeats of one question are a cluster.")
    return told
