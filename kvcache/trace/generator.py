"""Seeded traces of multi-turn sessions: shared system prompts, tool loops, growing prefixes, think times.

The same parameters and seed give the same requests on every machine. Docs: docs/traces.md compares the statistics
of the presets with those of published traces.
"""

import heapq
import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, fields

from kvcache.trace.request import Request


@dataclass(frozen=True, slots=True)
class Spread:
    """A log-normal quantity cut off at both ends; `sigma` is the standard deviation of its natural logarithm."""

    median: float
    sigma: float
    least: float
    most: float

    def __post_init__(self) -> None:
        if not (0 <= self.least <= self.median <= self.most and self.median > 0 and self.sigma >= 0):
            raise ValueError(f"{self}: give 0 <= least <= median <= most, a median above 0 and sigma of at least 0")

    def draw(self, dice: random.Random) -> float:
        """Return one value."""
        value = self.median * math.exp(self.sigma * dice.gauss(0.0, 1.0))
        return min(max(value, self.least), self.most)


@dataclass(frozen=True, slots=True)
class GeneratorParameters:
    """What a population of sessions is like. Tokens, seconds and ratios as the names say.

    A session has a stem (one of `system_prompts`, and below it one of `contexts_per_prompt`, such as a repository's
    instructions) that other sessions share; the smaller its number the more popular a stem is, by a Zipf law of
    exponent `popularity`. It has one turn with probability `single_turn_share`, else 1 + a geometric number of mean
    `more_turns`. In a turn the user writes, the model calls tools a geometric number of times of mean `tool_calls`
    (each call a request with the prompt grown by the model's output and the tool's result) and answers; then the
    user thinks. A prompt past `max_context_tokens` is compacted: the stem and a summary remain.
    """

    session_rate_per_s: float
    system_prompts: int
    system_prompt_tokens: Spread
    contexts_per_prompt: int
    context_tokens: Spread
    popularity: float
    first_message_tokens: Spread
    message_tokens: Spread
    answer_tokens: Spread
    single_turn_share: float
    more_turns: float
    think_s: Spread
    tool_calls: float
    call_tokens: Spread
    tool_result_tokens: Spread
    tool_s: Spread
    summary_tokens: Spread
    max_context_tokens: int
    decode_tokens_per_s: float
    block_tokens: int = 512
    partial_tail: bool = True

    def __post_init__(self) -> None:
        above_zero = (
            "session_rate_per_s",
            "decode_tokens_per_s",
            "system_prompts",
            "contexts_per_prompt",
            "block_tokens",
        )
        for name in above_zero:
            if not (getattr(self, name) > 0 and math.isfinite(getattr(self, name))):
                raise ValueError(f"{name} is {getattr(self, name)}; give more than 0")
        for name in ("popularity", "more_turns", "tool_calls"):
            if not (getattr(self, name) >= 0 and math.isfinite(getattr(self, name))):
                raise ValueError(f"{name} is {getattr(self, name)}; give at least 0")
        if not 0 <= self.single_turn_share <= 1:
            raise ValueError(f"single_turn_share is {self.single_turn_share}; give a ratio from 0 to 1")
        stem_most = self.system_prompt_tokens.most + self.context_tokens.most
        fresh = max(self.first_message_tokens.most, self.summary_tokens.most)
        if stem_most + fresh >= self.max_context_tokens:
            raise ValueError(
                f"max_context_tokens is {self.max_context_tokens}; a stem and a first message need up to "
                f"{stem_most + fresh:.0f}"
            )


