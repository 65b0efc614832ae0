"""`lookup` then `insert` of what was missing equals the request-atomic semantics done in one step."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kvcache.tiering import Tier
from tests.kvcache.tiering.mirror import Mirror, policy
from tests.kvcache.tiering.model import NaiveCache

KEYS = [f"k{number}" for number in range(14)]
requests = st.lists(st.lists(st.sampled_from(KEYS), min_size=1, max_size=7, unique=True), max_size=40)
unit_sizes = st.just(dict.fromkeys(KEYS, 1))
mixed_sizes = st.fixed_dictionaries({key: st.integers(1, 4) for key in KEYS})


def _orders(mirror: Mirror) -> tuple[list[str], list[str]]:
    shelves = mirror.cache._shelves
    return (
        [key.decode() for key in shelves.dram.order.oldest_first()],
        [key.decode() for key in shelves.flash.order.oldest_first()],
    )


@settings(max_examples=400, deadline=None)
@given(
    played=requests,
    sizes=unit_sizes | mixed_sizes,
    dram=st.sampled_from([0, 4, 5, 8, 11]),
    flash=st.sampled_from([0, 4, 6, 13]),
    order=st.sampled_from(["lru", "fifo"]),
    keep=st.booleans(),
    hits=st.integers(1, 3),
)
def test_lookup_then_insert_any_requests_equals_naive_model(
    played: list[list[str]], sizes: dict[str, int], dram: int, flash: int, order: str, keep: bool, hits: int
) -> None:
    mirror = Mirror(policy(dram, flash, hits=hits, keep=keep, order=order))
    model = NaiveCache(dram, flash, lru=order == "lru", keep=keep, promote_after=hits)
    for keys in played:
        want = model.request({key: sizes[key] for key in keys})
        answer = mirror.request([(key.encode(), sizes[key]) for key in keys])
        assert answer.tiers == want
        assert answer.prefix_blocks == ([*want, None]).index(None)
        assert _orders(mirror) == (model.dram.order, model.flash.order)
        assert mirror.cache.usage(Tier.DRAM).bytes == model.dram.used() <= dram
        assert mirror.cache.usage(Tier.FLASH).bytes == model.flash.used() <= flash


@settings(max_examples=200, deadline=None)
@given(played=requests, capacity=st.integers(7, 10), removed=st.lists(st.sampled_from(KEYS), max_size=10))
def test_request_with_holes_keeps_tail_first_order(played: list[list[str]], capacity: int, removed: list[str]) -> None:
    mirror = Mirror(policy(capacity))
    model = NaiveCache(capacity, 0, lru=True, keep=True)
    for number, keys in enumerate(played):
        if number < len(removed) and removed[number] in model.dram.order:
            model.dram.drop(removed[number])
            mirror.remove([removed[number].encode()])
        assert mirror.request([(key.encode(), 1) for key in keys]).tiers == model.request(dict.fromkeys(keys, 1))
        assert _orders(mirror)[0] == model.dram.order
