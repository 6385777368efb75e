"""Sphinx's configuration of the site: `make site` builds it from the pages of the repository.

The source directory is the repository itself, so that links between its files, and from the
site to copies of them, are the same on the site as on a forge.
"""

import inspect
import re
import shutil
import sys
from itertools import chain, pairwise
from pathlib import Path
from pydoc import locate
from xml.etree import ElementTree

import ziamath
from docutils.nodes import SkipNode, reference
from sphinx.addnodes import download_reference
from sphinx.application import Sphinx

import seq2attn

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "docs/site"))
from reference import GENERATED  # noqa: E402

RESULTS = [  # what functions return, where `import seq2attn` does not offer it
    "seq2attn.inference.answer.Hypothesis",
    "seq2attn.results.metrics.Row",
    "seq2attn.results.answers.PairAnswer",
]
PARTS = [  # what parts of your own need, from `import seq2attn` and elsewhere
    "seq2attn.register",
    "seq2attn.Score",
    "seq2attn.Normaliser",
    "seq2attn.Window",
    "seq2attn.View",
    "seq2attn.History",
    "seq2attn.model.histories.AttentionStep",
    "seq2attn.Encoder",
    "seq2attn.Encoded",
    "seq2attn.Cell",
    "seq2attn.Decoder",
    "seq2attn.InitialState",
    "seq2attn.Loss",
    "seq2attn.StringTask",
    "seq2attn.Task",
    "seq2attn.data.batches.Examples",
    "seq2attn.Solution",
    "seq2attn.Vocabulary",
    "seq2attn.Seq2AttnError",
]
PAGES = {  # of docs/, for the landing page: name -> what a link says, and a hint
    "scaled": (
        "attention: a cause, or a picture?",
        "A trained model reverses words: guess where it looks, or leave the tour and type one.",
    ),
    "train": ("training", "Press Train, and watch attention form in a model that knows nothing."),
    "bottleneck": (
        "bottleneck",
        "Two models reverse words, with attention and without: what does it bring?",
    ),
    "width": (
        "bottleneck: a wider vector",
        "No attention, a vector of 16 numbers or of 128: how many letters come through?",
    ),
    "narrow": (
        "bottleneck: 16 numbers",
        "16 numbers, with attention and without.",
    ),
    "race": (
        "with and without attention, in training",
        "Trained before your eyes on the same batches: which one learns faster?",
    ),
    "letters": (
        "teacher forcing",
        "Force the right letters on a model, train it, and count letters and strings.",
    ),
    "unmasked": (
        "padding mask",
        "Two models, trained without a padding mask and with it: do the words beside yours matter?",
    ),
    "formulas": (
        "dot, general, additive",
        "Three scores of one query and four keys: change these, and see which one reacts.",
    ),
    "root": ("why divide by √D?", "Guess how much the best of eight keys gets, then uncover it."),
    "division": (
        "in training: s · W h",
        "s · W h with W drawn large (variance 1): divided by √D and not, on the same batches.",
    ),
    "gru": (
        "in training: s · h",
        "s · h of a GRU's states, divided by √D and not, on the same batches.",
    ),
    "scores": (
        "dot and additive, trained",
        "Equal on random strings of 8 letters. On others?",
    ),
    "copying": (
        "dot and additive, trained to copy",
        "The same two scores, on another task: is one of them still better?",
    ),
    "sorting": (
        "dot and additive, trained to sort",
        "The same two scores: which is better at putting letters in order?",
    ),
    "doubling": (
        "dot and additive, trained to duplicate",
        "The same two scores: which is better at writing a string twice?",
    ),
    "general": (
        "dot and general, trained",
        "Two products, without and with a matrix between.",
    ),
    "ranking": (
        "which score is better?",
        "Seven scores on four tasks: guess which is best, then uncover how often each is right.",
    ),
    "order": (
        "Bahdanau and Luong",
        "Attend before the cell or after it: where is the difference?",
    ),
    "window": (
        "local attention",
        "Each step reads a few positions alone, around a centre that moves.",
    ),
    "coverage": (
        "coverage",
        "Sorting, with a memory of what was read and without.",
    ),
    "monotonic": (
        "hard monotonic attention",
        "Soft and hard monotonic attention copy: where can the next step look?",
    ),
    "stuck": (
        "hard monotonic attention, reversing",
        "Soft and hard monotonic attention, trained to reverse.",
    ),
}
GROUPS = {  # the landing page's groups of pages; "Next" goes through them in this order
    "A weight": ["scaled"],
    "The bottleneck": ["bottleneck", "width", "narrow", "race"],
    "Training": ["letters", "train"],
    "Which score?": ["formulas", "scores", "copying", "sorting", "doubling", "general", "ranking"],
    "Why √D?": ["root", "division", "gru"],
    "Decoders": ["order", "monotonic", "stuck"],
    "Windows, coverage and masks": ["window", "coverage", "unmasked"],
}
UNTOURED = {"formulas", "ranking", "root"}  # pages that run no model, and have no tour
NEXT = dict(pairwise(chain(*GROUPS.values())))  # a page -> one that goes on from it

