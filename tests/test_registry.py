import importlib
import json
import re
import subprocess
import sys

import pytest
import torch
from pydantic import ValidationError

from seq2attn import parts
from seq2attn.build import build_score
from seq2attn.cli.list import KINDS
from seq2attn.config import check_config
from seq2attn.config.plugins import load_plugin
from seq2attn.config.schema import types_of
from seq2attn.errors import ConfigError, Seq2AttnError
from seq2attn.parts import SCORES
from seq2attn.registry import Entry, Part, Registry, UnknownName, option, options_model, register, signature_options

# ---- registry ----


def fruit():
    return Registry("fruit", [Entry("pear", "", synonyms=("nashi", "birne")), Entry("fig", "")])


def test_an_entry_is_found_by_name_and_synonym():
    registry = fruit()
    assert [registry.get(name).name for name in ("pear", "nashi", "birne", "fig")] == ["pear", "pear", "pear", "fig"]
    assert registry.names() == ["pear", "fig"]
    assert [entry.name for entry in registry] == ["pear", "fig"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (Entry("fig", ""), "fruit 'fig' is already registered (it means 'fig')"),
        (Entry("nashi", ""), "fruit 'nashi' is already registered (it means 'pear')"),
        (Entry("plum", "", synonyms=("damson", "fig")), "fruit 'fig' is already registered"),
        (Entry("plum", "", synonyms=("damson", "birne")), "fruit 'birne' is already registered (it means 'pear')"),
    ],
)
def test_a_taken_name_is_refused_and_nothing_changes(entry, message):
    registry = fruit()
    before = list(registry)
    with pytest.raises(Seq2AttnError) as caught:
        registry.add(entry)
    assert caught.value.message.startswith(message)
    assert caught.value.hint == "Choose another name for yours."
    assert list(registry) == before
    for name in ("plum", "damson"):
        with pytest.raises(UnknownName):
            registry.get(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("perr", "unknown fruit 'perr'; did you mean 'pear'? allowed: pear, fig"),
        ("nasi", "unknown fruit 'nasi'; did you mean 'nashi'? allowed: pear, fig"),
        ("FIG", "unknown fruit 'FIG'; did you mean 'fig'? allowed: pear, fig"),
        ("xyz", "unknown fruit 'xyz'; allowed: pear, fig"),
        ("", "unknown fruit ''; allowed: pear, fig"),
    ],
)
def test_an_unknown_name_lists_the_allowed_ones(name, message):
    with pytest.raises(UnknownName) as caught:
        fruit().get(name)
    assert str(caught.value) == message
    assert isinstance(caught.value, Seq2AttnError)


def test_only_an_unknown_name_searches_installed_packages(monkeypatch):
    registry, asked = fruit(), []
    monkeypatch.setattr(registry, "installed", lambda: asked.append("asked") or {})
    registry.get("pear")
    registry.get("birne")
    assert asked == []
    with pytest.raises(UnknownName):
        registry.get("lime")
    assert asked == ["asked"]


def test_a_class_is_imported_when_it_is_loaded():
    assert Entry("a", "", implementation="json:JSONDecoder").load() is json.JSONDecoder
    assert Entry("a", "", implementation=json.JSONDecoder).load() is json.JSONDecoder
    assert Entry("a", "").load() is None


# ---- options ----


def declared(model):
    """The types and the default of each option."""
    return {name: (types_of(one), one.default) for name, one in model.model_fields.items() if name != "name"}


def even(value):
    if value % 2:
        raise ValueError("must be even")
    return value


@pytest.mark.parametrize(
    ("declaration", "right", "wrong"),
    [
        (option(int, 1, "m"), [0, -3, 10**30], [1.0, True, None, "3"]),
        (option(int, None, "m"), [None, 3], ["x"]),
        (option(float, 1.0, "m"), [1, -0.5, 1e300], [float("nan"), float("inf"), True, 10**400]),
        (option(float, 1.0, "m", above=0), [1e-9], [0, -1.0]),
        (option(bool, True, "m"), [True, False], [1]),
        (option(str, "a", "m"), ["", "b"], [3, ["b"]]),
        (option(int, 1, "m", least=1, most=2000), [1, 2000], [0, 2001]),
        (option(int, 2, "m", check=even), [4], [3, "4"]),
    ],
)
def test_an_option_accepts_its_values_only(declaration, right, wrong):
    model = options_model(size=declaration)
    assert [model.model_validate({"name": "part", "size": value}).size for value in right] == right
    for value in wrong:
        with pytest.raises(ValidationError):
            model.model_validate({"name": "part", "size": value})


