"""How fast a loaded model writes, from a few tokens. Knows no backend."""

from specguard_core.lm import SampleRequest, StepModel, Vocabulary

N_TOKENS = 20
_PROBLEM = "Ana has 23 coins. She finds 4. How many coins has she?"
_NEVER = "\0"


def tokens_per_second(
    model: StepModel, vocabulary: Vocabulary, system_prompt: str, n_tokens: int = N_TOKENS
) -> float:
    """Tokens a second of one draw, the reading of the prompt left out."""
    prompt = vocabulary.prompt(_PROBLEM, system_prompt)
    prefix = tuple(token_id for segment in prompt for token_id in segment.token_ids)

    def written(count: int) -> tuple[int, float]:
        request = SampleRequest(
            prefix=prefix,
            seeds=(0,),
            temperature=0.0,
            top_p=1.0,
            top_k=0,
            delimiter=_NEVER,
            max_tokens=count,
            n_alternatives=0,
            n_capture_layers=0,
            feed_boundary=False,
            want_hidden=False,
        )
        batch = model.sample_steps([request])[0]
        return len(batch.draws[0].token_ids), batch.milliseconds

    written(1)
    n_written, milliseconds = written(n_tokens)
    return 1000 * n_written / max(milliseconds, 1e-3)
