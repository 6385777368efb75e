"""Evaluations as tests make them, and as they read them."""

from seq2attn.results.metrics import Row


def row(metric, length, value, low=None, high=None, *, family="random", samples=10, trained=True):
    return Row(family, length, metric, value, low, high, samples, trained)


def value_of(record, metric, length=None, family="random"):
    """The value of a row of the JSON of an evaluation."""
    place = (metric, length)
    (found,) = (
        one
        for one in record["rows"]
        if (one["metric"], one["length"]) == place and one["family"] in (family, None)
    )
    return found["value"]


class Place:
    """The rows of one family and length, by metric; None for a metric that was not measured."""

    def __init__(self, evaluation, family, length):
        self.evaluation = evaluation
        self.family = family
        self.length = length
        self.samples, self.trained = self.exact_match.samples, self.exact_match.trained

    def __getattr__(self, metric):
        return self.evaluation.get(metric, self.length, self.family)


def places(evaluation):
    return [Place(evaluation, *place) for place in evaluation.places]
