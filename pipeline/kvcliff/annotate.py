"""Step marks for engine loops: NVTX ranges in the domain ``kvcliff`` that profilers record and kvcliff reads.

    from kvcliff.annotate import step

    with step(context_requests=1, context_tokens=256, generation_requests=8, generation_tokens=8):
        run_model()

Without a profiler, or without the ``nvtx`` package, a mark costs one function call.
"""

from contextlib import AbstractContextManager, nullcontext
from functools import cache

try:
    import nvtx
except ImportError:  # An engine must run without the package; its marks are then empty.
    nvtx = None

DOMAIN = "kvcliff"
_NO_MARK: AbstractContextManager[None] = nullcontext()


@cache
def is_recording() -> bool:
    """Return whether marks can reach a profiler; asked of the process once, at its first step.

    From version 0.2.12 on the ``nvtx`` package hands out a dummy domain when no tool is attached; with older
    ones the answer is yes and a mark costs some microseconds.
    """
    if nvtx is None or not nvtx.enabled():
        return False
    get_domain = getattr(nvtx, "get_domain", None)
    return get_domain is None or type(get_domain(DOMAIN)).__name__ != "DummyDomain"


def step_text(
    context_requests: int,
    context_tokens: int,
    generation_requests: int,
    generation_tokens: int,
    kv_tokens: int | None = None,
) -> str:
    """Return the text of a step's range, which kvcliff reads as the step's phase and size.

    Args:
        context_requests: requests in prefill.
        context_tokens: their new tokens in this step.
        generation_requests: requests in decode, recomputing ones included.
        generation_tokens: their new tokens in this step.
        kv_tokens: KV tokens that the step reads, over all requests.
    """
    kv = "" if kv_tokens is None else f" kv={_count(kv_tokens)}"
    return (
        f"step context={_count(context_requests)}({_count(context_tokens)}) "
        f"generation={_count(generation_requests)}({_count(generation_tokens)}){kv}"
    )


def step(
    *,
    context_requests: int = 0,
    context_tokens: int = 0,
    generation_requests: int = 0,
    generation_tokens: int = 0,
    kv_tokens: int | None = None,
    kv_blocks: int | None = None,
) -> AbstractContextManager[None]:
    """Return a context that marks one engine step; put it around everything that launches the step's work.

    Args:
        context_requests: requests in prefill.
        context_tokens: their new tokens in this step.
        generation_requests: requests in decode, recomputing ones included.
        generation_tokens: their new tokens in this step.
        kv_tokens: KV tokens that the step reads, over all requests.
        kv_blocks: KV blocks in use; the range's payload.
    """
    if not is_recording():
        return _NO_MARK
    text = step_text(context_requests, context_tokens, generation_requests, generation_tokens, kv_tokens)
    mark: AbstractContextManager[None] = nvtx.annotate(message=text, domain=DOMAIN, payload=kv_blocks)
    return mark


def _count(value: int) -> int:
    """Return a count; a wrong number must not stop an engine."""
    return max(0, int(value))
