"""Events for examples/clickstream, and what its outputs must hold, computed over all at once.

The computation is plain Python, so that it shares nothing with Spark.
"""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

START = int(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp())
SESSION_GAP_S = 30
ATTRIBUTION_S = 60
PAGES = {"/": "home", "/boots": "clothing", "/pump": "tools"}
URLS = [*PAGES, "/unknown"]


@dataclass(frozen=True)
class Click:
    number: int
    visitor: str
    at: int
    url: str
    is_campaign: bool
    is_late: bool = False

    @property
    def event_id(self) -> str:
        return f"c{self.number}"

    def value(self) -> bytes:
        document = {
            "event_id": self.event_id,
            "at": _text(self.at),
            "user": {"id": self.visitor, "country": "DE"},
            "page": {"url": self.url, "referrer": None},
            "tags": ["campaign"] if self.is_campaign else [],
        }
        return json.dumps(document).encode()


@dataclass(frozen=True)
class Purchase:
    number: int
    buyer: str
    at: int

    @property
    def purchase_id(self) -> str:
        return f"p{self.number}"

    def value(self) -> bytes:
        document = {"purchase_id": self.purchase_id, "buyer": self.buyer, "amount": 9.5}
        return json.dumps({**document, "bought_at": _text(self.at)}).encode()


@dataclass
class Day:
    """A part of the stream. Clicks and purchases are in the order in which they are sent."""

    clicks: list[Click] = field(default_factory=list)
    purchases: list[Purchase] = field(default_factory=list)
    bad: list[bytes] = field(default_factory=list)

    def click_records(self) -> list[tuple[bytes | None, bytes]]:
        """Bad records are spread among the good ones."""
        records = [(click.visitor.encode(), click.value()) for click in self.clicks]
        step = max(1, len(records) // (len(self.bad) + 1))
        for index, value in enumerate(self.bad):
            records.insert((index + 1) * step, (b"?", value))
        return records

    def purchase_records(self) -> list[tuple[bytes | None, bytes]]:
        return [(purchase.buyer.encode(), purchase.value()) for purchase in self.purchases]


def make_day(seed: int, begin_s: int, clicks: int, late: int, first_number: int) -> Day:
    """About one click per second, up to 15 s out of order; late ones are an hour old."""
    generator = random.Random(seed)
    visitors = [f"v{i}" for i in range(8)]
    day = Day()
    for index in range(clicks):
        at = START + begin_s + index - generator.randrange(15)
        number = first_number + index
        campaign = generator.random() < 0.3
        visitor, url = generator.choice(visitors), generator.choice(URLS)
        day.clicks.append(Click(number, visitor, at, url, campaign))
        if index % 5 == 4:
            buyer = generator.choice(visitors)
            day.purchases.append(Purchase(number, buyer, at + generator.randrange(10)))
    for index in range(late):
        place = generator.randrange(len(day.clicks))
        number = first_number + clicks + index
        click = Click(number, generator.choice(visitors), START - 3600, "/", True, is_late=True)
        day.clicks.insert(place, click)
    day.bad = [b'{"event_id": "broken', b'{"at": "2026-01-01T12:00:00Z"}', b"no json"]
    day.bad = [value + b" " * index for index, value in enumerate(day.bad)]
    return day


def closing(begin_s: int) -> Day:
    """Events far ahead, whose watermark completes everything before them."""
    at = START + begin_s
    return Day([Click(10**6, "closing", at, "/", False)], [Purchase(10**6, "closing", at)])


def expected_views(days: Iterable[Day]) -> Counter[tuple[str, str, str | None]]:
    return Counter(
        (click.event_id, click.visitor, PAGES.get(click.url)) for d in days for click in d.clicks
    )


def expected_numbers(days: Iterable[Day]) -> Counter[tuple[str, int]]:
    clicks = Counter(click.visitor for day in days for click in day.clicks)
    return Counter((visitor, n) for visitor, count in clicks.items() for n in range(1, count + 1))


def expected_visitors(days: Iterable[Day]) -> Counter[tuple[str, int]]:
    clicks = Counter(click.visitor for day in days for click in day.clicks)
    return Counter(clicks.items())


def expected_sessions(days: Iterable[Day]) -> Counter[tuple[str, int, int, int]]:
    """Without the closing event, whose session no watermark completes."""
    times: dict[str, list[int]] = defaultdict(list)
    for day in days:
        for click in day.clicks:
            if not click.is_late and click.visitor != "closing":
                times[click.visitor].append(click.at)
    found: Counter[tuple[str, int, int, int]] = Counter()
    for visitor, moments in times.items():
        session: list[int] = []
        for at in [*sorted(moments), 10**12]:
            # Spark joins clicks that are exactly the gap apart.
            if session and at > session[-1] + SESSION_GAP_S:
                found[(visitor, session[0], session[-1] + SESSION_GAP_S, len(session))] += 1
                session = []
            session.append(at)
    return found


def expected_attributions(days: Iterable[Day]) -> Counter[tuple[str, str]]:
    days = list(days)
    clicks = [c for day in days for c in day.clicks if c.is_campaign and not c.is_late]
    return Counter(
        (purchase.purchase_id, click.event_id)
        for day in days
        for purchase in day.purchases
        for click in clicks
        if click.visitor == purchase.buyer
        and purchase.at - ATTRIBUTION_S <= click.at <= purchase.at
    )


def _text(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
