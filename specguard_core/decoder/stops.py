"""Why a run ends (DESIGN section 5), the same for both decoders. Calls no model.

commit     where stops are tested: the end of a step, whoever wrote it
cut        a block is written without regard to steps, so its tokens are walked through afterwards
           and end where the target, writing step by step, would have ended
"""

from collections.abc import Collection, Sequence

from specguard_core.answers import has_closed_box
from specguard_core.config import DecodeConfig
from specguard_core.text import StepWatch, join_pieces, said_aloud
from specguard_core.types import FinishReason, Trace


def finish_reason(
    config: DecodeConfig,
    *,
    ended_by_eos: bool,
    text: str,
    n_written: int,
    room: int,
    steps: Sequence[tuple[int, ...]],
) -> FinishReason | None:
    """Why a run ends after a whole step; None where it goes on.

    text        what was said so far; thoughts hold no answer
    n_written   tokens kept
    room        tokens that still fit into the context
    steps       the token ids of every kept step
    """
    if ended_by_eos:
        return "eos"
    if has_closed_box(text):
        return "answer"
    if room <= 0:
        return "context_limit"
    if n_written >= config.max_new_tokens:
        return "max_new_tokens"
    if len(steps) >= config.max_steps:
        return "max_steps"
    recent = set(steps[-config.repeat_limit :])
    if len(steps) >= config.repeat_limit and len(recent) == 1:
        return "repeated_steps"
    return None


def cut(
    trace: Trace, new_ids: Sequence[int], limit: int, eos_token_ids: Collection[int]
) -> tuple[int, FinishReason | None]:
    """How many of the new tokens are kept, and why the run ends with the last of them.

    The trace's pieces cover the new ids; `limit` is the length of the context in tokens.
    """
    config, pieces = trace.config, trace.pieces
    n_prompt = len(trace.prompt_ids)
    ids = (*trace.context_ids[n_prompt:], *new_ids)
    n_old = len(ids) - len(new_ids)
    delimiter = config.delimiter.encode()
    watch, steps, begin = StepWatch(delimiter), [], 0
    for index, token_id in enumerate(ids):
        n_written = index + 1
        room = limit - n_prompt - n_written
        is_eos = token_id in eos_token_ids
        is_end = watch.feed(pieces[token_id]) or n_written - begin == config.max_step_tokens
        if not (is_eos or is_end or room <= 0 or n_written == config.max_new_tokens):
            continue
        steps.append(ids[begin:n_written])
        if index >= n_old:
            reason = finish_reason(
                config,
                ended_by_eos=is_eos,
                text=said_aloud(
                    join_pieces(ids[:n_written], pieces), in_thoughts=trace.begins_in_thoughts
                ),
                n_written=n_written,
                room=room,
                steps=steps,
            )
            if reason is not None:
                return n_written - n_old, reason
        watch, begin = StepWatch(delimiter), n_written
    return len(new_ids), None
