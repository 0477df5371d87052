"""Definitions of the metrics of open-ended answers, multiple choice, NoveltyBench, TinyBenchmarks and PALOMA."""

from pipeline.core.language.multiple_choice import PARSERS
from pipeline.core.language.open_ended import CASE_FOLDED, SUPPORT_THRESHOLDS
from pipeline.core.prompts.multiple_choice import LETTERS
from pipeline.core.retention.perplexity import SUFFIXES
from pipeline.metrics.definition import OURS, PAPER, PROMPT_MEAN, Definition, Direction

SECTION = f"{PAPER}, Section 4.2"
PROMPTS = "prompts with a value"
ITEMS = "items"
DOCUMENTS = "documents"
NOVELTY = f"NoveltyBench (arXiv:2504.05228); {SECTION}"
CHAO = "Chao, Wang and Jost 2013"


def _open(
    title: str, definition: str, formula: str, unit: str, source: str = OURS, aggregate: str = PROMPT_MEAN
) -> Definition:
    return Definition(title, definition, formula, unit, "higher", PROMPTS, source, aggregate)


def _open_ended() -> dict[str, Definition]:
    support = "Tokens, most probable first, that hold {} of the probability of the first token of an answer."
    formula = "fewest tokens with summed probability >= {}"
    found = {
        f"top_p_support_size_at_{mass:g}": _open(
            f"Support size at {mass:g}", support.format(f"{mass:g}"), formula.format(f"{mass:g}"), "tokens"
        )
        for mass in SUPPORT_THRESHOLDS
    }
    headline = support.format("90%"), formula.format("0.9"), "tokens", SECTION
    found["top_p_support_size"] = _open("Top-90% support size", *headline)
    found["top_p_support_size_median"] = _open("Top-90% support size, median", *headline, "median over prompts")
    found["first_token_entropy_nats"] = _open(
        "First-token entropy", "Entropy of the law of an answer's first token.", "-sum of p log p", "nats"
    )
    for suffix, note in (("", ""), (CASE_FOLDED, ", case folded")):
        effective = "Size of the uniform law with the answers' entropy.", "exp(H)", "answers"
        found |= {
            f"unique_fraction{suffix}": _open(
                f"Unique outputs{note}",
                "Distinct answers over all samples, failures included, as expected at the common number of samples.",
                "distinct answers / samples",
                "share",
                SECTION,
            ),
            f"answer_entropy_nats{suffix}": _open(
                f"Answer entropy{note}",
                "Entropy of the answers, corrected for the number of samples.",
                "sum over answers of (X / n) sum_(k = X)^(n - 1) 1 / k, plus an estimate for unseen answers",
                "nats",
                CHAO,
            ),
            f"effective_answers{suffix}": _open(f"Effective answers{note}", *effective, CHAO),
            f"effective_answers{suffix}_median": _open(
                f"Effective answers{note}, median", *effective, CHAO, "median over prompts"
            ),
            f"effective_answers_plug_in{suffix}": _open(
                f"Effective answers{note}, uncorrected",
                "Effective answers of the sample's own frequencies; too small, more so for few samples.",
                "exp(-sum of p log p), p = count / n",
                "answers",
                "Hill 1973",
            ),
        }
    return found


def _multiple_choice() -> dict[str, Definition]:
    found = {}
    over = "over all questions"
    for suffix, parser in PARSERS.items():
        note = "" if parser == "strict" else f" ({parser} parser)"
        source = SECTION if parser == "strict" else OURS
        found[f"mcq_parse_rate{suffix}"] = Definition(
            f"Parse rate{note}",
            f"Share of generations that the {parser} parser accepts as a question.",
            "parsed / generations",
            "share",
            "higher",
            "generations",
            source,
            over,
        )
        found[f"mcq_total_variation{suffix}"] = Definition(
            f"Answer position, total variation{note}",
            "Total variation of the right answer's position from uniform over A to D; undefined when nothing parses. "
            "The floor is exact.",
            "1/2 sum over A to D of |share - 1/4|",
            "probability",
            "lower",
            "questions that parse",
            source,
            over,
        )
        for letter in LETTERS:
            found[f"mcq_share{suffix}_{letter.lower()}"] = Definition(
                f"Share of {letter}{note}",
                f"Share of parsed questions with the answer {letter}; balanced at 1/4.",
                f"questions with answer {letter} / questions that parse",
                "share",
                "neither",
                "questions that parse",
                source,
                over,
            )
    return found


