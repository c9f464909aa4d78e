"""The numbers that decide how much work a job is: their names, and where they stand in arguments and settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from slurmcast.script import arithmetic

SYNONYMS: Mapping[str, str] = {
    "epochs": """
        epoch epochs num_epochs n_epochs nepochs n_epoch nepoch num_epoch nb_epochs nb_epoch max_epochs
        max_epoch num_train_epochs train_epochs total_epochs training_epochs epochs_num no_epochs""",
    "steps": """
        steps step_count max_steps num_steps n_steps nsteps total_steps train_steps training_steps
        max_train_steps num_train_steps num_training_steps iterations iters n_iters niters num_iters num_iter
        n_iter niter max_iters max_iter max_iterations num_iterations n_iterations total_iters train_iters
        max_updates max_update num_updates total_timesteps max_timesteps num_timesteps timesteps max_step
        num_batches n_batches""",
    "steps_per_epoch": "steps_per_epoch iters_per_epoch batches_per_epoch limit_train_batches",
    "batch_size": """
        batch_size batchsize bs batch batch_sz train_batch_size train_batch train_bs batch_size_train
        per_device_train_batch_size per_gpu_train_batch_size per_device_batch_size batch_size_per_gpu
        batch_size_per_device micro_batch_size mini_batch_size minibatch_size mbs samples_per_gpu
        train_micro_batch_size_per_gpu batch_per_gpu""",
    "global_batch_size": "global_batch_size total_batch_size effective_batch_size global_batch gbs",
    "gradient_accumulation": """
        gradient_accumulation_steps gradient_accumulation grad_accumulation_steps grad_accum_steps grad_accum
        accum_steps accum_iter accumulation_steps accumulate_grad_batches update_freq""",
    "samples": """
        samples num_samples n_samples nsamples max_samples max_train_samples num_train_samples train_samples
        dataset_size train_size num_examples num_train_examples num_images n_images num_prompts n_prompts
        num_graphs num_frames n_samples_train subset_size""",
    "sequence_length": """
        seq_len seqlen seq_length sequence_length sequence_len max_seq_length max_seq_len max_sequence_length
        max_length max_len maxlen block_size context_length context_len ctx_len ctx_size n_ctx bptt
        model_max_length max_source_length tgt_len target_length""",
    "new_tokens": "max_new_tokens max_tokens num_tokens output_len max_gen_len",
    "image_size": """
        image_size img_size imgsz imsize image_resolution img_resolution resolution crop_size input_size img_dim
        image_dim img_sz""",
    "hidden_size": """
        hidden_size hidden_dim hidden hidden_channels hidden_units nhid d_model dmodel model_dim n_embd n_embed
        embed_dim embedding_dim embedding_size emb_dim emb_size base_channels""",
    "layers": """
        layers num_layers n_layers nlayers n_layer num_layer num_hidden_layers depth n_blocks num_blocks
        num_res_blocks model_depth""",
    "hours": "hours num_hours max_hours",
    "thousand_images": "kimg total_kimg",
    "processes": "nproc_per_node nproc num_processes num_gpus",
    "folds": "folds k_folds kfold num_folds n_folds n_splits",
    "trials": "trials n_trials num_trials max_trials max_evals n_runs num_runs repeats num_seeds",
    "parameters": "n_params num_params model_parameters",
}
_CANONICAL = {synonym: name for name, synonyms in SYNONYMS.items() for synonym in synonyms.split()}
_SHORT = {"e": "epochs", "b": "batch_size", "bs": "batch_size"}
_SETTING = re.compile(
    r"[ \t]*[\"']?([A-Za-z][\w.-]{0,63})[\"']?[ \t]*(?::[ \t]*\w+[ \t]*)?[:=][ \t]*"
    r"[\"']?([+-]?[\d.][\w.+-]{0,39})"
)
_ADD_ARGUMENT = re.compile(
    r"[\"']-{0,2}([A-Za-z][\w-]{0,63})[\"'][^\n]{0,300}?\bdefault[ \t]*=[ \t]*"
    r"[\"']?([\d.][\w.+-]{0,39})"
)
_BILLIONS = re.compile(r"(?<![A-Za-z0-9.])(\d{1,4}(?:\.\d{1,3})?)[bB](?![A-Za-z0-9])")
_MAX_LINE = 2000
OWN = "--"
"""Before the names of a program's own options, to tell them from the names that all programs share."""
DEFAULT = "default "
"""Before the name of a number that the submission overrules, for what it would have been."""
MAX_OWN = 40
"""Own options of one job that are kept."""
_OWN_NAME = re.compile(r"[A-Za-z][\w.:-]{0,40}")
_OWN_SETTING = re.compile(r"([A-Za-z][\w.:-]{0,40})=(\d[\w.]{0,15})(?=[,;]|$)")
_NO_WORK = re.compile(
    r"(?:^|_)(?:seed|port|device|gpu|gpus|id|ids|log|logging|print|save|eval|ckpt|checkpoint|verbose|version|worker"
    r"|workers|jobs|threads|patience|interval|freq|frequency|every|year|date|rate)(?:_|$)"
)
"""Words in the names of options that say nothing about the amount of work."""


def canonical(name: str) -> str | None:
    """The one name of a number that goes by many (``--num-train-epochs``, ``trainer.max_epochs``); None if unknown."""
    if len(name) > 100:
        return None
    return _CANONICAL.get(plain(name))


