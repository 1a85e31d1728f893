"""What dumps of both formats share: the file, what its store promised, faults and notices, as rows and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from auditd.evidence.exactness import is_exact
from auditd.evidence.expectation import NOTHING, Expectation, Reference, Remark
from auditd.evidence.observation import Observation
from auditd.evidence.text import exact, printable
from auditd.formats.faults import Fault, Notice
from auditd.header_dump.forms import (
    Contradiction,
    ExpectationForm,
    FaultForm,
    Figure,
    FileForm,
    Large,
    NoticeForm,
    ReferenceForm,
    RemarkForm,
    maybe_whole,
    maybe_whole_form,
    whole,
    whole_form,
)
from auditd.header_dump.values import text_bytes
from auditd.rules.findings import FINDINGS

_SHA256_DIGITS = 64

# -- to rows ----------------------------------------------------------------------------------------


def file_form(observation: Observation) -> FileForm:
    """The file's name and size."""
    name, name_base64 = exact(observation.path.rpartition(b"/")[2])
    return FileForm(name=name, size=observation.size or 0, name_base64=name_base64)


def expectation_form(expectation: Expectation) -> ExpectationForm | None:
    """What a store said, None if nobody said anything."""
    if expectation == NOTHING:
        return None
    return ExpectationForm(
        store=_encodable(expectation.store),
        names=[_text(name) for name in expectation.names],
        references=[ReferenceForm(one.algorithm, one.value, _text(one.source)) for one in expectation.references],
        size=maybe_whole_form(expectation.size),
        role=expectation.role,
        remarks=[RemarkForm(one.code, _text(one.message)) for one in expectation.remarks],
    )


def _text(text: str) -> str:
    """Names of the file system may hold what is no text, as surrogates: it is escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _encodable(text: str | None) -> str | None:
    return None if text is None else _text(text)


def fault_forms(faults: Sequence[tuple[Fault, int]], stopped: Fault | None) -> list[FaultForm]:
    """Faults with how often each rule broke."""
    return [
        FaultForm(
            constraint=fault.constraint,
            kind=fault.kind,
            subject=fault.subject,
            offset=whole_form(fault.offset),
            message=fault.message,
            expected=_figure_form(fault.expected),
            actual=_figure_form(fault.actual),
            count=count,
            stopped=fault == stopped,
        )
        for fault, count in faults
    ]


def notice_forms(notices: Sequence[tuple[Notice, int]]) -> list[NoticeForm]:
    """Notices with how often there was cause for each."""
    return [
        NoticeForm(
            code=notice.code,
            subject=notice.subject,
            message=notice.message,
            offset=maybe_whole_form(notice.offset),
            expected=_figure_form(notice.expected),
            actual=_figure_form(notice.actual),
            count=count,
        )
        for notice, count in notices
    ]


def _figure_form(figure: int | str | None) -> Figure:
    return Large(str(figure)) if isinstance(figure, int) and not is_exact(figure) else figure


# -- from rows --------------------------------------------------------------------------------------


def file_name(form: FileForm) -> bytes:
    """The file's name."""
    name = text_bytes(form.name, form.name_base64, "file.name")
    if b"/" in name or b"\0" in name:
        raise Contradiction("file.name", "a name without its directory is meant")
    return name


def expectation_of(form: ExpectationForm | None) -> Expectation:
    """What a store said of the file."""
    if form is None:
        return NOTHING
    for index, one in enumerate(form.references):
        if (len(one.value) == _SHA256_DIGITS) != (one.algorithm == "sha256"):
            raise Contradiction(f"promise.references[{index}].value", f"not as long as a {one.algorithm}")
    return Expectation(
        store=form.store,
        names=tuple(form.names),
        references=tuple(Reference(one.algorithm, one.value, one.source) for one in form.references),
        size=maybe_whole(form.size, "promise.size"),
        role=form.role,
        remarks=tuple(Remark(one.code, one.message) for one in form.remarks),
    )


def faults_of(forms: Sequence[FaultForm]) -> tuple[tuple[tuple[Fault, int], ...], Fault | None]:
    """The faults with their counts, and the one that ended the reading."""
    faults = tuple((_fault(form, f"faults[{index}]"), form.count) for index, form in enumerate(forms))
    stopping = [fault for (fault, _), form in zip(faults, forms, strict=True) if form.stopped]
    if len(stopping) > 1:
        raise Contradiction("faults", "the reading ended at one fault, and several say so")
    return faults, stopping[0] if stopping else None


def _fault(form: FaultForm, path: str) -> Fault:
    check_texts(path, (form.subject, form.message, form.expected, form.actual))
    return Fault(
        form.constraint,
        form.kind,
        form.subject,
        whole(form.offset, f"{path}.offset"),
        form.message,
        _figure(form.expected),
        _figure(form.actual),
    )


def notices_of(forms: Iterable[NoticeForm]) -> tuple[tuple[Notice, int], ...]:
    """The notices with their counts."""
    return tuple((_notice(form, f"notices[{index}]"), form.count) for index, form in enumerate(forms))


def _notice(form: NoticeForm, path: str) -> Notice:
    if form.code not in FINDINGS:
        raise Contradiction(f"{path}.code", "no finding has this code")
    check_texts(path, (form.subject, form.message, form.expected, form.actual))
    return Notice(
        form.code,
        form.subject,
        maybe_whole(form.offset, f"{path}.offset"),
        form.message,
        _figure(form.expected),
        _figure(form.actual),
    )


def check_texts(path: str, texts: Iterable[Figure]) -> None:
    """Refuse words that no reader has written: those are printable, and people will see them as they are."""
    for text in texts:
        if isinstance(text, str) and printable(text).replace("\\\\", "\\") != text:
            raise Contradiction(path, "a text that is not printable")


def _figure(form: Figure) -> int | str | None:
    return int(form.integer) if isinstance(form, Large) else form