PRESETS: dict[str, GeneratorParameters] = {
    "agentic": GeneratorParameters(
        session_rate_per_s=0.05,
        system_prompts=4,
        system_prompt_tokens=Spread(12_000, 0.3, 6_000, 20_000),
        contexts_per_prompt=12,
        context_tokens=Spread(3_000, 0.8, 500, 12_000),
        popularity=1.0,
        first_message_tokens=Spread(800, 1.2, 20, 16_000),
        message_tokens=Spread(120, 1.0, 10, 4_000),
        answer_tokens=Spread(350, 0.8, 20, 4_000),
        single_turn_share=0.35,
        more_turns=4.0,
        think_s=Spread(240, 1.8, 3, 7_200),
        tool_calls=5.0,
        call_tokens=Spread(120, 0.9, 15, 4_000),
        tool_result_tokens=Spread(700, 1.3, 10, 16_000),
        tool_s=Spread(22, 1.4, 0.05, 900),
        summary_tokens=Spread(3_000, 0.4, 1_000, 8_000),
        max_context_tokens=160_000,
        decode_tokens_per_s=60.0,
        partial_tail=False,
    ),
    "chat": GeneratorParameters(
        session_rate_per_s=2.4,
        system_prompts=1,
        system_prompt_tokens=Spread(600, 0.0, 600, 600),
        contexts_per_prompt=1,
        context_tokens=Spread(1, 0.0, 0, 1),
        popularity=0.0,
        first_message_tokens=Spread(5_200, 1.08, 50, 90_000),
        message_tokens=Spread(1_500, 1.5, 5, 20_000),
        answer_tokens=Spread(240, 0.85, 1, 2_000),
        single_turn_share=0.77,
        more_turns=2.35,
        think_s=Spread(130, 1.22, 2, 3_600),
        tool_calls=0.0,
        call_tokens=Spread(50, 0.5, 1, 500),
        tool_result_tokens=Spread(500, 0.5, 1, 4_000),
        tool_s=Spread(1, 0.5, 0.05, 60),
        summary_tokens=Spread(2_000, 0.4, 500, 8_000),
        max_context_tokens=126_000,
        decode_tokens_per_s=30.0,
    ),
}
"""Parameters by name: `agentic` is like coding agents, `chat` like a public chat service with long inputs."""


def generate(parameters: GeneratorParameters, seed: int, *, requests: int | None = None) -> Iterator[Request]:
    """Yield requests in order of time, `requests` of them or without end; memory grows with open sessions only.

    Times are whole milliseconds from 0. Block ids count up from 0 in the order in which blocks first occur.
    """
    return itertools.islice(_Population(parameters, seed).requests(), requests)


def with_rate(parameters: GeneratorParameters, factor: float) -> GeneratorParameters:
    """Return the same population with `factor` times as many sessions per second."""
    values = {item.name: getattr(parameters, item.name) for item in fields(parameters)}
    return GeneratorParameters(**{**values, "session_rate_per_s": parameters.session_rate_per_s * factor})


class _Stem:
    """What many sessions begin with: its length in tokens and the ids of its full blocks."""

    __slots__ = ("block_ids", "tokens")

    def __init__(self, tokens: int, block_ids: tuple[int, ...]) -> None:
        self.tokens = tokens
        self.block_ids = block_ids