def test_the_options_of_a_constructor_are_its_parameters_with_a_plain_default():
    class Part:
        def __init__(
            self, a, b, c=1, *, d=0.5, e=True, f="x", g: int | None = None, h=None, i=(), j: "str | None" = None
        ):
            pass

    assert declared(options_model(**signature_options(Part))) == {
        "c": ({int}, 1),
        "d": ({float}, 0.5),
        "e": ({bool}, True),
        "f": ({str}, "x"),
        "g": ({int, None}, None),
        "j": ({str, None}, None),
    }


def test_annotations_that_cannot_be_resolved_leave_the_other_options():
    class Part:
        def __init__(self, a: "NotImported", b=2, c: "int | None" = None):  # noqa: F821
            pass

    assert list(signature_options(Part)) == ["b"]


# ---- registering and making, the same for every kind ----


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
            self.made_with = (provided, size)

    entry = registry.get("own")
    assert (entry.name, entry.formula, entry.summary, entry.load()) == ("mine", "f", "My own.", Mine)
    assert registry.choose("own") == Part("mine", {"size": 3})
    assert registry.make(registry.choose("mine", size=4), "a", 2).made_with == (("a", 2), 4)
    key = KINDS[next(kind for kind, (_, one) in KINDS.items() if one is registry)][0]
    assert not told(f"{key}.size=5", f"{key}=mine")
    assert f"{key}.size (--set '{key}.size=x'): expected a whole number" in told(f"{key}=mine", f"{key}.size=x")


def test_a_name_without_a_class_makes_nothing():
    assert parts.WINDOWS.make(parts.WINDOWS.choose("global"), 4) is None


def test_a_constructor_s_exception_is_reported_with_the_call(own_scores):
    class Base:
        registry = parts.HISTORIES

    @register("mine")
    class Mine(Base):
        def __init__(self, feature_width, *, size=3, error=""):
            if error:
                raise Seq2AttnError(error)
            raise ValueError("boom")

    with pytest.raises(Seq2AttnError) as caught:
        parts.HISTORIES.make(Part("mine", {"size": 4}), 5, fruit())
    assert caught.value.message == (
        "history 'mine' cannot be made: Mine(5, Registry, size=4) raised TypeError: " + str(caught.value.__cause__)
    )
    with pytest.raises(Seq2AttnError) as caught:
        parts.HISTORIES.make(Part("mine", {"size": 4}), 5)
    assert caught.value.message == "history 'mine' cannot be made: Mine(5, size=4) raised ValueError: boom"
    assert caught.value.hint == "Its constructor takes what that of its base class takes, then its options."
    with pytest.raises(Seq2AttnError, match=r"^mine to tell$"):
        parts.HISTORIES.make(Part("mine", {"error": "mine to tell"}), 5)


def test_an_option_cannot_be_called_name(own_scores):
    class Base:
        registry = SCORES

    with pytest.raises(
        Seq2AttnError, match="score 'mine' has an option called 'name', which in a config names the score"
    ):

        @register("mine")
        class Mine(Base):
            def __init__(self, query_width, key_width, name="x"):
                pass


# ---- parts ----

REGISTRIES = [registry for _, registry in KINDS.values()]


@pytest.mark.parametrize(
    ("name", "synonyms", "equal_widths"),
    [
        ("dot", [], True),
        ("scaled", ["scaled_dot"], True),
        ("general", ["bilinear", "multiplicative"], False),
        ("scaled_general", ["scaled_bilinear"], False),
        ("additive", ["concat", "bahdanau"], False),
        ("none", [], False),
    ],
)
def test_scores_have_the_names_used_in_the_literature(name, synonyms, equal_widths):
    assert SCORES.get(name).name == name
    assert [SCORES.get(synonym).name for synonym in synonyms] == [name] * len(synonyms)
    assert SCORES.get(name).equal_widths is equal_widths