def plain(name: str) -> str:
    """An option's, key's or attribute's name as a variable would be called: ``--batchSize`` is ``batch_size``."""
    name = name[:100].lstrip("-+").rpartition(".")[2].replace("-", "_")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def from_arguments(
    words: Sequence[str], aliases: Mapping[str, str] | None = None, positionals: Sequence[str | None] = ()
) -> dict[str, float]:
    """Numbers in a program's arguments: ``--epochs 90``, ``--epochs=90``, ``-e90``, ``trainer.max_epochs=3``.

    ``aliases``: the program's own short or odd options by canonical name; ``positionals``: canonical names (or None) of
    its positional arguments. The last one wins, as in argparse.
    """
    found: dict[str, float] = {}
    known = {**{f"-{short}": name for short, name in _SHORT.items()}, **(aliases or {})}
    plain_words = 0
    option: str | None = None  # what the option just before is called
    is_value = was_value = False  # whether the word may be, and the one before was, an option's value
    for word in words:
        name, equals, value = word[:200].partition("=")
        if word.startswith("-") and arithmetic.number(word) is None:
            option = known.get(name) or canonical(name)
            if option is None and not equals and not name.startswith("--") and name[:2] in known:
                option, value, equals = known[name[:2]], name[2:], "="
            _keep(found, option, value if equals else "")
            is_value, was_value = not equals, False
        elif equals:
            _keep(found, canonical(name), value)
            is_value = was_value = False
        elif is_value:
            _keep(found, option, word)
            is_value, was_value = False, True
        elif was_value and not positionals and arithmetic.number(word) is not None:
            found.pop(option or "", None)  # a list of values, as in --layers 256 128
        else:
            _keep(found, positionals[plain_words] if plain_words < len(positionals) else None, word)
            plain_words += 1
            was_value = False
    return found | model_size(words)


def own_from_arguments(
    words: Sequence[str], aliases: Mapping[str, str] | None = None, positionals: Sequence[str | None] = ()
) -> dict[str, float]:
    """Whole numbers in a program's arguments under names of its own: ``--n-critic 5``, ``clusters=200``, ``20000``.

    ``aliases``: the names of its options by option string; ``positionals``: names of its positional arguments; one
    without a name (None) is called by its place, ``#1``. What has a name that all programs share has "" in both.
    """
    found: dict[str, float] = {}
    known = {**{f"-{short}": "" for short in _SHORT}, **(aliases or {})}
    place = 0
    option: str | None = None
    for word in words:
        name, equals, value = word[:200].partition("=")
        if word.startswith("-") and arithmetic.number(word) is None:
            option = known.get(name, plain(name))
            if equals:
                _keep_own(found, option, value)
                option = None
        elif equals:
            for match in _OWN_SETTING.finditer(word[:200]):
                _keep_own(found, plain(match[1]), match[2])
            option = None
        elif option is not None:
            _keep_own(found, option, word)
            option = None
        else:
            named = positionals[place] if place < len(positionals) else None
            place += 1
            _keep_own(found, f"#{place}" if named is None else named, word)
    return found


def own_from_settings(text: str) -> dict[str, float]:
    """The same in a settings file; the first of each name wins."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if len(line) <= _MAX_LINE and (match := _SETTING.match(line)) and plain(match[1]) not in found:
            _keep_own(found, plain(match[1]), match[2])
    return found


def is_own(name: str, value: float) -> bool:
    """Whether a program's option is worth knowing beside the numbers that all programs share."""
    known = canonical(name) is not None or _NO_WORK.search(plain(name)) is not None
    return not known and 1 <= value < 1e12 and value == int(value)


def from_environment(variables: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Numbers in variables: ``EPOCHS=90``, ``MAX_STEPS=1000``."""
    found: dict[str, float] = {}
    for name, value in variables:
        _keep(found, canonical(name), value)
    return found


def from_settings(text: str) -> dict[str, float]:
    """Numbers in YAML, JSON, TOML and INI files, and in Python that doesn't parse. The first of each name wins."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if len(line) <= _MAX_LINE:
            match = _SETTING.match(line) or _ADD_ARGUMENT.search(line)
            if match and canonical(match[1]) not in found:
                _keep(found, canonical(match[1]), match[2])
    return found


def model_size(words: Iterable[str]) -> dict[str, float]:
    """The number of parameters in a model's name, as in ``meta-llama/Llama-2-7b-hf`` or ``opt-1.3b``."""
    for word in words:
        value = word[:200].rpartition("=")[2]
        match = _BILLIONS.search(value)
        if match and not value.startswith("-") and re.search(r"[-_/]", value):
            return {"parameters": float(match[1]) * 1e9}
    return {}


def most(*several: Mapping[str, float]) -> dict[str, float]:
    """The largest value of each number."""
    found: dict[str, float] = {}
    for numbers in several:
        for name, value in numbers.items():
            found[name] = max(found.get(name, value), value)
    return found


def _keep(found: dict[str, float], name: str | None, text: str) -> None:
    value = arithmetic.number(text.strip("\"'")) if name else None
    if name and value is not None and value > 0:
        found[name] = value


def _keep_own(found: dict[str, float], name: str, text: str) -> None:
    value = arithmetic.number(text.strip("\"'"))
    named = name.startswith("#") or _OWN_NAME.fullmatch(name) is not None
    if named and value is not None and is_own(name, value) and len(found) < MAX_OWN:
        found[name] = value
