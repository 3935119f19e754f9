"""What `oscope transfer` refuses: each refusal names the cause and what helps, and leaves nothing behind."""

from __future__ import annotations

import socket

import pytest

from transfer_pair import TRUSTED, Command, Pair, error_of, put


def test_a_request_that_is_wrong_makes_no_folder(pair: Pair) -> None:
    words = ("transfer", "receive", "--into", "in9")
    answer = pair.oscope(*words, "--listen", "127.0.0.1:0", "--key", "/nonexistent/k")
    assert (answer.code, answer.out) == (2, "")
    (line,) = answer.err.splitlines()[-1:]
    assert "the key file /nonexistent/k cannot be made (No such file or directory)" in line
    assert "name a file in a folder that is there" in line
    with socket.create_server(("127.0.0.1", 0)) as taken:
        host, port = taken.getsockname()
        line = error_of(pair.oscope(*words, "--listen", f"{host}:{port}", "--key", "k9"))
    assert "in use" in line
    assert not (pair.oscope.folder / "in9").exists()
    assert not (pair.oscope.folder / "k9").exists()


@pytest.mark.parametrize(
    ("there", "sent", "reported", "remedy"),
    [
        ("s1/x", "s1", "a folder has its name there", "rename or remove that folder"),
        ("priv", "priv/", "is no folder there", "rename or remove what has its name"),
        ("", "link/", "is, or leads through, a symbolic link", "in the place of the link"),
    ],
)
def test_what_is_in_the_way_is_named_with_what_helps(
    there: str, sent: str, reported: str, remedy: str, pair: Pair
) -> None:
    put(pair.oscope.folder, f"{sent}s" if sent.endswith("/") else sent, b"x")
    if there:
        put(pair.into, there, b"in the way")
    else:
        (pair.into / "link").symlink_to("/")
    for answer in pair.move(sent.rstrip("/")):
        line = error_of(answer)
        assert reported in line
        assert remedy in line
        assert "receive --into another folder" in line


def test_two_files_of_one_name_are_named_by_their_paths(pair: Pair) -> None:
    for name in ("e1/f", "e2/f"):
        put(pair.oscope.folder, name, b"x")
    host, port = pair.receiver().listening()
    line = error_of(pair.oscope("transfer", "send", *TRUSTED, "e1/f", "e2/f", f"{host}:{port}"))
    assert "f: two files would have this name: e1/f and e2/f" in line
    assert "rename one, or send them in two transfers" in line


def test_a_key_on_one_side_alone_is_named_as_the_cause(pair: Pair) -> None:
    put(pair.oscope.folder, "a", b"x")
    keyed = Command(pair.oscope, "receive", "--key", "k", "--listen", "127.0.0.1:0", "--into", "in")
    host, port = keyed.listening()
    line = error_of(pair.oscope("transfer", "send", *TRUSTED, "a", f"{host}:{port}"))
    assert "takes transfers with a key alone" in line
    assert "without --trusted-network" in line
    keyed.wait_for("it sends without a key")
    keyed.interrupt()
    assert keyed.end().code == 0
    plain = pair.receiver()
    host, port = plain.listening()
    line = error_of(pair.oscope("transfer", "send", "--key", "k", "a", f"{host}:{port}"))
    assert "takes transfers without a key alone" in line
    assert "sends with a key, and this receiver takes none" in error_of(plain.end())
