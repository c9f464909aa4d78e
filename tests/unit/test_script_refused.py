"""Scripts that sbatch refuses: somebody may still ask for a prediction, and the rest of the lines is worth reading."""

from __future__ import annotations

import pytest

from slurmcast.script import directives


def lines(*texts: bytes) -> bytes:
    return b"#!/bin/bash\n" + b"".join(text + b"\n" for text in texts)


# (name, a script that sbatch 26.05.5 refused, the options that are read from it all the same, the refused words)
REFUSED = [
    (
        "unmatched_quote",
        lines(b"#SBATCH -n 3", b"#SBATCH --comment='abc", b"#SBATCH -N 2"),
        {"ntasks": "3", "comment": "abc", "nodes": "2"},
        (),
    ),
    ("short_equals", lines(b"#SBATCH -n=4"), {"ntasks": "=4"}, ()),
    (
        "prefix_exact",
        lines(b"#SBATCH --ntask=4 --node=2 --cpus-per-t=2"),
        {"cpus-per-task": "2"},
        ("--ntask=4", "--node=2"),
    ),
    ("prefix_ambiguous", lines(b"#SBATCH --nod=2"), {}, ("--nod=2",)),
    (
        "unknown",
        lines(b"#SBATCH -n 3", b"#SBATCH --frobnicate=2", b"#SBATCH -N 2"),
        {"ntasks": "3", "nodes": "2"},
        ("--frobnicate=2",),
    ),
    ("odd_word", lines(b"#SBATCH -n 3", b"#SBATCH foo", b"#SBATCH -N 2"), {"ntasks": "3", "nodes": "2"}, ("foo",)),
    ("odd_word_same_line", lines(b"#SBATCH -n 3 foo -N 2"), {"ntasks": "3", "nodes": "2"}, ("foo",)),
    ("dashdash", lines(b"#SBATCH -n 3 -- -N 2"), {"ntasks": "3", "nodes": "2"}, ("--",)),
    ("colon", lines(b"#SBATCH: -n 4"), {}, ()),
    ("time_bad", lines(b"#SBATCH -n 2 -t soon -N 2"), {"ntasks": "2", "time": "soon", "nodes": "2"}, ()),
    ("time_1h", lines(b"#SBATCH -t 1h"), {"time": "1h"}, ()),
    ("mem_frac", lines(b"#SBATCH --mem=1.5G"), {"mem": "1.5G"}, ()),
    ("mem_t", lines(b"#SBATCH --mem=0.01T"), {"mem": "0.01T"}, ()),
    ("crlf", b"#!/bin/bash\r\n#SBATCH -n 4\r\n#SBATCH -N 2\r\nsleep 1\r\n", {"ntasks": "4", "nodes": "2"}, ()),
    ("crlf_one", lines(b"#SBATCH -n 4\r", b"#SBATCH -N 2"), {"ntasks": "4", "nodes": "2"}, ()),
    ("bom", b"\xef\xbb\xbf#!/bin/bash\n#SBATCH -n 4\n", {"ntasks": "4"}, ()),
    ("no_shebang", b"#SBATCH -n 4\nsleep 1\n", {"ntasks": "4"}, ()),
    ("unicode_dash", lines(b"#SBATCH \xe2\x80\x93n 4", b"#SBATCH -N 2"), {"nodes": "2"}, ("\u2013n", "4")),
    ("unicode_dashes", lines(b"#SBATCH -N 2", b"#SBATCH \xe2\x80\x94ntasks=4"), {"nodes": "2"}, ("\u2014ntasks=4",)),
    ("nbsp", lines(b"#SBATCH\xc2\xa0-n 4", b"#SBATCH -N 2"), {"nodes": "2"}, ("\xa0-n", "4")),
    (
        "nul",
        lines(b"#SBATCH -n 4\x00 -N 2", b"#SBATCH -c 2"),
        {"ntasks": "4\x00", "nodes": "2", "cpus-per-task": "2"},
        (),
    ),
    ("het_colon", lines(b"#SBATCH -n 2 : -n 5"), {"ntasks": "2"}, ()),
    ("missing_value", lines(b"#SBATCH -n 4", b"#SBATCH --time"), {"ntasks": "4"}, ("--time",)),
    ("no_value_for_flag", lines(b"#SBATCH -n 4 --hold=1 -N 2"), {"ntasks": "4", "nodes": "2"}, ("--hold=1",)),
    ("variable", lines(b"#SBATCH -n $N"), {"ntasks": "$N"}, ()),
    ("bad_number", lines(b"#SBATCH -n four -N 2"), {"ntasks": "four", "nodes": "2"}, ()),
    ("number_hex", lines(b"#SBATCH -n 0x4"), {"ntasks": "0x4"}, ()),
    ("number_suffix", lines(b"#SBATCH -n 4x"), {"ntasks": "4x"}, ()),
    ("semicolon", lines(b"#SBATCH -n 4; -N 2"), {"ntasks": "4;", "nodes": "2"}, ()),
    ("space_around_equals", lines(b"#SBATCH --ntasks = 4"), {"ntasks": "="}, ("4",)),
    ("single_dash_long", lines(b"#SBATCH -ntasks=4"), {"ntasks": "tasks=4"}, ()),
    ("single_dash_long2", lines(b"#SBATCH -time=4"), {"time": "ime=4"}, ()),
    ("case_opt", lines(b"#SBATCH --NTASKS=4"), {}, ("--NTASKS=4",)),
    ("sbatch_glued", lines(b"#SBATCHES -n 4", b"#SBATCH -N 2"), {"ntasks": "4", "nodes": "2"}, ("ES",)),
    ("bsub_gpu", lines(b'#BSUB -gpu "num=2"'), {}, ()),
    ("bsub_unknown", lines(b'#BSUB -R "span[ptile=2]"', b"#SBATCH -n 3"), {"ntasks": "3"}, ()),
    ("old_share", lines(b"#SBATCH --share -n 2"), {"oversubscribe": "", "ntasks": "2"}, ()),
    ("old_workdir", lines(b"#SBATCH --workdir=/tmp -n 2"), {"chdir": "/tmp", "ntasks": "2"}, ()),
    ("time_odd", lines(b"#SBATCH --time=1:2:3:4"), {"time": "1:2:3:4"}, ()),
    ("time_frac", lines(b"#SBATCH --time=1.5"), {"time": "1.5"}, ()),
    ("time_ws", lines(b"#SBATCH --time=' 10'"), {"time": " 10"}, ()),
    ("time_plus", lines(b"#SBATCH --time=+10"), {"time": "+10"}, ()),
    ("time_dash", lines(b"#SBATCH --time=1-1-1"), {"time": "1-1-1"}, ()),
    ("mem_bad", lines(b"#SBATCH --mem=lots"), {"mem": "lots"}, ()),
    ("mem_space", lines(b"#SBATCH --mem=4 G"), {"mem": "4"}, ("G",)),
    ("nodes_comma", lines(b"#SBATCH -N 2-"), {"nodes": "2-"}, ()),
    ("gpu_short_prefix", lines(b"#SBATCH --gpu=1"), {}, ("--gpu=1",)),
    ("dash_alone", lines(b"#SBATCH -n 3", b"#SBATCH -", b"#SBATCH -N 2"), {"ntasks": "3", "nodes": "2"}, ("-",)),
    ("c_prefix", lines(b"#SBATCH --cons=a100 -n 2"), {"ntasks": "2"}, ("--cons=a100",)),
]


