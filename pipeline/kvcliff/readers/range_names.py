"""Texts of profiler ranges that may enter the database: engine steps and stages, nothing else."""

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class NameRule:
    """One shape of range text that may enter the database.

    Attributes:
        globs: SQLite GLOB patterns that let candidates through cheaply.
        pattern: the exact shape; only words of a closed list and numbers.
    """

    globs: tuple[str, ...]
    pattern: re.Pattern[str]


#: The allow-list: texts of other shapes may hold prompts or paths and stay in the file.
NAME_RULES: tuple[NameRule, ...] = (
    NameRule(("execute_new_*",), re.compile(r"execute_new_\d{1,9}_cached_\d{1,9}")),
    NameRule(
        ("execute_context_*",),
        re.compile(r"execute_context_\d{1,9}\(\d{1,12}\)_generation_\d{1,9}\(\d{1,12}\)"),
    ),
    NameRule(
        ("execute_[0-9]*_context_*",),
        re.compile(
            r"execute_\d{1,12}_context_\d{1,9}\(sq\d{1,18}sk\d{1,18}sqsq\d{1,18}sqsk\d{1,18}\)"
            r"_generation_\d{1,9}\(sq\d{1,18}sk\d{1,18}sqsq\d{1,18}sqsk\d{1,18}\)"
        ),
    ),
    NameRule(
        ("step context=*",),
        re.compile(r"step context=\d{1,9}\(\d{1,12}\) generation=\d{1,9}\(\d{1,12}\)(?: kv=\d{1,15})?"),
    ),
    NameRule(
        ("step[[]*",),
        re.compile(r"step\[(?:EXTEND|DECODE|VERIFY|DRAFT|MIXED)(?: bs=\d{1,9})?(?: toks=\d{1,12})?\]"),
    ),
    NameRule(
        ("[[]Executor] _forward_step *",),
        re.compile(
            r"\[Executor\] _forward_step \d{1,12}: \d{1,9} ctx reqs, "
            r"(?:\d{1,12} ctx tokens, )?\d{1,9} gen reqs"
        ),
    ),
    NameRule(
        ("gpu_model_runner: *",),
        re.compile(
            r"gpu_model_runner: (?:preprocess|forward|postprocess|sample|draft|bookkeep|eplb"
            r"|ModelRunnerOutput)"
        ),
    ),
    NameRule(
        ("llm_engine step: *",),
        re.compile(r"llm_engine step: (?:get_output|process_outputs|abort_requests|record_stats)"),
    ),
    NameRule(
        ("schedule: *",),
        re.compile(
            r"schedule: (?:allocate_slots|make_cached_request_data|update_after_schedule"
            r"|get_num_common_prefix_blocks)"
        ),
    ),
    NameRule(
        ("scheduler.*",),
        re.compile(
            r"scheduler\.(?:recv_requests|process_input_requests|get_next_batch_to_run|process_queue|run_batch"
            r"|process_batch_result|sanity_check_cache|idle)"
        ),
    ),
    NameRule(
        ("Preprocess", "Forward", "Postprocess", "Sample", "Bookkeep", "Draft", "EPLB"),
        re.compile(r"Preprocess|Forward|Postprocess|Sample|Bookkeep|Draft|EPLB"),
    ),
    NameRule(("prefill", "decode", "mixed", "engine_step"), re.compile(r"prefill|decode|mixed|engine_step")),
)


def is_allowed(text: str, extra: Sequence[re.Pattern[str]] = ()) -> bool:
    """Return whether a range text may be kept."""
    return any(rule.pattern.fullmatch(text) for rule in NAME_RULES) or any(
        pattern.fullmatch(text) for pattern in extra
    )
