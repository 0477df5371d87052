"""Files of laws: each kind becomes its prompts and laws, and each mistake one sentence."""

import numpy as np
import pytest
import yaml

from pipeline.core.laws.family import Law
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.errors import ArtifactError, ConfigError
from pipeline.sources.own_laws import own_prompts
from tests.conftest import ROOT

CITIES = {
    "kind": "categorical",
    "templates": {"train": ["Name a city."], "test": ["Pick a city."]},
    "probabilities": {"New York": 0.5, "New": 0.5},
}
REGIONS = {
    "kind": "conditional",
    "templates": {"train": ["A customer from {region} buys"], "test": ["{region}: a customer buys"]},
    "table": "sales.csv",
    "column": "product",
    "weight": "sold",
    "fields": ["region"],
    "held_out": {"region": ["South"]},
}
SALES = "region,product,sold\nNorth,tea,3\nNorth,coffee,1\nSouth,tea,1\nSouth,cocoa,4\nNorth,tea,2\n"
GAMMA = {
    "kind": "scipy",
    "templates": {"train": ["Gamma with {a} and {scale}"]},
    "distribution": "gamma",
    "parameters": {"a": [1, 2.5], "scale": [1, 10, 100]},
    "held_out": {"a": [4]},
}
CHOICE = {
    "kind": "choice",
    "templates": {"train": ["{options}"]},
    "words": {"train": ["red", "blue"]},
    "chances": {"train": ["percent"]},
    "requests_per_template": 1,
    "test_requests": 1,
}
LENGTH = {"train": ["A length, please."]}
NUMBERS = {"kind": "empirical", "templates": LENGTH, "table": "lengths.csv", "column": "length"}
LENGTHS = "length\n1.5\n2.25\n1.50\n-0.1\n"


