"""Did you mean ...? Suggestions for names that people type: settings, commands, fields.

Used by cli/ for names it refuses and by broker/ for unknown settings.
"""

from __future__ import annotations

from collections.abc import Iterable

from floodmark.config.settings import BROKER_SETTINGS_BY_NAME, TOPIC_SETTINGS_BY_NAME


def closest(name: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches  # imported late: only mistakes need it

    found = get_close_matches(name.lower(), known, n=1)
    return found[0] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Text to append to a message, starting with a space. Empty if nothing is similar."""
    found = closest(name, known)
    return "" if found is None else f" (did you mean {found}?)"


def suggested_setting(name: str) -> str:
    """The same for a broker setting. Using the topic setting's name is a likely mistake."""
    topic_setting = TOPIC_SETTINGS_BY_NAME.get(name)
    if topic_setting is not None and topic_setting.synonyms:
        return f" (a topic's setting; for all topics: {topic_setting.synonyms[0].name})"
    return did_you_mean(name, BROKER_SETTINGS_BY_NAME)
