"""What a person should know of how a run went, where it went oddly. Pure; knows no model."""

from specguard_core.types import Step, Trace


def remark_on(trace: Trace) -> str | None:
    """One sentence on a run that ended without one well-formed step; None where there is none."""
    steps = trace.all_steps
    if trace.status != "finished" or not steps:
        return None
    if not trace.text.strip():
        return (
            "nothing but empty lines was written: the prompt does not suit the model; see its "
            "prompts by `models`, or give --chat-template"
        )
    if len(steps) > 1 and all(map(_was_cut, steps)):
        config = trace.config
        return (
            f"no step ended with the delimiter {config.delimiter!r}: each was cut, at "
            f"max_step_tokens={config.max_step_tokens} or the end of the run; set a delimiter that "
            "the model writes, or ask for paragraphs in system_prompt"
        )
    return None


def _was_cut(step: Step) -> bool:
    return step.output.stop in ("step_limit", "context_limit")