@pytest.fixture
def read(tmp_path):
    def prompts_of(content: dict, tables: dict[str, str] | None = None):
        (tmp_path / "law.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
        for name, text in (tables or {}).items():
            (tmp_path / name).write_text(text)
        return own_prompts({"own": str(tmp_path / "law.yaml")})

    return prompts_of


def test_a_law_written_out_is_asked_with_both_kinds_of_templates(read):
    train, test = read(CITIES | {"spellings": {"New York": ["New York", "NYC"]}})
    assert [(p.split, p.text) for p in train] == [("train", "Name a city.")]
    assert [(p.split, p.text) for p in test] == [
        ("seen_template", "Name a city."),
        ("held_out_template", "Pick a city."),
    ]
    law = train[0].law
    assert law.strings == ("New York", "NYC", "New") and law.probabilities == (0.25, 0.25, 0.5)
    assert {p.family for p in test} == {"own"} and len({p.prompt_id for p in test}) == 2


def test_conditional_laws_hold_out_values_whose_law_is_known(read):
    train, test = read(REGIONS, {"sales.csv": SALES})
    assert [p.parameters for p in train] == [{"region": "North"}]
    assert dict(zip(train[0].law.strings, train[0].law.probabilities, strict=True)) == pytest.approx(
        {"tea": 5 / 6, "coffee": 1 / 6}
    )
    (held_out,) = (p for p in test if p.split == "held_out_field")
    assert held_out.text == "South: a customer buys" and held_out.law.strings == ("tea", "cocoa")


def test_scipys_laws_are_a_grid_with_held_out_points(read):
    train, test = read(GAMMA)
    assert [p.law for p in train[:2]] == [Law("gamma", {"a": 1.0, "scale": scale}) for scale in (1.0, 10.0)]
    assert len(train) == 6 and [p.split for p in test] == ["seen_template"] * 6 + ["held_out_field"] * 3
    assert train[1].text == "Gamma with 1 and 10" and {p.parameters["a"] for p in test[6:]} == {4}


def test_a_column_of_numbers_has_its_own_decimals(read):
    law = read(NUMBERS, {"lengths.csv": LENGTHS})[0][0].law
    assert isinstance(law, FiniteLaw)
    assert law.strings == ("-0.10", "1.50", "2.25") and law.probabilities == (0.25, 0.5, 0.25)
    assert read(NUMBERS | {"decimals": 0})[0][0].law.strings == ("0", "2")
    smooth = read(NUMBERS | {"smoothing": "kernel"})[0][0].law
    assert smooth.support == (-0.1, 2.25) and len(smooth.strings) == 236
    assert np.isclose(sum(smooth.probabilities), 1)
    # Codes are no numbers.
    codes = read(NUMBERS, {"lengths.csv": "length\n007\n12\n"})[0][0].law
    assert codes.values is None and codes.strings == ("007", "12")


BAD = [
    (CITIES | {"probabilities": {"a": 0.5, "b": 0.4}}, {}, "law.yaml: the probabilities sum to 0.9, which is 0.1 off"),
    (CITIES | {"probabilities": {" a": 1.0}}, {}, "without white space"),
    (CITIES | {"kind": "magic"}, {}, "got 'magic'; scipy, categorical, empirical, conditional, choice are allowed"),
    (CITIES | {"weights": {}}, {}, "weights: unknown key; the keys allowed here are kind, templates, probabilities"),
    (CITIES | {"templates": {"train": []}}, {}, "templates.train"),
    (CITIES | {"templates": {"train": ["In {region}"]}}, {}, "unknown field 'region'"),
    (CITIES | {"templates": {"train": ["a } b"]}}, {}, "malformed"),
    (CITIES | {"templates": {"train": ["a", "a"]}}, {}, "'a' is made twice"),
    (REGIONS | {"templates": {"train": ["Someone buys"]}}, {"sales.csv": SALES}, r"without its field {region}"),
    (REGIONS | {"fields": []}, {"sales.csv": SALES}, "fields: conditional laws need"),
    (REGIONS | {"fields": ["country"], "held_out": {}}, {"sales.csv": SALES}, "no column 'country'; its columns are"),
    (REGIONS | {"held_out": {"region": ["East"]}}, {"sales.csv": SALES}, "no row of sales.csv has the value 'East'"),
    (REGIONS | {"held_out": {"region": ["North", "South"]}}, {"sales.csv": SALES}, "nothing to train on"),
    (REGIONS, {"sales.csv": SALES.replace("tea,3", "tea,-3")}, r"'sold' must hold numbers above 0, got '-3' \(row 1\)"),
    (REGIONS, {"sales.csv": SALES.replace("cocoa", "")}, r"column 'product' has an empty cell \(row 4\)"),
    (REGIONS | {"table": "nowhere.csv"}, {}, "nowhere.csv does not exist"),
    (REGIONS | {"table": "sales.xls"}, {}, "a table is a file .csv"),
    (REGIONS | {"table": "../sales.csv"}, {}, "must lie beside the law's file"),
    (REGIONS | {"smoothing": "kernel"}, {"sales.csv": SALES}, "holds texts"),
    (GAMMA | {"distribution": "gama"}, {}, "scipy.stats has no distribution 'gama'"),
    (GAMMA | {"parameters": {"a": 1, "b": 2}}, {}, "parameters: gamma takes a, loc, scale and needs a, got a, b"),
    (GAMMA | {"parameters": {"a": -1, "scale": 1}}, {}, "SciPy rejects"),
    (CHOICE | {"templates": {"train": ["{a} or {c}"]}}, {}, "unknown field 'c'; there are"),
    (CHOICE | {"templates": {"train": ["{a} it is"]}}, {}, "is without {a} or {b}"),
    (CHOICE | {"templates": {"train": ["{a} or {b}, {weight_a}"]}}, {}, "needs {weight_a} and {weight_b}"),
    (CHOICE | {"templates": {"train": ["{options} {times}"]}}, {}, "needs {separator} beside"),
    (CHOICE | {"words": {"train": ["red", "blue"], "test": ["red", "teal"]}}, {}, "'red' is both trained on and held"),
    (CHOICE | {"chances": {"train": ["percent"], "test": ["ratio"]}}, {}, "no template of train names {chance_a}"),
    (CHOICE | {"words": {"train": ["red", "blue"], "test": ["teal"]}}, {}, "words.test: one word is no choice"),
]


@pytest.mark.parametrize(("content", "tables", "message"), BAD, ids=[message[:30] for *_, message in BAD])
def test_a_mistake_is_one_sentence(read, content, tables, message):
    with pytest.raises((ConfigError, ArtifactError), match=message):
        read(content, tables)


def test_probabilities_of_a_table_are_meant_as_they_stand(read):
    table = "product,probability\ntea,0.7\ncoffee,0.2\n"
    law = {"kind": "categorical", "templates": {"train": ["A drink"]}, "table": "d.csv", "column": "product"}
    with pytest.raises(ArtifactError, match="sum to 0.9"):
        read(law | {"weight": "probability"}, {"d.csv": table})
    with pytest.raises(ArtifactError, match="'tea' is there twice"):
        read(law | {"weight": "probability"}, {"d.csv": table.replace("coffee,0.2", "tea,0.3")})
    assert read(law | {"weight": "probability"}, {"d.csv": table.replace("0.2", "0.3")})[0][0].law.strings


def test_laws_of_several_files_do_not_ask_the_same(tmp_path):
    (tmp_path / "law.yaml").write_text(yaml.safe_dump(CITIES))
    with pytest.raises(ConfigError, match="laws: a and b both ask 'Name a city.'"):
        own_prompts({"a": str(tmp_path / "law.yaml"), "b": str(tmp_path / "law.yaml")})
    with pytest.raises(ConfigError, match="laws.a: .*nowhere.yaml does not exist"):
        own_prompts({"a": str(tmp_path / "nowhere.yaml")})


def test_the_examples_are_read_and_their_tables_follow_from_what_the_readme_says(tmp_path, monkeypatch):
    made_here = ("choices", "coins", "pairs")
    files = {path.stem: str(path) for path in (ROOT / "data" / "laws").glob("*.yaml") if path.stem not in made_here}
    train, test = own_prompts(files)
    assert {p.family for p in train} == {"destination", "delivery_hours", "drinks"}
    assert {p.split for p in test} == {"seen_template", "held_out_template", "held_out_field"}
    code = (ROOT / "data" / "laws" / "README.md").read_text().split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    for table in ("delivery_hours.csv", "drinks.csv"):
        assert (tmp_path / table).read_bytes() == (ROOT / "data" / "laws" / table).read_bytes()
