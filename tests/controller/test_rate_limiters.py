"""Rate limiters."""

from hypothesis import given
from hypothesis import strategies as st

from kubewright.controller.queues.rate_limiters import (
    BucketRateLimiter,
    ExponentialFailureRateLimiter,
    FastSlowRateLimiter,
    MaxOfRateLimiter,
)


def test_the_delay_doubles_up_to_a_maximum():
    limiter = ExponentialFailureRateLimiter()
    delays = [limiter.when("a") for _ in range(200)]
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert delays[17] == 0.005 * 2**17
    assert delays[18] == delays[-1] == 1000.0
    assert limiter.when("b") == 0.005
    limiter.forget("a")
    assert (limiter.failures("a"), limiter.failures("b")) == (0, 1)


def test_bucket_allows_a_burst_and_then_the_rate():
    now = [0.0]
    limiter = BucketRateLimiter(10.0, 100, clock=lambda: now[0])
    assert [limiter.when(n) for n in range(100)] == [0.0] * 100
    assert [round(limiter.when(n), 6) for n in range(3)] == [0.1, 0.2, 0.3]
    now[0] = 10.3
    assert limiter.when("x") == 0.0


@given(st.lists(st.floats(0, 5), max_size=60))
def test_bucket_never_exceeds_its_rate(pauses):
    now = 0.0
    limiter = BucketRateLimiter(10.0, 5, clock=lambda: now)
    released = []
    for pause in pauses:
        now += pause
        released.append(now + limiter.when("key"))
    for start in released:
        inside = [time for time in released if start <= time < start + 1.0]
        assert len(inside) <= 5 + 10 + 1


def test_fast_then_slow():
    limiter = FastSlowRateLimiter(0.1, 30.0, 2)
    assert [limiter.when("a") for _ in range(3)] == [0.1, 0.1, 30.0]
    limiter.forget("a")
    assert limiter.when("a") == 0.1


def test_the_longest_of_several():
    limiter = MaxOfRateLimiter(ExponentialFailureRateLimiter(0.5), FastSlowRateLimiter(1.0, 2.0, 1))
    assert [limiter.when("a") for _ in range(4)] == [1.0, 2.0, 2.0, 4.0]
    assert limiter.failures("a") == 4
    limiter.forget("a")
    assert limiter.when("a") == 1.0
