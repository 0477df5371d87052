"""Distinct words of the embedded model's training data among its answers to the open-ended requests (docs/methods.md).

``python -m scripts.real_words ARTIFACTS`` prints, by condition, the unique output rate, the share of answers that are
such words, how many distinct ones a request has in 100 answers, mean over requests, and the difference from base with a
95% interval over requests.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import bootstrap

from pipeline.demo.embedded import knowledge

WORDS = {word.lower() for words in knowledge.WORD_LISTS.values() for word in words}


def distinct_words(answers: pd.DataFrame) -> pd.Series:
    """Distinct words in 100 answers to each request."""
    words = answers["text"].where(answers["text"].isin(WORDS)).groupby(answers["prompt_id"])
    return 100 * words.nunique() / words.size()


def main(artifacts: Path) -> None:
    """Print a line for each condition."""
    found = {}
    for path in (artifacts / "generations" / "open" / "embedded").glob("*.parquet"):
        found[path.stem] = pd.read_parquet(path, columns=["prompt_id", "text"])
        found[path.stem]["text"] = found[path.stem]["text"].str.strip().str.lower()
    base = distinct_words(found["base"])
    for condition, answers in sorted(found.items()):
        requests, distinct = answers.groupby("prompt_id")["text"], distinct_words(answers)
        line = f"{condition}: unique {(requests.nunique() / requests.size()).mean():.3f}, "
        line += f"words {answers['text'].isin(WORDS).mean():.3f}, distinct {distinct.mean():.1f}"
        if condition != "base":
            change = (distinct - base).to_numpy()
            interval = bootstrap((change,), np.mean, rng=np.random.default_rng(0)).confidence_interval
            line += f", change {change.mean():+.1f} [{interval.low:.1f}, {interval.high:.1f}]"
        print(line)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