@pytest.mark.parametrize("name", ["reverse", "copy", "sort", "duplicate", "dates", "pairs"])
def test_tasks_have_the_names_of_the_specification(name):
    assert parts.TASKS.get(name).name == name


@pytest.mark.parametrize(
    "registry",
    REGISTRIES,
    ids=lambda registry: registry.kind,
)
def test_every_entry_has_a_formula_and_a_class_that_can_be_imported(registry):
    for entry in registry:
        assert entry.formula
        assert entry.name == entry.name.lower()
        if entry.implementation is not None:
            assert isinstance(entry.load(), type)


@pytest.mark.parametrize(
    "entry",
    [entry for one in parts.EXTENSIBLE for entry in one if entry.implementation is not None],
    ids=lambda entry: entry.implementation,
)
def test_the_options_of_built_in_parts_are_those_of_the_constructor(entry):
    assert declared(entry.options) == declared(options_model(**signature_options(entry.load())))


def told(*overrides):
    """What is wrong with the default config and these overrides; the empty string if nothing is."""
    try:
        check_config({"evaluation": {"lengths": [3]}}, overrides)
    except ConfigError as error:
        return str(error)
    return ""


def test_every_listed_name_is_accepted_by_its_key():
    for key, registry in KINDS.values():
        assert "unknown" in told(f"{key}=no-such-name")
        for entry in registry:
            for name in (entry.name, *entry.synonyms):
                assert "unknown" not in told(f"{key}={name}")  # with the defaults it may be a wrong combination


