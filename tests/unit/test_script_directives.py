"""How #SBATCH lines are split into options, against what the real sbatch made of them."""

from __future__ import annotations

import pytest

from slurmcast.script import directives, options


def lines(*texts: bytes) -> bytes:
    return b"#!/bin/bash\n" + b"".join(text + b"\n" for text in texts)


# (name, script, the options that `sbatch -v` of Slurm 26.05.5 printed for it)
SYNTAX = [
    ("plain", lines(b"#SBATCH --ntasks=4", b"#SBATCH --time=10", b"sleep 1"), {"ntasks": "4", "time": "00:10:00"}),
    ("stops_at_command", lines(b"#SBATCH -n 2", b"echo hi", b"#SBATCH -N 3"), {"ntasks": "2"}),
    (
        "blank_and_comment_go_on",
        lines(b"#SBATCH -n 5", b"", b"   ", b"# text", b"\t# text", b"#SBATCH -N 3"),
        {"nodes": "3", "ntasks": "5"},
    ),
    ("double_hash", lines(b"##SBATCH -n 9", b"#SBATCH -N 2"), {"nodes": "2"}),
    ("space_after_hash", lines(b"# SBATCH -n 9", b"#SBATCH -N 2"), {"nodes": "2"}),
    ("leading_space", lines(b" #SBATCH -n 9", b"#SBATCH -N 2"), {"nodes": "2"}),
    ("lower_case", lines(b"#sbatch -n 9", b"#SBATCH -N 2"), {"nodes": "2"}),
    ("slurm_word", lines(b"#SLURM -n 9", b"#SBATCH -N 2"), {"nodes": "2", "ntasks": "9"}),
    (
        "trailing_comment",
        lines(b"#SBATCH -n 2 # tasks -N 5", b"#SBATCH --time=5#minutes"),
        {"ntasks": "2", "time": "00:05:00"},
    ),
    ("hash_in_word", lines(b"#SBATCH --comment=a#b -n 3"), {"comment": "a"}),
    ("quoted_hash", lines(b"#SBATCH --comment='a # b' -n 3"), {"comment": "a # b", "ntasks": "3"}),
    ("double_quotes", lines(b'#SBATCH --comment="two words" -n 3'), {"comment": "two words", "ntasks": "3"}),
    ("half_quoted", lines(b'#SBATCH "--comment=two words" -n 3'), {"comment": "two words", "ntasks": "3"}),
    ("mixed_quotes", lines(b'#SBATCH --comment="it\'s" -n 3'), {"comment": "it's", "ntasks": "3"}),
    ("escape_space", lines(b"#SBATCH --comment=two\\ words -n 3"), {"comment": "two words", "ntasks": "3"}),
    ("escape_in_quotes", lines(b'#SBATCH --comment="a\\"b" -n 3'), {"comment": 'a"b', "ntasks": "3"}),
    ("escape_hash", lines(b"#SBATCH --comment=a\\#b -n 3"), {"comment": "a#b", "ntasks": "3"}),
    (
        "several",
        lines(b"#SBATCH -N 2 -n 8 -c 3 --mem=4G -t 5"),
        {"cpus-per-task": "3", "mem": "4G", "nodes": "2", "ntasks": "8", "time": "00:05:00"},
    ),
    (
        "short_joined",
        lines(b"#SBATCH -n4 -N2 -c3 -t5"),
        {"cpus-per-task": "3", "nodes": "2", "ntasks": "4", "time": "00:05:00"},
    ),
    ("short_cluster", lines(b"#SBATCH -HOn4"), {"ntasks": "4", "overcommit": "set"}),
    ("long_space", lines(b"#SBATCH --ntasks 4 --nodes 2"), {"nodes": "2", "ntasks": "4"}),
    ("prefix_gpu", lines(b"#SBATCH --gpus-per-n=1 --part=a6000"), {"gpus-per-node": "1", "partition": "a6000"}),
    ("value_on_next_line", lines(b"#SBATCH -n", b"#SBATCH 4", b"#SBATCH -N 2"), {"nodes": "2", "ntasks": "4"}),
    ("backslash_end", lines(b"#SBATCH -n 3 \\", b"#SBATCH -N 2"), {"nodes": "2", "ntasks": "3"}),
    ("backslash_continuation", lines(b"#SBATCH -n 3 \\", b"  -N 2", b"#SBATCH -c 2"), {"ntasks": "3"}),
    ("no_space", lines(b"#SBATCH-n 4", b"#SBATCH -N 2"), {"nodes": "2", "ntasks": "4"}),
    ("tabs", lines(b"#SBATCH\t-n\t4\t-N\t2"), {"nodes": "2", "ntasks": "4"}),
    ("repeat_last_wins", lines(b"#SBATCH -n 2", b"#SBATCH -n 5"), {"ntasks": "5"}),
    ("comment_opt", lines(b"#SBATCH --comment=slurmcast:off"), {"comment": "slurmcast:off"}),
    ("partition_list", lines(b"#SBATCH -p a100,a6000"), {"partition": "a100,a6000"}),
    ("constraint", lines(b"#SBATCH -C a100|a6000"), {"constraint": "a100|a6000"}),
    ("constraint_q", lines(b'#SBATCH --constraint="a100&a6000"'), {"constraint": "a100&a6000"}),
    ("qos_account", lines(b"#SBATCH -q normal -A research"), {"account": "research", "qos": "normal"}),
    ("begin", lines(b"#SBATCH --begin=now+1hour"), {"begin": "now+1hour"}),
    ("begin_abs", lines(b"#SBATCH -b 2030-01-01T00:00:00"), {"begin": "2030-01-01T00:00:00"}),
    ("dependency", lines(b"#SBATCH --dependency=singleton"), {"dependency": "singleton"}),
    ("hint", lines(b"#SBATCH --hint=nomultithread"), {"hint": "nomultithread"}),
    ("job_name", lines(b"#SBATCH -J 'my job'"), {"job-name": "my job"}),
    ("cr_only", b"#!/bin/bash\r#SBATCH -n 4\r#SBATCH -N 2\rsleep 1\r", {}),
    ("shebang_python", b"#!/usr/bin/env python3\n#SBATCH -n 4\nprint(1)\n#SBATCH -N 2\n", {"ntasks": "4"}),
    ("latin1", lines(b"#SBATCH --comment=caf\xe9 -n 4"), {"comment": "caf\udce9", "ntasks": "4"}),
    ("latin1_before", lines(b"# caf\xe9", b"#SBATCH -n 4"), {"ntasks": "4"}),
    ("ignore_pbs", lines(b"#PBS -q a6000", b"#SBATCH --ignore-pbs"), {"ignore-pbs": "set"}),
    (
        "hetjob",
        lines(b"#SBATCH -n 2 --gres=gpu:1", b"#SBATCH hetjob", b"#SBATCH -n 5 --gres=gpu:2"),
        {"gres": "gres/gpu:1", "ntasks": "2"},
    ),
    ("packjob", lines(b"#SBATCH -n 2", b"#SBATCH packjob", b"#SBATCH -n 5"), {"ntasks": "2"}),
    ("empty_directive", lines(b"#SBATCH", b"#SBATCH   ", b"#SBATCH -n 4"), {"ntasks": "4"}),
    ("empty_value", lines(b"#SBATCH --comment= -n 4"), {"comment": "", "ntasks": "4"}),
    ("variable_comment", lines(b"#SBATCH --comment=$HOME -n 2"), {"comment": "$HOME", "ntasks": "2"}),
    ("no_kill", lines(b"#SBATCH -k -n 4"), {"no-kill": "set", "ntasks": "4"}),
    ("heredoc", lines(b"cat <<E", b"#SBATCH -n 4", b"E"), {}),
    ("directive_with_trailing_ws", lines(b"#SBATCH -n 4   \t "), {"ntasks": "4"}),
    ("vertical_tab", lines(b"#SBATCH -n 4\x0b-N 2"), {"nodes": "2", "ntasks": "4"}),
    ("comma_space", lines(b"#SBATCH --gres=gpu:1, -n 4"), {"gres": "gres/gpu:1,gres/", "ntasks": "4"}),
    ("exclude", lines(b"#SBATCH -x a100-1 -w a100-2"), {"exclude": "a100-1", "nodelist": "a100-2"}),
    ("no_final_newline", b"#!/bin/bash\n#SBATCH -n 4", {"ntasks": "4"}),
    ("only_newlines", lines(b"", b"", b"", b"#SBATCH -n 4"), {"ntasks": "4"}),
    ("export", lines(b"#SBATCH --export=ALL,EPOCHS=3 -n 2"), {"export": "ALL,EPOCHS=3", "ntasks": "2"}),
    ("wrap_in_script", lines(b"#SBATCH --wrap=ls -n 2"), {"ntasks": "2"}),
    ("quote_joined", lines(b"#SBATCH --par'tit'ion=a6000 -n 2"), {"ntasks": "2", "partition": "a6000"}),
    ("backtick", lines(b"#SBATCH --comment=`date` -n 2"), {"comment": "`date`", "ntasks": "2"}),
    ("test_only", lines(b"#SBATCH --test-only -n 2"), {"ntasks": "2", "test-only": "set"}),
    ("ignore_bsub", lines(b"#SBATCH --ignore-pbs", b"#BSUB -q a6000"), {"ignore-pbs": "set"}),
    ("quote_then_comment", lines(b"#SBATCH --comment='x' # 'unbalanced"), {"comment": "x"}),
    ("hash_then_quote", lines(b"#SBATCH -n 3 # don't"), {"ntasks": "3"}),
    ("hetjob_case", lines(b"#SBATCH -n 2", b"#SBATCH HETJOB", b"#SBATCH -n 5"), {"ntasks": "2"}),
    ("hetjob_in_comment", lines(b"#SBATCH -n 2 --comment=packjob"), {"comment": "packjob", "ntasks": "2"}),
    ("hetjob_more", lines(b"#SBATCH -n 2", b"#SBATCH hetjob -n 5"), {"ntasks": "2"}),
    ("empty_quote", lines(b"#SBATCH --comment='' -n 5"), {"comment": "", "ntasks": "5"}),
    ("empty_quote_word", lines(b"#SBATCH '' -n 5"), {}),
    ("ff", lines(b"#SBATCH -n 2", b"\x0c", b"#SBATCH -N 2"), {"nodes": "2", "ntasks": "2"}),
    ("shebang_directive", b"#!/bin/bash #SBATCH -n 3\n", {}),
    ("first_line_directive", b"#!SBATCH\n#SBATCH -n 3\n", {"ntasks": "3"}),
    ("c_prefix2", lines(b"#SBATCH --constr=a100 -n 2"), {"constraint": "a100", "ntasks": "2"}),
    ("exact_over_prefix", lines(b"#SBATCH --time=5 --mem=4G --gpus=1"), {"gpus": "1", "mem": "4G", "time": "00:05:00"}),
]


