"""Everything at once for a few seconds: every reply is right or a miss, nothing hangs, the accounts are exact."""

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import redis

from tests.agent.harness import KIB, MIB, Served, payload, policy, served
from tests.agent.tiers.test_store import check_invariants
from tests.support.servers import wait_until

SETTINGS = {
    "output_pause_bytes": 64 * KIB,
    "inflight_limit_bytes": 3 * MIB,
    "max_value_bytes": MIB,
    "max_command_bytes": 6 * MIB,
}
DURATION_S = 3.0
SIZES = (10, 3000, 20_000, 66_000, 140_000, 400_000, 900_000)


def block(key: bytes) -> bytes:
    """Return the only bytes that are right under `key`."""
    number = int(key[1:])
    return payload(number, SIZES[number % len(SIZES)] + number)


class Worker:
    """One client with a random mix of commands."""

    def __init__(self, client: redis.Redis, seed: int) -> None:
        self.client = client
        self.chance = random.Random(seed)
        self.errors: list[object] = []
        self.turns = 0

    def run(self) -> None:
        """Work until the time is over or something is wrong."""
        until = time.monotonic() + DURATION_S
        acts: list[Callable[[list[bytes]], None]] = [
            self.write, self.write, self.write_many, self.read, self.read_many, self.read_many, self.delete,
            self.read_part, self.age, self.pipeline,
        ]  # fmt: skip
        try:
            while time.monotonic() < until and not self.errors:
                keys = [b"k%d" % self.chance.randrange(90) for _ in range(self.chance.randrange(1, 9))]
                self.chance.choice(acts)(keys)
                self.turns += 1
        except redis.RedisError as error:
            self.errors.append(error)

    def check(self, key: bytes, data: object) -> None:
        """Note anything but the right bytes or a miss."""
        if data is not None and data != block(key):
            self.errors.append(("wrong bytes", key))

    def write(self, keys: list[bytes]) -> None:
        self.client.set(keys[0], block(keys[0]), px=self.chance.choice([None, 50, 100_000]))

    def write_many(self, keys: list[bytes]) -> None:
        self.client.mset({key: block(key) for key in keys})

    def read(self, keys: list[bytes]) -> None:
        self.check(keys[0], self.client.get(keys[0]))

    def read_many(self, keys: list[bytes]) -> None:
        for key, data in zip(keys, self.client.mget(keys), strict=True):
            self.check(key, data)

    def read_part(self, keys: list[bytes]) -> None:
        data = self.client.getrange(keys[0], 5, 70_000)
        if data and data != block(keys[0])[5:70_001]:
            self.errors.append(("wrong part", keys[0]))

    def delete(self, keys: list[bytes]) -> None:
        self.client.delete(*keys)

    def age(self, keys: list[bytes]) -> None:
        self.client.expire(keys[0], self.chance.choice([100, 1000]))
        self.client.persist(keys[0])
        self.client.touch(*keys)
        self.client.exists(*keys)

    def pipeline(self, keys: list[bytes]) -> None:
        pipe = self.client.pipeline(transaction=False)
        for key in keys:
            pipe.get(key)
            pipe.set(key, block(key), get=True)
            pipe.delete(key)
        replies = pipe.execute()
        for key, before, replaced in zip(keys, replies[::3], replies[1::3], strict=True):
            self.check(key, before)
            self.check(key, replaced)


def disturb(service: Served, chance: random.Random) -> None:
    """Change the policy or delete everything now and then."""
    store = service.plane.store
    if chance.random() < 0.1:
        dram, flash = chance.choice([0, MIB, 4 * MIB]), chance.choice([0, 3 * MIB, 12 * MIB])
        store.apply_policy(policy(dram, flash, promote_after=chance.choice([1, 3]), keep=chance.random() < 0.5))
    if chance.random() < 0.02:
        store.flush()


def test_everything_at_once_is_right_or_a_miss(tmp_path: Path) -> None:
    options = {"dram": 2 * MIB, "flash": 6 * MIB, "limits": (4 * MIB, 12 * MIB), "sweep_interval_s": 0.02}
    with served(tmp_path, settings=SETTINGS, **options) as service:
        workers = [Worker(service.client(protocol=2 + seed % 2), seed) for seed in range(6)]
        threads = [threading.Thread(target=worker.run) for worker in workers]
        for thread in threads:
            thread.start()
        chance = random.Random(11)
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.02)
            disturb(service, chance)
        assert [error for worker in workers for error in worker.errors] == []
        assert sum(worker.turns for worker in workers) > 100
        below = service.plane
        below.store.apply_policy(policy(2 * MIB, 6 * MIB))
        wait_until(lambda: not below.store._cache.is_over(), message="within the policy")
        below.settle()
        wait_until(lambda: below.pool.alive_bytes == below.tier("dram").stored_bytes, message="exact memory")
        check_invariants(below)
        assert not below.store.stats.corrupt_blocks
        assert not below.store.stats.flash_errors
