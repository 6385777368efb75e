import re

import pytest
import yaml
from refusal import refused
from tables import table

import seq2attn
from seq2attn import parts
from seq2attn.config import check_config
from seq2attn.errors import ConfigError
from seq2attn.parts import KINDS, SCORES, options, register, signature_options
from seq2attn.plugins import load_plugin
from seq2attn.registry import Entry, Registry

# ---- registry ----


def fruit():
    registry = Registry("fruit", "fruit")
    registry.add(Entry("pear", synonyms=("nashi", "birne")))
    registry.add(Entry("fig"))
    return registry


def test_an_entry_is_found_by_name_and_synonym():
    registry = fruit()
    assert [
        registry.get(name).name for name in "pear nashi birne fig".split()
    ] == "pear pear pear fig".split()
    assert registry.names() == [entry.name for entry in registry] == ["pear", "fig"]
    assert registry.choose() == registry.choose("birne") == registry.validate({})


@table(
    "synonyms",
    """
fig
nashi
damson birne
""",
)
def test_a_taken_name_is_refused_and_nothing_changes(synonyms):
    registry = fruit()
    synonyms = synonyms.split()
    with refused(f"^fruit '{synonyms[-1]}' is already registered; choose another name$"):
        registry.add(Entry("plum", synonyms=synonyms))
    for name in ("plum", "damson"):
        with refused(f"unknown fruit '{name}'"):
            registry.get(name)


# ---- options ----


def declared(model):
    """The types and the default of each option."""
    schema = model.model_json_schema()["properties"]
    types = {
        name: {kind.get("type") for kind in one.get("anyOf", [one])} for name, one in schema.items()
    }
    return {
        name: [sorted(types[name]), one.default]
        for name, one in model.model_fields.items()
        if name != "name"
    }


DECLARED = """
c: [[integer], 1]
d: [[number], 0.5]
e: [[boolean], true]
f: [[string], x]
g: [[integer, "null"], null]
j: [["null", string], null]
m: [[number], 1]
copy: [[integer], 2]
"""  # the types and the default of each


def test_the_options_of_a_constructor_are_its_parameters_with_a_plain_default():
    class Mine:
        def __init__(
            self,
            a,
            b,
            c=1,
            *,
            d=0.5,
            e=True,
            f="x",
            g: int | None = None,
            h=None,
            i=(),
            copy=2,
            _k=3,
            j: "str | None" = None,
            m: float = 1,
        ):
            pass

    class Unresolved:
        def __init__(self, a: "NotImported", b=2, c: "int | None" = None):  # noqa: F821
            pass

    assert declared(options(signature_options(Mine))) == yaml.safe_load(DECLARED)
    assert list(signature_options(Unresolved)) == ["b"]


# ---- registering and making, the same for every kind ----


def told(*overrides):
    """What is wrong with the default config and these overrides; the empty string if nothing is."""
    try:
        check_config({"evaluation": {"lengths": [3]}}, overrides)
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("registry", parts.EXTENSIBLE, ids=lambda registry: registry.kind)
def test_a_part_of_any_kind_is_registered_chosen_and_made_in_the_same_way(registry, own_scores):
    class Base:
        pass

    Base.registry = registry

    @register("mine", formula="f", synonyms=("own",))
    class Mine(Base):
        """My own.

        More.
        """

        def __init__(self, *provided, size=3):
            if not provided:
                raise ValueError("boom")
            self.made_with = (provided, size)

    entry = registry.get("own")
    assert entry.name == "mine"
    assert entry.formula == "f"
    assert entry.summary == "My own."
    assert entry.load() == Mine
    assert dict(registry.choose("own")) == {"name": "mine", "size": 3}
    assert registry.choose("mine", size=4).make("a", 2).made_with == (("a", 2), 4)
    key = registry.config_key
    assert not told(f"{key}.size=5", f"{key}=mine")
    assert f"{key}.size (--set '{key}.size=x'): should be a whole number" in told(
        f"{key}=mine", f"{key}.size=x"
    )
    with pytest.raises(ValueError, match="boom"):
        registry.choose("mine").make()


def test_a_class_that_cannot_be_a_part_is_refused(own_scores):
    with refused(r"decorates int, which is not a part that a config can name") as caught:
        register("mine")(int)
    bases = [base for base in seq2attn.__all__ if hasattr(getattr(seq2attn, base), "registry")]
    assert set(re.findall("[A-Z][A-Za-z]+", caught.value.hint)) == {"Decorate", *bases}


# ---- the parts that there are ----


@pytest.mark.parametrize("registry", KINDS.values(), ids=lambda registry: registry.kind)
def test_every_entry_has_a_formula_and_the_options_of_its_class(registry):
    for entry in registry:
        assert entry.formula
        assert entry.name == entry.name.lower()
        if entry.implementation is not None and not entry.files:
            assert declared(entry.options) == declared(options(signature_options(entry.load())))


@table(
    "task",
    """
reverse
duplicate
recopy
dedupe
""",
)
def test_the_longest_string_of_training_is_the_longest_that_can_be_measured(task):
    for key in ("task.max_length", "evaluation.lengths"):
        assert not told(f"task={task}", f"{key}={parts.LONGEST}")
        assert told(f"task={task}", f"{key}={parts.LONGEST + 1}")


def test_every_listed_name_is_accepted_by_its_key():
    for registry in KINDS.values():
        key = registry.config_key
        assert "unknown" in told(f"{key}=no-such-name")
        for name in (name for entry in registry for name in (entry.name, *entry.synonyms)):
            assert "unknown" not in told(
                f"{key}={name}"
            )  # with the defaults it may be a wrong combination


# ---- plug-ins ----

DISTANCE = """\
from seq2attn import Score, register


@register("distance", synonyms=("euclid",))
class Distance(Score):
    \"\"\"Nearer is better.\"\"\"

    def __init__(self, query_width, key_width, factor=1.0):
        super().__init__(query_width, key_width)

    def forward(self, query, keys): ...
"""


def test_a_plugin_that_is_loaded_again_replaces_its_score(tmp_path, own_scores):
    path = tmp_path / "plugin.py"
    for text in (
        DISTANCE,
        DISTANCE.replace("better", "worse"),
    ):  # as a notebook's cell that is run again
        path.write_text(text)
        assert [cls.__name__ for cls in load_plugin(path)] == ["Distance"]
    assert SCORES.get("euclid").summary == "Nearer is worse."


def test_a_class_that_a_notebook_defines_again_replaces_itself(own_scores):
    for summary in ("First.", "Second."):

        @register("mine")
        class Mine(seq2attn.Score):
            def forward(self, query, keys): ...

            __doc__ = summary

    assert SCORES.get("mine").summary == "Second."


def test_a_lack_of_memory_is_no_mistake_of_the_part(own_scores):
    @register("hungry")
    class Hungry(seq2attn.Score):
        """Takes more than there is."""

        def __init__(self, query_width, key_width):
            raise MemoryError

        def forward(self, query, keys): ...

    with pytest.raises(MemoryError):
        SCORES.choose("hungry").make(2, 2)
