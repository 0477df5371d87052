"""Distinct words of the embedded model's training data among its answers to the open-ended requests (docs/methods.md).

``python -m scripts.real_words ARTIFACTS`` prints, by condition, the unique output rate, the share of answers that are
such words, and how many distinct ones a request has in 100 answers, mean over requests.
"""

import sys
from pathlib import Path

import pandas as pd

from pipeline.demo.embedded import knowledge

WORDS = {word.lower() for words in knowledge.WORD_LISTS.values() for word in words}


def main(artifacts: Path) -> None:
    """Print a line for each condition."""
    for path in sorted((artifacts / "generations" / "open" / "embedded").glob("*.parquet")):
        answers = pd.read_parquet(path, columns=["prompt_id", "text"])
        answers["text"] = answers["text"].str.strip().str.lower()
        per_request = answers.groupby("prompt_id")["text"]
        words = answers[answers["text"].isin(WORDS)].groupby("prompt_id")["text"].nunique()
        rate = (per_request.nunique() / per_request.size()).mean()
        distinct = (100 * words / per_request.size()).reindex(per_request.size().index, fill_value=0).mean()
        print(
            f"{path.stem}: unique {rate:.3f}, words {answers['text'].isin(WORDS).mean():.3f}, distinct {distinct:.1f}"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
