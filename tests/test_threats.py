"""The page of threats names tests that exist, and says of every regular expression why it is linear."""

from __future__ import annotations

import ast
import re
import re._constants as codes  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.test_architecture import MODULES, PACKAGE

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "config" / "threats.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(test_\w+)`", PAGE)))

THREATS, EXPRESSIONS = PAGE.split("## Regular expressions")


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_is_there(file: str, name: str) -> None:
    assert f"def {name}(" in (TESTS / file).read_text(encoding="utf-8")


def test_every_threat_is_met_and_shown() -> None:
    rows = [line.strip("| ").split(" | ") for line in THREATS.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 20
    for threat, defence, shown in rows:
        assert len(defence) > 20, threat
        assert "::test_" in shown, threat


# --- regular expressions ---------------------------------------------------------------------------------

#: Possible ways through the bounded repeats of one attempt to match.
WAYS = 100_000

#: More than any expression has.
MANY = 99


@cache
def compiled() -> dict[str, list[re.Pattern[Any]]]:
    """The expressions of the package by ``file name``; a function that makes some has none to look at."""
    found: dict[str, list[re.Pattern[Any]]] = {}
    for path in MODULES:
        file = str(path.relative_to(PACKAGE))
        text = path.read_text(encoding="utf-8")
        assert "from re import" not in text
        assert "import re as" not in text
        tree = ast.parse(text if "import re\n" in text else "")
        makers = [part for part in tree.body if any(map(_is_expression, ast.walk(part)))]
        if makers:
            module = import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
            found |= {
                f"{file} {name}": patterns_in(value) for name, value in vars(module).items() if patterns_in(value)
            }
            functions = (part for part in makers if isinstance(part, ast.FunctionDef | ast.ClassDef))
            found |= {f"{file} {part.name}": [] for part in functions}
    return found


def _is_expression(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr not in {"escape", "error"}
    )


def patterns_in(value: Any) -> list[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        return [value]
    if isinstance(value, dict):
        value = [*value, *value.values()]
    return [found for item in value for found in patterns_in(item)] if isinstance(value, list | tuple | set) else []


def told() -> dict[str, str]:
    """The word that the page has for each expression."""
    words: dict[str, str] = {}
    for line in EXPRESSIONS.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            for name in re.findall(r"`([^`]+)`", cells[1]):
                key = f"{cells[0].strip('`')} {name}"
                assert key not in words, f"{key} is there twice"
                words[key] = cells[3].split(":")[0]
    return words


def give_way(tree: Any) -> tuple[int, int]:
    """How many unbounded repeats of a sequence can give back what they took, and the ways through the bounded ones."""
    open_ended, ways = 0, 1
    for operation, argument in tree:
        inner = [give_way(part) for part in _parts(operation, argument)]
        more, many = max(inner, default=(0, 1)), max((each[1] for each in inner), default=1)
        if operation in {codes.MAX_REPEAT, codes.MIN_REPEAT}:
            least, most, item = argument
            if most == codes.MAXREPEAT:
                width = item.getwidth()
                open_ended += 1 if not more[0] and width[0] == width[1] else MANY
            else:
                open_ended += more[0] if most == 1 else MANY * min(1, more[0])
                ways *= (most - least + 1) * many
        elif operation is codes.POSSESSIVE_REPEAT or operation is codes.ATOMIC_GROUP:
            open_ended += MANY * min(1, more[0])
        else:
            open_ended += more[0]
            ways *= many
    return open_ended, ways


def _parts(operation: Any, argument: Any) -> Iterator[Any]:
    """The sequences inside one item of a sequence."""
    if operation in {codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT}:
        yield argument[2]
    elif operation is codes.BRANCH:
        yield from argument[1]
    elif operation is codes.SUBPATTERN:
        yield argument[3]
    elif operation is codes.ATOMIC_GROUP:
        yield argument
    elif operation in {codes.ASSERT, codes.ASSERT_NOT}:
        yield argument[1]


def judged(expression: re.Pattern[Any]) -> tuple[int, int]:
    return give_way(parser.parse(expression.pattern, expression.flags))


def is_plain(expressions: list[re.Pattern[Any]]) -> bool:
    """Whether nothing in them can give back much of what it took."""
    found = [judged(expression) for expression in expressions]
    return bool(found) and all(not open_ended and ways <= WAYS for open_ended, ways in found)


def test_every_regular_expression_that_can_give_way_is_listed() -> None:
    assert len(compiled()) > 40
    assert sorted(told()) == sorted(name for name, found in compiled().items() if not is_plain(found))


def test_a_regular_expression_is_as_linear_as_the_page_says() -> None:
    for name, word in told().items():
        assert word in {"one", "short", "own", "made", "operator"}, name
        for expression in compiled()[name]:
            open_ended, ways = judged(expression)
            assert word in {"short", "own"} or (open_ended <= 1 and ways <= WAYS), name


@pytest.mark.parametrize(
    ("text", "open_ended"),
    [
        ("a*+b", 0),
        ("(?:[ab]++|c)*+", 0),
        (".*x", 1),
        ("(?:ab)+c", 1),
        ("a*b*", 2),
        ("(?:a|ab)*", MANY),
        ("(?:a+)+", MANY),
        ("(?:a*b)*+", MANY),
        ("(?:a*b){1,9}", MANY),
    ],
)
def test_the_judge_of_expressions(text: str, open_ended: int) -> None:
    assert judged(re.compile(text))[0] == open_ended
