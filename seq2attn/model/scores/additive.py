"""`additive`: v.tanh(W [s;h])"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.model.scores.base import Score
from seq2attn.model.scores.stepwise import StepwiseScore, scores_by_steps

AT_ONCE = 2**22  # numbers (B, L, S, D_a) that are computed at once at most; more no longer fit a processor's cache


class Additive(Score):
    """v.tanh(W [s;h]) (Bahdanau et al. 2015, appendix A.1.2; "concat" in Luong et al. 2015).

    W is split into W_s and W_h, since W [s;h] = W_s s + W_h h exactly: W_h h is computed once a sequence, and nothing
    of width D_s + D_h is ever built. No biases.

    width: D_a, the width of the hidden layer; None is the query's width.
    """

    def __init__(self, query_width: int, key_width: int, *, width: int | None = None) -> None:
        super().__init__(query_width, key_width)
        width = query_width if width is None else width
        self.query_map = nn.Linear(query_width, width, bias=False)
        self.key_map = nn.Linear(key_width, width, bias=False)
        self.v = nn.Linear(width, 1, bias=False)
        self.feature_width = width

    def project(self, keys: Tensor) -> Tensor:
        return F.linear(keys, 2 * self.key_map.weight)  # (B, S, D_a); doubled for _score

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        rows, steps, _ = query.shape
        if steps > 1 and rows * steps * keys[0].numel() > AT_ONCE:
            return scores_by_steps(self, query, keys)
        return self._score(2 * self.query_map(query).unsqueeze(2) + keys.unsqueeze(1))

    def with_features(self, query: Tensor, keys: Tensor, features: Tensor) -> Tensor:
        """v.tanh(W [s;h] + f): inside the tanh (Chorowski et al. 2015, eq. 9; See et al. 2017, eq. 11)."""
        return self._score(2 * (self.query_map(query).unsqueeze(2) + features) + keys.unsqueeze(1))

    def _score(self, doubled: Tensor) -> Tensor:
        """v.tanh(x) of 2x (B, L, S, D_a): (B, L, S).

        tanh(x) = 2 sigma(2x) - 1, and a processor computes sigma several times faster.
        """
        scores: Tensor = 2 * self.v(torch.sigmoid(doubled)).squeeze(3) - self.v.weight.sum()
        return scores

    def stepwise(self, keys: Tensor) -> StepwiseScore:
        return StepwiseAdditive(self, keys)


class StepwiseAdditive(StepwiseScore):
    """The hidden layer of one step at a time: (B, S, D_a) is computed again, (B, L, S, D_a) never stored.

    With u = 2 W_s s + 2 W_h h and h' = sigma(u), a score is 2 v.h' - sum(v), and its gradient for u is 2 v h' (1 - h').
    """

    def __init__(self, score: Additive, keys: Tensor) -> None:
        self.query_weight_t = 2 * score.query_map.weight.t()  # (D, D_a)
        self.v = 2 * score.v.weight.squeeze(0)  # (D_a,)
        self.shift = score.v.weight.sum()
        self.keys = keys
        self.hidden = torch.empty_like(keys)  # of one step; made anew each time, it would scatter the memory

    def scores(self, query: Tensor) -> Tensor:
        hidden = self._hidden(query.squeeze(1) @ self.query_weight_t)
        return (hidden.view(-1, hidden.size(2)) @ self.v).view(hidden.size(0), 1, hidden.size(1)).sub_(self.shift)

    def begin_backward(self, queries: list[Tensor]) -> None:
        self.queries = torch.cat(queries)  # (N, D)
        sizes = [query.size(0) for query in queries]
        self.mapped = list(torch.split(self.queries @ self.query_weight_t, sizes))  # 2 W_s s, (b, D_a) each
        self.slopes = torch.zeros_like(self.keys)  # the keys' gradient but for v, summed over the steps
        self.grad_v = torch.zeros_like(self.v)
        self.grad_mapped: list[Tensor] = []  # (b, D_a) each: the gradient of 2 W_s s but for v, last step first
        self.to_query = self.v.unsqueeze(1) * self.query_weight_t.t()  # (D_a, D)

    def grad_query(self, query: Tensor, grad_scores: Tensor) -> Tensor:
        hidden = self._hidden(self.mapped.pop())
        self.grad_v.addmv_(hidden.view(-1, hidden.size(2)).t(), grad_scores.flatten())
        slope = hidden.addcmul_(hidden, hidden, value=-1)  # h' (1 - h')
        self.slopes[: query.size(0)].addcmul_(grad_scores.mT, slope)  # (b, S, 1) * (b, S, D_a)
        grad_mapped = torch.bmm(grad_scores, slope)  # (b, 1, D_a)
        self.grad_mapped.append(grad_mapped.squeeze(1))
        return grad_mapped @ self.to_query

    def finish(self, queries: Tensor, grad_scores: Tensor) -> list[Tensor | None]:
        grad_mapped = torch.cat(self.grad_mapped[::-1])  # (N, D_a)
        grad_query_map = 2 * self.v.unsqueeze(1) * (grad_mapped.t() @ self.queries)
        return [self.slopes * self.v, grad_query_map, None, (2 * self.grad_v - grad_scores.sum()).unsqueeze(0)]

    def _hidden(self, mapped: Tensor) -> Tensor:
        """2 W_s s (b, D_a) -> h' (b, S, D_a)"""
        rows = mapped.size(0)
        return torch.add(self.keys[:rows], mapped.unsqueeze(1), out=self.hidden[:rows]).sigmoid_()