def test_parts_config_and_plugins_import_no_torch():
    code = (
        "import sys, seq2attn.config.plugins, seq2attn.runs.run\n"
        "from seq2attn.config import check_config\n"
        "check_config({'model': {'attention': {'score': {'name': 'concat', 'width': 3}}}})\n"
        "print([name for name in ('torch', 'numpy', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# ---- plug-ins ----

DISTANCE = """\
import torch
from seq2attn.model.scores import Score, register


@register("distance", formula="-k |s - h|^2", synonyms=("euclid",), equal_widths=True)
class Distance(Score):
    \"\"\"Nearer is better.

    More words.
    \"\"\"

    def __init__(self, query_width, key_width, factor=1.0, word="x", rows=3, on=True, other=None):
        super().__init__(query_width, key_width)
        self.factor = factor

    def forward(self, query, keys):
        return -self.factor * torch.cdist(query, keys) ** 2
"""

BARE = """\
from seq2attn.model.scores import Score, register


@register("mine", formula="?")
class Mine(Score):
    def forward(self, query, keys):
        return {result}
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch, own_scores):
    monkeypatch.chdir(tmp_path)

    def load(text, name="plugin.py"):
        path = tmp_path / name
        path.write_text(text)
        return load_plugin(path.relative_to(tmp_path))

    return load


def test_a_plugin_registers_a_score(plugin):
    assert plugin(DISTANCE) == [("score", "distance")]
    entry = SCORES.get("euclid")
    assert (entry.name, entry.summary, entry.equal_widths) == ("distance", "Nearer is better.", True)
    expected = {"factor": ({float}, 1.0), "word": ({str}, "x"), "rows": ({int}, 3), "on": ({bool}, True)}
    assert declared(entry.options) == expected
    score = build_score("distance", 2, 2, {"factor": 0.5})
    query, keys = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[4.0, 6.0], [1.0, 2.0]]])
    # distances 5 and 0, so -25/2 and 0
    assert score(query, keys) == pytest.approx(torch.tensor([[[-12.5, 0.0]]]), abs=1e-5)


def test_a_plugin_without_a_docstring_has_no_summary(plugin):
    assert plugin(re.sub(r'""".*?"""', "", DISTANCE, flags=re.DOTALL)) == [("score", "distance")]
    assert SCORES.get("distance").summary == ""


def test_a_plugin_s_score_and_options_are_checked_in_a_config(plugin):
    plugin(DISTANCE)
    options = {"factor": 2, "word": "y", "rows": 4, "on": False}
    config = check_config({"model": {"attention": {"score": {"name": "euclid", **options}}}})
    assert config.model.attention.score == Part("distance", options)
    attention = {"score": {"name": "euclid", "factor": "x", "word": 3, "rows": None, "on": 1, "other": 1}}
    with pytest.raises(ConfigError) as caught:
        check_config({"model": {"bidirectional": True, "attention": attention}})
    assert {problem.path.removeprefix("model.attention."): problem.message for problem in caught.value.problems} == {
        "score": "'distance' needs queries and keys of equal width, but a bidirectional encoder's keys are 2 x 96 wide "
        "and the decoder's queries 96; use general, scaled_general, additive or key_value, or set model.bidirectional "
        "to false",
        "score.factor": "expected a number, found 'x'",
        "score.word": "expected text, found 3; put it in quotes",
        "score.rows": "expected a whole number, found nothing",
        "score.on": "expected true or false, found 1",
        "score.other": "unknown key; allowed here: factor, on, rows, word",
    }


@pytest.mark.parametrize("factor", [-1.0, 0, 2])
def test_a_plugin_s_number_accepts_any_finite_value(plugin, factor):
    plugin(DISTANCE)
    values = {"model": {"attention": {"score": {"name": "distance", "factor": factor, "rows": -3}}}}
    options = check_config(values).model.attention.score.keywords
    assert (options["factor"], options["rows"]) == (factor, -3)
    values["model"]["attention"]["score"]["factor"] = float("-inf")
    with pytest.raises(ConfigError, match="must be a finite number, found -inf"):
        check_config(values)


def test_the_example_in_the_scores_docstring_is_a_plugin(plugin):
    from seq2attn.model import scores

    example = [line.removeprefix("    ") for line in scores.__doc__.splitlines() if line.startswith("    ") or not line]
    assert plugin("\n".join(example)) == [("score", "distance")]
    build_score("distance", 4, 4, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = (\n", "plugin plugin.py:2: '(' was never closed"),
        ("x = 1\n\nraise ValueError('boom')\n", "plugin plugin.py:3: ValueError: boom"),
        ("def f():\n    1 / 0\n\n\nf()\n", "plugin plugin.py:2: ZeroDivisionError: division by zero"),
        ("\nimport no_such_module\n", "plugin plugin.py:2: ModuleNotFoundError: No module named 'no_such_module'"),
        ("\nimport sys\nsys.exit('bye')\n", "plugin plugin.py:3: SystemExit: bye"),
        ("import broken\n", "plugin plugin.py:1: {folder}/broken.py:3: invalid syntax"),
        ("x = 1\n", "plugin plugin.py: registered nothing"),
        (DISTANCE.replace('"distance"', '"dot"'), "plugin plugin.py:5: score 'dot' is already registered"),
        (DISTANCE.replace("euclid", "concat"), "plugin plugin.py:5: score 'concat' is already registered (it means "),
        (
            "from seq2attn.model.scores import register\n\n\n@register('mine', formula='')\nclass Mine:\n    pass\n",
            "plugin plugin.py:4: @register('mine') decorates <class ",
        ),
    ],
)
def test_an_error_in_a_plugin_has_file_and_line(plugin, tmp_path, monkeypatch, text, message):
    (tmp_path / "broken.py").write_text("x = 1\n\nif:\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = SCORES.names()
    with pytest.raises(Seq2AttnError) as caught:
        plugin(text)
    assert caught.value.message.startswith(message.format(folder=tmp_path))
    assert caught.value.exit_code == 2
    assert SCORES.names() == before


def test_an_error_in_a_plugin_has_a_hint(plugin):
    with pytest.raises(Seq2AttnError) as caught:
        plugin("x = 1\n")
    assert caught.value.hint.startswith("Decorate a class with @register(")
    with pytest.raises(Seq2AttnError) as caught:
        plugin(DISTANCE.replace('"distance"', '"dot"'))
    assert caught.value.hint == "Choose another name for yours."


def test_a_plugin_that_is_missing_or_not_python(tmp_path, plugin):
    with pytest.raises(Seq2AttnError, match=r"^plugin nowhere.py: no such file$"):
        load_plugin((tmp_path / "nowhere.py").relative_to(tmp_path))
    with pytest.raises(Seq2AttnError, match=r"^plugin notes.txt: not a Python file \(its name must end with .py\)$"):
        plugin(DISTANCE, "notes.txt")


def test_a_plugin_named_twice_is_refused(plugin):
    plugin(DISTANCE)
    with pytest.raises(Seq2AttnError, match="'distance' is already registered"):
        plugin(DISTANCE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            BARE.format(result="query"),
            r"score 'mine' returned (2, 4, 5) for query (2, 4, 5) and keys (2, 3, 7); expected (B, L, S) = (2, 4, 3)",
        ),
        (BARE.format(result="3"), "score 'mine' returned int for query"),
        (
            BARE.format(result="query @ keys.transpose(1, 2)"),
            "score 'mine' failed on query (2, 4, 5) and keys (2, 3, 7): RuntimeError: ",
        ),
        (
            BARE.format(result="0") + "\n    def __init__(self, width):\n        pass\n",
            "score 'mine' cannot be made: Mine(5, 7) raised TypeError: ",
        ),
        (
            BARE.format(result="0")
            + "\n    def __init__(self, query_width, key_width):\n        raise KeyError('boom')\n",
            "score 'mine' cannot be made: Mine(5, 7) raised KeyError: 'boom'",
        ),
    ],
)
def test_a_plugin_s_broken_score_is_reported_before_it_is_used(plugin, text, message):
    plugin(text)
    with pytest.raises(Seq2AttnError) as caught:
        build_score("mine", 5, 7, {})
    assert caught.value.message.startswith(message)


# ---- scores of installed packages ----


@pytest.fixture
def install(tmp_path, monkeypatch, own_scores):
    """`install("distance", "module:Class", text)`: a package with that entry point and that module."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def make(name, target, text, kind="scores"):
        module = target.partition(":")[0]
        (tmp_path / f"{module}.py").write_text(text)
        metadata = tmp_path / f"{module}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[seq2attn.{kind}]\n{name} = {target}\n")
        importlib.invalidate_caches()

    return make


