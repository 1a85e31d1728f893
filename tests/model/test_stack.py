"""Stacks, rows and blocks of lists made by hand: order, sums, what is unknown, and the likeness of blocks."""

from __future__ import annotations

from auditd.model.blocks import Comparison, block_of, stacks_of
from auditd.model.stack import Total, listing, placed_tensors
from auditd.model.tensors import TensorFact


def fact(
    index: int, name: str, size: int | None = 4, shape: tuple[int, ...] = (1,), kind: str = "F32", at: int | None = None
) -> TensorFact:
    return TensorFact(
        index=index,
        name=name.encode(),
        shape=shape,
        type=kind,
        type_id=0,
        elements=shape[0] if shape else 1,
        offset=100 * index if at is None else at,
        file_offset=None,
        byte_length=size,
    )


def test_rows_stand_in_the_order_of_the_file_and_not_of_the_directory() -> None:
    facts = [
        fact(0, "output.weight", at=900),
        fact(1, "blk.1.b", at=400),
        fact(2, "blk.0.b", at=200),
        fact(3, "blk.0.a", at=300),
        fact(4, "token_embd.weight", at=0),
        fact(5, "blk.1.a", at=500),
    ]
    found = listing(placed_tensors(facts))
    assert [row.pattern for row in found.rows] == [b"token_embd.weight", b"blk.N.b", b"blk.N.a", b"output.weight"]
    assert [row.stack for row in found.rows] == [None, b"blk", b"blk", None]
    assert (found.names, found.repeating) == (4, 2)
    assert (found.in_front, found.between, found.behind) == (Total(1, 4), Total(0, 0), Total(1, 4))


def test_two_stacks_and_what_stands_between_them() -> None:
    names = [
        "v.blk.0.a",
        "v.blk.1.a",
        "mm.0.weight",
        "token_embd.weight",
        "blk.0.a",
        "blk.1.a",
        "blk.2.a",
        "output.weight",
    ]
    found = listing(placed_tensors(fact(index, name, 1 + index) for index, name in enumerate(names)))
    assert [(stack.name, [block.block for block in stack.blocks]) for stack in found.stacks] == [
        (b"v.blk", [0, 1]),
        (b"blk", [0, 1, 2]),
    ]
    assert [stack.bytes for stack in found.stacks] == [1 + 2, 5 + 6 + 7]
    assert (found.in_front, found.between, found.behind) == (Total(0, 0), Total(2, 3 + 4), Total(1, 8))
    assert (found.inside, found.outside, found.total) == (Total(5, 21), Total(3, 15), Total(8, 36))
    smallest, largest = found.stacks[1].smallest, found.stacks[1].largest
    assert smallest is not None
    assert largest is not None
    assert ((smallest.block, smallest.bytes), (largest.block, largest.bytes)) == ((0, 5), (2, 7))


def test_a_file_without_blocks_has_nothing_in_front_of_them() -> None:
    found = listing(placed_tensors([fact(0, "a"), fact(1, "b")]))
    assert (found.in_front, found.between, found.behind) == (None, None, None)
    assert (found.stacks, found.repeating, found.total) == ((), 0, Total(2, 8))
    empty = listing([])
    assert (empty.rows, empty.total) == ((), Total(0, 0))


def test_a_size_that_is_not_known_makes_every_sum_with_it_unknown_and_no_other() -> None:
    facts = [
        fact(0, "in", 1),
        fact(1, "blk.0.a", None),
        fact(2, "blk.0.b", 2),
        fact(3, "blk.1.a", 3),
        fact(4, "out", 4),
    ]
    found = listing(placed_tensors(facts))
    assert [row.bytes for row in found.rows] == [1, None, 2, 4]
    assert (found.in_front, found.inside, found.behind) == (Total(1, 1), Total(3, None), Total(1, 4))
    assert found.total == Total(5, None)
    (stack,) = found.stacks
    assert [block.bytes for block in stack.blocks] == [None, 3]
    assert (stack.bytes, stack.smallest, stack.largest) == (None, None, None)


def test_types_go_from_the_narrowest_to_the_widest_each_with_its_blocks() -> None:
    kinds = ["Q6_K", "Q4_K", "F16", "Q4_K", "odd", "Q6_K"]
    sizes = {"Q6_K": 210, "Q4_K": 144, "F16": 512, "odd": None}
    facts = [fact(at, f"blk.{at}.w", sizes[kind], (256,), kind) for at, kind in enumerate(kinds)]
    (row,) = listing(placed_tensors(facts)).rows
    assert [(one.type, one.tensors, one.bytes, one.blocks) for one in row.types] == [
        ("Q4_K", 2, 288, (1, 3)),
        ("Q6_K", 2, 420, (0, 5)),
        ("F16", 1, 512, (2,)),
        ("odd", 1, None, (4,)),
    ]


def test_shapes_of_a_row_that_are_not_all_the_same() -> None:
    facts = [fact(at, f"blk.{at}.w", shape=(1 + at // 2,)) for at in range(6)]
    (row,) = listing(placed_tensors(facts)).rows
    assert (row.shape, row.shapes, row.tensors, row.blocks) == (None, 3, 6, 6)


def test_experts_count_over_blocks_and_experts() -> None:
    names = [f"model.layers.{block}.mlp.experts.{expert}.w1.weight" for block in range(3) for expert in range(4)]
    (row,) = listing(placed_tensors(fact(index, name) for index, name in enumerate(names))).rows
    assert (row.pattern, row.tensors, row.blocks) == (b"model.layers.N.mlp.experts.E.w1.weight", 12, 3)


def test_a_name_that_is_spelled_like_a_pattern_is_a_row_of_its_own() -> None:
    found = listing(placed_tensors([fact(0, "blk.0.a"), fact(1, "blk.N.a"), fact(2, "blk.1.a")]))
    assert [(row.pattern, row.stack, row.tensors) for row in found.rows] == [
        (b"blk.N.a", b"blk", 2),
        (b"blk.N.a", None, 1),
    ]


def test_blocks_are_alike_in_four_ways() -> None:
    blocks = {
        0: [("a", (2,), "F16"), ("b", (4,), "F32")],
        1: [("b", (4,), "F32"), ("a", (2,), "F16")],
        2: [("a", (2,), "Q8_0"), ("b", (4,), "F32")],
        3: [("a", (3,), "F16"), ("b", (4,), "F32")],
        4: [("a", (2,), "F16")],
        7: [("a", (2,), "F16"), ("c", (4,), "F32")],
    }
    parts = [(number, *part) for number, block in blocks.items() for part in block]
    tensors = placed_tensors(
        fact(at, f"blk.{number}.{part}", 8, shape, kind) for at, (number, part, shape, kind) in enumerate(parts)
    )
    block = block_of(tensors, b"blk", 0)
    assert block is not None
    assert block.comparison == Comparison(same=(1,), other_types=(2,), other_shapes=(3,), other_names=(4, 7))
    assert [part.name for part in block.parts] == [b"a", b"b"]
    assert block.bytes == 16
    assert block_of(tensors, b"blk", 5) is None
    assert block_of(tensors, b"v.blk", 0) is None
    assert stacks_of(tensors) == {b"blk": (0, 1, 2, 3, 4, 7)}
