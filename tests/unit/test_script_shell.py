"""The shell reader: commands, and the variables in them."""

from __future__ import annotations

import subprocess

import pytest

from slurmcast.script.expand import Scope
from slurmcast.script.shell import commands


def words(text: str, positional: tuple[str, ...] = (), **variables: str) -> list[list[str]]:
    scope = Scope({name: [value] for name, value in variables.items()}, list(positional))
    return [list(command.words) for command in commands(text, scope)]


# Each prints its arguments, one in a pair of angle brackets each; bash is asked for the same.
LIKE_BASH = [
    "p a b  c",
    "p 'a b' \"c d\" e\\ f",
    "X=5; p $X ${X} \"$X\" '$X' x${X}y",
    'X="a  b"; p $X "$X"',
    'X=; p "$X" $X end',
    'p "${U:-7}" ${U-8} ${X:=9} $X',
    "X=1; p ${X:+set} ${U:+set} end",
    'A=(1 "2 3" 4); p "${A[@]}" ${A[1]} "${A[1]}" ${#A[@]} ${A[-1]}',
    "A=(1); A+=(2 3); X=a; X+=b; p ${A[@]} $X",
    "A=(1 # one\n  2\n); p ${A[*]}",
    "p a \\\n  b",
    "p a # b",
    "p a#b",
    "p $((3 * (4 + 1))) $((7 / 2))",
    "X=3; Y=$((X * 2)); p $Y",
    "p $(echo hi there) `echo you`",
    "p $(seq 3) {2..4}",
    'set -- q "r s"; p "$@" $# $1; shift; p "$@"',
    "p a; p b && p c; p d | cat",
    "if true; then p yes; fi",
    "p >/dev/null; p 2>&1 a",
    'p "a\\"b" "a\\nb" $\'a\\tb\'',
    "export E=1 F='2 3'; p $E \"$F\"",
    "X=Abc; p ${X,,} ${X^^} ${#X}",
    "X=1 Y=$X; p $Y",
    "p 'it'\"'\"'s'",
    'p "${U:-"x y"}" ${U:-a b}',
]


@pytest.mark.parametrize("script", LIKE_BASH)
def test_expands_as_bash_does(script: str) -> None:
    printer = 'p() { printf "<%s>" "$@"; echo; }\n'
    expected = subprocess.run(["bash", "-c", printer + script], capture_output=True, text=True, check=True).stdout
    found = [command[1:] for command in words(script) if command[0] == "p"]
    printing = [command for command in found if command]  # `p >/dev/null` prints nothing
    assert "".join("".join(f"<{word}>" for word in command) + "\n" for command in printing) == expected


def test_what_is_not_known_stays_as_written() -> None:
    assert words("p $HOME/x ${Y} $(date +%s) ${Z##*/} ~/q") == [
        ["p", "$HOME/x", "${Y}", "$(date +%s)", "${Z##*/}", "$HOME/q"]
    ]


def test_a_dollar_before_a_quote_is_plain_between_double_quotes() -> None:
    assert words("""p "a$" b "$'c'" $"d" e""") == [["p", "a$", "b", "$'c'", "d", "e"]]


def test_follows_cd_and_ends_it_with_its_subshell() -> None:
    scope = Scope({"SLURM_SUBMIT_DIR": ["/home/a"]})
    found = list(commands("cd $SLURM_SUBMIT_DIR/x && p; (cd y; p); p; cd /z; p", scope))
    assert [command.directory for command in found] == ["/home/a/x", "/home/a/x/y", "/home/a/x", "/z"]


def test_counts_the_turns_of_loops() -> None:
    text = "for s in 1 2 3; do for d in a b; do p $s $d; done; q; done; while x; do r; done; z"
    found = {command.words[0]: command for command in commands(text, Scope())}
    assert {name: found[name].repeat for name in "pqrz"} == {"p": 6, "q": 3, "r": 1, "z": 1}
    assert found["p"].words == ("p", "1", "a")


def test_here_documents_belong_to_their_command() -> None:
    text = "python - <<'E' | tee log\nx=$A\nE\ncat > f.py <<-X\n\ty=$A\n\tX\nend"
    first, tee, cat, end = commands(text, Scope({"A": ["5"]}))
    assert (first.stdin, tee.stdin, cat.stdin, cat.output) == ("x=$A\n", None, "y=5\n", "f.py")
    assert end.words == ("end",)


def test_assignments_before_a_command_are_its_own() -> None:
    (command,) = commands("EPOCHS=3 A='b c' python x.py", Scope())
    assert command.assignments == {"EPOCHS": "3", "A": "b c"}
    assert command.words == ("python", "x.py")