MENDED = {
    'role="heading"': 'role="heading" aria-level="2"',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    '<div class="formula">': '<div class="formula" tabindex="0">',
}
PARAMETERS = re.compile('<dl>\n((?:<dd><em class="sig-param">.*</dd>\n)+)</dl>')

ziamath.config.svg2 = False  # no ids, which several formulas of a page would share
ziamath.config.precision = 1

project = "seq2attn"
copyright = "seq2attn contributors"
version = release = seq2attn.__version__
root_doc = "docs/site/contents"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**", "examples/*.md"]
include_patterns += ["benchmarks/README.md"]
exclude_patterns = [".*", "build", "runs", "site"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]

myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4
default_role = "code"
highlight_language = "text"
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 90

html_theme = "furo"
html_title = "seq2attn"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
templates_path = ["."]
html_additional_pages = {"index": "landing.html"}
html_context = {
    "pages": {k: v for k, v in PAGES.items() if (ROOT / f"docs/{k}.html").exists()},
    "groups": GROUPS,
    "untoured": UNTOURED,
}
html_math_renderer = "svg"
html_show_search_summary = False  # it fetches pages, which a browser refuses from disk
html_copy_source = False


def setup(app: Sphinx):
    """Connect what Sphinx and MyST lack."""
    app.add_html_math_renderer("svg", (formula, None), (displayed_formula, None))
    app.connect("source-read", list_names)
    app.connect("source-read", add_generated)
    app.connect("autodoc-process-signature", hide_signature)
    app.connect("autodoc-process-docstring", mark_arguments)
    app.connect("doctree-read", link_to_copies, priority=100)  # before files are collected
    app.connect("build-finished", copy_models)
    app.connect("html-page-context", begin_at_landing_page)
    app.connect("html-page-context", mend_markup, priority=900)  # after the theme


def formula(writer, node):
    """Write a formula as an SVG on the line of the text: no fonts or scripts are needed."""
    writer.body.append(drawn(node.astext(), inline=True))
    raise SkipNode


def displayed_formula(writer, node):
    """Write a formula on lines of its own."""
    writer.body.append(f'<div class="formula">{drawn(node.astext(), inline=False)}</div>')
    raise SkipNode


def drawn(text, inline):
    """Draw a formula of LaTeX in the colour of the text around it."""
    drawing = ziamath.Latex(text, size=17, color="currentColor", inline=inline)
    svg = drawing.svgxml()
    svg.set("role", "img")
    svg.set("aria-label", text)
    svg.set("class", "formula")
    if inline:
        svg.set("style", f"vertical-align: {drawing.getyofst():.1f}px")
    return ElementTree.tostring(svg, encoding="unicode")


def list_names(app, page, source):
    """Add the public names to the page of the reference: functions, classes, what parts need."""
    if page != "docs/site/api":
        return
    names = [f"seq2attn.{name}" for name in seq2attn.__all__]
    others = [name for name in names if name not in PARTS]
    functions = [name for name in others if inspect.isfunction(locate(name))]
    classes = [name for name in others if name not in functions]
    sections = {"Functions": functions, "Classes": classes + RESULTS, "Parts of your own": PARTS}
    for title, members in sections.items():
        source[0] += f"\n{title}\n{'-' * len(title)}\n"
        for name in members:
            kind = "class" if inspect.isclass(locate(name)) else "function"
            fields = "   :undoc-members:\n" if name in sections["Classes"] else ""
            anchor = f"seq2attn.{name.split('.')[-1]}"  # what the pages of sources link to
            if anchor != name:
                source[0] += f'\n.. raw:: html\n\n   <span id="{anchor}"></span>\n'
            source[0] += f"\n.. auto{kind}:: {name}\n{fields}"


def add_generated(app, page, source):
    """Add what the program says of itself to the pages of its commands, parts and keys."""
    if page in GENERATED:
        source[0] += GENERATED[page]()


def hide_signature(app, what, name, *_):
    """Hide how results are constructed, which is not for users."""
    return ("", None) if what == "class" and name not in PARTS else None


def mark_arguments(app, what, name, thing, options, lines):
    """Turn lines `name: text` into a definition list of reStructuredText."""
    text = "\n".join(lines)
    lines[:] = re.sub(r"^([\w.]+(?:, [\w.]+)*): ", r"`\1`\n    ", text, flags=re.M).split("\n")


def link_to_copies(app, doctree):
    """Let a link to a file that is not a page lead to a copy of it, at the same place."""
    for node in list(doctree.findall(download_reference)):
        file = (Path(doctree["source"]).parent / node["reftarget"]).resolve()
        copy = app.outdir / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
        node.replace_self(reference("", "", *node.children, refuri=node["reftarget"]))


def copy_models(app, error):
    """Copy the pages that run a model, which the landing page shows, with a way back to it, and a
    way on: to a tour's first question, before the page shows the answer.
    """
    pages = {} if error else html_context["pages"]
    for name in pages:
        links = '<a id="back" href="../index.html" target="_top">All models</a>'
        following = NEXT.get(name)
        if following in pages:
            tour = "" if following in UNTOURED else "#tour=1"
            links += f' <a href="{following}.html{tour}">Next: {pages[following][0]}</a>'
        page = (ROOT / f"docs/{name}.html").read_text("utf-8")
        title = pages[name][0]
        title = title[0].upper() + title[1:]  # a concept, where the file has the names of its runs
        page = re.sub(r"<(title|h1)>.*?</", rf"<\1>{title}</", page, count=2)
        page = page.replace(
            "<body>", f'<body>\n<nav class="onward" aria-label="pages">{links}</nav>', 1
        )
        (app.outdir / f"docs/{name}.html").write_text(page, "utf-8")


def begin_at_landing_page(app, page, template, context, doctree):
    """Let the name of the project lead to the landing page, not to the table of contents."""
    context["master_doc"] = context["root_doc"] = "index"


def mend_markup(app, page, template, context, doctree):
    """Give captions the level that they lack as headings, let the keyboard scroll what is wide, and
    make lists of the parameters of a signature, which Sphinx writes as definitions without terms.
    """
    for part in ("body", "furo_navigation_tree"):
        text = context.get(part, "")
        for lacking, mended in MENDED.items():
            text = text.replace(lacking, mended)
        context[part] = PARAMETERS.sub(listed, text)


def listed(match):
    """Return a list in place of definitions."""
    items = match[1].replace("<dd>", "<li>").replace("</dd>", "</li>")
    return f'<ul class="parameters">{items}</ul>'
