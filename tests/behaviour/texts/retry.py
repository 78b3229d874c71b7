import random
import time


class GaveUp(Exception):
    """Raised when every attempt has failed; the last error is its cause."""


def retry(call, attempts=5, base=0.25, limit=8.0, sleep=time.sleep):
    for attempt in range(attempts):
        try:
            return call()
        except ConnectionError as error:
            last = error
        # Full jitter: anything from nothing to the exponential bound.
        sleep(random.uniform(0, min(limit, base * 2 ** attempt)))
    raise GaveUp(f"{attempts} attempts failed") from last


assert retry(lambda: {"status": [200, "OK"]}["status"][0]) == 200