def test_an_installed_score_is_imported_when_a_config_names_it(install):
    install("distance", "installed_score_1:Distance", DISTANCE)
    assert SCORES.installed() == {"distance": "installed_score_1:Distance"}
    check_config({"model": {"attention": {"score": "dot"}}})
    assert "installed_score_1" not in sys.modules
    config = check_config({"model": {"attention": {"score": {"name": "distance", "factor": 2.0}}}})
    assert config.model.attention.score == Part("distance", {"factor": 2.0, "word": "x", "rows": 3, "on": True})
    assert SCORES.get("euclid").name == "distance"
    assert build_score("distance", 2, 2, {}).factor == 1.0


@pytest.mark.parametrize(
    ("target", "text", "message"),
    [
        (
            "installed_score_2:Distance",
            "import no_such_module\n",
            "score 'mine' is offered by an installed package (installed_score_2:Distance) that cannot be imported: "
            "ModuleNotFoundError: No module named 'no_such_module'",
        ),
        (
            "installed_score_3:Nothing",
            DISTANCE,
            "score 'mine' is offered by an installed package (installed_score_3:Nothing) that cannot be imported: "
            "AttributeError: ",
        ),
        (
            "installed_score_4:Distance",
            DISTANCE,
            "score 'mine' is offered by an installed package (installed_score_4:Distance) that registers no such score",
        ),
    ],
)
def test_a_broken_installed_score_is_a_problem_of_the_config(install, target, text, message):
    install("mine", target, text)
    with pytest.raises(ConfigError) as caught:
        check_config({"model": {"attention": {"score": "mine"}}})
    (problem,) = caught.value.problems
    assert problem.path == "model.attention.score"
    assert problem.message.startswith(message)


def test_a_part_of_any_kind_can_be_installed(install):
    text = """\
from seq2attn.parts import HISTORIES
from seq2attn.registry import register


@register("mine")
class Mine:
    registry = HISTORIES
"""
    install("mine", "installed_score_6:Mine", text, "histories")
    assert parts.HISTORIES.installed() == {"mine": "installed_score_6:Mine"}
    assert check_config({}, ["model.attention.history=mine"]).model.attention.history == Part("mine")


def test_an_installed_score_cannot_take_a_built_in_name(install):
    install("dot", "installed_score_5:Distance", DISTANCE)
    assert SCORES.get("dot").load().__module__ == "seq2attn.model.scores.dot"
    assert "installed_score_5" not in sys.modules
