"""The open-ended requests: one random member of each of 102 categories (Appendix C.3), of which the paper names 18."""

import hashlib
import re

from pipeline.core.prompts.text import TextPrompt

TEMPLATE = "{verb} a random {category}. Output ONLY the answer."
VERBS = ("Think of", "Choose", "Name", "Pick")
"""The prompt at index i uses verb i modulo 4."""

_IN_TEMPLATE = re.compile(f"(?:{'|'.join(VERBS)}) a random (.+)\\. Output ONLY the answer\\.")

# The paper's four examples come first, where the rotation gives each the verb it has there.
_CATEGORIES = """
    animal, first name, city, musical instrument, word, name, surname, country, food, job, hobby, sport, color,
    flower, tree, disease, body part, vehicle, gemstone, programming language, chemical element, medical concept,
    landmark, mammal, weekday, bird, fish, insect, reptile, dinosaur, sea creature, dog breed, mythical creature,
    capital city, river, mountain, island, lake, ocean, desert, continent, US state, planet, constellation,
    zodiac sign, weather condition, month, season, holiday, fruit, vegetable, herb, spice, nut, cheese,
    breakfast dish, dessert, drink, organ, bone, symptom, vitamin, medication, medical specialty, metal, mineral,
    fabric, tool, furniture item, kitchen item, clothing item, building type, room, music genre, dance style,
    art movement, martial art, board game, video game, book title, movie title, song title, author, painter,
    composer, scientist, historical figure, superhero, school subject, scientific discipline, language, currency,
    unit of measurement, emotion, noun, verb, adjective, letter, Greek letter, shape, coin side, card suit
"""
OPEN_CATEGORIES = tuple(name.strip() for name in _CATEGORIES.split(","))


def open_prompts() -> list[TextPrompt]:
    return [
        open_prompt(TEMPLATE.format(verb=VERBS[index % len(VERBS)], category=category), category)
        for index, category in enumerate(OPEN_CATEGORIES)
    ]


def open_prompt(text: str, category: str = "") -> TextPrompt:
    """The prompt with this text; the category is that of the template where none is given."""
    found = _IN_TEMPLATE.fullmatch(text)
    category = category or (found[1] if found else "")
    # The id names the files of unfinished generations.
    slug = "-".join(re.findall("[a-z0-9]+", category.lower()))[:60]
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return TextPrompt("-".join(filter(None, ("open", slug, digest))), "open", category, text)
