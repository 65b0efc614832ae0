"""One inference request as a trace tells it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt cut into KV blocks, and how much was generated after it.

    A block id stands for the whole prefix up to and including its block: two requests share exactly their leading
    equal ids. The last block may be partly filled. `session` names the conversation where the trace knows it.
    """

    timestamp_ms: float
    input_tokens: int
    output_tokens: int
    block_ids: tuple[int, ...]
    block_tokens: int
    session: str | None = None

    def tokens_in_prefix(self, blocks: int) -> int:
        """Return how many input tokens the first `blocks` blocks hold; the partial last block counts what it has."""
        return min(self.input_tokens, blocks * self.block_tokens)