class _Population:
    def __init__(self, parameters: GeneratorParameters, seed: int) -> None:
        self._parameters = parameters
        self._seed = seed
        self._next_id = itertools.count()
        dice = _dice(f"{seed}/stems")
        self._stem_sizes = [
            [
                (int(system_tokens), int(parameters.context_tokens.draw(dice)))
                for _ in range(parameters.contexts_per_prompt)
            ]
            for system_tokens in (parameters.system_prompt_tokens.draw(dice) for _ in range(parameters.system_prompts))
        ]
        self._systems: dict[int, tuple[int, ...]] = {}
        self._stems: dict[tuple[int, int], _Stem] = {}

    def requests(self) -> Iterator[Request]:
        """Run the sessions against one clock; the earliest next request is always the one to come out."""
        arrivals = _dice(f"{self._seed}/arrivals")
        due: list[tuple[float, int, _Session | None]] = [(0.0, 0, None)]
        opened = 0
        while True:
            at_s, _, session = heapq.heappop(due)
            if session is None:
                opened += 1
                wait_s = arrivals.expovariate(self._parameters.session_rate_per_s)
                heapq.heappush(due, (at_s + wait_s, 0, None))
                session = _Session(self, self._parameters, _dice(f"{self._seed}/session/{opened}"), opened)
            yield session.request(at_s)
            next_s = session.advance(at_s)
            if next_s is not None:
                heapq.heappush(due, (next_s, session.number, session))

    def new_ids(self, count: int) -> list[int]:
        return list(itertools.islice(self._next_id, count))

    def stem(self, dice: random.Random) -> _Stem:
        """Return a stem by popularity; its blocks get their ids when the first session begins with it."""
        system = self._popular(dice, self._parameters.system_prompts)
        context = self._popular(dice, self._parameters.contexts_per_prompt)
        system_tokens, context_tokens = self._stem_sizes[system][context]
        block_tokens = self._parameters.block_tokens
        if system not in self._systems:
            self._systems[system] = tuple(self.new_ids(system_tokens // block_tokens))
        if (system, context) not in self._stems:
            tokens = system_tokens + context_tokens
            shared = self._systems[system]
            own = tuple(self.new_ids(tokens // block_tokens - len(shared)))
            self._stems[system, context] = _Stem(tokens, shared + own)
        return self._stems[system, context]

    def _popular(self, dice: random.Random, count: int) -> int:
        weights = [1.0 / rank**self._parameters.popularity for rank in range(1, count + 1)]
        return dice.choices(range(count), weights)[0]


class _Session:
    """One conversation: how long its prompt is now, the ids of its full blocks, and what comes next."""

    def __init__(
        self, population: _Population, parameters: GeneratorParameters, dice: random.Random, number: int
    ) -> None:
        self._population = population
        self._parameters = parameters
        self._dice = dice
        self.number = number
        self._stem = population.stem(dice)
        self._block_ids = list(self._stem.block_ids)
        self._tokens = self._stem.tokens + _whole(parameters.first_message_tokens.draw(dice))
        more = 0 if dice.random() < parameters.single_turn_share else 1 + self._geometric(parameters.more_turns - 1)
        self._turns_left = more
        self._calls_left = self._geometric(parameters.tool_calls)
        self._output_tokens = 0

    def request(self, at_s: float) -> Request:
        """Return the request that this session sends now."""
        parameters = self._parameters
        spread = parameters.call_tokens if self._calls_left else parameters.answer_tokens
        self._output_tokens = _whole(spread.draw(self._dice))
        full = self._tokens // parameters.block_tokens
        self._block_ids += self._population.new_ids(full - len(self._block_ids))
        block_ids = tuple(self._block_ids)
        if parameters.partial_tail and self._tokens % parameters.block_tokens:
            block_ids += tuple(self._population.new_ids(1))
        return Request(
            timestamp_ms=float(round(at_s * 1000)),
            input_tokens=self._tokens,
            output_tokens=self._output_tokens,
            block_ids=block_ids,
            block_tokens=parameters.block_tokens,
            session=f"session-{self.number}",
        )

    def advance(self, at_s: float) -> float | None:
        """Return when the next request comes, after a tool has run or the user has thought; None at the end."""
        parameters, dice = self._parameters, self._dice
        ready_s = at_s + self._output_tokens / parameters.decode_tokens_per_s
        if self._calls_left:
            self._calls_left -= 1
            self._grow(_whole(parameters.tool_result_tokens.draw(dice)))
            return ready_s + parameters.tool_s.draw(dice)
        if not self._turns_left:
            return None
        self._turns_left -= 1
        self._calls_left = self._geometric(parameters.tool_calls)
        self._grow(_whole(parameters.message_tokens.draw(dice)))
        return ready_s + parameters.think_s.draw(dice)

    def _grow(self, new_tokens: int) -> None:
        self._tokens += self._output_tokens + new_tokens
        if self._tokens > self._parameters.max_context_tokens:
            self._tokens = self._stem.tokens + _whole(self._parameters.summary_tokens.draw(self._dice))
            self._block_ids = list(self._stem.block_ids)

    def _geometric(self, mean: float) -> int:
        """Return 0, 1, 2, … with the given mean."""
        if mean <= 0:
            return 0
        return int(math.log(1.0 - self._dice.random()) / math.log(mean / (mean + 1.0)))


def _dice(name: str) -> random.Random:
    """Return a generator seeded by a text: the same numbers in every process and on every machine."""
    return random.Random(name)  # noqa: S311


def _whole(tokens: float) -> int:
    return max(1, round(tokens))