@pytest.mark.parametrize(("script", "expected", "refused"), [pytest.param(*row, id=name) for name, *row in REFUSED])
def test_reads_the_rest_of_a_script_that_sbatch_refuses(
    script: bytes, expected: dict[str, str], refused: tuple[str, ...]
) -> None:
    read = directives.parse(script)
    assert read.options == expected
    assert read.refused == refused


DOS = "its lines end as on DOS"
FIRST_LINE = "its first line must be #!"
# (name, a file, what is said of it, as sbatch 26.05.5 refused or took it)
SAID = [
    ("empty", b"", "it is empty"),
    ("blank", b"\n \n", "it is empty"),
    ("binary", b"\x7fELF\x02\x01\0\0", FIRST_LINE),
    ("no_shebang", b"#SBATCH -n 4\nsleep 1\n", FIRST_LINE),
    ("bom", directives.BOM + lines(b"#SBATCH -n 4"), FIRST_LINE),
    ("nul", lines(b"sleep 5 # \0"), "a NUL character"),
    ("dos", lines(b"#SBATCH -n 4\r", b"sleep 5\r"), DOS),
    ("dos_body", lines(b"#SBATCH -n 4", b"sleep 5\r"), DOS),
    ("misspelt", lines(b"#SBATCH --tiem=10"), "doesn't know '--tiem=10'"),
    ("plugin", lines(b"#SBATCH --container-image=ubuntu"), "a plugin's"),
    ("time_0", lines(b"#SBATCH --time=1h"), "isn't in minutes"),
    ("time_1", lines(b"#SBATCH --time=soon"), "isn't in minutes"),
    ("time_2", lines(b"#SBATCH --time=1:2:3:4"), "isn't in minutes"),
    ("time_3", lines(b"#SBATCH --time=1.5"), "isn't in minutes"),
    ("time_4", lines(b"#SBATCH --time=+10"), "isn't in minutes"),
    ("time_5", lines(b"#SBATCH --time=1-1-1"), "isn't in minutes"),
    ("time_ok_0", lines(b"#SBATCH --time=0"), ""),
    ("time_ok_1", lines(b"#SBATCH --time=-1"), ""),
    ("time_ok_2", lines(b"#SBATCH --time=UNLIMITED"), ""),
    ("time_ok_3", lines(b"#SBATCH --time=infinite"), ""),
    ("time_ok_4", lines(b"#SBATCH --time=1-0"), ""),
    ("time_ok_5", lines(b"#SBATCH --time=90"), ""),
    ("time_ok_6", lines(b"#SBATCH --time=1:30"), ""),
    ("bare", b"#!\nsleep 5\n", ""),
    ("blank_behind", b"#! /bin/bash\nsleep 5\n", ""),
    ("lone_cr", lines(b"sleep 5 # a\rb"), ""),
    ("plain", lines(b"#SBATCH -n 4", b"sleep 5"), ""),
]


@pytest.mark.parametrize(("script", "said"), [pytest.param(*row, id=name) for name, *row in SAID])
def test_says_why_sbatch_would_refuse_a_file(script: bytes, said: str) -> None:
    told = directives.why_refused(script)
    assert said in told and bool(said) == bool(told)
