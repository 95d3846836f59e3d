"""What travels: messages, blocks of items, and the file that says where the broker is."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.streams.protocol import contact_file, cut, flaw_of, pack, read_contact, unpack


def test_a_message_comes_back_and_anything_else_is_refused() -> None:
    header = {"id": 1, "op": "put", "sizes": [3]}
    assert unpack(pack(header)) == header
    with pytest.raises(ValueError, match="begins with a JSON object"):
        unpack(b"[1]")


def test_a_block_is_cut_into_its_items() -> None:
    assert cut(b"abcdef", [1, 0, 5]) == [b"a", b"", b"bcdef"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"addresses": 1}'])
def test_a_broker_whose_file_is_damaged_is_none(tmp_path: Path, text: str) -> None:
    contact_file(tmp_path).write_text(text)
    assert read_contact(tmp_path) is None


def test_a_request_is_held_to_its_form() -> None:
    assert flaw_of({"op": "close", "channel": "x"}) == ""
    assert flaw_of({"op": "close"}) == "`channel` is missing: expected a text"
    assert flaw_of({"op": "forget", "of": "x"}) == "`of` is 'x': expected a whole number"