def _time(text: str) -> str:
    seconds = options.time_limit_s(text)
    if seconds is None:
        return "UNLIMITED"
    days, rest = divmod(seconds, 86400)
    return f"{days}-" * bool(days) + f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


def _nodes(text: str) -> str:
    most = text.rpartition("-")[2].rpartition(",")[2]
    least = options.least_nodes(text)
    return f"{least}-{most}" if "-" in text or "," in text else str(least)


def _memory(text: str) -> str:
    mib = options.memory_mb(text) or 0
    return f"{mib // 1024}G" if mib and mib % 1024 == 0 else str(mib)


def _gres(text: str) -> str:
    if text == "none":
        return text
    return ",".join(part if part.startswith("gres/") else f"gres/{part}" for part in text.split(","))


_PRINTED = {
    "time": _time,
    "time-min": _time,
    "nodes": _nodes,
    "mem": _memory,
    "mem-per-cpu": _memory,
    "mem-per-gpu": _memory,
    "gres": _gres,
    "exclusive": lambda text: text or "exclusive",
    "nice": lambda text: text or "100",
} | dict.fromkeys(
    ["ntasks", "cpus-per-task", "ntasks-per-node", "mincpus", "ntasks-per-gpu"], lambda text: str(options.count(text))
)


def as_sbatch_prints(read: directives.Directives) -> dict[str, str]:
    """The options in the words of ``sbatch -v``; those that it doesn't print are left out."""
    printed = {name: _PRINTED.get(name, str)(value) for name, value in read.options.items()}
    flags = {name: "set" for name in read.options if name in options.FLAGS or name == "no-kill"}
    return {name: value for name, value in (printed | flags).items() if name not in ("hold", "wrap")}


@pytest.mark.parametrize(("script", "expected"), [pytest.param(*row, id=name) for name, *row in SYNTAX])
def test_reads_what_sbatch_reads(script: bytes, expected: dict[str, str]) -> None:
    read = directives.parse(script)
    assert as_sbatch_prints(read) == expected
    assert read.refused == ()