def _novelty() -> dict[str, Definition]:
    lexical = "Distinct (word overlap)"
    distinct = "Classes of responses that say the same among ten responses to a prompt, {}."
    rated = "Ratings of the first response of each class, discounted by the patience of a reader who asks on; {}."
    formula = "sum of 0.8^i s_i / sum of 0.8^i, s_i = 0 unless response i is the first of its class"
    found = {
        "distinct": ("Distinct", distinct.format("by the benchmark's classifier"), "number of classes", "classes"),
        "distinct_lexical": (lexical, distinct.format("by word overlap"), "number of classes", "classes"),
        "utility": ("Utility", rated.format("by the benchmark's reward model"), formula, "rating, 0 to 10"),
        "utility_stand_in": (
            "Utility (stand-in)",
            rated.format("by stand-ins, not comparable with the paper"),
            formula,
            "rating, 0 to 10",
        ),
    }
    counts = {
        "novelty_pairs": ("Pairs of responses", "Pairs of responses to one prompt, over all prompts.", "pairs"),
        "novelty_pairs_compared": ("Pairs compared", "Pairs that the greedy partition compares.", "pairs"),
        "novelty_pairs_classified": ("Pairs classified", "Compared pairs that the short rule leaves open.", "pairs"),
        "novelty_classifier_calls": ("Classifier calls", "Different classified pairs.", "calls"),
        "novelty_responses": ("Responses", "Responses to all prompts.", "responses"),
        "novelty_representatives": ("Representatives", "First responses of classes, the only ones rated.", "responses"),
        "novelty_reward_calls": ("Reward calls", "Different representatives.", "calls"),
    }
    saved = {
        "classifier": ("Classifier calls saved", "Share of pairs without a call.", "1 - classifier calls / pairs"),
        "reward": ("Reward calls saved", "Share of responses without a call.", "1 - reward calls / responses"),
    }
    run = "1: one run", OURS, "over all prompts"
    return {
        **{name: Definition(*parts, "higher", PROMPTS, NOVELTY, PROMPT_MEAN) for name, parts in found.items()},
        **{
            name: Definition(title, text, "count", unit, "neither", *run)
            for name, (title, text, unit) in counts.items()
        },
        **{
            f"novelty_{name}_calls_saved": Definition(title, text, formula, "share", "higher", *run)
            for name, (title, text, formula) in saved.items()
        },
    }


def _retention() -> dict[str, Definition]:
    polo, tasks = "Polo et al. 2024 (arXiv:2402.14992)", "split all: mean over tasks, GSM8K once"

    def defined(title: str, text: str, formula: str, source: str, direction: Direction = "higher", way: str = tasks):
        return Definition(title, text, formula, "share correct", direction, ITEMS, source, way)

    difference = "own - base, on the same items"
    return {
        "gp_irt": defined(
            "gp-IRT",
            "Estimated accuracy on the whole benchmark from 100 items: IRT and p-IRT, mixed.",
            "lambda * IRT + (1 - lambda) * p-IRT",
            f"{polo}; {SECTION}",
        ),
        "p_irt": defined(
            "p-IRT",
            "Accuracy on the n items and the accuracy that item response theory predicts for the benchmark's "
            "others, by their numbers; w gives each sub-scenario the same say.",
            "(n / N) * mean over the items of w * correct "
            "+ (1 - n / N) * mean over the others of w * sigmoid(a . theta - b)",
            polo,
        ),
        "irt": defined(
            "IRT",
            "Accuracy on the items, each weighted by the part of the benchmark that it was chosen to stand for.",
            "sum over items of v * correct",
            polo,
        ),
        "accuracy": defined("Accuracy", "Share of the 100 items answered correctly.", "correct / items", SECTION),
        "gp_irt_difference": defined("gp-IRT, change", "Change of gp-IRT against base.", difference, OURS),
        "accuracy_difference": defined("Accuracy, change", "Change of accuracy against base.", difference, OURS),
        "gp_irt_paper_mean": defined(
            "gp-IRT, the paper's mean",
            "Mean of gp-IRT over six columns.",
            "mean over columns, GSM8K twice",
            f"{PAPER}, Table 21",
            way="mean over six columns",
        ),
        "gp_irt_standard_error": defined(
            "gp-IRT, standard error",
            "Standard deviation of gp-IRT over bootstrap samples of the items.",
            "sd over resamples",
            OURS,
            "neither",
        ),
        "gp_irt_published_error": defined(
            "gp-IRT, error of the method",
            "Mean absolute error over language models, as published.",
            "mean of |gp-IRT - accuracy on the whole benchmark|",
            polo,
            "neither",
            "by task",
        ),
    }


def _perplexity() -> dict[str, Definition]:
    found = {}
    pooled = "ratio of sums over documents; split all: pooled over slices"
    for variant, suffix in SUFFIXES.items():
        note = "" if variant == "model" else ", without BOS"
        tokens = f"exp({{}} / scored tokens){', no BOS token in front' if note else ''}"
        own, base = "sum of NLL", "(sum of own NLL - sum of base NLL)"
        source = f"{PAPER}, Appendix D.8"
        found |= {
            f"perplexity{suffix}": Definition(
                f"Perplexity{note}",
                "Exponential of the mean negative log-likelihood of a token; compares within a tokenizer only.",
                tokens.format(own),
                "1",
                "lower",
                DOCUMENTS,
                source,
                pooled,
            ),
            f"bits_per_byte{suffix}": Definition(
                f"Bits per byte{note}",
                "Negative log-likelihood in bits per UTF-8 byte of text.",
                "sum of NLL / (ln 2 * bytes)",
                "bits per byte",
                "lower",
                DOCUMENTS,
                source,
                pooled,
            ),
            f"perplexity_ratio{suffix}": Definition(
                f"Perplexity against base{note}",
                "Perplexity over that of base, on the same tokens.",
                tokens.format(base),
                "1",
                "lower",
                DOCUMENTS,
                OURS,
                pooled,
            ),
            f"bits_per_byte_difference{suffix}": Definition(
                f"Bits per byte, change{note}",
                "Bits per byte less those of base, on the same documents.",
                f"{base} / (ln 2 * bytes)",
                "bits per byte",
                "lower",
                DOCUMENTS,
                OURS,
                pooled,
            ),
        }
    return found


LANGUAGE: dict[str, Definition] = {**_open_ended(), **_multiple_choice(), **_novelty(), **_retention(), **_perplexity()}
